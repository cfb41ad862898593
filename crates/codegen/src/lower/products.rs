//! Products of matrices for which no lane waits.
//!
//! Neighboring products of one form become one call, which reads and writes the frame: what the
//! runtime function knows about all of them at once, as which share a factor, is worth more than
//! what stays in registers between two of them. Their values have homes in the frame (`homes`).

use cranelift_codegen::ir::{InstBuilder, types};
use ptxjit_abi::mma::{MOST_FURTHER, MOST_REGISTERS, Offsets, Product, Products};
use ptxjit_abi::object::Helper;
use ptxjit_ir::{Type, Value};
use rustc_hash::FxHashMap;

use crate::decisions::products::{Group, Operands, place};
use crate::lower::Lower;
use crate::ops::Val;

impl Lower<'_, '_> {
    /// Emits products as one call.
    pub(super) fn emit_products(&mut self, group: &Group) {
        self.loc(self.func.insts[group.first].loc);
        for &result in group.products.iter().flat_map(|(_, results)| results) {
            self.take_from_home_of(result, &group.blocks);
        }
        let mut passing = FxHashMap::default();
        let mut offsets = |factors: &[Vec<Value>]| -> Vec<Offsets> {
            let each = factors.iter();
            each.map(|factor| self.offsets(factor, &mut passing))
                .collect()
        };
        let (a, b) = (offsets(&group.a), offsets(&group.b));
        let products = 0..group.products.len();
        let products = products.map(|nth| self.placed_product(group, nth, &mut passing));
        let products = Products::new(group.mma, a, b, products.collect());
        let products = self.b.kept_products(products);
        let lanes = match self.unless_full() {
            None => self.b.ins().iconst(types::I64, 0xffff_ffff),
            Some(_) => {
                let bits = self.mask_as_bits();
                self.b.ins().uextend(types::I64, bits)
            }
        };
        let args = [products, lanes, self.gang_frame()];
        self.b.call_helper(Helper::Products, &args, None);
        for &result in group.products.iter().flat_map(|(_, results)| results) {
            if self.decided.residents.home(result).is_none() {
                let parts = self.load_home(passing[&result], Type::B32);
                self.def(result, Val::Varying(parts));
            }
        }
    }

    /// One of the products: where its operands are, and its results will be.
    fn placed_product(
        &mut self,
        group: &Group,
        nth: usize,
        passing: &mut FxHashMap<Value, u32>,
    ) -> Product {
        let (args, results) = &group.products[nth];
        let operands = Operands::of(&group.mma, args);
        let c = self.offsets(operands.c, passing);
        let further = self.offsets(operands.further, passing);
        let mut d = [0; MOST_REGISTERS];
        for (offset, &result) in d.iter_mut().zip(results) {
            *offset = match self.decided.residents.home(result) {
                Some(home) => home,
                None => self.passing_place(result, passing).0,
            };
            // A product that is added to it reads it where it is.
            self.available.at_home.insert(result);
        }
        Product {
            a: place(&group.a, operands.a),
            b: place(&group.b, operands.b),
            c,
            further: std::array::from_fn::<u32, MOST_FURTHER, _>(|n| further[n]),
            d,
        }
    }

    /// Where operands are, after they were brought there.
    pub(super) fn offsets(
        &mut self,
        values: &[Value],
        passing: &mut FxHashMap<Value, u32>,
    ) -> Offsets {
        let mut offsets = [0; MOST_REGISTERS];
        for (offset, &value) in offsets.iter_mut().zip(values) {
            *offset = match self.decided.residents.home(value) {
                Some(home) => {
                    if !self.is_at_home(value) {
                        self.bring_home(value);
                    }
                    home
                }
                None => {
                    let (at, is_new) = self.passing_place(value, passing);
                    if is_new {
                        let parts = self.parts(value);
                        self.store_home(at, &parts);
                    }
                    at
                }
            };
        }
        offsets
    }

    /// Where a value without a home is while products run, and whether it was not there before.
    fn passing_place(&self, value: Value, passing: &mut FxHashMap<Value, u32>) -> (u32, bool) {
        if let Some(&at) = passing.get(&value) {
            return (at, false);
        }
        let at = self.decided.residents.passing(passing.len() as u32);
        passing.insert(value, at);
        (at, true)
    }
}
