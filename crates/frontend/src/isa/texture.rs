//! Textures and surfaces: rows and checks. PTX ISA, "Texture Instructions" and "Surface
//! Instructions". What they become is in [`super::texture_access`].

use crate::ast::{Operand, OperandKind};
use crate::diag::Diagnostic;
use crate::translate::{Entity, Inst, PlaceBase, Translator};

use super::desc::{A, ANY, D, DP, Elems, Gate, InstDesc, Opd, inst, since};
use super::modifiers::Mod;
use super::operands::check_src_operand;
use super::target::require;
use super::texture_access as access;
use super::types::PtxType as T;

const GEOMETRY: &[Mod] = &[
    Mod::N1d,
    Mod::N2d,
    Mod::N3d,
    Mod::A1d,
    Mod::A2d,
    Mod::Cube,
    Mod::Acube,
    Mod::N2dms,
    Mod::A2dms,
];
/// The first coordinate is the index of a layer or sample.
const LAYERED: &[Mod] = &[Mod::A1d, Mod::A2d, Mod::Acube, Mod::N2dms, Mod::A2dms];
const SURFACE_GEOMETRY: &[Mod] = &[Mod::N1d, Mod::N2d, Mod::N3d, Mod::A1d, Mod::A2d];
const COLORS: &[T] = &[T::U32, T::S32, T::F32, T::F16];
const COORDINATES: &[T] = &[T::S32, T::F32];
const CLAMP: &[Mod] = &[Mod::Trap, Mod::Clamp, Mod::Zero];
const LOAD_CACHE: &[Mod] = &[Mod::Ca, Mod::Cg, Mod::Cs, Mod::Cv];
const STORE_CACHE: &[Mod] = &[Mod::Wb, Mod::Cg, Mod::Cs, Mod::Wt];
const SURFACE_TYPES: &[T] = &[T::B8, T::B16, T::B32, T::B64];

const D4: Opd = D.or_integer().pair().vec(Elems::Of(4));
const D2: Opd = D.pair().vec(Elems::Of(2));
const TEX: &[Gate] = &[
    since(4, 1, 30).mods(&[Mod::Cube, Mod::Acube]),
    since(3, 2, 30).mods(&[Mod::N2dms, Mod::A2dms]),
    since(4, 2, 53).types(&[T::F16, T::F16x2]),
    since(3, 1, 20).mods(&[Mod::Base, Mod::Level, Mod::Grad]),
];
const F16X2: &[T] = &[T::F16x2];
const V4: &[Mod] = &[Mod::V4];
const V2: &[Mod] = &[Mod::V2];

const fn tex(
    operands: &'static [Opd],
    types: &'static [&'static [T]],
    choices: &'static [&'static [Mod]],
) -> InstDesc {
    inst("tex", operands, access::fetch)
        .effect()
        .types(types)
        .choose(choices)
        .gates(TEX)
        .check(check_tex)
}

const FULL: &[&[T]] = &[COLORS, COORDINATES];
const PACKED: &[&[T]] = &[F16X2, COORDINATES];
const ADDRESS_MODES: &[Mod] = &[
    Mod::AddrMode0,
    Mod::AddrMode1,
    Mod::AddrMode2,
    Mod::FilterMode,
    Mod::ForceUnnormalizedCoords,
];

pub const TABLE: &[InstDesc] = &[
    tex(&[D4, ANY, ANY.opt(), ANY.opt()], FULL, &[GEOMETRY, V4]),
    tex(&[D2, ANY, ANY.opt(), ANY.opt()], PACKED, &[GEOMETRY, V2]),
    tex(
        &[D4, ANY, ANY.opt(), ANY.opt()],
        FULL,
        &[&[Mod::Base], GEOMETRY, V4],
    ),
    tex(
        &[D2, ANY, ANY.opt(), ANY.opt()],
        PACKED,
        &[&[Mod::Base], GEOMETRY, V2],
    ),
    tex(
        &[D4, ANY, A.nth(1), ANY.opt(), ANY.opt()],
        FULL,
        &[&[Mod::Level], GEOMETRY, V4],
    ),
    tex(
        &[D2, ANY, A.nth(1), ANY.opt(), ANY.opt()],
        PACKED,
        &[&[Mod::Level], GEOMETRY, V2],
    ),
    tex(
        &[D4, ANY, ANY, ANY, ANY.opt(), ANY.opt()],
        FULL,
        &[&[Mod::Grad], GEOMETRY, V4],
    ),
    tex(
        &[D2, ANY, ANY, ANY, ANY.opt(), ANY.opt()],
        PACKED,
        &[&[Mod::Grad], GEOMETRY, V2],
    ),
    inst("tld4", &[D4, ANY, ANY.opt(), ANY.opt()], access::fetch)
        .effect()
        .types(&[&[T::U32, T::S32, T::F32], &[T::F32]])
        .choose(&[
            &[Mod::R, Mod::G, Mod::B, Mod::A],
            &[Mod::N2d, Mod::A2d, Mod::Cube, Mod::Acube],
            V4,
        ])
        .gates(&[
            since(2, 2, 20),
            since(4, 3, 30).mods(&[Mod::A2d, Mod::Cube, Mod::Acube]),
        ])
        .check(check_tex),
    inst("txq", &[D, ANY], access::query)
        .effect()
        .types(&[&[T::B32]])
        .choose(&[&[
            Mod::Width,
            Mod::Height,
            Mod::Depth,
            Mod::ChannelDataType,
            Mod::ChannelOrder,
            Mod::NormalizedCoords,
            Mod::ArraySize,
            Mod::NumMipmapLevels,
            Mod::NumSamples,
            Mod::MemoryLayout,
        ]])
        .gates(&[
            since(1, 5, 0),
            since(4, 2, 0).mods(&[Mod::MemoryLayout]),
            since(4, 1, 0).mods(&[Mod::ArraySize, Mod::NumMipmapLevels, Mod::NumSamples]),
        ])
        .check(check_query),
    inst("txq", &[D, ANY], access::query)
        .effect()
        .types(&[&[T::B32]])
        .choose(&[ADDRESS_MODES])
        .gates(&[since(1, 5, 0)])
        .check(check_query),
    inst("txq", &[D, ANY, A.is(T::U32)], access::query)
        .effect()
        .with(&[Mod::Level])
        .types(&[&[T::B32]])
        .choose(&[&[Mod::Width, Mod::Height, Mod::Depth]])
        .gates(&[since(4, 3, 30)])
        .check(check_query),
    inst("istypep", &[DP, A.is(T::U64)], access::is_type)
        .effect()
        .types(&[&[T::Texref, T::Samplerref, T::Surfref]])
        .gates(&[since(4, 0, 30)]),
    inst(
        "suld",
        &[D.or_wider().vec(Elems::Lenient), ANY],
        access::load,
    )
    .effect()
    .with(&[Mod::B])
    .types(&[SURFACE_TYPES])
    .choose(&[SURFACE_GEOMETRY, CLAMP])
    .optional(&[LOAD_CACHE, &[Mod::V2, Mod::V4]])
    .gates(SURFACE)
    .check(check_surface),
    inst(
        "sust",
        &[ANY, A.or_wider().vec(Elems::Lenient)],
        access::store,
    )
    .effect()
    .with(&[Mod::B])
    .types(&[SURFACE_TYPES])
    .choose(&[SURFACE_GEOMETRY, CLAMP])
    .optional(&[STORE_CACHE, &[Mod::V2, Mod::V4]])
    .gates(SURFACE)
    .check(check_surface),
    inst(
        "sust",
        &[ANY, A.or_wider().vec(Elems::Lenient)],
        access::store,
    )
    .effect()
    .with(&[Mod::P])
    .types(&[&[T::B32]])
    .choose(&[&[Mod::N1d, Mod::N2d, Mod::N3d], CLAMP])
    .optional(&[&[Mod::V2, Mod::V4]])
    .gates(&[since(2, 0, 20)])
    .check(check_surface),
    sured(
        &[&[T::U32, T::S32, T::U64]],
        &[&[Mod::Add], REDUCE_GEOMETRY, CLAMP],
    )
    .with(&[Mod::B]),
    sured(
        &[&[T::U32, T::S32, T::U64, T::S64]],
        &[&[Mod::Min, Mod::Max], REDUCE_GEOMETRY, CLAMP],
    )
    .with(&[Mod::B]),
    sured(
        &[&[T::B32]],
        &[&[Mod::And, Mod::Or], REDUCE_GEOMETRY, CLAMP],
    )
    .with(&[Mod::B]),
    sured(
        &[&[T::B32]],
        &[
            &[Mod::Add, Mod::Min, Mod::Max, Mod::And, Mod::Or],
            REDUCE_GEOMETRY,
            CLAMP,
        ],
    )
    .with(&[Mod::P]),
    sured(
        &[&[T::B64]],
        &[&[Mod::Min, Mod::Max], REDUCE_GEOMETRY, CLAMP],
    )
    .with(&[Mod::P]),
    inst("suq", &[D, ANY], access::surface_query)
        .effect()
        .types(&[&[T::B32]])
        .choose(&[&[
            Mod::Width,
            Mod::Height,
            Mod::Depth,
            Mod::ChannelDataType,
            Mod::ChannelOrder,
            Mod::ArraySize,
            Mod::MemoryLayout,
        ]])
        .gates(&[
            since(1, 5, 0),
            since(4, 1, 0).mods(&[Mod::ArraySize]),
            since(4, 2, 0).mods(&[Mod::MemoryLayout]),
        ])
        .check(check_query),
];

const SURFACE: &[Gate] = &[since(1, 5, 0), since(3, 0, 20).mods(&[Mod::A1d, Mod::A2d])];
const REDUCE_GEOMETRY: &[Mod] = &[Mod::N1d, Mod::N2d, Mod::N3d];

const fn sured(types: &'static [&'static [T]], choices: &'static [&'static [Mod]]) -> InstDesc {
    const GATES: &[Gate] = &[since(2, 0, 20), since(8, 1, 50).types(&[T::S64, T::B64])];
    const OPERANDS: &[Opd] = &[ANY, A.or_wider()];
    inst("sured", OPERANDS, access::reduce)
        .effect()
        .types(types)
        .choose(choices)
        .gates(GATES)
        .check(check_surface)
}

/// How many coordinates a geometry has. Vectors of three are written with four, the last of which
/// is ignored.
fn coordinates(inst: &Inst<'_>) -> usize {
    match inst.pick(GEOMETRY) {
        Some(Mod::N1d) | None => 1,
        Some(Mod::N2d | Mod::A1d) => 2,
        Some(_) => 4,
    }
}

/// The opaque types that an instruction works with.
fn handles(inst: &Inst<'_>) -> &'static [T] {
    match inst.desc.opcode {
        opcode if opcode.starts_with("su") => &[T::Surfref],
        _ => &[T::Texref, T::Samplerref],
    }
}

/// An opaque variable, an opaque kernel parameter, or a register with a handle.
fn check_handle<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    operand: &'m Operand,
) -> Result<(), Diagnostic> {
    let error = |message: &str| Err(Diagnostic::error(message).label(operand.span, ""));
    let OperandKind::Name(name) = operand.kind else {
        return error("a texture, sampler or surface is expected here");
    };
    match t.lookup(name) {
        Some(Entity::Place(place)) => match (place.opaque, place.base) {
            (Some(ty), _) if handles(inst).contains(&ty) => Ok(()),
            // `.tex`, which later became a `.texref`.
            (None, PlaceBase::Var(_, ptxjit_ir::Space::Global)) if !t.version().at_least(1, 5) => {
                Ok(())
            }
            _ => error(match inst.desc.opcode {
                opcode if opcode.starts_with("su") => "a surface is expected here",
                _ => "a texture or sampler is expected here",
            }),
        },
        Some(Entity::Reg(_)) => check_src_operand(t, inst, operand, &A, T::U64),
        Some(Entity::Func(_)) => error("a texture, sampler or surface is expected here"),
        None => Err(t.unknown_name(name)),
    }
}

/// The parts of `[a, b, c]`.
fn parts<'m>(inst: &Inst<'m>, n: usize) -> Result<&'m [Operand], Diagnostic> {
    match inst.operand(n).map(|operand| &operand.kind) {
        Some(OperandKind::Tuple(parts)) => Ok(parts),
        _ => Err(inst.operand_error(n, "`[texture or surface, coordinates]` is expected here")),
    }
}

/// Coordinates: a register, or a list that is long enough. Of type `ty`, but the first of an array
/// is the index of a layer.
fn check_coordinates<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    operand: &'m Operand,
    ty: T,
) -> Result<(), Diagnostic> {
    let expected = coordinates(inst);
    let elems = match &operand.kind {
        OperandKind::Vector(elems) => elems,
        OperandKind::Name(name) => {
            return match t.lookup(*name) {
                Some(Entity::Reg(id)) if t.reg(id).elems > 1 => Ok(()),
                _ => check_src_operand(t, inst, operand, &A.reg(), ty),
            };
        }
        _ => {
            let message = "a register or a list of coordinates is expected here";
            return Err(Diagnostic::error(message).label(operand.span, ""));
        }
    };
    if elems.len() < expected || !matches!(elems.len(), 1 | 2 | 4) {
        let message = format!(
            "`{}` takes {expected} coordinates, not {}",
            inst.name,
            elems.len()
        );
        return Err(Diagnostic::error(message).label(operand.span, ""));
    }
    let used = match inst.pick(GEOMETRY) {
        Some(Mod::N3d | Mod::A2d | Mod::Cube | Mod::N2dms) => 3,
        _ => expected,
    };
    let has_layer = inst.pick(LAYERED).is_some();
    // One register of bits makes a list of bits, in which there may be floats and integers.
    let is_mixed = has_layer || elems.iter().any(|elem| is_bits(t, elem));
    for (n, elem) in elems.iter().take(used).enumerate() {
        match (n, has_layer) {
            (0, true) => check_coordinate(t, inst, elem, T::U32, false)?,
            _ => check_coordinate(t, inst, elem, ty, is_mixed)?,
        }
    }
    Ok(())
}

/// A register of `.b32`.
fn is_bits(t: &mut Translator<'_>, operand: &Operand) -> bool {
    match operand.kind {
        OperandKind::Name(name) => {
            matches!(t.lookup(name), Some(Entity::Reg(id)) if t.reg(id).ty == T::B32)
        }
        _ => false,
    }
}

/// One coordinate of a list. Floats may be in registers of integers; in a list that is mixed
/// anything may be.
fn check_coordinate<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    operand: &'m Operand,
    ty: T,
    is_mixed: bool,
) -> Result<(), Diagnostic> {
    let ty = match operand.kind {
        OperandKind::NameOffset(_) => {
            let error = Diagnostic::error("a sum cannot be a coordinate");
            return Err(error.label(operand.span, ""));
        }
        OperandKind::Constant(_) if is_mixed => return Ok(()),
        _ if is_mixed => T::B32,
        _ => ty,
    };
    check_src_operand(t, inst, operand, &A.or_integer().sreg(), ty)
}

fn check_tex<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    if let Some(OperandKind::Pair(_)) = inst.operand(0).map(|operand| &operand.kind) {
        require(t, inst, &since(7, 1, 0), "the predicate of a fetch")?;
    }
    let parts = parts(inst, 1)?;
    let (handles, coords) = parts.split_at(parts.len() - 1);
    handles
        .iter()
        .try_for_each(|handle| check_handle(t, inst, handle))?;
    check_sampler(t, inst, handles.len())?;
    let geometry = inst.pick(GEOMETRY).unwrap_or(Mod::N1d);
    let ctype = inst.ty(1);
    let is_multisample = matches!(geometry, Mod::N2dms | Mod::A2dms);
    if is_multisample && ctype != T::S32
        || matches!(geometry, Mod::Cube | Mod::Acube) && ctype != T::F32
    {
        return Err(inst.error(format!(
            "`.{}` does not take coordinates of type `.{}`",
            geometry.name(),
            ctype.name()
        )));
    }
    if is_multisample && inst.pick(&[Mod::Level, Mod::Grad]).is_some() {
        return Err(inst.error(format!("`.{}` has no mipmap levels", geometry.name())));
    }
    for coords in coords {
        check_coordinates(t, inst, coords, ctype)?;
    }
    if inst.has(Mod::Grad) {
        check_gradients(t, inst, geometry)?;
    }
    let first = if inst.has(Mod::Grad) {
        4
    } else {
        2 + usize::from(inst.has(Mod::Level))
    };
    check_extras(t, inst, geometry, first)
}

/// The gradients are vectors of floats, one for each coordinate; three are written with four.
fn check_gradients<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    geometry: Mod,
) -> Result<(), Diagnostic> {
    for n in [2, 3] {
        let Some(OperandKind::Vector(elems)) = inst.operand(n).map(|operand| &operand.kind) else {
            return Err(inst.operand_error(n, "a vector of gradients is expected here"));
        };
        let fits = match geometry {
            Mod::N1d | Mod::A1d => elems.len() == 1,
            Mod::N2d | Mod::A2d => elems.len() == 2,
            Mod::N3d => elems.len() == 4,
            _ => elems.len() != 3,
        };
        if !fits {
            return Err(inst.operand_error(
                n,
                format!(
                    "`.{}` does not have {} gradients",
                    geometry.name(),
                    elems.len()
                ),
            ));
        }
        elems
            .iter()
            .try_for_each(|elem| check_src_operand(t, inst, elem, &A, T::F32))?;
    }
    Ok(())
}

/// With `texmode_independent`, a sampler must be given; otherwise it is part of the texture.
fn check_sampler(t: &Translator<'_>, inst: &Inst<'_>, n_handles: usize) -> Result<(), Diagnostic> {
    let is_independent = t.unit.ast.target.is_texmode_independent;
    match (is_independent, n_handles) {
        (true, 2) | (false, 1) => Ok(()),
        (true, 1) if inst.desc.opcode == "tld4" => Ok(()),
        (true, 1) => {
            Err(inst.operand_error(1, "with `texmode_independent` a sampler must be given"))
        }
        (false, 2) => {
            Err(inst.operand_error(1, "a sampler can be given only with `texmode_independent`"))
        }
        (_, n) => Err(inst.operand_error(
            1,
            format!("a texture and a sampler are expected here, not {n} handles"),
        )),
    }
}

/// Offsets in braces, and a reference value for depth comparison.
fn check_extras<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    geometry: Mod,
    first: usize,
) -> Result<(), Diagnostic> {
    for n in first..inst.n_operands() {
        let Some(operand) = inst.operand(n) else {
            continue;
        };
        match &operand.kind {
            OperandKind::Vector(elems) => {
                if matches!(geometry, Mod::Cube | Mod::Acube) {
                    return Err(inst.operand_error(n, "cube textures take no offsets"));
                }
                elems
                    .iter()
                    .try_for_each(|elem| check_src_operand(t, inst, elem, &A, T::S32))?;
            }
            _ => {
                let has_depth = matches!(geometry, Mod::N2d | Mod::A2d | Mod::Cube | Mod::Acube);
                if !has_depth {
                    return Err(inst.operand_error(
                        n,
                        format!("`.{}` has no depth comparison", geometry.name()),
                    ));
                }
                check_src_operand(t, inst, operand, &A, T::F32)?;
            }
        }
    }
    Ok(())
}

fn check_surface<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let n = usize::from(inst.desc.opcode == "suld");
    let parts = parts(inst, n)?;
    let [handle, coords] = parts else {
        return Err(inst.operand_error(n, "`[surface, coordinates]` is expected here"));
    };
    check_handle(t, inst, handle)?;
    check_coordinates(t, inst, coords, T::S32)?;
    let width = super::operands::vector_length(inst) as u32 * inst.ty(0).bits();
    if width > 128 {
        return Err(inst.error(format!(
            "a surface access has at most 128 bits, not {width}"
        )));
    }
    Ok(())
}

/// `[texture]`
fn check_query<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    match inst.operand(1).map(|operand| &operand.kind) {
        Some(OperandKind::Address(address)) if address.offset.is_none() => match &address.base {
            Some(base) => check_handle(t, inst, base),
            None => Err(inst.operand_error(1, "a texture, sampler or surface is expected here")),
        },
        _ => Err(inst.operand_error(
            1,
            "a texture, sampler or surface in brackets is expected here",
        )),
    }
}
