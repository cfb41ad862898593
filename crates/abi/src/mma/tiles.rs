//! Which products go through the multiplying loops together.
//!
//! Products that share A save loads of it, and sums that stay in registers of the processor along K
//! are loaded and stored once. Both need products that are not neighbors, so others are overtaken
//! where none of them reads or writes the same sums.

use ptxjit_ir::Mma;
use serde::{Deserialize, Serialize};

use super::Product;

/// Products that are computed together: columns that share each A.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Tile {
    /// The first product of each column, whose C and D are those of all.
    pub(super) columns: Vec<usize>,
    /// The factors in the order along K: A, and B for each column.
    pub(super) factors: Vec<(usize, [usize; MOST_COLUMNS])>,
}

/// Tiles that have no more products along K have them all in the first-level cache.
pub(super) const MOST_ALONG_K: usize = 4;

/// Columns of a tile at most: the registers of a processor have room for the sums of so many.
pub(super) const MOST_COLUMNS: usize = 2;

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

/// Columns that the loops take together of products of a form.
fn most_columns(mma: &Mma) -> usize {
    match mma.further_registers() {
        0 => MOST_COLUMNS,
        // What is behind C belongs to one product.
        _ => 1,
    }
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
        let mut columns = vec![first];
        while columns.len() < most_columns(self.mma) {
            let fits = |other: usize| {
                let is_free = |&column: &usize| !self.are_in_order(column, other);
                self.products[other].a == a && columns.iter().all(is_free)
            };
            let Some(column) = self.find(fits) else {
                break;
            };
            self.is_done[column] = true;
            columns.push(column);
        }
        let mut factors = Vec::new();
        let mut last = columns.clone();
        loop {
            let mut b = [0; MOST_COLUMNS];
            for (b, &product) in b.iter_mut().zip(&last) {
                *b = self.products[product].b;
            }
            factors.push((self.products[last[0]].a, b));
            if factors.len() == MOST_ALONG_K {
                break;
            }
            let Some(next) = self.next(&last) else {
                break;
            };
            last = next;
        }
        Tile { columns, factors }
    }

    /// The products that are added to the sums of these, in place, and share an A again.
    fn next(&mut self, last: &[usize]) -> Option<Vec<usize>> {
        if !self.mma.keeps_sums() {
            return None;
        }
        let n = self.mma.d_registers();
        let mut next: Vec<usize> = Vec::new();
        for &column in last {
            let goes_on = |to: usize| {
                let (from, to) = (&self.products[column], &self.products[to]);
                let a = next.first().map_or(to.a, |&first| self.products[first].a);
                to.a == a && to.c[..n] == from.d[..n] && to.d[..n] == from.d[..n]
            };
            next.push(self.find(goes_on)?);
        }
        for &product in &next {
            self.is_done[product] = true;
        }
        Some(next)
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
