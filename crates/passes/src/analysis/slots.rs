//! Which values point into which stack slot, and which slots escape.
//!
//! A slot escapes if its address can reach code that this analysis does not see through: it is
//! stored (but to a slot, see `contents`), passed to a call, mixed with another address. All
//! accesses to other slots are then known: no pointer from elsewhere can lead there.
//!
//! How: forward data flow over the pointers, optimistic around loops.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{
    Block, Function, Inst, InstData, IntBinaryOp, MemSem, ResizeOp, Space, StackSlot, Type, Value,
};

use crate::analysis::cfg::Cfg;

mod contents;

use contents::Contents;

/// Where a value points to.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Pointee {
    /// Nothing is known: in code out of reach, or in a function without slots.
    #[default]
    Unknown,
    /// No address of a slot, or one of a slot that escapes.
    Other,
    /// Into a slot.
    Slot(Pointer),
}

/// An address in a slot.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Pointer {
    /// The slot.
    pub slot: StackSlot,
    /// Byte offset, if it is constant.
    pub offset: Option<i64>,
    /// What kind of address it is.
    pub form: Form,
}

/// How an address is written.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Form {
    /// Offset in the local window.
    Window,
    /// The low half of that.
    Narrow,
    /// A generic address.
    Generic,
}

/// What is known of the slots of a function.
#[derive(Clone, Debug)]
pub struct Slots {
    /// Where each value points to.
    pub pointees: SecondaryMap<Value, Pointee>,
    /// The address may be known elsewhere.
    pub escapes: SecondaryMap<StackSlot, bool>,
    contents: Contents,
}

/// Follows the addresses of all slots.
pub fn run(func: &Function, cfg: &Cfg) -> Slots {
    let mut slots = Slots {
        pointees: SecondaryMap::new(),
        escapes: SecondaryMap::new(),
        contents: Contents::default(),
    };
    for &param in func.params() {
        slots.pointees[param] = Pointee::Other;
    }
    if !names_slots(func, cfg) {
        return slots;
    }
    loop {
        let mut changed = false;
        for &block in &cfg.rpo {
            for &inst in &func.blocks[block].insts {
                changed |= slots.visit_inst(func, inst);
            }
            changed |= slots.visit_end(func, block);
        }
        changed |= slots.check_contents();
        if !changed {
            return slots;
        }
    }
}

fn names_slots(func: &Function, cfg: &Cfg) -> bool {
    let is_address = |&inst: &Inst| matches!(func.insts[inst].data, InstData::StackAddr { .. });
    !func.slots.is_empty()
        && cfg
            .rpo
            .iter()
            .any(|&block| func.blocks[block].insts.iter().any(is_address))
}

impl Slots {
    /// The slot pointer that a value is, if its slot does not escape.
    pub fn pointer(&self, value: Value) -> Option<Pointer> {
        match self.pointees[value] {
            Pointee::Slot(pointer) if !self.escapes[pointer.slot] => Some(pointer),
            Pointee::Slot(_) | Pointee::Other | Pointee::Unknown => None,
        }
    }

    fn visit_inst(&mut self, func: &Function, inst: Inst) -> bool {
        let node = &func.insts[inst];
        let mut changed = false;
        for &result in &node.results {
            let old = self.pointees[result];
            let new = if node.results.len() == 1 {
                self.transfer(func, &node.data)
            } else {
                Pointee::Other
            };
            let new = self.join(old, new);
            changed |= new != old;
            self.pointees[result] = new;
        }
        self.check_uses(func, inst) || changed
    }

    /// What an instruction computes from pointers.
    #[expect(clippy::wildcard_enum_match_arm, reason = "others may point anywhere")]
    fn transfer(&self, func: &Function, data: &InstData) -> Pointee {
        match *data {
            InstData::StackAddr { slot, offset } => Pointee::Slot(Pointer {
                slot,
                offset: Some(offset.into()),
                form: Form::Window,
            }),
            InstData::ToGeneric {
                space: Space::Local,
                arg,
            } => self.convert(arg, Form::Window, Form::Generic),
            InstData::FromGeneric {
                space: Space::Local,
                arg,
            } => self.convert(arg, Form::Generic, Form::Window),
            InstData::Resize {
                op: ResizeOp::Trunc,
                from: Type::B64,
                to: Type::B32,
                arg,
            } => self.convert(arg, Form::Window, Form::Narrow),
            InstData::Resize {
                op: ResizeOp::Uext | ResizeOp::Sext,
                from: Type::B32,
                to: Type::B64,
                arg,
            } => self.convert(arg, Form::Narrow, Form::Window),
            InstData::IntBinary {
                op: IntBinaryOp::Add,
                args: [a, b],
                ..
            } => self.sum(func, a, b),
            InstData::IntBinary {
                op: IntBinaryOp::Sub,
                args: [a, b],
                ..
            } => match (self.pointees[a], self.pointees[b]) {
                (Pointee::Slot(pointer), Pointee::Other) => {
                    let shift = func.as_const(b).map(|b| (b as i64).wrapping_neg());
                    Pointee::Slot(moved(pointer, shift))
                }
                (Pointee::Unknown, _) | (_, Pointee::Unknown) => Pointee::Unknown,
                (Pointee::Slot(_) | Pointee::Other, _) => Pointee::Other,
            },
            InstData::Load {
                sem: MemSem::Weak,
                ty: Type::B64,
                n: 1,
                addr,
                offset,
                ..
            } => match self.place(addr, offset) {
                Some((slot, Some(at))) => self.contents.loaded(slot, at),
                Some((_, None)) | None => Pointee::Other,
            },
            InstData::Select { args: [a, b], .. } => match (self.pointees[a], self.pointees[b]) {
                (Pointee::Unknown, other) | (other, Pointee::Unknown) => other,
                (a, b) => joined(a, b).unwrap_or(Pointee::Other),
            },
            _ => Pointee::Other,
        }
    }

    fn convert(&self, arg: Value, from: Form, to: Form) -> Pointee {
        match self.pointees[arg] {
            Pointee::Slot(pointer) if pointer.form == from => Pointee::Slot(Pointer {
                form: to,
                ..pointer
            }),
            Pointee::Unknown => Pointee::Unknown,
            Pointee::Slot(_) | Pointee::Other => Pointee::Other,
        }
    }

    fn sum(&self, func: &Function, a: Value, b: Value) -> Pointee {
        match (self.pointees[a], self.pointees[b]) {
            (Pointee::Slot(pointer), Pointee::Other) => Pointee::Slot(moved(
                pointer,
                func.as_const(b).map(|b| sign_extend(b, func.ty(a))),
            )),
            (Pointee::Other, Pointee::Slot(pointer)) => Pointee::Slot(moved(
                pointer,
                func.as_const(a).map(|a| sign_extend(a, func.ty(b))),
            )),
            (Pointee::Unknown, _) | (_, Pointee::Unknown) => Pointee::Unknown,
            (Pointee::Slot(_), Pointee::Slot(_)) | (Pointee::Other, Pointee::Other) => {
                Pointee::Other
            }
        }
    }

    /// Merges two ways of reaching a value; slots that cannot be told apart escape.
    fn join(&mut self, a: Pointee, b: Pointee) -> Pointee {
        match joined(a, b) {
            Some(pointee) => pointee,
            None => {
                self.escape(a);
                self.escape(b);
                Pointee::Other
            }
        }
    }

    fn escape(&mut self, pointee: Pointee) -> bool {
        match pointee {
            Pointee::Slot(pointer) => !std::mem::replace(&mut self.escapes[pointer.slot], true),
            Pointee::Other | Pointee::Unknown => false,
        }
    }

    /// Marks slots whose addresses go where this analysis cannot follow.
    #[expect(clippy::wildcard_enum_match_arm, reason = "others leak the address")]
    fn check_uses(&mut self, func: &Function, inst: Inst) -> bool {
        let data = &func.insts[inst].data;
        let n_results = func.insts[inst].results.len() as u32;
        let mut escaped = false;
        match data {
            // Comparing addresses gives nobody access.
            InstData::Compare { .. } => {}
            InstData::Load {
                space,
                sem,
                ty,
                addr,
                offset,
                ..
            } => {
                escaped |= self.check_access(*space, *addr);
                // A whole pointer is looked for in `transfer`.
                let is_whole = n_results == 1 && *ty == Type::B64 && *sem == MemSem::Weak;
                match self.place(*addr, *offset) {
                    Some((_, Some(_))) if is_whole => {}
                    Some((slot, Some(at))) => {
                        self.contents.access(slot, at, ty.bytes() * n_results);
                    }
                    Some((slot, None)) => self.contents.make_opaque(slot),
                    None => {}
                }
            }
            InstData::Store {
                space,
                sem,
                ty,
                addr,
                offset,
                args,
                ..
            } => {
                escaped |= self.check_access(*space, *addr);
                let place = self.place(*addr, *offset);
                for (i, &arg) in (0i64..).zip(args) {
                    let at =
                        place.map(|(slot, at)| (slot, at.map(|at| at + i * i64::from(ty.bytes()))));
                    escaped |= self.check_stored(at, *ty, *sem, self.pointees[arg]);
                }
            }
            InstData::Atomic {
                space, addr, args, ..
            } => {
                escaped |= self.check_access(*space, *addr);
                if let Some((slot, _)) = self.place(*addr, 0) {
                    self.contents.make_opaque(slot);
                }
                for &arg in args {
                    escaped |= self.escape(self.pointees[arg]);
                }
            }
            _ => {
                let is_followed = matches!(
                    self.transfer(func, data),
                    Pointee::Slot(_) | Pointee::Unknown
                );
                if !is_followed {
                    for arg in data.args() {
                        escaped |= self.escape(self.pointees[arg]);
                    }
                }
            }
        }
        escaped
    }

    /// The slot and the offset of an access, if its address is followed.
    fn place(&self, addr: Value, offset: i32) -> Option<(StackSlot, Option<i64>)> {
        match self.pointees[addr] {
            Pointee::Slot(pointer) => {
                let at = pointer.offset.and_then(|at| at.checked_add(offset.into()));
                // Far outside of any slot, so that sums with sizes need no care.
                Some((pointer.slot, at.filter(|at| at.unsigned_abs() < 1 << 40)))
            }
            Pointee::Other | Pointee::Unknown => None,
        }
    }

    /// Follows a pointer into a slot.
    fn check_stored(
        &mut self,
        place: Option<(StackSlot, Option<i64>)>,
        ty: Type,
        sem: MemSem,
        stored: Pointee,
    ) -> bool {
        let is_plain = ty == Type::B64 && sem == MemSem::Weak;
        match (place, stored) {
            (_, Pointee::Unknown) => false,
            (Some((slot, Some(at))), Pointee::Slot(_)) if is_plain => {
                let Some(cell) = self.contents.cell(slot, at) else {
                    return self.escape(stored);
                };
                let old = *cell;
                match joined(old, stored) {
                    Some(new) => {
                        *cell = new;
                        new != old
                    }
                    None => {
                        self.contents.make_opaque(slot);
                        self.escape(old) | self.escape(stored)
                    }
                }
            }
            (Some((slot, at)), _) => {
                match at {
                    Some(at) => self.contents.access(slot, at, ty.bytes()),
                    None => self.contents.make_opaque(slot),
                }
                self.escape(stored)
            }
            (None, _) => self.escape(stored),
        }
    }

    /// Pointers that were kept where they cannot be followed escape.
    fn check_contents(&mut self) -> bool {
        let mut escaped = false;
        for pointee in self.contents.remove_mixed(|slot| self.escapes[slot]) {
            escaped |= self.escape(pointee);
        }
        escaped
    }

    /// A pointer must be of the kind that the access takes.
    fn check_access(&mut self, space: Space, addr: Value) -> bool {
        let Pointee::Slot(pointer) = self.pointees[addr] else {
            return false;
        };
        let fits = match pointer.form {
            Form::Window | Form::Narrow => space == Space::Local,
            Form::Generic => space == Space::Generic,
        };
        !fits && self.escape(Pointee::Slot(pointer))
    }

    fn visit_end(&mut self, func: &Function, block: Block) -> bool {
        let mut changed = false;
        let term = &func.blocks[block].term;
        for call in term.targets() {
            for (&arg, &param) in call.args.iter().zip(&func.blocks[call.block].params) {
                let (old, passed) = (self.pointees[param], self.pointees[arg]);
                let new = self.join(old, passed);
                changed |= new != old;
                self.pointees[param] = new;
            }
        }
        if let ptxjit_ir::Terminator::Ret(values) = term {
            for &value in values {
                changed |= self.escape(self.pointees[value]);
            }
        }
        changed
    }
}

fn sign_extend(bits: u64, ty: Type) -> i64 {
    match ty {
        Type::B32 => i64::from(bits as u32 as i32),
        Type::B1 | Type::B8 | Type::B16 | Type::B64 => bits as i64,
    }
}

fn moved(pointer: Pointer, by: Option<i64>) -> Pointer {
    let offset = pointer
        .offset
        .zip(by)
        .and_then(|(offset, by)| offset.checked_add(by));
    Pointer { offset, ..pointer }
}

/// What a value is that may be either; none if that cannot be said.
fn joined(a: Pointee, b: Pointee) -> Option<Pointee> {
    match (a, b) {
        (Pointee::Unknown, other) | (other, Pointee::Unknown) => Some(other),
        (Pointee::Other, Pointee::Other) => Some(Pointee::Other),
        (Pointee::Slot(x), Pointee::Slot(y)) if x.slot == y.slot && x.form == y.form => {
            let offset = x.offset.filter(|_| x.offset == y.offset);
            Some(Pointee::Slot(Pointer { offset, ..x }))
        }
        (Pointee::Slot(_), _) | (Pointee::Other, _) => None,
    }
}
