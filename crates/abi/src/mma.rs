//! Products of matrices in the lanes' registers, for compiled code and the runtime.
//!
//! Most are done by vectors of the eight columns of B, from decoded factors; the rest element by
//! element as the interpreter does them ([`eval::mma`]): `m8n8k4` of halves, f64 with a directed
//! rounding, and blocks with extreme factors. Both give the same bits. Since many products share a
//! factor, compiled code keeps room for what is decoded in front of each fragment of A and B.

#![expect(
    unsafe_code,
    reason = "compiled code passes addresses of its own instructions and buffers; vector instructions are chosen when running"
)]

mod blocks;
mod doubles;
mod expand;
mod factors;
mod fill;
mod form;
mod further;
mod operands;
mod products;
mod shuffles;
mod steps;
mod sums;
mod tiles;

use ptxjit_ir::{FragmentLayout, InstData, Mma, Round, Type, WarpOp, eval};

use self::factors::Factors;
use self::further::Pair;
use self::operands::{Decoded, Encoded, MAX_WORDS, Side};
#[cfg(target_arch = "x86_64")]
use self::steps::Avx2;
use self::steps::{Plain, Steps};
use self::sums::Sums;
use crate::float_env::with_default_rounding;
use crate::warp_ops::{Lanes, WARP};

pub use self::operands::{DECODED_A, DECODED_B};
pub use self::products::{
    MOST_A, MOST_B, MOST_FURTHER, MOST_REGISTERS, Offsets, Product, Products, products_op,
};

/// A register of each lane, or half of one of 64 bits: there, the words of one lane lie side by
/// side in two of these.
pub type Words = [u32; WARP];

/// Operands and results as compiled code keeps them.
struct Fragments<'a> {
    a: &'a [Words],
    b: &'a [Words],
    c: &'a [Words],
    /// Metadata and factors.
    further: &'a [Words],
    d: &'a mut [Words],
    decoded_a: Decoded<'a>,
    decoded_b: Decoded<'a>,
}

impl Fragments<'_> {
    /// The registers of A, B and C, and what is behind.
    fn registers(&self, mma: &Mma) -> Vec<Lanes> {
        let wide = mma.register() == Type::B64;
        [
            (self.a, mma.a_registers()),
            (self.b, mma.b_registers()),
            (self.c, mma.c_registers()),
            (self.further, mma.further_registers()),
        ]
        .iter()
        .flat_map(|&(words, n)| (0..n).map(move |n| read_register(words, wide, n)))
        .collect()
    }
}

/// Bytes from one register of all lanes to the next.
pub const fn register_stride(ty: Type) -> usize {
    WARP * ty.bytes() as usize
}

/// Computes a product for the lanes of `group`, which are all that take part in it.
///
/// # Safety
///
/// `data` points to an [`InstData::Warp`] with a product that the running kernel keeps; the others
/// to as many registers as the product has of each matrix, and to what is behind C, if there is
/// anything. Only this call uses those of D. In front of A and B are [`DECODED_A`] and
/// [`DECODED_B`] bytes of the caller's, of which it sets the last word to zero when it stores a
/// fragment.
pub unsafe extern "C" fn mma_op(
    data: *const InstData,
    group: u64,
    a: *const Words,
    b: *const Words,
    c: *const Words,
    further: *const Words,
    d: *mut Words,
) {
    // SAFETY: the caller's promise.
    let InstData::Warp {
        op: WarpOp::Mma(mma),
        ..
    } = (unsafe { &*data })
    else {
        return;
    };
    let words = register_stride(mma.register()) / size_of::<Words>();
    // SAFETY: the caller's promise.
    let mut fragments = unsafe {
        use core::slice::{from_raw_parts, from_raw_parts_mut};
        Fragments {
            a: from_raw_parts(a, mma.a_registers() * words),
            b: from_raw_parts(b, mma.b_registers() * words),
            c: from_raw_parts(c, mma.c_registers() * words),
            further: match mma.further_registers() {
                0 => &[],
                n => from_raw_parts(further, n * words),
            },
            d: from_raw_parts_mut(d, mma.d_registers() * words),
            decoded_a: Decoded::before(a, DECODED_A),
            decoded_b: Decoded::before(b, DECODED_B),
        }
    };
    let group = group as u32;
    if group == u32::MAX {
        return with_default_rounding(|| product(mma, &mut fragments));
    }
    let args = fragments.registers(mma);
    let mut out = [[0; WARP]; WarpOp::MAX_RESULTS];
    compute(mma, group, &args, &mut out);
    for (n, register) in out[..mma.d_registers()].iter().enumerate() {
        write_register(fragments.d, mma.register() == Type::B64, n, register);
    }
}

/// The registers of D from those of A, B and C.
pub fn compute(mma: &Mma, group: u32, args: &[Lanes], out: &mut [Lanes]) {
    let mut buffer = Buffer::new(mma, group, args);
    with_default_rounding(|| product(mma, &mut buffer.fragments(mma)));
    for (n, register) in out.iter_mut().take(mma.d_registers()).enumerate() {
        *register = read_register(&buffer.d, mma.register() == Type::B64, n);
    }
}

/// Room for the registers of any product.
struct Buffer {
    args: [Words; 2 * WarpOp::MAX_ARGS],
    d: [Words; 2 * WarpOp::MAX_RESULTS],
    decoded: [([u32; MAX_WORDS], u32); 2],
}

impl Buffer {
    /// Lanes that take no part are not allowed; their operands read as zero.
    fn new(mma: &Mma, group: u32, args: &[Lanes]) -> Buffer {
        let mut buffer = Buffer {
            args: [[0; WARP]; 2 * WarpOp::MAX_ARGS],
            d: [[0; WARP]; 2 * WarpOp::MAX_RESULTS],
            decoded: [([0; MAX_WORDS], 0); 2],
        };
        for (n, register) in args.iter().enumerate() {
            let taken = |lane: usize| register[lane] * u64::from(group >> lane & 1);
            let register = std::array::from_fn(taken);
            write_register(&mut buffer.args, mma.register() == Type::B64, n, &register);
        }
        buffer
    }

    fn fragments(&mut self, mma: &Mma) -> Fragments<'_> {
        let words = register_stride(mma.register()) / size_of::<Words>();
        let (a, rest) = self.args.split_at(mma.a_registers() * words);
        let (b, rest) = rest.split_at(mma.b_registers() * words);
        let (c, further) = rest.split_at(mma.c_registers() * words);
        let [(decoded_a, of_a), (decoded_b, of_b)] = &mut self.decoded;
        Fragments {
            a,
            b,
            c,
            further,
            d: &mut self.d,
            decoded_a: Decoded::new(decoded_a, of_a),
            decoded_b: Decoded::new(decoded_b, of_b),
        }
    }
}

fn read_register(words: &[Words], wide: bool, n: usize) -> Lanes {
    let flat = words.as_flattened();
    std::array::from_fn(|lane| {
        if wide {
            let at = 2 * (WARP * n + lane);
            u64::from(flat[at]) | u64::from(flat[at + 1]) << 32
        } else {
            flat[WARP * n + lane].into()
        }
    })
}

fn write_register(words: &mut [Words], wide: bool, n: usize, register: &Lanes) {
    let flat = words.as_flattened_mut();
    for (lane, &bits) in register.iter().enumerate() {
        if wide {
            let at = 2 * (WARP * n + lane);
            (flat[at], flat[at + 1]) = (bits as u32, (bits >> 32) as u32);
        } else {
            flat[WARP * n + lane] = bits as u32;
        }
    }
}

/// How products of a form are done.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Method {
    /// By vectors of columns, from factors that are decoded to words of 32 bits.
    Rows,
    /// By vectors of columns of f64.
    Doubles,
    /// Element by element.
    Elements,
}

impl Method {
    const fn of(mma: &Mma) -> Method {
        let is_wide = matches!(mma.register(), Type::B64);
        let is_nearest = matches!(mma.round, Round::Rn);
        match mma.layout {
            FragmentLayout::QuadPairs { .. } => Method::Elements,
            FragmentLayout::Quads { .. } if !is_wide => Method::Rows,
            FragmentLayout::Quads { .. } if is_nearest => Method::Doubles,
            FragmentLayout::Quads { .. } => Method::Elements,
        }
    }
}

fn product(mma: &Mma, fragments: &mut Fragments<'_>) {
    let is_done = match Method::of(mma) {
        Method::Rows => by_rows(mma, fragments),
        Method::Doubles => doubles::product(mma, fragments),
        Method::Elements => false,
    };
    if !is_done {
        by_elements(mma, fragments);
    }
}

fn by_elements(mma: &Mma, fragments: &mut Fragments<'_>) {
    let wide = mma.register() == Type::B64;
    for (n, register) in eval::mma(mma, &fragments.registers(mma)).iter().enumerate() {
        write_register(fragments.d, wide, n, register);
    }
}

/// A factor, or sums, whose registers follow each other.
const SIDE_BY_SIDE: &[Offsets; 1] = &[[0, 128, 256, 384, 512, 640, 768, 896]];

/// No shape has more rows of A.
const ROWS: usize = 16;
const COLUMNS: usize = 8;

/// A product whose factors are decoded first. False if f32 cannot hold them.
fn by_rows(mma: &Mma, fragments: &mut Fragments<'_>) -> bool {
    #[cfg(target_arch = "x86_64")]
    if let Some(steps) = Avx2::detect() {
        return rows_by(mma, fragments, &steps);
    }
    rows_by(mma, fragments, &Plain::<false>)
}

fn rows_by(mma: &Mma, fragments: &mut Fragments<'_>, steps: &impl Steps) -> bool {
    // SAFETY: the registers of each fragment lie side by side, and no fragment is another's.
    let (a, b, sums) = unsafe {
        (
            Encoded::at(fragments.a.as_ptr().cast(), SIDE_BY_SIDE, fragments.a.len()),
            Encoded::at(fragments.b.as_ptr().cast(), SIDE_BY_SIDE, fragments.b.len()),
            Sums::at(
                (fragments.c.as_ptr().cast(), &SIDE_BY_SIDE[0]),
                (fragments.d.as_mut_ptr().cast(), &SIDE_BY_SIDE[0]),
            ),
        )
    };
    // A cached factor is one of any product, and metadata and block factors belong to one.
    if mma.further_registers() != 0 {
        let mut factors = Factors::take();
        operands::decode(mma, Side::A, a, &mut factors.a, steps);
        operands::decode(mma, Side::B, b, &mut factors.b, steps);
        let Factors { a, b, complete } = &mut *factors;
        let further = &fragments.further[..mma.further_registers()];
        let mut is_done = complete.set_a(mma, a, further, steps);
        match complete.with_b(mma, b, further, steps).filter(|_| is_done) {
            Some(pair) => sums::add_pair_of(mma, pair, sums, steps),
            None => is_done = false,
        }
        factors.give_back();
        return is_done;
    }
    let a = fragments.decoded_a.get(mma, Side::A, a, steps);
    let b = fragments.decoded_b.get(mma, Side::B, b, steps);
    sums::add_pair_of(mma, Pair::Dense(a, b), sums, steps);
    true
}

#[cfg(test)]
mod tests;
