//! Textures, surfaces and samplers in case files and on the command line.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use ptxjit::{
    Binding, Buffer, ChannelType, Device, Image, ImageBuilder, Sampler, SamplerBuilder, Shape,
    Surface, Texture, TextureBuilder, escape,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::contents::Contents;
use crate::dtype::DType;
use crate::npy::Array;
use crate::paths::shown;
use crate::tensor_map::{number, numbers};

/// The fields of a texture or surface, and its memory: data of its own, a buffer, or the storage of
/// another.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TextureDecl {
    pub object: Option<ObjectKind>,
    geometry: Option<String>,
    dims: Option<Vec<i64>>,
    layers: Option<i64>,
    levels: Option<i64>,
    channels: Option<i64>,
    dtype: Option<String>,
    pub npy: Option<Files>,
    address: Option<Vec<String>>,
    border: Option<Vec<f64>>,
    filter: Option<Filter>,
    mip_filter: Option<Filter>,
    mip_bias: Option<f64>,
    mip_clamp: Option<[f64; 2]>,
    read: Option<Read>,
    srgb: Option<bool>,
    normalized: Option<bool>,
    max_anisotropy: Option<f64>,
    resource: Option<ResourceKind>,
    pitch_bytes: Option<i64>,
    pub buffer: Option<String>,
    pub byte_offset: Option<i64>,
    pub shares: Option<String>,
    pub arg: Option<usize>,
    pub data: Option<String>,
}

/// The fields of a sampler.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SamplerDecl {
    address: Option<Vec<String>>,
    border: Option<Vec<f64>>,
    filter: Option<Filter>,
    mip_filter: Option<Filter>,
    mip_bias: Option<f64>,
    mip_clamp: Option<[f64; 2]>,
    normalized: Option<bool>,
    max_anisotropy: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectKind {
    Texture,
    Surface,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Filter {
    Point,
    Linear,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Read {
    Element,
    NormalizedFloat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ResourceKind {
    Array,
    Linear,
    Pitch2d,
}

/// One file, or one for each level.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Files {
    One(String),
    Levels(Vec<String>),
}

impl Files {
    pub fn names(&self) -> &[String] {
        match self {
            Files::One(name) => std::slice::from_ref(name),
            Files::Levels(names) => names,
        }
    }
}

/// A module variable of an opaque type, and what is bound to it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BindingDecl {
    pub symbol: String,
    pub texture: Option<String>,
    pub sampler: Option<String>,
    pub surface: Option<String>,
}

/// Fields as an argument of the command line: their JSON text, or a file that holds it.
#[derive(Clone, Debug, PartialEq)]
pub enum Source<T> {
    Fields(Box<T>),
    File(PathBuf),
}

impl<T: DeserializeOwned + Clone> Source<T> {
    pub fn parse(text: &str) -> Result<Source<T>> {
        match text.strip_prefix('@') {
            Some(path) => Ok(Source::File(path.into())),
            None => {
                let fields = serde_json::from_str(text)
                    .map_err(|err| anyhow!("not the fields of such an object: {err}"))?;
                Ok(Source::Fields(Box::new(fields)))
            }
        }
    }

    pub fn read(&self) -> Result<T> {
        match self {
            Source::Fields(decl) => Ok(T::clone(decl)),
            Source::File(path) => {
                let text = std::fs::read_to_string(path)
                    .with_context(|| format!("cannot read {}", shown(path)))?;
                serde_json::from_str(&text)
                    .with_context(|| format!("{} does not describe such an object", shown(path)))
            }
        }
    }
}

/// An object for kernels, by its place in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanObject {
    Texture(usize),
    Sampler(usize),
}

/// A texture or surface to make.
#[derive(Debug)]
pub struct PlanTexture {
    /// What to call it.
    pub name: String,
    pub kind: ObjectKind,
    /// How it is read.
    pub decl: TextureDecl,
    /// What the image is: its own fields, or those of the entry that it shares.
    pub image: TextureDecl,
    /// The buffer in which it lies, from a byte on.
    pub buffer: usize,
}

/// A sampler to make.
#[derive(Debug)]
pub struct PlanSampler {
    pub name: String,
    pub decl: SamplerDecl,
}

/// A variable, and what is bound to it.
#[derive(Debug)]
pub struct PlanBinding {
    pub symbol: String,
    pub object: PlanObject,
}

/// What the plan's objects have become.
#[derive(Debug, Default)]
pub struct Objects {
    textures: Vec<Binding>,
    samplers: Vec<Sampler>,
}

impl Objects {
    pub fn new(
        device: &Device,
        textures: &[PlanTexture],
        samplers: &[PlanSampler],
        buffers: &[Buffer<u8>],
    ) -> Result<Objects> {
        let texture = |texture: &PlanTexture| {
            let made = texture.make(device, &buffers[texture.buffer]);
            made.with_context(|| format!("texture or surface `{}`", escape(&texture.name)))
        };
        let sampler = |sampler: &PlanSampler| {
            let made = sampler.decl.make(device);
            made.with_context(|| format!("sampler `{}`", escape(&sampler.name)))
        };
        Ok(Objects {
            textures: textures.iter().map(texture).collect::<Result<_>>()?,
            samplers: samplers.iter().map(sampler).collect::<Result<_>>()?,
        })
    }

    pub fn get(&self, object: PlanObject) -> Binding {
        match object {
            PlanObject::Texture(idx) => self.textures[idx].clone(),
            PlanObject::Sampler(idx) => Binding::Sampler(self.samplers[idx].clone()),
        }
    }
}

impl PlanTexture {
    fn make(&self, device: &Device, buffer: &Buffer<u8>) -> Result<Binding> {
        self.decl.bind(self.kind, &self.image, (device, buffer))
    }
}

impl TextureDecl {
    /// The texture, or the surface, of an image in a buffer.
    pub fn bind(
        &self,
        kind: ObjectKind,
        image: &TextureDecl,
        (device, buffer): (&Device, &Buffer<u8>),
    ) -> Result<Binding> {
        let offset = number("byte_offset", image.byte_offset.unwrap_or(0))?;
        let image = image.image()?.in_buffer(device, buffer, offset)?;
        Ok(match kind {
            ObjectKind::Surface => Binding::Surface(Surface::new(&image)?),
            ObjectKind::Texture => Binding::Texture(self.texture(&image)?),
        })
    }

    /// Type of the elements of its data.
    pub fn dtype(&self) -> Result<DType> {
        let name = needed("dtype", &self.dtype)?;
        self.channel_type()?;
        DType::from_name(name).ok_or_else(|| anyhow!("`dtype` has no value `{}`", escape(name)))
    }

    fn channel_type(&self) -> Result<ChannelType> {
        Ok(match needed("dtype", &self.dtype)?.as_str() {
            "u8" => ChannelType::U8,
            "i8" => ChannelType::I8,
            "u16" => ChannelType::U16,
            "i16" => ChannelType::I16,
            "u32" => ChannelType::U32,
            "i32" => ChannelType::I32,
            "f16" => ChannelType::F16,
            "f32" => ChannelType::F32,
            other => bail!("`dtype` has no value `{}`", escape(other)),
        })
    }

    fn shape(&self) -> Result<Shape> {
        let dims = needed("dims", &self.dims)?;
        Ok(match (self.geometry.as_deref(), dims.len()) {
            (Some("1d"), _) | (None, 1) => Shape::D1,
            (Some("2d"), _) | (None, 2) => Shape::D2,
            (Some("3d"), _) | (None, 3) => Shape::D3,
            (Some("1d_layered"), _) => Shape::Layers1,
            (Some("2d_layered"), _) => Shape::Layers2,
            (Some("cube"), _) => Shape::Cube,
            (Some("cube_layered"), _) => Shape::Cubes,
            (Some(other), _) => bail!("`geometry` has no value `{}`", escape(other)),
            (None, n) => bail!("`dims` has {n} sizes: one to three"),
        })
    }

    fn image(&self) -> Result<ImageBuilder> {
        let dims: Vec<u32> = numbers("dims", needed("dims", &self.dims)?)?;
        let channels = number("channels", *needed("channels", &self.channels)?)?;
        let mut image = Image::new(self.channel_type()?, channels, &dims).shape(self.shape()?);
        if let Some(layers) = self.layers {
            image = image.layers(number("layers", layers)?);
        }
        if let Some(levels) = self.levels {
            image = image.levels(number("levels", levels)?);
        }
        let is_line = dims.len() == 1;
        Ok(match self.resource {
            None | Some(ResourceKind::Array) => {
                ensure!(
                    self.pitch_bytes.is_none(),
                    "`pitch_bytes` is for `resource` pitch2d"
                );
                image
            }
            Some(ResourceKind::Linear) => {
                ensure!(is_line, "`resource` linear has one dimension");
                image.linear()
            }
            Some(ResourceKind::Pitch2d) => {
                ensure!(dims.len() == 2, "`resource` pitch2d has two dimensions");
                let row = i64::from(dims[0]) * i64::from(channels) * self.dtype()?.size() as i64;
                image.pitch(number("pitch_bytes", self.pitch_bytes.unwrap_or(row))?)
            }
        })
    }

    fn texture(&self, image: &Image) -> Result<Texture> {
        ensure!(
            self.max_anisotropy
                .is_none_or(|max| (0.0..=16.0).contains(&max)),
            "`max_anisotropy` is out of range"
        );
        let texture = Texture::new(image)
            .normalized_read(self.read == Some(Read::NormalizedFloat))
            .srgb(self.srgb == Some(true))
            .normalized(self.normalized == Some(true));
        Ok(texture.sampled(&self.sampling())?.build()?)
    }

    fn sampling(&self) -> SamplerDecl {
        SamplerDecl {
            address: self.address.clone(),
            border: self.border.clone(),
            filter: self.filter,
            mip_filter: self.mip_filter,
            mip_bias: self.mip_bias,
            mip_clamp: self.mip_clamp,
            normalized: None,
            max_anisotropy: None,
        }
    }

    /// Elements of each level, as its data hold them.
    fn level_counts(&self) -> Result<Vec<usize>> {
        let dims: Vec<u32> = numbers("dims", needed("dims", &self.dims)?)?;
        let channels: u32 = number("channels", *needed("channels", &self.channels)?)?;
        let n_levels: u32 = number("levels", self.levels.unwrap_or(1))?;
        let faces = if self.shape()? == Shape::Cube { 6 } else { 1 };
        let layers: u32 = number("layers", self.layers.unwrap_or(faces))?;
        ensure!((1..=32).contains(&n_levels), "`levels` is {n_levels}");
        let count = |level: u32| {
            let sides = dims.iter().map(|&size| match size {
                0 => 0,
                size => (size >> level).max(1),
            });
            let all = sides.chain([channels, layers]);
            all.into_iter()
                .try_fold(1_usize, |all, n| all.checked_mul(n as usize))
                .filter(|&count| count < 1 << 40)
                .ok_or_else(|| anyhow!("the image is too large"))
        };
        (0..n_levels).map(count).collect()
    }

    /// The number of elements of all its levels, and their contents from files, if it has some.
    pub fn contents(
        &mut self,
        find: impl Fn(&str) -> Result<PathBuf>,
    ) -> Result<(usize, Option<Contents>)> {
        let counts = self.level_counts()?;
        let total = counts.iter().sum();
        let Some(files) = &self.npy else {
            return Ok((total, None));
        };
        let (names, dtype) = (files.names(), self.dtype()?);
        ensure!(
            names.len() == counts.len(),
            "`npy` has {} files, and there are {} levels",
            names.len(),
            counts.len()
        );
        if let ([name], [count]) = (names, &counts[..]) {
            let (contents, got) = Contents::from_npy(&find(name)?, dtype)?;
            let padded = self.pitch_bytes.unwrap_or(0) as usize / dtype.size();
            let rows = self
                .dims
                .as_ref()
                .and_then(|dims| dims.get(1).copied())
                .unwrap_or(0);
            if got == *count {
                // Rows of a file without gaps have none in memory.
                self.pitch_bytes = None;
            } else {
                ensure!(
                    padded != 0 && got == padded.saturating_mul(rows as usize),
                    "`npy`: {} has {got} elements, not {count}",
                    escape(name)
                );
            }
            return Ok((got, Some(contents)));
        }
        let mut bytes = Vec::new();
        for (name, &count) in names.iter().zip(&counts) {
            let array = Array::read(&find(name)?)?.into_dtype(dtype)?;
            ensure!(
                array.count() == count,
                "`npy`: {} has {} elements, not {count}",
                escape(name),
                array.count()
            );
            bytes.extend(array.bytes);
        }
        Ok((total, Some(Contents::Bytes(bytes))))
    }

    /// Fields of the image have no place where another's storage is seen.
    pub fn check_shared(&self) -> Result<()> {
        let own = [
            ("geometry", self.geometry.is_some()),
            ("dims", self.dims.is_some()),
            ("layers", self.layers.is_some()),
            ("levels", self.levels.is_some()),
            ("channels", self.channels.is_some()),
            ("dtype", self.dtype.is_some()),
            ("npy", self.npy.is_some()),
            ("resource", self.resource.is_some()),
            ("pitch_bytes", self.pitch_bytes.is_some()),
            ("buffer", self.buffer.is_some()),
            ("byte_offset", self.byte_offset.is_some()),
        ];
        match own.iter().find(|(_, is_there)| *is_there) {
            Some((field, _)) => bail!("`{field}` belongs to the entry whose storage is shared"),
            None => Ok(()),
        }
    }

    /// Fields that only textures have.
    pub fn check_kind(&self, kind: ObjectKind) -> Result<()> {
        let of_textures = [
            ("address", self.address.is_some()),
            ("border", self.border.is_some()),
            ("filter", self.filter.is_some()),
            ("mip_filter", self.mip_filter.is_some()),
            ("mip_bias", self.mip_bias.is_some()),
            ("mip_clamp", self.mip_clamp.is_some()),
            ("read", self.read.is_some()),
            ("srgb", self.srgb.is_some()),
            ("normalized", self.normalized.is_some()),
        ];
        match of_textures.iter().find(|(_, is_there)| *is_there) {
            Some((field, _)) if kind == ObjectKind::Surface => bail!("a surface has no `{field}`"),
            _ => Ok(()),
        }
    }
}

impl SamplerDecl {
    pub fn make(&self, device: &Device) -> Result<Sampler> {
        let sampler = Sampler::new(device).normalized(self.normalized != Some(false));
        Ok(sampler.sampled(self)?.build()?)
    }
}

/// Builders that take the fields of a sampler.
trait Sampled: Sized {
    fn sampled(self, decl: &SamplerDecl) -> Result<Self>;
}

macro_rules! sampled {
    ($($name:ident)*) => { $(
        impl Sampled for $name {
            fn sampled(mut self, decl: &SamplerDecl) -> Result<$name> {
                if let Some(modes) = &decl.address {
                    let modes: Vec<&str> = modes.iter().map(String::as_str).collect();
                    self = self.address(&modes);
                }
                if let Some(border) = &decl.border {
                    ensure!(border.len() <= 4, "`border` has more than four channels");
                    let color = |n: usize| border.get(n).map_or(0.0, |&value| value as f32);
                    self = self.border(std::array::from_fn(color));
                }
                if let Some([least, most]) = decl.mip_clamp {
                    self = self.mip_clamp(least as f32, most as f32);
                }
                Ok(self
                    .linear(decl.filter == Some(Filter::Linear))
                    .mip_linear(decl.mip_filter == Some(Filter::Linear))
                    .mip_bias(decl.mip_bias.unwrap_or(0.0) as f32))
            }
        }
    )* };
}

sampled!(TextureBuilder SamplerBuilder);

fn needed<'a, T>(field: &str, value: &'a Option<T>) -> Result<&'a T> {
    value
        .as_ref()
        .ok_or_else(|| anyhow!("`{field}` is missing"))
}

/// The files of an object on the command line, relative to the working directory.
pub fn beside(name: &str) -> Result<PathBuf> {
    let path = Path::new(name);
    ensure!(path.exists(), "there is no file {}", shown(path));
    Ok(path.to_owned())
}
