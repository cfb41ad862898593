//! A thread: a stack of frames, its local memory, and what it waits for.

use ptxjit_ir::{BarrierOp, Block, BlockCall, FuncId, Function, SrcLoc, Type, Value, WarpOp};
use smallvec::SmallVec;

use crate::warp::Args;
use crate::watch::shadow::Shadow;

/// One thread of a CTA.
pub(crate) struct Thread<'p> {
    /// Linear number of its CTA in the grid.
    pub(crate) cta: u32,
    /// `%tid`.
    pub(crate) tid: [u32; 3],
    /// Number in the CTA.
    pub(crate) linear: u32,
    pub(crate) state: State<'p>,
    /// Active calls, the kernel first. Empty once the thread has ended.
    pub(crate) frames: Vec<Frame<'p>>,
    /// Local memory in use; grows on demand.
    pub(crate) local: Vec<u8>,
    /// Where free local memory begins.
    pub(crate) stack_top: u64,
    /// The statement last executed.
    pub(crate) loc: SrcLoc,
    /// Shadows of the operands of the warp operation that it waits for.
    pub(crate) waiting_shadows: SmallVec<[Shadow; 4]>,
    /// Start and end of the variables on its stack, where bounds are exact.
    pub(crate) objects: Vec<(u64, u64)>,
    pub(crate) spin: Spin,
    /// It has not begun, where gangs run by a plan.
    pub(crate) is_fresh: bool,
}

/// Whether a thread turns in a loop without anything to come of it.
#[derive(Clone, Default)]
pub(crate) struct Spin {
    /// Where it was, a hash of its registers, and how far the launch had come.
    pub(crate) seen: Option<(Position, u64, u64)>,
    /// It came there again when the launch had come this far, and nothing had changed.
    pub(crate) since: Option<u64>,
    /// Instructions of the thread.
    pub(crate) steps: u64,
}

/// What a thread can do.
pub(crate) enum State<'p> {
    Ready,
    Waiting(Wait<'p>),
    Exited,
}

/// What a thread waits for, and where the results go: the top frame, whose next instruction is the
/// one after.
#[derive(Clone)]
pub(crate) struct Wait<'p> {
    pub(crate) kind: WaitKind,
    pub(crate) results: &'p [Value],
}

#[derive(Clone)]
pub(crate) enum WaitKind {
    /// `registered`: the barrier counts the thread already.
    Barrier {
        op: BarrierOp,
        id: u64,
        count: u64,
        pred: bool,
        registered: bool,
        aligned: bool,
    },
    Warp(WarpWait),
}

/// A warp operation with operand values.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct WarpWait {
    pub(crate) op: WarpOp,
    pub(crate) ty: Type,
    /// Member mask; none for forms without `.sync`.
    pub(crate) mask: Option<u32>,
    pub(crate) args: Args,
}

/// An active call.
pub(crate) struct Frame<'p> {
    pub(crate) id: FuncId,
    pub(crate) func: &'p Function,
    pub(crate) block: Block,
    /// Position in the block of the next instruction; past the last one, the terminator.
    pub(crate) next: usize,
    values: Vec<u64>,
    /// Where the caller wants the results.
    pub(crate) results: &'p [Value],
    /// Offsets of the stack slots in the local window.
    pub(crate) slots: Vec<u64>,
    /// Free local memory is given back to here on return.
    pub(crate) stack_base: u64,
    /// The statement that called.
    pub(crate) called_at: SrcLoc,
    /// Shadows of the values, if they are watched.
    pub(crate) shadows: Vec<Shadow>,
}

/// A place in a program, ordered by call depth first.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Position {
    pub(crate) depth: usize,
    pub(crate) func: FuncId,
    pub(crate) block: Block,
    pub(crate) next: usize,
}

impl<'p> Frame<'p> {
    pub(crate) fn new(
        (id, func): (FuncId, &'p Function),
        args: &[u64],
        results: &'p [Value],
        stack_base: u64,
    ) -> Frame<'p> {
        let values = vec![0; func.values.len()];
        let mut frame = Frame {
            id,
            func,
            block: func.entry,
            next: 0,
            values,
            results,
            slots: Vec::new(),
            stack_base,
            called_at: SrcLoc::default(),
            shadows: Vec::new(),
        };
        for (&param, &arg) in func.params().iter().zip(args) {
            frame.set(param, arg);
        }
        frame
    }

    /// Bits of a value.
    pub(crate) fn get(&self, value: Value) -> u64 {
        self.values[value.as_u32() as usize]
    }

    /// Defines a value; bits above its width are dropped.
    pub(crate) fn set(&mut self, value: Value, bits: u64) {
        self.values[value.as_u32() as usize] = bits & self.func.ty(value).mask();
        if let Some(shadow) = self.shadows.get_mut(value.as_u32() as usize) {
            *shadow = Shadow::NONE;
        }
    }

    /// Shadow of a value.
    pub(crate) fn shadow(&self, value: Value) -> Shadow {
        let shadow = self.shadows.get(value.as_u32() as usize);
        shadow.copied().unwrap_or(Shadow::NONE)
    }

    /// Says which bits of a value that was just defined were never written.
    pub(crate) fn set_shadow(&mut self, value: Value, shadow: Shadow) {
        let bits = shadow.bits & self.func.ty(value).mask();
        if let Some(slot) = self.shadows.get_mut(value.as_u32() as usize) {
            *slot = match bits {
                0 => Shadow::NONE,
                bits => Shadow { bits, ..shadow },
            };
        }
    }

    /// Hash of the values.
    pub(crate) fn hash(&self, hasher: &mut impl std::hash::Hasher) {
        std::hash::Hash::hash(&self.values, hasher);
    }

    /// Defines the results of an instruction.
    pub(crate) fn set_all(&mut self, values: &[Value], bits: &[u64]) {
        for (&value, &bits) in values.iter().zip(bits) {
            self.set(value, bits);
        }
    }

    /// Goes to the head of a block. Arguments are read before any parameter is written: they may be
    /// parameters themselves.
    pub(crate) fn branch(&mut self, call: &BlockCall) {
        let args: SmallVec<[u64; 8]> = call.args.iter().map(|&arg| self.get(arg)).collect();
        let shadows: SmallVec<[Shadow; 8]> = match self.shadows.is_empty() {
            true => SmallVec::new(),
            false => call.args.iter().map(|&arg| self.shadow(arg)).collect(),
        };
        self.block = call.block;
        self.next = 0;
        let func = self.func;
        let params = &func.blocks[call.block].params;
        self.set_all(params, &args);
        for (&param, &shadow) in params.iter().zip(&shadows) {
            self.set_shadow(param, shadow);
        }
    }

    /// A window address: 32-bit ones are sign-extended.
    pub(crate) fn window_offset(&self, addr: Value) -> u64 {
        let bits = self.get(addr);
        if self.func.ty(addr) == Type::B32 {
            bits as u32 as i32 as u64
        } else {
            bits
        }
    }
}

impl<'p> Thread<'p> {
    pub(crate) fn new(cta: u32, tid: [u32; 3], linear: u32) -> Thread<'p> {
        let loc = SrcLoc::default();
        Thread {
            cta,
            tid,
            linear,
            state: State::Ready,
            frames: Vec::new(),
            local: Vec::new(),
            stack_top: 0,
            loc,
            waiting_shadows: SmallVec::new(),
            objects: Vec::new(),
            spin: Spin::default(),
            is_fresh: true,
        }
    }

    /// The statements that called, the innermost first.
    pub(crate) fn calls(&self) -> Vec<SrcLoc> {
        let callees = self.frames.iter().skip(1).rev();
        callees.map(|frame| frame.called_at).collect()
    }

    pub(crate) fn is_exited(&self) -> bool {
        matches!(self.state, State::Exited)
    }

    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready)
    }

    pub(crate) fn wait(&self) -> Option<&Wait<'p>> {
        match &self.state {
            State::Waiting(wait) => Some(wait),
            State::Ready | State::Exited => None,
        }
    }

    /// Where the thread is: call depth, function, block, next instruction.
    pub(crate) fn position(&self) -> Option<Position> {
        let frame = self.frames.last()?;
        Some(Position {
            depth: self.frames.len(),
            func: frame.id,
            block: frame.block,
            next: frame.next,
        })
    }

    /// The call in progress; a thread that is stepped has one.
    pub(crate) fn frame(&mut self) -> &mut Frame<'p> {
        self.frames
            .last_mut()
            .expect("a thread that has not ended has a frame")
    }

    /// Ends the wait with these results.
    pub(crate) fn resume(&mut self, bits: &[u64]) {
        if let State::Waiting(wait) = std::mem::replace(&mut self.state, State::Ready) {
            self.frame().set_all(wait.results, bits);
        }
    }

    pub(crate) fn exit(&mut self) {
        self.frames.clear();
        self.state = State::Exited;
    }
}
