//! What warp operations compute, from operands captured when the lanes arrived. The runtime uses it
//! for lanes that had to wait, compiled code for lanes that meet in one gang.

#![expect(
    unsafe_code,
    reason = "compiled code passes addresses of its own instructions and buffers"
)]

use ptxjit_ir::{InstData, Type, WarpOp};

use crate::mma;

/// Lanes of a warp.
pub const WARP: usize = 32;

/// One value per lane.
pub type Lanes = [u64; WARP];

/// Computes `op` over the lanes in `group`, which all have arrived; lanes outside it are ignored.
/// Operands are in the op's order, without the member mask. What `out` holds for other lanes, or
/// beyond the op's results, is arbitrary; it has room for [`WarpOp::n_results`] at least.
pub fn compute(op: WarpOp, ty: Type, group: u32, args: &[Lanes], out: &mut [Lanes]) {
    const ZEROS: Lanes = [0; WARP];
    let a = args.first().unwrap_or(&ZEROS);
    let value = match op {
        WarpOp::ShflUp | WarpOp::ShflDown | WarpOp::ShflBfly | WarpOp::ShflIdx => {
            return shuffle(op, group, args, out);
        }
        WarpOp::VoteAll => u32::from(ballot(a, group) == group),
        WarpOp::VoteAny => u32::from(ballot(a, group) != 0),
        WarpOp::VoteUni => u32::from(ballot(a, group) == group || ballot(a, group) == 0),
        WarpOp::Ballot => ballot(a, group),
        WarpOp::MatchAny => return match_any(a, group, ty, out),
        WarpOp::MatchAll => match_all(a, group, ty, out),
        WarpOp::ReduxAdd => fold(a, group, 0, |x, y| x.wrapping_add(y)),
        WarpOp::ReduxUmin => fold(a, group, u32::MAX, u32::min),
        WarpOp::ReduxUmax => fold(a, group, 0, u32::max),
        WarpOp::ReduxSmin => fold(a, group, i32::MAX as u32, |x, y| {
            (x as i32).min(y as i32) as u32
        }),
        WarpOp::ReduxSmax => fold(a, group, i32::MIN as u32, |x, y| {
            (x as i32).max(y as i32) as u32
        }),
        WarpOp::ReduxAnd => fold(a, group, u32::MAX, |x, y| x & y),
        WarpOp::ReduxOr => fold(a, group, 0, |x, y| x | y),
        WarpOp::ReduxXor => fold(a, group, 0, |x, y| x ^ y),
        WarpOp::ReduxFmin => float_fold(a, group, |x| x, false),
        WarpOp::ReduxFmax => float_fold(a, group, |x| -x, false),
        WarpOp::ReduxFminNan => float_fold(a, group, |x| x, true),
        WarpOp::ReduxFmaxNan => float_fold(a, group, |x| -x, true),
        WarpOp::Elect => elect(group, out),
        WarpOp::Sync | WarpOp::AlignedSync => 0,
        WarpOp::ActiveMask => group,
        WarpOp::Transpose => return transpose(a, group, out),
        WarpOp::Mma(mma) => return mma::compute(&mma, group, args, out),
    };
    out[0].fill(u64::from(value));
}

/// The lanes of `mask`, ascending.
pub fn lanes(mask: u32) -> impl Iterator<Item = u32> + Clone {
    let mut rest = mask;
    std::iter::from_fn(move || {
        let lane = rest.trailing_zeros();
        rest &= rest.checked_sub(1)?;
        Some(lane)
    })
}

fn ballot(a: &Lanes, group: u32) -> u32 {
    lanes(group)
        .filter(|&lane| a[lane as usize] & 1 != 0)
        .fold(0, |mask, lane| mask | 1 << lane)
}

/// The lane that `shfl` reads for lane `lane`, and whether that is one in range: if not, it is the
/// lane itself. `b` and `c` are the instruction's operands.
pub fn shuffle_source(op: WarpOp, lane: u32, b: u32, c: u32) -> (u32, bool) {
    let (amount, clamp, segment) = (b & 31, c & 31, (c >> 8) & 31);
    let max_lane = (lane & segment) | (clamp & !segment);
    let (source, in_range) = match op {
        WarpOp::ShflUp => (lane.wrapping_sub(amount), lane >= amount + max_lane),
        WarpOp::ShflDown => (lane + amount, lane + amount <= max_lane),
        WarpOp::ShflBfly => (lane ^ amount, lane ^ amount <= max_lane),
        _ => {
            let indexed = (lane & segment) | (amount & !segment);
            (indexed, indexed <= max_lane)
        }
    };
    (if in_range { source } else { lane } % WARP as u32, in_range)
}

/// `shfl`: operands a, b, c; results the value and whether the source lane is in range. A source
/// lane that takes no part gives zero.
fn shuffle(op: WarpOp, group: u32, args: &[Lanes], out: &mut [Lanes]) {
    let ([a, b, c], [value, in_range, ..]) = (args, out) else {
        return;
    };
    // All lanes, whether in the group or not: there is nothing to decide.
    for lane in 0..WARP {
        let (source, ok) = shuffle_source(op, lane as u32, b[lane] as u32, c[lane] as u32);
        let takes_part = u64::from((group >> source) & 1).wrapping_neg();
        value[lane] = a[source as usize] & takes_part;
        in_range[lane] = u64::from(ok);
    }
}

/// `movmatrix`: lanes 4 r to 4 r + 3 hold row r, two halves each. Lanes that take no part hold
/// zeros.
fn transpose(a: &Lanes, group: u32, out: &mut [Lanes]) {
    let mut tile = [[0; 8]; 8];
    for lane in lanes(group) {
        let (row, column) = (lane as usize / 4, lane as usize % 4 * 2);
        let word = a[lane as usize];
        (tile[row][column], tile[row][column + 1]) = (word & 0xffff, word >> 16 & 0xffff);
    }
    for (lane, word) in out[0].iter_mut().enumerate() {
        let (row, column) = (lane / 4, lane % 4 * 2);
        *word = tile[column][row] | tile[column + 1][row] << 16;
    }
}

fn match_any(a: &Lanes, group: u32, ty: Type, out: &mut [Lanes]) {
    for lane in lanes(group) {
        let equal = |&other: &u32| (a[other as usize] ^ a[lane as usize]) & ty.mask() == 0;
        let mask = lanes(group)
            .filter(equal)
            .fold(0, |mask, other| mask | 1 << other);
        out[0][lane as usize] = mask;
    }
}

fn match_all(a: &Lanes, group: u32, ty: Type, out: &mut [Lanes]) -> u32 {
    let first = a[group.trailing_zeros() as usize % WARP];
    let equal = lanes(group).all(|lane| (a[lane as usize] ^ first) & ty.mask() == 0);
    out[1].fill(u64::from(equal));
    if equal { group } else { 0 }
}

fn fold(a: &Lanes, group: u32, start: u32, f: impl Fn(u32, u32) -> u32) -> u32 {
    lanes(group).fold(start, |sum, lane| f(sum, a[lane as usize] as u32))
}

/// `redux.min.f32` over `key(x)`, an exact sign change or nothing: -0 is less than +0, NaNs lose or
/// (`nan`) win.
fn float_fold(a: &Lanes, group: u32, key: impl Fn(f32) -> f32, nan: bool) -> u32 {
    const CANONICAL_NAN: u32 = 0x7fff_ffff;
    let values = || lanes(group).map(|lane| f32::from_bits(a[lane as usize] as u32));
    if nan && values().any(f32::is_nan) {
        return CANONICAL_NAN;
    }
    let least = values()
        .filter(|x| !x.is_nan())
        .map(&key)
        .min_by(f32::total_cmp);
    least.map_or(CANONICAL_NAN, |x| key(x).to_bits())
}

fn elect(group: u32, out: &mut [Lanes]) -> u32 {
    let leader = group.trailing_zeros();
    out[1].fill(0);
    out[1][leader as usize % WARP] = 1;
    leader
}

/// Operands and results of one operation as compiled code keeps them: an element per lane, of 4
/// bytes or, for `match` of 64-bit values, of 8; a predicate is 0 or all ones.
#[repr(C)]
pub struct WarpBuffer {
    pub args: [[u8; 8 * WARP]; 3],
    pub results: [[u32; 2 * WARP]; 2],
}

/// Computes a warp operation for the lanes of `group`, which are all that take part in it.
///
/// # Safety
///
/// `data` points to a warp operation that the running kernel keeps; `buffer` to a buffer that
/// no other code uses.
pub unsafe extern "C" fn warp_op(data: *const InstData, group: u64, buffer: *mut WarpBuffer) {
    // SAFETY: the caller's promise.
    let (data, buffer) = unsafe { (&*data, &mut *buffer) };
    let InstData::Warp { op, ty, .. } = *data else {
        return;
    };
    let mut args = [[0; WARP]; 3];
    let args = &mut args[..op.n_args()];
    let is_match = matches!(op, WarpOp::MatchAny | WarpOp::MatchAll);
    for (lanes, bytes) in args.iter_mut().zip(&buffer.args) {
        let word = |at: usize| {
            u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        for (lane, value) in lanes.iter_mut().enumerate() {
            *value = if is_match && ty == Type::B64 {
                u64::from(word(8 * lane)) | u64::from(word(8 * lane + 4)) << 32
            } else {
                u64::from(word(4 * lane))
            };
        }
    }
    let mut results = [[0; WARP]; 2];
    compute(op, ty, group as u32, args, &mut results);
    let votes = matches!(op, WarpOp::VoteAll | WarpOp::VoteAny | WarpOp::VoteUni);
    for (idx, (values, words)) in results.iter().zip(&mut buffer.results).enumerate() {
        let is_predicate = votes || idx == 1;
        for (&value, word) in values.iter().zip(words) {
            *word = if is_predicate {
                (value as u32 & 1).wrapping_neg()
            } else {
                value as u32
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compute(op: WarpOp, ty: Type, group: u32, args: &[Lanes]) -> [Lanes; 2] {
        let mut out = [[0; WARP]; 2];
        super::compute(op, ty, group, args, &mut out);
        out
    }

    fn iota() -> Lanes {
        std::array::from_fn(|lane| 100 + lane as u64)
    }

    #[test]
    fn shuffles_follow_the_isa() {
        let run = |op, b: u64, c: u64| compute(op, Type::B32, !0, &[iota(), [b; WARP], [c; WARP]]);
        let [value, ok] = run(WarpOp::ShflUp, 1, 0);
        assert_eq!((value[0], ok[0], value[1], ok[1]), (100, 0, 100, 1));
        let [value, ok] = run(WarpOp::ShflDown, 2, 31);
        assert_eq!((value[29], ok[29], value[30], ok[30]), (131, 1, 130, 0));
        let [value, _] = run(WarpOp::ShflBfly, 16, 31);
        assert_eq!((value[0], value[31]), (116, 115));
        // Segments of 8: c = (32 - 8) << 8 | 31.
        let [value, ok] = run(WarpOp::ShflIdx, 3, 0x181f);
        assert_eq!((value[9], ok[9], value[31]), (111, 1, 127));
        let [value, _] = run(WarpOp::ShflUp, 4, 0x1800);
        assert_eq!((value[8], value[13]), (108, 109));
        // Bits of b above 4 are ignored.
        assert_eq!(run(WarpOp::ShflDown, 32, 31)[0], iota());
    }

    #[test]
    fn votes_matches_and_reductions() {
        let odd: Lanes = std::array::from_fn(|lane| lane as u64 & 1);
        let group = 0xff00;
        let first = |op, a: Lanes| compute(op, Type::B32, group, &[a])[0][9];
        assert_eq!(first(WarpOp::Ballot, odd), 0xaa00);
        assert_eq!(
            (
                first(WarpOp::VoteAll, odd),
                first(WarpOp::VoteAny, odd),
                first(WarpOp::VoteUni, odd)
            ),
            (0, 1, 0)
        );
        assert_eq!(first(WarpOp::MatchAny, odd), 0xaa00);
        assert_eq!(first(WarpOp::MatchAll, odd), 0);
        assert_eq!(
            compute(WarpOp::MatchAll, Type::B64, group, &[[u64::MAX; WARP]])[1][8],
            1
        );
        assert_eq!(first(WarpOp::ReduxAdd, iota()), (108..116).sum::<u64>());
        let signed: Lanes = std::array::from_fn(|lane| (lane as u32).wrapping_sub(12) as u64);
        assert_eq!(
            (
                first(WarpOp::ReduxSmin, signed),
                first(WarpOp::ReduxUmin, signed)
            ),
            (-4i32 as u32 as u64, 0)
        );
        let [leader, is_leader] = compute(WarpOp::Elect, Type::B32, group, &[]);
        assert_eq!((leader[12], is_leader[8], is_leader[9]), (8, 1, 0));
    }

    #[test]
    fn float_reductions_order_zeros_and_nans() {
        let bits =
            |values: [f32; 4]| std::array::from_fn(|lane| u64::from(values[lane % 4].to_bits()));
        let run = |op, values| compute(op, Type::B32, 0xf, &[bits(values)])[0][0];
        assert_eq!(
            run(WarpOp::ReduxFmin, [0.0, -0.0, f32::NAN, 1.0]),
            u64::from((-0.0f32).to_bits())
        );
        assert_eq!(run(WarpOp::ReduxFmax, [0.0, -0.0, f32::NAN, -1.0]), 0);
        assert_eq!(
            run(WarpOp::ReduxFmaxNan, [0.0, -0.0, f32::NAN, -1.0]),
            0x7fff_ffff
        );
        assert_eq!(run(WarpOp::ReduxFmin, [f32::NAN; 4]), 0x7fff_ffff);
        assert_eq!(
            run(WarpOp::ReduxFmax, [1.0, 7.5, -9.0, 2.0]),
            u64::from(7.5f32.to_bits())
        );
    }
}
