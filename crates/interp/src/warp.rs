//! What the operations among the lanes of a warp compute, as a pure function.

use ptxjit_ir::{CompareOp, FloatBinaryOp, FloatFmt, FloatMode, IntBinaryOp, Type, WarpOp, eval};
use smallvec::{SmallVec, smallvec};

/// Lanes of a warp.
pub const LANES: usize = 32;

/// A lane's operands, without the member mask.
pub type Args = SmallVec<[u64; 4]>;

/// The operands of each lane that takes part.
pub type Operands = [Option<Args>; LANES];

/// The results of one lane: two, even if the operation has one, or the registers of a matrix.
pub type Results = SmallVec<[u64; 2]>;

/// The results of a warp operation for each lane that takes part; others have none. The second
/// results of operations that have one are zero.
pub fn evaluate(op: WarpOp, ty: Type, operands: &Operands) -> [Results; LANES] {
    let mut results = std::array::from_fn(|_| Results::new());
    if let WarpOp::Mma(mma) = op {
        // Lanes that take no part are not allowed; their operands read as zero.
        let register = |n: usize| {
            let of_lane = |args: &Option<Args>| args.as_ref().map_or(0, |args| args[n]);
            std::array::from_fn(|lane| of_lane(&operands[lane]))
        };
        let args: Vec<_> = (0..op.n_args()).map(register).collect();
        let registers = eval::mma(&mma, &args);
        for lane in (0..LANES).filter(|&lane| operands[lane].is_some()) {
            results[lane] = registers.iter().map(|lanes| lanes[lane]).collect();
        }
        return results;
    }
    let shared = shared_result(op, ty, operands);
    for (lane, args) in operands.iter().enumerate() {
        let Some(args) = args else { continue };
        results[lane] = match op {
            WarpOp::ShflUp | WarpOp::ShflDown | WarpOp::ShflBfly | WarpOp::ShflIdx => {
                shuffle(op, lane, args, operands)
            }
            WarpOp::Transpose => smallvec![transposed(lane, operands), 0],
            WarpOp::MatchAny => smallvec![
                lanes_where(operands, |other| (other[0] ^ args[0]) & ty.mask() == 0).into(),
                0,
            ],
            WarpOp::Elect => smallvec![shared[0], u64::from(shared[0] == lane as u64)],
            WarpOp::VoteAll
            | WarpOp::VoteAny
            | WarpOp::VoteUni
            | WarpOp::Ballot
            | WarpOp::MatchAll
            | WarpOp::ReduxAdd
            | WarpOp::ReduxUmin
            | WarpOp::ReduxUmax
            | WarpOp::ReduxSmin
            | WarpOp::ReduxSmax
            | WarpOp::ReduxAnd
            | WarpOp::ReduxOr
            | WarpOp::ReduxXor
            | WarpOp::ReduxFmin
            | WarpOp::ReduxFmax
            | WarpOp::ReduxFminNan
            | WarpOp::ReduxFmaxNan
            | WarpOp::Sync
            | WarpOp::AlignedSync
            | WarpOp::ActiveMask
            | WarpOp::Mma(_) => SmallVec::from_slice(&shared),
        };
    }
    results
}

/// A bit for each lane that takes part.
pub fn lane_mask(operands: &Operands) -> u32 {
    lanes_where(operands, |_| true)
}

/// Where a shuffle reads, and whether that is in range (else it reads its own lane).
pub fn shuffle_source(op: WarpOp, lane: u32, b: u64, c: u64) -> (u32, bool) {
    let (b, clamp, seg) = (b as u32 & 31, c as u32 & 31, (c >> 8) as u32 & 31);
    let max_lane = (lane & seg) | (clamp & !seg);
    // For `.up` the clamp is the lower bound.
    let (source, in_range) = if op == WarpOp::ShflUp {
        (
            lane.wrapping_sub(b),
            lane as i32 - b as i32 >= max_lane as i32,
        )
    } else {
        let source = if op == WarpOp::ShflDown {
            lane + b
        } else if op == WarpOp::ShflBfly {
            lane ^ b
        } else {
            (lane & seg) | (b & !seg)
        };
        (source, source <= max_lane)
    };
    if in_range {
        (source, true)
    } else {
        (lane, false)
    }
}

fn shuffle(op: WarpOp, lane: usize, args: &Args, operands: &Operands) -> Results {
    let (source, in_range) = shuffle_source(op, lane as u32, args[1], args[2]);
    // Reading a lane that takes no part is undefined; it reads as zero.
    let value = operands
        .get(source as usize)
        .and_then(Option::as_ref)
        .map_or(0, |other| other[0]);
    smallvec![value & Type::B32.mask(), in_range.into()]
}

/// The lane's two elements of the transposed tile. PTX ISA, "movmatrix".
fn transposed(lane: usize, operands: &Operands) -> u64 {
    let element = |row: usize, column: usize| {
        let word = operands[4 * row + column / 2].as_ref().map_or(0, first_of);
        word >> (16 * (column % 2)) & 0xffff
    };
    let (row, column) = (lane / 4, lane % 4 * 2);
    element(column, row) | element(column + 1, row) << 16
}

fn lanes_where(operands: &Operands, holds: impl Fn(&Args) -> bool) -> u32 {
    let bit =
        |(lane, args): (usize, &Option<Args>)| u32::from(args.as_ref().is_some_and(&holds)) << lane;
    operands
        .iter()
        .enumerate()
        .map(bit)
        .fold(0, |acc, bit| acc | bit)
}

/// The result that all lanes have in common, for the operations that have one.
fn shared_result(op: WarpOp, ty: Type, operands: &Operands) -> [u64; 2] {
    let all = lane_mask(operands);
    let ballot = lanes_where(operands, |args| first_of(args) & 1 != 0);
    let first = operands.iter().flatten().next().map_or(0, first_of);
    let int = |op| fold(operands, |a, b| eval::int_binary(op, Type::B32, a, b));
    let combine = |op, a, b| eval::float_binary(op, FloatFmt::F32, FloatMode::RN, a, b);
    let float = |op| {
        let value = fold(operands, |a, b| combine(op, a, b));
        // With itself, so that the NaN of a lone lane becomes canonical too.
        combine(op, value, value)
    };
    match op {
        WarpOp::VoteAll => [u64::from(ballot == all), 0],
        WarpOp::VoteAny => [u64::from(ballot != 0), 0],
        WarpOp::VoteUni => [u64::from(ballot == 0 || ballot == all), 0],
        WarpOp::Ballot => [ballot.into(), 0],
        WarpOp::MatchAll => {
            let equal = operands
                .iter()
                .flatten()
                .all(|args| eval::compare(CompareOp::Eq, ty, args[0], first));
            if equal { [all.into(), 1] } else { [0, 0] }
        }
        WarpOp::ReduxAdd => [int(IntBinaryOp::Add), 0],
        WarpOp::ReduxUmin => [int(IntBinaryOp::Umin), 0],
        WarpOp::ReduxUmax => [int(IntBinaryOp::Umax), 0],
        WarpOp::ReduxSmin => [int(IntBinaryOp::Smin), 0],
        WarpOp::ReduxSmax => [int(IntBinaryOp::Smax), 0],
        WarpOp::ReduxAnd => [int(IntBinaryOp::And), 0],
        WarpOp::ReduxOr => [int(IntBinaryOp::Or), 0],
        WarpOp::ReduxXor => [int(IntBinaryOp::Xor), 0],
        WarpOp::ReduxFmin => [float(FloatBinaryOp::Min), 0],
        WarpOp::ReduxFmax => [float(FloatBinaryOp::Max), 0],
        WarpOp::ReduxFminNan => [float(FloatBinaryOp::MinNan), 0],
        WarpOp::ReduxFmaxNan => [float(FloatBinaryOp::MaxNan), 0],
        WarpOp::Elect => [all.trailing_zeros().into(), 0],
        WarpOp::ActiveMask => [all.into(), 0],
        WarpOp::Sync
        | WarpOp::AlignedSync
        | WarpOp::MatchAny
        | WarpOp::ShflUp
        | WarpOp::ShflDown
        | WarpOp::ShflBfly
        | WarpOp::ShflIdx
        | WarpOp::Transpose
        | WarpOp::Mma(_) => [0, 0],
    }
}

/// The first operand, if the operation has any.
fn first_of(args: &Args) -> u64 {
    args.first().copied().unwrap_or(0)
}

/// Reduction over the lanes.
fn fold(operands: &Operands, combine: impl Fn(u64, u64) -> u64) -> u64 {
    let values = operands
        .iter()
        .flatten()
        .map(|args| first_of(args) & Type::B32.mask());
    values.reduce(combine).unwrap_or(0)
}
