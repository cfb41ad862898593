//! Arithmetic on bytes and half-words with lanes of that width.
//!
//! Compilers compute with 32 bits, or 16, what programs want of bytes: a vector of words has four lanes, one of bytes sixteen. Where the
//! ranges of values that come from narrow memory tell that an operation's operands and result have room in 8 or 16 bits, it is done there, and
//! the result is extended for those who want more.
//!
//! ```text
//! v2 = uext.b32.b8 v0; v3 = uext.b32.b8 v1         =>    v7 = uext.b16.b8 v0; v8 = uext.b16.b8 v1
//! v4 = iadd.b32 v2, v3; v5 = sge.b32 v4, 300             v9 = iadd.b16 v7, v8; v5 = uge.b16 v9, 300
//! ```

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{
    Block, CompareOp, Function, Inst, InstData, IntBinaryOp, IntUnaryOp, ResizeOp, Space, SrcLoc,
    Type, Value,
};
use rustc_hash::FxHashMap;

use super::order::{self, Node};
use crate::transform::{dce, rewrite::Aliases};

/// Numbers of which a value is one, up to a multiple of two to the power of its width.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct Range {
    lo: i64,
    hi: i64,
}

/// Where a value's narrow form comes from.
#[derive(Copy, Clone, PartialEq, Eq, Default)]
enum Source {
    /// There is none.
    #[default]
    None,
    /// It costs little: constants, what is narrow anyway.
    Cheap,
    /// From narrow memory: here it pays to stay narrow.
    Memory,
}

/// What is known of a value.
#[derive(Copy, Clone, Default)]
struct Known {
    range: Option<Range>,
    source: Source,
}

impl Range {
    const fn new(lo: i64, hi: i64) -> Range {
        Range { lo, hi }
    }

    fn unsigned(ty: Type) -> Range {
        Range::new(0, ty.mask() as i64)
    }

    fn is_signed_in(self, bits: u32) -> bool {
        self.lo >= -(1 << (bits - 1)) && self.hi < 1 << (bits - 1)
    }

    fn is_unsigned_in(self, bits: u32) -> bool {
        self.lo >= 0 && self.hi < 1 << bits
    }

    fn fits(self, bits: u32) -> bool {
        self.is_signed_in(bits) || self.is_unsigned_in(bits)
    }

    fn join(self, other: Range) -> Range {
        Range::new(self.lo.min(other.lo), self.hi.max(other.hi))
    }

    /// What monotonous functions make of both ends.
    fn of_ends(ends: [i64; 4]) -> Range {
        let [a, b, c, d] = ends;
        Range::new(a.min(b).min(c.min(d)), a.max(b).max(c.max(d)))
    }

    /// The least range of the form `-2^n` to `2^n - 1`, or from 0, that has room for both.
    fn of_bits(self, other: Range) -> Range {
        let both = self.join(other);
        let far = both.hi.max(!both.lo).max(0) as u64;
        let top = far
            .checked_add(1)
            .map_or(i64::MAX, |far| far.next_power_of_two() as i64)
            - 1;
        Range::new(if both.lo < 0 { -top - 1 } else { 0 }, top)
    }
}

/// Does so in all blocks.
pub(super) fn run(func: &mut Function, entries: &[Block], gang: u32) {
    // Narrower gangs do not fill a vector of half-words.
    if gang < 8
        || !entries.is_empty()
        || !func.insts.values().any(|node| is_narrow_load(&node.data))
    {
        return;
    }
    let order = order::run(func, entries);
    let mut narrow = Narrow {
        func,
        least: if gang < 16 { 16 } else { 8 },
        known: SecondaryMap::new(),
        narrowed: SecondaryMap::new(),
        made: FxHashMap::default(),
        out: Vec::new(),
        aliases: Aliases::new(),
    };
    for node in &order.nodes {
        if let Node::Block(block) = *node {
            narrow.block(block);
        }
    }
    let mut aliases = narrow.aliases;
    if !aliases.is_empty() {
        aliases.apply(func);
        dce::run(func);
    }
}

fn is_narrow_load(data: &InstData) -> bool {
    matches!(data, InstData::Load { ty: Type::B8 | Type::B16, n: 1, space, .. } if *space != Space::Param)
}

/// An operation at a narrow width.
struct Plan {
    bits: u32,
    data: InstData,
    /// Whether the result is extended with its sign.
    is_signed: bool,
}

struct Narrow<'a> {
    func: &'a mut Function,
    /// The least width that vectors are filled with, in bits.
    least: u32,
    known: SecondaryMap<Value, Known>,
    /// Values' narrow forms, and whether an extension has to keep their sign.
    narrowed: SecondaryMap<Value, Option<(Value, bool)>>,
    /// Operands made narrow in this block.
    made: FxHashMap<(Value, u32), Value>,
    /// This block's instructions.
    out: Vec<Inst>,
    aliases: Aliases,
}

fn type_of(bits: u32) -> Type {
    if bits == 8 { Type::B8 } else { Type::B16 }
}

impl Narrow<'_> {
    fn block(&mut self, block: Block) {
        self.made.clear();
        for &param in &self.func.blocks[block].params.clone() {
            self.know(param, None, Source::None);
        }
        for inst in std::mem::take(&mut self.func.blocks[block].insts) {
            self.inst(inst);
        }
        self.func.blocks[block].insts = std::mem::take(&mut self.out);
    }

    /// What is narrow anyway has a range and costs nothing.
    fn know(&mut self, value: Value, range: Option<Range>, source: Source) {
        let ty = self.func.ty(value);
        let is_narrow = matches!(ty, Type::B8 | Type::B16);
        let own = is_narrow.then(|| Range::unsigned(ty));
        let source = match source {
            Source::None if is_narrow => Source::Cheap,
            other => other,
        };
        self.known[value] = Known {
            range: range.or(own),
            source,
        };
    }

    fn inst(&mut self, inst: Inst) {
        let data = self.func.insts[inst].data.clone();
        let loc = self.func.insts[inst].loc;
        if let Some(plan) = self.plan(&data) {
            return self.replace(inst, plan, loc);
        }
        self.out.push(inst);
        let results = self.func.insts[inst].results.clone();
        let [result] = results[..] else {
            return results
                .iter()
                .for_each(|&result| self.know(result, None, Source::None));
        };
        let range = self.range(&data);
        let source = match data {
            InstData::Const { .. } => Source::Cheap,
            InstData::Resize { arg, .. } => match (self.known[arg].source, self.func.ty(arg)) {
                (Source::Memory, _) => Source::Memory,
                (_, Type::B1) => Source::Cheap,
                (source, _) => source,
            },
            _ if is_narrow_load(&data) => Source::Memory,
            _ => Source::None,
        };
        self.know(result, range, source);
        if let InstData::Resize {
            op: ResizeOp::Trunc,
            to: to @ (Type::B8 | Type::B16),
            arg,
            ..
        } = data
            && self.narrow_form(arg).is_some()
        {
            // Behind the extension that follows a narrow operation.
            let short = self.at_width(arg, to.bits(), loc);
            self.aliases.set(result, short);
        }
    }

    /// The narrow form of what may be an extension of it.
    fn narrow_form(&self, value: Value) -> Option<(Value, bool)> {
        match (self.narrowed[value], self.func.def_inst(value)) {
            (Some(form), _) => Some(form),
            (None, Some(&InstData::Resize { arg, .. })) => self.narrow_form(arg),
            (None, _) => None,
        }
    }

    fn replace(&mut self, inst: Inst, plan: Plan, loc: SrcLoc) {
        let old = self.func.insts[inst].results[0];
        let range = self.range(&self.func.insts[inst].data);
        let mut data = plan.data;
        // The condition of a selection and the count of a shift stay as they are.
        let operands: Vec<Value> = match &data {
            InstData::Select { args, .. } => args.to_vec(),
            InstData::IntBinary {
                op: IntBinaryOp::Ushr | IntBinaryOp::Sshr | IntBinaryOp::Shl,
                args,
                ..
            } => vec![args[0]],
            other => other.args().to_vec(),
        };
        let short: Vec<Value> = operands
            .iter()
            .map(|&arg| self.at_width(arg, plan.bits, loc))
            .collect();
        for arg in data.args_mut() {
            if let Some(idx) = operands.iter().position(|operand| operand == arg) {
                *arg = short[idx];
            }
        }
        let ty = self.func.ty(old);
        if ty == Type::B1 {
            self.func.insts[inst].data = data;
            self.out.push(inst);
            return self.know(old, None, Source::Memory);
        }
        let short_ty = type_of(plan.bits);
        let new = self.push(data, short_ty, loc);
        self.know(new, range, Source::Memory);
        let full = if ty == short_ty {
            new
        } else {
            self.extend(new, plan.is_signed, ty, loc)
        };
        self.know(full, range, Source::Memory);
        self.narrowed[full] = Some((new, plan.is_signed));
        self.narrowed[new] = Some((new, plan.is_signed));
        self.aliases.set(old, full);
        self.known[old] = self.known[full];
        self.narrowed[old] = self.narrowed[full];
    }

    fn push(&mut self, data: InstData, ty: Type, loc: SrcLoc) -> Value {
        let inst = self.func.make_inst(data, &[ty], loc);
        self.out.push(inst);
        self.func.insts[inst].results[0]
    }

    fn extend(&mut self, arg: Value, is_signed: bool, to: Type, loc: SrcLoc) -> Value {
        let op = if is_signed {
            ResizeOp::Sext
        } else {
            ResizeOp::Uext
        };
        let from = self.func.ty(arg);
        self.push(InstData::Resize { op, from, to, arg }, to, loc)
    }

    /// The low bits of a value.
    fn at_width(&mut self, value: Value, bits: u32, loc: SrcLoc) -> Value {
        if let Some(&made) = self.made.get(&(value, bits)) {
            return made;
        }
        let made = self.make_at_width(value, bits, loc);
        self.made.insert((value, bits), made);
        let known = self.known[value];
        self.know(
            made,
            known.range.filter(|range| range.fits(bits)),
            known.source,
        );
        made
    }

    fn make_at_width(&mut self, value: Value, bits: u32, loc: SrcLoc) -> Value {
        let (from, to) = (self.func.ty(value), type_of(bits));
        if let Some(constant) = self.func.as_const(value) {
            return self.push(
                InstData::Const {
                    ty: to,
                    bits: constant & to.mask(),
                },
                to,
                loc,
            );
        }
        if from == to {
            return self.aliases.resolve(value);
        }
        if let Some((short, is_signed)) = self.narrowed[value].filter(|&(short, _)| short != value)
        {
            return match self.func.ty(short).bits() < bits {
                true => self.extend(short, is_signed, to, loc),
                false => self.at_width(short, bits, loc),
            };
        }
        match self.func.def_inst(value) {
            Some(&InstData::Resize {
                op: ResizeOp::Trunc,
                arg,
                ..
            }) => self.at_width(arg, bits, loc),
            Some(&InstData::Resize { from, arg, .. }) if from == to => self.aliases.resolve(arg),
            Some(&InstData::Resize { from, arg, .. }) if from.bits() > bits => {
                self.at_width(arg, bits, loc)
            }
            Some(&InstData::Resize { op, from, arg, .. }) => {
                self.push(InstData::Resize { op, from, to, arg }, to, loc)
            }
            _ => self.push(
                InstData::Resize {
                    op: ResizeOp::Trunc,
                    from,
                    to,
                    arg: value,
                },
                to,
                loc,
            ),
        }
    }

    /// How an operation is done with fewer bits, if it can be and that pays.
    fn plan(&self, data: &InstData) -> Option<Plan> {
        let operands: &[Value] = match data {
            InstData::IntUnary {
                ty: Type::B16 | Type::B32,
                arg,
                ..
            } => std::slice::from_ref(arg),
            InstData::IntBinary {
                op: IntBinaryOp::Shl | IntBinaryOp::Ushr | IntBinaryOp::Sshr,
                ty: Type::B16 | Type::B32,
                args,
            } => {
                self.func.as_const(args[1])?;
                &args[..1]
            }
            InstData::IntBinary {
                ty: Type::B16 | Type::B32,
                args,
                ..
            }
            | InstData::Compare {
                ty: Type::B16 | Type::B32,
                args,
                ..
            }
            | InstData::Select {
                ty: Type::B16 | Type::B32,
                args,
                ..
            } => args,
            _ => return None,
        };
        let sources = || operands.iter().map(|&arg| self.known[arg].source);
        let condition = match *data {
            InstData::Select { cond, .. } => self.known[cond].source,
            _ => Source::None,
        };
        if sources().any(|source| source == Source::None)
            || !sources()
                .chain([condition])
                .any(|source| source == Source::Memory)
        {
            return None;
        }
        let both = operands
            .iter()
            .try_fold(None, |all: Option<Range>, &arg| {
                let own = self.known[arg].range?;
                Some(Some(all.map_or(own, |all| all.join(own))))
            })??;
        self.at_least_width(data, both)
    }

    /// The narrow operation; `both` is where all operands lie.
    fn at_least_width(&self, data: &InstData, both: Range) -> Option<Plan> {
        let width = |least: u32, is_enough: &dyn Fn(u32) -> bool| {
            [8, 16]
                .into_iter()
                .find(|&bits| bits >= least.max(self.least) && is_enough(bits))
        };
        let result = self.range(data);
        let is_signed = result.is_some_and(|range| range.lo < 0);
        let as_signed = |bits: u32| both.is_signed_in(bits);
        let as_either = |bits: u32| both.fits(bits);
        let modular =
            |least: u32| width(least, &|bits| result.is_some_and(|range| range.fits(bits)));
        let full = match *data {
            InstData::IntUnary { ty, .. }
            | InstData::IntBinary { ty, .. }
            | InstData::Select { ty, .. } => ty,
            _ => Type::B32,
        };
        let is_wide_product = matches!(
            data,
            InstData::IntBinary {
                op: IntBinaryOp::UmulWide | IntBinaryOp::SmulWide,
                ..
            }
        );
        let (bits, data) = match *data {
            InstData::IntUnary {
                op: op @ (IntUnaryOp::Not | IntUnaryOp::Neg),
                arg,
                ..
            } => {
                let bits = modular(8)?;
                (
                    bits,
                    InstData::IntUnary {
                        op,
                        ty: type_of(bits),
                        arg,
                    },
                )
            }
            InstData::IntUnary {
                op: IntUnaryOp::Abs,
                arg,
                ..
            } => {
                let bits = width(8, &as_signed)?;
                (
                    bits,
                    InstData::IntUnary {
                        op: IntUnaryOp::Abs,
                        ty: type_of(bits),
                        arg,
                    },
                )
            }
            InstData::IntBinary { op, args, .. } => {
                let (bits, op) = match op {
                    IntBinaryOp::Add
                    | IntBinaryOp::Sub
                    | IntBinaryOp::And
                    | IntBinaryOp::Or
                    | IntBinaryOp::Xor => (modular(8)?, op),
                    // There are no products of bytes, nor shifts to the left.
                    IntBinaryOp::Mul | IntBinaryOp::Shl => (modular(16)?, op),
                    IntBinaryOp::UmulWide | IntBinaryOp::SmulWide => {
                        (modular(16)?, IntBinaryOp::Mul)
                    }
                    IntBinaryOp::Ushr if both.lo >= 0 => {
                        (width(8, &|bits| both.is_unsigned_in(bits))?, op)
                    }
                    IntBinaryOp::Sshr if both.lo >= 0 => (
                        width(8, &|bits| both.is_unsigned_in(bits))?,
                        IntBinaryOp::Ushr,
                    ),
                    IntBinaryOp::Sshr => (width(8, &as_signed)?, op),
                    _ => {
                        let bits = width(8, &as_either)?;
                        (bits, extreme(op, both, full, bits)?)
                    }
                };
                (
                    bits,
                    InstData::IntBinary {
                        op,
                        ty: type_of(bits),
                        args,
                    },
                )
            }
            InstData::Select { cond, args, .. } => {
                let bits = modular(8)?;
                (
                    bits,
                    InstData::Select {
                        ty: type_of(bits),
                        cond,
                        args,
                    },
                )
            }
            InstData::Compare { op, ty, args } => {
                let bits = width(8, &as_either)?;
                let op = comparison(op, both, ty, bits)?;
                (
                    bits,
                    InstData::Compare {
                        op,
                        ty: type_of(bits),
                        args,
                    },
                )
            }
            _ => return None,
        };
        let is_less =
            bits < full.bits() || is_wide_product || matches!(data, InstData::Compare { .. });
        is_less.then_some(Plan {
            bits,
            data,
            is_signed,
        })
    }

    fn range(&self, data: &InstData) -> Option<Range> {
        let of = |value: Value| self.known[value].range;
        let small =
            |range: Range| (range.lo.abs() < 1 << 40 && range.hi.abs() < 1 << 40).then_some(range);
        match *data {
            InstData::Const { ty, bits } => {
                let shift = 64 - ty.bits();
                let signed = ((bits << shift) as i64) >> shift;
                Some(Range::new(signed, signed))
            }
            InstData::Load {
                ty: ty @ (Type::B8 | Type::B16),
                ..
            } => Some(Range::unsigned(ty)),
            InstData::Resize { op, from, to, arg } => match (op, from) {
                (ResizeOp::Trunc, _) => of(arg).filter(|range| range.fits(to.bits())),
                (ResizeOp::Uext, Type::B1) => Some(Range::new(0, 1)),
                (ResizeOp::Sext, Type::B1) => Some(Range::new(-1, 0)),
                (ResizeOp::Uext, Type::B8 | Type::B16) => {
                    let own = of(arg).filter(|range| range.is_unsigned_in(from.bits()));
                    own.or(Some(Range::unsigned(from)))
                }
                (ResizeOp::Sext, Type::B8 | Type::B16) => {
                    let own = of(arg).filter(|range| range.is_signed_in(from.bits()));
                    let far = 1i64 << (from.bits() - 1);
                    own.or(Some(Range::new(-far, far - 1)))
                }
                _ => None,
            },
            InstData::Select { args: [a, b], .. } => Some(of(a)?.join(of(b)?)),
            InstData::IntUnary { op, ty, arg } => {
                let x = of(arg)?;
                match op {
                    IntUnaryOp::Not => Some(Range::new(!x.hi, !x.lo)),
                    IntUnaryOp::Neg => Some(Range::new(-x.hi, -x.lo)),
                    IntUnaryOp::Abs if x.is_signed_in(ty.bits()) => {
                        let least = if x.lo <= 0 && x.hi >= 0 {
                            0
                        } else {
                            x.lo.abs().min(x.hi.abs())
                        };
                        Some(Range::new(least, x.lo.abs().max(x.hi.abs())))
                    }
                    _ => None,
                }
            }
            InstData::IntBinary {
                op,
                ty,
                args: [a, b],
            } => {
                let (x, y) = (of(a)?, of(b)?);
                let ends = |f: fn(i64, i64) -> i64| {
                    Range::of_ends([f(x.lo, y.lo), f(x.lo, y.hi), f(x.hi, y.lo), f(x.hi, y.hi)])
                };
                let count = y.lo.clamp(0, 31) as u32;
                let bits = ty.bits();
                let both = x.join(y);
                match op {
                    IntBinaryOp::Add => small(ends(|a, b| a + b)),
                    IntBinaryOp::Sub => small(ends(|a, b| a - b)),
                    IntBinaryOp::Mul => small(x)
                        .and(small(y))
                        .and(small(ends(i64::wrapping_mul)))
                        .filter(|_| x.fits(20) && y.fits(20)),
                    IntBinaryOp::UmulWide if both.is_unsigned_in(bits) => {
                        small(ends(i64::wrapping_mul)).filter(|_| bits <= 16)
                    }
                    IntBinaryOp::SmulWide if both.is_signed_in(bits) => {
                        small(ends(i64::wrapping_mul)).filter(|_| bits <= 16)
                    }
                    IntBinaryOp::And if x.lo >= 0 || y.lo >= 0 => {
                        let most = [x, y]
                            .iter()
                            .filter(|range| range.lo >= 0)
                            .map(|range| range.hi)
                            .min()?;
                        Some(Range::new(0, most))
                    }
                    IntBinaryOp::And | IntBinaryOp::Or | IntBinaryOp::Xor => Some(x.of_bits(y)),
                    IntBinaryOp::Shl if y.lo < i64::from(bits) => {
                        x.fits(20).then(|| Range::new(x.lo << count, x.hi << count))
                    }
                    IntBinaryOp::Ushr if x.is_unsigned_in(bits) => {
                        Some(Range::new(x.lo >> count, x.hi >> count))
                    }
                    IntBinaryOp::Sshr if x.is_signed_in(bits) => {
                        Some(Range::new(x.lo >> count, x.hi >> count))
                    }
                    IntBinaryOp::Smin if both.is_signed_in(bits) => {
                        Some(Range::new(x.lo.min(y.lo), x.hi.min(y.hi)))
                    }
                    IntBinaryOp::Smax if both.is_signed_in(bits) => {
                        Some(Range::new(x.lo.max(y.lo), x.hi.max(y.hi)))
                    }
                    IntBinaryOp::Umin if both.is_unsigned_in(bits) => {
                        Some(Range::new(x.lo.min(y.lo), x.hi.min(y.hi)))
                    }
                    IntBinaryOp::Umax if both.is_unsigned_in(bits) => {
                        Some(Range::new(x.lo.max(y.lo), x.hi.max(y.hi)))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// The minimum or maximum of numbers in a range, in so many bits.
fn extreme(op: IntBinaryOp, both: Range, full: Type, bits: u32) -> Option<IntBinaryOp> {
    let (signed, unsigned, is_known) = match op {
        IntBinaryOp::Smin => (
            IntBinaryOp::Smin,
            IntBinaryOp::Umin,
            both.is_signed_in(full.bits()),
        ),
        IntBinaryOp::Smax => (
            IntBinaryOp::Smax,
            IntBinaryOp::Umax,
            both.is_signed_in(full.bits()),
        ),
        IntBinaryOp::Umin => (
            IntBinaryOp::Umin,
            IntBinaryOp::Umin,
            both.is_unsigned_in(full.bits()),
        ),
        IntBinaryOp::Umax => (
            IntBinaryOp::Umax,
            IntBinaryOp::Umax,
            both.is_unsigned_in(full.bits()),
        ),
        _ => return None,
    };
    is_known.then_some(if both.is_unsigned_in(bits) {
        unsigned
    } else {
        signed
    })
}

/// A comparison of numbers in a range, in so many bits.
fn comparison(op: CompareOp, both: Range, full: Type, bits: u32) -> Option<CompareOp> {
    let (as_unsigned, is_known) = match op {
        CompareOp::Eq | CompareOp::Ne => (op, true),
        CompareOp::Slt => (CompareOp::Ult, both.is_signed_in(full.bits())),
        CompareOp::Sle => (CompareOp::Ule, both.is_signed_in(full.bits())),
        CompareOp::Sgt => (CompareOp::Ugt, both.is_signed_in(full.bits())),
        CompareOp::Sge => (CompareOp::Uge, both.is_signed_in(full.bits())),
        CompareOp::Ult | CompareOp::Ule | CompareOp::Ugt | CompareOp::Uge => {
            (op, both.is_unsigned_in(full.bits()))
        }
    };
    is_known.then_some(if both.is_unsigned_in(bits) {
        as_unsigned
    } else {
        op
    })
}
