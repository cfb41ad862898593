//! Products of matrices that become one call.

use ptxjit_abi::mma::{MOST_A, MOST_B};
use ptxjit_ir::{Block, Inst, InstData, Mma, Value};
use smallvec::SmallVec;

use super::residents::{N_PASSING, product};
use super::{Assumed, Decisions, is_pure};

/// The operands of a product.
pub(crate) struct Operands<'a> {
    pub a: &'a [Value],
    pub b: &'a [Value],
    pub c: &'a [Value],
    pub further: &'a [Value],
}

impl<'a> Operands<'a> {
    pub(crate) fn of(mma: &Mma, args: &'a [Value]) -> Operands<'a> {
        let (a, rest) = args[..mma.n_args()].split_at(mma.a_registers());
        let (b, rest) = rest.split_at(mma.b_registers());
        let (c, further) = rest.split_at(mma.c_registers());
        Operands { a, b, c, further }
    }
}

/// Products that become one call.
pub(crate) struct Group {
    pub mma: Mma,
    /// Each with its operands and results.
    pub products: Vec<(Vec<Value>, Vec<Value>)>,
    /// The different factors.
    pub a: Vec<Vec<Value>>,
    pub b: Vec<Vec<Value>>,
    /// Other instructions between them, which can come before all of them.
    pub early: Vec<Inst>,
    /// How many instructions these are.
    pub n_insts: usize,
    /// The first product.
    pub first: Inst,
    /// The blocks of these instructions.
    pub blocks: SmallVec<[Block; 4]>,
}

impl Group {
    fn writes(&self, value: Value) -> bool {
        self.products
            .iter()
            .any(|(_, results)| results.contains(&value))
    }
}

/// Where a factor is among others; behind them if it is a new one.
pub(crate) fn place(factors: &[Vec<Value>], factor: &[Value]) -> usize {
    let found = factors.iter().position(|other| other == factor);
    found.unwrap_or(factors.len())
}

impl Decisions<'_> {
    /// The products at the start of `insts`, with what is between them, also in nodes that continue
    /// this one; `None` if the first is no such product.
    pub(super) fn group(
        &self,
        block: Block,
        insts: &[Inst],
        assumed: Assumed<'_>,
    ) -> Option<Group> {
        let is_for_all = self.residents.is_used() && !assumed.one_lane;
        let mma = product(self.func, insts[0]).filter(|_| is_for_all)?;
        let mut group = Group {
            mma,
            products: Vec::new(),
            a: Vec::new(),
            b: Vec::new(),
            early: Vec::new(),
            n_insts: 0,
            first: insts[0],
            blocks: SmallVec::new(),
        };
        let mut early = Vec::new();
        let mut n_passing = 0;
        let here = insts.iter().map(|&inst| (block, inst));
        let further = self.blocks_behind(block).flat_map(|block| {
            let insts = self.insts_after_wait(block).iter();
            insts.map(move |&inst| (block, inst))
        });
        for (idx, (block, inst)) in here.chain(further).enumerate() {
            let node = &self.func.insts[inst];
            if is_pure(&node.data) {
                let has_home = |&result: &Value| self.residents.home(result).is_some();
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
        let homeless = all.filter(|&&value| self.residents.home(value).is_none());
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
}
