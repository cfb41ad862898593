//! Matrices in the registers of a whole warp: products by a runtime function, and transposed tiles.

use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_abi::mma::{DECODED_A, DECODED_B, register_stride};
use ptxjit_abi::object::Helper;
use ptxjit_ir::{Inst, InstData, Type, Value, WarpOp};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::decisions::products::Operands;
use crate::lower::Lower;
use crate::ops::{Parts, Val, vector_type};

/// Bytes of a cached fragment: four registers.
const PLACE: usize = 512;
/// Bytes of the largest fragment: eight registers of f64.
const LARGEST: usize = 8 * register_stride(Type::B64);

/// What a fragment is to a product.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
enum Role {
    A,
    B,
    C,
    Further,
    D,
}

impl Role {
    /// Bytes in front of a fragment, where the product keeps what it decodes.
    const fn front(self) -> usize {
        match self {
            Role::A => DECODED_A,
            Role::B => DECODED_B,
            Role::C | Role::Further | Role::D => 0,
        }
    }

    /// The stock of places that serves it: what one product leaves in D is C of the next.
    const fn stock(self) -> usize {
        match self {
            Role::A => 0,
            Role::B => 1,
            Role::C | Role::Further | Role::D => 2,
        }
    }

    /// Cached fragments: a bound on the frame. What a warp's tile of sums needs, and the factors of
    /// a few steps along K.
    const fn n_places(self) -> usize {
        match self {
            Role::A => 16,
            Role::B => 32,
            Role::C | Role::Further | Role::D => 64,
        }
    }
}

/// A cached fragment's stock and number in it.
type Place = (usize, usize);

/// Places for fragments in one kind of role.
#[derive(Default)]
struct Stock {
    /// The values in each place, valid for the code that follows.
    known: FxHashMap<Vec<Value>, usize>,
    places: Vec<cl::StackSlot>,
    /// The place that is reused next.
    next: usize,
}

/// Fragments cached in memory, where products read and write them: many products share one, and
/// sums go from one product to the next.
#[derive(Default)]
pub(in crate::lower) struct Fragments {
    stocks: [Stock; 3],
    /// Places that were reused since the last side path began.
    taken: FxHashSet<Place>,
    /// Places for fragments that are not cached.
    passing: FxHashMap<Role, cl::StackSlot>,
}

impl Fragments {
    /// Drops the cache, since other predecessors may lead here.
    pub(in crate::lower) fn forget(&mut self) {
        for stock in &mut self.stocks {
            stock.known.clear();
        }
    }

    /// Before code on a side path: the places reused so far, for [`Fragments::come_back`].
    pub(in crate::lower) fn enter_branch(&mut self) -> FxHashSet<Place> {
        std::mem::take(&mut self.taken)
    }

    /// Behind the side path: values that it cached may be absent, and the places that it reused are
    /// lost.
    pub(in crate::lower) fn come_back(&mut self, before: FxHashSet<Place>) {
        for (number, stock) in self.stocks.iter_mut().enumerate() {
            let taken = &self.taken;
            stock
                .known
                .retain(|_, place| !taken.contains(&(number, *place)));
        }
        self.taken.extend(before);
    }
}

impl Lower<'_, '_> {
    /// D for the lanes of `group`.
    pub(in crate::lower) fn mma_by_call(&mut self, inst: Inst, group: cl::Value) -> Vec<Val> {
        let node = &self.func.insts[inst];
        let (data, results) = (node.data.clone(), node.results.to_vec());
        let InstData::Warp {
            op: WarpOp::Mma(mma),
            ref args,
            ..
        } = data
        else {
            unreachable!("only products come here");
        };
        let ty = mma.register();
        let Operands { a, b, c, further } = Operands::of(&mma, args);
        let (a, b) = ((Role::A, a), (Role::B, b));
        let operands = [a, b, (Role::C, c), (Role::Further, further)];
        let mut busy = Vec::new();
        let [a, b, c, further] =
            operands.map(|(role, values)| self.fragment(role, values, ty, &mut busy));
        let (slot, _) = self.place_of(Role::D, &results, ty, &mut busy);
        let d = self.b.ins().stack_addr(types::I64, slot, 0);
        let data = self.b.kept_inst(&data);
        let group = self.b.ins().uextend(types::I64, group);
        self.b
            .call_helper(Helper::Mma, &[data, group, a, b, c, further, d], None);
        let registers = 0..mma.d_registers();
        registers.map(|n| self.load_register(n, ty, d)).collect()
    }

    /// Where an operand is, after it was brought there.
    fn fragment(
        &mut self,
        role: Role,
        values: &[Value],
        ty: Type,
        busy: &mut Vec<Place>,
    ) -> cl::Value {
        if values.is_empty() {
            return self.b.ins().iconst(types::I64, 0);
        }
        let (slot, is_there) = self.place_of(role, values, ty, busy);
        let front = role.front() as i32;
        let at = self.b.ins().stack_addr(types::I64, slot, front);
        if !is_there {
            self.store_fragment(values, ty, at);
        }
        if !is_there && front != 0 {
            let nothing = self.b.ins().iconst(types::I32, 0);
            self.b.store_own(nothing, at, -4);
        }
        at
    }

    /// One register of a fragment.
    fn load_register(&mut self, n: usize, ty: Type, from: cl::Value) -> Val {
        let parts = (0..self.b.n_parts(ty)).map(|i| {
            let at = (register_stride(ty) * n + 16 * i) as i32;
            self.b.load_own(vector_type(ty), from, at)
        });
        Val::Varying(parts.collect())
    }

    fn store_fragment(&mut self, values: &[Value], ty: Type, to: cl::Value) {
        for (n, &value) in values.iter().enumerate() {
            for (i, part) in self.parts(value).into_iter().enumerate() {
                let at = register_stride(ty) * n + 16 * i;
                self.b.store_own(part, to, at as i32);
            }
        }
    }

    /// A place for a fragment, and whether it holds the fragment already. `busy` are the places
    /// that the product uses.
    ///
    /// Only code for whole warps caches fragments.
    fn place_of(
        &mut self,
        role: Role,
        values: &[Value],
        ty: Type,
        busy: &mut Vec<Place>,
    ) -> (cl::StackSlot, bool) {
        let size = register_stride(ty) * values.len();
        if size > PLACE || self.unless_full().is_some() {
            if let Some(&slot) = self.slots.fragments.passing.get(&role) {
                return (slot, false);
            }
            let slot = self.fragment_slot(role.front() + LARGEST);
            self.slots.fragments.passing.insert(role, slot);
            return (slot, false);
        }
        let number = role.stock();
        let stock = &mut self.slots.fragments.stocks[number];
        if let Some(&place) = stock.known.get(values) {
            busy.push((number, place));
            return (stock.places[place], true);
        }
        let mut place = stock.next;
        while busy.contains(&(number, place)) {
            place = (place + 1) % role.n_places();
        }
        stock.next = (place + 1) % role.n_places();
        while self.slots.fragments.stocks[number].places.len() <= place {
            let slot = self.fragment_slot(role.front() + PLACE);
            self.slots.fragments.stocks[number].places.push(slot);
        }
        let stock = &mut self.slots.fragments.stocks[number];
        stock.known.retain(|_, other| *other != place);
        stock.known.insert(values.to_vec(), place);
        self.slots.fragments.taken.insert((number, place));
        busy.push((number, place));
        (self.slots.fragments.stocks[number].places[place], false)
    }

    fn fragment_slot(&mut self, size: usize) -> cl::StackSlot {
        let data = cl::StackSlotData::new(cl::StackSlotKind::ExplicitSlot, size as u32, 4);
        self.b.create_sized_stack_slot(data)
    }

    /// The columns of a tile of 8 by 8 halves, whose rows are the vectors of a value.
    pub(in crate::lower) fn transpose_tile(&mut self, tile: Value) -> Parts {
        const LOW: [u8; 16] = [0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23];
        let rows = self.parts(tile);
        // Interleaves halves of two rows, then of four, then of eight.
        let pairs: Vec<[cl::Value; 2]> = rows
            .chunks(2)
            .map(|rows| {
                [LOW, LOW.map(|byte| byte + 8)].map(|bytes| self.b.shuffle(rows[0], rows[1], bytes))
            })
            .collect();
        let fours: Vec<[cl::Value; 4]> = pairs
            .chunks(2)
            .map(|pairs| {
                let [a, b] = self.b.zip(Type::B32, pairs[0][0], pairs[1][0]);
                let [c, d] = self.b.zip(Type::B32, pairs[0][1], pairs[1][1]);
                [a, b, c, d]
            })
            .collect();
        let columns = (0..4).flat_map(|i| self.b.zip(Type::B64, fours[0][i], fours[1][i]));
        let columns: Vec<cl::Value> = columns.collect();
        self.b.each(&columns, |b, column| {
            b.cast_vector(column, vector_type(Type::B32))
        })
    }
}
