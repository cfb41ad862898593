//! Tensor maps, and copies between tensors and boxes in shared memory. PTX ISA, "Tensors",
//! "cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor" and "tensormap.replace".
//!
//! * [`map`] is what a map says, [`check`] what it must be, [`bytes`] the 128 bytes that programs
//!   see.
//! * [`walk`] finds the elements of a copy, [`swizzle`] their places in shared memory, [`copy`]
//!   moves them.

mod bytes;
mod check;
mod copy;
mod map;
mod swizzle;
#[cfg(test)]
mod tests;
mod walk;

use std::cell::RefCell;

use ptxjit_ir::{TensorMode, TensorOp};

use crate::{Fault, Thread};

pub(crate) use copy::{Outgoing, each_box, outgoing};

pub use bytes::{MAP_BYTES, MapBytes};
pub use check::BadField;
pub use map::{
    Access, Atomicity, ElementType, Fill, Interleave, L2Promotion, MAX_RANK, Pixels, Swizzle,
    SwizzleMode, TensorMap,
};

/// Where maps lie.
const MAP_ALIGN: u32 = 64;

/// Executes an operation for one thread.
pub(crate) fn execute(op: TensorOp, thread: &mut dyn Thread, args: &[u64]) -> Result<(), Fault> {
    match op {
        TensorOp::Load { .. } => copy::load(op, thread, args),
        TensorOp::Store { .. } => copy::store(op, thread, args),
        TensorOp::Replace(field) => {
            let mut bytes = read_map(thread, args[0])?;
            bytes::replace(&mut bytes, field, args[1]).map_err(Fault::refused)?;
            thread.write(args[0], &bytes)
        }
    }
}

/// Alignment of a box in global memory: PTX ISA, "Bounding Box". An H100 ends the launch otherwise;
/// here any box is copied.
const BOX_ADDRESS_ALIGN: i64 = 16;

/// Why a box that an operation copies begins where none may, if that is so.
pub fn misplaced_box(op: TensorOp, thread: &mut dyn Thread, args: &[u64]) -> Option<String> {
    let (rank, mode, first) = match op {
        TensorOp::Load { rank, mode, .. } => (rank, mode, args.get(3)?),
        TensorOp::Store { rank, mode, .. } => (rank, mode, args.get(2)?),
        TensorOp::Replace(_) => return None,
    };
    if mode != TensorMode::Tile {
        return None;
    }
    let first = i64::from(*first as u32 as i32);
    let unit = map_at(thread, args[0], rank).ok()?.dtype.unit();
    let offset = first / unit.elements as i64 * unit.global as i64;
    (offset % BOX_ADDRESS_ALIGN != 0).then(|| {
        format!(
            "copies a box from or to coordinate {first}, {offset} bytes from where rows of the \
             tensor begin: that must be a multiple of {BOX_ADDRESS_ALIGN} bytes, and a GPU may end the launch"
        )
    })
}

fn read_map(thread: &mut dyn Thread, addr: u64) -> Result<MapBytes, Fault> {
    if !addr.is_multiple_of(MAP_ALIGN.into()) {
        return Err(Fault::Misaligned {
            addr,
            size: MAP_ALIGN,
        });
    }
    let mut bytes = [0; MAP_BYTES];
    thread.read(addr, &mut bytes)?;
    Ok(bytes)
}

/// The map at an address, complete and right, of a tensor of `rank` dimensions.
fn map_at(thread: &mut dyn Thread, addr: u64, rank: u8) -> Result<TensorMap, Fault> {
    let bytes = read_map(thread, addr)?;
    let map = match recent(&bytes) {
        Some(map) => map,
        None => {
            let map = checked(&bytes, addr)?;
            remember(&bytes, &map);
            map
        }
    };
    if map.rank != u32::from(rank) {
        return Err(Fault::refused(format!(
            "the tensor has {} dimensions, and the instruction is for {rank}",
            map.rank
        )));
    }
    Ok(map)
}

fn checked(bytes: &MapBytes, addr: u64) -> Result<TensorMap, Fault> {
    let map = TensorMap::decode(bytes)
        .ok_or_else(|| Fault::refused(format!("the 128 bytes at {addr:#x} are no tensor map")))?;
    map.check().map_err(|bad| {
        Fault::refused(format!(
            "the 128 bytes at {addr:#x} are no complete tensor map: {bad}"
        ))
    })?;
    Ok(map)
}

/// Maps that a thread of the host remembers. PERF: reading and checking one takes longer than
/// copying a small box.
const RECENT: usize = 4;

/// The bytes of a map, and what they say.
type Known = (MapBytes, TensorMap);

thread_local! {
    static KNOWN: RefCell<Vec<Known>> = const { RefCell::new(Vec::new()) };
}

fn recent(bytes: &MapBytes) -> Option<TensorMap> {
    KNOWN.with_borrow(|known| {
        let found = known.iter().find(|(of, _)| of == bytes);
        found.map(|(_, map)| map.clone())
    })
}

fn remember(bytes: &MapBytes, map: &TensorMap) {
    KNOWN.with_borrow_mut(|known| {
        known.truncate(RECENT - 1);
        known.insert(0, (*bytes, map.clone()));
    });
}
