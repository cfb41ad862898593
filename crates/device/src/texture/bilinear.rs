//! The read that programs make most: of a plane, with linear filtering, whose coordinates are
//! clamped. It gives what [`Site::linear`](super::sample::Site) gives, by the same sums in the same
//! order, without the steps for a third axis, for borders and for layers.

use ptxjit_ir::{Color, Fetch, Geometry, Lod};

use super::LANES;
use super::object::{AddressMode, ChannelType, Image, Resource, Sampler, Shape, Texture};
use super::sample::{Numbers, hold, to_index};
use super::texel::{Colors, Texels, Words, absent, absent_words, half_to_float};

/// Neighbors along an axis.
struct Sides {
    index: [Words; 2],
    weight: [Numbers; 2],
}

/// A plane that is read so.
pub struct Plane<'a> {
    texture: &'a Texture,
    sampler: &'a Sampler,
}

/// Whether a read is such a read, of channels that are read so.
pub(super) fn is_plane(fetch: &Fetch, texture: &Texture, sampler: &Sampler) -> bool {
    let image = &texture.image;
    let clamps = |mode| match mode {
        AddressMode::Clamp => true,
        AddressMode::Wrap | AddressMode::Mirror => !sampler.normalized,
        AddressMode::Border => false,
    };
    let is_plane = fetch.geometry == Geometry::D2 && image.shape == Shape::D2;
    let is_plain = fetch.gather.is_none() && !fetch.depth && fetch.n_offsets() == 0;
    let is_read_so = match image.dtype {
        ChannelType::F32 | ChannelType::F16 => true,
        ChannelType::U8 => texture.normalized_read && !texture.srgb,
        ChannelType::I8
        | ChannelType::U16
        | ChannelType::I16
        | ChannelType::U32
        | ChannelType::I32 => false,
    };
    is_plane
        && is_plain
        && is_read_so
        && sampler.linear
        && !fetch.integer
        && fetch.color == Color::Words
        && (fetch.lod == Lod::Base || image.levels.len() == 1)
        && image.resource != Resource::Linear
        && sampler.address[..2].iter().copied().all(clamps)
}

impl<'a> Plane<'a> {
    /// Of a read for which [`is_plane`] holds.
    #[inline]
    pub(super) fn of(texture: &'a Texture, sampler: &'a Sampler) -> Plane<'a> {
        Plane { texture, sampler }
    }

    /// The image, whose first level is read.
    #[inline]
    pub fn image(&self) -> &Image {
        &self.texture.image
    }

    /// Whether coordinates are fractions of the size.
    #[inline]
    pub fn is_normalized(&self) -> bool {
        self.sampler.normalized
    }

    /// What stands for each channel that the image does not have.
    #[inline]
    pub fn absent(&self) -> [u32; 4] {
        absent_words(self.texture)
    }

    /// Reads for all lanes at these coordinates.
    #[inline(always)]
    pub fn read(&self, [x, y]: [&Words; 2], texels: &mut impl Texels) -> Colors {
        match self.texture.image.dtype {
            ChannelType::F32 => self.mixed([x, y], 4, |at| texels.words(at)),
            ChannelType::F16 => self.mixed([x, y], 2, |at| texels.halves(at).map(half_to_float)),
            ChannelType::U8
            | ChannelType::I8
            | ChannelType::U16
            | ChannelType::I16
            | ChannelType::U32
            | ChannelType::I32 => {
                let fraction = |byte: u8| (f32::from(byte) / 255.0).to_bits();
                self.mixed([x, y], 1, |at| texels.bytes(at).map(fraction))
            }
        }
    }

    /// Mixes four elements of channels of `bytes` bytes.
    #[inline(always)]
    fn mixed(
        &self,
        [x, y]: [&Words; 2],
        bytes: u64,
        mut read: impl FnMut(&[u64; LANES]) -> Words,
    ) -> Colors {
        let image = &self.texture.image;
        let level = image.base();
        let [width, height, _] = level.size;
        let x = self.sides(x, width);
        let y = self.sides(y, height);
        let pitch = u64::from(level.pitch as u32);
        let size = u64::from(image.element_bytes());
        let rows = y.index.map(|side| side.map(|row| u64::from(row) * pitch));
        let columns = x.index.map(|side| side.map(|at| u64::from(at) * size));
        let mut colors = absent(self.texture);
        for (channel, values) in (0..u64::from(image.channels)).zip(&mut colors) {
            let mut sum = [0.0; LANES];
            for (row, by_row) in rows.iter().zip(&y.weight) {
                for (column, by_column) in columns.iter().zip(&x.weight) {
                    let mut at = [0; LANES];
                    for lane in 0..LANES {
                        at[lane] = row[lane] + column[lane] + channel * bytes;
                    }
                    let words = read(&at);
                    for lane in 0..LANES {
                        let weight = by_column[lane] * by_row[lane];
                        let part = weight * f64::from(f32::from_bits(words[lane]));
                        // What does not count may be infinite.
                        sum[lane] += if weight == 0.0 { 0.0 } else { part };
                    }
                }
            }
            *values = sum.map(|sum| (sum as f32).to_bits());
        }
        colors
    }

    #[inline(always)]
    fn sides(&self, coordinates: &Words, n: u32) -> Sides {
        let scale = match self.sampler.normalized {
            true => f64::from(n),
            false => 1.0,
        };
        let last = n as i32 - 1;
        let mut sides = Sides {
            index: [[0; LANES]; 2],
            weight: [[0.0; LANES]; 2],
        };
        for (lane, &word) in coordinates.iter().enumerate() {
            let place = hold(f64::from(f32::from_bits(word)) * scale);
            let first = (place - 0.5).floor();
            let fraction = place - 0.5 - first;
            let weight = (fraction * 256.0 + 0.5).floor() * (1.0 / 256.0);
            let index = to_index(first);
            sides.index[0][lane] = index.max(0).min(last) as u32;
            sides.index[1][lane] = (index + 1).max(0).min(last) as u32;
            sides.weight[0][lane] = 1.0 - weight;
            sides.weight[1][lane] = weight;
        }
        sides
    }
}
