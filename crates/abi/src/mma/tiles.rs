//! Which products go through the multiplying loops together.
//!
//! Products that share A save loads of it, and sums that stay in registers of the processor along K
//! are loaded and stored once. Both need products that are not neighbors, so others are overtaken
//! where none of them reads or writes the same sums.

use ptxjit_ir::Mma;
use serde::{Deserialize, Serialize};

use super::Product;

/// Products that are computed together: one column of them, or two that share each A.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Tile {
    /// The first product of the column, whose C and D are those of all.
    pub(super) first: usize,
    /// The first product of the second column.
    pub(super) second: Option<usize>,
    /// The factors in the order along K: A, and B for each column.
    pub(super) factors: Vec<(usize, [usize; 2])>,
}

/// Tiles that have no more products along K have them all in the first-level cache.
pub(super) const MOST_ALONG_K: usize = 4;

/// Puts products into tiles.
pub(super) fn tiles(mma: &Mma, products: &[Product]) -> Vec<Tile> {
    let mut planner = Planner {
        mma,
        products,
        is_done: vec![false; products.len()],
    };
    let mut tiles = Vec::new();
    for first in 0..products.len() {
        if !planner.is_done[first] {
            tiles.push(planner.tile(first));
        }
    }
    tiles
}

struct Planner<'a> {
    mma: &'a Mma,
    products: &'a [Product],
    is_done: Vec<bool>,
}

impl Planner<'_> {
    fn tile(&mut self, first: usize) -> Tile {
        self.is_done[first] = true;
        let a = self.products[first].a;
        let has_same_a =
            |other: usize| self.products[other].a == a && !self.are_in_order(first, other);
        let second = match self.mma.further_registers() {
            0 => self.find(has_same_a),
            // What is behind C belongs to one product.
            _ => None,
        };
        if let Some(second) = second {
            self.is_done[second] = true;
        }
        let mut factors = Vec::new();
        let mut last = (first, second);
        loop {
            let b = |product: usize| self.products[product].b;
            let in_both = [b(last.0), b(last.1.unwrap_or(last.0))];
            factors.push((self.products[last.0].a, in_both));
            match self.next(last).filter(|_| factors.len() < MOST_ALONG_K) {
                Some(next) => last = next,
                None => break,
            }
            self.is_done[last.0] = true;
            if let Some(second) = last.1 {
                self.is_done[second] = true;
            }
        }
        Tile {
            first,
            second,
            factors,
        }
    }

    /// The products that are added to the sums of these, in place.
    fn next(&self, (first, second): (usize, Option<usize>)) -> Option<(usize, Option<usize>)> {
        if !self.mma.keeps_sums() {
            return None;
        }
        let n = self.mma.d_registers();
        let goes_on = |from: usize, to: usize| {
            let (from, to) = (&self.products[from], &self.products[to]);
            to.c[..n] == from.d[..n] && to.d[..n] == from.d[..n]
        };
        let next = self.find(|to| goes_on(first, to))?;
        let Some(second) = second else {
            return Some((next, None));
        };
        let a = self.products[next].a;
        let beside = self.find(|to| goes_on(second, to) && self.products[to].a == a)?;
        Some((next, Some(beside)))
    }

    /// The first product left that does not depend on others that are left.
    fn find(&self, is_asked: impl Fn(usize) -> bool) -> Option<usize> {
        let is_left = |&product: &usize| !self.is_done[product];
        let mut left = (0..self.products.len()).filter(is_left);
        left.find(|&product| {
            let mut before = (0..product).filter(is_left);
            is_asked(product) && !before.any(|other| self.are_in_order(other, product))
        })
    }

    /// Whether one of two products writes what the other one reads or writes.
    fn are_in_order(&self, one: usize, other: usize) -> bool {
        let (n_c, n_d) = (self.mma.c_registers(), self.mma.d_registers());
        let (one, other) = (&self.products[one], &self.products[other]);
        let meets = |d: &[u32], registers: &[u32]| d.iter().any(|at| registers.contains(at));
        meets(&one.d[..n_d], &other.c[..n_c])
            || meets(&other.d[..n_d], &one.c[..n_c])
            || meets(&one.d[..n_d], &other.d[..n_d])
    }
}
