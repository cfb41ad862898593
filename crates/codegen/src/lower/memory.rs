//! Loads.
//!
//! Contiguous lanes are accessed as vectors when all of them run, or when the places of those that
//! do not may be read as well; otherwise one call to a stub loads for the lanes that run. Gathers
//! access lanes one by one (`gathers`), those that do not run at memory of our own.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, MemFlagsData, types};
use ptxjit_ir::{Inst, InstData, Type, Value};

use super::address::{Address, Place};
use super::bounds::Wrapping;
use super::packing::words;
use super::stubs::Transfer;
use super::values::{Parts, Val, int_type, vector_type};
use super::{Buffer, Lower};
use crate::slots::lane_bytes;

/// Pages are at least that large.
const LEAST_PAGE: i64 = 4096;

/// Device accesses may fault, and nothing is known about their alignment.
pub(super) fn device() -> MemFlagsData {
    MemFlagsData::new()
}

/// Bytes of the vectors that hold two lanes each at this stride, if such vectors exist.
fn small_stride_width(ty: Type, stride: i64) -> Option<i64> {
    let (size, step) = (i64::from(ty.bytes()), stride.abs());
    let span = 3 * step + size;
    let fits = |width: &i64| step + size <= *width && *width <= span;
    [4, 8, 16].into_iter().find(fits).filter(|_| step >= size)
}

impl Lower<'_, '_> {
    pub(super) fn load(&mut self, inst: Inst) {
        let node = &self.func.insts[inst];
        let InstData::Load {
            space,
            ty,
            n,
            addr,
            offset,
            ..
        } = node.data
        else {
            unreachable!("called for loads")
        };
        if self.makes_subword(inst) {
            return self.load_subword(inst);
        }
        let results = node.results.clone();
        let (word, words) = words(ty, usize::from(n));
        let parts =
            if self.is_speculated_contiguous(space, addr, i64::from(ty.bytes()) * i64::from(n)) {
                self.load_speculated(inst, (words, word), space, addr, offset)
            } else {
                let place = self.place(space, addr, offset, ty.bytes() * u32::from(n), 0);
                match place.address {
                    Address::Scalar(at) => return self.load_scalar(&results, ty, at, place.offset),
                    Address::Strided(at, stride) => {
                        self.load_strided(words, word, at, stride, place.offset)
                    }
                    Address::MayWrap(wrapping) => {
                        self.load_may_wrap(words, word, wrapping, place.offset)
                    }
                    Address::Lanes(_) | Address::Lanes32(..) => self.load_lanes(words, word, place),
                }
            };
        let parts = self.unpacked(&parts, word, ty);
        let per = self.n_parts(ty);
        for (k, &result) in results.iter().enumerate() {
            let parts = parts[k * per..(k + 1) * per].iter().copied().collect();
            self.def(result, Val::Varying(parts));
        }
    }

    /// One access for all lanes.
    fn load_scalar(&mut self, results: &[Value], ty: Type, at: cl::Value, offset: i32) {
        for (k, &result) in results.iter().enumerate() {
            let offset = offset + (k as u32 * ty.bytes()) as i32;
            let clif = if self.decided.is_float[result] {
                self.scalar_type(result)
            } else {
                int_type(ty)
            };
            let x = self.b.ins().load(clif, device(), at, offset);
            self.def_loaded(result, Val::Uniform(x));
        }
    }

    /// A uniform load can still have a varying result where diverged lanes share it.
    fn def_loaded(&mut self, result: Value, val: Val) {
        let val = match val {
            Val::Uniform(x) if !self.is_uniform(result) => {
                let ty = self.func.ty(result);
                let splat = self.splat(ty, x);
                Val::Varying(Parts::from_elem(splat, self.n_parts(ty)))
            }
            other @ (Val::Uniform(_) | Val::Affine(..) | Val::Varying(_)) => other,
        };
        self.def(result, val);
    }

    pub(super) fn load_lanes(&mut self, n: usize, ty: Type, place: Place) -> Vec<cl::Value> {
        let address = self.redirect(place.address, place.offset);
        let elems = self.load_each_lane(
            n,
            ty,
            &Place {
                address,
                offset: place.offset,
            },
        );
        elems.into_iter().flatten().collect()
    }

    pub(super) fn load_strided(
        &mut self,
        n: usize,
        ty: Type,
        at: cl::Value,
        stride: i64,
        offset: i32,
    ) -> Vec<cl::Value> {
        match self.unless_full() {
            None => self.load_whole(n, ty, at, stride, offset),
            Some(_) if self.node.is_general => self.load_some(n, ty, at, stride, offset),
            Some(full) => self.either(
                full,
                vec![vector_type(ty); n * self.n_parts(ty)],
                |lower| lower.load_whole(n, ty, at, stride, offset),
                |lower| lower.load_some(n, ty, at, stride, offset),
            ),
        }
    }

    /// Lanes at a constant stride, unless the address shows that an index wrapped.
    fn load_may_wrap(
        &mut self,
        n: usize,
        ty: Type,
        wrapping: Wrapping,
        offset: i32,
    ) -> Vec<cl::Value> {
        let inside = self.is_unwrapped(&wrapping);
        self.either(
            inside,
            vec![vector_type(ty); n * self.n_parts(ty)],
            |lower| lower.load_strided(n, ty, wrapping.at, wrapping.stride, offset),
            |lower| {
                let addrs = lower.resolve_wrapped(&wrapping);
                lower.load_gathered(n, ty, addrs, offset)
            },
        )
    }

    /// Runs `fast` if `full`, else `cold`; both return vectors of the given types.
    pub(super) fn either(
        &mut self,
        full: cl::Value,
        types: Vec<cl::Type>,
        fast: impl FnOnce(&mut Self) -> Vec<cl::Value>,
        cold: impl FnOnce(&mut Self) -> Vec<cl::Value>,
    ) -> Vec<cl::Value> {
        let (yes, no, join) = (
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
        );
        let params: Vec<cl::Value> = types
            .iter()
            .map(|&ty| self.b.append_block_param(join, ty))
            .collect();
        self.b.ins().brif(full, yes, &[], no, &[]);
        self.b.set_cold_block(no);
        self.b.switch_to_block(yes);
        let values: Vec<cl::BlockArg> = self
            .scoped(fast)
            .into_iter()
            .zip(&types)
            .map(|(x, &ty)| self.cast_vector(x, ty).into())
            .collect();
        self.b.ins().jump(join, &values);
        self.b.switch_to_block(no);
        let values: Vec<cl::BlockArg> = self
            .scoped(cold)
            .into_iter()
            .zip(&types)
            .map(|(x, &ty)| self.cast_vector(x, ty).into())
            .collect();
        self.b.ins().jump(join, &values);
        self.b.switch_to_block(join);
        params
    }

    /// The values, or the result of `cold` if `rare`.
    pub(super) fn unless(
        &mut self,
        rare: cl::Value,
        values: &[cl::Value],
        cold: impl FnOnce(&mut Self) -> Vec<cl::Value>,
    ) -> Vec<cl::Value> {
        let (no, join) = (self.b.create_block(), self.b.create_block());
        let params = values
            .iter()
            .map(|&x| {
                let ty = self.b.func.dfg.value_type(x);
                self.b.append_block_param(join, ty)
            })
            .collect();
        let args: Vec<cl::BlockArg> = values.iter().map(|&x| x.into()).collect();
        self.b.ins().brif(rare, no, &[], join, &args);
        self.b.set_cold_block(no);
        self.b.switch_to_block(no);
        let values = self.scoped(cold);
        self.jump_with(join, &values);
        self.b.switch_to_block(join);
        params
    }

    /// All lanes run: parts of element 0, then of element 1, and so on.
    pub(super) fn load_whole(
        &mut self,
        n: usize,
        ty: Type,
        at: cl::Value,
        stride: i64,
        offset: i32,
    ) -> Vec<cl::Value> {
        let contiguous = stride == i64::from(ty.bytes()) * n as i64;
        match (ty, n) {
            (Type::B32 | Type::B64, 1) if contiguous => (0..self.n_parts(ty))
                .map(|i| {
                    self.b
                        .ins()
                        .load(vector_type(ty), device(), at, offset + 16 * i as i32)
                })
                .collect(),
            (Type::B16, 1) if contiguous => (0..self.quads())
                .map(|q| self.b.ins().uload16x4(device(), at, offset + 8 * q as i32))
                .collect(),
            (Type::B8, 1) if contiguous && self.quads() == 1 => vec![self.load_bytes(at, offset)],
            (Type::B8, 1) if contiguous => (0..self.quads() as i32)
                .step_by(2)
                .flat_map(|q| {
                    let halves = self.b.ins().uload8x8(device(), at, offset + 4 * q);
                    let low = self.b.ins().uwiden_low(halves);
                    [low, self.b.ins().uwiden_high(halves)]
                })
                .collect(),
            (Type::B32, 4) if contiguous => self.load_rows4(at, offset),
            (Type::B32 | Type::B64, 2) if contiguous => self.load_rows2(ty, at, offset),
            (Type::B8 | Type::B16 | Type::B32, 1) if small_stride_width(ty, stride).is_some() => {
                self.load_small_stride(ty, at, stride, offset)
            }
            _ => self.load_far(n, ty, at, stride, offset),
        }
    }

    /// A stride so small that a vector holds two lanes: one vector from the first lane on and one
    /// up to the last hold a quad, and nothing behind it.
    fn load_small_stride(
        &mut self,
        ty: Type,
        at: cl::Value,
        stride: i64,
        offset: i32,
    ) -> Vec<cl::Value> {
        let (size, step) = (i64::from(ty.bytes()), stride.abs());
        let width = small_stride_width(ty, stride).unwrap_or_else(|| unreachable!("asked before"));
        let rest = 3 * step + size - width;
        // Where lane `k` of a quad lies in the two vectors.
        let place = |k: usize| {
            let nth = if stride < 0 { 3 - k } else { k } as i64;
            (nth * step + if nth < 2 { 0 } else { 16 - rest }) as u8
        };
        let bytes = std::array::from_fn(|i| place(i / 4) + (i % 4) as u8 % size as u8);
        let mut parts = Vec::new();
        for q in 0..self.quads() {
            let lowest = if stride < 0 { 4 * q + 3 } else { 4 * q };
            let (at, offset) = self.strided_lane(at, stride, lowest, offset);
            let first = self.load_vector(width, at, offset);
            let last = match rest {
                0 => first,
                _ => {
                    let (at, offset) = self.strided_lane(at, rest, 1, offset);
                    self.load_vector(width, at, offset)
                }
            };
            let picked = self.shuffle(first, last, bytes);
            let picked = self.cast_vector(picked, types::I32X4);
            parts.push(if ty == Type::B32 {
                picked
            } else {
                self.low_bits(picked, ty)
            });
        }
        parts
    }

    /// This many bytes, at the start of a vector.
    fn load_vector(&mut self, bytes: i64, at: cl::Value, offset: i32) -> cl::Value {
        let (word, vector) = match bytes {
            4 => (types::I32, types::I32X4),
            8 => (types::I64, types::I64X2),
            _ => return self.b.ins().load(types::I32X4, device(), at, offset),
        };
        let word = self.b.ins().load(word, device(), at, offset);
        self.b.ins().scalar_to_vector(vector, word)
    }

    fn load_bytes(&mut self, at: cl::Value, offset: i32) -> cl::Value {
        let word = self.load_vector(4, at, offset);
        let bytes = self.cast_vector(word, types::I8X16);
        let halves = self.b.ins().uwiden_low(bytes);
        self.b.ins().uwiden_low(halves)
    }

    /// Picks 32-bit lanes of two vectors: 0 to 3 from the first, 4 to 7 from the second.
    pub(super) fn shuffle32(&mut self, a: cl::Value, b: cl::Value, lanes: [u8; 4]) -> cl::Value {
        let mut bytes = [0; 16];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = lanes[i / 4] * 4 + (i % 4) as u8;
        }
        let picked = self.shuffle(a, b, bytes);
        self.cast_vector(picked, types::I32X4)
    }

    /// Rows of four words to columns, and back.
    pub(super) fn transpose4(&mut self, rows: [cl::Value; 4]) -> [cl::Value; 4] {
        let [a, b, c, d] = rows;
        let ab_lo = self.shuffle32(a, b, [0, 4, 1, 5]);
        let ab_hi = self.shuffle32(a, b, [2, 6, 3, 7]);
        let cd_lo = self.shuffle32(c, d, [0, 4, 1, 5]);
        let cd_hi = self.shuffle32(c, d, [2, 6, 3, 7]);
        [
            self.shuffle32(ab_lo, cd_lo, [0, 1, 4, 5]),
            self.shuffle32(ab_lo, cd_lo, [2, 3, 6, 7]),
            self.shuffle32(ab_hi, cd_hi, [0, 1, 4, 5]),
            self.shuffle32(ab_hi, cd_hi, [2, 3, 6, 7]),
        ]
    }

    fn load_rows4(&mut self, at: cl::Value, offset: i32) -> Vec<cl::Value> {
        let mut columns = vec![Vec::new(); 4];
        for q in 0..self.quads() {
            let row = |lower: &mut Self, i: usize| {
                lower.b.ins().load(
                    types::I32X4,
                    device(),
                    at,
                    offset + (64 * q + 16 * i) as i32,
                )
            };
            let rows = [row(self, 0), row(self, 1), row(self, 2), row(self, 3)];
            for (column, part) in columns.iter_mut().zip(self.transpose4(rows)) {
                column.push(part);
            }
        }
        columns.concat()
    }

    fn load_rows2(&mut self, ty: Type, at: cl::Value, offset: i32) -> Vec<cl::Value> {
        let mut columns = vec![Vec::new(); 2];
        for part in 0..self.n_parts(ty) {
            let x = self
                .b
                .ins()
                .load(vector_type(ty), device(), at, offset + 32 * part as i32);
            let y = self.b.ins().load(
                vector_type(ty),
                device(),
                at,
                offset + 32 * part as i32 + 16,
            );
            let [even, odd] = self.unzip(ty, x, y);
            columns[0].push(even);
            columns[1].push(odd);
        }
        columns.concat()
    }

    /// Lanes at a constant stride: element by element.
    fn load_far(
        &mut self,
        n: usize,
        ty: Type,
        at: cl::Value,
        stride: i64,
        offset: i32,
    ) -> Vec<cl::Value> {
        let address = Address::Strided(at, stride);
        let elems = self.load_each_lane(n, ty, &Place { address, offset });
        elems.into_iter().flatten().collect()
    }

    /// A lane's address as base and immediate where it fits.
    pub(super) fn strided_lane(
        &mut self,
        at: cl::Value,
        stride: i64,
        lane: usize,
        offset: i32,
    ) -> (cl::Value, i32) {
        match i32::try_from(stride * lane as i64 + i64::from(offset)) {
            Ok(offset) => (at, offset),
            Err(_) => (self.b.ins().iadd_imm_s(at, stride * lane as i64), offset),
        }
    }

    /// Some lanes run. If the contiguous places lie in one page, all are read; else a stub loads
    /// for the lanes that run.
    pub(super) fn load_some(
        &mut self,
        n: usize,
        ty: Type,
        at: cl::Value,
        stride: i64,
        offset: i32,
    ) -> Vec<cl::Value> {
        if stride != i64::from(ty.bytes()) * n as i64 {
            return self.load_theirs(n, ty, at, stride, offset);
        }
        let near = self.in_one_page(at, stride, offset);
        self.either(
            near,
            vec![vector_type(ty); n * self.n_parts(ty)],
            |lower| lower.load_whole(n, ty, at, stride, offset),
            |lower| lower.load_theirs(n, ty, at, stride, offset),
        )
    }

    /// Whether all lanes access one page, which is mapped if one lane may access it.
    pub(super) fn in_one_page(&mut self, at: cl::Value, stride: i64, offset: i32) -> cl::Value {
        let first = self.b.ins().iadd_imm_s(at, i64::from(offset));
        let last = self
            .b
            .ins()
            .iadd_imm_s(first, stride * self.lanes as i64 - 1);
        let differ = self.b.ins().bxor(first, last);
        self.b
            .ins()
            .icmp_imm_u(IntCC::UnsignedLessThan, differ, LEAST_PAGE)
    }

    fn load_theirs(
        &mut self,
        n: usize,
        ty: Type,
        at: cl::Value,
        stride: i64,
        offset: i32,
    ) -> Vec<cl::Value> {
        self.load_by_stub(n, ty, |lower, bits, buf, more| {
            let stub = Transfer {
                store: false,
                gather: false,
                bytes: ty.bytes(),
            };
            lower.call_stub(stub, at, i64::from(offset) + more, stride, bits, buf);
        })
    }

    /// The running lanes' addresses lie in a buffer: a stub loads them.
    pub(super) fn load_gathered(
        &mut self,
        n: usize,
        ty: Type,
        addrs: cl::Value,
        offset: i32,
    ) -> Vec<cl::Value> {
        self.load_by_stub(n, ty, |lower, bits, buf, more| {
            let stub = Transfer {
                store: false,
                gather: true,
                bytes: ty.bytes(),
            };
            lower.call_stub_with(stub, addrs, i64::from(offset) + more, bits, buf);
        })
    }

    /// Elements in sequence; `call` has a stub load one, this many bytes from the first, to
    /// a buffer.
    fn load_by_stub(
        &mut self,
        n: usize,
        ty: Type,
        call: impl Fn(&mut Self, cl::Value, cl::Value, i64),
    ) -> Vec<cl::Value> {
        let bits = self.mask_as_bits();
        let mut out = Vec::new();
        for k in 0..n {
            let slot = self.buffer(Buffer::Data);
            let buf = self.b.ins().stack_addr(types::I64, slot, 0);
            call(self, bits, buf, k as i64 * i64::from(ty.bytes()));
            let per_part = if ty == Type::B64 { 2 } else { 4 };
            for part in 0..self.n_parts(ty) {
                let at = (part * per_part) as i32 * lane_bytes(ty) as i32;
                out.push(
                    self.b
                        .ins()
                        .load(vector_type(ty), MemFlagsData::trusted(), buf, at),
                );
            }
        }
        out
    }
}
