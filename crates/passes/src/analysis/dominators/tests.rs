//! Both trees against the definition: `a` dominates `b` if without `a` there is no way to `b`.

use cranelift_entity::EntityRef;
use ptxjit_ir::Block;

use crate::analysis::{cfg, dominators};
use crate::testing::{Rng, graph, random_edges};

fn reach(edges: &[Vec<usize>], from: &[usize], without: usize) -> Vec<bool> {
    let mut seen = vec![false; edges.len()];
    let mut work: Vec<usize> = from
        .iter()
        .copied()
        .filter(|&node| node != without)
        .collect();
    while let Some(node) = work.pop() {
        if !std::mem::replace(&mut seen[node], true) {
            work.extend(edges[node].iter().copied().filter(|&succ| succ != without));
        }
    }
    seen
}

#[test]
fn dominators_follow_the_definition() {
    let mut rng = Rng(1);
    for round in 0..400 {
        let edges = random_edges(&mut rng, 2 + round % 12);
        let func = graph(&edges);
        let dom = dominators::run(&cfg::run(&func));
        let all = reach(&edges, &[0], usize::MAX);
        for a in 0..edges.len() {
            let without = reach(&edges, &[0], a);
            for b in 0..edges.len() {
                let expected = all[a] && all[b] && !without[b];
                assert_eq!(
                    dom.dominates(Block::new(a), Block::new(b)),
                    expected,
                    "{a} {b} in {edges:?}"
                );
            }
        }
    }
}

#[test]
fn post_dominators_follow_the_definition() {
    let mut rng = Rng(2);
    let mut n_checked = 0;
    for round in 0..600 {
        let edges = random_edges(&mut rng, 2 + round % 12);
        let all = reach(&edges, &[0], usize::MAX);
        let mut back = vec![Vec::new(); edges.len()];
        for (from, succs) in edges.iter().enumerate().filter(|&(from, _)| all[from]) {
            succs.iter().for_each(|&to| back[to].push(from));
        }
        let ends: Vec<usize> = (0..edges.len())
            .filter(|&node| all[node] && edges[node].is_empty())
            .collect();
        let ending = reach(&back, &ends, usize::MAX);
        if (0..edges.len()).any(|node| all[node] && !ending[node]) {
            continue;
        }
        n_checked += 1;
        let func = graph(&edges);
        let dom = dominators::run_post(&func, &cfg::run(&func));
        for a in 0..edges.len() {
            let without = reach(&back, &ends, a);
            for b in 0..edges.len() {
                let expected = all[a] && all[b] && !without[b];
                assert_eq!(
                    dom.dominates(Block::new(a), Block::new(b)),
                    expected,
                    "{a} {b} in {edges:?}"
                );
            }
        }
    }
    assert!(n_checked > 50, "{n_checked}");
}

#[test]
fn endless_loops_have_post_dominators() {
    let func = graph(&[vec![1, 3], vec![2], vec![1], vec![]]);
    let dom = dominators::run_post(&func, &cfg::run(&func));
    assert!(dom.dominates(Block::new(2), Block::new(1)));
    assert_eq!(dom.idom(Block::new(0)), None);
    assert_eq!(
        dom.common(Block::new(1), Block::new(2)),
        Some(Block::new(2))
    );
    assert_eq!(dom.common(Block::new(1), Block::new(3)), None);
}
