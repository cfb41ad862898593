//! The copies. All are done when they are asked for, which is one of the schedules that PTX allows;
//! those that [complete late](crate::asynchronous) are asked for late.
//!
//! A copy goes through a buffer that holds its units as they lie in global memory: rows are
//! gathered there (or scattered from there), lines permuted in place, and all of it written to
//! shared memory at once. Where nothing lies outside of the tensor and the engine can, shared
//! memory is that buffer.

use std::cell::RefCell;
use std::ops::Range;

use ptxjit_ir::{AtomicFmt, AtomicOp, TensorOp, eval};

use super::map::{ElementType, Fill, SwizzleMode, TensorMap};
use super::swizzle::LINE;
use super::walk::{Start, Walk};
use super::{map_at, walk};
use crate::mbarrier::complete;
use crate::{Fault, Thread};

/// Where boxes begin in shared memory.
const BOX_ALIGN: u32 = 128;

thread_local! {
    /// The buffer of this thread's copies, kept from one to the next.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Calls `f` with a buffer of `len` bytes, whose contents are arbitrary.
fn with_buffer<T>(len: usize, f: impl FnOnce(&mut [u8]) -> T) -> T {
    let mut buffer = BUFFER.take();
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
    let done = f(&mut buffer[..len]);
    BUFFER.set(buffer);
    done
}

/// Operands of a copy behind the addresses.
fn start<'a>(
    mode: ptxjit_ir::TensorMode,
    rank: u8,
    words: &[u64],
    room: &'a mut ([i32; 5], [u32; 3]),
) -> Start<'a> {
    let n = mode.n_coordinates(rank);
    let n_offsets = mode.n_offsets(rank).min(words.len() - n);
    for (coordinate, &word) in room.0.iter_mut().zip(&words[..n]) {
        *coordinate = word as u32 as i32;
    }
    for (offset, &word) in room.1.iter_mut().zip(&words[n..]) {
        // Offsets have 16 bits.
        *offset = u32::from(word as u16);
    }
    Start {
        mode,
        coordinates: &room.0[..n],
        offsets: &room.1[..n_offsets],
    }
}

/// Global to shared memory; the barrier then learns of the bytes.
pub(super) fn load(op: TensorOp, thread: &mut dyn Thread, args: &[u64]) -> Result<(), Fault> {
    let (
        TensorOp::Load {
            rank,
            mode,
            multicast,
            pair,
        },
        &[map, to, barrier, ref rest @ ..],
    ) = (op, args)
    else {
        unreachable!("operands are as many as the operation says")
    };
    let map = map_at(thread, map, rank)?;
    check_box_address(to)?;
    let mut room = Default::default();
    let walk = map.walk(start(mode, rank, rest, &mut room))?;
    let bytes = copied_bytes(&map, &walk) as u64;
    let Some(&ranks) = rest.last().filter(|_| multicast) else {
        bring(thread, &map, &walk, to)?;
        return complete(thread, barrier, bytes);
    };
    for rank in ranks_of(ranks) {
        let (there, barrier) = in_cta(thread, pair, (to, barrier), rank)?;
        bring(thread, &map, &walk, there)?;
        complete(thread, barrier, bytes)?;
    }
    Ok(())
}

/// A load to several CTAs as loads to one each.
pub(crate) fn each_box(
    op: TensorOp,
    thread: &mut dyn Thread,
    args: &[u64],
) -> Result<Vec<(TensorOp, Vec<u64>)>, Fault> {
    let (
        TensorOp::Load {
            rank,
            mode,
            multicast: true,
            pair,
        },
        &[map, to, barrier, ref rest @ .., ranks],
    ) = (op, args)
    else {
        return Ok(vec![(op, args.to_vec())]);
    };
    let op = TensorOp::Load {
        rank,
        mode,
        multicast: false,
        pair,
    };
    let load = |rank| {
        let (there, barrier) = in_cta(thread, pair, (to, barrier), rank)?;
        let args = [&[map, there, barrier], rest].concat();
        Ok((op, args))
    };
    ranks_of(ranks).map(load).collect()
}

/// The CTAs whose bits are set in a mask.
fn ranks_of(mask: u64) -> impl Iterator<Item = u32> {
    (0..16).filter(move |rank| mask >> rank & 1 != 0)
}

/// Destination and barrier in one of several CTAs.
fn in_cta(
    thread: &mut dyn Thread,
    pair: bool,
    (to, barrier): (u64, u64),
    rank: u32,
) -> Result<(u64, u64), Fault> {
    let signaled = match pair {
        // The barrier is in the CTA of the pair that the instruction names.
        true => rank & !1 | thread.rank_of(barrier).unwrap_or(0) & 1,
        false => rank,
    };
    Ok((thread.in_cta(to, rank)?, thread.in_cta(barrier, signaled)?))
}

/// Writes the box of a walk to an address in shared memory.
fn bring(thread: &mut dyn Thread, map: &TensorMap, walk: &Walk, to: u64) -> Result<(), Fault> {
    let shared = shared_bytes(map, walk);
    let is_direct = walk.inside == walk.bytes && is_direct(map, shared) && {
        let line = to / LINE as u64;
        thread.gather(to, shared, map.address, &walk.rows, &mut |bytes| {
            map.swizzle.permute(line, bytes);
        })
    };
    if is_direct {
        return Ok(());
    }
    with_buffer(walk.bytes.max(shared), |buffer| {
        gather(thread, map, walk, &mut buffer[..walk.bytes])?;
        expand(map, walk.bytes, buffer);
        put(thread, (map, walk), to, &mut buffer[..shared])
    })
}

/// How elements change: by which operation, what they are, whether subnormal numbers are flushed.
type Reduction = (AtomicOp, AtomicFmt, bool);

/// A copy to global memory: its map, the address of the box, what changes, the elements.
type Leaving = (TensorMap, u64, Option<Reduction>, Walk);

fn leaving(op: TensorOp, thread: &mut dyn Thread, args: &[u64]) -> Result<Leaving, Fault> {
    let (TensorOp::Store { rank, mode, reduce }, &[map, from, ref rest @ ..]) = (op, args) else {
        unreachable!("operands are as many as the operation says")
    };
    let map = map_at(thread, map, rank)?;
    check_box_address(from)?;
    let mut room = Default::default();
    let start = start(mode, rank, rest, &mut room);
    check_store(&map, start.coordinates)?;
    let reduction = reduce.map(|op| reduction(op, map.dtype)).transpose()?;
    let walk = map.walk(start)?;
    Ok((map, from, reduction, walk))
}

/// Shared to global memory.
pub(super) fn store(op: TensorOp, thread: &mut dyn Thread, args: &[u64]) -> Result<(), Fault> {
    let (map, from, reduction, walk) = leaving(op, thread, args)?;
    let shared = shared_bytes(&map, &walk);
    let is_direct = reduction.is_none()
        && map.swizzle.mode == SwizzleMode::None
        && is_direct(&map, shared)
        && thread.scatter(from, shared, &walk.rows);
    if is_direct {
        return Ok(());
    }
    with_buffer(walk.bytes.max(shared), |buffer| {
        take(thread, (&map, &walk), (from, shared), buffer)?;
        put_rows(thread, reduction, &walk, &buffer[..walk.bytes])
    })
}

/// A box that has been read and is not written yet.
pub(crate) struct Outgoing {
    reduction: Option<Reduction>,
    walk: Walk,
    bytes: Vec<u8>,
}

/// Reads what a copy to global memory is going to write.
pub(crate) fn outgoing(
    op: TensorOp,
    thread: &mut dyn Thread,
    args: &[u64],
) -> Result<Outgoing, Fault> {
    let (map, from, reduction, walk) = leaving(op, thread, args)?;
    let shared = shared_bytes(&map, &walk);
    let mut bytes = vec![0; walk.bytes.max(shared)];
    take(thread, (&map, &walk), (from, shared), &mut bytes)?;
    bytes.truncate(walk.bytes);
    Ok(Outgoing {
        reduction,
        walk,
        bytes,
    })
}

impl Outgoing {
    pub(crate) fn write(&self, thread: &mut dyn Thread) -> Result<(), Fault> {
        put_rows(thread, self.reduction, &self.walk, &self.bytes)
    }
}

/// Reads `shared` bytes of a box to a buffer, as they lie in global memory.
fn take(
    thread: &mut dyn Thread,
    (map, walk): (&TensorMap, &Walk),
    (from, shared): (u64, usize),
    buffer: &mut [u8],
) -> Result<(), Fault> {
    get(thread, (map, walk), from, &mut buffer[..shared])?;
    pack(map, shared, buffer);
    Ok(())
}

/// Writes elements to global memory.
fn put_rows(
    thread: &mut dyn Thread,
    reduction: Option<Reduction>,
    walk: &Walk,
    bytes: &[u8],
) -> Result<(), Fault> {
    walk.rows.iter().try_for_each(|(at, rows)| match reduction {
        None => thread.write_rows(rows, &bytes[*at..]),
        Some(reduction) => reduce_rows(thread, reduction, rows, &bytes[*at..]),
    })
}

/// Whether units lie in shared as in global memory, but for a permutation of whole lines.
fn is_direct(map: &TensorMap, len: usize) -> bool {
    !map.dtype.is_padded() && (map.swizzle.mode == SwizzleMode::None || len.is_multiple_of(LINE))
}

fn check_box_address(addr: u64) -> Result<(), Fault> {
    match addr.is_multiple_of(BOX_ALIGN.into()) {
        true => Ok(()),
        false => Err(Fault::Misaligned {
            addr,
            size: BOX_ALIGN,
        }),
    }
}

/// PTX ISA, "Restriction on Tensor Copy instructions", for copies to global memory.
fn check_store(map: &TensorMap, coordinates: &[i32]) -> Result<(), Fault> {
    if let Some((n, x)) = coordinates.iter().enumerate().find(|(_, x)| **x < 0) {
        return Err(Fault::refused(format!(
            "coordinate {n} is {x}: copies to global memory begin inside of the tensor"
        )));
    }
    if map.dtype == ElementType::B4x16P64 {
        return Err(Fault::refused(
            "elements of type b4x16_p64 are not copied to global memory",
        ));
    }
    let super::Access::Im2col(pixels) = &map.access else {
        return Ok(());
    };
    let n_spatial = map.n_dims() - 2;
    let stays =
        |corner: &[i32; 3], is_in: fn(i32) -> bool| corner[..n_spatial].iter().all(|&x| is_in(x));
    match stays(&pixels.lower, |x| x >= 0) && stays(&pixels.upper, |x| x <= 0) {
        true => Ok(()),
        false => Err(Fault::refused(
            "the corners of the tensor map lie outside of the tensor: such a map is for loads",
        )),
    }
}

/// Bytes of a box in shared memory, from the first to the last.
fn shared_bytes(map: &TensorMap, walk: &Walk) -> usize {
    map.dtype.unit().in_shared(walk.bytes)
}

/// Likewise, without the gaps between its rows.
fn copied_bytes(map: &TensorMap, walk: &Walk) -> usize {
    map.dtype
        .unit()
        .in_shared(walk.bytes / walk.pitch * walk.row)
}

/// Fills a buffer with the units of a walk.
fn gather(
    thread: &mut dyn Thread,
    map: &TensorMap,
    walk: &walk::Walk,
    bytes: &mut [u8],
) -> Result<(), Fault> {
    if walk.inside != walk.bytes {
        match map.dtype.nan().filter(|_| map.fill == Fill::Nan) {
            None => bytes.fill(0),
            Some(nan) => {
                let nan = nan.to_le_bytes();
                for unit in bytes.chunks_exact_mut(map.dtype.unit().global as usize) {
                    unit.copy_from_slice(&nan[..unit.len()]);
                }
            }
        }
    }
    walk.rows
        .iter()
        .try_for_each(|(at, rows)| thread.read_rows(rows, &mut bytes[*at..]))
}

/// Gives padded units their places in shared memory, from the last on. Padding is undefined; here
/// it is zero.
fn expand(map: &TensorMap, len: usize, buffer: &mut [u8]) {
    let unit = map.dtype.unit();
    let (small, large) = (unit.global as usize, unit.shared as usize);
    if small == large {
        return;
    }
    for n in (0..len / small).rev() {
        buffer.copy_within(n * small..(n + 1) * small, n * large);
        buffer[n * large + small..(n + 1) * large].fill(0);
    }
}

/// Packs units as stores take them, sixteen bytes with six bits each, as they lie in global memory.
fn pack(map: &TensorMap, len: usize, buffer: &mut [u8]) {
    if map.dtype != ElementType::B6x16P32 {
        return;
    }
    let unit = map.dtype.unit();
    let (small, large) = (unit.global as usize, unit.shared as usize);
    for n in 0..len / large {
        let elements = &buffer[n * large..(n + 1) * large];
        let bits = elements.iter().rev().fold(0u128, |bits, &element| {
            bits << 6 | u128::from(element & 0x3f)
        });
        buffer[n * small..(n + 1) * small].copy_from_slice(&bits.to_le_bytes()[..small]);
    }
}

/// Writes a box to shared memory, permuted.
fn put(
    thread: &mut dyn Thread,
    (map, walk): (&TensorMap, &Walk),
    to: u64,
    bytes: &mut [u8],
) -> Result<(), Fault> {
    if walk.has_gaps() {
        return each_row(map, walk, to, bytes.len(), |addr, range| {
            thread.write(addr, &bytes[range])
        });
    }
    let line = to / LINE as u64;
    let whole = bytes.len() / LINE * LINE;
    map.swizzle.permute(line, bytes);
    thread.write(to, &bytes[..whole])?;
    // What is left over of the last line may change places with bytes behind the box, which stay.
    each_place(map, to, whole..bytes.len(), |addr, range| {
        thread.write(addr, &bytes[range])
    })
}

/// Reads a permuted box from shared memory.
fn get(
    thread: &mut dyn Thread,
    (map, walk): (&TensorMap, &Walk),
    from: u64,
    bytes: &mut [u8],
) -> Result<(), Fault> {
    if walk.has_gaps() {
        return each_row(map, walk, from, bytes.len(), |addr, range| {
            thread.read(addr, &mut bytes[range])
        });
    }
    let line = from / LINE as u64;
    let whole = bytes.len() / LINE * LINE;
    thread.read(from, &mut bytes[..whole])?;
    map.swizzle.permute(line, &mut bytes[..whole]);
    each_place(map, from, whole..bytes.len(), |addr, range| {
        thread.read(addr, &mut bytes[range])
    })
}

/// Calls `f` as [`each_place`] does, for each row of a box of `len` bytes. Rows with gaps between
/// them do not cross lines.
fn each_row(
    map: &TensorMap,
    walk: &Walk,
    base: u64,
    len: usize,
    mut f: impl FnMut(u64, Range<usize>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    (0..len)
        .step_by(walk.pitch)
        .try_for_each(|at| each_place(map, base, at..at + walk.row, &mut f))
}

/// Calls `f` with the addresses of the pieces of a part of a line, and where they are in the box,
/// which begins at `base`.
fn each_place(
    map: &TensorMap,
    base: u64,
    part: Range<usize>,
    mut f: impl FnMut(u64, Range<usize>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    const PIECE: usize = 8;
    if part.is_empty() {
        return Ok(());
    }
    let line = part.start / LINE * LINE;
    let exchange = map.swizzle.exchange((base + line as u64) / LINE as u64);
    if exchange == 0 {
        return f(base + part.start as u64, part);
    }
    let end = part.end;
    part.step_by(PIECE).try_for_each(|at| {
        let place = line + ((at - line) ^ exchange);
        f(base + place as u64, at..end.min(at + PIECE))
    })
}

/// How elements of a type change.
fn reduction(op: AtomicOp, dtype: ElementType) -> Result<Reduction, Fault> {
    use ElementType as E;
    let fmt = match (op, dtype) {
        (AtomicOp::Add | AtomicOp::Min | AtomicOp::Max, E::U32) => AtomicFmt::U32,
        (AtomicOp::Add | AtomicOp::Min | AtomicOp::Max, E::I32) => AtomicFmt::S32,
        (AtomicOp::Add | AtomicOp::Min | AtomicOp::Max, E::U64) => AtomicFmt::U64,
        (AtomicOp::Min | AtomicOp::Max, E::I64) => AtomicFmt::S64,
        (AtomicOp::Add | AtomicOp::Min | AtomicOp::Max, E::F16) => AtomicFmt::F16,
        (AtomicOp::Add | AtomicOp::Min | AtomicOp::Max, E::Bf16) => AtomicFmt::Bf16,
        (AtomicOp::Add, E::F32 | E::F32Ftz) => AtomicFmt::F32,
        (AtomicOp::Inc | AtomicOp::Dec, E::U32) => AtomicFmt::U32,
        (AtomicOp::And | AtomicOp::Or | AtomicOp::Xor, E::U32 | E::I32) => AtomicFmt::B32,
        (AtomicOp::And | AtomicOp::Or | AtomicOp::Xor, E::U64 | E::I64) => AtomicFmt::B64,
        _ => {
            return Err(Fault::refused(format!(
                "there is no reduction `.{op}` of elements of type {dtype}"
            )));
        }
    };
    Ok((op, fmt, dtype == E::F32Ftz))
}

fn reduce_rows(
    thread: &mut dyn Thread,
    (op, fmt, flush): Reduction,
    rows: &crate::Rows,
    bytes: &[u8],
) -> Result<(), Fault> {
    let size = fmt.ty().bytes() as usize;
    for (addr, place) in rows.each() {
        let row = bytes[place].chunks_exact(size);
        for (addr, element) in (addr..).step_by(size).zip(row) {
            let mut word = [0; 8];
            word[..size].copy_from_slice(element);
            let operand = [u64::from_le_bytes(word)];
            let mut change = |old| eval::atomic(op, fmt, old, &operand, flush);
            thread.update(addr, size as u32, &mut change)?;
        }
    }
    Ok(())
}
