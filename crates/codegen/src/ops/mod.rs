//! What can be emitted without knowing the program: operations on scalars and on vectors of a
//! gang's lanes, accesses at addresses that were tested, calls of the runtime.
//!
//! [`Emitter`] is Cranelift's builder with these operations. Nothing here reads the IR function,
//! its plan or the mask of the node; `lower` does, and calls this.
//!
//! * `vectors`: vectors of lanes; `masks`, `subword`: those of predicates and of narrow lanes
//! * `int`, `lanes`, `divide`, `fields`: integers
//! * `float` and what it chooses from: `bits`, `extremes`, `rounding`, `math`, `halves`,
//!   `small_floats`; `convert`: conversions
//! * `memory`, `packing`: loads, stores and how their words become vectors; `address`: tests of
//!   addresses; `updates`: what atomics compute
//! * `context`: fields of the CTA context; `externals`: helpers and other external references

mod address;
mod bits;
mod context;
mod convert;
mod divide;
mod externals;
mod extremes;
mod fields;
mod float;
mod halves;
mod int;
mod lanes;
mod masks;
mod math;
mod memory;
mod packing;
mod rounding;
mod shuffles;
mod small_floats;
mod subword;
mod updates;
mod vectors;

use std::ops::{Deref, DerefMut};

use cranelift_codegen::ir::{self as cl, InstBuilder};
use cranelift_frontend::FunctionBuilder;
use ptxjit_abi::SymbolRef;
use ptxjit_abi::mma::Products;
use ptxjit_ir::InstData;
use rustc_hash::{FxHashMap, FxHashSet};

pub(crate) use address::{
    Address, Alignment, Distances, KnownDistances, Place, SMALL_OFFSET, Wrapping, small,
};
pub(crate) use context::WINDOW;
pub(crate) use divide::SHOW_INT;
pub(crate) use int::condition;
pub(crate) use masks::Lanes;
pub(crate) use memory::{Strided, Words, device, push_each, small_stride_width};
pub(crate) use packing::words;
pub(crate) use subword::subword_type;
pub(crate) use vectors::{
    Parts, Quad, Val, float_vector_type, int_type, sign_extended, vector_type,
};

/// Cranelift's builder of a function, with the operations of this module.
pub(crate) struct Emitter<'b> {
    builder: FunctionBuilder<'b>,
    /// Lanes of the gang, or of the strip of it that is being emitted.
    pub lanes: usize,
    /// Arithmetic on f32 flushes subnormal numbers by itself.
    flush_denormals: bool,
    /// Lanes can be shifted by counts of their own (see [`crate::wide`]).
    has_lane_shifts: bool,
    /// The context of the CTA, and its fields, by offset.
    pub cta: cl::Value,
    fields: FxHashMap<usize, cl::Value>,
    /// For each power of two, the bits in which an address that must be a multiple of it may not
    /// differ from the arena's base.
    forbidden: Vec<cl::Value>,
    /// Values known to lie in [0, 1].
    saturated: FxHashSet<cl::Value>,
    /// Vectors of f32 that are others with the other sign.
    negated: FxHashMap<cl::Value, cl::Value>,
    /// Rows of words by their columns. Rows are defined before their columns, so whatever uses the
    /// columns may use the rows.
    transposed: FxHashMap<[cl::Value; 4], [cl::Value; 4]>,
    /// External references of the function, by namespace and number.
    imports: FxHashMap<(u32, u32), cl::FuncRef>,
    /// Where symbols are in the table of them.
    symbols: FxHashMap<SymbolRef, usize>,
    external: External,
}

/// What the code refers to by number.
#[derive(Default)]
pub(crate) struct External {
    pub symbols: Vec<SymbolRef>,
    /// Instructions that the code evaluates by call.
    pub kept: Vec<InstData>,
    /// Products of matrices in the frame.
    pub products: Vec<Products>,
}

/// How many lanes run where an operation is emitted, as far as that is known.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) enum Running {
    /// All of them, or all but a few.
    Most,
    /// Few: what the others hold must not select a slow path.
    Few,
}

impl<'b> Deref for Emitter<'b> {
    type Target = FunctionBuilder<'b>;

    fn deref(&self) -> &FunctionBuilder<'b> {
        &self.builder
    }
}

impl<'b> DerefMut for Emitter<'b> {
    fn deref_mut(&mut self) -> &mut FunctionBuilder<'b> {
        &mut self.builder
    }
}

impl<'b> Emitter<'b> {
    /// Emits into a function whose first parameter is the context `cta`.
    pub(crate) fn new(
        builder: FunctionBuilder<'b>,
        cta: cl::Value,
        lanes: usize,
        (flush_denormals, has_lane_shifts): (bool, bool),
    ) -> Emitter<'b> {
        Emitter {
            builder,
            lanes,
            flush_denormals,
            has_lane_shifts,
            cta,
            fields: FxHashMap::default(),
            forbidden: Vec::new(),
            saturated: FxHashSet::default(),
            negated: FxHashMap::default(),
            transposed: FxHashMap::default(),
            imports: FxHashMap::default(),
            symbols: FxHashMap::default(),
            external: External::default(),
        }
    }

    /// The builder, when all is emitted, and what the code refers to.
    pub(crate) fn finish(self) -> (FunctionBuilder<'b>, External) {
        (self.builder, self.external)
    }

    /// The values, or the result of `cold` if `rare`.
    pub(crate) fn unless(
        &mut self,
        rare: cl::Value,
        values: &[cl::Value],
        cold: impl FnOnce(&mut Self) -> Vec<cl::Value>,
    ) -> Vec<cl::Value> {
        let (join, params) = self.begin_rare(rare, values);
        let values = cold(self);
        self.jump_with(join, &values);
        self.switch_to_block(join);
        params
    }

    /// Goes on in a cold block if `rare`, else to the block that is returned, with the values as
    /// its parameters.
    pub(crate) fn begin_rare(
        &mut self,
        rare: cl::Value,
        values: &[cl::Value],
    ) -> (cl::Block, Vec<cl::Value>) {
        let (no, join) = (self.create_block(), self.create_block());
        let params = values
            .iter()
            .map(|&x| {
                let ty = self.func.dfg.value_type(x);
                self.append_block_param(join, ty)
            })
            .collect();
        let args: Vec<cl::BlockArg> = values.iter().map(|&x| x.into()).collect();
        self.ins().brif(rare, no, &[], join, &args);
        self.set_cold_block(no);
        self.switch_to_block(no);
        (join, params)
    }

    pub(crate) fn create_blocks<const N: usize>(&mut self) -> [cl::Block; N] {
        std::array::from_fn(|_| self.create_block())
    }

    /// Ends the block: to the first of two new ones if the condition holds, else to the second.
    pub(crate) fn branch(&mut self, cond: cl::Value) -> [cl::Block; 2] {
        let [yes, no] = self.create_blocks();
        self.ins().brif(cond, yes, &[], no, &[]);
        [yes, no]
    }

    /// Goes on in a cold block if `rare`, else to the block that is returned.
    pub(crate) fn begin_cold(&mut self, rare: cl::Value) -> cl::Block {
        let [cold, usual] = self.branch(rare);
        self.set_cold_block(cold);
        self.switch_to_block(cold);
        usual
    }

    pub(crate) fn jump_with(&mut self, to: cl::Block, args: &[cl::Value]) {
        let args: Vec<cl::BlockArg> = args.iter().map(|&arg| arg.into()).collect();
        self.ins().jump(to, &args);
    }

    /// Quads of lanes.
    pub(crate) fn quads(&self) -> usize {
        self.lanes.div_ceil(4)
    }

    /// The mask of a whole gang as an immediate.
    pub(crate) fn full_bits(&self) -> i64 {
        i64::from(if self.lanes == 32 {
            -1
        } else {
            (1i32 << self.lanes) - 1
        })
    }

    /// Bits of the gang's lanes alone.
    pub(crate) fn without_others(&mut self, bits: cl::Value) -> cl::Value {
        match self.lanes {
            32 => bits,
            _ => {
                let all = self.full_bits();
                self.ins().band_imm_s(bits, all)
            }
        }
    }
}
