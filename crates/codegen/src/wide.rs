//! What Cranelift does not have: vectors wider than 128 bits, masked stores, prefetches, shifts of
//! lanes by counts of their own, constants and loads as operands of wide instructions.
//!
//! [`MachineCode`] runs Cranelift's passes, and ours before and behind them. What is lowered emits
//! CLIF that stands for these instructions ([`masked::store`], [`prefetch::emit`],
//! [`lane_shifts::emit`]); [`pairs`] merges pairs of vectors in CLIF; and finished machine code is
//! rewritten: by [`ymm`] to 256 bits, by the others to what CLIF stands for. Code in which one of
//! them meets what it does not know is refused, and compiled with vectors of 128 bits.
//!
//! Nothing else reads machine code, and nothing above knows that vectors may be wider than CLIF
//! says, but for [`crate::host::Target`].

use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::SourceLoc;
use cranelift_codegen::isa::TargetIsa;
use cranelift_codegen::{CodegenError, CompiledCode, Context};

mod encode;
mod lane_inserts;
pub(crate) mod lane_shifts;
pub(crate) mod masked;
mod operands;
mod pairs;
pub(crate) mod prefetch;
mod ymm;

use pairs::Merged;
use ymm::Refused;

pub(crate) use lane_inserts::LaneInserts;
pub(crate) use masked::Masks;
pub(crate) use pairs::is_of_widened;

/// Whether a place in the PTX is none: it marks code that stands for other code.
pub(crate) fn is_mark(loc: SourceLoc) -> bool {
    [pairs::clearing(), pairs::test_of_both()].contains(&loc)
}

/// A function on its way from CLIF to machine code.
pub(crate) struct MachineCode<'a> {
    pub context: &'a mut Context,
    /// The register allocator's memory.
    pub registers: &'a mut regalloc2::Ctx,
    pub masks: Masks,
}

impl MachineCode<'_> {
    /// Cranelift's passes, with our own before instruction selection and behind register
    /// allocation. `None` if the code is refused.
    pub(crate) fn emit(
        mut self,
        isa: &dyn TargetIsa,
        is_wide: bool,
        lane_inserts: &[LaneInserts],
    ) -> Result<Option<(CompiledCode, Vec<u8>)>, CodegenError> {
        let context = &mut *self.context;
        context.optimize(isa, &mut ControlPlane::default())?;
        if !lane_inserts.is_empty() {
            lane_inserts::pass_on(&mut context.func, lane_inserts);
            context.verify_if(isa)?;
            context.compute_cfg();
            context.compute_domtree();
        }
        if is_wide && let Some(merged) = pairs::merge(context) {
            context.verify_if(isa)?;
            return self.wide(isa, &merged);
        }
        let code = self.compiled(isa)?;
        let mut bytes = code.code_buffer().to_vec();
        lane_shifts::put_in(&self.context.func, &code, &mut bytes);
        if !masked::put_in(&code, self.masks, &mut bytes) {
            return Ok(None);
        }
        prefetch::put_in(&code, &mut bytes);
        Ok(Some((code, bytes)))
    }

    /// Compiles a function of vectors of 256 bits, again if there was no room for registers on the
    /// stack.
    fn wide(
        &mut self,
        isa: &dyn TargetIsa,
        merged: &Merged,
    ) -> Result<Option<(CompiledCode, Vec<u8>)>, CodegenError> {
        loop {
            let mut code = self.compiled(isa)?;
            let slot = &mut self.context.func.sized_stack_slots[merged.spills];
            match ymm::widen(&code, merged, slot.size) {
                Ok(mut bytes) => {
                    if !masked::put_in(&code, self.masks, &mut bytes) {
                        return Ok(None);
                    }
                    operands::put_in(&code, &mut bytes);
                    lane_shifts::put_in(&self.context.func, &code, &mut bytes);
                    prefetch::put_in(&code, &mut bytes);
                    if let Some(text) = &mut code.vcode {
                        *text = ymm::listing(&bytes, &code.bb_starts);
                    }
                    return Ok(Some((code, bytes)));
                }
                Err(Refused::Spills(count)) => slot.size = ymm::room_for(count),
                Err(Refused::Unknown(_)) => return Ok(None),
            }
        }
    }

    fn compiled(&mut self, isa: &dyn TargetIsa) -> Result<CompiledCode, CodegenError> {
        let context = &*self.context;
        let (func, domtree) = (&context.func, &context.domtree);
        let (listing, mut control) = (context.want_disasm, ControlPlane::default());
        let code = isa.compile_function(func, domtree, self.registers, listing, &mut control)?;
        Ok(code.apply_params(&func.params))
    }
}

/// Where the blocks of a compiled function begin and end.
fn blocks(compiled: &CompiledCode) -> impl Iterator<Item = (u32, u32)> {
    let starts = compiled.bb_starts.iter().copied();
    let end = compiled.code_buffer().len() as u32;
    starts.clone().zip(starts.skip(1).chain([end]))
}
