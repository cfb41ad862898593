//! Which values are held as packed sub-word vectors (`lower/state/subword.rs`).

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Function, InstData, InstNode, IntBinaryOp, IntUnaryOp, Space, Type, Value};
use ptxjit_vectorize::{Plan, SingleLane};

/// Which values are packed.
#[derive(Default)]
pub(crate) struct Packed {
    /// By the instruction that computes them.
    pub made: SecondaryMap<Value, bool>,
    /// In the variables that carry them between nodes; other values are widened for those.
    pub carried: SecondaryMap<Value, bool>,
}

/// Passes over a function, each of which may find more parameters whose arguments are packed.
const MOST_PASSES: usize = 4;

/// The values that are packed.
pub(crate) fn values(func: &Function, plan: &Plan) -> Packed {
    let finder = Finder { func, plan };
    let wanted = finder.wanted();
    let mut packed = Packed::default();
    for _ in 0..MOST_PASSES {
        packed.made = finder.made(&wanted, &packed.carried);
        let carried = finder.carried(&packed);
        if carried == packed.carried {
            return packed;
        }
        packed.carried = carried;
    }
    packed.made = finder.made(&wanted, &packed.carried);
    packed
}

type Values = SecondaryMap<Value, bool>;

struct Finder<'a> {
    func: &'a Function,
    plan: &'a Plan,
}

impl Finder<'_> {
    /// The results that are computed as packed vectors.
    fn made(&self, wanted: &Values, carried: &Values) -> Values {
        let mut made = Values::new();
        let blocks = self.func.blocks.keys();
        for block in blocks.filter(|&block| self.is_for_all(block)) {
            let mut here = carried.clone();
            for node in self.func.insts_in(block) {
                let [result] = node.results[..] else {
                    continue;
                };
                let is_subword =
                    self.plan.is_varying(result) && self.is_made_subword(node, wanted, &here);
                (here[result], made[result]) = (is_subword, is_subword);
            }
        }
        made
    }

    /// Whether a block runs for all lanes of its mask at once.
    fn is_for_all(&self, block: Block) -> bool {
        self.plan.single_lane[block] == SingleLane::No
    }

    /// The values that stay packed between nodes: those that are made so, and parameters all of
    /// whose varying arguments are. Lane loops keep what they pass on as quads.
    fn carried(&self, packed: &Packed) -> Values {
        let mut carried = packed.carried.clone();
        if !self.plan.lane_loops.is_empty() {
            return carried;
        }
        for block in self.func.blocks.keys() {
            for &result in self.func.results_in(block) {
                carried[result] |=
                    self.is_narrow(result) && packed.made[result] && self.plan.escapes[result];
            }
        }
        let args = self.packed_args(packed);
        for &param in self.func.blocks.values().flat_map(|data| &data.params) {
            let (is_packed, has_other) = args[param];
            carried[param] |= self.is_narrow(param) && is_packed && !has_other;
        }
        carried
    }

    /// Of each parameter: whether an argument is packed, and whether one prevents that.
    fn packed_args(&self, packed: &Packed) -> SecondaryMap<Value, (bool, bool)> {
        let mut args: SecondaryMap<Value, (bool, bool)> = SecondaryMap::new();
        for (block, data) in self.func.blocks.iter() {
            for call in data.term.targets() {
                let for_all = self.is_for_all(block) && self.is_for_all(call.block);
                let params = &self.func.blocks[call.block].params;
                for (&param, &arg) in params.iter().zip(&call.args) {
                    let (is_some_packed, has_other) = &mut args[param];
                    let is_packed = packed.made[arg] || packed.carried[arg];
                    *is_some_packed |= is_packed;
                    *has_other |= self.plan.is_varying(arg) && !is_packed || !for_all;
                }
            }
        }
        args
    }

    /// Whether packed vectors of a value are narrower than others, and filled.
    fn is_narrow(&self, value: Value) -> bool {
        let ty = self.func.ty(value);
        matches!(ty, Type::B8 | Type::B16) && self.fills(ty) && self.plan.is_varying(value)
    }
    /// Whether all lanes fill vectors.
    fn fills(&self, ty: Type) -> bool {
        match ty {
            Type::B8 => self.plan.gang.is_multiple_of(16),
            Type::B16 => self.plan.gang.is_multiple_of(8),
            Type::B1 | Type::B32 | Type::B64 => false,
        }
    }

    /// The values that have a use that prefers them packed, in a block or as an argument of one.
    fn wanted(&self) -> Values {
        let blocks: Vec<Block> = self.plan.order.blocks().collect();
        let mut wanted = Values::new();
        for _ in 0..MOST_PASSES {
            let before = wanted.clone();
            let last_first = blocks.iter().rev();
            last_first.for_each(|&block| self.wanted_by_block(block, &mut wanted));
            if before == wanted {
                break;
            }
        }
        wanted
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "others want 32 bits")]
    fn wanted_by_block(&self, block: Block, wanted: &mut Values) {
        for (param, arg) in self.func.passed_by(block) {
            wanted[arg] |= wanted[param];
        }
        for node in self.func.insts_in(block).rev() {
            match node.data {
                InstData::Store { ty, ref args, .. } if self.fills(ty) && args.len() == 1 => {
                    wanted[args[0]] = true
                }
                InstData::Resize { from, to, arg, .. } if self.fills(to) => {
                    wanted[arg] |= from != Type::B32 && wanted[node.results[0]];
                }
                InstData::Compare { ty, args, .. } if self.fills(ty) => {
                    args.iter().for_each(|&arg| wanted[arg] = true)
                }
                ref data if self.is_subword_op(data) => {
                    data.args().into_iter().for_each(|arg| wanted[arg] = true)
                }
                _ => {}
            }
        }
    }

    /// Operations that exist for sub-word lanes.
    #[expect(clippy::wildcard_enum_match_arm, reason = "others have no packed form")]
    fn is_subword_op(&self, data: &InstData) -> bool {
        match *data {
            InstData::IntUnary { op, ty, .. } => {
                let has_form = matches!(op, IntUnaryOp::Not | IntUnaryOp::Neg | IntUnaryOp::Abs);
                self.fills(ty) && has_form
            }
            InstData::IntBinary { op, ty, args } if self.fills(ty) => match op {
                IntBinaryOp::Add
                | IntBinaryOp::Sub
                | IntBinaryOp::And
                | IntBinaryOp::Or
                | IntBinaryOp::Xor => true,
                IntBinaryOp::Smin | IntBinaryOp::Smax | IntBinaryOp::Umin | IntBinaryOp::Umax => {
                    true
                }
                IntBinaryOp::Mul => ty == Type::B16,
                IntBinaryOp::Shl => ty == Type::B16 && self.is_count(ty, args[1]),
                IntBinaryOp::Ushr | IntBinaryOp::Sshr => self.is_count(ty, args[1]),
                _ => false,
            },
            InstData::Select { ty, .. } => self.fills(ty),
            _ => false,
        }
    }

    fn is_count(&self, ty: Type, count: Value) -> bool {
        let count = self.func.as_const(count);
        count.is_some_and(|count| count < u64::from(ty.bits()))
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the rest are asked as ops")]
    fn is_made_subword(&self, node: &InstNode, wanted: &Values, here: &Values) -> bool {
        let is_wanted = wanted[node.results[0]];
        let any_here = |args: &[Value]| args.iter().any(|&arg| here[arg]);
        match node.data {
            InstData::Load { ty, space, .. } | InstData::MaskedLoad { ty, space, .. } => {
                self.fills(ty) && is_wanted && !matches!(space, Space::Param | Space::Local)
            }
            InstData::Resize { to, from, arg, .. } if self.fills(to) => match from {
                Type::B8 | Type::B16 => here[arg],
                Type::B1 | Type::B32 => is_wanted,
                Type::B64 => false,
            },
            InstData::Compare { ty, args, .. } if self.fills(ty) => any_here(&args),
            InstData::IntBinary {
                op: IntBinaryOp::And | IntBinaryOp::Or | IntBinaryOp::Xor,
                ty: Type::B1,
                args,
            } => any_here(&args),
            InstData::IntUnary {
                op: IntUnaryOp::Not,
                ty: Type::B1,
                arg,
            } => here[arg],
            InstData::Select { args, .. } => {
                self.is_subword_op(&node.data) && (is_wanted || any_here(&args))
            }
            ref data => self.is_subword_op(data) && any_here(&data.args()),
        }
    }
}
