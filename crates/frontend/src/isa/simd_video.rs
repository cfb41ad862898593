//! SIMD video instructions on two halves or four bytes: PTX ISA, "SIMD Video Instructions".
//!
//! Each lane's inputs are picked from the parts of both sources and extended by a type of their
//! own; the lanes' exact results are clamped and merged into `c`, or all added to it.

use ptxjit_ir::{IntBinaryOp, IntUnaryOp, Type, Value};

use crate::translate::{Inst, Translator};

use super::common::Done;
use super::desc::{A, B, C, D, Gate, Handler, InstDesc, Opd, Selector, inst, since};
use super::modifiers::Mod::{Add, Sat};
use super::types::PtxType;
use super::types::PtxType::{S32, U32};
use super::video::{COMPARISONS, clamp, compare, extend_part, insert};

const INT: &[PtxType] = &[U32, S32];
const GATES: &[Gate] = &[since(3, 0, 30)];

const OPERANDS2: &[Opd] = &[
    D.select(Selector::HalfMask),
    A.nth(1).select(Selector::TwoHalves).reg(),
    B.nth(2).select(Selector::TwoHalves).reg(),
    C.reg(),
];
const OPERANDS4: &[Opd] = &[
    D.select(Selector::ByteMask),
    A.nth(1).select(Selector::FourBytes).reg(),
    B.nth(2).select(Selector::FourBytes).reg(),
    C.reg(),
];
const SET_OPERANDS2: &[Opd] = &[
    D.is(U32).select(Selector::HalfMask),
    A.select(Selector::TwoHalves).reg(),
    B.nth(1).select(Selector::TwoHalves).reg(),
    C.is(U32).reg(),
];
const SET_OPERANDS4: &[Opd] = &[
    D.is(U32).select(Selector::ByteMask),
    A.select(Selector::FourBytes).reg(),
    B.nth(1).select(Selector::FourBytes).reg(),
    C.is(U32).reg(),
];

/// The lanes are clamped or added up, not both.
const fn row(opcode: &'static str, operands: &'static [Opd], handler: Handler) -> InstDesc {
    inst(opcode, operands, handler)
        .types(&[INT, INT, INT])
        .optional(&[&[Sat, Add]])
        .gates(GATES)
}

const fn set_row(opcode: &'static str, operands: &'static [Opd]) -> InstDesc {
    inst(opcode, operands, vset)
        .types(&[INT, INT])
        .choose(&[COMPARISONS])
        .optional(&[&[Add]])
        .gates(GATES)
}

/// The rows of this chapter.
pub const TABLE: &[InstDesc] = &[
    row("vadd2", OPERANDS2, vadd),
    row("vsub2", OPERANDS2, vsub),
    row("vavrg2", OPERANDS2, vavrg),
    row("vabsdiff2", OPERANDS2, vabsdiff),
    row("vmin2", OPERANDS2, vmin),
    row("vmax2", OPERANDS2, vmax),
    set_row("vset2", SET_OPERANDS2),
    row("vadd4", OPERANDS4, vadd),
    row("vsub4", OPERANDS4, vsub),
    row("vavrg4", OPERANDS4, vavrg),
    row("vabsdiff4", OPERANDS4, vabsdiff),
    row("vmin4", OPERANDS4, vmin),
    row("vmax4", OPERANDS4, vmax),
    set_row("vset4", SET_OPERANDS4),
];

/// How an instruction divides its words.
#[derive(Copy, Clone)]
struct Shape {
    n_lanes: usize,
    bits: u32,
    /// `h` or `b`, for parts of a word.
    letter: char,
}

fn shape(inst: &Inst<'_>) -> Shape {
    if inst.desc.opcode.ends_with('2') {
        Shape {
            n_lanes: 2,
            bits: 16,
            letter: 'h',
        }
    } else {
        Shape {
            n_lanes: 4,
            bits: 8,
            letter: 'b',
        }
    }
}

/// The digits of a selector, that of lane 0 (written last) first.
fn digits(selector: &str) -> impl Iterator<Item = usize> + '_ {
    selector
        .bytes()
        .rev()
        .filter(u8::is_ascii_digit)
        .map(|digit| usize::from(digit - b'0'))
}

/// The inputs of each lane: parts of the words `a` and `b`, numbered through, as `selector` or else
/// consecutively from `first`.
fn lanes(
    t: &mut Translator<'_>,
    shape: Shape,
    words: [Value; 2],
    selector: Option<&str>,
    first: usize,
    is_signed: bool,
) -> Vec<Value> {
    let picks: Vec<usize> = match selector {
        Some(selector) => digits(selector).collect(),
        None => (first..first + shape.n_lanes).collect(),
    };
    picks
        .into_iter()
        .map(|pick| {
            let part = format!("{}{}", shape.letter, pick % shape.n_lanes);
            extend_part(
                t,
                words[usize::from(pick >= shape.n_lanes)],
                Some(&part),
                is_signed,
            )
        })
        .collect()
}

/// Applies `op` to each lane and finishes as every SIMD instruction does. The sources' types stand
/// from `first_type` on.
fn simd<'m>(
    t: &mut Translator<'m>,
    inst: &Inst<'m>,
    first_type: usize,
    mut op: impl FnMut(&mut Translator<'m>, Value, Value) -> Value,
) -> Done {
    let shape = shape(inst);
    let (a, b, c) = (
        t.src_selected(inst, 1)?,
        t.src_selected(inst, 2)?,
        t.src(inst, 3)?,
    );
    let words = [a.word, b.word];
    let xs = lanes(
        t,
        shape,
        words,
        a.selector,
        0,
        inst.ty(first_type).is_signed(),
    );
    let ys = lanes(
        t,
        shape,
        words,
        b.selector,
        shape.n_lanes,
        inst.ty(first_type + 1).is_signed(),
    );
    let is_written: Vec<bool> = match t.selector(inst, 0) {
        Some(mask) => (0..shape.n_lanes)
            .map(|lane| digits(mask).any(|digit| digit == lane))
            .collect(),
        None => vec![true; shape.n_lanes],
    };
    let mut d = c;
    for lane in 0..shape.n_lanes {
        if !is_written[lane] {
            continue;
        }
        let exact = op(t, xs[lane], ys[lane]);
        let result = if inst.has(Sat) {
            clamp(t, exact, shape.bits, inst.ty(0).is_signed())
        } else {
            exact
        };
        let word = t.zext_or_trunc(result, Type::B32);
        d = if inst.has(Add) {
            t.binary(IntBinaryOp::Add, d, word)
        } else {
            insert(t, word, d, lane as u32 * shape.bits, shape.bits)
        };
    }
    t.dst_selected(inst, 0, d)
}

/// Sums.
fn vadd<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    simd(t, inst, 1, |t, a, b| t.binary(IntBinaryOp::Add, a, b))
}

/// Differences.
fn vsub<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    simd(t, inst, 1, |t, a, b| t.binary(IntBinaryOp::Sub, a, b))
}

/// Averages: halves are rounded up if the sum is not negative, else down.
fn vavrg<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    simd(t, inst, 1, |t, a, b| {
        let sum = t.binary(IntBinaryOp::Add, a, b);
        let last = t.iconst(Type::B32, 63);
        let one = t.iconst(Type::B32, 1);
        // All ones for a negative sum, so that this adds 1 to the others.
        let sign = t.binary(IntBinaryOp::Sshr, sum, last);
        let bias = t.iconst(Type::B64, 1);
        let bias = t.binary(IntBinaryOp::Add, sign, bias);
        let rounded = t.binary(IntBinaryOp::Add, sum, bias);
        t.binary(IntBinaryOp::Sshr, rounded, one)
    })
}

/// Absolute differences.
fn vabsdiff<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    simd(t, inst, 1, |t, a, b| {
        let difference = t.binary(IntBinaryOp::Sub, a, b);
        t.unary(IntUnaryOp::Abs, difference)
    })
}

/// Minima.
fn vmin<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    simd(t, inst, 1, |t, a, b| t.binary(IntBinaryOp::Smin, a, b))
}

/// Maxima.
fn vmax<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    simd(t, inst, 1, |t, a, b| t.binary(IntBinaryOp::Smax, a, b))
}

/// Comparisons as 0 or 1.
fn vset<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Done {
    simd(t, inst, 0, |t, a, b| compare(t, inst, a, b))
}
