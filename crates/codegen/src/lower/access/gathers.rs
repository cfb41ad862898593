//! Gathers and scatters: loads and stores lane by lane, at addresses without a known pattern.

use cranelift_codegen::ir::{self as cl, InstBuilder};
use ptxjit_ir::Type;

use crate::lower::Lower;
use crate::ops::{
    Address, Parts, Place, Words, float_vector_type, int_type, push_each, vector_type,
};
use crate::wide::LaneInserts;

impl Lower<'_, '_> {
    /// Loads element by element, lane after lane. Each word is inserted into its vector at once:
    /// the scalar registers have no room for all of them.
    pub(super) fn load_each_lane(&mut self, words: Words, place: &Place) -> Vec<cl::Value> {
        let Words { ty, n } = words;
        let elems = match (ty, n) {
            (Type::B32, 4) => self.load_each_row4(place),
            (Type::B32 | Type::B64, 2) => self.load_each_row2(ty, place),
            _ => self.load_each_word(n, ty, place),
        };
        elems.into_iter().flatten().collect()
    }

    /// Ends the block behind vectors, which are passed on as parameters.
    fn pass_on(&mut self, elems: &[Parts]) {
        let from = self.b.current_block().expect("code is being emitted");
        let to = self.b.create_block();
        self.b.ins().jump(to, &[]);
        self.b.switch_to_block(to);
        let vectors = elems.iter().flatten().copied().collect();
        self.out
            .lane_inserts
            .push(LaneInserts { from, to, vectors });
    }

    fn load_each_word(&mut self, n: usize, ty: Type, place: &Place) -> Vec<Parts> {
        let per_part = if ty == Type::B64 { 2 } else { 4 };
        let mut elems = vec![Parts::new(); n];
        self.for_each_address(&place.address, |lower, lane, at| {
            for (k, parts) in elems.iter_mut().enumerate() {
                let offset = place.offset + (k as u32 * ty.bytes()) as i32;
                let x = lower.b.load_device(int_type(ty), at, offset);
                let x = lower.b.lane_scalar(ty, x);
                match (lane % per_part, parts.last_mut()) {
                    (0, _) | (_, None) => {
                        parts.push(lower.b.ins().scalar_to_vector(vector_type(ty), x));
                    }
                    (idx, Some(part)) => *part = lower.b.ins().insertlane(*part, x, idx as u8),
                }
            }
        });
        self.pass_on(&elems);
        elems
    }

    /// 16 bytes of each lane.
    fn load_each_row(&mut self, place: &Place) -> Parts {
        let mut rows = Parts::new();
        self.for_each_address(&place.address, |lower, _, at| {
            let row = vector_type(Type::B32);
            rows.push(lower.b.load_device(row, at, place.offset));
        });
        rows
    }

    /// Four words of each lane, as rows that are transposed.
    fn load_each_row4(&mut self, place: &Place) -> Vec<Parts> {
        let rows = self.load_each_row(place);
        let mut columns = vec![Parts::new(); 4];
        for rows in rows.chunks_exact(4) {
            let transposed = self.b.transpose4([rows[0], rows[1], rows[2], rows[3]]);
            push_each(&mut columns, transposed);
        }
        columns
    }

    /// Two words of each lane, as one.
    fn load_each_row2(&mut self, ty: Type, place: &Place) -> Vec<Parts> {
        let pairs = if ty == Type::B64 {
            self.load_each_row(place)
        } else {
            let wide = self.load_each_word(1, Type::B64, place);
            wide.into_iter().flatten().collect()
        };
        let mut columns = vec![Parts::new(); 2];
        for pair in pairs.chunks_exact(2) {
            push_each(&mut columns, self.b.unzip(ty, pair[0], pair[1]));
        }
        columns
    }

    /// Stores lane after lane: each lane's words together if they are two or four.
    pub(super) fn store_each_lane(&mut self, parts: &[Parts], ty: Type, place: &Place) {
        match (ty, parts) {
            (Type::B32, [a, b, c, d]) => {
                let rows = (0..self.b.quads())
                    .flat_map(|q| self.b.transpose4([a[q], b[q], c[q], d[q]]))
                    .collect();
                self.store_each_row(rows, place);
            }
            (Type::B64, [a, b]) => {
                let rows = (0..a.len())
                    .flat_map(|i| self.b.zip(ty, a[i], b[i]))
                    .collect();
                self.store_each_row(rows, place);
            }
            (Type::B32, [a, b]) => {
                let pairs = (0..a.len())
                    .flat_map(|i| self.b.zip(ty, a[i], b[i]))
                    .collect();
                self.store_each_word(&[pairs], Type::B64, place);
            }
            _ => self.store_each_word(parts, ty, place),
        }
    }

    fn store_each_row(&mut self, rows: Parts, place: &Place) {
        self.for_each_address(&place.address, |lower, lane, at| {
            lower.b.store_device(rows[lane], at, place.offset);
        });
    }

    fn store_each_word(&mut self, parts: &[Parts], ty: Type, place: &Place) {
        self.for_each_address(&place.address, |lower, lane, at| {
            for (k, parts) in parts.iter().enumerate() {
                let x = lower.word_to_store(ty, parts, lane);
                let offset = place.offset + (k as u32 * ty.bytes()) as i32;
                lower.b.store_device(x, at, offset);
            }
        });
    }

    /// A lane's word: as a float, which takes no instruction, where it is the lowest of a vector.
    fn word_to_store(&mut self, ty: Type, parts: &[cl::Value], lane: usize) -> cl::Value {
        let per_part = if ty == Type::B64 { 2 } else { 4 };
        let (part, nth) = (parts[lane / per_part], lane % per_part);
        match (ty, nth) {
            (Type::B32 | Type::B64, 0) => self.b.first_float(float_vector_type(ty), part),
            (Type::B64, _) => self.b.pick64(part, 1),
            _ => self.b.extract(ty, parts, lane),
        }
    }

    /// Calls `emit` with each lane's address.
    pub(super) fn for_each_address(
        &mut self,
        address: &Address,
        mut with: impl FnMut(&mut Self, usize, cl::Value),
    ) {
        if !matches!(address, Address::Lanes32(..)) {
            for lane in 0..self.b.lanes {
                let at = self.b.lane_address(address, lane);
                with(self, lane, at);
            }
            return;
        }
        for pair in 0..self.b.lanes / 2 {
            let addresses = self.b.lane_addresses_of_pair(address, pair);
            for (lane, at) in (2 * pair..).zip(addresses) {
                with(self, lane, at);
            }
        }
    }
}
