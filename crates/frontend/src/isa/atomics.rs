//! `atom` and `red`. PTX ISA, "Parallel Synchronization and Communication Instructions: atom, red".
//!
//! Vector forms are atomic per element only, so they become one atomic operation for each.

use ptxjit_ir::{
    AtomicFmt, AtomicOp, DeviceOp, InstData, MarkOp, MemSem, Scope, Space, Type, Value,
};
use smallvec::SmallVec;

use crate::diag::Diagnostic;
use crate::translate::{Inst, Translator};

use super::cluster;
use super::desc::{A, ADDR, D, Elems, Gate, InstDesc, Opd, inst, since};
use super::memory::{POLICY, scope_of, space_of};
use super::modifiers::Mod;
use super::types::PtxType as T;

const ATOM_SEM: &[Mod] = &[Mod::Relaxed, Mod::Acquire, Mod::Release, Mod::AcqRel];
const RED_SEM: &[Mod] = &[Mod::Relaxed, Mod::Release];
const SCOPE: &[Mod] = &[Mod::Cta, Mod::Cluster, Mod::Gpu, Mod::Sys];
const SPACE: &[Mod] = &[Mod::Global, Mod::Shared, Mod::SharedCta, Mod::SharedCluster];
const HINT: &[Mod] = &[Mod::L2CacheHint];

const ATOM: &[&[Mod]] = &[ATOM_SEM, SCOPE, SPACE, HINT];
const RED: &[&[Mod]] = &[RED_SEM, SCOPE, SPACE, HINT];
const ATOM_VEC: &[&[Mod]] = &[ATOM_SEM, SCOPE, &[Mod::Global], HINT];
const RED_VEC: &[&[Mod]] = &[RED_SEM, SCOPE, &[Mod::Global], HINT];

const LOGIC: &[&[Mod]] = &[&[Mod::And, Mod::Or, Mod::Xor]];
const EXCH: &[&[Mod]] = &[&[Mod::Exch]];
const ADD: &[&[Mod]] = &[&[Mod::Add]];
const MIN_MAX: &[&[Mod]] = &[&[Mod::Min, Mod::Max]];
const INC_DEC: &[&[Mod]] = &[&[Mod::Inc, Mod::Dec]];
const BITS: &[&[T]] = &[&[T::B32, T::B64]];
const SUMS: &[&[T]] = &[&[T::U32, T::S32, T::U64, T::F32, T::F64]];
const ORDERED: &[&[T]] = &[&[T::U32, T::S32, T::U64, T::S64]];

/// Gates that parts of every form have.
const COMMON: &[Gate] = &[
    since(1, 1, 0),
    since(6, 0, 70).mods(ATOM_SEM),
    since(5, 0, 60).mods(SCOPE),
    since(7, 8, 90).mods(&[Mod::Cluster, Mod::SharedCluster]),
    since(7, 8, 0).mods(&[Mod::SharedCta]),
    since(7, 4, 80).mods(HINT),
    since(5, 0, 60).types(&[T::F64]),
];
const MIN_MAX_64: &[Gate] = &[
    since(3, 1, 32).types(&[T::U64, T::S64]),
    since(6, 0, 70).mods(ATOM_SEM),
    since(5, 0, 60).mods(SCOPE),
    since(7, 8, 90).mods(&[Mod::Cluster, Mod::SharedCluster]),
    since(7, 8, 0).mods(&[Mod::SharedCta]),
    since(7, 4, 80).mods(HINT),
];
const HALF: &[Gate] = &[
    since(6, 2, 60).types(&[T::F16x2]),
    since(6, 3, 70).types(&[T::F16]),
    since(7, 8, 90).types(&[T::Bf16, T::Bf16x2]),
    since(6, 0, 70).mods(ATOM_SEM),
    since(5, 0, 60).mods(SCOPE),
    since(7, 8, 90).mods(&[Mod::Cluster, Mod::SharedCluster]),
    since(7, 4, 80).mods(HINT),
];
const VECTOR: &[Gate] = &[since(8, 1, 90)];

const DV: Opd = D.sink().vec(Elems::ByModifier);
const AV: Opd = A.vec(Elems::ByModifier);

const fn atom(
    types: &'static [&'static [T]],
    ops: &'static [&'static [Mod]],
    gates: &'static [Gate],
) -> InstDesc {
    const OPERANDS: &[Opd] = &[D.sink(), ADDR, A, POLICY];
    inst("atom", OPERANDS, atomic)
        .types(types)
        .choose(ops)
        .optional(ATOM)
        .gates(gates)
        .check(check)
        .effect()
}

const fn red(
    types: &'static [&'static [T]],
    ops: &'static [&'static [Mod]],
    gates: &'static [Gate],
) -> InstDesc {
    inst("red", &[ADDR, A, POLICY], atomic)
        .types(types)
        .choose(ops)
        .optional(RED)
        .gates(gates)
        .check(check)
        .effect()
}

const fn atom_vector(types: &'static [&'static [T]], ops: &'static [&'static [Mod]]) -> InstDesc {
    inst("atom", &[DV, ADDR, AV, POLICY], atomic)
        .types(types)
        .choose(ops)
        .optional(ATOM_VEC)
        .gates(VECTOR)
        .check(check)
        .effect()
}

const fn red_vector(types: &'static [&'static [T]], ops: &'static [&'static [Mod]]) -> InstDesc {
    inst("red", &[ADDR, AV, POLICY], atomic)
        .types(types)
        .choose(ops)
        .optional(RED_VEC)
        .gates(VECTOR)
        .check(check)
        .effect()
}

const ADD_V24: &[&[Mod]] = &[&[Mod::Add], &[Mod::V2, Mod::V4]];
const ANY_V24: &[&[Mod]] = &[&[Mod::Add, Mod::Min, Mod::Max], &[Mod::V2, Mod::V4]];
const ANY_V248: &[&[Mod]] = &[
    &[Mod::Add, Mod::Min, Mod::Max],
    &[Mod::V2, Mod::V4, Mod::V8],
];
const F32: &[&[T]] = &[&[T::F32]];
const HALVES: &[&[T]] = &[&[T::F16, T::Bf16]];
const PACKED: &[&[T]] = &[&[T::F16x2, T::Bf16x2]];
const ANY_HALF: &[&[T]] = &[&[T::F16, T::F16x2, T::Bf16, T::Bf16x2]];
const NOFTZ: &[Mod] = &[Mod::Noftz];

pub const TABLE: &[InstDesc] = &[
    atom(BITS, LOGIC, COMMON),
    atom(BITS, EXCH, COMMON),
    inst("atom", &[D.sink(), ADDR, A, A, POLICY], atomic)
        .types(BITS)
        .with(&[Mod::Cas])
        .optional(ATOM)
        .gates(COMMON)
        .check(check)
        .effect(),
    inst("atom", &[D.sink(), ADDR, A, A], atomic)
        .types(&[&[T::B16]])
        .with(&[Mod::Cas])
        .optional(&[ATOM_SEM, SCOPE, SPACE])
        .gates(&[
            since(6, 3, 70),
            since(7, 8, 90).mods(&[Mod::Cluster, Mod::SharedCluster]),
        ])
        .check(check)
        .effect(),
    inst("atom", &[D.sink(), ADDR, A, A], exchange_128)
        .types(&[&[T::B128]])
        .with(&[Mod::Cas])
        .optional(&[ATOM_SEM, SCOPE, SPACE])
        .gates(&[since(8, 3, 90)])
        .check(check)
        .effect(),
    inst("atom", &[D.sink(), ADDR, A, POLICY], exchange_128)
        .types(&[&[T::B128]])
        .with(&[Mod::Exch])
        .optional(ATOM)
        .gates(&[since(8, 3, 90)])
        .check(check)
        .effect(),
    atom(SUMS, ADD, COMMON),
    atom(ORDERED, MIN_MAX, MIN_MAX_64),
    atom(&[&[T::U32]], INC_DEC, COMMON),
    atom(ANY_HALF, ADD, HALF).with(NOFTZ),
    atom_vector(F32, ADD_V24),
    atom_vector(HALVES, ANY_V248).with(NOFTZ),
    atom_vector(PACKED, ANY_V24).with(NOFTZ),
    red(BITS, LOGIC, COMMON),
    red(SUMS, ADD, COMMON),
    red(ORDERED, MIN_MAX, MIN_MAX_64),
    red(&[&[T::U32]], INC_DEC, COMMON),
    red(ANY_HALF, ADD, HALF).with(NOFTZ),
    red_vector(F32, ADD_V24),
    red_vector(HALVES, ANY_V248).with(NOFTZ),
    red_vector(PACKED, ANY_V24).with(NOFTZ),
    red_async(&[&[T::U32]], INC_DEC),
    red_async(&[&[T::U32, T::S32]], MIN_MAX),
    red_async(&[&[T::B32]], LOGIC),
    red_async(&[&[T::U32, T::S32, T::U64]], ADD),
    inst("red", &[ADDR, A], atomic)
        .effect()
        .types(&[&[T::U32, T::S32, T::U64, T::S64]])
        .with(&[Mod::Async, Mod::Release, Mod::Add])
        .choose(&[&[Mod::Gpu, Mod::Sys]])
        .optional(&[&[Mod::Mmio], &[Mod::Global]])
        .gates(&[since(8, 7, 100)]),
];

const fn red_async(types: &'static [&'static [T]], ops: &'static [&'static [Mod]]) -> InstDesc {
    const OPERANDS: &[Opd] = &[ADDR, A, ADDR.opt()];
    inst("red", OPERANDS, cluster::reduce_async)
        .effect()
        .types(types)
        .with(&[
            Mod::Async,
            Mod::Relaxed,
            Mod::Cluster,
            Mod::MbarrierCompleteTxBytes,
        ])
        .choose(ops)
        .optional(&[&[Mod::SharedCluster]])
        .gates(VECTOR)
}

/// Where the address stands, and the first source.
fn positions(inst: &Inst<'_>) -> (usize, usize) {
    if inst.desc.opcode == "atom" {
        (1, 2)
    } else {
        (0, 1)
    }
}

fn check<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let (at, _) = positions(inst);
    if let Some(operand) = inst.operand(at) {
        let addr = t.resolve_address(operand)?;
        let space = space_of(t, inst, &addr)?;
        if !matches!(
            space,
            Space::Generic | Space::Global | Space::Shared | Space::SharedCluster
        ) {
            return Err(inst.operand_error(
                at,
                "atomic operations work on `.global` and `.shared` memory only",
            ));
        }
    }
    Ok(())
}

pub(super) fn atomic<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let (at, first) = positions(inst);
    let Some(operand) = inst.operand(at) else {
        return Ok(());
    };
    let address = t.resolve_address(operand)?;
    let space = space_of(t, inst, &address)?;
    let sem = match inst.pick(ATOM_SEM) {
        Some(Mod::Acquire) => MemSem::Acquire,
        Some(Mod::Release) => MemSem::Release,
        Some(Mod::AcqRel) => MemSem::AcqRel,
        _ => MemSem::Relaxed,
    };
    let scope = scope_of(inst).unwrap_or(Scope::Gpu);
    let (op, fmt) = (op_of(inst), format_of(inst.ty(0)));
    let sources: SmallVec<[Value; 4]> = t.src_elems(inst, first)?.into_iter().flatten().collect();
    let second = if op == AtomicOp::Cas {
        Some(t.src(inst, first + 1)?)
    } else {
        None
    };
    let (addr, offset) = t.emit_address(&address)?;
    let size = fmt.ty().bytes() as i32;
    let mut results: SmallVec<[Value; 4]> = SmallVec::new();
    for (n, &source) in sources.iter().enumerate() {
        let args = std::iter::once(source).chain(second).collect();
        let offset = offset.wrapping_add(n as i32 * size);
        if inst.desc.opcode == "red" {
            t.mark(MarkOp::Reduction, &[]);
        }
        results.push(t.ins(
            InstData::Atomic {
                op,
                fmt,
                space,
                sem,
                scope,
                addr,
                offset,
                args,
            },
            fmt.ty(),
        ));
    }
    if at == 1 {
        t.dst_elems(inst, 0, &results)
    } else {
        Ok(())
    }
}

/// `atom` of 128 bits: an operation of the device, since no value of the IR has so many.
fn exchange_128<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let Some(operand) = inst.operand(1) else {
        return Ok(());
    };
    let address = t.resolve_address(operand)?;
    let space = space_of(t, inst, &address)?;
    let compares = inst.has(Mod::Cas);
    let addr = t.address_value(operand)?;
    let mut args: SmallVec<[Value; 4]> = SmallVec::new();
    args.push(t.to_generic(space, addr));
    for n in 2..3 + usize::from(compares) {
        args.extend(t.src_elems(inst, n)?.into_iter().flatten());
    }
    // All memory operations of the IR stay in their order around an operation of the device, so
    // that no ordering that can be written is stronger.
    let op = DeviceOp::Exchange128 { compares };
    let results = op.results();
    let old = t.ins_multi(InstData::Device { op, args }, &results);
    t.dst_elems(inst, 0, &old)
}

pub(super) fn op_of(inst: &Inst<'_>) -> AtomicOp {
    const OPS: &[(Mod, AtomicOp)] = &[
        (Mod::Exch, AtomicOp::Exch),
        (Mod::Cas, AtomicOp::Cas),
        (Mod::Add, AtomicOp::Add),
        (Mod::Inc, AtomicOp::Inc),
        (Mod::Dec, AtomicOp::Dec),
        (Mod::Min, AtomicOp::Min),
        (Mod::Max, AtomicOp::Max),
        (Mod::And, AtomicOp::And),
        (Mod::Or, AtomicOp::Or),
        (Mod::Xor, AtomicOp::Xor),
    ];
    OPS.iter()
        .find(|&&(m, _)| inst.has(m))
        .map_or(AtomicOp::Exch, |&(_, op)| op)
}

pub(super) fn format_of(ty: T) -> AtomicFmt {
    match ty {
        T::B16 => AtomicFmt::B16,
        T::U32 => AtomicFmt::U32,
        T::S32 => AtomicFmt::S32,
        T::U64 => AtomicFmt::U64,
        T::S64 => AtomicFmt::S64,
        T::F16 => AtomicFmt::F16,
        T::F16x2 => AtomicFmt::F16x2,
        T::Bf16 => AtomicFmt::Bf16,
        T::Bf16x2 => AtomicFmt::Bf16x2,
        T::F32 => AtomicFmt::F32,
        T::F64 => AtomicFmt::F64,
        other => match other.ir() {
            Some(Type::B64) => AtomicFmt::B64,
            _ => AtomicFmt::B32,
        },
    }
}
