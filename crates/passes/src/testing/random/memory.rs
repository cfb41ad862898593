//! Statements of random functions that access memory.

use ptxjit_ir::{InstData, IntBinaryOp, MemSem, Scope, Space, Type, Value};

use super::Maker;
use crate::testing::exec;

impl Maker<'_, '_> {
    fn access(&mut self, space: Space, ty: Type, addr: Value, offset: i32) {
        let (sem, scope) = (MemSem::Weak, Scope::Sys);
        if self.rng.below(2) == 0 {
            let args = [self.value(ty)].into_iter().collect();
            self.b.inst(
                InstData::Store {
                    space,
                    sem,
                    scope,
                    ty,
                    addr,
                    offset,
                    args,
                },
                &[],
            );
        } else {
            self.define(
                InstData::Load {
                    space,
                    sem,
                    scope,
                    ty,
                    n: 1,
                    addr,
                    offset,
                },
                ty,
            );
        }
    }

    pub(super) fn slot_access(&mut self, ty: Type) {
        let ty = if ty == Type::B1 { Type::B8 } else { ty };
        let pick = self.rng.below(3);
        let size = [16, 8, 24][pick];
        let offset = self.rng.below(size as usize - ty.bytes() as usize + 1) as i32;
        let split = self.rng.below(offset as usize + 1) as i32;
        let mut addr = self.b.ins(
            InstData::StackAddr {
                slot: self.slots[pick],
                offset: split,
            },
            Type::B64,
        );
        // The last slot is sometimes addressed by a variable.
        if pick == 2 && self.rng.below(4) == 0 {
            let (index, seven) = (self.value(Type::B64), self.b.iconst(Type::B64, 7));
            let index = self.b.ins(
                InstData::IntBinary {
                    op: IntBinaryOp::And,
                    ty: Type::B64,
                    args: [index, seven],
                },
                Type::B64,
            );
            let base = self.b.ins(
                InstData::StackAddr {
                    slot: self.slots[pick],
                    offset: 0,
                },
                Type::B64,
            );
            addr = self.b.ins(
                InstData::IntBinary {
                    op: IntBinaryOp::Add,
                    ty: Type::B64,
                    args: [base, index],
                },
                Type::B64,
            );
        }
        if self.rng.below(2) == 0 {
            let generic = self.b.ins(
                InstData::ToGeneric {
                    space: Space::Local,
                    arg: addr,
                },
                Type::B64,
            );
            return self.access(Space::Generic, ty, generic, offset - split);
        }
        self.access(Space::Local, ty, addr, offset - split);
    }

    pub(super) fn memory_access(&mut self, ty: Type) {
        let ty = if ty == Type::B1 { Type::B8 } else { ty };
        let (index, mask) = (self.value(Type::B64), self.b.iconst(Type::B64, 0x38));
        let index = self.b.ins(
            InstData::IntBinary {
                op: IntBinaryOp::And,
                ty: Type::B64,
                args: [index, mask],
            },
            Type::B64,
        );
        let base = self.b.iconst(Type::B64, 0x1000);
        let addr = self.b.ins(
            InstData::IntBinary {
                op: IntBinaryOp::Add,
                ty: Type::B64,
                args: [index, base],
            },
            Type::B64,
        );
        let offset = self.rng.below(16) as i32 - 8;
        match self.rng.below(4) {
            0 => self.access(Space::Shared, ty, addr, offset),
            1 => {
                let generic = self.b.ins(
                    InstData::ToGeneric {
                        space: Space::Shared,
                        arg: addr,
                    },
                    Type::B64,
                );
                self.access(Space::Generic, ty, generic, offset);
            }
            2 => self.access(Space::Generic, ty, addr, offset),
            _ => self.access(Space::Global, ty, addr, offset),
        }
    }

    /// Stores a pointer into one of the first slots to a place of the last.
    pub(super) fn keep_pointer(&mut self, cell: i32) {
        let (slot, offset) = (self.slots[self.rng.below(2)], self.rng.below(2) as u64);
        let addr = self
            .b
            .ins(InstData::StackAddr { slot, offset: 0 }, Type::B64);
        let generic = self.b.ins(
            InstData::ToGeneric {
                space: Space::Local,
                arg: addr,
            },
            Type::B64,
        );
        let args = [generic, self.b.iconst(Type::B64, offset)];
        let pointer = InstData::IntBinary {
            op: IntBinaryOp::Add,
            ty: Type::B64,
            args,
        };
        let pointer = self.b.ins(pointer, Type::B64);
        let holder = InstData::StackAddr {
            slot: self.slots[3],
            offset: 8 * cell,
        };
        let addr = self.b.ins(holder, Type::B64);
        let (space, sem, scope) = (Space::Local, MemSem::Weak, Scope::Sys);
        let args = [pointer].into_iter().collect();
        self.b.inst(
            InstData::Store {
                space,
                sem,
                scope,
                ty: Type::B64,
                addr,
                offset: 0,
                args,
            },
            &[],
        );
    }

    /// An access through a pointer that is kept in a slot.
    pub(super) fn kept_access(&mut self, ty: Type) {
        let ty = if matches!(ty, Type::B1 | Type::B64) {
            Type::B8
        } else {
            ty
        };
        let cell = self.rng.below(2) as i32;
        if self.rng.below(4) == 0 {
            return self.keep_pointer(cell);
        }
        let holder = InstData::StackAddr {
            slot: self.slots[3],
            offset: 0,
        };
        let addr = self.b.ins(holder, Type::B64);
        let (space, sem, scope) = (Space::Local, MemSem::Weak, Scope::Sys);
        let offset = 8 * cell;
        let load = InstData::Load {
            space,
            sem,
            scope,
            ty: Type::B64,
            n: 1,
            addr,
            offset,
        };
        let pointer = self.b.ins(load, Type::B64);
        self.access(Space::Generic, ty, pointer, 0);
    }

    /// An access to a slot through an address that went through memory, so that the slot escapes.
    pub(super) fn escaped_access(&mut self, ty: Type) {
        if self.rng.below(4) != 0 {
            return;
        }
        let ty = if ty == Type::B1 { Type::B8 } else { ty };
        let (space, sem, scope) = (Space::Global, MemSem::Weak, Scope::Sys);
        let addr = self.b.ins(
            InstData::StackAddr {
                slot: self.slots[1],
                offset: 0,
            },
            Type::B64,
        );
        let generic = self.b.ins(
            InstData::ToGeneric {
                space: Space::Local,
                arg: addr,
            },
            Type::B64,
        );
        let cell = self.b.iconst(Type::B64, exec::HIDDEN);
        let args = [generic].into_iter().collect();
        self.b.inst(
            InstData::Store {
                space,
                sem,
                scope,
                ty: Type::B64,
                addr: cell,
                offset: 0,
                args,
            },
            &[],
        );
        let load = InstData::Load {
            space,
            sem,
            scope,
            ty: Type::B64,
            n: 1,
            addr: cell,
            offset: 0,
        };
        let pointer = self.b.ins(load, Type::B64);
        self.access(Space::Generic, ty, pointer, 0);
    }
}
