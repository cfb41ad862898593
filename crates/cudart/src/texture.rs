//! Texture and surface objects.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use crate::call::{Code, Result, exports, passes};
use crate::channel::{ChannelDesc, Format};
use crate::driver::cu;
use crate::host;

/// Bytes of `cudaResourceDesc`, of which all versions use 64 at most, but for flags.
#[cfg(not(cudart13))]
const RESOURCE: usize = 64;
#[cfg(cudart13)]
const RESOURCE: usize = 144;

/// Bytes of `cudaResourceViewDesc`, whose fields are the driver's.
#[cfg(not(cudart13))]
const VIEW: usize = 48;
#[cfg(cudart13)]
const VIEW: usize = 112;

host::plain! {
    /// The fields of `cudaResourceDesc`: of a linear resource, `width` is its size in bytes.
    Resource {
        kind: u32, padding: u32, address: u64, channels: ChannelDesc, padding_2: u32,
        width: usize, height: usize, pitch: usize,
    }

    /// The fields of `CUDA_RESOURCE_DESC`, likewise.
    DriverResource {
        kind: u32, padding: u32, address: u64, format: u32, n_channels: u32,
        width: usize, height: usize, pitch: usize, reserved: [u64; 12],
    }

    /// `cudaTextureDesc`.
    Texture {
        address_mode: [u32; 3], filter_mode: u32, read_mode: u32, srgb: u32, border: [f32; 4], normalized: u32,
        max_anisotropy: u32, mipmap_filter: u32, level_bias: f32, min_level: f32, max_level: f32,
        no_trilinear: u32, seamless: u32,
    }

    /// `CUDA_TEXTURE_DESC`.
    DriverTexture {
        address_mode: [u32; 3], filter_mode: u32, flags: u32, max_anisotropy: u32, mipmap_filter: u32,
        level_bias: f32, min_level: f32, max_level: f32, border: [f32; 4], reserved: [i32; 12],
    }
}

const LINEAR: u32 = 2;
const PITCH_2D: u32 = 3;

/// `CU_TRSF_…`
const READ_AS_INTEGER: u32 = 1;
const NORMALIZED: u32 = 2;
const SRGB: u32 = 0x10;
const NO_TRILINEAR: u32 = 0x20;
const SEAMLESS: u32 = 0x40;

impl Resource {
    fn read(from: u64) -> Result<Resource> {
        let bytes: [u8; RESOURCE] = host::get(from)?;
        Ok(host::prefix(&bytes))
    }

    /// The driver's form, and the format of the elements.
    fn to_driver(self) -> Result<(DriverResource, Format)> {
        let is_memory = matches!(self.kind, LINEAR | PITCH_2D);
        let format = match self.kind {
            0 => crate::array::format(self.address)?,
            1 => level_format(self.address)?,
            LINEAR | PITCH_2D => Format::of(&self.channels)?,
            _ => return Err(Code::INVALID_VALUE),
        };
        let resource = DriverResource {
            kind: self.kind,
            address: self.address,
            ..host::zeroed()
        };
        let resource = match is_memory {
            false => resource,
            true => DriverResource {
                format: format.format,
                n_channels: format.n_channels,
                width: self.width,
                height: if self.kind == PITCH_2D {
                    self.height
                } else {
                    0
                },
                pitch: if self.kind == PITCH_2D { self.pitch } else { 0 },
                ..resource
            },
        };
        Ok((resource, format))
    }

    fn of_driver(driver: &DriverResource) -> Result<Resource> {
        let resource = Resource {
            kind: driver.kind,
            address: driver.address,
            ..host::zeroed()
        };
        if !matches!(driver.kind, LINEAR | PITCH_2D) {
            return Ok(resource);
        }
        let format = Format {
            format: driver.format,
            n_channels: driver.n_channels,
        };
        Ok(Resource {
            channels: format.desc()?,
            width: driver.width,
            height: driver.height,
            pitch: driver.pitch,
            ..resource
        })
    }
}

/// The format of an array with mipmaps: that of its first level.
fn level_format(array: u64) -> Result<Format> {
    let mut level = 0_u64;
    cu!(cuMipmappedArrayGetLevel(&mut level, array, 0_u32))?;
    crate::array::format(level)
}

impl Texture {
    fn to_driver(self, format: Format) -> Result<DriverTexture> {
        const INVALID_FILTER: Code = Code(26);
        const INVALID_NORM: Code = Code(27);
        let (is_normalized, is_linear) = (self.read_mode != 0, self.filter_mode != 0);
        if is_normalized && format.is_wide_integer() {
            return Err(INVALID_NORM);
        }
        if is_linear && !is_normalized && format.is_integer() {
            return Err(INVALID_FILTER);
        }
        // Integers are read as such unless the program wants them normalized.
        let as_integer = self.read_mode == 0 && format.is_integer();
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        Ok(DriverTexture {
            address_mode: self.address_mode,
            filter_mode: self.filter_mode,
            flags: flag(as_integer, READ_AS_INTEGER)
                | flag(self.normalized != 0, NORMALIZED)
                | flag(self.srgb != 0, SRGB)
                | flag(self.no_trilinear != 0, NO_TRILINEAR)
                | flag(self.seamless != 0, SEAMLESS),
            max_anisotropy: self.max_anisotropy,
            mipmap_filter: self.mipmap_filter,
            level_bias: self.level_bias,
            min_level: self.min_level,
            max_level: self.max_level,
            border: self.border,
            reserved: [0; 12],
        })
    }

    fn of_driver(driver: &DriverTexture, format: Format) -> Texture {
        let has = |flag: u32| u32::from(driver.flags & flag != 0);
        Texture {
            address_mode: driver.address_mode,
            filter_mode: driver.filter_mode,
            read_mode: u32::from(format.is_integer() && has(READ_AS_INTEGER) == 0),
            srgb: has(SRGB),
            border: driver.border,
            normalized: has(NORMALIZED),
            max_anisotropy: driver.max_anisotropy,
            mipmap_filter: driver.mipmap_filter,
            level_bias: driver.level_bias,
            min_level: driver.min_level,
            max_level: driver.max_level,
            no_trilinear: has(NO_TRILINEAR),
            seamless: has(SEAMLESS),
        }
    }
}

/// The resource of a texture object.
fn resource_of(texture: u64) -> Result<DriverResource> {
    let mut whole: [u8; 144] = host::zeroed();
    cu!(cuTexObjectGetResourceDesc(&mut whole, texture))?;
    Ok(host::prefix(&whole))
}

fn put_resource(out: u64, driver: &DriverResource) -> Result {
    let bytes: [u8; RESOURCE] = host::extended(&Resource::of_driver(driver)?);
    host::put(out, bytes)
}

exports! {
    /// A texture object.
    fn cudaCreateTextureObject(out: u64, resource: u64, texture: u64, view: u64) {
        let (resource, format) = Resource::read(resource)?.to_driver()?;
        let texture = host::get::<Texture>(texture)?.to_driver(format)?;
        let whole: [u8; 144] = host::extended(&resource);
        if view == 0 {
            return cu!(cuTexObjectCreate(out, &whole, &texture, 0_u64));
        }
        let view: [u8; 112] = host::extended(&host::get::<[u8; VIEW]>(view)?);
        cu!(cuTexObjectCreate(out, &whole, &texture, &view))
    }

    /// What a texture object reads.
    fn cudaGetTextureObjectResourceDesc(out: u64, texture: u64) {
        put_resource(out, &resource_of(texture)?)
    }

    /// How a texture object reads.
    fn cudaGetTextureObjectTextureDesc(out: u64, texture: u64) {
        let mut driver: DriverTexture = host::zeroed();
        cu!(cuTexObjectGetTextureDesc(&mut driver, texture))?;
        let (_, format) = Resource::of_driver(&resource_of(texture)?)?.to_driver()?;
        host::put(out, Texture::of_driver(&driver, format))
    }

    /// As what a texture object sees its resource.
    fn cudaGetTextureObjectResourceViewDesc(out: u64, texture: u64) {
        let mut view = [0_u8; 112];
        cu!(cuTexObjectGetResourceViewDesc(&mut view, texture))?;
        let view: [u8; VIEW] = host::prefix(&view);
        host::put(out, view)
    }

    /// A surface object.
    fn cudaCreateSurfaceObject(out: u64, resource: u64) {
        let (resource, _) = Resource::read(resource)?.to_driver()?;
        let whole: [u8; 144] = host::extended(&resource);
        cu!(cuSurfObjectCreate(out, &whole))
    }

    /// What a surface object accesses.
    fn cudaGetSurfaceObjectResourceDesc(out: u64, surface: u64) {
        let mut whole: [u8; 144] = host::zeroed();
        cu!(cuSurfObjectGetResourceDesc(&mut whole, surface))?;
        put_resource(out, &host::prefix(&whole))
    }
}

passes! {
    cudaDestroyTextureObject(texture: u64) = cuTexObjectDestroy;
    cudaDestroySurfaceObject(surface: u64) = cuSurfObjectDestroy;
}
