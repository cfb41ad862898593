//! Formats of elements: the runtime's channels and the driver's formats.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use crate::call::{Code, Result, exports};
use crate::host;

host::plain! {
    /// `cudaChannelFormatDesc`: bits of each channel, and a `cudaChannelFormatKind`.
    ChannelDesc { bits: [i32; 4], kind: u32 }
}

/// The driver's format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Format {
    /// `CUarray_format`.
    pub(crate) format: u32,
    pub(crate) n_channels: u32,
}

const SIGNED: u32 = 0;
const UNSIGNED: u32 = 1;
const FLOAT: u32 = 2;

/// Kinds and bits of a channel with their `CUarray_format`.
const PLAIN: [(u32, i32, u32); 8] = [
    (UNSIGNED, 8, 0x01),
    (UNSIGNED, 16, 0x02),
    (UNSIGNED, 32, 0x03),
    (SIGNED, 8, 0x08),
    (SIGNED, 16, 0x09),
    (SIGNED, 32, 0x0a),
    (FLOAT, 16, 0x10),
    (FLOAT, 32, 0x20),
];

/// Kinds that stand for one format each: the first kind and format of a row of them, and how many
/// there are.
const ROWS: [(u32, u32, u32); 4] = [
    // NV12
    (4, 0xb0, 1),
    // Normalized integers.
    (5, 0xc0, 12),
    // Compressed blocks.
    (17, 0x91, 14),
    // 10, 10, 10 and 2 bits.
    (31, 0x50, 1),
];

impl Format {
    /// The format of a runtime's description.
    pub(crate) fn of(desc: &ChannelDesc) -> Result<Format> {
        let n_channels = desc.bits.iter().take_while(|&&bits| bits != 0).count();
        let bits = desc.bits[0];
        let is_regular = desc.bits[..n_channels].iter().all(|&each| each == bits)
            && desc.bits[n_channels..].iter().all(|&each| each == 0);
        if let Some((kind, format, _)) = row_of_kind(desc.kind) {
            return Ok(Format {
                format: format + desc.kind - kind,
                n_channels: (n_channels as u32).max(1),
            });
        }
        let plain = PLAIN.iter().find(|row| (row.0, row.1) == (desc.kind, bits));
        match plain {
            Some(&(_, _, format)) if is_regular && matches!(n_channels, 1 | 2 | 4) => Ok(Format {
                format,
                n_channels: n_channels as u32,
            }),
            _ => Err(Code::INVALID_CHANNEL_DESCRIPTOR),
        }
    }

    /// The runtime's description.
    pub(crate) fn desc(self) -> Result<ChannelDesc> {
        let all = |bits: i32| {
            let channel = |idx| if idx < self.n_channels { bits } else { 0 };
            [0, 1, 2, 3].map(channel)
        };
        if let Some(&(kind, bits, _)) = PLAIN.iter().find(|row| row.2 == self.format) {
            return Ok(ChannelDesc {
                bits: all(bits),
                kind,
            });
        }
        let within = |row: &&(u32, u32, u32)| (row.1..row.1 + row.2).contains(&self.format);
        let row = ROWS.iter().find(within).ok_or(Code::UNKNOWN)?;
        let bits = match self.format {
            0xc3..=0xc5 | 0xc9..=0xcb => 16,
            _ => 8,
        };
        Ok(ChannelDesc {
            bits: all(bits),
            kind: row.0 + self.format - row.1,
        })
    }

    /// Bytes of an element, or of a block of a compressed format.
    pub(crate) fn element(self) -> usize {
        let channel = match self.format {
            0x01 | 0x08 | 0xb0 | 0xc0..=0xc2 | 0xc6..=0xc8 => 1,
            0x02 | 0x09 | 0x10 | 0xc3..=0xc5 | 0xc9..=0xcb => 2,
            0x91 | 0x92 | 0x97 | 0x98 => return 8,
            0x93..=0x96 | 0x99..=0x9e => return 16,
            0x50 => return 4,
            _ => 4,
        };
        channel * self.n_channels as usize
    }

    /// Whether a texture can give its elements as integers.
    pub(crate) fn is_integer(self) -> bool {
        matches!(self.format, 0x01..=0x03 | 0x08..=0x0a)
    }

    /// Whether its elements are integers that are too wide to be read as fractions.
    pub(crate) fn is_wide_integer(self) -> bool {
        matches!(self.format, 0x03 | 0x0a)
    }
}

fn row_of_kind(kind: u32) -> Option<(u32, u32, u32)> {
    let mut rows = ROWS.iter().copied();
    rows.find(|row| (row.0..row.0 + row.2).contains(&kind))
}

/// A description of channels, by value.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cudaCreateChannelDesc(
    x: i32,
    y: i32,
    z: i32,
    w: i32,
    kind: u32,
) -> ChannelDesc {
    ChannelDesc {
        bits: [x, y, z, w],
        kind,
    }
}

exports! {
    /// The format of an array.
    fn cudaGetChannelDesc(out: u64, array: u64) {
        host::put(out, crate::array::format(array)?.desc()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desc(bits: [i32; 4], kind: u32) -> ChannelDesc {
        ChannelDesc { bits, kind }
    }

    #[test]
    fn descriptions_are_formats_and_back() {
        // Of `cuda.h` and `driver_types.h`: float4, uchar2, half, BC7 with sRGB, signed normalized
        // 16 bits.
        let known = [
            (desc([32, 32, 32, 32], FLOAT), 0x20, 4, 16),
            (desc([8, 8, 0, 0], UNSIGNED), 0x01, 2, 2),
            (desc([16, 0, 0, 0], FLOAT), 0x10, 1, 2),
            (desc([8, 8, 8, 8], 30), 0x9e, 4, 16),
            (desc([16, 16, 0, 0], 15), 0xca, 2, 4),
        ];
        for (desc, number, n_channels, element) in known {
            let format = Format::of(&desc).unwrap();
            assert_eq!((format.format, format.n_channels), (number, n_channels));
            assert_eq!(format.element(), element);
            let again = format.desc().unwrap();
            assert_eq!((again.bits, again.kind), (desc.bits, desc.kind));
        }
    }

    #[test]
    fn descriptions_that_mean_nothing_are_errors() {
        for desc in [
            desc([32, 32, 32, 0], FLOAT),
            desc([8, 16, 0, 0], UNSIGNED),
            desc([0, 0, 0, 0], SIGNED),
            desc([64, 0, 0, 0], FLOAT),
            desc([32, 0, 0, 32], FLOAT),
            desc([8, 0, 0, 0], 99),
        ] {
            assert_eq!(Format::of(&desc), Err(Code::INVALID_CHANNEL_DESCRIPTOR));
        }
    }
}
