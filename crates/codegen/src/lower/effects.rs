//! Instructions with effects, and those that read what is not an operand.

use cranelift_codegen::ir::InstBuilder;
use ptxjit_abi::warp_ops::WARP;
use ptxjit_ir::{self as ir, DeviceOp, Inst, InstData};

use crate::decisions::access_kinds::AccessKind;
use crate::lower::Lower;
use crate::ops::Val;

impl Lower<'_, '_> {
    /// Loads and stores.
    #[expect(clippy::wildcard_enum_match_arm, reason = "others are no accesses")]
    pub(super) fn emit_access(&mut self, inst: Inst, kind: AccessKind) {
        match self.func.insts[inst].data {
            InstData::Load { .. } => self.load(inst, kind),
            InstData::MaskedLoad { .. } => self.masked_load(inst, kind),
            InstData::Store { .. } => self.store(inst, kind),
            _ => unreachable!("a load or a store"),
        }
    }

    fn fence(&mut self, sem: ir::MemSem) {
        if sem == ir::MemSem::Sc || !cfg!(target_arch = "x86_64") {
            self.b.ins().fence();
        }
    }

    /// Other instructions with effects, and those that read what is not an operand.
    pub(super) fn emit_effect(&mut self, inst: Inst) {
        let node = &self.func.insts[inst];
        match &node.data {
            InstData::Fence { sem, .. } => self.fence(*sem),
            InstData::Sreg { sreg } => {
                let val = self.sreg(*sreg);
                self.def(node.results[0], val);
            }
            InstData::EndLane { ty, last, arg } => {
                let x = self.end_lane(*ty, *last, *arg);
                self.def(node.results[0], Val::Uniform(x));
            }
            InstData::FirstRunning { ty, arg } => {
                let x = self.first_running(*ty, *arg);
                self.def(node.results[0], Val::Uniform(x));
            }
            InstData::IsSpace { space, arg } => self.is_space(node.results[0], *space, *arg),
            InstData::ToGeneric { arg, .. } => self.local_generic(node.results[0], *arg, true),
            InstData::FromGeneric { arg, .. } => self.local_generic(node.results[0], *arg, false),
            InstData::Warp {
                op: ir::WarpOp::ActiveMask,
                ..
            } => self.active_mask(node.results[0]),
            InstData::Device {
                op: ir::DeviceOp::AlignedRow,
                args,
            } => self.check_row(args[0]),
            InstData::Device {
                op: DeviceOp::Trace(op),
                ..
            } => self.trace(inst, op.site),
            InstData::Device { .. } => self.device(inst),
            InstData::StackSave => self.stack_save(node.results[0]),
            InstData::StackRestore { arg } => self.stack_restore(*arg),
            InstData::Alloca { size, align } => self.alloca(node.results[0], *size, *align),
            InstData::Prefetch {
                addr,
                step,
                offset,
                size,
            } => self.prefetch(*addr, *step, *offset, *size),
            InstData::Count {
                counter,
                cond,
                sides,
            } => self.count(*counter, *cond, *sides),
            InstData::Nop => {}
            InstData::Warp { .. } if self.b.lanes == WARP => self.warp_at_once(inst),
            InstData::Warp { .. } | InstData::Barrier { .. } | InstData::Nanosleep { .. } => {
                unreachable!("waits are the first instructions of their blocks")
            }
            InstData::Call { .. } | InstData::CallIndirect { .. } => {
                unreachable!("calls were inlined or lowered")
            }
            InstData::Load { .. }
            | InstData::MaskedLoad { .. }
            | InstData::Store { .. }
            | InstData::Atomic { .. } => unreachable!("accesses are units of their own"),
            InstData::Const { .. }
            | InstData::VarAddr { .. }
            | InstData::FuncAddr { .. }
            | InstData::StackAddr { .. }
            | InstData::StateOf { .. }
            | InstData::IntUnary { .. }
            | InstData::IntBinary { .. }
            | InstData::IntTernary { .. }
            | InstData::Lop3 { .. }
            | InstData::Bfi { .. }
            | InstData::Resize { .. }
            | InstData::Compare { .. }
            | InstData::FloatUnary { .. }
            | InstData::FloatBinary { .. }
            | InstData::Fma { .. }
            | InstData::FloatCompare { .. }
            | InstData::Convert { .. }
            | InstData::ConvertRs { .. }
            | InstData::Select { .. } => unreachable!("pure instructions are emitted in runs"),
        }
    }
}
