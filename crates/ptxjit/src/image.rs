//! Images in device memory.

use std::fmt;
use std::sync::Arc;

use ptxjit_device::texture::{Image as Fields, Level, Resource, Surface as SurfaceFields};

pub use ptxjit_device::texture::{ChannelType, Shape};

use crate::texture::{Keep, wrong};
use crate::{Buffer, Device, Element, Error};

/// An image in device memory: lines, planes, volumes or cubes of elements of one to four channels.
/// Cheap to clone; all clones are the same memory.
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
    pub(crate) device: Device,
    pub(crate) fields: Fields,
    pub(crate) keep: Keep,
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
    /// An image of elements of `channels` (1, 2 or 4) channels, with width, height and depth as far
    /// as it has them. Data lie in the order level, layer, plane, row, element, channel, without
    /// gaps.
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
        self.finish(
            device,
            fields,
            buffer.address() + byte_offset,
            buffer.keep(),
        )
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
        if fields
            .levels
            .iter()
            .any(|level| !level.addr.is_multiple_of(unit))
        {
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
                return Err(wrong(format!(
                    "`pitch_bytes` is {pitch}, and a row has {row} bytes"
                )));
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
