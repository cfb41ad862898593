//! What instructions compute, as forms.

use ptxjit_ir::{
    CompareOp, Inst, InstData, IntBinaryOp, IntTernaryOp, IntUnaryOp, ResizeOp, Space, SpecialReg,
    Type, Value, eval,
};

use super::form::Form;
use super::region::{Limits, Pred, Region};
use super::tables;
use super::walk::Walk;

impl Walk<'_> {
    /// The form of an instruction's first result; others are not known.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "of all else nothing is known but the type"
    )]
    pub(super) fn result(&mut self, inst: Inst, ty: Type, region: &Region) -> Form {
        let bits = ty.bits();
        let data = &self.func.insts[inst].data;
        if let Some(value) = self.folded(data) {
            return Form::constant(value.into());
        }
        let form = match *data {
            InstData::Sreg { sreg } => self.sreg(sreg),
            InstData::VarAddr { var, offset } => self.facts.var_form(var, offset),
            InstData::IntUnary { op, ty, arg } => self.unary(op, ty, arg, region),
            InstData::IntBinary { op, ty, args } => {
                let args = args.map(|arg| self.vals[arg]);
                binary(op, ty.bits(), args, region)
            }
            InstData::IntTernary { op, ty, args } => self.ternary(op, ty, args, region),
            InstData::Bfi { ty, args } => self.bfi(ty, args, region),
            InstData::Resize { op, from, arg, .. } => {
                let arg = self.vals[arg];
                match op {
                    ResizeOp::Trunc => Some(arg),
                    ResizeOp::Uext => arg
                        .unsigned(from.bits(), region)
                        .or(Some(Form::unknown(from.bits()))),
                    ResizeOp::Sext => arg.signed(from.bits(), region).or_else(|| {
                        let half = 1i128 << (from.bits() - 1);
                        Some(Form::range(-half, half - 1, 1))
                    }),
                }
            }
            InstData::Select { cond, args, .. } => Some(self.select(cond, args, bits, region)),
            InstData::ToGeneric { space, arg } | InstData::FromGeneric { space, arg }
                if space == Space::Global =>
            {
                Some(self.vals[arg])
            }
            InstData::Load {
                space: Space::Param,
                ty,
                addr,
                offset,
                ..
            } => self.param(ty, addr, offset),
            InstData::Warp { op, ref args, .. } => self.shuffled(op, args, region),
            _ => None,
        };
        let form = match form {
            Some(form) if form.is_exact() => Some(form),
            _ => self.of_each_thread(inst, data).or(form),
        };
        form.unwrap_or(Form::unknown(bits))
    }

    /// The form of what depends on nothing but the thread.
    fn of_each_thread(&mut self, inst: Inst, data: &InstData) -> Option<Form> {
        if !tables::is_computed(data) {
            return None;
        }
        let args: Vec<Form> = data.args().iter().map(|&arg| self.vals[arg]).collect();
        let near = args.iter().map(|form| form.near).find(|&near| near != 0);
        let form = self
            .tables
            .result(self.func, (inst, args), &self.facts.shape)?;
        Some(Form {
            near: near.unwrap_or(0),
            ..form
        })
    }

    /// The result if all operands are constants.
    fn folded(&self, data: &InstData) -> Option<u64> {
        let bits = |arg: Value| {
            let value = self.vals[arg].as_const()?;
            let modulus = 1i128 << self.func.ty(arg).bits();
            u64::try_from(value.rem_euclid(modulus)).ok()
        };
        let args: Option<Vec<u64>> = data.args().into_iter().map(bits).collect();
        eval::inst(data, &args?)
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "of other registers nothing is known"
    )]
    fn sreg(&self, sreg: SpecialReg) -> Option<Form> {
        let shape = &self.facts.shape;
        let number = |value: u32| Some(Form::constant(value.into()));
        match sreg {
            SpecialReg::TidX => Some(shape.tid[0]),
            SpecialReg::TidY => Some(shape.tid[1]),
            SpecialReg::TidZ => Some(shape.tid[2]),
            SpecialReg::CtaidX => Some(shape.ctaid[0]),
            SpecialReg::CtaidY => Some(shape.ctaid[1]),
            SpecialReg::CtaidZ => Some(shape.ctaid[2]),
            SpecialReg::NtidX => number(shape.block[0]),
            SpecialReg::NtidY => number(shape.block[1]),
            SpecialReg::NtidZ => number(shape.block[2]),
            SpecialReg::NctaidX => number(shape.grid[0]),
            SpecialReg::NctaidY => number(shape.grid[1]),
            SpecialReg::NctaidZ => number(shape.grid[2]),
            SpecialReg::LaneId => {
                let [x, y, z] = shape.tid;
                let [nx, ny, _] = shape.block.map(i128::from);
                let row = z.scale(ny)?.add(&y)?;
                let thread = row.scale(nx)?.add(&x)?;
                let low = thread.low_bits(5, &shape.all);
                low.or(Some(Form::range(0, 31, 1)))
            }
            _ => None,
        }
    }

    /// An element of the kernel's parameters.
    fn param_bits(&self, ty: Type, addr: Value, offset: i32) -> Option<u64> {
        let at = self.vals[addr].as_const()? + i128::from(offset);
        let at = usize::try_from(at).ok()?;
        let bytes = self
            .facts
            .params
            .get(at..at.checked_add(ty.bytes() as usize)?)?;
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        Some(u64::from_le_bytes(word))
    }

    pub(super) fn param(&self, ty: Type, addr: Value, offset: i32) -> Option<Form> {
        let value = self.param_bits(ty, addr, offset)?;
        let near = if ty == Type::B64 {
            self.facts.near(value)
        } else {
            0
        };
        Some(Form {
            near,
            ..Form::constant(value.into())
        })
    }

    fn unary(&self, op: IntUnaryOp, ty: Type, arg: Value, region: &Region) -> Option<Form> {
        let form = self.vals[arg];
        match op {
            IntUnaryOp::Not => form.scale(-1)?.plus(-1),
            IntUnaryOp::Neg => form.scale(-1),
            IntUnaryOp::Abs => {
                let form = form.signed(ty.bits(), region)?;
                let (min, max) = region.bounds(&form);
                match (min >= 0, max <= 0) {
                    (true, _) => Some(form),
                    (_, true) => form.scale(-1),
                    (false, false) => Some(Form::range(0, max.max(-min), 1)),
                }
            }
            IntUnaryOp::Popc | IntUnaryOp::Clz => Some(Form::range(0, ty.bits().into(), 1)),
            IntUnaryOp::Brev => None,
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "other operations are no arithmetic on indices"
    )]
    fn ternary(
        &self,
        op: IntTernaryOp,
        ty: Type,
        args: [Value; 3],
        region: &Region,
    ) -> Option<Form> {
        let [from, at, len] = args.map(|arg| self.vals[arg]);
        match op {
            IntTernaryOp::UBfe => {
                let (at, len) = (at.as_const()? & 0xff, len.as_const()? & 0xff);
                if at + len > ty.bits().into() || len == 0 {
                    return None;
                }
                let from = from.low_bits((at + len) as u32, region)?;
                Some(from.split(1 << at, region)?.0)
            }
            _ => None,
        }
    }

    fn bfi(&self, ty: Type, args: [Value; 4], region: &Region) -> Option<Form> {
        let [new, into, at, len] = args.map(|arg| self.vals[arg]);
        let (at, len) = (at.as_const()? & 0xff, len.as_const()? & 0xff);
        if at + len > ty.bits().into() || len == 0 {
            return None;
        }
        let below = into.low_bits(at as u32, region)?;
        let field = into.low_bits((at + len) as u32, region)?.sub(&below)?;
        let new = new.low_bits(len as u32, region)?.scale(1 << at)?;
        into.sub(&field)?.add(&new)
    }

    fn select(&self, cond: Value, args: [Value; 2], bits: u32, region: &Region) -> Form {
        let [yes, no] = args.map(|arg| self.vals[arg]);
        match self.known(cond, region) {
            Some(true) => yes,
            Some(false) => no,
            None => hull(&yes, &no, bits, region),
        }
    }

    /// Whether a condition holds for all threads of the region, or for none.
    pub(super) fn known(&self, cond: Value, region: &Region) -> Option<bool> {
        if let Some(value) = self.vals[cond].as_const() {
            return Some(value & 1 != 0);
        }
        let pred = self.preds.get(&cond)?;
        if region.within(&pred.yes).is_none() {
            return Some(false);
        }
        region.within(&pred.no).is_none().then_some(true)
    }

    /// What a condition says.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "of other conditions nothing is known"
    )]
    pub(super) fn pred(&self, data: &InstData, region: &Region) -> Option<Pred> {
        match *data {
            InstData::Compare { op, ty, args } => {
                let args = args.map(|arg| self.vals[arg]);
                compare(op, ty.bits(), args, region)
            }
            InstData::IntUnary {
                op: IntUnaryOp::Not,
                ty: Type::B1,
                arg,
            } => Some(self.preds.get(&arg)?.not()),
            InstData::IntBinary {
                op,
                ty: Type::B1,
                args,
            } => {
                let [a, b] = args.map(|arg| self.preds.get(&arg).cloned().unwrap_or_default());
                match op {
                    IntBinaryOp::And => Some(a.and(&b)),
                    IntBinaryOp::Or => Some(a.or(&b)),
                    IntBinaryOp::Xor => {
                        let negates =
                            |arg: Value| self.vals[arg].as_const().is_some_and(|it| it & 1 == 1);
                        match (negates(args[0]), negates(args[1])) {
                            (true, false) => Some(b.not()),
                            (false, true) => Some(a.not()),
                            (true, true) | (false, false) => None,
                        }
                    }
                    IntBinaryOp::Add
                    | IntBinaryOp::Sub
                    | IntBinaryOp::Mul
                    | IntBinaryOp::UmulHi
                    | IntBinaryOp::SmulHi
                    | IntBinaryOp::UmulWide
                    | IntBinaryOp::SmulWide
                    | IntBinaryOp::Udiv
                    | IntBinaryOp::Sdiv
                    | IntBinaryOp::Urem
                    | IntBinaryOp::Srem
                    | IntBinaryOp::Shl
                    | IntBinaryOp::Ushr
                    | IntBinaryOp::Sshr
                    | IntBinaryOp::Smin
                    | IntBinaryOp::Smax
                    | IntBinaryOp::Umin
                    | IntBinaryOp::Umax
                    | IntBinaryOp::SaddSat
                    | IntBinaryOp::SsubSat => None,
                }
            }
            _ => None,
        }
    }
}

/// Either of two numbers, also where they have no form in common.
fn hull(a: &Form, b: &Form, bits: u32, region: &Region) -> Form {
    let joined = a.join(b, bits);
    if a.c == b.c && a.table == b.table {
        return joined;
    }
    let known = || Some([a.unsigned(bits, region)?, b.unsigned(bits, region)?]);
    let Some([a, b]) = known() else {
        return joined;
    };
    let ((min, max), other) = (region.bounds(&a), region.bounds(&b));
    Form {
        near: joined.near,
        ..Form::range(min.min(other.0), max.max(other.1), 1)
    }
}

fn binary(op: IntBinaryOp, bits: u32, [a, b]: [Form; 2], region: &Region) -> Option<Form> {
    match op {
        IntBinaryOp::Add => a.add(&b),
        IntBinaryOp::Sub => a.sub(&b),
        IntBinaryOp::Mul => product(&a, &b, bits, region),
        IntBinaryOp::UmulWide => {
            let [a, b] = [a.unsigned(bits, region)?, b.unsigned(bits, region)?];
            product(&a, &b, 2 * bits, region)
        }
        IntBinaryOp::SmulWide => {
            let [a, b] = [a.signed(bits, region)?, b.signed(bits, region)?];
            product(&a, &b, 2 * bits, region)
        }
        IntBinaryOp::Udiv | IntBinaryOp::Urem | IntBinaryOp::Sdiv | IntBinaryOp::Srem => {
            divided(op, bits, [a, b], region)
        }
        IntBinaryOp::And => and(bits, [a, b], region),
        IntBinaryOp::Or => or(bits, [a, b], region),
        IntBinaryOp::Xor => {
            let sum = match (a.as_const(), b.as_const()) {
                (Some(mask), None) => flipped(&b, mask, bits, region),
                (None, Some(mask)) => flipped(&a, mask, bits, region),
                (Some(_), Some(_)) | (None, None) => None,
            };
            sum.or_else(|| or(bits, [a, b], region))
        }
        IntBinaryOp::Shl => {
            let by = count(&b, bits)?;
            a.scale(1 << by)
        }
        IntBinaryOp::Ushr => {
            let by = count(&b, bits)?;
            Some(shifted(&a.unsigned(bits, region)?, by, region))
        }
        IntBinaryOp::Sshr => {
            let by = count(&b, bits)?;
            Some(shifted(&a.signed(bits, region)?, by, region))
        }
        IntBinaryOp::Smin | IntBinaryOp::Smax => {
            let args = [a.signed(bits, region)?, b.signed(bits, region)?];
            Some(extreme(op == IntBinaryOp::Smin, args, region))
        }
        IntBinaryOp::Umin | IntBinaryOp::Umax => {
            let args = [a.unsigned(bits, region)?, b.unsigned(bits, region)?];
            Some(extreme(op == IntBinaryOp::Umin, args, region))
        }
        IntBinaryOp::UmulHi | IntBinaryOp::SmulHi | IntBinaryOp::SaddSat | IntBinaryOp::SsubSat => {
            None
        }
    }
}

/// A count of shifts that is less than the width.
fn count(form: &Form, bits: u32) -> Option<u32> {
    let count = form.as_const()?.rem_euclid(1 << 32);
    (count < bits.into()).then_some(count as u32)
}

fn product(a: &Form, b: &Form, bits: u32, region: &Region) -> Option<Form> {
    // A constant is small if it is read as signed.
    let small = |it: i128| {
        let value = it.rem_euclid(1 << bits);
        if value >> (bits - 1) == 0 {
            value
        } else {
            value - (1 << bits)
        }
    };
    if let Some(by) = b.as_const() {
        return a.scale(small(by));
    }
    if let Some(by) = a.as_const() {
        return b.scale(small(by));
    }
    let [a, b] = [a.unsigned(bits, region)?, b.unsigned(bits, region)?];
    let (of_a, of_b) = (region.bounds(&a), region.bounds(&b));
    let (min, max) = (of_a.0.checked_mul(of_b.0)?, of_a.1.checked_mul(of_b.1)?);
    (max < 1 << bits).then(|| Form::range(min, max, 1))
}

fn divided(op: IntBinaryOp, bits: u32, [a, b]: [Form; 2], region: &Region) -> Option<Form> {
    let is_signed = matches!(op, IntBinaryOp::Sdiv | IntBinaryOp::Srem);
    let [a, b] = match is_signed {
        true => [a.signed(bits, region)?, b.signed(bits, region)?],
        false => [a.unsigned(bits, region)?, b.unsigned(bits, region)?],
    };
    let by = b.as_const().filter(|&by| by > 0)?;
    let (min, max) = region.bounds(&a);
    if min < 0 {
        return None;
    }
    let parts = a.split(by, region);
    let is_quotient = matches!(op, IntBinaryOp::Udiv | IntBinaryOp::Sdiv);
    Some(match is_quotient {
        true => parts.map_or(Form::range(min / by, max / by, 1), |it| it.0),
        false => parts.map_or(Form::range(0, max.min(by - 1), 1), |it| it.1),
    })
}

fn shifted(form: &Form, by: u32, region: &Region) -> Form {
    match form.split(1 << by, region) {
        Some((whole, _)) => whole,
        None => {
            let (min, max) = region.bounds(form);
            Form::range(min >> by, max >> by, 1)
        }
    }
}

fn extreme(is_min: bool, [a, b]: [Form; 2], region: &Region) -> Form {
    if let Some((min, max)) = a.sub(&b).map(|it| region.bounds(&it)) {
        if max <= 0 {
            return if is_min { a } else { b };
        }
        if min >= 0 {
            return if is_min { b } else { a };
        }
    }
    let (of_a, of_b) = (region.bounds(&a), region.bounds(&b));
    match is_min {
        true => Form::range(of_a.0.min(of_b.0), of_a.1.min(of_b.1), 1),
        false => Form::range(of_a.0.max(of_b.0), of_a.1.max(of_b.1), 1),
    }
}

fn and(bits: u32, [a, b]: [Form; 2], region: &Region) -> Option<Form> {
    let (form, mask) = match (a.as_const(), b.as_const()) {
        (None, Some(mask)) => (a, mask),
        (Some(mask), None) => (b, mask),
        (Some(_), Some(_)) | (None, None) => {
            let [a, b] = [a.unsigned(bits, region)?, b.unsigned(bits, region)?];
            let max = region.bounds(&a).1.min(region.bounds(&b).1);
            return Some(Form::range(0, max, 1));
        }
    };
    let mask = mask.rem_euclid(1 << bits) as u128;
    let (from, ones) = (mask.trailing_zeros(), mask.count_ones());
    let to = from + ones;
    let is_run = mask != 0 && mask >> from == (1 << ones) - 1;
    let masked = || {
        let upper = if to == bits {
            form
        } else {
            form.low_bits(to, region)?
        };
        upper.sub(&form.low_bits(from, region)?)
    };
    if let Some(masked) = is_run.then(masked).flatten() {
        return Some(Form {
            near: form.near,
            ..masked
        });
    }
    if mask == 0 {
        return Some(Form::constant(0));
    }
    let max = form.unsigned(bits, region).map(|it| region.bounds(&it).1);
    let max = max.unwrap_or(mask as i128).min(mask as i128);
    let step = 1i128 << from;
    Some(Form {
        near: form.near,
        ..Form::range(0, max / step * step, step)
    })
}

/// A sum, if no bit may be set in both.
fn or(bits: u32, [a, b]: [Form; 2], region: &Region) -> Option<Form> {
    let [a, b] = [a.unsigned(bits, region)?, b.unsigned(bits, region)?];
    let (of_a, of_b) = (region.bounds(&a).1, region.bounds(&b).1);
    let above = |max: i128| 128 - max.leading_zeros();
    if a.is_multiple(1 << above(of_b)) || b.is_multiple(1 << above(of_a)) {
        return a.add(&b);
    }
    let max = (1i128 << above(of_a).max(above(of_b))) - 1;
    Some(Form::range(0, max, 1))
}

/// Exclusive or with a constant: each bit of it is known as a form.
fn flipped(form: &Form, mask: i128, bits: u32, region: &Region) -> Option<Form> {
    let mask = mask.rem_euclid(1 << bits);
    let mut result = *form;
    for bit in (0..bits).filter(|bit| mask >> bit & 1 != 0) {
        let above = match bit + 1 == bits {
            true => form.unsigned(bits, region)?,
            false => form.low_bits(bit + 1, region)?,
        };
        let this = above.sub(&form.low_bits(bit, region)?)?;
        result = result.plus(1 << bit)?.sub(&this.scale(2)?)?;
    }
    Some(result)
}

fn compare(op: CompareOp, bits: u32, [a, b]: [Form; 2], region: &Region) -> Option<Pred> {
    let signed = || Some([a.signed(bits, region)?, b.signed(bits, region)?]);
    let unsigned = || Some([a.unsigned(bits, region)?, b.unsigned(bits, region)?]);
    let less = |[a, b]: [Form; 2]| {
        let from = b.sub(&a)?;
        Some(Pred {
            yes: all(vec![from.plus(-1)?]),
            no: all(vec![from.scale(-1)?]),
        })
    };
    let swap = |[a, b]: [Form; 2]| [b, a];
    let pred = match op {
        CompareOp::Slt => less(signed()?)?,
        CompareOp::Sgt => less(swap(signed()?))?,
        CompareOp::Sge => less(signed()?)?.not(),
        CompareOp::Sle => less(swap(signed()?))?.not(),
        CompareOp::Ult => less(unsigned()?)?,
        CompareOp::Ugt => less(swap(unsigned()?))?,
        CompareOp::Uge => less(unsigned()?)?.not(),
        CompareOp::Ule => less(swap(unsigned()?))?.not(),
        CompareOp::Eq | CompareOp::Ne => {
            let [a, b] = signed().or_else(unsigned)?;
            let from = b.sub(&a)?;
            let (min, max) = region.bounds(&from);
            // Of two numbers that are not equal one is less; which, is known at an end of the
            // range.
            let no = match (min, max) {
                (0, _) => all(vec![from.plus(-1)?]),
                (_, 0) => all(vec![from.scale(-1)?.plus(-1)?]),
                _ if min > 0 || max < 0 => all(Vec::new()),
                _ => Limits::default(),
            };
            let pred = Pred {
                yes: all(vec![from, from.scale(-1)?]),
                no,
            };
            if op == CompareOp::Eq {
                pred
            } else {
                pred.not()
            }
        }
    };
    Some(pred)
}

fn all(forms: Vec<Form>) -> Limits {
    Limits {
        forms,
        is_all: true,
    }
}
