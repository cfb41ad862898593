//! Hand-made graphs, and the promises of the forest on random ones.

use cranelift_entity::EntityRef;
use ptxjit_ir::Block;

use crate::analysis::loops::LoopForest;
use crate::analysis::{cfg, loops};
use crate::testing::{Rng, graph, random_edges};

fn forest(edges: &[Vec<usize>]) -> LoopForest {
    loops::run(&cfg::run(&graph(edges)))
}

/// Each loop as (header, parent's header, members, reducible), outer loops first.
fn describe(forest: &LoopForest) -> Vec<(usize, Option<usize>, Vec<usize>, bool)> {
    let row = |(id, data): (loops::Loop, &loops::LoopData)| {
        let parent = data
            .parent
            .map(|parent| forest.loops[parent].header.index());
        let mut members: Vec<usize> = forest
            .members(id)
            .iter()
            .map(|block| block.index())
            .collect();
        members.sort_unstable();
        (data.header.index(), parent, members, data.is_reducible)
    };
    forest.loops.iter().map(row).collect()
}

#[test]
fn straight_line_has_none() {
    let forest = forest(&[vec![1], vec![2], vec![]]);
    assert!(forest.loops.is_empty());
    assert_eq!(forest.order, [0, 1, 2].map(Block::new));
}

#[test]
fn nested_natural_loops() {
    // 1 heads the outer loop, 2 the inner one, which is a block that repeats itself.
    let forest = forest(&[vec![1], vec![4, 2], vec![2, 3], vec![1], vec![]]);
    let expected = [(1, None, vec![1, 2, 3], true), (2, Some(1), vec![2], true)];
    assert_eq!(describe(&forest), expected);
    // The exit comes after the loop, although it is the first successor.
    assert_eq!(forest.order, [0, 1, 2, 3, 4].map(Block::new));
    assert_eq!(forest.depth(Block::new(2)), 2);
    assert_eq!(forest.headed_by(Block::new(3)), None);
}

#[test]
fn a_loop_with_two_entries() {
    let forest = forest(&[vec![1, 2], vec![2], vec![1, 3], vec![]]);
    // The depth-first search takes last successors first, so it meets the loop at 2.
    assert_eq!(describe(&forest), [(2, None, vec![1, 2], false)]);
    assert!(forest.is_back_edge(Block::new(1), Block::new(2)));
    assert!(!forest.is_back_edge(Block::new(0), Block::new(1)));
}

#[test]
fn a_two_entry_loop_inside_another() {
    // The outer loop {1..5} is entered at 1 and 4, the inner one {2, 3} at both members.
    let edges = [
        vec![1, 4],
        vec![2, 3],
        vec![3],
        vec![2, 4],
        vec![5],
        vec![1, 6],
        vec![],
    ];
    let forest = forest(&edges);
    assert_eq!(
        describe(&forest),
        [
            (4, None, vec![1, 2, 3, 4, 5], false),
            (3, Some(4), vec![2, 3], false)
        ]
    );
}

#[test]
fn promises_hold_on_random_graphs() {
    let mut rng = Rng(3);
    for round in 0..1000 {
        let edges = random_edges(&mut rng, 2 + round % 15);
        let cfg = cfg::run(&graph(&edges));
        check_promises(&cfg, &loops::run(&cfg), &edges);
    }
}

fn check_promises(cfg: &cfg::Cfg, forest: &LoopForest, edges: &[Vec<usize>]) {
    assert_eq!(forest.order.len(), cfg.rpo.len());
    assert_eq!(forest.order[0], cfg.rpo[0]);
    for (i, &block) in forest.order.iter().enumerate() {
        assert_eq!(forest.position[block] as usize, i);
    }
    for (id, data) in &forest.loops {
        assert_eq!(forest.order[data.span.start], data.header, "{edges:?}");
        if let Some(parent) = data.parent {
            let outer = &forest.loops[parent];
            assert!(
                outer.span.start < data.span.start && data.span.end <= outer.span.end,
                "{edges:?}"
            );
            assert_eq!(data.depth, outer.depth + 1);
        }
        let enters = |&&block: &&Block| {
            block != data.header
                && cfg.preds[block]
                    .iter()
                    .any(|&pred| !forest.contains(id, pred))
        };
        assert_eq!(
            data.is_reducible,
            forest.members(id).iter().find(enters).is_none(),
            "{edges:?}"
        );
    }
    for &from in &cfg.rpo {
        for &to in &cfg.succs[from] {
            let is_to_header = forest.around(from).any(|id| forest.loops[id].header == to);
            assert_eq!(
                forest.is_back_edge(from, to),
                is_to_header && forest.position[to] <= forest.position[from]
            );
            assert!(
                !forest.is_back_edge(from, to) || is_to_header,
                "{from} to {to} in {edges:?}"
            );
        }
    }
}
