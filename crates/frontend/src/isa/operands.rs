//! Checking operands against the row that an instruction fits.
//!
//! The file is long because the rules for all kinds of operands belong together.

use ptxjit_ir::Space;

use crate::ast::{self, Ident, OperandKind};
use crate::diag::Diagnostic;
use crate::parse::constexpr;
use crate::translate::{
    AddrBase, Entity, Inst, Place, PlaceBase, Translator, const_bits, element_index,
};

use super::desc::{Elems, Opd, OpdKind, OpdType, Pair, Selector};
use super::memory::SPACE;
use super::modifiers::Mod;
use super::sregs;
use super::types::{Class, PtxType, Width};

/// Checks every operand of an instruction.
pub(super) fn check<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    for (n, (operand, opd)) in inst.ast.operands.iter().zip(&inst.opds).enumerate() {
        let ty = inst.opd_type(n);
        match opd.kind {
            OpdKind::Dst => check_dst(t, inst, operand, opd, ty)?,
            OpdKind::Src => check_src(t, inst, operand, opd, ty)?,
            OpdKind::Imm(lo, hi) => check_imm(t, inst, n, lo, hi)?,
            // Of a copy of tensors ptxas takes a register without brackets as well.
            OpdKind::Addr if inst.has(Mod::Tensor) && is_register_or_sum(t, operand) => {}
            OpdKind::Addr
                if !matches!(
                    operand.kind,
                    OperandKind::Address(_) | OperandKind::Element(_) | OperandKind::Tuple(_)
                ) =>
            {
                return Err(error(
                    operand,
                    "a memory address in brackets is expected here",
                ));
            }
            OpdKind::Addr => check_address(t, inst, n, operand)?,
            OpdKind::Any => {}
        }
    }
    Ok(())
}

/// `%r1` or `%r1+4`
fn is_register_or_sum(t: &mut Translator<'_>, operand: &ast::Operand) -> bool {
    let name = match &operand.kind {
        OperandKind::Name(name) => *name,
        OperandKind::NameOffset(sum) => sum.name,
        _ => return false,
    };
    matches!(t.lookup(name), Some(Entity::Reg(id)) if t.reg(id).ty != PtxType::Pred)
}

/// Instructions on generic and global memory that need the full width of an address; others let
/// ptxas extend it.
const WIDE: &[&str] = &[
    "ld",
    "ldu",
    "st",
    "atom",
    "red",
    "prefetch",
    "prefetchu",
    "mbarrier",
    "multimem",
    "discard",
    "applypriority",
];
/// State spaces whose addresses fit into 32 bits.
pub(super) const WINDOWS: &[Mod] = &[
    Mod::Shared,
    Mod::SharedCta,
    Mod::SharedCluster,
    Mod::Local,
    Mod::Const,
    Mod::Param,
    Mod::ParamEntry,
    Mod::ParamFunc,
];

fn check_address<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    n: usize,
    operand: &'m ast::Operand,
) -> Result<(), Diagnostic> {
    let base = match t.resolve_address(operand)?.base {
        AddrBase::Reg(base) => base,
        AddrBase::Place(place) => return check_place(t, inst, n, operand, &place),
        AddrBase::Absolute if !inst.has(Mod::Local) => {
            return Err(error(
                operand,
                "a constant can be an address only in `.local`",
            ));
        }
        AddrBase::Func(_) | AddrBase::Absolute => return Ok(()),
    };
    let is_wide = WIDE.contains(&inst.desc.opcode) && inst.pick(WINDOWS).is_none();
    if is_wide && inst.pick(SPACE).is_none() && t.arch().number < 20 {
        return Err(inst.error("generic addresses need target sm_20 or higher"));
    }
    if !is_wide || !t.has_wide_addresses() {
        return Ok(());
    }
    let (OperandKind::Name(name) | OperandKind::Member { base: name, .. }) = base.kind else {
        return Ok(());
    };
    match t.lookup(name) {
        Some(Entity::Reg(id)) if t.reg(id).ty.bits() < 64 => {
            let bits = t.reg(id).ty.bits();
            let message = format!(
                "a register of {bits} bits cannot address this memory: `.address_size` is 64"
            );
            Err(error(operand, message).label(t.reg(id).decl, "declared here"))
        }
        Some(Entity::Reg(_) | Entity::Place(_) | Entity::Func(_)) | None => Ok(()),
    }
}

/// A variable at the address lies in the state space that the instruction names, or at least in one
/// that can be meant.
fn check_place<'m>(
    t: &Translator<'m>,
    inst: &Inst<'m>,
    n: usize,
    operand: &'m ast::Operand,
    place: &Place,
) -> Result<(), Diagnostic> {
    if let Some(ty) = place.opaque {
        let message = format!("a `.{}` is not memory", ty.name());
        return Err(error(operand, message)
            .label(place.decl, "declared here")
            .note("only texture, surface and query instructions take it as an operand"));
    }
    let found = place.space();
    let fits = match inst.desc.opcode {
        "mbarrier" => found == Space::Shared,
        "multimem" | "prefetch" | "applypriority" | "discard" => match inst.pick(SPACE) {
            Some(Mod::Global) => found == Space::Global,
            Some(Mod::Local) => found == Space::Local,
            Some(_) => true,
            None => !matches!(found, Space::Const | Space::Param),
        },
        "prefetchu" => false,
        "cp" | "st" if inst.has(Mod::Async) => {
            async_space(inst, n).is_none_or(|space| found == space)
        }
        _ => true,
    };
    if fits {
        return Ok(());
    }
    let name = t.source.slice(place.decl);
    let message = format!(
        "`{}` cannot work on `{name}`: it is in {}",
        inst.name,
        space_name(found)
    );
    Err(error(operand, message).label(place.decl, "declared here"))
}

/// The state space of an address of an asynchronous copy: as the row names them in order, then the
/// barrier's.
fn async_space(inst: &Inst<'_>, n: usize) -> Option<Space> {
    let has_barrier = inst.has(Mod::MbarrierCompleteTxBytes)
        || inst.has(Mod::Mbarrier) && inst.pick(SPACE).is_some();
    if inst.has(Mod::Bulk) {
        let mut spaces = inst.desc.required.iter().filter(|m| SPACE.contains(m));
        return match spaces.nth(n) {
            Some(Mod::Global) => Some(Space::Global),
            Some(_) => Some(Space::Shared),
            None => has_barrier.then_some(Space::Shared),
        };
    }
    has_barrier.then_some(Space::Shared)
}

fn check_dst<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    operand: &'m ast::Operand,
    opd: &Opd,
    ty: PtxType,
) -> Result<(), Diagnostic> {
    match (&operand.kind, opd.pair) {
        (OperandKind::Pair(_), Pair::Never) => Err(error(
            operand,
            format!("`{}` has a single destination, not `d|p`", inst.name),
        )),
        (OperandKind::Pair(pair), Pair::Optional | Pair::Always) => {
            let [d, p] = &**pair;
            for_elems(t, inst, d, opd, |t, elem, _| {
                check_dst_elem(t, elem, opd, ty, opd.can_sink)
            })?;
            check_dst_elem(t, p, opd, PtxType::Pred, true)
        }
        (_, Pair::Always) => Err(error(
            operand,
            format!("`{}` needs a destination `d|p`", inst.name),
        )),
        (_, Pair::Never | Pair::Optional) => {
            let ty = elem_type(t, operand, opd, ty)?;
            for_elems(t, inst, operand, opd, |t, elem, in_list| {
                check_dst_elem(
                    t,
                    elem,
                    opd,
                    ty,
                    opd.can_sink || in_list && opd.elems != Elems::One,
                )
            })
        }
    }
}

fn check_dst_elem<'m>(
    t: &mut Translator<'m>,
    operand: &'m ast::Operand,
    opd: &Opd,
    ty: PtxType,
    can_sink: bool,
) -> Result<(), Diagnostic> {
    match operand.kind {
        OperandKind::Sink if can_sink => Ok(()),
        OperandKind::Sink => Err(error(
            operand,
            "`_` cannot stand here: the result must go to a register",
        )),
        OperandKind::Name(name) => check_reg(t, operand, name, None, ty, opd),
        OperandKind::Member { base, selector } => check_member(t, operand, base, selector, opd, ty),
        OperandKind::Vector(_) => Err(error(
            operand,
            format!(
                "a scalar register of type `.{}` is expected here",
                ty.name()
            ),
        )),
        OperandKind::NameOffset(_)
        | OperandKind::Constant(_)
        | OperandKind::Address(_)
        | OperandKind::Element(_)
        | OperandKind::Tuple(_)
        | OperandKind::Pair(_)
        | OperandKind::Not(_)
        | OperandKind::Neg(_)
        | OperandKind::List(_) => Err(error(operand, "the destination must be a register")),
    }
}

/// Checks that the operand has as many elements as it should and calls `check` on each; the flag
/// says that it stands in braces.
fn for_elems<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    operand: &'m ast::Operand,
    opd: &Opd,
    mut check: impl FnMut(&mut Translator<'m>, &'m ast::Operand, bool) -> Result<(), Diagnostic>,
) -> Result<(), Diagnostic> {
    let expected = match opd.elems {
        Elems::One => Some(1),
        Elems::Of(n) | Elems::List(n) => Some(usize::from(n)),
        Elems::ByModifier => Some(vector_length(inst)),
        Elems::Any => None,
        Elems::Lenient => match operand.kind {
            OperandKind::Vector(_) => Some(vector_length(inst)).filter(|&n| n > 1),
            _ if opd.kind == OpdKind::Dst => Some(vector_length(inst)),
            _ => None,
        },
        Elems::Parts => match operand.kind {
            OperandKind::Vector(_) => None,
            _ => Some(1),
        },
    };
    if let (OperandKind::Vector(_), Elems::One) = (&operand.kind, opd.elems) {
        return Err(error(
            operand,
            format!("`{}` takes a scalar here, not a vector", inst.name),
        ));
    }
    let found = match &operand.kind {
        OperandKind::Vector(elems) => elems.len(),
        OperandKind::Name(name) => vector_register(t, *name).unwrap_or(1),
        _ => 1,
    };
    if let Some(expected) = expected.filter(|&n| n != found) {
        let message = match (expected, found) {
            (1, _) => format!("`{}` takes a scalar here, not a vector", inst.name),
            (_, 1) => format!("`{}` takes a vector of {expected} elements here", inst.name),
            _ => format!(
                "`{}` takes a vector of {expected} elements here, not {found}",
                inst.name
            ),
        };
        return Err(error(operand, message));
    }
    if found == 1
        && matches!(opd.elems, Elems::List(_))
        && !matches!(operand.kind, OperandKind::Vector(_))
    {
        return Err(error(
            operand,
            format!("`{}` takes a list in braces here", inst.name),
        ));
    }
    match &operand.kind {
        OperandKind::Vector(elems) => {
            if opd.kind == OpdKind::Dst
                && elems
                    .iter()
                    .all(|elem| matches!(elem.kind, OperandKind::Sink))
            {
                return Err(error(operand, "not every element can be `_`"));
            }
            elems.iter().try_for_each(|elem| check(t, elem, true))?;
            check_same_kind(t, elems)
        }
        _ => check(t, operand, false),
    }
}

/// The registers of a brace list all have one width and one kind: floats do not stand beside
/// integers (constants too), but bits go with both.
fn check_same_kind(t: &mut Translator<'_>, elems: &[ast::Operand]) -> Result<(), Diagnostic> {
    let (mut first_bits, mut first_class) = (None, None);
    for elem in elems {
        let class = match &elem.kind {
            OperandKind::Name(name) => {
                let Some(Entity::Reg(id)) = t.lookup(*name) else {
                    continue;
                };
                let ty = t.reg(id).ty;
                if *first_bits.get_or_insert(ty.bits()) != ty.bits() {
                    return Err(error(
                        elem,
                        "the registers of a vector must all have the same width",
                    ));
                }
                ty.class()
            }
            OperandKind::Constant(expr) => match constexpr::evaluate(expr)? {
                constexpr::Value::F64(_) | constexpr::Value::F32Bits(_) => Class::Float,
                constexpr::Value::S64(_) | constexpr::Value::U64(_) => Class::Signed,
            },
            _ => continue,
        };
        let class = if class == Class::Unsigned {
            Class::Signed
        } else {
            class
        };
        if class != Class::Bits && *first_class.get_or_insert(class) != class {
            return Err(error(
                elem,
                "the elements of a vector must all have the same type",
            ));
        }
    }
    Ok(())
}

/// The type that the elements of a brace list are compared with: one of bits makes a list of bits.
fn list_type(t: &mut Translator<'_>, elems: &[ast::Operand], ty: PtxType) -> PtxType {
    let is_bits = elems.iter().any(|elem| match elem.kind {
        OperandKind::Name(name) => match t.lookup(name) {
            Some(Entity::Reg(id)) => {
                t.reg(id).ty.class() == Class::Bits && t.reg(id).ty.bits() == ty.bits()
            }
            Some(Entity::Place(_) | Entity::Func(_)) | None => false,
        },
        _ => false,
    });
    match (is_bits, ty.bits()) {
        (true, 8) => PtxType::B8,
        (true, 16) => PtxType::B16,
        (true, 32) => PtxType::B32,
        (true, 64) => PtxType::B64,
        (true | false, _) => ty,
    }
}

/// How many elements `.v2`, `.v4` or `.v8` asks for.
pub(crate) fn vector_length(inst: &Inst<'_>) -> usize {
    match inst.pick(&[Mod::V2, Mod::V4, Mod::V8]) {
        Some(Mod::V2) => 2,
        Some(Mod::V4) => 4,
        Some(Mod::V8) => 8,
        _ => 1,
    }
}

/// The number of elements of a vector register or vector special register.
fn vector_register(t: &mut Translator<'_>, name: Ident) -> Option<usize> {
    match t.lookup(name) {
        Some(Entity::Reg(id)) => Some(usize::from(t.reg(id).elems)),
        Some(Entity::Place(_) | Entity::Func(_)) => None,
        None => sregs::find(name.text(t.source))
            .filter(|sreg| sreg.regs.len() == 3)
            .map(|_| 4),
    }
}

/// Checks one operand as a source that the row does not describe.
pub(crate) fn check_src_operand<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    operand: &'m ast::Operand,
    opd: &Opd,
    ty: PtxType,
) -> Result<(), Diagnostic> {
    check_src(t, inst, operand, opd, ty)
}

fn check_src<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    operand: &'m ast::Operand,
    opd: &Opd,
    ty: PtxType,
) -> Result<(), Diagnostic> {
    let ty = elem_type(t, operand, opd, ty)?;
    for_elems(t, inst, operand, opd, |t, elem, in_list| {
        check_src_elem(t, inst, elem, opd, ty, in_list)
    })
}

fn check_src_elem<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    operand: &'m ast::Operand,
    opd: &Opd,
    ty: PtxType,
    in_list: bool,
) -> Result<(), Diagnostic> {
    match &operand.kind {
        OperandKind::Name(name) => check_src_name(t, inst, operand, *name, None, opd, ty),
        OperandKind::Member { base, selector } if opd.selector != Selector::Element => {
            check_member(t, operand, *base, *selector, opd, ty)
        }
        OperandKind::Neg(negated)
            if opd.can_minus && !matches!(negated.kind, OperandKind::Neg(_)) =>
        {
            check_src_elem(t, inst, negated, opd, ty, in_list)
        }
        OperandKind::Member { base, selector } => {
            check_src_name(t, inst, operand, *base, Some(*selector), opd, ty)
        }
        OperandKind::Constant(expr) if opd.can_imm => const_bits(constexpr::evaluate(expr)?, ty)
            .map(|_| ())
            .map_err(|message| error(operand, message)),
        OperandKind::Constant(_) => Err(error(
            operand,
            format!("`{}` takes a register here, not a constant", inst.name),
        )),
        OperandKind::Not(name) if opd.can_negate && ty == PtxType::Pred => {
            check_reg(t, operand, *name, None, ty, opd)
        }
        OperandKind::Not(_) => Err(error(
            operand,
            "`!` can stand only before a predicate source",
        )),
        OperandKind::NameOffset(sum) if !in_list && t.is_register(sum.name) => {
            check_reg_offset(t, inst, operand, sum, opd, ty)
        }
        OperandKind::NameOffset(_) | OperandKind::Element(_) if opd.can_address => {
            check_addressable(t, operand)?;
            check_address_type(operand, ty)
        }
        OperandKind::NameOffset(_) | OperandKind::Element(_) => Err(error(
            operand,
            format!("`{}` does not take an address here", inst.name),
        )),
        OperandKind::Sink if in_list && opd.can_sink => Ok(()),
        OperandKind::Sink => Err(error(operand, "`_` cannot be read")),
        OperandKind::Vector(_) => Err(error(operand, "a vector cannot stand inside a vector")),
        OperandKind::Address(_) => Err(error(
            operand,
            format!("`{}` takes a register here, not `[address]`", inst.name),
        )),
        OperandKind::Pair(_) => Err(error(operand, "`d|p` can only be a destination")),
        OperandKind::Neg(_) | OperandKind::List(_) | OperandKind::Tuple(_) => Err(error(
            operand,
            format!(
                "a register or constant of type `.{}` is expected here",
                ty.name()
            ),
        )),
    }
}

/// ptxas takes `%r1+4`; what it computes is written nowhere. Nor does it look at the width of the
/// register, but where the instruction wants a `.u32` of its own.
fn check_reg_offset<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    operand: &'m ast::Operand,
    sum: &ast::NameOffset,
    opd: &Opd,
    ty: PtxType,
) -> Result<(), Diagnostic> {
    if constexpr::evaluate(&sum.offset)?.as_int().is_none() {
        return Err(error(operand, "the offset must be an integer"));
    }
    if inst
        .opds
        .iter()
        .any(|opd| opd.selector != Selector::Element)
    {
        return Err(error(
            operand,
            format!("`{}` does not take an address here", inst.name),
        ));
    }
    let Some(Entity::Reg(id)) = t.lookup(sum.name) else {
        return Ok(());
    };
    if opd.ty == OpdType::Is(PtxType::U32) || !ty.goes_with(t.reg(id).ty) {
        return check_reg(t, operand, sum.name, None, ty, opd);
    }
    Ok(())
}

fn check_src_name<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    operand: &'m ast::Operand,
    name: Ident,
    selector: Option<Ident>,
    opd: &Opd,
    ty: PtxType,
) -> Result<(), Diagnostic> {
    match t.lookup(name) {
        Some(Entity::Reg(_)) => check_reg(t, operand, name, selector, ty, opd),
        Some(Entity::Place(_) | Entity::Func(_)) if opd.can_address && selector.is_none() => {
            check_addressable(t, operand)?;
            check_global_width(t, inst, operand, ty)?;
            check_address_type(operand, ty)
        }
        Some(Entity::Place(_) | Entity::Func(_)) => Err(error(
            operand,
            format!(
                "`{}` takes a register here, and `{}` is none",
                inst.name,
                name.text(t.source)
            ),
        )),
        None => check_sreg(t, inst, operand, name, selector, opd, ty),
    }
}

fn check_sreg<'m>(
    t: &Translator<'m>,
    inst: &Inst<'m>,
    operand: &'m ast::Operand,
    name: Ident,
    selector: Option<Ident>,
    opd: &Opd,
    ty: PtxType,
) -> Result<(), Diagnostic> {
    let text = name.text(t.source);
    if text == "WARP_SZ" && opd.can_imm && selector.is_none() {
        return const_bits(constexpr::Value::S64(32), ty)
            .map(|_| ())
            .map_err(|message| error(operand, message));
    }
    let Some(sreg) = sregs::find(text) else {
        return Err(t.unknown_name(name));
    };
    if !opd.can_sreg {
        return Err(error(
            operand,
            format!(
                "special register `{text}` cannot be an operand of `{}`",
                inst.name
            ),
        )
        .note("special registers are read with `mov` or `cvt`"));
    }
    let (major, minor) = sreg.ptx;
    let (version, arch) = (t.version(), t.arch());
    if !version.at_least(major, minor) {
        let message = format!(
            "`{text}` needs PTX {major}.{minor}, but `.version` is {}.{}",
            version.major, version.minor
        );
        return Err(error(operand, message));
    }
    if arch.number < sreg.sm {
        let message = format!(
            "`{text}` needs target sm_{} or higher, but `.target` is {}",
            sreg.sm,
            super::target::arch_name(arch)
        );
        return Err(error(operand, message));
    }
    // Before PTX 2.0 the vectors were 16 bits wide, and `%gridid` was once narrower: reads of their
    // low bits stay legal.
    let is_narrow_read = ty.bits() < sreg.ty.bits() && (sreg.regs.len() == 3 || text == "%gridid");
    if is_narrow_read && ty.ir().is_some() && ty != PtxType::Pred || ty.fits(sreg.ty, opd.width) {
        return Ok(());
    }
    Err(error(
        operand,
        format!(
            "`{text}` has type `.{}`, but `.{}` is expected here",
            sreg.ty.name(),
            ty.name()
        ),
    ))
}

fn check_reg<'m>(
    t: &mut Translator<'m>,
    operand: &'m ast::Operand,
    name: Ident,
    selector: Option<Ident>,
    ty: PtxType,
    opd: &Opd,
) -> Result<(), Diagnostic> {
    let text = name.text(t.source);
    let id = match t.lookup(name) {
        Some(Entity::Reg(id)) => id,
        Some(Entity::Place(_) | Entity::Func(_)) => {
            return Err(error(operand, format!("`{text}` is not a register")));
        }
        None if sregs::find(text).is_some() => {
            return Err(error(
                operand,
                format!("special register `{text}` is read-only"),
            ));
        }
        None => return Err(t.unknown_name(name)),
    };
    let (reg_ty, elems) = (t.reg(id).ty, usize::from(t.reg(id).elems));
    if let Some(selector) = selector {
        let selector_text = selector.text(t.source);
        let is_element = elems > 1 && element_index(selector_text).is_some_and(|idx| idx < 4);
        if !is_element {
            return Err(
                Diagnostic::error(format!("`{text}` has no element `.{selector_text}`"))
                    .label(selector.span, ""),
            );
        }
    }
    // As an operand of the instruction's own type a pair of halves counts as a word, elsewhere it
    // does not.
    let is_pair = reg_ty == PtxType::F16x2
        && matches!(opd.ty, OpdType::Is(_))
        && matches!(ty.class(), Class::Signed | Class::Unsigned);
    if ty.fits(reg_ty, opd.width) && !is_pair {
        return Ok(());
    }
    let decl = t.reg(id).decl;
    let expects = match opd.width {
        Width::Exact => format!("`.{}`", ty.name()),
        Width::OrWider => format!("`.{}` (or wider)", ty.name()),
        Width::OrInteger => format!("`.{}` (or an integer)", ty.name()),
    };
    Err(Diagnostic::error(format!(
        "`{text}` has type `.{}`, but {expects} is expected here",
        reg_ty.name()
    ))
    .label(operand.span, "")
    .label(decl, "declared here"))
}

/// A register with something after its dot.
fn check_member<'m>(
    t: &mut Translator<'m>,
    operand: &'m ast::Operand,
    base: Ident,
    selector: Ident,
    opd: &Opd,
    ty: PtxType,
) -> Result<(), Diagnostic> {
    if opd.selector == Selector::Element {
        return check_reg(t, operand, base, Some(selector), ty, opd);
    }
    let text = selector.text(t.source);
    if opd.selector.accepts(text) {
        return check_reg(t, operand, base, None, ty, opd);
    }
    let example = match opd.selector {
        Selector::Element | Selector::Part => "`.b0` to `.b3`, `.h0` or `.h1`",
        Selector::TwoHalves => "`.h` and two digits from 0 to 3",
        Selector::FourBytes => "`.b` and four digits from 0 to 7",
        Selector::HalfMask => "`.h0`, `.h1` or `.h10`",
        Selector::ByteMask => "`.b` and falling digits from 3 to 0",
    };
    Err(
        Diagnostic::error(format!("`.{text}` selects no part that can stand here"))
            .label(selector.span, example),
    )
}

/// The type of the elements of an operand: that of the operand, or in a list of parts the fraction
/// of it that each part is.
fn elem_type(
    t: &mut Translator<'_>,
    operand: &ast::Operand,
    opd: &Opd,
    ty: PtxType,
) -> Result<PtxType, Diagnostic> {
    match &operand.kind {
        OperandKind::Vector(elems) if opd.elems == Elems::Parts => part_type(ty, elems.len())
            .ok_or_else(|| {
                error(
                    operand,
                    format!("`.{}` does not consist of {} parts", ty.name(), elems.len()),
                )
            }),
        OperandKind::Vector(elems) => Ok(list_type(t, elems, ty)),
        _ => Ok(ty),
    }
}

/// The type of one of `n` equal parts of a bit type.
pub(crate) fn part_type(ty: PtxType, n: usize) -> Option<PtxType> {
    if !matches!(n, 1 | 2 | 4 | 8) {
        return None;
    }
    match ty.bits() / n as u32 {
        8 => Some(PtxType::B8),
        16 => Some(PtxType::B16),
        32 => Some(PtxType::B32),
        64 => Some(PtxType::B64),
        _ => None,
    }
}

/// The variables that carry arguments to a call have no address: they may be registers.
fn check_addressable<'m>(
    t: &mut Translator<'m>,
    operand: &'m ast::Operand,
) -> Result<(), Diagnostic> {
    let addr = t.resolve_address(operand)?;
    match addr.base {
        AddrBase::Place(Place {
            base: PlaceBase::CallParam(_),
            decl,
            ..
        }) => Err(
            error(operand, "a `.param` variable of a call has no address")
                .label(decl, "declared here"),
        ),
        AddrBase::Place(_) | AddrBase::Reg(_) | AddrBase::Func(_) | AddrBase::Absolute => Ok(()),
    }
}

/// A handle is a `.u64`; and the address of a global variable does not go into a word where
/// addresses have 64 bits.
fn check_global_width<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    operand: &'m ast::Operand,
    ty: PtxType,
) -> Result<(), Diagnostic> {
    if inst.desc.opcode != "mov" {
        return Ok(());
    }
    let base = t.resolve_address(operand)?.base;
    if let AddrBase::Place(Place {
        opaque: Some(opaque),
        decl,
        ..
    }) = base
        && ty != PtxType::U64
    {
        let message = format!("the handle of a `.{}` has type `.u64`", opaque.name());
        return Err(error(operand, message).label(decl, "declared here"));
    }
    if ty.bits() != 32 || !t.has_wide_addresses() {
        return Ok(());
    }
    match base {
        AddrBase::Place(place) if place.space() == Space::Global => Err(error(
            operand,
            "the address of a global variable has 64 bits: `.address_size` is 64",
        )
        .label(place.decl, "declared here")),
        _ => Ok(()),
    }
}

/// The address of a variable goes into an integer or bit type of 32 or 64 bits.
fn check_address_type(operand: &ast::Operand, ty: PtxType) -> Result<(), Diagnostic> {
    match ty {
        PtxType::B32 | PtxType::U32 | PtxType::S32 | PtxType::B64 | PtxType::U64 | PtxType::S64 => {
            Ok(())
        }
        // Of no use, but older tools let it pass.
        PtxType::B16 | PtxType::U16 | PtxType::S16 => Ok(()),
        _ => Err(error(
            operand,
            format!("an address cannot have type `.{}`", ty.name()),
        )),
    }
}

/// The state space that the instruction names must be that of the variable at the address; a
/// constant is no address.
pub(crate) fn check_memory<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    n: usize,
) -> Result<(), Diagnostic> {
    let space = inst
        .pick(&[Mod::Global, Mod::Shared, Mod::SharedCta, Mod::SharedCluster])
        .map(|m| match m {
            Mod::Global => Space::Global,
            _ => Space::Shared,
        });
    check_memory_in(t, inst, n, space)
}

/// Like [`check_memory`], in a state space that is known (or any).
pub(crate) fn check_memory_in<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    n: usize,
    space: Option<Space>,
) -> Result<(), Diagnostic> {
    let Some(operand) = inst.operand(n) else {
        return Ok(());
    };
    let addr = t.resolve_address(operand)?;
    match (addr.base, space) {
        (AddrBase::Absolute, _) => Err(error(
            operand,
            "a constant can be an address only in `.local`",
        )),
        (AddrBase::Place(place), Some(space)) if place.space() != space => {
            let message = format!(
                "`{}` works on {} here, and this is {}",
                inst.name,
                space_name(space),
                space_name(place.space())
            );
            Err(error(operand, message).label(place.decl, "declared here"))
        }
        (AddrBase::Place(_) | AddrBase::Reg(_) | AddrBase::Func(_), _) => Ok(()),
    }
}

fn space_name(space: Space) -> &'static str {
    match space {
        Space::Generic => "generic memory",
        Space::Global => "`.global` memory",
        Space::Shared | Space::SharedCluster => "`.shared` memory",
        Space::Local => "`.local` memory",
        Space::Const => "`.const` memory",
        Space::Param => "`.param` memory",
    }
}

fn check_imm<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    n: usize,
    lo: i64,
    hi: i64,
) -> Result<(), Diagnostic> {
    let value = t.src_const(inst, n)?;
    if (lo..=hi).contains(&value) {
        return Ok(());
    }
    Err(inst.operand_error(
        n,
        format!(
            "{value} is out of range: `{}` takes {lo} to {hi} here",
            inst.name
        ),
    ))
}

fn error(operand: &ast::Operand, message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(message).label(operand.span, "")
}
