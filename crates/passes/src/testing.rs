//! Help for unit tests: functions from edge lists, random ones, and an interpreter to compare them.

pub(crate) mod exec;
pub(crate) mod random;
pub(crate) mod text;

use ptxjit_ir::{
    Block, BlockCall, Function, FunctionBuilder, FunctionKind, InstData, SpecialReg, Terminator,
    Type,
};

use cranelift_entity::EntityRef;

/// A kernel whose block `i` goes to the blocks `edges[i]`; conditions are unknown.
pub(crate) fn graph(edges: &[Vec<usize>]) -> Function {
    let mut func = Function::new("graph", FunctionKind::Kernel, Vec::new());
    let mut b = FunctionBuilder::new(&mut func);
    for _ in 1..edges.len() {
        b.new_block();
    }
    for (i, succs) in edges.iter().enumerate() {
        b.switch_to(Block::new(i));
        let calls: Vec<BlockCall> = succs
            .iter()
            .map(|&succ| BlockCall::new(Block::new(succ)))
            .collect();
        let term = match calls.as_slice() {
            [] => Terminator::Exit,
            [to] => Terminator::Jump(to.clone()),
            [then_, else_] => {
                let cond = b.ins(
                    InstData::Sreg {
                        sreg: SpecialReg::IsExplicitCluster,
                    },
                    Type::B1,
                );
                Terminator::Brif {
                    cond,
                    then_: then_.clone(),
                    else_: else_.clone(),
                }
            }
            [targets @ .., default] => {
                let index = b.ins(
                    InstData::Sreg {
                        sreg: SpecialReg::TidX,
                    },
                    Type::B32,
                );
                Terminator::Switch {
                    index,
                    targets: targets.to_vec(),
                    default: default.clone(),
                }
            }
        };
        b.terminate(term);
    }
    b.seal_all();
    func
}

/// Random edges among `n` blocks, all sorts of loops included.
pub(crate) fn random_edges(rng: &mut Rng, n: usize) -> Vec<Vec<usize>> {
    (0..n)
        .map(|_| (0..rng.below(4)).map(|_| rng.below(n)).collect())
        .collect()
}

/// A small linear congruential generator: tests must not depend on chance.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        self.0 >> 33
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}
