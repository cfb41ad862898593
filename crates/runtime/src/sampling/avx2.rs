//! Reads of planes with linear filtering on processors with AVX2, FMA and F16C.
//!
//! Results are those of [`Plane::read`] bit for bit: the same sums in the same order.
//!
//! * A product of weights and an element is exact in double precision (weights have at most 17
//!   significant bits, a float has 24), so a fused multiply-add rounds as a product and a sum do.
//! * Where the portable code gives all weight to the element behind a place, this code counts that
//!   element as the one before the next place. What has no weight adds nothing.
//! * The portable code leaves out elements without weight, which may be infinite; here they make
//!   NaNs. A group of lanes with a NaN, or far away from the image, is left to the portable code.

use std::arch::x86_64::*;

use ptxjit_device::texture::{LANES, Plane};

use super::{Area, Words};

/// All lanes of a group.
const ALL: u32 = (1 << LANES) - 1;

/// Whether the processor has what [`read`] needs.
pub(super) fn is_supported() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
}

/// Which of 32 lanes hold this 64-bit value; the values of lanes are contiguous.
///
/// # Safety
///
/// 32 values are there.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn lanes_with(values: *const u8, value: u64) -> u32 {
    let value = _mm256_set1_epi64x(value as i64);
    (0..8).fold(0, |lanes, n| {
        // SAFETY: the caller's promise.
        let four = unsafe { _mm256_loadu_si256(values.cast::<__m256i>().wrapping_add(n)) };
        let same = _mm256_cmpeq_epi64(four, value);
        lanes | (_mm256_movemask_pd(_mm256_castsi256_pd(same)) as u32) << (4 * n)
    })
}

/// The neighbors on one side along an axis: indices, and weights of the lower and upper four lanes.
#[derive(Copy, Clone)]
struct Side {
    index: __m256i,
    low: __m256d,
    high: __m256d,
}

/// What a group of lanes reads of an axis.
#[derive(Copy, Clone)]
struct Axis {
    sides: [Side; 2],
    /// All ones in lanes whose place has too large a number, or none.
    is_far: __m256i,
}

/// Where the two rows of a group lie.
#[derive(Copy, Clone)]
enum Rows {
    /// All lanes read the same: offsets from the first element.
    Same([usize; 2]),
    /// Offsets by lane.
    ByLane([__m256i; 2]),
}

/// What a group has computed of its y coordinate, for the next one: the coordinate that the first
/// lane has, and what follows from it.
#[derive(Copy, Clone)]
struct Row {
    y: u32,
    axis: Axis,
    rows: Rows,
}

/// The columns of a group, which the gang for the next row of a block mostly reads again.
#[derive(Copy, Clone)]
struct Columns {
    x: __m256i,
    axis: Axis,
    window: Option<Window>,
}

/// Eight contiguous elements of a row, among which are all that a group reads of it: the first, and
/// the two neighbors of each lane counted from it.
#[derive(Copy, Clone)]
struct Window {
    first: usize,
    columns: [__m256i; 2],
}

/// The columns of the last read of an image, by groups.
#[derive(Copy, Clone, Default)]
pub(super) struct KnownColumns([Option<Columns>; 4]);

/// Operands and results of a read: numbers of the first operand behind the handles, and of the
/// first result.
#[derive(Copy, Clone)]
pub(super) struct Places {
    pub(super) area: Area,
    pub(super) args: usize,
    pub(super) results: usize,
}

/// Reads for the lanes of `mask`. The result has those that are left to the portable code, for
/// which nothing is stored.
///
/// # Safety
///
/// The area has the operands and room for the results, and the level is alive. The processor [is
/// supported](is_supported).
pub(super) unsafe fn read(
    plane: &Plane<'_>,
    known: &mut KnownColumns,
    mask: u32,
    places: Places,
) -> u32 {
    let image = plane.image();
    // SAFETY: the caller's promise.
    unsafe {
        match (image.dtype.bytes(), image.channels) {
            (1, 1) => read_group::<1, 1>(plane, known, mask, places),
            (1, 2) => read_group::<1, 2>(plane, known, mask, places),
            (1, 4) => read_group::<1, 4>(plane, known, mask, places),
            (2, 1) => read_group::<2, 1>(plane, known, mask, places),
            (2, 2) => read_group::<2, 2>(plane, known, mask, places),
            (2, 4) => read_group::<2, 4>(plane, known, mask, places),
            (4, 1) => read_group::<4, 1>(plane, known, mask, places),
            (4, 2) => read_group::<4, 2>(plane, known, mask, places),
            (4, 4) => read_group::<4, 4>(plane, known, mask, places),
            _ => mask,
        }
    }
}

/// As [`read`], for elements of `N` channels of `BYTES` bytes.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn read_group<const BYTES: usize, const N: usize>(
    plane: &Plane<'_>,
    known: &mut KnownColumns,
    mask: u32,
    places: Places,
) -> u32 {
    let Some(reader) = Reader::<BYTES, N>::new(plane) else {
        return mask;
    };
    let Places {
        area,
        args,
        results,
    } = places;
    let absent = plane.absent();
    let mut rest = 0;
    let mut last: Option<Row> = None;
    for first in (0..u32::BITS as usize).step_by(LANES) {
        let some = mask >> first & ALL;
        if some == 0 {
            continue;
        }
        // SAFETY: the caller's promise; any bits are a word.
        let [x, y] = unsafe {
            [args, args + 1].map(|n| area.words(n, first).cast::<__m256i>().read_unaligned())
        };
        let (x, y) = (only_live(x, some), only_live(y, some));
        let row = match last {
            Some(row) if is_all(y, row.y) => row,
            _ => *last.insert(reader.row(y)),
        };
        let columns = match &mut known.0[first / LANES] {
            Some(columns) if is_same(x, columns.x) => columns,
            other => other.insert(reader.columns(x)),
        };
        // SAFETY: indices are inside of the level, which is alive.
        let colors = unsafe { reader.mix(columns, &row) };
        let is_far = _mm256_or_si256(columns.axis.is_far, row.axis.is_far);
        if unusual(is_far, &colors) & some != 0 {
            rest |= some << first;
            continue;
        }
        for n in 0..4 {
            let to = area.words(results + n, first);
            let words = match n < N {
                true => _mm256_castps_si256(colors[n]),
                false => _mm256_set1_epi32(absent[n] as i32),
            };
            // SAFETY: the caller's promise.
            unsafe { store(to, words, some) };
        }
    }
    rest
}

/// A plane whose memory stays alive, of elements of `N` channels of `BYTES` bytes.
struct Reader<const BYTES: usize, const N: usize> {
    base: *const u8,
    pitch: usize,
    size: [u32; 2],
    scale: [f64; 2],
}

impl<const BYTES: usize, const N: usize> Reader<BYTES, N> {
    /// Bytes of an element.
    const ELEMENT: usize = BYTES * N;

    /// None if offsets do not fit into 31 bits.
    fn new(plane: &Plane<'_>) -> Option<Self> {
        let image = plane.image();
        let level = image.base();
        let [width, height, _] = level.size;
        let scale = |n: u32| if plane.is_normalized() { n.into() } else { 1.0 };
        let fits = i32::try_from(image.level_bytes(level)).is_ok();
        fits.then(|| Reader {
            base: level.addr as *const u8,
            pitch: level.pitch as usize,
            size: [width, height],
            scale: [scale(width), scale(height)],
        })
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    fn columns(&self, x: __m256i) -> Columns {
        let axis = axis(x, self.scale[0], self.size[0], 256.0);
        let [left, right] = &axis.sides;
        let window = self.window([left.index, right.index]);
        Columns { x, axis, window }
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    fn row(&self, words: __m256i) -> Row {
        // Together with weights of columns, which add up to 256, the sum is 1.
        let axis = axis(words, self.scale[1], self.size[1], 1.0 / 256.0);
        let y = _mm256_cvtsi256_si32(words) as u32;
        let rows =
            match is_all(words, y) {
                true => Rows::Same(axis.sides.map(|side| {
                    let row = _mm256_cvtsi256_si32(side.index);
                    row as usize * self.pitch
                })),
                false => Rows::ByLane(axis.sides.map(|side| {
                    _mm256_mullo_epi32(side.index, _mm256_set1_epi32(self.pitch as i32))
                })),
            };
        Row { y, axis, rows }
    }

    /// Mixes the four elements of each lane.
    ///
    /// # Safety
    ///
    /// Indices are inside of the level, which is alive.
    #[target_feature(enable = "avx2,fma,f16c")]
    #[inline]
    unsafe fn mix(&self, columns: &Columns, row: &Row) -> [__m256; N] {
        let [left, right] = &columns.axis.sides;
        let [above, below] = &row.axis.sides;
        let corners = [(above, left), (above, right), (below, left), (below, right)];
        let weights = corners.map(|(row, column)| {
            let low = _mm256_mul_pd(column.low, row.low);
            (low, _mm256_mul_pd(column.high, row.high))
        });
        let mut colors = [_mm256_setzero_ps(); N];
        for word in 0..Self::ELEMENT.div_ceil(4) {
            // SAFETY: the caller's promise.
            let corners = unsafe { self.corners(columns, &row.rows, word) };
            for (channel, color) in colors.iter_mut().enumerate() {
                if channel * BYTES / 4 != word {
                    continue;
                }
                let shift = 8 * (channel * BYTES % 4);
                let (mut low, mut high) = (_mm256_setzero_pd(), _mm256_setzero_pd());
                for n in 0..4 {
                    let value = decode::<BYTES>(corners[n], shift as i32);
                    let half = _mm256_cvtps_pd(_mm256_castps256_ps128(value));
                    low = _mm256_fmadd_pd(weights[n].0, half, low);
                    let half = _mm256_cvtps_pd(_mm256_extractf128_ps::<1>(value));
                    high = _mm256_fmadd_pd(weights[n].1, half, high);
                }
                *color = _mm256_set_m128(_mm256_cvtpd_ps(high), _mm256_cvtpd_ps(low));
            }
        }
        colors
    }

    /// A word of the four elements of each lane; of smaller elements all bits, zero-extended.
    ///
    /// # Safety
    ///
    /// As [`Reader::mix`].
    #[target_feature(enable = "avx2,fma,f16c")]
    #[inline]
    unsafe fn corners(&self, columns: &Columns, rows: &Rows, word: usize) -> [__m256i; 4] {
        if let Rows::Same([above, below]) = *rows
            && let Some(Window { first, columns }) = columns.window
        {
            let [left, right] = columns;
            let from = self.base.wrapping_add(4 * first);
            // SAFETY: eight elements from `first` on are inside of both rows.
            let [above, below] = unsafe {
                [above, below].map(|row| _mm256_loadu_si256(from.wrapping_add(row).cast()))
            };
            return [
                _mm256_permutevar8x32_epi32(above, left),
                _mm256_permutevar8x32_epi32(above, right),
                _mm256_permutevar8x32_epi32(below, left),
                _mm256_permutevar8x32_epi32(below, right),
            ];
        }
        let element = _mm256_set1_epi32(Self::ELEMENT as i32);
        let sides = &columns.axis.sides;
        let columns = [0, 1].map(|n| _mm256_mullo_epi32(sides[n].index, element));
        let rows = match *rows {
            Rows::Same(rows) => rows.map(|row| (row, _mm256_setzero_si256())),
            Rows::ByLane(rows) => rows.map(|row| (0, row)),
        };
        let mut corners = [_mm256_setzero_si256(); 4];
        for (n, corner) in corners.iter_mut().enumerate() {
            let (row, offsets) = rows[n >> 1];
            let offsets = _mm256_add_epi32(offsets, columns[n & 1]);
            let from = self.base.wrapping_add(row + 4 * word);
            // SAFETY: offsets are those of elements.
            *corner = unsafe { gather(from, offsets, Self::ELEMENT) };
        }
        corners
    }

    /// The window of columns, if there is one, of elements that have one word.
    #[target_feature(enable = "avx2")]
    fn window(&self, [left, right]: [__m256i; 2]) -> Option<Window> {
        if Self::ELEMENT != 4 {
            return None;
        }
        let ends = (
            _mm256_cvtsi256_si32(left),
            _mm_extract_epi32::<3>(_mm256_extracti128_si256::<1>(left)),
        );
        let last = self.size[0].checked_sub(LANES as u32)? as i32;
        let first = ends.0.min(ends.1).min(last);
        let from = _mm256_set1_epi32(first);
        let columns = [left, right].map(|column| _mm256_sub_epi32(column, from));
        let any = _mm256_or_si256(columns[0], columns[1]);
        let is_contiguous = _mm256_testz_si256(any, _mm256_set1_epi32(!(LANES as i32 - 1))) != 0;
        is_contiguous.then_some(Window {
            first: first as usize,
            columns,
        })
    }
}

/// Both neighbors of each lane along an axis of `n` elements, with weights that add up to `unit`.
///
/// Places are counted in parts of 256 from the middle of an element on, rounded to the nearest,
/// ties up. The multiply-add is exact wherever it comes near to an integer, so its floor is right.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn axis(words: __m256i, scale: f64, n: u32, unit: f64) -> Axis {
    let words = _mm256_castsi256_ps(words);
    let parts = |half: __m128| {
        let (scale, middle) = (_mm256_set1_pd(scale * 256.0), _mm256_set1_pd(-127.5));
        let place = _mm256_fmadd_pd(_mm256_cvtps_pd(half), scale, middle);
        _mm256_cvtpd_epi32(_mm256_floor_pd(place))
    };
    let low = parts(_mm256_castps256_ps128(words));
    let high = parts(_mm256_extractf128_ps::<1>(words));
    let parts = _mm256_set_m128i(high, low);
    let index = _mm256_srai_epi32::<8>(parts);
    let next = _mm256_add_epi32(index, _mm256_set1_epi32(1));
    let fraction = _mm256_and_si256(parts, _mm256_set1_epi32(255));
    let weight = |weight: __m128i| {
        let weight = _mm256_cvtepi32_pd(weight);
        match unit == 256.0 {
            true => weight,
            false => _mm256_mul_pd(weight, _mm256_set1_pd(unit / 256.0)),
        }
    };
    let low = weight(_mm256_castsi256_si128(fraction));
    let high = weight(_mm256_extracti128_si256::<1>(fraction));
    let (zero, last) = (_mm256_setzero_si256(), _mm256_set1_epi32(n as i32 - 1));
    let unit = _mm256_set1_pd(unit);
    Axis {
        sides: [
            Side {
                index: _mm256_min_epi32(_mm256_max_epi32(index, zero), last),
                low: _mm256_sub_pd(unit, low),
                high: _mm256_sub_pd(unit, high),
            },
            Side {
                index: _mm256_min_epi32(_mm256_max_epi32(next, zero), last),
                low,
                high,
            },
        ],
        is_far: _mm256_cmpeq_epi32(parts, _mm256_set1_epi32(i32::MIN)),
    }
}

/// The lanes that are far away or in which a color is a NaN.
#[target_feature(enable = "avx2")]
#[inline]
fn unusual<const N: usize>(is_far: __m256i, colors: &[__m256; N]) -> u32 {
    let unordered = colors.map(|color| _mm256_cmp_ps::<_CMP_UNORD_Q>(color, color));
    let is_far = _mm256_castsi256_ps(is_far);
    let any = unordered
        .into_iter()
        .fold(is_far, |any, lanes| _mm256_or_ps(any, lanes));
    _mm256_movemask_ps(any) as u32
}

/// Lanes that do not read have any operands: they get those of the first one that does.
#[target_feature(enable = "avx2")]
#[inline]
fn only_live(words: __m256i, some: u32) -> __m256i {
    if some == ALL {
        return words;
    }
    let first = some.trailing_zeros() as i32;
    let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    let from = _mm256_blendv_epi8(_mm256_set1_epi32(first), lanes, mask_of(some));
    _mm256_permutevar8x32_epi32(words, from)
}

/// All ones in the lanes of `some`.
#[target_feature(enable = "avx2")]
#[inline]
fn mask_of(some: u32) -> __m256i {
    let bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    let set = _mm256_and_si256(_mm256_set1_epi32(some as i32), bits);
    _mm256_cmpeq_epi32(set, bits)
}

#[target_feature(enable = "avx2")]
#[inline]
fn is_all(words: __m256i, word: u32) -> bool {
    is_same(words, _mm256_set1_epi32(word as i32))
}

#[target_feature(enable = "avx2")]
#[inline]
fn is_same(x: __m256i, y: __m256i) -> bool {
    _mm256_movemask_epi8(_mm256_cmpeq_epi32(x, y)) == -1
}

/// # Safety
///
/// There is room for the words of all lanes.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn store(to: *mut u32, words: __m256i, some: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        match some == ALL {
            true => _mm256_storeu_si256(to.cast(), words),
            false => _mm256_maskstore_epi32(to.cast(), mask_of(some), words),
        }
    }
}

/// Four bytes from each offset on, or all bytes of an element that has fewer. Kernels may write to
/// them at the same time: each is read by one instruction, and any bits are a value.
///
/// # Safety
///
/// Elements lie at the offsets, which are not negative.
#[target_feature(enable = "avx2")]
unsafe fn gather(base: *const u8, offsets: __m256i, element: usize) -> __m256i {
    if element >= 4 {
        // SAFETY: the caller's promise.
        return unsafe { _mm256_i32gather_epi32::<1>(base.cast(), offsets) };
    }
    let mut at = Words::default();
    // SAFETY: an array of eight words.
    unsafe { _mm256_storeu_si256(at.as_mut_ptr().cast(), offsets) };
    let words = at.map(|offset| {
        let from = base.wrapping_add(offset as usize);
        // SAFETY: the caller's promise.
        unsafe {
            match element {
                1 => u32::from(from.read_volatile()),
                _ => u32::from(from.cast::<u16>().read_volatile()),
            }
        }
    });
    // SAFETY: an array of eight words.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

/// The channel of `BYTES` bytes in bits `shift` and up of each word: a float, a half, or a fraction
/// of 255.
#[target_feature(enable = "avx2,f16c")]
#[inline]
fn decode<const BYTES: usize>(words: __m256i, shift: i32) -> __m256 {
    let shifted = _mm256_srl_epi32(words, _mm_cvtsi32_si128(shift));
    match BYTES {
        1 => {
            let bytes = _mm256_and_si256(shifted, _mm256_set1_epi32(0xff));
            _mm256_div_ps(_mm256_cvtepi32_ps(bytes), _mm256_set1_ps(255.0))
        }
        2 => {
            let halves = _mm256_and_si256(shifted, _mm256_set1_epi32(0xffff));
            let low = _mm256_castsi256_si128(halves);
            let high = _mm256_extracti128_si256::<1>(halves);
            _mm256_cvtph_ps(_mm_packus_epi32(low, high))
        }
        _ => _mm256_castsi256_ps(words),
    }
}
