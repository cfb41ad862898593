//! f32 values that are certainly numbers, neither infinite nor NaN, and how large they may be.
//!
//! What arithmetic makes of such numbers stays one as long as it cannot overflow. They begin with
//! constants, what is clamped to `[0, 1]`, and integers: `expf` of a compiler computes `cvt.sat(x)
//! * 252 + 12582913` and looks at the bits.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{FloatBinaryOp, FloatFmt, FloatUnaryOp, Function, InstData, NumFmt, Type, Value};

use super::cfg::Cfg;

/// Results up to this stay finite in every direction of rounding.
const LARGEST: f64 = 1e38;

/// What a magnitude may be rounded to at most: a step further, which does not shrink with it among
/// the subnormal numbers.
fn rounded(bound: f64) -> f64 {
    bound * (1.0 + f64::from(f32::EPSILON)) + f64::from(f32::MIN_POSITIVE)
}

/// The greatest magnitude of each value that is certainly a number.
#[derive(Debug, Default)]
pub struct FloatBounds(SecondaryMap<Value, Option<f64>>);

impl FloatBounds {
    /// Looks at what makes the values; of parameters nothing is known.
    pub fn of(func: &Function, cfg: &Cfg) -> FloatBounds {
        let mut bounds = FloatBounds::default();
        for &block in &cfg.rpo {
            for &inst in &func.blocks[block].insts {
                let node = &func.insts[inst];
                if let [result] = node.results[..]
                    && func.ty(result) == Type::B32
                {
                    let bound = bounds.of_inst(&node.data).map(rounded);
                    bounds.0[result] = bound.filter(|&bound| bound <= LARGEST);
                }
            }
        }
        bounds
    }

    /// Whether a value is certainly a number.
    pub fn is_number(&self, value: Value) -> bool {
        self.0[value].is_some()
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "others have no known bound")]
    fn of_inst(&self, data: &InstData) -> Option<f64> {
        match *data {
            InstData::Const { bits, .. } => {
                let x = f64::from(f32::from_bits(bits as u32));
                x.is_finite().then_some(x.abs())
            }
            InstData::FloatUnary {
                op,
                fmt: FloatFmt::F32,
                arg,
                ..
            } => match op {
                FloatUnaryOp::Sat => Some(1.0),
                FloatUnaryOp::Neg | FloatUnaryOp::Abs | FloatUnaryOp::Copy => self.0[arg],
                FloatUnaryOp::Relu
                | FloatUnaryOp::CanonicalNan
                | FloatUnaryOp::RoundInt
                | FloatUnaryOp::Sqrt
                | FloatUnaryOp::RcpApprox
                | FloatUnaryOp::SqrtApprox
                | FloatUnaryOp::RsqrtApprox
                | FloatUnaryOp::SinApprox
                | FloatUnaryOp::CosApprox
                | FloatUnaryOp::Lg2Approx
                | FloatUnaryOp::Ex2Approx
                | FloatUnaryOp::TanhApprox => None,
            },
            InstData::FloatBinary {
                op,
                fmt: FloatFmt::F32,
                args: [a, b],
                ..
            } => {
                let (a, b) = (self.0[a]?, self.0[b]?);
                match op {
                    FloatBinaryOp::Add | FloatBinaryOp::Sub => Some(a + b),
                    FloatBinaryOp::Mul => Some(a * b),
                    FloatBinaryOp::Div
                    | FloatBinaryOp::DivApprox
                    | FloatBinaryOp::DivFull
                    | FloatBinaryOp::Min
                    | FloatBinaryOp::Max
                    | FloatBinaryOp::MinNan
                    | FloatBinaryOp::MaxNan => None,
                }
            }
            InstData::Fma {
                fmt: FloatFmt::F32,
                args: [a, b, c],
                ..
            } => Some(self.0[a]? * self.0[b]? + self.0[c]?),
            InstData::Convert { cvt, arg } if cvt.to == NumFmt::F32 => match cvt.from {
                NumFmt::F32 if cvt.sat => Some(1.0),
                NumFmt::F32 if !cvt.integral => self.0[arg],
                from => from.is_int().then_some(2f64.powi(64)),
            },
            InstData::Select { args: [a, b], .. } => Some(self.0[a]?.max(self.0[b]?)),
            _ => None,
        }
    }
}
