//! Elements of A and B as numbers. All formats are exact in f32, bytes of integers too.

use std::sync::LazyLock;

use ptxjit_ir::{MatrixFmt, NumFmt, eval};
use ptxjit_tile::Outside;

use super::matrix::UNIT;

/// Elements of a unit in shared memory.
pub(super) const fn per_unit(fmt: MatrixFmt) -> usize {
    match fmt.bits() {
        32 => 4,
        16 => 8,
        4 => 32,
        // Those of 4 and 6 bits, too, take as much room as bytes.
        _ => 16,
    }
}

/// The elements of units of f16 or bf16 that begin at such bytes of shared memory.
pub(super) fn decode_halves(
    fmt: MatrixFmt,
    shared: &[u8],
    units: &[usize],
    out: &mut [f32],
) -> Result<(), Outside> {
    if fmt == MatrixFmt::Bf16 {
        ptxjit_tile::from_bf16(shared, units, out)
    } else {
        ptxjit_tile::from_halves(shared, units, out, |half| half_value(fmt, half))
    }
}

/// The elements of a unit of shared memory. Those of 4 or 6 bits are contiguous, with padding
/// behind them, unless the kind packs them.
#[inline(always)]
pub(super) fn decode_unit(fmt: MatrixFmt, unit: &[u8; UNIT], out: &mut [f32]) {
    match fmt {
        MatrixFmt::F16 | MatrixFmt::Bf16 => {
            for (out, &half) in out.iter_mut().zip(unit.as_chunks::<2>().0) {
                *out = half_value(fmt, u16::from_le_bytes(half));
            }
        }
        MatrixFmt::Tf32 => {
            for (out, &word) in out.iter_mut().zip(unit.as_chunks::<4>().0) {
                *out = value(fmt, u32::from_le_bytes(word));
            }
        }
        MatrixFmt::E2m1 | MatrixFmt::E2m3 | MatrixFmt::E3m2 | MatrixFmt::PackedE2m1 => {
            let bits = u128::from_le_bytes(*unit);
            let (width, shift) = match fmt {
                MatrixFmt::E2m1 => (4, 2),
                MatrixFmt::PackedE2m1 => (4, 0),
                _ => (6, 0),
            };
            let table = byte_table(fmt);
            for (n, out) in out.iter_mut().enumerate() {
                let element = (bits >> (n * width)) as usize & ((1 << width) - 1);
                *out = table[element << shift];
            }
        }
        _ => {
            let table = byte_table(fmt);
            for (out, &byte) in out.iter_mut().zip(unit) {
                *out = table[usize::from(byte)];
            }
        }
    }
}

/// Elements of A in the cells of a lane of tensor memory.
pub(super) fn decode_cells(fmt: MatrixFmt, cells: &[u32], out: &mut [f32]) {
    let bits = fmt.bits();
    // Elements of 6 bits lie in bits 1 to 6 of a byte.
    let shift = match fmt {
        MatrixFmt::E2m3 | MatrixFmt::E3m2 => 1,
        _ => 0,
    };
    let mask = u32::MAX >> (32 - bits);
    for (k, out) in out.iter_mut().enumerate() {
        let at = k * bits;
        *out = value(fmt, (cells[at / 32] >> (at % 32) & mask) >> shift);
    }
}

fn value(fmt: MatrixFmt, element: u32) -> f32 {
    match fmt {
        MatrixFmt::F16 | MatrixFmt::Bf16 => half_value(fmt, element as u16),
        MatrixFmt::Tf32 => f32::from_bits(element & 0xffff_e000),
        _ => byte_table(fmt)[element as usize & 0xff],
    }
}

fn half_value(fmt: MatrixFmt, bits: u16) -> f32 {
    match fmt {
        MatrixFmt::Bf16 => f32::from_bits(u32::from(bits) << 16),
        _ => HALVES[usize::from(bits)],
    }
}

/// The values of all f16.
static HALVES: LazyLock<Vec<f32>> = LazyLock::new(|| {
    let value = |bits| f32::from_bits(eval::matrix_element(MatrixFmt::F16, bits) as u32);
    (0..1 << 16).map(value).collect()
});

const BYTE_FORMATS: [MatrixFmt; 8] = [
    MatrixFmt::E4m3,
    MatrixFmt::E5m2,
    MatrixFmt::E3m2,
    MatrixFmt::E2m3,
    MatrixFmt::E2m1,
    MatrixFmt::PackedE2m1,
    MatrixFmt::S8,
    MatrixFmt::U8,
];

static BYTES: LazyLock<Vec<[f32; 256]>> = LazyLock::new(|| {
    let value = |fmt, byte: usize| match fmt {
        MatrixFmt::S8 => f32::from(byte as u8 as i8),
        MatrixFmt::U8 => byte as f32,
        MatrixFmt::PackedE2m1 => {
            f32::from_bits(eval::matrix_element(fmt, byte as u64 & 0xf) as u32)
        }
        _ => f32::from_bits(eval::matrix_element(fmt, byte as u64) as u32),
    };
    let table = |fmt| std::array::from_fn(|byte| value(fmt, byte));
    BYTE_FORMATS.map(table).to_vec()
});

/// The values of all bytes.
fn byte_table(fmt: MatrixFmt) -> &'static [f32; 256] {
    let number = BYTE_FORMATS.iter().position(|&other| other == fmt);
    &BYTES[number.unwrap_or(0)]
}

/// The values of all bytes as factors. That of E4m3 has no sign.
pub(super) fn factor(fmt: NumFmt, byte: u8) -> f64 {
    static TABLES: LazyLock<[[f64; 256]; 2]> = LazyLock::new(|| {
        let value = |fmt, byte: u64| {
            let convert = ptxjit_ir::Convert::new(fmt, NumFmt::F32);
            f64::from(f32::from_bits(eval::convert(&convert, byte) as u32))
        };
        [
            std::array::from_fn(|byte| value(NumFmt::Ue8m0, byte as u64)),
            std::array::from_fn(|byte| value(NumFmt::E4m3, byte as u64 & 0x7f)),
        ]
    });
    TABLES[usize::from(fmt == NumFmt::E4m3)][usize::from(byte)]
}
