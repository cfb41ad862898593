//! `shfl` of whole warps, in registers.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, MemFlagsData, types};
use ptxjit_abi::warp_ops::{WARP, WarpBuffer, shuffle_source};
use ptxjit_ir::{Type, Value, WarpOp};
use ptxjit_vectorize::Variability;

use crate::lower::Lower;
use crate::ops::{Parts, Val, subword_type, vector_type};

/// One word per lane, as the bytes of vectors.
fn lane_words(of: impl Fn(u32) -> u32) -> Vec<Vec<u8>> {
    let words: Vec<u32> = (0..WARP as u32).map(of).collect();
    words
        .chunks(4)
        .map(|quad| quad.iter().flat_map(|word| word.to_le_bytes()).collect())
        .collect()
}

impl Lower<'_, '_> {
    /// `shfl`: the value and whether the source lane is in range.
    pub(in crate::lower) fn shuffle_lanes(
        &mut self,
        op: WarpOp,
        [a, b, c]: [Value; 3],
    ) -> [Val; 2] {
        let fixed_c = self.func.as_const(c);
        let known_b = self.known_lanes(b);
        let shared_b = self.plan.variability[b] == Variability::Uniform;
        if shared_b && op.reads_any_lane(fixed_c) {
            let word = self.lane_of(a, b);
            let yes = self.b.ins().iconst(types::I8, 1);
            return [word, yes].map(Val::Uniform);
        }
        let value = self.parts(a);
        let [value, in_range] = match (known_b, fixed_c) {
            (Some(b), Some(c)) => self.shuffle_fixed(op, &value, &b, c as u32),
            (None, Some(c)) if shared_b && op != WarpOp::ShflIdx => {
                let b = self.scalar(b);
                let b = self.b.ins().band_imm_s(b, 31);
                self.shuffle_shared(op, &value, b, c as u32)
            }
            _ => {
                let (b, c) = (self.parts(b), self.parts(c));
                self.shuffle_each(op, &value, &b, &c)
            }
        };
        [Val::Varying(value), Val::Varying(in_range)]
    }

    /// The word of lane `b % 32`, which is the same for all lanes.
    fn lane_of(&mut self, a: Value, b: Value) -> cl::Value {
        if self.plan.variability[a] == Variability::Uniform {
            return self.scalar(a);
        }
        let value = self.parts(a);
        if let Some(lane) = self.func.as_const(b) {
            let (part, within) = (lane as usize % WARP / 4, lane as u8 % 4);
            return self.b.ins().extractlane(value[part], within);
        }
        let base = self.store_to_warp_buffer(&value, 0);
        let b = self.scalar(b);
        let lane = self.b.ins().band_imm_s(b, 31);
        let lane = self.b.ins().uextend(types::I64, lane);
        self.b.load_lane(base, lane, types::I32, 4)
    }

    /// Stores vectors side by side, this far from the start of the buffer of warp operations, and
    /// returns where.
    fn store_to_warp_buffer(&mut self, value: &[cl::Value], offset: i32) -> cl::Value {
        let slot = self.warp_buffer();
        let base = self.b.ins().stack_addr(types::I64, slot, offset);
        self.b.store_own_vectors(value, base, 0);
        base
    }

    /// Each lane's source is known: vectors are renamed, or shuffled.
    fn shuffle_fixed(
        &mut self,
        op: WarpOp,
        value: &[cl::Value],
        b: &[u64; WARP],
        c: u32,
    ) -> [Parts; 2] {
        let source = |lane: u32| shuffle_source(op, lane, b[lane as usize] as u32, c);
        let shuffled = (0..self.b.quads())
            .map(|q| {
                let lanes = [0, 1, 2, 3].map(|i| source(4 * q as u32 + i).0);
                self.b.pick_lanes(value, lanes)
            })
            .collect();
        let in_range =
            self.lane_constants(Type::B1, |lane| u32::from(source(lane).1).wrapping_neg());
        [shuffled, in_range]
    }

    /// All lanes shuffle by the same amount `b`, below 32: the lanes are loaded again from memory.
    fn shuffle_shared(
        &mut self,
        op: WarpOp,
        value: &[cl::Value],
        b: cl::Value,
        c: u32,
    ) -> [Parts; 2] {
        // Lanes below the first and above the last are out of range, but read.
        let base = self.store_to_warp_buffer(value, 8 * WARP as i32);
        let wide = self.b.ins().uextend(types::I64, b);
        let bytes = self.b.ins().ishl_imm_s(wide, 2);
        let max_lane = |lane: u32| (lane & (c >> 8)) & 31 | (c & !(c >> 8)) & 31;
        let amount = self.b.splat(Type::B32, b);
        let lane = self.lane_constants(Type::B32, |lane| lane);
        let max = self.lane_constants(Type::B32, max_lane);
        let (mut shuffled, mut in_range) = (Parts::new(), Parts::new());
        let within_quad = (op == WarpOp::ShflBfly).then(|| self.b.butterfly_words(b));
        for q in 0..self.b.quads() {
            let there = self.moved_quad(op, base, bytes, (q, within_quad));
            let (source, order) = self.moved_lane(op, lane[q], amount);
            let ok = self.b.ins().icmp(order, source, max[q]);
            shuffled.push(self.b.ins().blendv(ok, there, value[q]));
            in_range.push(ok);
        }
        [shuffled, in_range]
    }

    /// The words of a quad's sources, all this many bytes away.
    fn moved_quad(
        &mut self,
        op: WarpOp,
        base: cl::Value,
        bytes: cl::Value,
        (q, within_quad): (usize, Option<cl::Value>),
    ) -> cl::Value {
        let quad = vector_type(Type::B32);
        if let Some(words) = within_quad {
            let quads = self.b.ins().band_imm_s(bytes, 0x70);
            let from = self.b.ins().bxor_imm_s(quads, 16 * q as i64);
            let at = self.b.ins().iadd(base, from);
            let there = self.b.load_own(subword_type(Type::B8), at, 0);
            let there = self.b.ins().swizzle(there, words);
            return self.b.cast_vector(there, quad);
        }
        let at = match op == WarpOp::ShflUp {
            true => self.b.ins().isub(base, bytes),
            false => self.b.ins().iadd(base, bytes),
        };
        self.b.ins().load(quad, unaligned(), at, 16 * q as i32)
    }

    /// The source of a lane that others are this far from, and how it compares with the last lane
    /// that is in range.
    #[expect(clippy::wildcard_enum_match_arm, reason = "callers pass shuffles")]
    fn moved_lane(&mut self, op: WarpOp, lane: cl::Value, by: cl::Value) -> (cl::Value, IntCC) {
        let below = IntCC::SignedLessThanOrEqual;
        match op {
            WarpOp::ShflUp => (self.b.ins().isub(lane, by), IntCC::SignedGreaterThanOrEqual),
            WarpOp::ShflDown => (self.b.ins().iadd(lane, by), below),
            _ => (self.b.ins().bxor(lane, by), below),
        }
    }

    /// Per-lane amounts.
    fn shuffle_each(
        &mut self,
        op: WarpOp,
        value: &[cl::Value],
        b: &[cl::Value],
        c: &[cl::Value],
    ) -> [Parts; 2] {
        let lane = self.lane_constants(Type::B32, |lane| lane);
        let low = self.b.vconst(Type::B32, 31);
        let (mut sources, mut in_range) = (Parts::new(), Parts::new());
        for q in 0..self.b.quads() {
            let amount = self.b.ins().band(b[q], low);
            let clamp = self.b.ins().band(c[q], low);
            let segment = self.b.ins().ushr_imm_s(c[q], 8);
            let segment = self.b.ins().band(segment, low);
            let own = self.b.ins().band(lane[q], segment);
            let clamp = self.b.ins().band_not(clamp, segment);
            let max = self.b.ins().bor(own, clamp);
            let (source, order) = match op == WarpOp::ShflIdx {
                true => {
                    let amount = self.b.ins().band_not(amount, segment);
                    (self.b.ins().bor(own, amount), IntCC::SignedLessThanOrEqual)
                }
                false => self.moved_lane(op, lane[q], amount),
            };
            let ok = self.b.ins().icmp(order, source, max);
            let source = self.b.ins().blendv(ok, source, lane[q]);
            sources.push(self.b.ins().band(source, low));
            in_range.push(ok);
        }
        let base = self.store_to_warp_buffer(value, 0);
        let words: Vec<cl::Value> = (0..WARP)
            .map(|lane| {
                let source = self.b.ins().extractlane(sources[lane / 4], lane as u8 % 4);
                let source = self.b.ins().uextend(types::I64, source);
                self.b.load_lane(base, source, types::I32, 4)
            })
            .collect();
        [self.b.collect(Type::B32, &words), in_range]
    }

    pub(in crate::lower) fn lane_constants(&mut self, ty: Type, of: impl Fn(u32) -> u32) -> Parts {
        lane_words(of)
            .into_iter()
            .map(|bytes| self.b.vconst_bytes(vector_type(ty), &bytes))
            .collect()
    }

    /// A stack slot for the operands and results of one operation.
    pub(in crate::lower) fn warp_buffer(&mut self) -> cl::StackSlot {
        *self.slots.warp_slot.get_or_insert_with(|| {
            let size = size_of::<WarpBuffer>() as u32;
            let data = cl::StackSlotData::new(cl::StackSlotKind::ExplicitSlot, size, 4);
            self.b.create_sized_stack_slot(data)
        })
    }
}

/// For loads from our own memory that straddle vectors.
fn unaligned() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}
