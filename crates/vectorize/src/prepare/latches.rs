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

use ptxjit_ir::{Block, BlockCall, Function, Terminator};

use crate::analysis::order::Order;

/// Gives each loop with several backward edges a block that takes them all.
pub(crate) fn run(func: &mut Function, order: &Order) {
    for header in order.headers() {
        merge(func, order, header);
    }
}

fn merge(func: &mut Function, order: &Order, header: Block) {
    let range = order.loop_range(header).expect("the header has a loop end");
    let members: Vec<Block> = order.blocks_in(range).collect();
    let blocks = members.iter();
    let calls = blocks.flat_map(|&block| func.blocks[block].term.targets());
    let back: Vec<BlockCall> = calls.filter(|call| call.block == header).cloned().collect();
    if back.len() < 2 {
        return;
    }
    let latch = func.new_block();
    let is_same = |idx: usize| back.iter().all(|call| call.args[idx] == back[0].args[idx]);
    let same: Vec<bool> = (0..back[0].args.len()).map(is_same).collect();
    let mut to_header = back[0].clone();
    for (idx, arg) in to_header.args.iter_mut().enumerate() {
        if !same[idx] {
            *arg = func.add_param(latch, func.ty(func.blocks[header].params[idx]));
        }
    }
    func.blocks[latch].term = Terminator::Jump(to_header);
    func.blocks[latch].term_loc = func.blocks[header].term_loc;
    for &block in &members {
        for call in func.blocks[block].term.targets_mut() {
            if call.block == header {
                call.block = latch;
                let mut same = same.iter();
                let args = &mut call.args;
                args.retain(|_| !*same.next().expect("one argument per parameter"));
            }
        }
    }
}
