//! Loads and stores at addresses that were tested, and how their words become vectors of lanes.

use crate::slots::lane_bytes;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, MemFlagsData, types};
use ptxjit_ir::Type;
use smallvec::{SmallVec, smallvec};

use super::{Address, Emitter, Parts, Place, vector_type};

/// Device accesses may fault, and nothing is known about their alignment.
pub(crate) fn device() -> MemFlagsData {
    MemFlagsData::new()
}

/// Bytes of the vectors that hold two lanes each at this stride, if such vectors exist.
pub(crate) fn small_stride_width(ty: Type, stride: i64) -> Option<i64> {
    let (size, step) = (i64::from(ty.bytes()), stride.abs());
    let span = 3 * step + size;
    let fits = |width: &i64| step + size <= *width && *width <= span;
    [4, 8, 16].into_iter().find(fits).filter(|_| step >= size)
}

/// Pages are at least that large.
const LEAST_PAGE: i64 = 4096;

/// Lanes at a constant stride.
#[derive(Copy, Clone)]
pub(crate) struct Strided {
    /// Lane 0's address.
    pub at: cl::Value,
    /// Bytes from lane to lane.
    pub stride: i64,
    /// Bytes to add to each lane's address.
    pub offset: i32,
}

impl Strided {
    /// As the place of an access.
    pub(crate) fn place(self) -> Place {
        let address = Address::Strided(self.at, self.stride);
        let offset = self.offset;
        Place { address, offset }
    }
}

/// Words that each lane accesses side by side.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) struct Words {
    pub ty: Type,
    pub n: usize,
}

impl Words {
    /// One word of each lane.
    pub(crate) fn one(ty: Type) -> Words {
        Words { ty, n: 1 }
    }

    /// Bytes of one lane's words.
    pub(crate) fn bytes(self) -> u32 {
        self.ty.bytes() * self.n as u32
    }

    /// Whether lanes at this stride leave no gaps between their words.
    pub(crate) fn are_contiguous(self, stride: i64) -> bool {
        stride == i64::from(self.bytes())
    }

    /// Whether interleaved words of several lanes fill vectors.
    pub(crate) fn fill_vectors(self) -> bool {
        matches!(
            (self.ty, self.n),
            (Type::B32, 1 | 2 | 4) | (Type::B64, 1 | 2)
        )
    }
}

/// Appends to each column its part.
pub(crate) fn push_each<C: Extend<cl::Value>>(
    columns: &mut [C],
    parts: impl IntoIterator<Item = cl::Value>,
) {
    for (column, part) in columns.iter_mut().zip(parts) {
        column.extend([part]);
    }
}

impl Emitter<'_> {
    /// Loads from memory of our own, which is mapped and aligned.
    pub(crate) fn load_own(&mut self, ty: cl::Type, at: cl::Value, offset: i32) -> cl::Value {
        self.ins().load(ty, MemFlagsData::trusted(), at, offset)
    }

    /// Stores to memory of our own, which is mapped and aligned.
    pub(crate) fn store_own(&mut self, x: cl::Value, at: cl::Value, offset: i32) {
        self.ins().store(MemFlagsData::trusted(), x, at, offset);
    }

    /// Stores vectors side by side to memory of our own.
    pub(crate) fn store_own_vectors(&mut self, vectors: &[cl::Value], at: cl::Value, offset: i32) {
        for (i, &vector) in vectors.iter().enumerate() {
            self.store_own(vector, at, offset + 16 * i as i32);
        }
    }

    /// Loads from device memory.
    pub(crate) fn load_device(&mut self, ty: cl::Type, at: cl::Value, offset: i32) -> cl::Value {
        self.ins().load(ty, device(), at, offset)
    }

    /// Stores to device memory.
    pub(crate) fn store_device(&mut self, x: cl::Value, at: cl::Value, offset: i32) {
        self.ins().store(device(), x, at, offset);
    }

    /// Stores vectors side by side to device memory.
    pub(crate) fn store_vectors(&mut self, vectors: &[cl::Value], at: cl::Value, offset: i32) {
        for (i, &vector) in vectors.iter().enumerate() {
            self.store_device(vector, at, offset + 16 * i as i32);
        }
    }

    /// A lane's element of a buffer.
    pub(crate) fn load_lane(
        &mut self,
        buf: cl::Value,
        lane: cl::Value,
        ty: cl::Type,
        bytes: u32,
    ) -> cl::Value {
        let at = self.lane_of_buffer(buf, lane, bytes);
        self.load_own(ty, at, 0)
    }

    /// A value's scalar at a lane, in a type of its width, from the parts in a buffer.
    pub(crate) fn pick_from(
        &mut self,
        buf: cl::Value,
        (ty, scalar): (Type, cl::Type),
        lane: cl::Value,
    ) -> cl::Value {
        let x = self.load_lane(buf, lane, scalar, lane_bytes(ty));
        match ty {
            // A predicate's lanes are masks.
            Type::B1 => self.ins().band_imm_s(x, 1),
            Type::B8 | Type::B16 | Type::B32 | Type::B64 => x,
        }
    }

    /// Sets a lane's element of a buffer.
    pub(crate) fn store_lane(&mut self, buf: cl::Value, lane: cl::Value, ty: Type, x: cl::Value) {
        let wide = self.lane_scalar(ty, x);
        let at = self.lane_of_buffer(buf, lane, lane_bytes(ty));
        self.store_own(wide, at, 0);
    }

    /// The address of a lane's element of `bytes` bytes, a power of two.
    fn lane_of_buffer(&mut self, buf: cl::Value, lane: cl::Value, bytes: u32) -> cl::Value {
        let shift = i64::from(bytes.trailing_zeros());
        let distance = self.ins().ishl_imm_s(lane, shift);
        self.ins().iadd(buf, distance)
    }

    /// All lanes of a buffer.
    pub(crate) fn load_buffer(&mut self, buf: cl::Value, ty: Type) -> Parts {
        (0..self.n_parts(ty))
            .map(|i| self.load_own(vector_type(ty), buf, 16 * i as i32))
            .collect()
    }

    /// First and second words of the pairs in two vectors.
    pub(crate) fn unzip(&mut self, ty: Type, x: cl::Value, y: cl::Value) -> [cl::Value; 2] {
        let lanes = match ty == Type::B64 {
            true => [[0, 1, 4, 5], [2, 3, 6, 7]],
            false => [[0, 2, 4, 6], [1, 3, 5, 7]],
        };
        lanes.map(|lanes| {
            let words = self.shuffle32(x, y, lanes);
            self.cast_vector(words, vector_type(ty))
        })
    }

    /// Pairs of the words in two vectors.
    pub(crate) fn zip(&mut self, ty: Type, x: cl::Value, y: cl::Value) -> [cl::Value; 2] {
        let lanes = if ty == Type::B64 {
            [[0, 1, 4, 5], [2, 3, 6, 7]]
        } else {
            [[0, 4, 1, 5], [2, 6, 3, 7]]
        };
        lanes.map(|lanes| self.shuffle32(x, y, lanes))
    }

    /// The lowest lane as a float, which needs no instruction.
    pub(crate) fn first_float(&mut self, vector: cl::Type, part: cl::Value) -> cl::Value {
        let part = self.cast_vector(part, vector);
        self.ins().extractlane(part, 0)
    }

    /// One of the two words of a vector.
    pub(crate) fn pick64(&mut self, part: cl::Value, half: usize) -> cl::Value {
        if half == 0 {
            let float = self.first_float(types::F64X2, part);
            return self.ins().bitcast(types::I64, MemFlagsData::new(), float);
        }
        let part = self.cast_vector(part, types::I64X2);
        self.ins().extractlane(part, half as u8)
    }

    /// A stride so small that a vector holds two lanes: one vector from the first lane on and one
    /// up to the last hold a quad, and nothing behind it.
    pub(crate) fn load_small_stride(&mut self, ty: Type, lanes: Strided) -> Vec<cl::Value> {
        let stride = lanes.stride;
        let (size, step) = (i64::from(ty.bytes()), stride.abs());
        let width = small_stride_width(ty, stride).unwrap_or_else(|| unreachable!("asked before"));
        let rest = 3 * step + size - width;
        // Where lane `k` of a quad lies in the two vectors.
        let place = |k: usize| {
            let nth = if stride < 0 { 3 - k } else { k } as i64;
            (nth * step + if nth < 2 { 0 } else { 16 - rest }) as u8
        };
        let bytes = std::array::from_fn(|i| place(i / 4) + (i % 4) as u8 % size as u8);
        let quads = 0..self.quads();
        let quad = |q: usize| {
            let lowest = if stride < 0 { 4 * q + 3 } else { 4 * q };
            let [first, last] = self.load_ends(lanes, lowest, width, rest);
            let picked = self.shuffle(first, last, bytes);
            let picked = self.cast_vector(picked, types::I32X4);
            if ty == Type::B32 {
                return picked;
            }
            self.low_bits(picked, ty)
        };
        quads.map(quad).collect()
    }

    /// This many bytes from a lane on, and as many `rest` bytes farther on.
    fn load_ends(&mut self, lanes: Strided, lane: usize, width: i64, rest: i64) -> [cl::Value; 2] {
        let (at, offset) = self.strided_lane(lanes, lane);
        let first = self.load_vector(width, at, offset);
        if rest == 0 {
            return [first; 2];
        }
        let (at, offset) = self.farther(at, rest, offset);
        [first, self.load_vector(width, at, offset)]
    }

    /// This many bytes, at the start of a vector.
    fn load_vector(&mut self, bytes: i64, at: cl::Value, offset: i32) -> cl::Value {
        let (word, vector) = match bytes {
            4 => (types::I32, types::I32X4),
            8 => (types::I64, types::I64X2),
            _ => return self.ins().load(types::I32X4, device(), at, offset),
        };
        let word = self.ins().load(word, device(), at, offset);
        self.ins().scalar_to_vector(vector, word)
    }

    pub(crate) fn load_bytes(&mut self, at: cl::Value, offset: i32) -> cl::Value {
        let word = self.load_vector(4, at, offset);
        let bytes = self.cast_vector(word, types::I8X16);
        let halves = self.ins().uwiden_low(bytes);
        self.ins().uwiden_low(halves)
    }

    /// Picks 32-bit lanes of two vectors: 0 to 3 from the first, 4 to 7 from the second.
    pub(crate) fn shuffle32(&mut self, a: cl::Value, b: cl::Value, lanes: [u8; 4]) -> cl::Value {
        let mut bytes = [0; 16];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = lanes[i / 4] * 4 + (i % 4) as u8;
        }
        let picked = self.shuffle(a, b, bytes);
        self.cast_vector(picked, types::I32X4)
    }

    /// Rows of four words to columns, and back. What is copied from memory to memory stays as it
    /// is: Cranelift emits no code for the columns in between, as nothing uses them.
    pub(crate) fn transpose4(&mut self, rows: [cl::Value; 4]) -> [cl::Value; 4] {
        if let Some(&columns) = self.transposed.get(&rows) {
            return columns;
        }
        let columns = self.transposed4(rows);
        self.transposed.insert(columns, rows);
        columns
    }

    fn transposed4(&mut self, [a, b, c, d]: [cl::Value; 4]) -> [cl::Value; 4] {
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

    /// Four words of each lane, contiguous.
    pub(crate) fn load_rows4(&mut self, at: cl::Value, offset: i32) -> Vec<cl::Value> {
        let mut columns = vec![Vec::new(); 4];
        for q in 0..self.quads() {
            let first = offset + 64 * q as i32;
            let row = |i: i32| self.load_device(types::I32X4, at, first + 16 * i);
            let rows = [0, 1, 2, 3].map(row);
            push_each(&mut columns, self.transpose4(rows));
        }
        columns.concat()
    }

    /// Two words of each lane, contiguous.
    pub(crate) fn load_rows2(&mut self, ty: Type, at: cl::Value, offset: i32) -> Vec<cl::Value> {
        let mut columns = vec![Vec::new(); 2];
        for part in 0..self.n_parts(ty) {
            let first = offset + 32 * part as i32;
            let [x, y] = [0, 16].map(|next| self.load_device(vector_type(ty), at, first + next));
            push_each(&mut columns, self.unzip(ty, x, y));
        }
        columns.concat()
    }

    /// A lane's address as base and immediate where it fits.
    pub(crate) fn strided_lane(&mut self, lanes: Strided, lane: usize) -> (cl::Value, i32) {
        self.farther(lanes.at, lanes.stride * lane as i64, lanes.offset)
    }

    /// An address some bytes on, in its offset where these fit.
    pub(crate) fn farther(&mut self, at: cl::Value, bytes: i64, offset: i32) -> (cl::Value, i32) {
        match i32::try_from(bytes + i64::from(offset)) {
            Ok(offset) => (at, offset),
            Err(_) => (self.ins().iadd_imm_s(at, bytes), offset),
        }
    }

    /// Whether all lanes access one page, which is mapped if one lane may access it.
    pub(crate) fn in_one_page(&mut self, lanes: Strided) -> cl::Value {
        let first = self.ins().iadd_imm_s(lanes.at, i64::from(lanes.offset));
        let reach = lanes.stride * self.lanes as i64 - 1;
        let last = self.ins().iadd_imm_s(first, reach);
        let differ = self.ins().bxor(first, last);
        let less = IntCC::UnsignedLessThan;
        self.ins().icmp_imm_u(less, differ, LEAST_PAGE)
    }

    /// Words of quads that begin at `firsts`.
    pub(crate) fn load_quads(
        &mut self,
        Words { ty, n }: Words,
        firsts: &[cl::Value],
        offset: i32,
    ) -> Vec<cl::Value> {
        let mut columns = vec![Vec::new(); n];
        for &at in firsts {
            let mut vector = |nth: i32| self.load_device(vector_type(ty), at, offset + 16 * nth);
            match (ty, n) {
                (Type::B32, 2) => {
                    let (x, y) = (vector(0), vector(1));
                    push_each(&mut columns, self.unzip(ty, x, y));
                }
                (Type::B64, _) => columns[0].extend([vector(0), vector(1)]),
                _ => columns[0].push(vector(0)),
            }
        }
        columns.concat()
    }

    /// The mirror of `load_quads`.
    pub(crate) fn store_quads(
        &mut self,
        parts: &[Parts],
        ty: Type,
        firsts: &[cl::Value],
        offset: i32,
    ) {
        for (q, &at) in firsts.iter().enumerate() {
            let vectors = match (ty, parts) {
                (Type::B32, [a, b]) => self.zip(ty, a[q], b[q]).to_vec(),
                (Type::B64, [parts]) => parts[2 * q..2 * q + 2].to_vec(),
                _ => vec![parts[0][q]],
            };
            self.store_vectors(&vectors, at, offset);
        }
    }

    /// The interleaved words of the lanes of a part.
    pub(crate) fn interleaved(
        &mut self,
        ty: Type,
        parts: &[Parts],
        i: usize,
    ) -> SmallVec<[cl::Value; 4]> {
        match parts {
            [a] => smallvec![a[i]],
            [a, b] => SmallVec::from_slice(&self.zip(ty, a[i], b[i])),
            [a, b, c, d] => self.transpose4([a[i], b[i], c[i], d[i]]).into(),
            _ => unreachable!("these have no rows"),
        }
    }

    /// Packs the low bytes of 32-bit lanes: as many quads as fill a vector, or one at a time.
    pub(crate) fn store_narrow(&mut self, parts: &Parts, ty: Type, at: cl::Value, offset: i32) {
        let per = (4 / ty.bytes()) as usize;
        if parts.len().is_multiple_of(per) {
            let quads = parts.chunks(per).enumerate();
            for (i, quads) in quads {
                let packed = self.narrowed_quads(quads, ty);
                self.store_device(packed, at, offset + 16 * i as i32);
            }
            return;
        }
        let (word, bytes) = if ty == Type::B8 {
            (types::I32X4, [0, 4, 8, 12].repeat(4))
        } else {
            (types::I64X2, [0, 1, 4, 5, 8, 9, 12, 13].repeat(2))
        };
        let bytes = std::array::from_fn(|i| bytes[i]);
        for (q, &part) in parts.iter().enumerate() {
            let packed = self.shuffle(part, part, bytes);
            let packed = self.cast_vector(packed, word);
            let word = self.ins().extractlane(packed, 0);
            let step = 4 * ty.bytes() as i32;
            self.store_device(word, at, offset + step * q as i32);
        }
    }

    /// The low bytes of the lanes of quads, which fill one vector.
    fn narrowed_quads(&mut self, quads: &[cl::Value], ty: Type) -> cl::Value {
        let mut parts: Parts = quads.iter().map(|&part| self.low_bits(part, ty)).collect();
        while parts.len() > 1 {
            parts = self.each_pair(&parts, |b, x, y| b.ins().unarrow(x, y));
        }
        parts[0]
    }
}
