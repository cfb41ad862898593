//! Products of matrices for which no lane waits.
//!
//! Neighboring products of one form become one call, which reads and writes the frame: what the
//! runtime function knows about all of them at once, as which share a factor, is worth more than
//! what stays in registers between two of them. Their values have homes in the frame (`homes`).

use cranelift_codegen::ir::{InstBuilder, types};
use ptxjit_abi::mma::{MOST_A, MOST_B, MOST_FURTHER, MOST_REGISTERS, Offsets, Product, Products};
use ptxjit_abi::object::Helper;
use ptxjit_ir::{Block, Inst, InstData, Mma, Type, Value};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::decisions::is_pure;
use crate::decisions::residents::{N_PASSING, product};
use crate::lower::Lower;
use crate::ops::Val;

/// The operands of a product.
struct Operands<'a> {
    a: &'a [Value],
    b: &'a [Value],
    c: &'a [Value],
    further: &'a [Value],
}

impl<'a> Operands<'a> {
    fn of(mma: &Mma, args: &'a [Value]) -> Operands<'a> {
        let (a, rest) = args[..mma.n_args()].split_at(mma.a_registers());
        let (b, rest) = rest.split_at(mma.b_registers());
        let (c, further) = rest.split_at(mma.c_registers());
        Operands { a, b, c, further }
    }
}

/// Products that become one call.
struct Group {
    mma: Mma,
    /// Each with its operands and results.
    products: Vec<(Vec<Value>, Vec<Value>)>,
    /// The different factors.
    a: Vec<Vec<Value>>,
    b: Vec<Vec<Value>>,
    /// Other instructions between them, which can come before all of them.
    early: Vec<Inst>,
    /// How many instructions these are.
    n_insts: usize,
    /// The blocks of these instructions.
    blocks: SmallVec<[Block; 4]>,
}

impl Group {
    fn writes(&self, value: Value) -> bool {
        self.products
            .iter()
            .any(|(_, results)| results.contains(&value))
    }
}

/// Where a factor is among others; behind them if it is a new one.
fn place(factors: &[Vec<Value>], factor: &[Value]) -> usize {
    let found = factors.iter().position(|other| other == factor);
    found.unwrap_or(factors.len())
}

impl Lower<'_, '_> {
    /// Emits the products at the start of `insts` and what is between them, also in nodes that
    /// continue this one. Returns how many instructions these are: none if the first is no such
    /// product.
    pub(super) fn emit_products(&mut self, block: Block, insts: &[Inst]) -> usize {
        let Some(group) = self.group(block, insts) else {
            return 0;
        };
        self.emit_in_order(&group.early);
        self.loc(self.func.insts[insts[0]].loc);
        for &result in group.products.iter().flat_map(|(_, results)| results) {
            self.take_from_home_of(result, &group.blocks);
        }
        let mut passing = FxHashMap::default();
        let a: Vec<Offsets> = group
            .a
            .iter()
            .map(|a| self.offsets(a, &mut passing))
            .collect();
        let b: Vec<Offsets> = group
            .b
            .iter()
            .map(|b| self.offsets(b, &mut passing))
            .collect();
        let mut products = Vec::new();
        for (args, results) in &group.products {
            let operands = Operands::of(&group.mma, args);
            let c = self.offsets(operands.c, &mut passing);
            let further = self.offsets(operands.further, &mut passing);
            let mut d = [0; MOST_REGISTERS];
            for (offset, &result) in d.iter_mut().zip(results) {
                *offset = match self.decided.residents.home(result) {
                    Some(home) => home,
                    None => self.passing_place(result, &mut passing).0,
                };
                // A product that is added to it reads it where it is.
                self.available.at_home.insert(result);
            }
            products.push(Product {
                a: place(&group.a, operands.a),
                b: place(&group.b, operands.b),
                c,
                further: std::array::from_fn::<u32, MOST_FURTHER, _>(|n| further[n]),
                d,
            });
        }
        let products = Products::new(group.mma, a, b, products);
        let products = self.b.kept_products(products);
        let lanes = match self.unless_full() {
            None => self.b.ins().iconst(types::I64, 0xffff_ffff),
            Some(_) => {
                let bits = self.mask_as_bits();
                self.b.ins().uextend(types::I64, bits)
            }
        };
        let frame = self.gang_frame();
        self.b
            .call_helper(Helper::Products, &[products, lanes, frame], None);
        for &result in group.products.iter().flat_map(|(_, results)| results) {
            if self.decided.residents.home(result).is_none() {
                let parts = self.load_home(passing[&result], Type::B32);
                self.def(result, Val::Varying(parts));
            }
        }
        group.n_insts
    }

    fn group(&self, block: Block, insts: &[Inst]) -> Option<Group> {
        let is_for_all = self.decided.residents.is_used() && self.lane.active.is_none();
        let mma = product(self.func, insts[0]).filter(|_| is_for_all)?;
        let mut group = Group {
            mma,
            products: Vec::new(),
            a: Vec::new(),
            b: Vec::new(),
            early: Vec::new(),
            n_insts: 0,
            blocks: SmallVec::new(),
        };
        let mut early = Vec::new();
        let mut n_passing = 0;
        let here = insts.iter().map(|&inst| (block, inst));
        let further = self.decided.blocks_behind(block).flat_map(|block| {
            let insts = self.decided.insts_after_wait(block).iter();
            insts.map(move |&inst| (block, inst))
        });
        for (idx, (block, inst)) in here.chain(further).enumerate() {
            let node = &self.func.insts[inst];
            if is_pure(&node.data) {
                let has_home = |&result: &Value| self.decided.residents.home(result).is_some();
                let args = node.data.args();
                if args.iter().any(|&arg| group.writes(arg)) || node.results.iter().any(has_home) {
                    break;
                }
                early.push(inst);
                continue;
            }
            if product(self.func, inst) != Some(mma)
                || !self.joins(&mut group, inst, &mut n_passing)
            {
                break;
            }
            group.early.append(&mut early);
            group.n_insts = idx + 1;
            if group.blocks.last() != Some(&block) {
                group.blocks.push(block);
            }
        }
        Some(group)
    }

    /// Adds a product, if there is room.
    fn joins(&self, group: &mut Group, inst: Inst, n_passing: &mut u32) -> bool {
        let node = &self.func.insts[inst];
        let InstData::Warp { args, .. } = &node.data else {
            return false;
        };
        let operands = Operands::of(&group.mma, args);
        let factors = operands.a.iter().chain(operands.b).chain(operands.further);
        if factors.copied().any(|value| group.writes(value)) {
            return false;
        }
        let all = args[..group.mma.n_args()].iter().chain(&node.results);
        let homeless = all.filter(|&&value| self.decided.residents.home(value).is_none());
        *n_passing += homeless.count() as u32;
        let (a, b) = (place(&group.a, operands.a), place(&group.b, operands.b));
        if *n_passing > N_PASSING || a == MOST_A || b == MOST_B {
            return false;
        }
        if a == group.a.len() {
            group.a.push(operands.a.to_vec());
        }
        if b == group.b.len() {
            group.b.push(operands.b.to_vec());
        }
        group.products.push((args.to_vec(), node.results.to_vec()));
        true
    }

    /// Where operands are, after they were brought there.
    pub(super) fn offsets(
        &mut self,
        values: &[Value],
        passing: &mut FxHashMap<Value, u32>,
    ) -> Offsets {
        let mut offsets = [0; MOST_REGISTERS];
        for (offset, &value) in offsets.iter_mut().zip(values) {
            *offset = match self.decided.residents.home(value) {
                Some(home) => {
                    if !self.is_at_home(value) {
                        self.bring_home(value);
                    }
                    home
                }
                None => {
                    let (at, is_new) = self.passing_place(value, passing);
                    if is_new {
                        let parts = self.parts(value);
                        self.store_home(at, &parts);
                    }
                    at
                }
            };
        }
        offsets
    }

    /// Where a value without a home is while products run, and whether it was not there before.
    fn passing_place(&self, value: Value, passing: &mut FxHashMap<Value, u32>) -> (u32, bool) {
        if let Some(&at) = passing.get(&value) {
            return (at, false);
        }
        let at = self.decided.residents.passing(passing.len() as u32);
        passing.insert(value, at);
        (at, true)
    }
}
