//! The scheduler, driven by small thread programs in Rust that stand in for compiled code.
//!
//! A [`Program`] is a state machine per thread: it is called at a state, reads and writes its slots
//! and device memory, and says where it waits next. [`enter`] does with it what compiled code does
//! with a gang.

#![expect(unsafe_code, reason = "plays the part of compiled code")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ptxjit_abi::{
    CompiledKernel, CtaContext, FaultKind, LaneState, Operand, ResumeKind, ResumePoint,
};
use ptxjit_ir::{BarrierOp, SrcLoc, Type, Var, VarId, VarInit, WarpOp};

use crate::{
    Arena, CancelToken, LaunchDesc, LaunchError, LaunchStats, ModuleMemory, Pattern, Runtime,
    Schedule, ShapeRule, TrapCause, VarSource,
};

/// Bytes of a gang's frame per lane; slot `n` of `B32` lies at `n * 4 * gang`.
const SLOTS: u32 = 8;

/// Where a thread goes from a state.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Next {
    Wait(u16),
    Exit,
    Fault(FaultKind),
}

/// A thread at a state.
struct Thread<'a> {
    ctx: &'a CtaContext,
    gang: u32,
    index: u32,
}

impl Thread<'_> {
    fn slot(&self, n: u32) -> *mut u32 {
        let frame = (self.index / self.gang) as usize * (SLOTS * 4 * self.gang) as usize;
        let offset = frame + (n * 4 * self.gang + self.index % self.gang * 4) as usize;
        // SAFETY: inside the slots that `kernel` asks for.
        unsafe { self.ctx.slots.add(offset).cast() }
    }

    fn get(&self, n: u32) -> u32 {
        // SAFETY: a slot of this thread.
        unsafe { *self.slot(n) }
    }

    fn set(&self, n: u32, value: u32) {
        // SAFETY: a slot of this thread.
        unsafe { *self.slot(n) = value }
    }

    fn cta(&self) -> u32 {
        self.ctx.ctaid[0]
    }

    fn global_index(&self) -> u32 {
        self.cta() * self.ctx.n_threads + self.index
    }

    /// Word `n` of the buffer whose address is the only parameter.
    fn word(&self, n: u32) -> &std::sync::atomic::AtomicU32 {
        // SAFETY: the parameter block holds the address of a buffer that the test made large
        // enough.
        unsafe {
            &*((*(self.ctx.params as *const u64) + u64::from(n) * 4)
                as *const std::sync::atomic::AtomicU32)
        }
    }

    fn store(&self, n: u32, value: u32) {
        self.word(n)
            .store(value, std::sync::atomic::Ordering::SeqCst);
    }

    fn load(&self, n: u32) -> u32 {
        self.word(n).load(std::sync::atomic::Ordering::SeqCst)
    }

    fn add(&self, n: u32, value: u32) -> u32 {
        self.word(n)
            .fetch_add(value, std::sync::atomic::Ordering::SeqCst)
    }
}

trait Program {
    const GANG: u32 = 8;

    fn step(thread: &Thread<'_>, state: u32) -> Next;

    /// Slots that must be equal among lanes entered together.
    fn check_uniform(_state: u32) -> Option<u32> {
        None
    }
}

unsafe extern "C" fn enter<P: Program>(
    cta: *mut CtaContext,
    state: u32,
    first: u32,
    end: u32,
) -> u32 {
    for gang in first..end {
        // SAFETY: laid out by the runtime.
        let ctx = unsafe { &mut *cta };
        // SAFETY: one mask per gang.
        let mask = unsafe { *ctx.masks.add(gang as usize) };
        ctx.current_gang = gang;
        let mut stops = Vec::new();
        for lane in ptxjit_abi::warp_ops::lanes(mask) {
            let thread = Thread {
                ctx,
                gang: P::GANG,
                index: gang * P::GANG + lane,
            };
            assert!(thread.index < ctx.n_threads);
            if let Some(slot) = P::check_uniform(state) {
                let first = Thread {
                    ctx,
                    gang: P::GANG,
                    index: gang * P::GANG + mask.trailing_zeros(),
                };
                assert_eq!(
                    thread.get(slot),
                    first.get(slot),
                    "lanes with different uniforms were entered together"
                );
            }
            stops.push((lane, thread.index, P::step(&thread, state)));
        }
        for &(lane, index, next) in &stops {
            let together = stops.iter().filter(|stop| stop.2 == next).count() as u32;
            let value = match next {
                Next::Exit => LaneState::EXITED,
                Next::Wait(point) if together == mask.count_ones() => point,
                Next::Wait(point) => point | LaneState::PARTIAL,
                Next::Fault(kind) => {
                    (
                        ctx.fault_kind,
                        ctx.fault_loc,
                        ctx.fault_gang,
                        ctx.fault_mask,
                    ) = (kind as u32, 77, gang, 1 << lane);
                    return 1;
                }
            };
            // SAFETY: one state per thread.
            unsafe { *ctx.lane_states.add(index as usize) = value };
        }
    }
    0
}

fn slot(n: u32, gang: u32, ty: Type) -> Operand {
    Operand::Slot {
        offset: n * 4 * gang,
        ty,
    }
}

fn point(kind: ResumeKind, operands: Vec<Operand>) -> ResumePoint {
    ResumePoint {
        shared: Vec::new(),
        is_whole: false,
        kind,
        loc: SrcLoc(1),
        operands,
        results: Vec::new(),
        uniforms: Vec::new(),
    }
}

fn entry() -> ResumePoint {
    point(ResumeKind::Ready, vec![])
}

fn barrier(op: BarrierOp, id: u64, count: u64) -> ResumePoint {
    point(
        ResumeKind::Barrier { op, aligned: false },
        vec![Operand::Const(id), Operand::Const(count)],
    )
}

fn kernel<P: Program>(points: Vec<ResumePoint>) -> CompiledKernel {
    CompiledKernel::from_enter(enter::<P>, P::GANG, SLOTS * 4 * P::GANG, points)
}

struct NoVars;

impl VarSource for NoVars {
    fn var(&self, _id: VarId) -> Option<Var> {
        None
    }

    fn init(&self, _id: VarId) -> Result<VarInit, String> {
        Ok(VarInit::default())
    }

    fn is_managed(&self, _id: VarId) -> bool {
        false
    }
}

/// A runtime, and a buffer that kernels get as their only parameter.
struct Bench {
    runtime: Runtime,
    buffer: u64,
    words: usize,
}

impl Bench {
    fn new(threads: usize, words: usize) -> Bench {
        let runtime = Runtime::new(Arena::new().unwrap(), 0, Some(threads));
        let buffer = runtime.arena().alloc(0, words as u64 * 4, 256).unwrap();
        runtime
            .arena()
            .fill(buffer, Pattern::U8(0), words as u64 * 4)
            .unwrap();
        Bench {
            runtime,
            buffer,
            words,
        }
    }

    fn desc(&self, kernel: CompiledKernel, grid: u32, block: u32) -> LaunchDesc {
        LaunchDesc {
            kernel: Arc::new(kernel),
            for_some_lanes: None,
            name: "test".into(),
            attrs: Default::default(),
            param_bytes: 8,
            params: self.buffer.to_le_bytes().to_vec(),
            module: Arc::new(ModuleMemory::new(
                self.runtime.arena().clone(),
                0,
                Box::new(NoVars),
            )),
            grid: [grid, 1, 1],
            first_column: 0,
            block: [block, 1, 1],
            joined: 1,
            cluster: None,
            shared_bytes: 0,
            cooperative: false,
            open_memory: false,
            peers: None,
            checks_accesses: false,
            threads: None,
            schedule: Schedule::Parallel,
            // A test that hangs shall fail.
            timeout: Some(Duration::from_secs(30)),
            cancel: None,
            output: None,
            counters: None,
            traces: None,
        }
    }

    fn launch(
        &self,
        kernel: CompiledKernel,
        grid: u32,
        block: u32,
    ) -> Result<LaunchStats, LaunchError> {
        self.runtime.launch(&self.desc(kernel, grid, block))
    }

    fn words(&self) -> Vec<u32> {
        let mut bytes = vec![0; self.words * 4];
        self.runtime.arena().read(self.buffer, &mut bytes).unwrap();
        bytes
            .chunks(4)
            .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
            .collect()
    }
}

/// Every schedule that a launch may have.
fn schedules() -> Vec<Schedule> {
    let seeds = (0..20).map(Schedule::Seed);
    [Schedule::Parallel, Schedule::Deterministic]
        .into_iter()
        .chain(seeds)
        .collect()
}

/// Runs a program under every schedule on fresh memory and hands the final memory to `check`.
fn under_all<P: Program>(
    points: impl Fn() -> Vec<ResumePoint>,
    grid: u32,
    block: u32,
    words: usize,
    check: impl Fn(&[u32]),
) {
    for schedule in schedules() {
        let bench = Bench::new(3, words);
        let mut desc = bench.desc(kernel::<P>(points()), grid, block);
        desc.schedule = schedule;
        let stats = bench
            .runtime
            .launch(&desc)
            .unwrap_or_else(|err| panic!("{schedule:?}: {err}"));
        assert_eq!(stats.n_ctas, u64::from(grid));
        check(&bench.words());
    }
}

struct Plain;

impl Program for Plain {
    fn step(thread: &Thread<'_>, _state: u32) -> Next {
        thread.store(thread.global_index(), thread.global_index() + 1);
        Next::Exit
    }
}

#[test]
fn every_thread_of_every_cta_runs_once() {
    under_all::<Plain>(
        || vec![entry()],
        300,
        83,
        300 * 83,
        |words| {
            assert!(words.iter().zip(1..).all(|(&word, want)| word == want));
        },
    );
}

/// Threads of odd index leave early; the others pass 10 barriers and look at a counter between
/// them.
struct Barriers;

impl Program for Barriers {
    fn step(thread: &Thread<'_>, state: u32) -> Next {
        if state == 0 {
            if thread.index % 2 == 1 {
                return Next::Exit;
            }
            thread.set(0, 0);
        } else {
            let live = thread.ctx.n_threads.div_ceil(2);
            let round = thread.get(0) + 1;
            thread.set(0, round);
            // Two barriers per round: one after adding, one after looking.
            if round % 2 == 1 && thread.load(thread.cta() * 2) != live * round.div_ceil(2) {
                thread.add(thread.cta() * 2 + 1, 1);
            }
            if round == 20 {
                return Next::Exit;
            }
        }
        if thread.get(0).is_multiple_of(2) {
            thread.add(thread.cta() * 2, 1);
        }
        Next::Wait(1)
    }
}

#[test]
fn barriers_separate_what_is_before_from_what_is_after() {
    let points = || vec![entry(), barrier(BarrierOp::Sync, 0, 0)];
    under_all::<Barriers>(points, 5, 100, 10, |words| {
        assert!(words.chunks(2).all(|cta| cta == [500, 0]), "{words:?}");
    });
}

/// Lanes reach barrier 3 from two different instructions.
struct TwoSides;

impl Program for TwoSides {
    fn step(thread: &Thread<'_>, state: u32) -> Next {
        match state {
            0 => {
                thread.add(0, 1);
                Next::Wait(if thread.index.is_multiple_of(3) { 1 } else { 2 })
            }
            _ => {
                thread.add(1, u32::from(thread.load(0) == thread.ctx.n_threads));
                Next::Exit
            }
        }
    }
}

#[test]
fn a_barrier_is_met_from_different_instructions() {
    let points = || {
        vec![
            entry(),
            barrier(BarrierOp::Sync, 3, 0),
            barrier(BarrierOp::Sync, 3, 0),
        ]
    };
    under_all::<TwoSides>(points, 1, 70, 2, |words| assert_eq!(words, [70, 70]));
}

/// Warp 0 produces and arrives, warp 1 consumes, ten times, through barriers 1 (full) and 2
/// (empty); warp 2 takes no part.
struct ProducerConsumer;

impl Program for ProducerConsumer {
    fn step(thread: &Thread<'_>, state: u32) -> Next {
        let lane = thread.index % 32;
        match (thread.index / 32, state) {
            (0, 0) => {
                thread.set(0, 0);
                Next::Wait(1)
            }
            // The buffer is empty: fill it.
            (0, 1) => {
                thread.store(lane, thread.get(0) * 1000 + lane);
                Next::Wait(2)
            }
            (0, 2) => {
                thread.set(0, thread.get(0) + 1);
                if thread.get(0) == 10 {
                    Next::Exit
                } else {
                    Next::Wait(1)
                }
            }
            (1, 0) => {
                thread.set(0, 0);
                Next::Wait(3)
            }
            // Said that it is empty: wait until it is full.
            (1, 3) => Next::Wait(4),
            (1, 4) => {
                thread.add(
                    32,
                    u32::from(thread.load(lane) == thread.get(0) * 1000 + lane),
                );
                thread.set(0, thread.get(0) + 1);
                if thread.get(0) == 10 {
                    Next::Exit
                } else {
                    Next::Wait(3)
                }
            }
            _ => Next::Exit,
        }
    }
}

#[test]
fn producers_and_consumers_meet_at_named_barriers() {
    let points = || {
        vec![
            entry(),
            barrier(BarrierOp::Sync, 2, 64),
            barrier(BarrierOp::Arrive, 1, 64),
            barrier(BarrierOp::Arrive, 2, 64),
            barrier(BarrierOp::Sync, 1, 64),
        ]
    };
    under_all::<ProducerConsumer>(points, 1, 96, 33, |words| assert_eq!(words[32], 320));
}

/// Every thread whose index is a multiple of three votes yes, in each form of reduction.
struct Reductions;

impl Program for Reductions {
    fn step(thread: &Thread<'_>, state: u32) -> Next {
        if state > 0 {
            thread.store(thread.index * 4 + state, thread.get(1));
        }
        thread.set(
            0,
            if thread.index.is_multiple_of(3) {
                u32::MAX
            } else {
                0
            },
        );
        if state == 3 {
            Next::Exit
        } else {
            Next::Wait(state as u16 + 1)
        }
    }
}

#[test]
fn reductions_reach_every_thread() {
    let red = |op, ty| ResumePoint {
        operands: vec![
            Operand::Const(0),
            Operand::Const(0),
            slot(0, Reductions::GANG, Type::B1),
        ],
        results: vec![(4 * Reductions::GANG, ty)],
        ..barrier(op, 0, 0)
    };
    let points = || {
        vec![
            entry(),
            red(BarrierOp::RedPopc, Type::B32),
            red(BarrierOp::RedAnd, Type::B1),
            red(BarrierOp::RedOr, Type::B1),
        ]
    };
    under_all::<Reductions>(points, 1, 77, 77 * 4, |words| {
        assert!(
            words.chunks(4).all(|got| got == [0, 26, 0, u32::MAX]),
            "{words:?}"
        );
    });
}

/// A rotation of the whole warp by shuffles; odd lanes execute another instruction than even ones.
struct Rotate;

impl Program for Rotate {
    fn step(thread: &Thread<'_>, state: u32) -> Next {
        if state == 0 {
            thread.set(0, thread.index * 10);
            thread.set(1, (thread.index + 1) % 32);
            return Next::Wait(1 + (thread.index % 2) as u16);
        }
        thread.store(thread.index, thread.get(2));
        Next::Exit
    }
}

fn shuffle_point(gang: u32, members: u64) -> ResumePoint {
    ResumePoint {
        results: vec![(2 * 4 * gang, Type::B32), (3 * 4 * gang, Type::B1)],
        ..point(
            ResumeKind::Warp {
                op: WarpOp::ShflIdx,
                sync: true,
                ty: Type::B32,
            },
            vec![
                slot(0, gang, Type::B32),
                slot(1, gang, Type::B32),
                Operand::Const(31),
                Operand::Const(members),
            ],
        )
    }
}

#[test]
fn warp_operations_meet_across_gangs_and_instructions() {
    let points = || {
        vec![
            entry(),
            shuffle_point(Rotate::GANG, 0xffff_ffff),
            shuffle_point(Rotate::GANG, 0xffff_ffff),
        ]
    };
    under_all::<Rotate>(points, 1, 64, 64, |words| {
        for (thread, &got) in words.iter().enumerate() {
            assert_eq!(got as usize, (thread / 32 * 32 + (thread + 1) % 32) * 10);
        }
    });
}

/// All lanes of a warp reach the same shuffle: the short way. Lanes of the last, partial warp are
/// missing.
struct Together;

impl Program for Together {
    fn step(thread: &Thread<'_>, state: u32) -> Next {
        if state == 0 {
            thread.set(0, thread.index + 7);
            thread.set(1, 3);
            return Next::Wait(1);
        }
        thread.store(thread.index, thread.get(2));
        Next::Exit
    }
}

#[test]
fn a_partial_warp_does_not_wait_for_threads_that_do_not_exist() {
    let points = || vec![entry(), shuffle_point(Together::GANG, 0xffff_ffff)];
    under_all::<Together>(points, 2, 45, 45, |words| {
        for (thread, &got) in words.iter().enumerate() {
            assert_eq!(got as usize, thread / 32 * 32 + 3 + 7);
        }
    });
}

/// Without `.sync` only the lanes at the same instruction take part, and lanes that are behind go
/// first.
struct Ballots;

impl Program for Ballots {
    const GANG: u32 = 32;

    fn step(thread: &Thread<'_>, state: u32) -> Next {
        match state {
            0 if thread.index < 10 => Next::Wait(1),
            0 => Next::Wait(2),
            1 => {
                thread.store(thread.index, thread.get(2));
                Next::Wait(2)
            }
            _ => {
                thread.store(32 + thread.index, thread.get(2));
                Next::Exit
            }
        }
    }
}

#[test]
fn operations_without_sync_join_the_lanes_that_wait_together() {
    let active = || ResumePoint {
        results: vec![(2 * 4 * 32, Type::B32)],
        ..point(
            ResumeKind::Warp {
                op: WarpOp::ActiveMask,
                sync: false,
                ty: Type::B32,
            },
            vec![],
        )
    };
    under_all::<Ballots>(
        || vec![entry(), active(), active()],
        1,
        32,
        64,
        |words| {
            assert!(words[..10].iter().all(|&mask| mask == 0x3ff), "{words:x?}");
            assert!(
                words[32..].iter().all(|&mask| mask == u32::MAX),
                "{words:x?}"
            );
        },
    );
}

/// Lanes of a gang reach one point with different uniforms.
struct Uniforms;

impl Program for Uniforms {
    fn step(thread: &Thread<'_>, state: u32) -> Next {
        match state {
            0 => {
                thread.set(5, thread.index % 3);
                if thread.index.is_multiple_of(3) {
                    Next::Wait(1)
                } else {
                    Next::Wait(2)
                }
            }
            1 => Next::Wait(2),
            _ => {
                thread.store(thread.index, thread.get(5) + 1);
                Next::Exit
            }
        }
    }

    fn check_uniform(state: u32) -> Option<u32> {
        (state == 2).then_some(5)
    }
}

#[test]
fn lanes_with_different_uniforms_are_not_resumed_together() {
    let points = || {
        let uniform = ResumePoint {
            uniforms: vec![(5 * 4 * Uniforms::GANG, Type::B32)],
            ..barrier(BarrierOp::Sync, 0, 0)
        };
        vec![entry(), entry(), uniform]
    };
    under_all::<Uniforms>(points, 1, 40, 40, |words| {
        assert!(
            words
                .iter()
                .enumerate()
                .all(|(thread, &word)| word == thread as u32 % 3 + 1)
        );
    });
}

/// Thread 0 of each CTA waits for the flag of the CTA before it (or, backwards, after it), then
/// sets its own.
struct Chain<const BACKWARDS: bool>;

impl<const BACKWARDS: bool> Program for Chain<BACKWARDS> {
    fn step(thread: &Thread<'_>, state: u32) -> Next {
        if state == 0 && thread.index != 0 {
            return Next::Exit;
        }
        let (cta, last) = (thread.cta(), thread.ctx.nctaid[0] - 1);
        let ready = match BACKWARDS {
            false => cta == 0 || thread.load(cta - 1) != 0,
            true => cta == last || thread.load(cta + 1) != 0,
        };
        if !ready {
            return Next::Wait(1);
        }
        thread.store(cta, 1);
        Next::Exit
    }
}

#[test]
fn ctas_may_wait_for_earlier_and_later_ones() {
    let points = || vec![entry(), point(ResumeKind::Yield, vec![])];
    under_all::<Chain<false>>(points, 200, 40, 200, |words| {
        assert!(words.iter().all(|&word| word == 1))
    });
    under_all::<Chain<true>>(points, 200, 40, 200, |words| {
        assert!(words.iter().all(|&word| word == 1))
    });
}

/// Thread 0 of each CTA notes each of its three turns: word 0 counts the notes.
struct Turning;

impl Program for Turning {
    fn step(thread: &Thread<'_>, state: u32) -> Next {
        let turn = if state == 0 { 0 } else { thread.get(0) + 1 };
        thread.set(0, turn);
        if thread.index == 0 {
            let at = thread.add(0, 1);
            thread.store(1 + at, thread.cta() * 10 + turn);
        }
        if turn == 2 { Next::Exit } else { Next::Wait(1) }
    }
}

#[test]
fn neighboring_ctas_take_turns() {
    let points = || vec![entry(), point(ResumeKind::StripMine, vec![])];
    let bench = Bench::new(1, 19);
    let mut desc = bench.desc(kernel::<Turning>(points()), 6, 1024);
    desc.schedule = Schedule::Deterministic;
    bench.runtime.launch(&desc).unwrap();
    let words = bench.words();
    // Four CTAs have as many threads as a wave may have. A launch of so few CTAs hands them out one
    // by one.
    let wave = |ctas: std::ops::Range<u32>| {
        (0..3).flat_map(move |turn| ctas.clone().map(move |cta| cta * 10 + turn))
    };
    // The first turn of each CTA comes as it is started.
    assert_eq!(words[0], 18);
    assert_eq!(words[1..], wave(0..4).chain(wave(4..6)).collect::<Vec<_>>());
    under_all::<Turning>(points, 50, 100, 151, |words| {
        let mut notes = words[1..].to_vec();
        notes.sort_unstable();
        let all = (0..50).flat_map(|cta| [cta * 10, cta * 10 + 1, cta * 10 + 2]);
        assert!(notes.into_iter().eq(all));
    });
}

/// A barrier of the whole grid, five times: thread 0 of each CTA counts and spins, the others wait
/// at a CTA barrier.
struct GridSync;

impl Program for GridSync {
    fn step(thread: &Thread<'_>, state: u32) -> Next {
        let n_ctas = thread.ctx.nctaid[0];
        if state == 0 {
            thread.set(0, 0);
        }
        match state {
            // Before the grid barrier.
            0 | 3 => {
                if state == 3 {
                    thread.set(0, thread.get(0) + 1);
                    thread.add(1, u32::from(thread.load(0) < thread.get(0) * n_ctas));
                    if thread.get(0) == 5 {
                        return Next::Exit;
                    }
                }
                Next::Wait(1)
            }
            1 if thread.index == 0 => {
                thread.add(0, 1);
                Next::Wait(2)
            }
            2 if thread.load(0) < (thread.get(0) + 1) * n_ctas => Next::Wait(2),
            _ => Next::Wait(3),
        }
    }
}

#[test]
fn a_cooperative_grid_synchronises() {
    let points = || {
        vec![
            entry(),
            barrier(BarrierOp::Sync, 0, 0),
            point(ResumeKind::Yield, vec![]),
            barrier(BarrierOp::Sync, 0, 0),
        ]
    };
    for schedule in [
        Schedule::Parallel,
        Schedule::Deterministic,
        Schedule::Seed(3),
    ] {
        let bench = Bench::new(2, 2);
        let mut desc = bench.desc(kernel::<GridSync>(points()), 100, 64);
        (desc.cooperative, desc.schedule) = (true, schedule);
        bench.runtime.launch(&desc).unwrap();
        assert_eq!(bench.words(), [500, 0]);
    }
    let bench = Bench::new(1, 2);
    let mut desc = bench.desc(kernel::<GridSync>(points()), 100_000, 64);
    desc.cooperative = true;
    assert!(matches!(
        bench.runtime.launch(&desc),
        Err(LaunchError::Shape {
            rule: ShapeRule::Cooperative,
            ..
        })
    ));
}

/// Warp 0 waits at barrier 1, warp 1 at a shuffle whose other members wait at barrier 2, warp 2 has
/// ended.
struct Stuck;

impl Program for Stuck {
    fn step(thread: &Thread<'_>, _state: u32) -> Next {
        match thread.index {
            0..32 => Next::Wait(1),
            32..36 => Next::Wait(3),
            36..64 => Next::Wait(2),
            _ => Next::Exit,
        }
    }
}

#[test]
fn deadlocks_are_reported_with_every_group() {
    let bench = Bench::new(1, 1);
    let points = vec![
        entry(),
        barrier(BarrierOp::Sync, 1, 0),
        barrier(BarrierOp::Sync, 2, 0),
        shuffle_point(Stuck::GANG, 0xffff_ffff),
    ];
    let Err(LaunchError::Deadlock(deadlock)) = bench.launch(kernel::<Stuck>(points), 3, 96) else {
        panic!("no deadlock")
    };
    assert_eq!(
        (deadlock.groups.len(), deadlock.n_exited, deadlock.ctaid),
        (3, 32, [0, 0, 0])
    );
    let group = |idx: usize| (&*deadlock.groups[idx].what, deadlock.groups[idx].threads);
    assert_eq!(
        group(0).0,
        "`barrier.sync` on barrier 1 (32 of 64 threads have arrived)"
    );
    assert_eq!(
        (group(0).1.first, group(0).1.last, group(0).1.count),
        ([0, 0, 0], [31, 0, 0], 32)
    );
    assert_eq!(group(1).0, "`shfl.idx` with member mask 0xffffffff");
    assert_eq!(group(1).1.count, 4);
    assert_eq!(
        group(2).0,
        "`barrier.sync` on barrier 2 (28 of 64 threads have arrived)"
    );
}

/// One thread of one CTA traps; the others spin for ever.
struct OneTraps;

impl Program for OneTraps {
    fn step(thread: &Thread<'_>, _state: u32) -> Next {
        if thread.global_index() == 5 * 32 + 9 {
            Next::Fault(FaultKind::Trap)
        } else {
            Next::Wait(1)
        }
    }
}

#[test]
fn a_trap_names_its_thread_and_stops_the_grid() {
    for threads in [1, 3] {
        let bench = Bench::new(threads, 1);
        let points = vec![entry(), point(ResumeKind::Yield, vec![])];
        let Err(LaunchError::Trap(trap)) = bench.launch(kernel::<OneTraps>(points), 9, 32) else {
            panic!("no trap")
        };
        assert_eq!(
            (&trap.cause, trap.ctaid, trap.threads.first),
            (&TrapCause::Trap, [5, 0, 0], [9, 0, 0])
        );
        assert_eq!(trap.loc, Some(SrcLoc(77)));
        // Later launches are fine.
        let bench = Bench {
            words: 64,
            buffer: bench.runtime.arena().alloc(0, 256, 256).unwrap(),
            ..bench
        };
        bench.launch(kernel::<Plain>(vec![entry()]), 2, 32).unwrap();
        assert_eq!(bench.words()[63], 64);
    }
}

/// Half of the warp yields before it comes to point 2, or, in CTA 1, waits at point 3 of the same
/// barrier instead.
struct Halves;

impl Program for Halves {
    fn step(thread: &Thread<'_>, state: u32) -> Next {
        match (state, thread.index < 16) {
            (0, true) => Next::Wait(1),
            (0, false) => Next::Wait(2),
            (1, _) if thread.cta() == 1 => Next::Wait(3),
            (1, _) => Next::Wait(2),
            _ => {
                thread.add(0, 1);
                Next::Exit
            }
        }
    }
}

#[test]
fn a_warp_that_an_aligned_instruction_keeps_together_is_not_parted() {
    let points = || {
        let aligned = ResumePoint {
            is_whole: true,
            ..barrier(BarrierOp::Sync, 0, 0)
        };
        let yields = point(ResumeKind::Yield, vec![]);
        vec![entry(), yields, aligned, barrier(BarrierOp::Sync, 0, 0)]
    };
    let bench = Bench::new(1, 1);
    bench.launch(kernel::<Halves>(points()), 1, 32).unwrap();
    assert_eq!(bench.words(), [32]);
    let bench = Bench::new(1, 1);
    let Err(LaunchError::Trap(trap)) = bench.launch(kernel::<Halves>(points()), 2, 32) else {
        panic!("the warp was parted");
    };
    assert_eq!((trap.ctaid, trap.threads.first), ([1, 0, 0], [16, 0, 0]));
    let note = trap.cause.to_string();
    assert!(
        note.contains("lanes 0x0000ffff have not come here"),
        "{note}"
    );
}

/// Reads far beyond the buffer, in the second gang of CTA 1.
struct Wild;

impl Program for Wild {
    fn step(thread: &Thread<'_>, _state: u32) -> Next {
        if thread.global_index() == 64 + 8 {
            thread.load(1 << 20);
        }
        Next::Exit
    }
}

#[test]
fn a_wild_access_is_an_error_again_and_again() {
    let bench = Bench::new(1, 1);
    for _ in 0..5 {
        let Err(LaunchError::Trap(trap)) = bench.launch(kernel::<Wild>(vec![entry()]), 3, 64)
        else {
            panic!("no trap")
        };
        let TrapCause::BadAddress {
            addr: Some(addr), ..
        } = trap.cause
        else {
            panic!("{trap}")
        };
        assert_eq!(addr, bench.buffer + (4 << 20));
        assert_eq!((trap.ctaid, trap.threads.first), ([1, 0, 0], [8, 0, 0]));
    }
}

/// All spin for ever, politely.
struct Spin;

impl Program for Spin {
    fn step(_thread: &Thread<'_>, _state: u32) -> Next {
        Next::Wait(1)
    }
}

/// An endless loop that never yields: `jmp` to itself.
fn endless_loop() -> CompiledKernel {
    #[cfg(target_arch = "x86_64")]
    const CODE: &[u8] = &[0xeb, 0xfe];
    #[cfg(target_arch = "aarch64")]
    const CODE: &[u8] = &[0x00, 0x00, 0x00, 0x14];
    // SAFETY: a fresh page, filled with code before it is made executable, and never unmapped.
    let (start, enter) = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let page = libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            -1,
            0,
        );
        assert_ne!(page, libc::MAP_FAILED);
        std::ptr::copy_nonoverlapping(CODE.as_ptr(), page.cast(), CODE.len());
        assert_eq!(
            libc::mprotect(page, 4096, libc::PROT_READ | libc::PROT_EXEC),
            0
        );
        (
            page as usize,
            std::mem::transmute::<*mut libc::c_void, ptxjit_abi::EnterFn>(page),
        )
    };
    let mut kernel = CompiledKernel::from_enter(enter, 8, 64, vec![entry()]);
    kernel.code = start..start + 4096;
    kernel
}

#[test]
fn endless_loops_stop_at_the_time_limit() {
    let polite = || kernel::<Spin>(vec![entry(), point(ResumeKind::Yield, vec![])]);
    for kernel in [polite as fn() -> CompiledKernel, endless_loop] {
        for threads in [1, 2] {
            let bench = Bench::new(threads, 1);
            let mut desc = bench.desc(kernel(), 10, 64);
            desc.timeout = Some(Duration::from_millis(50));
            let start = std::time::Instant::now();
            assert!(matches!(
                bench.runtime.launch(&desc),
                Err(LaunchError::Timeout { .. })
            ));
            assert!(start.elapsed() < Duration::from_secs(5));
            bench
                .launch(self::kernel::<Plain>(vec![entry()]), 1, 1)
                .unwrap();
        }
    }
}

#[test]
fn a_launch_can_be_cancelled() {
    let bench = Bench::new(2, 1);
    let mut desc = bench.desc(endless_loop(), 10, 64);
    let token = CancelToken::default();
    (desc.timeout, desc.cancel) = (None, Some(token.clone()));
    std::thread::scope(|scope| {
        let launch = scope.spawn(|| bench.runtime.launch(&desc));
        std::thread::sleep(Duration::from_millis(30));
        token.cancel();
        assert!(matches!(
            launch.join().unwrap(),
            Err(LaunchError::Cancelled { .. })
        ));
    });
}

/// One CTA traps while the others are inside compiled code that never looks up.
#[test]
fn a_trap_reaches_workers_inside_compiled_code() {
    static TARGET: Mutex<Option<ptxjit_abi::EnterFn>> = Mutex::new(None);
    unsafe extern "C" fn enter_mixed(
        cta: *mut CtaContext,
        state: u32,
        first: u32,
        end: u32,
    ) -> u32 {
        // SAFETY: laid out by the runtime.
        if unsafe { (*cta).ctaid[0] } == 1 {
            std::thread::sleep(Duration::from_millis(20));
            // SAFETY: as above.
            unsafe { (*cta).fault_kind = FaultKind::Unreachable as u32 };
            return 1;
        }
        let target = TARGET.lock().unwrap().unwrap();
        // SAFETY: the endless loop takes any arguments.
        unsafe { target(cta, state, first, end) }
    }
    let mut kernel = endless_loop();
    *TARGET.lock().unwrap() = Some(kernel.enter);
    kernel.enter = enter_mixed;
    let bench = Bench::new(2, 1);
    let Err(LaunchError::Trap(trap)) = bench.launch(kernel, 2, 8) else {
        panic!("no trap")
    };
    assert_eq!(trap.cause, TrapCause::Unreachable);
}

#[test]
fn launches_from_several_threads_overlap() {
    let runtime = Bench::new(2, 1).runtime;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let buffer = runtime.arena().alloc(0, 64 * 40 * 4, 256).unwrap();
                    let bench = Bench {
                        runtime: runtime.clone(),
                        buffer,
                        words: 64 * 40,
                    };
                    bench
                        .launch(kernel::<Plain>(vec![entry()]), 40, 64)
                        .unwrap();
                    assert!(
                        bench
                            .words()
                            .iter()
                            .zip(1..)
                            .all(|(&word, want)| word == want)
                    );
                    runtime.arena().free(buffer).unwrap();
                }
            });
        }
    });
}

#[test]
fn shapes_are_checked_as_cuda_does() {
    let bench = Bench::new(1, 1);
    let refused = |change: &dyn Fn(&mut LaunchDesc)| {
        let mut desc = bench.desc(kernel::<Plain>(vec![entry()]), 1, 1);
        change(&mut desc);
        match bench.runtime.launch(&desc) {
            Err(LaunchError::Shape { message, .. }) => message,
            other => panic!("{other:?}"),
        }
    };
    assert!(refused(&|desc| desc.block = [1025, 1, 1]).contains("block (1025, 1, 1)"));
    assert!(refused(&|desc| desc.block = [64, 32, 1]).contains("2048 threads"));
    assert!(refused(&|desc| desc.block = [1, 1, 65]).contains("(1, 1, 65)"));
    assert!(refused(&|desc| desc.grid = [1, 65536, 1]).contains("grid (1, 65536, 1)"));
    assert!(refused(&|desc| desc.grid = [0, 1, 1]).contains("grid (0, 1, 1)"));
    assert!(refused(&|desc| desc.attrs.req_ntid = Some([32, 1, 1])).contains(".reqntid"));
    assert!(
        refused(&|desc| (desc.attrs.max_threads, desc.block) = (Some(2), [3, 1, 1]))
            .contains(".maxntid")
    );
    assert!(refused(&|desc| desc.params.push(0)).contains("9 bytes of parameters given, 8 needed"));
    assert!(refused(&|desc| desc.shared_bytes = 228 << 10).contains("shared memory"));
    assert!(refused(&|desc| desc.cluster = Some([2, 1, 1])).contains("no multiple of cluster"));
}

/// Calls a runtime function on behalf of a thread, whose result takes the place of the first
/// operand; true if the kernel may go on.
fn builtin(thread: &Thread<'_>, builtin: ptxjit_ir::Builtin, args: &mut [u64]) -> bool {
    let inst = ptxjit_ir::InstData::Device {
        op: ptxjit_ir::DeviceOp::Builtin(builtin),
        args: smallvec::SmallVec::new(),
    };
    const WORDS: usize = ptxjit_abi::DEVICE_VALUE_BYTES / 8;
    let mut values = vec![0u64; WORDS * (args.len() + 1)];
    for (n, &arg) in args.iter().enumerate() {
        values[WORDS * n] = arg;
    }
    let ctx: *const CtaContext = thread.ctx;
    let at = values.as_mut_ptr().cast();
    // SAFETY: the table is the runtime's; arguments as the builtin has, for one lane.
    let bad = unsafe { ((*thread.ctx.fns).device)(ctx.cast_mut(), &inst, thread.index, 1, at, 5) };
    if !builtin.results().is_empty() {
        args[0] = values[WORDS * args.len()];
    }
    bad == 0
}

/// Each thread allocates, writes, prints, frees.
struct Heap;

impl Program for Heap {
    fn step(thread: &Thread<'_>, _state: u32) -> Next {
        use ptxjit_ir::Builtin::{Free, Malloc, Vprintf};
        let mut size = [40];
        assert!(builtin(thread, Malloc, &mut size));
        let block = size[0];
        assert!(block != 0 && block.is_multiple_of(16));
        // SAFETY: a block of 40 bytes, and the text that the test has put behind the result words.
        let text = unsafe {
            *(block as *mut [u64; 2]) = [thread.index.into(), 0x4009_2000_0000_0000];
            *(thread.ctx.params as *const u64) + 256
        };
        let mut args = [text, block];
        assert!(builtin(thread, Vprintf, &mut args));
        assert_eq!(args[0], 2);
        assert!(builtin(thread, Free, &mut [block]) && builtin(thread, Free, &mut [0]));
        let mut huge = [1 << 50];
        assert!(builtin(thread, Malloc, &mut huge) && huge[0] == 0);
        Next::Exit
    }
}

#[test]
fn device_heap_and_printf() {
    let bench = Bench::new(2, 128);
    bench
        .runtime
        .arena()
        .write(bench.buffer + 256, b"[%3u %f]\n\0")
        .unwrap();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let mut desc = bench.desc(kernel::<Heap>(vec![entry()]), 4, 50);
    let sink = lines.clone();
    desc.output = Some(Arc::new(move |text: &[u8]| {
        sink.lock()
            .unwrap()
            .push(String::from_utf8_lossy(text).into_owned())
    }));
    let before = bench.runtime.arena().live_bytes(0);
    bench.runtime.launch(&desc).unwrap();
    assert_eq!(bench.runtime.arena().live_bytes(0), before);
    let mut lines = std::mem::take(&mut *lines.lock().unwrap());
    lines.sort();
    let want: Vec<String> = (0..200)
        .map(|n| format!("[{:3} 3.140625]\n", n / 4))
        .collect();
    assert_eq!(lines, want);
}

/// Frees twice.
struct DoubleFree;

impl Program for DoubleFree {
    fn step(thread: &Thread<'_>, _state: u32) -> Next {
        let mut block = [100];
        assert!(builtin(thread, ptxjit_ir::Builtin::Malloc, &mut block));
        assert!(builtin(
            thread,
            ptxjit_ir::Builtin::Free,
            &mut block.clone()
        ));
        assert!(!builtin(thread, ptxjit_ir::Builtin::Free, &mut block));
        Next::Fault(FaultKind::Runtime)
    }
}

/// Asserts, with its texts in the buffer.
struct Asserts;

impl Program for Asserts {
    fn step(thread: &Thread<'_>, _state: u32) -> Next {
        if thread.global_index() != 33 {
            return Next::Exit;
        }
        // SAFETY: the parameter is the buffer's address.
        let text = unsafe { *(thread.ctx.params as *const u64) };
        let mut args = [text, text + 16, 12, text + 32, 1];
        assert!(!builtin(thread, ptxjit_ir::Builtin::AssertFail, &mut args));
        Next::Fault(FaultKind::Runtime)
    }
}

#[test]
fn misuse_and_asserts_stop_the_launch() {
    let bench = Bench::new(1, 64);
    let trap = |kernel| match bench.launch(kernel, 3, 32) {
        Err(LaunchError::Trap(trap)) => trap,
        other => panic!("{other:?}"),
    };
    let double = trap(kernel::<DoubleFree>(vec![entry()]));
    assert!(
        matches!(&double.cause, TrapCause::BadCall { note } if note.contains("which was freed")),
        "{double}"
    );
    for (offset, text) in [(0, "x > 0\0"), (16, "a.cu\0"), (32, "f(int)\0")] {
        bench
            .runtime
            .arena()
            .write(bench.buffer + offset, text.as_bytes())
            .unwrap();
    }
    let failed = trap(kernel::<Asserts>(vec![entry()]));
    let TrapCause::Assert { message } = failed.cause else {
        panic!("{failed}")
    };
    assert_eq!(
        message,
        "a.cu:12: f(int): block: [1,0,0], thread: [1,0,0] Assertion `x > 0` failed."
    );
    assert_eq!(failed.loc, Some(SrcLoc(5)));
}

/// Asks for the exact check of accesses to several kinds of memory; writes down which were allowed.
struct Checks;

impl Program for Checks {
    const GANG: u32 = 1;

    fn step(thread: &Thread<'_>, _state: u32) -> Next {
        // SAFETY: the parameter block holds the buffer's address.
        let buffer = unsafe { *(thread.ctx.params as *const u64) };
        let shared = thread.ctx.shared_base;
        let cases = [
            (buffer + 252, 4, true),
            (buffer + 253, 4, false),
            (buffer + 253, 1, true),
            (buffer + 2, 4, false),
            (buffer - 4, 4, false),
            (shared + 96, 4, true),
            (shared + 100, 4, false),
            (thread.ctx.params, 8, true),
            (thread.ctx.params + 8, 1, false),
            (0, 4, false),
        ];
        let (addr, size, _) = cases[thread.index as usize];
        let ctx: *const CtaContext = thread.ctx;
        // SAFETY: one address for one lane.
        let bad = unsafe {
            ((*thread.ctx.fns).check_access)(ctx.cast_mut(), &addr, 1, size, 0, thread.index, 5)
        };
        assert_eq!(
            bad == 0,
            cases[thread.index as usize].2,
            "case {}",
            thread.index
        );
        Next::Exit
    }
}

#[test]
fn memcheck_knows_exact_bounds() {
    let bench = Bench::new(1, 64);
    let mut desc = bench.desc(kernel::<Checks>(vec![entry()]), 1, 10);
    desc.shared_bytes = 100;
    // The first failed check is what the launch reports.
    let error = bench.runtime.launch(&desc).unwrap_err().to_string();
    let want = format!(
        "access to {:#x}: byte 253 of the 256-byte allocation at {:#x}",
        bench.buffer + 253,
        bench.buffer
    );
    assert!(error.contains(&want), "{error}");
}

/// Runs this test again in a process of its own, where `variable` is set; returns how it ended.
fn in_child(test: &str, variable: &str) -> std::process::Output {
    let exe = std::env::current_exe().unwrap();
    let mut child = std::process::Command::new(exe);
    child
        .args(["--exact", test, "--nocapture"])
        .env(variable, "1")
        .output()
        .unwrap()
}

#[test]
fn crashes_outside_of_kernels_stay_crashes() {
    use std::os::unix::process::ExitStatusExt;
    const VARIABLE: &str = "PTXJIT_TEST_CRASH";
    if std::env::var_os(VARIABLE).is_some() {
        let bench = Bench::new(1, 32);
        bench.launch(kernel::<Plain>(vec![entry()]), 1, 32).unwrap();
        // SAFETY: not at all; the process must die of this.
        unsafe {
            std::ptr::read_volatile(std::hint::black_box(bench.buffer + (4 << 20)) as *const u32)
        };
        return;
    }
    let output = in_child(
        "sched::tests::crashes_outside_of_kernels_stay_crashes",
        VARIABLE,
    );
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{output:?}");
}

#[test]
fn a_limit_on_address_space_is_respected() {
    const VARIABLE: &str = "PTXJIT_TEST_LIMIT";
    if std::env::var_os(VARIABLE).is_some() {
        let limit = libc::rlimit {
            rlim_cur: 300 << 30,
            rlim_max: 300 << 30,
        };
        // SAFETY: a valid limit.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
        let bench = Bench::new(2, 300);
        bench
            .launch(kernel::<Plain>(vec![entry()]), 3, 100)
            .unwrap();
        assert_eq!(bench.words()[299], 300);
        let points = vec![
            entry(),
            barrier(BarrierOp::Sync, 0, 0),
            point(ResumeKind::Yield, vec![]),
            barrier(BarrierOp::Sync, 0, 0),
        ];
        let mut desc = bench.desc(kernel::<GridSync>(points), 1000, 64);
        desc.cooperative = true;
        // There is room for fewer windows than that: an error, not a crash.
        assert!(matches!(
            bench.runtime.launch(&desc),
            Err(LaunchError::System(_))
        ));
        return;
    }
    let output = in_child(
        "sched::tests::a_limit_on_address_space_is_respected",
        VARIABLE,
    );
    assert!(output.status.success(), "{output:?}");
}
