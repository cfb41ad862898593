//! What textures and surfaces become in the IR: each instruction one operation of the device. Their
//! rows and checks are in [`super::texture`].

use ptxjit_ir::{
    AtomicFmt, AtomicOp, Color, CompareOp, DeviceOp, Fetch, Geometry, ImageQuery, InstData, Lod,
    OpaqueKind, Outside, SurfaceAccess, TextureOp, Type, Value,
};
use smallvec::SmallVec;

use crate::ast::{Operand, OperandKind};
use crate::diag::Diagnostic;
use crate::translate::{Entity, Inst, Translator};

use super::modifiers::Mod;
use super::operands::vector_length;
use super::types::PtxType as T;

/// Operands of an operation.
type Args = SmallVec<[Value; 4]>;

fn emit(t: &mut Translator<'_>, op: TextureOp, args: Args) -> SmallVec<[Value; 2]> {
    let results = op.results();
    let op = DeviceOp::Texture(op);
    t.ins_multi(InstData::Device { op, args }, &results)
}

/// The geometry that an instruction names.
fn geometry(inst: &Inst<'_>) -> Geometry {
    const TABLE: &[(Mod, Geometry)] = &[
        (Mod::N1d, Geometry::D1),
        (Mod::N2d, Geometry::D2),
        (Mod::N3d, Geometry::D3),
        (Mod::A1d, Geometry::A1),
        (Mod::A2d, Geometry::A2),
        (Mod::Cube, Geometry::Cube),
        (Mod::Acube, Geometry::CubeArray),
        (Mod::N2dms, Geometry::Samples),
        (Mod::A2dms, Geometry::SamplesArray),
    ];
    named(inst, TABLE).unwrap_or(Geometry::D1)
}

/// What the first modifier of a table that is written stands for.
fn named<V: Copy>(inst: &Inst<'_>, table: &[(Mod, V)]) -> Option<V> {
    let found = table.iter().find(|&&(m, _)| inst.has(m));
    found.map(|&(_, value)| value)
}

/// `tex` and `tld4`.
pub(super) fn fetch<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    const LODS: &[(Mod, Lod)] = &[(Mod::Level, Lod::Level), (Mod::Grad, Lod::Grad)];
    const COMPONENTS: &[(Mod, u8)] = &[(Mod::R, 0), (Mod::G, 1), (Mod::B, 2), (Mod::A, 3)];
    let parts = parts(inst, 1);
    let is_gather = inst.desc.opcode == "tld4";
    let lod = named(inst, LODS).unwrap_or(Lod::Base);
    let extras = match lod {
        Lod::Base => 2,
        Lod::Level => 3,
        Lod::Grad => 4,
    };
    let is_list = |n: usize| matches!(kind(inst, n), Some(OperandKind::Vector(_)));
    let mut op = Fetch {
        geometry: geometry(inst),
        integer: inst.ty(1) == T::S32,
        lod,
        gather: is_gather.then(|| named(inst, COMPONENTS)).flatten(),
        sampler: parts.len() > 2,
        offsets: false,
        depth: false,
        color: match inst.ty(0) {
            T::F16 => Color::Halves,
            T::F16x2 => Color::PackedHalves,
            _ => Color::Words,
        },
    };
    let mut args = Args::new();
    let (handles, coords) = parts.split_at(parts.len().saturating_sub(1));
    for operand in handles {
        let value = handle(t, operand)?;
        args.push(value);
    }
    for operand in coords {
        coordinates(t, operand, op.geometry, inst.ty(1), &mut args)?;
    }
    match lod {
        Lod::Base => {}
        Lod::Level => args.push(t.src(inst, 2)?),
        Lod::Grad => {
            let n = op.n_derivatives();
            list(t, inst, 2, (n, T::F32), &mut args)?;
            list(t, inst, 3, (n, T::F32), &mut args)?;
        }
    }
    for n in extras..inst.n_operands() {
        if is_list(n) {
            op.offsets = true;
            list(t, inst, n, (op.n_offsets(), T::S32), &mut args)?;
        } else {
            op.depth = true;
            args.push(t.src_as(inst, n, T::F32)?);
        }
    }
    let values = emit(t, TextureOp::Fetch(op), args);
    write_color(t, inst, &values)
}

/// Writes the results of a read to `d` or `d|p`; all of memory is resident.
fn write_color<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    values: &[Value],
) -> Result<(), Diagnostic> {
    let ty = inst.ty(0);
    let values = fit(t, values, ty);
    let Some(operand) = inst.operand(0) else {
        return Ok(());
    };
    match &operand.kind {
        OperandKind::Pair(pair) => {
            t.write_elems(&pair[0], ty, &values)?;
            let resident = t.iconst(Type::B1, 1);
            t.write(&pair[1], T::Pred, &[resident])
        }
        _ => t.write_elems(operand, ty, &values),
    }
}

/// Values of words as values of a type of the instruction.
fn fit(t: &mut Translator<'_>, values: &[Value], ty: T) -> Args {
    let ir = ty.ir().unwrap_or(Type::B32);
    let fit = |&value: &Value| t.zext_or_trunc(value, ir);
    values.iter().map(fit).collect()
}

/// `txq`
pub(super) fn query<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let level = inst.has(Mod::Level);
    let query = asked(inst);
    let mut args = queried(t, inst)?;
    if level {
        args.push(t.src(inst, 2)?);
    }
    let results = emit(t, TextureOp::Query { query, level }, args);
    t.dst(inst, 0, results[0])
}

/// `suq`
pub(super) fn surface_query<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let args = queried(t, inst)?;
    let results = emit(t, TextureOp::SurfaceQuery(asked(inst)), args);
    t.dst(inst, 0, results[0])
}

fn asked(inst: &Inst<'_>) -> ImageQuery {
    const TABLE: &[(Mod, ImageQuery)] = &[
        (Mod::Width, ImageQuery::Width),
        (Mod::Height, ImageQuery::Height),
        (Mod::Depth, ImageQuery::Depth),
        (Mod::ChannelDataType, ImageQuery::ChannelDataType),
        (Mod::ChannelOrder, ImageQuery::ChannelOrder),
        (Mod::NormalizedCoords, ImageQuery::NormalizedCoords),
        (Mod::ArraySize, ImageQuery::ArraySize),
        (Mod::NumMipmapLevels, ImageQuery::NumMipmapLevels),
        (Mod::NumSamples, ImageQuery::NumSamples),
        (Mod::MemoryLayout, ImageQuery::MemoryLayout),
        (Mod::AddrMode0, ImageQuery::AddressMode(0)),
        (Mod::AddrMode1, ImageQuery::AddressMode(1)),
        (Mod::AddrMode2, ImageQuery::AddressMode(2)),
        (Mod::FilterMode, ImageQuery::FilterMode),
        (Mod::ForceUnnormalizedCoords, ImageQuery::ForceUnnormalized),
    ];
    named(inst, TABLE).unwrap_or(ImageQuery::Width)
}

/// The object that a query names in brackets.
fn queried<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<Args, Diagnostic> {
    let base = match kind(inst, 1) {
        Some(OperandKind::Address(address)) => address.base.as_ref(),
        _ => None,
    };
    let Some(base) = base else {
        return Err(inst.operand_error(1, "a texture, sampler or surface is expected here"));
    };
    Ok(Args::from_slice(&[handle(t, base)?]))
}

/// `istypep`
pub(super) fn is_type<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let kind = match inst.ty(0) {
        T::Samplerref => OpaqueKind::Sampler,
        T::Surfref => OpaqueKind::Surface,
        _ => OpaqueKind::Texture,
    };
    let pointer = t.src(inst, 1)?;
    let results = emit(t, TextureOp::IsKind(kind), Args::from_slice(&[pointer]));
    let zero = t.iconst(Type::B32, 0);
    let is_kind = t.compare(CompareOp::Ne, results[0], zero);
    t.dst(inst, 0, is_kind)
}

/// `suld`
pub(super) fn load<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let (access, args) = access(t, inst, 1)?;
    let results = emit(t, TextureOp::Load(access), args);
    let values = fit(t, &results, inst.ty(0));
    t.dst_elems(inst, 0, &values)
}

/// `sust`
pub(super) fn store<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let (access, mut args) = access(t, inst, 0)?;
    let values = t.src_elems(inst, 1)?;
    for n in 0..usize::from(access.n) {
        let value = match values.get(n).copied().flatten() {
            Some(value) => t.zext_or_trunc(value, access.ty()),
            None => t.iconst(access.ty(), 0),
        };
        args.push(value);
    }
    emit(t, TextureOp::Store(access), args);
    Ok(())
}

/// `sured`
pub(super) fn reduce<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    const OPS: &[(Mod, AtomicOp)] = &[
        (Mod::Add, AtomicOp::Add),
        (Mod::Min, AtomicOp::Min),
        (Mod::Max, AtomicOp::Max),
        (Mod::And, AtomicOp::And),
        (Mod::Or, AtomicOp::Or),
    ];
    let op = named(inst, OPS).unwrap_or(AtomicOp::Add);
    let fmt = match inst.ty(0) {
        T::U32 => AtomicFmt::U32,
        T::S32 => AtomicFmt::S32,
        T::U64 => AtomicFmt::U64,
        T::S64 => AtomicFmt::S64,
        T::B64 => AtomicFmt::B64,
        _ => AtomicFmt::B32,
    };
    let (access, mut args) = access(t, inst, 0)?;
    args.push(t.src(inst, 1)?);
    emit(t, TextureOp::Reduce(op, fmt, access), args);
    Ok(())
}

/// The access of a surface instruction, with the surface and coordinates from operand `n`.
fn access<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    n: usize,
) -> Result<(SurfaceAccess, Args), Diagnostic> {
    let geometry = geometry(inst);
    let access = SurfaceAccess {
        geometry,
        outside: match inst.pick(&[Mod::Trap, Mod::Clamp, Mod::Zero]) {
            Some(Mod::Clamp) => Outside::Clamp,
            Some(Mod::Zero) => Outside::Zero,
            _ => Outside::Trap,
        },
        bytes: (inst.ty(0).bits() / 8) as u8,
        n: vector_length(inst) as u8,
        formatted: inst.has(Mod::P),
    };
    let mut args = Args::new();
    if let [surface, coords] = parts(inst, n) {
        args.push(handle(t, surface)?);
        coordinates(t, coords, geometry, T::S32, &mut args)?;
    }
    Ok((access, args))
}

fn kind<'m>(inst: &Inst<'m>, n: usize) -> Option<&'m OperandKind> {
    inst.operand(n).map(|operand| &operand.kind)
}

/// The parts of `[a, b, c]`.
fn parts<'m>(inst: &Inst<'m>, n: usize) -> &'m [Operand] {
    match kind(inst, n) {
        Some(OperandKind::Tuple(parts)) => parts,
        _ => &[],
    }
}

/// What an operand names an object by: the handle in a parameter or register, or the address of a
/// variable.
fn handle<'m>(t: &mut Translator<'m>, operand: &'m Operand) -> Result<Value, Diagnostic> {
    let place = match operand.kind {
        OperandKind::Name(name) => match t.lookup(name) {
            Some(Entity::Place(place)) => Some(place),
            Some(Entity::Reg(_) | Entity::Func(_)) | None => None,
        },
        _ => None,
    };
    match place {
        Some(place) => Ok(t.entity_address(Entity::Place(place), 0)),
        None => {
            let bits = match t.has_wide_addresses() {
                true => T::U64,
                false => T::U32,
            };
            let value = t.read(operand, bits)?;
            Ok(t.zext_or_trunc(value, Type::B64))
        }
    }
}

/// Coordinates: a register, or a list, of which the first may be indices.
fn coordinates<'m>(
    t: &mut Translator<'m>,
    operand: &'m Operand,
    geometry: Geometry,
    ty: T,
    args: &mut Args,
) -> Result<(), Diagnostic> {
    let first = args.len();
    let n = geometry.n_coordinates();
    match &operand.kind {
        OperandKind::Vector(elems) => {
            for (idx, elem) in elems.iter().take(n).enumerate() {
                let is_number = matches!(elem.kind, OperandKind::Constant(_));
                let ty = match idx < geometry.n_indices() {
                    true => T::U32,
                    false if is_number => ty,
                    false => T::B32,
                };
                let value = t.read(elem, ty)?;
                args.push(t.zext_or_trunc(value, Type::B32));
            }
        }
        _ => {
            let values = t.read_elems(operand, T::B32)?;
            for value in values.into_iter().take(n).flatten() {
                args.push(t.zext_or_trunc(value, Type::B32));
            }
        }
    }
    pad(t, first + n, args);
    Ok(())
}

/// The first `n` elements of a list.
fn list<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    operand: usize,
    (n, ty): (usize, T),
    args: &mut Args,
) -> Result<(), Diagnostic> {
    let first = args.len();
    if let Some(OperandKind::Vector(elems)) = kind(inst, operand) {
        for elem in elems.iter().take(n) {
            args.push(t.read(elem, ty)?);
        }
    }
    pad(t, first + n, args);
    Ok(())
}

/// Zeros for what a list lacks.
fn pad(t: &mut Translator<'_>, len: usize, args: &mut Args) {
    while args.len() < len {
        args.push(t.iconst(Type::B32, 0));
    }
}
