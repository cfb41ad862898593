//! How bulk copies are done: word by word, by the thread that asks for them, when it does so. Then nobody need wait for their groups.

use ptxjit_ir::{CompareOp, IntBinaryOp, Space, Type, Value};

use crate::diag::Diagnostic;
use crate::translate::{Inst, Translator};

use super::mbarrier::barrier;
use super::modifiers::Mod;

/// `cp.async.bulk` but for tensors and reductions.
pub(super) fn copy<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    if inst.has(Mod::MulticastCluster) || inst.has(Mod::CpMask) {
        return super::not_executable(t, inst);
    }
    let announces = inst.has(Mod::MbarrierCompleteTxBytes);
    let [to, from] = match (announces, inst.has(Mod::Global)) {
        (true, true) => [Space::Shared, Space::Global],
        (true, false) => [Space::Shared, Space::Shared],
        (false, _) => [Space::Global, Space::Shared],
    };
    let to = place(t, inst, 0, to)?;
    let from = place(t, inst, 1, from)?;
    let size = t.src(inst, 2)?;
    // Sizes and addresses are multiples of 16 bytes.
    copy_in_steps(t, to, from, size, (Type::B32, 4));
    if announces {
        let barrier = barrier(t, inst, 3)?;
        barrier.change_bytes(t, size, true)?;
    }
    Ok(())
}

/// An address in a state space: a register and what is added to it.
pub(super) type Place = (Space, Value, i32);

/// The address at operand `n`.
pub(super) fn place<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    n: usize,
    space: Space,
) -> Result<Place, Diagnostic> {
    let Some(operand) = inst.operand(n) else {
        return Err(inst.error(format!("`{}` lacks an address", inst.name)));
    };
    let addr = t.resolve_address(operand)?;
    let (addr, offset) = t.emit_address(&addr)?;
    let addr = if space == Space::Global {
        t.zext_or_trunc(addr, Type::B64)
    } else {
        addr
    };
    Ok((space, addr, offset))
}

/// Copies `size` bytes, some elements of a type at a time.
pub(super) fn copy_in_steps(
    t: &mut Translator<'_>,
    to: Place,
    from: Place,
    size: Value,
    (ty, n): (Type, usize),
) {
    let var = t.builder.declare(Type::B32);
    let first = t.iconst(Type::B32, 0);
    t.builder.def_var(var, first);
    let [head, body, done] = [(); 3].map(|()| t.builder.new_block());
    t.builder.jump(head);
    t.builder.switch_to(head);
    let at = t.builder.use_var(var);
    let is_left = t.compare(CompareOp::Ult, at, size);
    t.builder.brif(is_left, body, done);
    t.builder.seal(body);
    t.builder.switch_to(body);
    let [to, from] = [to, from].map(|(space, addr, offset)| {
        let at = t.zext_or_trunc(at, t.value_ty(addr));
        (space, t.binary(IntBinaryOp::Add, addr, at), offset)
    });
    let elements = t.load(from.0, ty, n, (from.1, from.2));
    t.store(to.0, ty, (to.1, to.2), &elements);
    let step = t.iconst(Type::B32, u64::from(ty.bytes()) * n as u64);
    let next = t.binary(IntBinaryOp::Add, at, step);
    t.builder.def_var(var, next);
    t.builder.jump(head);
    t.builder.seal(head);
    t.builder.seal(done);
    t.builder.switch_to(done);
}
