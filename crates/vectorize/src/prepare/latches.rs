//! Gives each loop one latch, that is, one backward edge.
//!
//! **Ensures**: lanes that continue to a loop's next iteration from several places meet in one
//! block first, so that values that are the same for all of them (a counter) stay uniform.
//!
//! ```text
//! block3: jump block1(v7, v1)          block3: jump block9(v1)
//! block4: jump block1(v7, v2)    =>    block4: jump block9(v2)
//!                                      block9(v8): jump block1(v7, v8)
//! ```

use ptxjit_ir::{Block, BlockCall, Function, Terminator, Value};

use crate::analysis::order::{Node, Order};

/// Gives each loop with several backward edges a block that takes them all.
pub(crate) fn run(func: &mut Function, order: &Order) {
    for node in &order.nodes {
        if let Node::LoopEnd(header) = *node {
            merge(func, order, header);
        }
    }
}

fn merge(func: &mut Function, order: &Order, header: Block) {
    let range = order.loop_range(header).expect("the header has a loop end");
    let members: Vec<Block> = order.nodes[range]
        .iter()
        .filter_map(|node| match *node {
            Node::Block(block) => Some(block),
            Node::LoopEnd(_) => None,
        })
        .collect();
    let back: Vec<Vec<Value>> = members
        .iter()
        .flat_map(|&block| {
            func.blocks[block]
                .term
                .targets()
                .into_iter()
                .filter(|call| call.block == header)
                .cloned()
                .collect::<Vec<_>>()
        })
        .map(|call| call.args.to_vec())
        .collect();
    if back.len() < 2 {
        return;
    }
    let latch = func.new_block();
    let n_params = func.blocks[header].params.len();
    let same: Vec<bool> = (0..n_params)
        .map(|idx| back.iter().all(|args| args[idx] == back[0][idx]))
        .collect();
    let mut args = smallvec::SmallVec::new();
    for idx in 0..n_params {
        args.push(if same[idx] {
            back[0][idx]
        } else {
            let ty = func.ty(func.blocks[header].params[idx]);
            func.add_param(latch, ty)
        });
    }
    func.blocks[latch].term = Terminator::Jump(BlockCall {
        block: header,
        args,
    });
    func.blocks[latch].term_loc = func.blocks[header].term_loc;
    for &block in &members {
        for call in func.blocks[block].term.targets_mut() {
            if call.block == header {
                call.block = latch;
                let mut keep = same.iter();
                call.args
                    .retain(|_| !*keep.next().expect("one argument per parameter"));
            }
        }
    }
}
