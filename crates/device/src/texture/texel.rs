//! Elements of images as texture reads see them: channels as floats or integers of 32 bits.

use std::sync::OnceLock;

use super::LANES;
use super::object::{ChannelType, Texture};

/// One word for each lane.
pub(crate) type Words = [u32; LANES];

/// The four channels of an element, for each lane.
pub(crate) type Colors = [Words; 4];

/// Memory of one level of an image, by offsets from its first element. All offsets asked for lie
/// inside.
pub trait Texels {
    /// A byte.
    fn byte(&mut self, offset: u64) -> u8;
    /// Two bytes; the offset is a multiple of two.
    fn half(&mut self, offset: u64) -> u16;
    /// Four bytes; the offset is a multiple of four.
    fn word(&mut self, offset: u64) -> u32;

    /// Bytes of all lanes.
    #[inline(always)]
    fn bytes(&mut self, offsets: &[u64; LANES]) -> [u8; LANES] {
        offsets.map(|offset| self.byte(offset))
    }

    /// As `bytes`, for two bytes of each lane.
    #[inline(always)]
    fn halves(&mut self, offsets: &[u64; LANES]) -> [u16; LANES] {
        offsets.map(|offset| self.half(offset))
    }

    /// As `bytes`, for four bytes of each lane.
    #[inline(always)]
    fn words(&mut self, offsets: &[u64; LANES]) -> [u32; LANES] {
        offsets.map(|offset| self.word(offset))
    }
}

/// What stands for channels that an image does not have: 0, 0 and 1.
pub(super) fn absent(texture: &Texture) -> Colors {
    absent_words(texture).map(|word| [word; LANES])
}

/// As [`absent`], for one lane.
#[inline]
pub(super) fn absent_words(texture: &Texture) -> [u32; 4] {
    let one = if texture.is_float() {
        1f32.to_bits()
    } else {
        1
    };
    [0, 0, 0, one]
}

/// Reads an element for each lane, from offsets that lie inside. Channels that the image does not
/// have are left as they are.
#[inline(always)]
pub(super) fn load(
    texture: &Texture,
    texels: &mut impl Texels,
    at: &[u64; LANES],
    colors: &mut Colors,
) {
    let channels = texture.image.channels as usize;
    match texture.image.dtype {
        ChannelType::F32 | ChannelType::U32 | ChannelType::I32 => {
            each(channels, at, 4, colors, |offset, _| texels.word(offset));
        }
        ChannelType::F16 => each(channels, at, 2, colors, |offset, _| {
            half_to_float(texels.half(offset))
        }),
        ChannelType::U8 if texture.srgb => each(channels, at, 1, colors, |offset, channel| {
            let value = texels.byte(offset);
            match channel {
                3 => (f32::from(value) / 255.0).to_bits(),
                _ => srgb(value),
            }
        }),
        ChannelType::U8 if texture.normalized_read => each(channels, at, 1, colors, |offset, _| {
            (f32::from(texels.byte(offset)) / 255.0).to_bits()
        }),
        ChannelType::I8 if texture.normalized_read => each(channels, at, 1, colors, |offset, _| {
            (f32::from(texels.byte(offset) as i8) / 127.0)
                .max(-1.0)
                .to_bits()
        }),
        ChannelType::U16 if texture.normalized_read => {
            each(channels, at, 2, colors, |offset, _| {
                (f32::from(texels.half(offset)) / 65535.0).to_bits()
            });
        }
        ChannelType::I16 if texture.normalized_read => {
            each(channels, at, 2, colors, |offset, _| {
                (f32::from(texels.half(offset) as i16) / 32767.0)
                    .max(-1.0)
                    .to_bits()
            });
        }
        ChannelType::U8 => each(channels, at, 1, colors, |offset, _| {
            texels.byte(offset).into()
        }),
        ChannelType::I8 => each(channels, at, 1, colors, |offset, _| {
            texels.byte(offset) as i8 as u32
        }),
        ChannelType::U16 => each(channels, at, 2, colors, |offset, _| {
            texels.half(offset).into()
        }),
        ChannelType::I16 => each(channels, at, 2, colors, |offset, _| {
            texels.half(offset) as i16 as u32
        }),
    }
}

#[inline(always)]
fn each(
    channels: usize,
    at: &[u64; LANES],
    bytes: u64,
    colors: &mut Colors,
    mut read: impl FnMut(u64, usize) -> u32,
) {
    for (channel, values) in colors.iter_mut().take(channels).enumerate() {
        for (value, &offset) in values.iter_mut().zip(at) {
            *value = read(offset + bytes * channel as u64, channel);
        }
    }
}

/// A half as the bits of a float.
pub(crate) fn half_to_float(half: u16) -> u32 {
    let sign = u32::from(half >> 15) << 31;
    let exponent = u32::from(half >> 10 & 0x1f);
    let mantissa = u32::from(half & 0x3ff);
    match (exponent, mantissa) {
        (0, 0) => sign,
        // Exact: a multiple of 2^-24.
        (0, _) => sign | (mantissa as f32 / 16_777_216.0).to_bits(),
        (0x1f, _) => sign | 0x7f80_0000 | mantissa << 13,
        _ => sign | (exponent + 112) << 23 | mantissa << 13,
    }
}

/// The half nearest to a float, ties to even.
pub(crate) fn float_to_half(bits: u32) -> u16 {
    let sign = (bits >> 16 & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 {
        return 0x7fff;
    }
    // 65520 and more round to infinity.
    if magnitude >= 0x477f_f000 {
        return sign | 0x7c00;
    }
    if magnitude < 0x3880_0000 {
        // Subnormal: the sum with a power of two leaves multiples of 2^-24, rounded as the
        // processor rounds.
        let shifted = f32::from_bits(magnitude) + 0.5;
        return sign | (shifted.to_bits() - 0.5f32.to_bits()) as u16;
    }
    let odd = magnitude >> 13 & 1;
    let rounded = magnitude + 0xfff + odd - (112 << 23);
    sign | (rounded >> 13) as u16
}

/// An sRGB value as the bits of a linear float.
fn srgb(value: u8) -> u32 {
    static TABLE: OnceLock<[u32; 256]> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        std::array::from_fn(|n| {
            let value = n as f64 / 255.0;
            let linear = if value <= 0.04045 {
                value / 12.92
            } else {
                ((value + 0.055) / 1.055).powf(2.4)
            };
            (linear as f32).to_bits()
        })
    });
    table[usize::from(value)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_become_floats_and_halves_again() {
        for half in 0..=u16::MAX {
            let float = f32::from_bits(half_to_float(half));
            if float.is_nan() {
                assert_eq!(float_to_half(float.to_bits()), 0x7fff);
                continue;
            }
            assert_eq!(float_to_half(float.to_bits()), half, "{half:#x}");
        }
        for (float, half) in [
            (65504.0, 0x7bff),
            (65519.9, 0x7bff),
            (65520.0, 0x7c00),
            (1.0 + 1.0 / 2048.0, 0x3c00),
            (1.0 + 3.0 / 2048.0, 0x3c02),
            (2f32.powi(-25), 0),
            (2f32.powi(-24) * 1.5, 2),
        ] {
            assert_eq!(float_to_half(f32::to_bits(float)), half, "{float}");
        }
    }
}
