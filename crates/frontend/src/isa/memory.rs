//! Loads, stores, and what concerns addresses and caches. PTX ISA, "Data Movement and Conversion
//! Instructions".
//!
//! Cache operators, eviction priorities, prefetch sizes and cache policies are hints: they are
//! checked and have no effect.
//!
//! The file is long because it is one chapter of the ISA.

use ptxjit_ir::{DeviceOp, InstData, MemSem, Scope, Space, Type};
use smallvec::SmallVec;

use crate::ast::OperandKind;
use crate::diag::Diagnostic;
use crate::translate::{Addr, AddrBase, Entity, Inst, PlaceBase, Translator, pieces};

use super::cluster;
use super::desc::{A, ADDR, ANY, D, Elems, Gate, InstDesc, Opd, imm, inst, since};
use super::modifiers::Mod;
use super::types::PtxType as T;

const TYPES: &[T] = &[
    T::B8,
    T::B16,
    T::B32,
    T::B64,
    T::B128,
    T::U8,
    T::U16,
    T::U32,
    T::U64,
    T::S8,
    T::S16,
    T::S32,
    T::S64,
    T::F32,
    T::F64,
];

pub(super) const SPACE: &[Mod] = &[
    Mod::Const,
    Mod::Global,
    Mod::Local,
    Mod::Param,
    Mod::ParamEntry,
    Mod::ParamFunc,
    Mod::Shared,
    Mod::SharedCta,
    Mod::SharedCluster,
];
const SCOPE: &[Mod] = &[Mod::Cta, Mod::Cluster, Mod::Gpu, Mod::Sys];
/// A cache operator or what becomes of the line in the first cache: both say the same, and exclude
/// each other.
const LOAD_CACHE: &[Mod] = &[
    Mod::Ca,
    Mod::Cg,
    Mod::Cs,
    Mod::Lu,
    Mod::Cv,
    Mod::L1EvictNormal,
    Mod::L1EvictUnchanged,
    Mod::L1EvictFirst,
    Mod::L1EvictLast,
    Mod::L1NoAllocate,
];
/// What does not change may be cached: `.cv` and `.lu` say the contrary.
const NC_CACHE: &[Mod] = &[
    Mod::Ca,
    Mod::Cg,
    Mod::Cs,
    Mod::L1EvictNormal,
    Mod::L1EvictUnchanged,
    Mod::L1EvictFirst,
    Mod::L1EvictLast,
    Mod::L1NoAllocate,
];
const STORE_CACHE: &[Mod] = &[
    Mod::Wb,
    Mod::Cg,
    Mod::Cs,
    Mod::Wt,
    Mod::L1EvictNormal,
    Mod::L1EvictUnchanged,
    Mod::L1EvictFirst,
    Mod::L1EvictLast,
    Mod::L1NoAllocate,
];
const EVICT_L1: &[Mod] = &[
    Mod::L1EvictNormal,
    Mod::L1EvictUnchanged,
    Mod::L1EvictFirst,
    Mod::L1EvictLast,
    Mod::L1NoAllocate,
];
const EVICT_L2: &[Mod] = &[Mod::L2EvictNormal, Mod::L2EvictFirst, Mod::L2EvictLast];
const HINT: &[Mod] = &[Mod::L2CacheHint];
const PREFETCH: &[Mod] = &[Mod::L2Bytes64, Mod::L2Bytes128, Mod::L2Bytes256];
const VEC: &[Mod] = &[Mod::V2, Mod::V4, Mod::V8];

const GATES: &[Gate] = &[
    since(1, 1, 0).mods(&[Mod::Volatile]),
    since(6, 0, 70).mods(&[Mod::Relaxed, Mod::Acquire, Mod::Release]),
    since(7, 8, 90).mods(&[Mod::Cluster, Mod::SharedCluster]),
    since(7, 8, 0).mods(&[Mod::SharedCta]),
    since(8, 2, 70).mods(&[Mod::Mmio]),
    since(7, 4, 70).mods(EVICT_L1),
    since(8, 8, 100).mods(EVICT_L2),
    since(7, 4, 80).mods(HINT),
    since(7, 4, 75).mods(&[Mod::L2Bytes64, Mod::L2Bytes128]),
    since(7, 4, 80).mods(&[Mod::L2Bytes256]),
    since(8, 8, 100).mods(&[Mod::V8]),
    since(8, 3, 70).types(&[T::B128]),
    since(2, 0, 20).mods(LOAD_CACHE),
    since(2, 0, 20).mods(STORE_CACHE),
    since(8, 3, 0).mods(&[Mod::ParamEntry, Mod::ParamFunc]),
    since(6, 0, 70).mods(&[Mod::Weak]),
];
const NC_GATES: &[Gate] = &[
    since(3, 1, 32),
    since(7, 4, 70).mods(EVICT_L1),
    since(8, 8, 100).mods(EVICT_L2),
    since(7, 4, 80).mods(HINT),
    since(7, 4, 75).mods(&[Mod::L2Bytes64, Mod::L2Bytes128]),
    since(7, 4, 80).mods(&[Mod::L2Bytes256]),
    since(8, 8, 100).mods(&[Mod::V8]),
    since(8, 3, 70).types(&[T::B128]),
];

/// A loaded register or vector; its elements may be `_`.
const LOADED: Opd = D.or_wider().vec(Elems::ByModifier);
/// A stored register or vector.
const STORED: Opd = A.or_wider().sink().vec(Elems::ByModifier);
/// The cache policy that `.L2::cache_hint` brings.
pub(super) const POLICY: Opd = A.is(T::U64).when(Mod::L2CacheHint);

pub const TABLE: &[InstDesc] = &[
    inst("ld", &[LOADED, ADDR, POLICY], ld)
        .types(&[TYPES])
        .optional(&[
            &[Mod::Weak],
            SPACE,
            LOAD_CACHE,
            EVICT_L2,
            HINT,
            PREFETCH,
            VEC,
        ])
        .gates(GATES)
        .check(check_ld)
        .effect(),
    inst("ld", &[LOADED, ADDR], ld)
        .with(&[Mod::Volatile])
        .types(&[TYPES])
        .optional(&[SPACE, PREFETCH, VEC])
        .gates(GATES)
        .check(check_ld)
        .effect(),
    inst("ld", &[LOADED, ADDR, POLICY], ld)
        .choose(&[&[Mod::Relaxed, Mod::Acquire], SCOPE])
        .types(&[TYPES])
        .optional(&[SPACE, EVICT_L1, EVICT_L2, HINT, PREFETCH, VEC])
        .gates(GATES)
        .check(check_ld)
        .effect(),
    inst("ld", &[LOADED, ADDR], ld)
        .with(&[Mod::Mmio, Mod::Relaxed, Mod::Sys])
        .types(&[TYPES])
        .optional(&[&[Mod::Global]])
        .gates(GATES)
        .check(check_ld)
        .effect(),
    inst("ld", &[LOADED, ADDR, POLICY], ld)
        .with(&[Mod::Global, Mod::Nc])
        .types(&[TYPES])
        .optional(&[NC_CACHE, EVICT_L2, HINT, PREFETCH, VEC])
        .gates(NC_GATES)
        .check(check_ld)
        .effect(),
    inst("ldu", &[LOADED, ADDR], ld)
        .types(&[TYPES])
        .optional(&[&[Mod::Global], &[Mod::V2, Mod::V4]])
        .gates(&[since(2, 0, 20), since(8, 3, 70).types(&[T::B128])])
        .check(check_ld)
        .effect(),
    inst("st", &[ADDR, STORED, POLICY], st)
        .types(&[TYPES])
        .optional(&[&[Mod::Weak], SPACE, STORE_CACHE, EVICT_L2, HINT, VEC])
        .gates(GATES)
        .check(check_st)
        .effect(),
    inst("st", &[ADDR, STORED], st)
        .with(&[Mod::Volatile])
        .types(&[TYPES])
        .optional(&[SPACE, VEC])
        .gates(GATES)
        .check(check_st)
        .effect(),
    inst("st", &[ADDR, STORED, POLICY], st)
        .choose(&[&[Mod::Relaxed, Mod::Release], SCOPE])
        .types(&[TYPES])
        .optional(&[SPACE, EVICT_L1, EVICT_L2, HINT, VEC])
        .gates(GATES)
        .check(check_st)
        .effect(),
    inst("st", &[ADDR, STORED], st)
        .with(&[Mod::Mmio, Mod::Relaxed, Mod::Sys])
        .types(&[TYPES])
        .optional(&[&[Mod::Global]])
        .gates(GATES)
        .check(check_st)
        .effect(),
    inst(
        "st",
        &[ADDR, A.vec(Elems::ByModifier), ADDR.opt()],
        cluster::store_async,
    )
    .effect()
    .with(&[Mod::Async])
    .types(&[&[
        T::B32,
        T::B64,
        T::U32,
        T::U64,
        T::S32,
        T::S64,
        T::F32,
        T::F64,
    ]])
    .choose(&[&[Mod::MbarrierCompleteTxBytes]])
    .optional(&[
        &[Mod::Weak],
        &[Mod::Cluster],
        &[Mod::SharedCluster],
        &[Mod::V2, Mod::V4],
    ])
    .gates(&[since(8, 1, 90)])
    .check(|_, inst| check_vector(inst)),
    inst("st", &[ADDR, A], st)
        .effect()
        .with(&[Mod::Async, Mod::Release])
        .choose(&[&[Mod::Gpu, Mod::Sys]])
        .types(&[&[
            T::B8,
            T::B16,
            T::B32,
            T::B64,
            T::U8,
            T::U16,
            T::U32,
            T::U64,
            T::S8,
            T::S16,
            T::S32,
            T::S64,
            T::F32,
            T::F64,
        ]])
        .optional(&[&[Mod::Mmio], &[Mod::Global]])
        .gates(&[since(8, 7, 100)]),
    inst("st", &[ADDR, ANY, imm(0, 0)], clear)
        .effect()
        .with(&[Mod::Bulk])
        .optional(&[&[Mod::Weak], &[Mod::SharedCta]])
        .gates(&[since(8, 6, 100)])
        .check(check_st_bulk),
    inst("prefetch", &[ADDR], hint)
        .choose(&[&[Mod::L1, Mod::L2]])
        .optional(&[&[Mod::Global, Mod::Local]])
        .gates(&[since(2, 0, 20)])
        .effect(),
    inst("prefetch", &[ADDR], hint)
        .choose(&[&[Mod::L2EvictLast, Mod::L2EvictNormal]])
        .optional(&[&[Mod::Global]])
        .gates(&[since(7, 4, 80)])
        .effect(),
    inst("prefetch", &[ADDR], hint)
        .with(&[Mod::Tensormap])
        .optional(&[&[Mod::Const, Mod::Param, Mod::ParamEntry]])
        .gates(&[since(8, 0, 90)])
        .effect(),
    inst("prefetchu", &[ADDR], hint)
        .with(&[Mod::L1])
        .gates(&[since(2, 0, 20)])
        .effect(),
    inst("applypriority", &[ADDR, imm(128, 128)], hint)
        .with(&[Mod::L2EvictNormal])
        .optional(&[&[Mod::Global]])
        .gates(&[since(7, 4, 80)])
        .effect(),
    inst("discard", &[ADDR, imm(128, 128)], hint)
        .with(&[Mod::L2])
        .optional(&[&[Mod::Global]])
        .gates(&[since(7, 4, 80)])
        .effect(),
    inst(
        "createpolicy",
        &[D, ANY, A.is(T::U32), A.is(T::U32)],
        createpolicy,
    )
    .with(&[Mod::Range])
    .types(&[&[T::B64]])
    .optional(POLICY_RANGE)
    .repeats(POLICY_PRIMARY)
    .check(check_createpolicy)
    .gates(&[since(7, 4, 80)]),
    inst("createpolicy", &[D, A.is(T::F32).opt()], createpolicy)
        .with(&[Mod::Fractional])
        .types(&[&[T::B64]])
        .optional(POLICY_FRACTIONAL)
        .repeats(POLICY_PRIMARY)
        .check(check_createpolicy)
        .gates(&[since(7, 4, 80)]),
    inst("createpolicy", &[D, A], createpolicy)
        .with(&[Mod::Cvt, Mod::L2])
        .types(&[&[T::B64]])
        .gates(&[since(7, 4, 80)]),
];

const POLICY_PRIMARY: &[Mod] = &[
    Mod::L2EvictLast,
    Mod::L2EvictNormal,
    Mod::L2EvictFirst,
    Mod::L2EvictUnchanged,
];
const POLICY_FRACTIONAL: &[&[Mod]] = &[
    &[Mod::L2EvictLast],
    &[Mod::L2EvictNormal],
    &[Mod::L2EvictFirst],
    &[Mod::L2EvictUnchanged],
];
const POLICY_RANGE: &[&[Mod]] = &[
    &[Mod::L2EvictLast],
    &[Mod::L2EvictNormal],
    &[Mod::L2EvictFirst],
    &[Mod::L2EvictUnchanged],
    &[Mod::Global],
];
/// The state space that an access goes to: as written, or else that of the variable it names, or
/// else generic.
pub(super) fn space_of<'m>(
    t: &Translator<'m>,
    inst: &Inst<'m>,
    addr: &Addr<'m>,
) -> Result<Space, Diagnostic> {
    let place = match &addr.base {
        AddrBase::Place(place) => Some(place),
        AddrBase::Reg(_) | AddrBase::Func(_) | AddrBase::Absolute => None,
    };
    let written = inst.pick(SPACE);
    let Some(written) = written else {
        return unwritten_space(t, addr);
    };
    let wanted = match written {
        Mod::Const => Space::Const,
        Mod::Global => Space::Global,
        Mod::Local => Space::Local,
        Mod::Shared | Mod::SharedCta => Space::Shared,
        Mod::SharedCluster => Space::SharedCluster,
        _ => return param_space(t, inst, addr, written),
    };
    let Some(place) = place else {
        return Ok(wanted);
    };
    // An address of the CTA's own window is one of the cluster's window as well.
    let is_own_shared = wanted == Space::SharedCluster && place.space() == Space::Shared;
    let is_param = !matches!(place.base, PlaceBase::Local(_) | PlaceBase::Var(..));
    if (place.space() == wanted && !is_param) || is_own_shared {
        return Ok(place.space());
    }
    let name = t.source.slice(place.decl);
    let found = space_name(&place.base);
    Err(Diagnostic::error(format!(
        "`{name}` is a `{found}` variable, but the instruction says `.{}`",
        written.name()
    ))
    .label(addr.span, "")
    .label(place.decl, "declared here"))
}

/// Without a state space the address is generic; a variable may be named all the same if its space
/// can be written.
fn unwritten_space<'m>(t: &Translator<'m>, addr: &Addr<'m>) -> Result<Space, Diagnostic> {
    let AddrBase::Place(place) = &addr.base else {
        return Ok(Space::Generic);
    };
    match place.base {
        PlaceBase::Local(_) | PlaceBase::Var(_, Space::Global | Space::Shared) => Ok(place.space()),
        _ => {
            let (name, found) = (t.source.slice(place.decl), space_name(&place.base));
            Err(Diagnostic::error(format!(
                "`{name}` is a `{found}` variable, so the instruction must say `{found}`"
            ))
            .label(addr.span, "")
            .label(place.decl, "declared here"))
        }
    }
}

/// `.param` is the parameters of the kernel, or the variables and formals of calls, which are
/// private memory.
fn param_space<'m>(
    t: &Translator<'m>,
    inst: &Inst<'m>,
    addr: &Addr<'m>,
    written: Mod,
) -> Result<Space, Diagnostic> {
    let AddrBase::Place(place) = &addr.base else {
        return Ok(Space::Param);
    };
    match place.base {
        PlaceBase::KernelParam(_) if written != Mod::ParamFunc => Ok(Space::Param),
        PlaceBase::CallParam(_)
        | PlaceBase::Formal(_)
        | PlaceBase::Return(_)
        | PlaceBase::UnsizedFormal(_)
            if written != Mod::ParamEntry =>
        {
            Ok(Space::Local)
        }
        _ => {
            let name = t.source.slice(place.decl);
            let found = space_name(&place.base);
            Err(inst
                .error(format!(
                    "`{name}` is a `{found}` variable, but the instruction says `.{}`",
                    written.name()
                ))
                .label(place.decl, "declared here"))
        }
    }
}

fn space_name(base: &PlaceBase) -> &'static str {
    match base {
        PlaceBase::KernelParam(_)
        | PlaceBase::CallParam(_)
        | PlaceBase::Formal(_)
        | PlaceBase::Return(_)
        | PlaceBase::UnsizedFormal(_) => ".param",
        PlaceBase::Local(_) => ".local",
        PlaceBase::Var(_, space) => match space {
            Space::Global | Space::Generic => ".global",
            Space::Shared | Space::SharedCluster => ".shared",
            Space::Local => ".local",
            Space::Const => ".const",
            Space::Param => ".param",
        },
    }
}

/// `.cta`, `.cluster`, `.gpu`, `.sys`
pub(super) fn scope_of(inst: &Inst<'_>) -> Option<Scope> {
    Some(match inst.pick(SCOPE)? {
        Mod::Cta => Scope::Cta,
        Mod::Cluster => Scope::Cluster,
        Mod::Gpu => Scope::Gpu,
        _ => Scope::Sys,
    })
}

fn semantics(inst: &Inst<'_>) -> (MemSem, Scope) {
    let is_nc = inst.has(Mod::Nc) || inst.desc.opcode == "ldu";
    let sem = match inst.pick(&[
        Mod::Volatile,
        Mod::Mmio,
        Mod::Relaxed,
        Mod::Acquire,
        Mod::Release,
    ]) {
        Some(Mod::Volatile | Mod::Mmio) => MemSem::Volatile,
        Some(Mod::Relaxed) => MemSem::Relaxed,
        Some(Mod::Acquire) => MemSem::Acquire,
        Some(Mod::Release) => MemSem::Release,
        _ if is_nc => MemSem::NonCoherent,
        _ => MemSem::Weak,
    };
    let default = if sem == MemSem::Volatile {
        Scope::Sys
    } else {
        Scope::Cta
    };
    (sem, scope_of(inst).unwrap_or(default))
}

/// The size is `.u64`, from PTX 9.0 on also `.u32`.
fn check_st_bulk<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let Some(operand) = inst.operand(1) else {
        return Ok(());
    };
    let ty = bulk_size(t, inst);
    super::operands::check_src_operand(t, inst, operand, &A, ty)
}

/// The type of the size.
fn bulk_size<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> T {
    let is_narrow = matches!(register_bits(t, inst, 1), Some(32));
    if is_narrow && t.version().at_least(9, 0) {
        T::U32
    } else {
        T::U64
    }
}

/// `st.bulk`
fn clear<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let Some(operand) = inst.operand(0) else {
        return Ok(());
    };
    let addr = t.resolve_address(operand)?;
    let space = match inst.has(Mod::SharedCta) {
        true => Space::Shared,
        false => space_of(t, inst, &addr)?,
    };
    let addr = t.address_value(operand)?;
    let addr = t.to_generic(space, addr);
    let ty = bulk_size(t, inst);
    let size = t.src_as(inst, 1, ty)?;
    let size = t.zext_or_trunc(size, Type::B64);
    let op = DeviceOp::Clear;
    let args = [addr, size].into_iter().collect();
    t.ins_void(InstData::Device { op, args });
    Ok(())
}

/// Width of the register that operand `n` names.
fn register_bits<'m>(t: &mut Translator<'m>, inst: &Inst<'m>, n: usize) -> Option<u32> {
    let OperandKind::Name(name) = inst.operand(n)?.kind else {
        return None;
    };
    match t.lookup(name)? {
        Entity::Reg(id) => Some(t.reg(id).ty.bits()),
        Entity::Place(_) | Entity::Func(_) => None,
    }
}

/// What the lists of the rows cannot say: which modifiers go with which state spaces and widths.
fn check_access<'m>(
    t: &Translator<'m>,
    inst: &Inst<'m>,
    addr: &Addr<'m>,
    space: Space,
) -> Result<(), Diagnostic> {
    if matches!(addr.base, AddrBase::Absolute) && space != Space::Local {
        return Err(
            Diagnostic::error("a constant can be an address only in `.local`").label(addr.span, ""),
        );
    }
    let is_global = matches!(space, Space::Global | Space::Generic);
    let is_shared = matches!(space, Space::Shared | Space::SharedCluster);
    let strong = &[Mod::Relaxed, Mod::Acquire, Mod::Release];
    if let Some(m) = inst.pick(strong).filter(|_| !is_global && !is_shared) {
        return Err(inst.error(format!(
            "`.{}` works on `.global` and `.shared` memory only",
            m.name()
        )));
    }
    if inst.has(Mod::Volatile) && matches!(space, Space::Const | Space::Param) {
        return Err(inst.error("`.volatile` does not go with this state space"));
    }
    if inst.has(Mod::Volatile) && space == Space::Local {
        super::target::require(t, inst, &since(9, 1, 0), "`.volatile` on `.local`")?;
    }
    // Only where the state space is written: of a variable it is not looked at.
    let window = inst.pick(super::operands::WINDOWS);
    if let Some(m) = inst
        .pick(EVICT_L1)
        .or(inst.pick(HINT))
        .or(inst.pick(PREFETCH))
        .filter(|_| window.is_some())
    {
        return Err(inst.error(format!("`.{}` works on `.global` memory only", m.name())));
    }
    check_vector(inst)?;
    let n = super::operands::vector_length(inst) as u32;
    if inst.ty(0).bits() * n == 256 {
        super::target::require(t, inst, &since(8, 8, 100), "256-bit access")?;
    } else if let Some(m) = inst.pick(EVICT_L2) {
        return Err(inst.error(format!("`.{}` works on vectors of 256 bits only", m.name())));
    }
    Ok(())
}

/// At most 128 bits, or 256 of `.b32` and `.b64` in global memory.
fn check_vector<'m>(inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let ty = inst.ty(0);
    let n = super::operands::vector_length(inst) as u32;
    let bits = ty.bits() * n;
    if n == 1 || bits <= 128 && n <= 4 && ty != T::B128 {
        return Ok(());
    }
    let is_wide = bits == 256
        && matches!(ty.bits(), 32 | 64)
        && inst.pick(SPACE).is_none_or(|m| m == Mod::Global);
    if is_wide && inst.desc.opcode != "ldu" {
        return Ok(());
    }
    Err(inst.error(format!(
        "`.v{n}` of `.{}` is too wide for `{}`",
        ty.name(),
        inst.desc.opcode
    )))
}

fn check_ld<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    if let Some(operand) = inst.operand(1) {
        let addr = t.resolve_address(operand)?;
        let space = space_of(t, inst, &addr)?;
        if let AddrBase::Place(place) = &addr.base
            && matches!(place.base, PlaceBase::Return(_))
        {
            return Err(
                Diagnostic::error("a return parameter can only be written").label(addr.span, "")
            );
        }
        check_access(t, inst, &addr, space)?;
    }
    Ok(())
}

fn check_st<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    if inst.pick(&[Mod::Const, Mod::ParamEntry]).is_some() {
        return Err(inst.error("this state space cannot be written"));
    }
    if let Some(operand) = inst.operand(0) {
        let addr = t.resolve_address(operand)?;
        let space = space_of(t, inst, &addr)?;
        let is_input = matches!(&addr.base, AddrBase::Place(place)
            if matches!(place.base, PlaceBase::KernelParam(_) | PlaceBase::Formal(_) | PlaceBase::UnsizedFormal(_)));
        if space == Space::Const || is_input {
            let what = if is_input {
                "an input parameter"
            } else {
                "a `.const` variable"
            };
            return Err(Diagnostic::error(format!("{what} cannot be written")).label(addr.span, ""));
        }
        if inst.ast.guard.is_some() && inst.pick(&[Mod::Param, Mod::ParamFunc]).is_some() {
            return Err(inst.error("a store to a parameter cannot have a guard"));
        }
        check_access(t, inst, &addr, space)?;
    }
    check_sinks(inst)
}

/// Only 256-bit vectors can be stored in part.
fn check_sinks(inst: &Inst<'_>) -> Result<(), Diagnostic> {
    let is_wide = inst.ty(0).bits() * super::operands::vector_length(inst) as u32 == 256;
    match inst.operand(1).map(|operand| &operand.kind) {
        Some(OperandKind::Vector(elems)) if !is_wide => {
            match elems
                .iter()
                .find(|elem| matches!(elem.kind, OperandKind::Sink))
            {
                Some(sink) => Err(Diagnostic::error("`_` cannot be stored").label(sink.span, "")),
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Warp-synchronous code of old hands data over through volatile shared memory.
fn note_lockstep(t: &mut Translator<'_>, sem: MemSem, space: Space) {
    if sem == MemSem::Volatile && matches!(space, Space::Shared | Space::Generic) {
        t.want_lockstep();
    }
}

/// Loads a scalar or vector; narrow values are extended into wider registers.
pub(super) fn ld<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let Some(operand) = inst.operand(1) else {
        return Ok(());
    };
    let address = t.resolve_address(operand)?;
    let space = space_of(t, inst, &address)?;
    let (sem, scope) = semantics(inst);
    note_lockstep(t, sem, space);
    let ptx = inst.ty(0);
    let n = super::operands::vector_length(inst) * pieces(ptx);
    let ty = ptx.ir().unwrap_or(Type::B64);
    let (addr, offset) = t.emit_address(&address)?;
    let data = InstData::Load {
        space,
        sem,
        scope,
        ty,
        n: n as u8,
        addr,
        offset,
    };
    let values = t.ins_multi(data, &vec![ty; n]);
    t.dst_elems(inst, 0, &values)
}

/// Stores a scalar or vector; elements `_` are left out.
pub(super) fn st<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let Some(operand) = inst.operand(0) else {
        return Ok(());
    };
    let address = t.resolve_address(operand)?;
    let space = space_of(t, inst, &address)?;
    let (sem, scope) = semantics(inst);
    note_lockstep(t, sem, space);
    let ty = inst.ty(0).ir().unwrap_or(Type::B64);
    let values = t.src_elems(inst, 1)?;
    let (addr, offset) = t.emit_address(&address)?;
    if values.iter().all(Option::is_some) {
        let args = values.into_iter().flatten().collect();
        t.ins_void(InstData::Store {
            space,
            sem,
            scope,
            ty,
            addr,
            offset,
            args,
        });
        return Ok(());
    }
    for (n, value) in values.into_iter().enumerate() {
        let Some(value) = value else { continue };
        let offset = offset.wrapping_add(n as i32 * ty.bytes() as i32);
        t.ins_void(InstData::Store {
            space,
            sem,
            scope,
            ty,
            addr,
            offset,
            args: SmallVec::from_slice(&[value]),
        });
    }
    Ok(())
}

/// Prefetches and the like have no effect, not even a fault.
fn hint<'m>(_: &mut Translator<'m>, _: &Inst<'m>) -> Result<(), Diagnostic> {
    Ok(())
}

/// A primary priority, then perhaps a secondary one, which is `evict_first` or `evict_unchanged`.
fn check_createpolicy<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let priorities = inst
        .ast
        .modifiers
        .iter()
        .map(|m| (m.text(t.source), m.span))
        .filter(|(text, _)| text.starts_with("L2::"));
    let priorities: SmallVec<[_; 2]> = priorities.collect();
    match priorities[..] {
        [_] | [_, ("L2::evict_first" | "L2::evict_unchanged", _)] => Ok(()),
        [_, (text, span), ..] => Err(Diagnostic::error(format!(
            "`.{text}` cannot be the secondary priority"
        ))
        .label(span, "not allowed here")),
        [] => Err(inst.error("`createpolicy` needs an eviction priority")),
    }
}

/// A cache policy is opaque and a hint: any value will do.
fn createpolicy<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let policy = t.iconst(Type::B64, 0);
    t.dst(inst, 0, policy)
}
