//! Powers of two that uniform values are known to be multiples of.

use ptxjit_ir::{Function, InstData, IntBinaryOp, SpecialReg, Value};
use rustc_hash::FxHashMap;

use crate::cost;

/// What a uniform value is known to be a multiple of, as log2; `of_row` is that of `%ntid.x`.
pub(crate) fn trailing_zeros(func: &Function, value: Value, of_row: u8) -> u8 {
    let mut finder = Finder {
        func,
        of_row,
        known: FxHashMap::default(),
    };
    finder.zeros(value, cost::DEPTH_OF_MULTIPLE)
}

struct Finder<'a> {
    func: &'a Function,
    of_row: u8,
    /// Of results of arithmetic: a square of squares has each of them twice as operand.
    known: FxHashMap<Value, u8>,
}

impl Finder<'_> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "others may be odd")]
    fn zeros(&mut self, value: Value, depth: u32) -> u8 {
        let (Some(data), Some(depth)) = (self.func.def_inst(value), depth.checked_sub(1)) else {
            return 0;
        };
        match *data {
            InstData::Const { bits, .. } => bits.trailing_zeros().min(31) as u8,
            InstData::Sreg {
                sreg: SpecialReg::NtidX,
            } => self.of_row,
            InstData::Resize { arg, .. } => self.zeros(arg, depth),
            InstData::IntBinary { op, args, .. } => {
                if let Some(&known) = self.known.get(&value) {
                    return known;
                }
                let zeros = self.of_binary(op, args, depth);
                self.known.insert(value, zeros);
                zeros
            }
            _ => 0,
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "others may be odd")]
    fn of_binary(&mut self, op: IntBinaryOp, [a, b]: [Value; 2], depth: u32) -> u8 {
        let mut of = |value: Value| self.zeros(value, depth);
        match op {
            IntBinaryOp::Shl => {
                let count = self.func.as_const(b).unwrap_or(0).min(31);
                (self.zeros(a, depth) + count as u8).min(31)
            }
            IntBinaryOp::Mul => (of(a) + of(b)).min(31),
            IntBinaryOp::Add | IntBinaryOp::Sub | IntBinaryOp::Or => of(a).min(of(b)),
            IntBinaryOp::And => of(a).max(of(b)),
            _ => 0,
        }
    }
}
