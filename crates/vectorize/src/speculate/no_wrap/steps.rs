//! Quotients of which a gang has two.
//!
//! A tile of 22 columns is filled by `tile[i / 22][i % 22] = in[(y + i / 22) * w + x + i % 22]`. A
//! row ends within most gangs of 16 lanes: lanes before the step have one quotient, the others the
//! next. A quotient is a selection between two numbers then, and so is what is computed
//! from it. An address that is affine on either side of the step is accessed by two masked loads,
//! each contiguous.
//!
//! ```text
//! block3: v3 = sdiv v2, 22; ...; v6 = load [v5]
//! =>
//! block6: v10 = sge v2, v9; v11 = select v10, v8, v7; ...
//!         v16 = masked_load v15, [v12]; v17 = masked_load v10, [v14]; v18 = select v10, v17, v16
//! ```

use ptxjit_ir::{Block, CompareOp, Function, Inst, InstData, IntBinaryOp, Type, Value};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::sites::Finder;
use super::{Kind, Known, Site};
use crate::prepare::masked_loads::may_mask;
use crate::speculate::clone::Copies;

/// What a value is before and behind a step, in the copy.
#[derive(Copy, Clone)]
struct Halves {
    /// Which lanes are behind the step.
    behind: Value,
    values: [Value; 2],
    /// By how much each differs from lane to lane; uniform values do not.
    stride: i64,
}

impl Halves {
    fn are_uniform(self) -> bool {
        self.stride == 0
    }
}

/// The steps of a region and its copy.
pub(super) struct Steps<'a> {
    known: &'a Known,
    start: Block,
    copies: &'a Copies,
    /// The sites that do not step.
    others: &'a [Site],
    /// By the value in the original.
    halves: FxHashMap<Value, Option<Halves>>,
}

impl<'a> Steps<'a> {
    pub(super) fn new(
        known: &'a Known,
        start: Block,
        copies: &'a Copies,
        others: &'a [Site],
    ) -> Steps<'a> {
        Steps {
            known,
            start,
            copies,
            others,
            halves: FxHashMap::default(),
        }
    }

    fn same(&self, value: Value) -> Value {
        self.copies.values.get(&value).copied().unwrap_or(value)
    }

    /// Makes the copy of a quotient a selection between two.
    pub(super) fn put(&mut self, func: &mut Function, site: &Site, quotients: [Value; 2]) {
        let result = func.result(site.inst);
        let copy = Place::of(func, self.copies, self.same(result));
        let (affine, bound) = (self.same(site.affine), self.same(site.bound));
        let product = InstData::binary(IntBinaryOp::Mul, site.ty, [quotients[1], bound]);
        let first_behind = copy.put(func, product, site.ty);
        let op = match matches!(site.kind, Kind::Step(IntBinaryOp::Sdiv)) {
            true => CompareOp::Sge,
            false => CompareOp::Uge,
        };
        let is_behind = InstData::compare(op, site.ty, [affine, first_behind]);
        let halves = Halves {
            behind: copy.put(func, is_behind, Type::B1),
            values: quotients,
            stride: 0,
        };
        copy.select(func, halves);
        self.halves.insert(result, Some(halves));
    }

    /// Splits loads into one before and one behind the step, and products of quotients likewise.
    pub(super) fn split_all(&mut self, func: &mut Function) {
        if self.halves.is_empty() {
            return;
        }
        for &block in &self.copies.old {
            for inst in func.blocks[block].insts.clone() {
                let node = &func.insts[inst];
                let [result] = node.results[..] else { continue };
                if may_mask(&node.data) {
                    self.split_load(func, inst, result);
                } else if is_product(&node.data)
                    && let Some(halves) = self.halves(func, result)
                    && halves.are_uniform()
                {
                    Place::of(func, self.copies, self.same(result)).select(func, halves);
                }
            }
        }
    }

    fn split_load(&mut self, func: &mut Function, inst: Inst, result: Value) {
        let Some(access) = func.insts[inst].data.access() else {
            return;
        };
        // Lanes that are not contiguous would be loaded one by one, and twice.
        let halves = self.halves(func, access.addr);
        let Some(halves) = halves.filter(|halves| halves.stride == i64::from(access.bytes)) else {
            return;
        };
        let copy = Place::of(func, self.copies, self.same(result));
        let before = copy.put(func, InstData::not(halves.behind), Type::B1);
        let mut values = halves.values;
        for (value, side) in values.iter_mut().zip([before, halves.behind]) {
            let load = InstData::MaskedLoad {
                space: access.space,
                ty: func.ty(result),
                addr: *value,
                offset: access.offset,
                mask: copy.mask(func, side),
            };
            *value = copy.put(func, load, func.ty(result));
        }
        copy.select(func, Halves { values, ..halves });
    }

    /// Both halves of a value that is computed from a quotient.
    fn halves(&mut self, func: &mut Function, value: Value) -> Option<Halves> {
        if let Some(&known) = self.halves.get(&value) {
            return known;
        }
        let found = self.find_halves(func, value);
        self.halves.insert(value, found);
        found
    }

    /// By how much an operand differs from lane to lane; `None` if it is not affine.
    fn stride(&self, func: &Function, arg: Value, halves: Option<Halves>) -> Option<i64> {
        let (known, block) = (self.known, self.start);
        let finder = Finder { func, known, block };
        let of_halves = halves.map(|halves| halves.stride);
        let of_uniform = || finder.is_even(arg, self.others).then_some(0);
        let of_affine = || finder.stride(arg, self.others);
        of_halves.or_else(of_uniform).or_else(of_affine)
    }

    fn find_halves(&mut self, func: &mut Function, value: Value) -> Option<Halves> {
        let inst = func.maker(value)?;
        let is_clamp =
            |site: &&Site| site.inst == inst && matches!(site.kind, Kind::RowExtreme(..));
        if let Some(site) = self.others.iter().find(is_clamp) {
            return self.halves(func, site.affine);
        }
        if !self.copies.values.contains_key(&value) || !is_monotone(&func.insts[inst].data) {
            return None;
        }
        let args = func.insts[inst].data.args();
        let mut of_args: [Option<Halves>; 2] = [None; 2];
        for (&arg, of_arg) in args.iter().zip(&mut of_args) {
            *of_arg = self.halves(func, arg);
        }
        let mut stepping = of_args.iter().flatten();
        let behind = stepping.next()?.behind;
        if stepping.any(|halves| halves.behind != behind) {
            return None;
        }
        let strides: Option<SmallVec<[i64; 2]>> = (args.iter().zip(of_args))
            .map(|(&arg, halves)| self.stride(func, arg, halves))
            .collect();
        let stride = combined(func, &func.insts[inst].data, &strides?)?;
        let copy = Place::of(func, self.copies, self.same(value));
        let ty = func.ty(value);
        let values = [0, 1].map(|side: usize| {
            let mut data = func.insts[copy.inst].data.clone();
            for (arg, halves) in data.args_mut().into_iter().zip(of_args) {
                *arg = halves.map_or(*arg, |halves| halves.values[side]);
            }
            copy.put(func, data, ty)
        });
        Some(Halves {
            behind,
            values,
            stride,
        })
    }
}

/// An instruction of the copy, ahead of which others are put.
#[derive(Copy, Clone)]
struct Place {
    block: Block,
    inst: Inst,
}

impl Place {
    fn of(func: &Function, copies: &Copies, result: Value) -> Place {
        let inst = func
            .maker(result)
            .expect("copies of instructions are instructions");
        let mut blocks = copies.blocks.values();
        let block = blocks.find(|&&block| func.blocks[block].insts.contains(&inst));
        let block = *block.expect("the instruction is in the copy");
        Place { block, inst }
    }

    fn put(self, func: &mut Function, data: InstData, ty: Type) -> Value {
        let new = func.make_inst(data, &[ty], func.insts[self.inst].loc);
        let insts = &mut func.blocks[self.block].insts;
        let at = insts.iter().position(|&inst| inst == self.inst);
        insts.insert(at.expect("the instruction is there"), new);
        func.result(new)
    }

    /// The mask of a load of some lanes in place of the instruction, which is a load.
    fn mask(self, func: &mut Function, lanes: Value) -> Value {
        if let InstData::MaskedLoad { mask, .. } = func.insts[self.inst].data {
            let both = InstData::binary(IntBinaryOp::And, Type::B1, [mask, lanes]);
            return self.put(func, both, Type::B1);
        }
        lanes
    }

    /// Makes the instruction a selection.
    fn select(self, func: &mut Function, halves: Halves) {
        let [before, behind] = halves.values;
        func.insts[self.inst].data = InstData::Select {
            ty: func.ty(before),
            cond: halves.behind,
            args: [behind, before],
        };
    }
}

/// Whether an operation of which one operand steps, and nothing else, steps likewise.
fn is_monotone(data: &InstData) -> bool {
    let is_binary = matches!(
        data,
        InstData::IntBinary {
            op: IntBinaryOp::Add
                | IntBinaryOp::Sub
                | IntBinaryOp::Smin
                | IntBinaryOp::Smax
                | IntBinaryOp::Umin
                | IntBinaryOp::Umax,
            ..
        }
    );
    is_binary || is_product(data) || matches!(data, InstData::Resize { .. })
}

/// The stride of a result, if it does not wrap.
fn combined(func: &Function, data: &InstData, strides: &[i64]) -> Option<i64> {
    let (InstData::IntBinary { op, args, .. }, &[a, b]) = (data, strides) else {
        return strides.first().copied();
    };
    let constant = |arg: Value| func.as_const(arg).map(|bits| i64::from(bits as i32));
    if strides == [0, 0] {
        return Some(0);
    }
    if *op == IntBinaryOp::Add {
        return a.checked_add(b);
    }
    if *op == IntBinaryOp::Sub {
        return a.checked_sub(b);
    }
    if b != 0 || !is_product(data) {
        return None;
    }
    let scale = constant(args[1])?;
    a.checked_mul(match *op == IntBinaryOp::Shl {
        true => 1i64.checked_shl(u32::try_from(scale).ok()?)?,
        false => scale,
    })
}

fn is_product(data: &InstData) -> bool {
    matches!(
        data,
        InstData::IntBinary {
            op: IntBinaryOp::Mul | IntBinaryOp::SmulWide | IntBinaryOp::UmulWide | IntBinaryOp::Shl,
            ..
        }
    )
}
