//! Textures, samplers and surfaces: what instructions do with them. PTX ISA, "Texture Instructions"
//! and "Surface Instructions".
//!
//! A program names an object by its handle, or by the address of an opaque variable in which the
//! handle lies. [`Registry`] has the objects; they describe images in global memory, and nothing of
//! them is in memory that kernels can change.
//!
//! Reads of textures are worked out for [`LANES`] threads at once ([`fetch_lanes`], and [`Plane`]
//! for the one that programs make most), for one thread with one of them in use.

mod bilinear;
mod cube;
mod object;
mod query;
mod registry;
mod sample;
mod surface;
mod texel;

use std::sync::Arc;

use ptxjit_ir::{Color, Fetch, OpaqueKind, TextureOp, Unbound};
use smallvec::SmallVec;

use crate::{Fault, Thread};

use sample::Site;
use texel::float_to_half;

pub use bilinear::Plane;
pub use object::{
    AddressMode, ChannelType, Image, Level, Object, Resource, Sampler, Shape, Surface, Texture,
};
pub use registry::Registry;
pub use texel::Texels;

/// Threads whose reads are worked out together.
pub const LANES: usize = 8;

/// Executes an operation for one thread.
pub(crate) fn execute(
    op: TextureOp,
    thread: &mut dyn Thread,
    args: &[u64],
    results: &mut [u64],
) -> Result<(), Fault> {
    match op {
        TextureOp::Fetch(fetch) => fetch_one(&fetch, thread, args, results),
        TextureOp::Query { query, level } => {
            let found = Found::of(thread, args[0])?;
            let level = level.then(|| args[1] as u32);
            results[0] = u64::from(query::answer(&found, query, level)?);
            Ok(())
        }
        TextureOp::SurfaceQuery(query) => {
            let found = Found::of(thread, args[0])?;
            results[0] = u64::from(query::of_surface(found.surface()?, query)?);
            Ok(())
        }
        TextureOp::IsKind(kind) => {
            results[0] =
                u64::from(Found::of(thread, args[0]).is_ok_and(|found| found.kind() == kind));
            Ok(())
        }
        TextureOp::Load(access) => surface::load(&access, thread, args, results),
        TextureOp::Store(access) => surface::store(&access, thread, args),
        TextureOp::Reduce(op, fmt, access) => surface::reduce((op, fmt), &access, thread, args),
    }
}

/// What an operand for an object leads to.
pub(crate) enum Found {
    /// An object.
    Object(Arc<Object>),
    /// A variable of the module to which the host has bound none.
    Unbound(Unbound),
}

impl Found {
    /// What a handle, or the address of an opaque variable, leads to.
    pub(crate) fn of(thread: &mut dyn Thread, operand: u64) -> Result<Found, Fault> {
        if let Some(object) = thread.object(operand) {
            return Ok(Found::Object(object));
        }
        let mut bytes = [0; 8];
        let is_place = operand.is_multiple_of(8) && thread.read(operand, &mut bytes).is_ok();
        let content = u64::from_le_bytes(bytes);
        let found = match is_place {
            true => Unbound::from_bits(content).map(Found::Unbound).or_else(|| {
                let object = thread.object(content);
                object.map(Found::Object)
            }),
            false => None,
        };
        found.ok_or_else(|| {
            Fault::refused(format!(
                "{operand:#x} is neither the handle of a texture, sampler or surface that exists nor the address of a \
                 variable for one"
            ))
        })
    }

    fn kind(&self) -> OpaqueKind {
        match self {
            Found::Object(object) => object.kind(),
            Found::Unbound(unbound) => unbound.kind,
        }
    }

    fn wrong(&self, wanted: OpaqueKind) -> Fault {
        let kind = self.kind();
        Fault::refused(match self {
            Found::Unbound(_) if kind == wanted => {
                format!("no {} is bound to the variable", wanted.name())
            }
            _ => format!("a {} is given, not a {}", kind.name(), wanted.name()),
        })
    }

    fn surface(&self) -> Result<&Surface, Fault> {
        match self {
            Found::Object(object) => match &**object {
                Object::Surface(surface) => Ok(surface),
                Object::Texture(_) | Object::Sampler(_) => Err(self.wrong(OpaqueKind::Surface)),
            },
            Found::Unbound(_) => Err(self.wrong(OpaqueKind::Surface)),
        }
    }

    fn texture(&self) -> Result<&Texture, Fault> {
        match self {
            Found::Object(object) => match &**object {
                Object::Texture(texture) => Ok(texture),
                Object::Surface(_) | Object::Sampler(_) => Err(self.wrong(OpaqueKind::Texture)),
            },
            Found::Unbound(_) => Err(self.wrong(OpaqueKind::Texture)),
        }
    }

    fn sampler(&self) -> Result<Sampler, Fault> {
        match self {
            Found::Object(object) => match &**object {
                Object::Sampler(sampler) => Ok(*sampler),
                Object::Surface(_) | Object::Texture(_) => Err(self.wrong(OpaqueKind::Sampler)),
            },
            Found::Unbound(unbound) if unbound.kind == OpaqueKind::Sampler => {
                Ok(sampler_of(unbound))
            }
            Found::Unbound(_) => Err(self.wrong(OpaqueKind::Sampler)),
        }
    }
}

/// The sampler that an initializer describes.
pub fn sampler_of(unbound: &Unbound) -> Sampler {
    Sampler {
        address: unbound.modes.map(AddressMode::from_number),
        linear: unbound.linear,
        normalized: !unbound.force_unnormalized,
        ..Sampler::default()
    }
}

/// A read with the texture and the sampler that it uses, both found.
pub struct Bound {
    fetch: Fetch,
    object: Arc<Object>,
    /// As it is in effect: with normalized coordinates only where nothing overrides them.
    sampler: Sampler,
    is_plane: bool,
    is_by_handle: bool,
}

impl Bound {
    /// Finds what the operands of a read name, and checks that the read fits the image.
    pub fn of(fetch: &Fetch, thread: &mut dyn Thread, handles: &[u64]) -> Result<Bound, Fault> {
        let found = Found::of(thread, handles[0])?;
        let own = match fetch.sampler {
            true => Some(Found::of(thread, handles[1])?.sampler()?),
            false => None,
        };
        let texture = found.texture()?;
        check_fits(fetch, texture)?;
        let sampler = in_effect(fetch, texture, own);
        let is_plane = bilinear::is_plane(fetch, texture, &sampler);
        let Found::Object(object) = found else {
            unreachable!("only an object is a texture");
        };
        let is_by_handle = handles
            .iter()
            .all(|&handle| thread.object(handle).is_some());
        Ok(Bound {
            fetch: *fetch,
            object,
            sampler,
            is_plane,
            is_by_handle,
        })
    }

    /// The read.
    #[inline]
    pub fn fetch(&self) -> &Fetch {
        &self.fetch
    }

    /// Whether the operands are handles, which name the same until the [`Registry`] changes, rather
    /// than addresses of variables.
    #[inline]
    pub fn is_by_handle(&self) -> bool {
        self.is_by_handle
    }

    /// The texture.
    #[inline]
    pub fn texture(&self) -> &Texture {
        match &*self.object {
            Object::Texture(texture) => texture,
            Object::Surface(_) | Object::Sampler(_) => {
                unreachable!("checked when it was found")
            }
        }
    }

    /// The plane, if the read is one that has a shorter way.
    #[inline]
    pub fn plane(&self) -> Option<Plane<'_>> {
        let plane = || Plane::of(self.texture(), &self.sampler);
        self.is_plane.then(plane)
    }

    fn site(&self, live: [bool; LANES]) -> Site<'_> {
        Site {
            fetch: &self.fetch,
            texture: self.texture(),
            sampler: &self.sampler,
            live,
        }
    }
}

/// The sampler that is in effect for a read of a texture, with one of its own or with that of the
/// texture.
fn in_effect(fetch: &Fetch, texture: &Texture, own: Option<Sampler>) -> Sampler {
    let is_cube = fetch.geometry.n_axes() == 3 && texture.image.shape.n_dims() == 2;
    let mut sampler = match own {
        Some(sampler) => Sampler {
            normalized: sampler.normalized && texture.sampler.normalized,
            ..sampler
        },
        None => texture.sampler,
    };
    sampler.normalized |= is_cube;
    // Integers are not mixed, whatever a sampler of its own says.
    sampler.linear &= texture.is_float();
    sampler
}

/// Whether an image of a shape can be read or accessed by instructions for a geometry. Faces of
/// cubes are layers, too.
pub(crate) fn fits(geometry: ptxjit_ir::Geometry, shape: Shape) -> bool {
    use ptxjit_ir::Geometry;
    match geometry {
        Geometry::D1 => shape == Shape::D1,
        Geometry::D2 | Geometry::Samples => shape == Shape::D2,
        Geometry::D3 => shape == Shape::D3,
        Geometry::A1 => shape == Shape::Layers1,
        Geometry::A2 => matches!(shape, Shape::Layers2 | Shape::Cube | Shape::Cubes),
        Geometry::Cube => shape == Shape::Cube,
        Geometry::CubeArray => matches!(shape, Shape::Cube | Shape::Cubes),
        Geometry::SamplesArray => shape == Shape::Layers2,
    }
}

fn check_fits(fetch: &Fetch, texture: &Texture) -> Result<(), Fault> {
    let shape = texture.image.shape;
    if !fits(fetch.geometry, shape) {
        return Err(Fault::refused(format!(
            "a texture of geometry `{shape}` is not read by `.{}`",
            fetch.geometry.name()
        )));
    }
    if texture.image.resource == Resource::Linear && !fetch.integer {
        return Err(Fault::refused(
            "a texture of linear memory is read at integer coordinates only",
        ));
    }
    Ok(())
}

/// Reads for [`LANES`] threads: `args` are the operands behind the handles, `live` the threads that
/// take part, and `open` gives the memory of a level. Gives [`TextureOp::results`], the others
/// unspecified.
#[inline(always)]
pub fn fetch_lanes<T: Texels>(
    bound: &Bound,
    args: &[[u32; LANES]],
    live: [bool; LANES],
    open: impl FnMut(usize) -> T,
) -> [[u32; LANES]; 4] {
    let texture = bound.texture();
    let words = bound.site(live).read(args, open);
    match bound.fetch.color {
        Color::Words => words,
        Color::Halves => words.map(|channel| channel.map(|word| half(texture, word).into())),
        Color::PackedHalves => {
            let pair = |low: usize| {
                std::array::from_fn(|lane| {
                    let [low, high] = [low, low + 1].map(|n| half(texture, words[n][lane]));
                    u32::from(low) | u32::from(high) << 16
                })
            };
            [pair(0), pair(2), [0; LANES], [0; LANES]]
        }
    }
}

/// A channel as a half; integers keep their low bits.
fn half(texture: &Texture, word: u32) -> u16 {
    match texture.is_float() {
        true => float_to_half(word),
        false => word as u16,
    }
}

/// Reads for one thread.
fn fetch_one(
    fetch: &Fetch,
    thread: &mut dyn Thread,
    args: &[u64],
    results: &mut [u64],
) -> Result<(), Fault> {
    let bound = Bound::of(fetch, thread, args)?;
    let n_handles = 1 + usize::from(fetch.sampler);
    let words: SmallVec<[[u32; LANES]; 12]> = args[n_handles..]
        .iter()
        .map(|&arg| [arg as u32; LANES])
        .collect();
    let mut live = [false; LANES];
    live[0] = true;
    let thread = std::cell::RefCell::new((thread, None));
    let colors = fetch_lanes(&bound, &words, live, |level| OneThread {
        thread: &thread,
        base: bound.texture().image.levels[level].addr,
        last: None,
    });
    if let (_, Some(fault)) = thread.into_inner() {
        return Err(fault);
    }
    for (result, words) in results.iter_mut().zip(&colors) {
        *result = words[0].into();
    }
    Ok(())
}

/// Memory of a level as one thread reads it. All lanes ask for the same.
struct OneThread<'a, 't> {
    thread: &'a std::cell::RefCell<(&'t mut dyn Thread, Option<Fault>)>,
    base: u64,
    last: Option<(u64, u32)>,
}

impl OneThread<'_, '_> {
    fn read(&mut self, offset: u64, size: usize) -> u32 {
        if let Some((at, value)) = self.last
            && at == offset
        {
            return value;
        }
        let mut bytes = [0; 4];
        let (thread, fault) = &mut *self.thread.borrow_mut();
        if let Err(found) = thread.read(self.base + offset, &mut bytes[..size]) {
            fault.get_or_insert(found);
        }
        let value = u32::from_le_bytes(bytes);
        self.last = Some((offset, value));
        value
    }
}

impl Texels for OneThread<'_, '_> {
    fn byte(&mut self, offset: u64) -> u8 {
        self.read(offset, 1) as u8
    }

    fn half(&mut self, offset: u64) -> u16 {
        self.read(offset, 2) as u16
    }

    fn word(&mut self, offset: u64) -> u32 {
        self.read(offset, 4)
    }
}
