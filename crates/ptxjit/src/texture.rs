//! The textures, surfaces and samplers by which kernels reach images.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use ptxjit_device::texture::{
    AddressMode, Object, Sampler as SamplerFields, Surface as SurfaceFields,
    Texture as TextureFields,
};

use crate::{Arg, Device, Error, Image, UsageRule};

/// What a launch or a binding keeps alive.
pub(crate) type Keep = Arc<dyn Any + Send + Sync>;

pub(crate) fn wrong(why: String) -> Error {
    Error::usage(UsageRule::Description, why)
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
            /// What kernels know it by: an argument of type `.u64`, `.texref`, `.samplerref` or
            /// `.surfref`. It means nothing when the last clone and the last launch with it as an
            /// argument are gone.
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
    /// A texture of an image: elements at points, clamped at the edges, as they are, by coordinates
    /// that count elements.
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
            /// What stands for elements outside, by dimension: `wrap`, `mirror`, `clamp` or
            /// `border`. Without normalized coordinates the first two are as `clamp`.
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

            /// Coordinates are fractions of the size. Of a sampler, false means that they are not,
            /// whatever the texture says.
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
        let inner = Registered::new(
            &image.device,
            Object::Texture(texture),
            Some(image.keep.clone()),
        );
        Ok(Texture { inner })
    }

    /// Lets a number that the caller has chosen stand for the texture, until
    /// [`Device::forget_handle`] is called.
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

    /// Lets a number that the caller has chosen stand for a surface, until
    /// [`Device::forget_handle`] is called. With `is_fraction`, formatted stores take integers for
    /// fractions of the largest.
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
