//! Images, and the textures, surfaces and samplers by which kernels reach them.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use ptxjit_device::texture::{
    AddressMode, Image as Fields, Level, Object, Resource, Sampler as SamplerFields, Surface as SurfaceFields,
    Texture as TextureFields,
};

pub use ptxjit_device::texture::{ChannelType, Shape};

use crate::{Arg, Buffer, Device, Element, Error};

/// What a launch or a binding keeps alive.
pub(crate) type Keep = Arc<dyn Any + Send + Sync>;

/// An image in device memory: lines, planes, volumes or cubes of elements of one to four channels. Cheap to clone; all clones
/// are the same memory.
///
/// ```
/// use ptxjit::{ChannelType, Device, Image, Texture};
///
/// let device = Device::new()?;
/// let image = Image::new(ChannelType::F32, 1, &[4, 2]).alloc(&device)?;
/// let values: Vec<u8> = (0..8u8).flat_map(|n| f32::from(n).to_le_bytes()).collect();
/// image.data().expect("it has its own").write(&values)?;
/// let texture = Texture::new(&image).linear(true).normalized(true).build()?;
/// assert_ne!(texture.handle(), 0);
///
/// let err = Image::new(ChannelType::U8, 3, &[4]).alloc(&device).unwrap_err().to_string();
/// assert!(err.contains("`channels` is 3"), "{err}");
/// # Ok::<(), ptxjit::Error>(())
/// ```
#[derive(Clone)]
pub struct Image {
    device: Device,
    fields: Fields,
    keep: Keep,
    data: Option<Buffer<u8>>,
}

/// An image to be made.
#[derive(Clone, Debug)]
pub struct ImageBuilder {
    dtype: ChannelType,
    channels: u32,
    dims: Vec<u32>,
    shape: Option<Shape>,
    layers: Option<u32>,
    levels: Option<u32>,
    resource: Resource,
    pitch: Option<u64>,
}

impl Image {
    /// An image of elements of `channels` (1, 2 or 4) channels, with width, height and depth as far as it has them. Data lie in the
    /// order level, layer, plane, row, element, channel, without gaps.
    #[expect(clippy::new_ret_no_self, reason = "the builder makes the image")]
    pub fn new(dtype: ChannelType, channels: u32, dims: &[u32]) -> ImageBuilder {
        ImageBuilder {
            dtype,
            channels,
            dims: dims.to_vec(),
            shape: None,
            layers: None,
            levels: None,
            resource: Resource::Array,
            pitch: None,
        }
    }

    /// The memory of an image that has its own: all of its bytes.
    pub fn data(&self) -> Option<&Buffer<u8>> {
        self.data.as_ref()
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Image").field(&self.fields).finish()
    }
}

impl ImageBuilder {
    /// The shape; without this a line, plane or volume by the number of sizes.
    pub fn shape(mut self, shape: Shape) -> ImageBuilder {
        self.shape = Some(shape);
        self
    }

    /// Layers of a layered image; faces of cubes count.
    pub fn layers(mut self, layers: u32) -> ImageBuilder {
        self.layers = Some(layers);
        self
    }

    /// Makes a mipmap of so many levels, each half as large as the one before.
    pub fn levels(mut self, levels: u32) -> ImageBuilder {
        self.levels = Some(levels);
        self
    }

    /// Linear memory, read at integer coordinates.
    pub fn linear(mut self) -> ImageBuilder {
        self.resource = Resource::Linear;
        self
    }

    /// Rows of linear memory that begin every `bytes` bytes.
    pub fn pitch(mut self, bytes: u64) -> ImageBuilder {
        self.resource = Resource::Pitch;
        self.pitch = Some(bytes);
        self
    }

    /// The image, in memory of its own with unspecified contents.
    pub fn alloc(&self, device: &Device) -> Result<Image, Error> {
        let (fields, size) = self.fields(0)?;
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let data = device.alloc::<u8>(size)?;
        let mut image = self.finish(device, fields, data.address(), data.keep())?;
        image.data = Some(data);
        Ok(image)
    }

    /// The image in a buffer, from a byte on.
    pub fn in_buffer<T: Element>(
        &self,
        device: &Device,
        buffer: &Buffer<T>,
        byte_offset: u64,
    ) -> Result<Image, Error> {
        let (fields, size) = self.fields(0)?;
        let len = (buffer.len() * T::SIZE) as u64;
        if byte_offset.checked_add(size).is_none_or(|end| end > len) {
            return Err(wrong(format!(
                "the image has {size} bytes from byte {byte_offset} on, and its buffer {len}"
            )));
        }
        self.finish(device, fields, buffer.address() + byte_offset, buffer.keep())
    }

    /// The image at an address of device memory, which must live as long as it.
    pub fn at(&self, device: &Device, address: u64) -> Result<Image, Error> {
        let (fields, _) = self.fields(0)?;
        self.finish(device, fields, address, Arc::new(()))
    }

    /// The mipmap of levels that lie at these addresses, which must live as long as it.
    pub fn at_levels(&self, device: &Device, addresses: &[u64]) -> Result<Image, Error> {
        let (mut fields, _) = self.fields(0)?;
        if fields.levels.len() != addresses.len() {
            return Err(wrong("each level has one address".to_owned()));
        }
        for (level, &addr) in fields.levels.iter_mut().zip(addresses) {
            level.addr = addr;
        }
        self.finish(device, fields, 0, Arc::new(()))
    }

    fn finish(
        &self,
        device: &Device,
        mut fields: Fields,
        address: u64,
        keep: Keep,
    ) -> Result<Image, Error> {
        for level in &mut fields.levels {
            level.addr = level.addr.wrapping_add(address);
        }
        let unit = u64::from(fields.element_bytes());
        if fields.levels.iter().any(|level| !level.addr.is_multiple_of(unit)) {
            return Err(wrong(format!(
                "an image of elements of {unit} bytes does not begin at a multiple of that"
            )));
        }
        Ok(Image {
            device: device.clone(),
            fields,
            keep,
            data: None,
        })
    }

    /// The description with its first level at an address, and the bytes of all levels.
    fn fields(&self, address: u64) -> Result<(Fields, u64), Error> {
        let shape = match (self.shape, self.dims.len()) {
            (Some(shape), _) => shape,
            (None, 1) => Shape::D1,
            (None, 2) => Shape::D2,
            (None, _) => Shape::D3,
        };
        if self.dims.len() != shape.n_dims() {
            return Err(wrong(format!(
                "`dims` has {} sizes, and `{shape}` {}",
                self.dims.len(),
                shape.n_dims()
            )));
        }
        let layers = match (self.layers, shape) {
            (Some(layers), _) => layers,
            (None, Shape::D1 | Shape::D2 | Shape::D3) => 1,
            (None, Shape::Cube) => 6,
            (None, _) => return Err(wrong(format!("`layers` is missing for `{shape}`"))),
        };
        let n_levels = self.levels.unwrap_or(1);
        if n_levels == 0 || n_levels > 32 {
            return Err(wrong(format!("`levels` is {n_levels}")));
        }
        let element = u64::from(self.dtype.bytes()) * u64::from(self.channels);
        let mut fields = Fields {
            shape,
            dtype: self.dtype,
            channels: self.channels,
            layers,
            levels: Vec::new(),
            resource: self.resource,
            is_mipmap: self.levels.is_some(),
        };
        let mut end = address;
        for n in 0..n_levels {
            let side = |d: usize| self.dims.get(d).map_or(1, |&size| halved(size, n));
            let size = [side(0), side(1), side(2)];
            let row = u64::from(size[0]) * element;
            let pitch = self.pitch.unwrap_or(row);
            if pitch < row || !pitch.is_multiple_of(element) || pitch > u32::MAX.into() {
                return Err(wrong(format!("`pitch_bytes` is {pitch}, and a row has {row} bytes")));
            }
            let level = Level {
                addr: end,
                size,
                pitch,
            };
            let rows = [size[1], size[2], layers].map(u64::from);
            let rows = rows.iter().try_fold(1_u64, |all, &n| all.checked_mul(n));
            let rows = rows.filter(|&rows| rows <= u32::MAX.into());
            let bytes = rows.and_then(|rows| rows.checked_mul(pitch));
            let last_gap = pitch - row;
            end = bytes
                .and_then(|bytes| end.checked_add(bytes.max(last_gap) - last_gap))
                .ok_or_else(|| wrong("the image is too large".to_owned()))?;
            fields.levels.push(level);
        }
        // The sizes are those that every image must have, whatever it is used for.
        SurfaceFields {
            image: fields.clone(),
            is_fraction: false,
        }
        .check()
        .map_err(wrong)?;
        Ok((fields, end - address))
    }
}

fn halved(size: u32, n: u32) -> u32 {
    match size {
        0 => 0,
        size => size.checked_shr(n).unwrap_or(0).max(1),
    }
}

fn wrong(why: String) -> Error {
    Error::Usage(why)
}

/// A handle that means something as long as this lives.
struct Registered {
    device: Device,
    handle: u64,
    _memory: Option<Keep>,
}

impl Registered {
    fn new(device: &Device, object: Object, memory: Option<Keep>) -> Arc<Registered> {
        Arc::new(Registered {
            handle: device.runtime.textures().add(object),
            device: device.clone(),
            _memory: memory,
        })
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.device.runtime.textures().remove(self.handle);
    }
}

macro_rules! handles {
    ($($name:ident)*) => { $(
        impl $name {
            /// What kernels know it by: an argument of type `.u64`, `.texref`, `.samplerref` or `.surfref`. It means nothing when
            /// the last clone and the last launch with it as an argument are gone.
            pub fn handle(&self) -> u64 {
                self.inner.handle
            }

            pub(crate) fn keep(&self) -> Keep {
                self.inner.clone()
            }
        }

        impl From<&$name> for Arg {
            fn from(object: &$name) -> Arg {
                Arg {
                    bytes: object.handle().to_le_bytes().to_vec(),
                    keeps: Some(object.keep()),
                }
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), " {:#x}"), self.handle())
            }
        }
    )* };
}

handles!(Texture Surface Sampler);

/// An image and how it is read. Cheap to clone.
#[derive(Clone)]
pub struct Texture {
    inner: Arc<Registered>,
}

/// A texture to be made.
#[derive(Clone, Debug)]
pub struct TextureBuilder {
    image: Image,
    fields: TextureFields,
    sampling: Sampling,
}

impl Texture {
    /// A texture of an image: elements at points, clamped at the edges, as they are, by coordinates that count elements.
    #[expect(clippy::new_ret_no_self, reason = "the builder makes the texture")]
    pub fn new(image: &Image) -> TextureBuilder {
        TextureBuilder {
            image: image.clone(),
            fields: TextureFields {
                image: image.fields.clone(),
                sampler: SamplerFields::default(),
                normalized_read: false,
                srgb: false,
            },
            sampling: Sampling::default(),
        }
    }
}

/// Fields of samplers, and the first that has no meaning.
#[derive(Clone, Debug, Default)]
struct Sampling {
    fields: SamplerFields,
    bad: Option<String>,
}

impl Sampling {
    fn address(&mut self, modes: &[&str]) {
        if modes.len() > 3 {
            self.bad = Some("`address` has more than three modes".to_owned());
        }
        for (place, mode) in self.fields.address.iter_mut().zip(modes) {
            *place = match *mode {
                "wrap" => AddressMode::Wrap,
                "mirror" => AddressMode::Mirror,
                "clamp" => AddressMode::Clamp,
                "border" => AddressMode::Border,
                other => {
                    let other = crate::escape(other);
                    self.bad = Some(format!("`address` has no mode `{other}`"));
                    return;
                }
            };
        }
    }
}

macro_rules! sampling {
    ($name:ident) => {
        impl $name {
            /// What stands for elements outside, by dimension: `wrap`, `mirror`, `clamp` or `border`. Without normalized coordinates
            /// the first two are as `clamp`.
            pub fn address(mut self, modes: &[&str]) -> $name {
                self.sampling.address(modes);
                self
            }

            /// Elements around a place are mixed.
            pub fn linear(mut self, linear: bool) -> $name {
                self.sampling.fields.linear = linear;
                self
            }

            /// The two levels around a level of detail are mixed.
            pub fn mip_linear(mut self, linear: bool) -> $name {
                self.sampling.fields.mip_linear = linear;
                self
            }

            /// Added to levels of detail.
            pub fn mip_bias(mut self, bias: f32) -> $name {
                self.sampling.fields.mip_bias = bias;
                self
            }

            /// Least and greatest level of detail.
            pub fn mip_clamp(mut self, least: f32, most: f32) -> $name {
                self.sampling.fields.mip_clamp = [least, most];
                self
            }

            /// The border color.
            pub fn border(mut self, color: [f32; 4]) -> $name {
                self.sampling.fields.border = color;
                self
            }

            /// Coordinates are fractions of the size. Of a sampler, false means that they are not, whatever the texture says.
            pub fn normalized(mut self, normalized: bool) -> $name {
                self.sampling.fields.normalized = normalized;
                self
            }
        }
    };
}

sampling!(TextureBuilder);
sampling!(SamplerBuilder);

impl TextureBuilder {
    /// Integers of 8 and 16 bits are read as fractions of the largest.
    pub fn normalized_read(mut self, normalized: bool) -> TextureBuilder {
        self.fields.normalized_read = normalized;
        self
    }

    /// The first three channels, unsigned of 8 bits, are decoded from sRGB.
    pub fn srgb(mut self, srgb: bool) -> TextureBuilder {
        self.fields.srgb = srgb;
        self
    }

    /// The texture; the error names the field that does not fit.
    pub fn build(&self) -> Result<Texture, Error> {
        let texture = self.checked()?;
        let image = &self.image;
        let inner = Registered::new(&image.device, Object::Texture(texture), Some(image.keep.clone()));
        Ok(Texture { inner })
    }

    /// Lets a number that the caller has chosen stand for the texture, until [`Device::forget_handle`] is called.
    pub fn build_as(&self, handle: u64) -> Result<(), Error> {
        let texture = Object::Texture(self.checked()?);
        self.image.device.runtime.textures().set(handle, texture);
        Ok(())
    }

    fn checked(&self) -> Result<TextureFields, Error> {
        if let Some(bad) = &self.sampling.bad {
            return Err(wrong(bad.clone()));
        }
        let texture = TextureFields {
            sampler: self.sampling.fields,
            ..self.fields.clone()
        };
        texture.check().map_err(wrong)?;
        Ok(texture)
    }
}

/// A sampler of its own, for modules with `texmode_independent`. Cheap to clone.
#[derive(Clone)]
pub struct Sampler {
    inner: Arc<Registered>,
}

/// A sampler to be made.
#[derive(Clone, Debug)]
pub struct SamplerBuilder {
    device: Device,
    sampling: Sampling,
}

impl Sampler {
    /// A sampler for textures of a device; coordinates are normalized if the texture says so.
    #[expect(clippy::new_ret_no_self, reason = "the builder makes the sampler")]
    pub fn new(device: &Device) -> SamplerBuilder {
        let mut sampling = Sampling::default();
        sampling.fields.normalized = true;
        SamplerBuilder {
            device: device.clone(),
            sampling,
        }
    }
}

impl SamplerBuilder {
    /// The sampler.
    pub fn build(&self) -> Result<Sampler, Error> {
        match &self.sampling.bad {
            Some(bad) => Err(wrong(bad.clone())),
            None => Ok(Sampler {
                inner: Registered::new(&self.device, Object::Sampler(self.sampling.fields), None),
            }),
        }
    }
}

/// An image that kernels load from and store to. Cheap to clone.
#[derive(Clone)]
pub struct Surface {
    inner: Arc<Registered>,
}

impl Surface {
    /// A surface of an image, of its level 0 if it is a mipmap.
    pub fn new(image: &Image) -> Result<Surface, Error> {
        let object = surface(image, false)?;
        let inner = Registered::new(&image.device, object, Some(image.keep.clone()));
        Ok(Surface { inner })
    }

    /// Lets a number that the caller has chosen stand for a surface, until [`Device::forget_handle`] is called. With `is_fraction`,
    /// formatted stores take integers for fractions of the largest.
    pub fn build_as(image: &Image, is_fraction: bool, handle: u64) -> Result<(), Error> {
        let object = surface(image, is_fraction)?;
        image.device.runtime.textures().set(handle, object);
        Ok(())
    }
}

fn surface(image: &Image, is_fraction: bool) -> Result<Object, Error> {
    let surface = SurfaceFields {
        image: image.fields.clone(),
        is_fraction,
    };
    surface.check().map_err(wrong)?;
    Ok(Object::Surface(surface))
}

impl Device {
    /// Ends what [`TextureBuilder::build_as`] or [`Surface::build_as`] began.
    pub fn forget_handle(&self, handle: u64) {
        self.runtime.textures().remove(handle);
    }
}

/// Something that can be bound to an opaque variable of a module.
#[derive(Clone, Debug)]
pub enum Binding {
    /// To a `.texref`.
    Texture(Texture),
    /// To a `.samplerref`.
    Sampler(Sampler),
    /// To a `.surfref`.
    Surface(Surface),
}

macro_rules! bindings {
    ($($name:ident)*) => { $(
        impl From<&$name> for Binding {
            fn from(object: &$name) -> Binding {
                Binding::$name(object.clone())
            }
        }
    )* };
}

bindings!(Texture Sampler Surface);

impl Binding {
    pub(crate) fn parts(&self) -> (ptxjit_ir::OpaqueKind, u64, Keep) {
        use ptxjit_ir::OpaqueKind;
        match self {
            Binding::Texture(it) => (OpaqueKind::Texture, it.handle(), it.keep()),
            Binding::Sampler(it) => (OpaqueKind::Sampler, it.handle(), it.keep()),
            Binding::Surface(it) => (OpaqueKind::Surface, it.handle(), it.keep()),
        }
    }
}

impl Binding {
    /// What kernels know it by.
    pub fn handle(&self) -> u64 {
        self.parts().1
    }
}

impl From<&Binding> for Arg {
    fn from(object: &Binding) -> Arg {
        let (_, handle, keep) = object.parts();
        Arg {
            bytes: handle.to_le_bytes().to_vec(),
            keeps: Some(keep),
        }
    }
}
