//! How the range of a value follows from its operands, told from its instruction.

use ptxjit_ir::{
    Inst, InstData, IntBinaryOp, IntUnaryOp, ResizeOp, SharedBy, SpecialReg, Type, Value,
};

use super::{Finder, Form, Scope};

/// A product of 64 bits with a greater factor could overflow.
const MOST_SHIFT: u64 = 15;

impl Finder<'_> {
    fn masked_by(&self, args: [Value; 2]) -> Option<Form> {
        let mut args = args.into_iter();
        let mask = args.find(|&arg| self.func.ty(arg) == Type::B32 && self.is_single_value(arg));
        mask.map(Form::MaskedBy)
    }

    /// For an index that a guard of the vectorizer has found not to wrap in the gang, what it is
    /// for the first lane: `x + (f(first x) - first x)` is `f(x)` in all lanes behind the guard, so
    /// that it has the range of `f`.
    fn guarded(&self, inst: Inst) -> Option<Value> {
        let data = &self.func.insts[inst].data;
        let (IntBinaryOp::Add, Type::B32, [x, moved]) = data.as_binary()? else {
            return None;
        };
        let (IntBinaryOp::Sub, _, [wrapped, first]) = self.func.as_binary(moved)? else {
            return None;
        };
        let end = self.func.def_inst(first)?.as_end_lane()?;
        (end == (x, false)).then_some(wrapped)
    }

    /// The divisor, if this is the largest multiple of it up to a number: the rest is a remainder.
    /// In a version for gangs with few quotients, these are the first and the last lane's.
    fn divisor_of(&self, number: Value, multiple: Value) -> Option<Value> {
        if let Some(&InstData::Select { args, .. }) = self.func.def_inst(multiple) {
            let [a, b] = args.map(|arg| self.divisor_of(number, arg));
            return a.filter(|_| a == b);
        }
        let (IntBinaryOp::Mul, Type::B32, [quotient, divisor]) = self.func.as_binary(multiple)?
        else {
            return None;
        };
        let (IntBinaryOp::Sdiv | IntBinaryOp::Udiv, _, [dividend, by]) =
            self.func.as_binary(quotient)?
        else {
            return None;
        };
        let end = self.func.def_inst(dividend).and_then(InstData::as_end_lane);
        let is_number = dividend == number || end.is_some_and(|(arg, _)| arg == number);
        let is_constant = self.func.as_const(divisor).is_some_and(|it| it as i32 > 1);
        (is_number && is_constant && by == divisor).then_some(divisor)
    }

    /// `None` if the range cannot be computed.
    pub(crate) fn form(&self, value: Value) -> Option<Form> {
        if let Some(&form) = self.forms.borrow().get(&value) {
            return form;
        }
        let form = self.find_form(value);
        self.forms.borrow_mut().insert(value, form);
        form
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "others are not monotone")]
    fn find_form(&self, value: Value) -> Option<Form> {
        if self.func.as_const(value).is_some() || self.is_uniform[value] {
            return Some(Form::Uniform);
        }
        let Some(inst) = self.func.maker(value) else {
            return match self.counters.merges.contains_key(&value) {
                true => Some(Form::Merge),
                false => self.counter(value).map(|_| Form::Counter),
            };
        };
        if let Some(wrapped) = self.guarded(inst) {
            return Some(Form::Lane(wrapped));
        }
        match self.func.insts[inst].data {
            InstData::Sreg { sreg } => self.register_form(value, sreg),
            InstData::EndLane { arg, .. } => Some(Form::Lane(arg)),
            InstData::Resize {
                op,
                from: Type::B32,
                to: Type::B64,
                arg,
            } => match op {
                ResizeOp::Sext => Some(Form::SignExtended(arg)),
                ResizeOp::Uext => Some(Form::ZeroExtended(arg)),
                ResizeOp::Trunc => None,
            },
            InstData::IntBinary { op, ty, args } => self.binary_form(op, ty, args),
            InstData::IntUnary {
                op: IntUnaryOp::Neg,
                ty: Type::B32 | Type::B64,
                arg,
            } => Some(Form::Negated(arg)),
            InstData::Select {
                ty: Type::B32 | Type::B64,
                args,
                ..
            } => Some(Form::OneOf(args)),
            _ => None,
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "others are the same for a CTA or not"
    )]
    fn register_form(&self, value: Value, sreg: SpecialReg) -> Option<Form> {
        match sreg {
            SpecialReg::TidX => Some(Form::Thread(SpecialReg::NtidX)),
            SpecialReg::TidY => Some(Form::Thread(SpecialReg::NtidY)),
            SpecialReg::TidZ => Some(Form::Thread(SpecialReg::NtidZ)),
            SpecialReg::CtaidX if self.scope == Scope::Row => Some(Form::CtaidX),
            SpecialReg::ClusterIdX if self.scope == Scope::Row => None,
            _ if sreg.is_volatile() || self.func.ty(value) != Type::B32 => None,
            _ => (sreg.shared_by() == SharedBy::Cta).then_some(Form::Register(sreg)),
        }
    }

    fn binary_form(&self, op: IntBinaryOp, ty: Type, args: [Value; 2]) -> Option<Form> {
        let constant = |value| self.func.as_const(value);
        match (op, ty) {
            (IntBinaryOp::Add, Type::B32 | Type::B64) => Some(Form::Sum(args)),
            (IntBinaryOp::Sub, Type::B32 | Type::B64) => {
                let [number, multiple] = args;
                let divisor = self.divisor_of(number, multiple);
                let rest = divisor.map(|divisor| Form::Remainder([number, divisor]));
                Some(rest.unwrap_or(Form::Difference(args)))
            }
            (IntBinaryOp::Or, Type::B32) => Some(Form::Bits(args)),
            (IntBinaryOp::Sdiv | IntBinaryOp::Udiv, Type::B32) => constant(args[1])
                .filter(|&divisor| (2..=i32::MAX as u64).contains(&divisor))
                .map(|divisor| {
                    let is_unsigned = op == IntBinaryOp::Udiv;
                    Form::Quotient(args[0], divisor as i64, is_unsigned)
                }),
            (IntBinaryOp::Mul, Type::B32) | (IntBinaryOp::SmulWide, Type::B32) => {
                Some(Form::Product(args))
            }
            (IntBinaryOp::Shl, Type::B32 | Type::B64) => constant(args[1])
                .filter(|&count| count <= MOST_SHIFT)
                .map(|count| Form::Shifted(args[0], count as i64)),
            (IntBinaryOp::And, Type::B32 | Type::B64) => match constant(args[1]) {
                Some(mask) if mask <= i32::MAX as u64 => Some(Form::Masked(args[0], mask as i64)),
                _ => self.masked_by(args),
            },
            (IntBinaryOp::Srem | IntBinaryOp::Urem, Type::B32) => {
                let is_single = self.is_single_value(args[1]);
                is_single.then_some(Form::Remainder(args))
            }
            (IntBinaryOp::Ushr | IntBinaryOp::Sshr, Type::B32) => {
                constant(args[1]).filter(|&count| count < 32).map(|count| {
                    let is_unsigned = op == IntBinaryOp::Ushr;
                    Form::ShiftedRight(args[0], count as i64, is_unsigned)
                })
            }
            (IntBinaryOp::Smin, Type::B32) => Some(Form::Least(args)),
            (IntBinaryOp::Smax, Type::B32) => Some(Form::Greatest(args)),
            _ => None,
        }
    }
}
