//! Copies of boxes, and the old copies of runs of bytes in arrays.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use crate::array;
use crate::call::{Code, Result, exports};
use crate::copy::{ARRAY, Kind, Side, UNIFIED, rows};
use crate::device;
use crate::driver::cu;
use crate::host;
use crate::memory::{Extent, PitchedPtr};

host::plain! {
    /// `cudaMemcpy3DParms`, with its padding.
    Parms {
        source_array: u64, source_pos: [usize; 3], source: PitchedPtr,
        target_array: u64, target_pos: [usize; 3], target: PitchedPtr,
        extent: Extent, kind: u32, padding: u32,
    }

    /// `cudaMemcpy3DPeerParms`, with its padding.
    PeerParms {
        source_array: u64, source_pos: [usize; 3], source: PitchedPtr, source_device: i32, padding_1: u32,
        target_array: u64, target_pos: [usize; 3], target: PitchedPtr, target_device: i32, padding_2: u32,
        extent: Extent,
    }

    /// One side of [`Copy3d`]. `context` matters between devices only.
    Side3d {
        x: usize, y: usize, z: usize, lod: usize, kind: u64,
        host: u64, device: u64, array: u64, context: u64, pitch: usize, height: usize,
    }

    /// `CUDA_MEMCPY3D` and `CUDA_MEMCPY3D_PEER`.
    Copy3d { source: Side3d, target: Side3d, width: usize, height: usize, depth: usize }
}

/// What one side of a copy is said to be.
struct Said {
    array: u64,
    pos: [usize; 3],
    linear: PitchedPtr,
    kind: u64,
    context: u64,
}

impl Said {
    /// The driver's form; places in arrays are elements in the runtime, and bytes in the driver.
    fn side(&self, element: usize) -> Result<Side3d> {
        let [x, y, z] = self.pos;
        let place = Side3d {
            x,
            y,
            z,
            context: self.context,
            ..host::zeroed()
        };
        match (self.array, self.linear.ptr) {
            (0, 0) => Err(Code::INVALID_VALUE),
            (0, address) => Ok(Side3d {
                kind: self.kind,
                host: address,
                device: address,
                pitch: self.linear.pitch,
                height: self.linear.ysize,
                ..place
            }),
            (array, 0) => Ok(Side3d {
                x: x.checked_mul(element).ok_or(Code::INVALID_VALUE)?,
                kind: ARRAY,
                array,
                ..place
            }),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}

/// The driver's form of a copy.
fn joined(source: &Said, target: &Said, extent: Extent) -> Result<Copy3d> {
    let of_array = [target.array, source.array].into_iter();
    let element = match of_array
        .filter(|&array| array != 0)
        .map(array::element)
        .next()
    {
        Some(size) => size?,
        None => 1,
    };
    Ok(Copy3d {
        source: source.side(element)?,
        target: target.side(element)?,
        width: extent
            .width
            .checked_mul(element)
            .ok_or(Code::INVALID_VALUE)?,
        height: extent.height,
        depth: extent.depth,
    })
}

/// The driver's form of `cudaMemcpy3DParms`.
pub(crate) fn of_parms(parms: &Parms) -> Result<Copy3d> {
    let (source, target) = Kind::new(parms.kind)?.memory_types();
    let source = Said {
        array: parms.source_array,
        pos: parms.source_pos,
        linear: parms.source,
        kind: source,
        context: 0,
    };
    let target = Said {
        array: parms.target_array,
        pos: parms.target_pos,
        linear: parms.target,
        kind: target,
        context: 0,
    };
    joined(&source, &target, parms.extent)
}

/// The runtime's form of a copy.
pub(crate) fn to_parms(copy: &Copy3d) -> Result<Parms> {
    let used = [&copy.target, &copy.source].map(|side| side.array * u64::from(side.kind == ARRAY));
    let element = match used.into_iter().find(|&array| array != 0) {
        Some(array) => array::element(array)?,
        None => 1,
    };
    let linear = |side: &Side3d| match side.kind {
        ARRAY => host::zeroed(),
        kind => PitchedPtr {
            ptr: if kind == crate::copy::HOST {
                side.host
            } else {
                side.device
            },
            pitch: side.pitch,
            xsize: copy.width,
            ysize: side.height,
        },
    };
    let pos = |side: &Side3d| match side.kind {
        ARRAY => [side.x / element, side.y, side.z],
        _ => [side.x, side.y, side.z],
    };
    let kind = match (copy.source.kind, copy.target.kind) {
        (UNIFIED, _) | (_, UNIFIED) => 4,
        (source, target) => {
            2 * u32::from(source != crate::copy::HOST) + u32::from(target != crate::copy::HOST)
        }
    };
    Ok(Parms {
        source_array: used[1],
        source_pos: pos(&copy.source),
        source: linear(&copy.source),
        target_array: used[0],
        target_pos: pos(&copy.target),
        target: linear(&copy.target),
        extent: Extent {
            width: copy.width / element,
            height: copy.height,
            depth: copy.depth,
        },
        kind,
        padding: 0,
    })
}

fn of_peers(parms: &PeerParms) -> Result<Copy3d> {
    let source = Said {
        array: parms.source_array,
        pos: parms.source_pos,
        linear: parms.source,
        kind: UNIFIED,
        context: device::primary(parms.source_device)?,
    };
    let target = Said {
        array: parms.target_array,
        pos: parms.target_pos,
        linear: parms.target,
        kind: UNIFIED,
        context: device::primary(parms.target_device)?,
    };
    joined(&source, &target, parms.extent)
}

fn is_empty(extent: &Extent) -> bool {
    extent.width == 0 || extent.height == 0 || extent.depth == 0
}

exports! {
    /// Copies a box.
    fn cudaMemcpy3D(parms: u64) or cudaMemcpy3D_ptds {
        let parms = host::get::<Parms>(parms)?;
        match is_empty(&parms.extent) {
            true => Ok(()),
            false => cu!(cuMemcpy3D_v2(&of_parms(&parms)?)),
        }
    }

    /// Copies a box.
    fn cudaMemcpy3DAsync(parms: u64, stream: u64) or cudaMemcpy3DAsync_ptsz {
        let parms = host::get::<Parms>(parms)?;
        match is_empty(&parms.extent) {
            true => Ok(()),
            false => cu!(cuMemcpy3DAsync_v2(&of_parms(&parms)?, stream)),
        }
    }

    /// Copies a box between devices.
    fn cudaMemcpy3DPeer(parms: u64) or cudaMemcpy3DPeer_ptds {
        let parms = host::get::<PeerParms>(parms)?;
        match is_empty(&parms.extent) {
            true => Ok(()),
            false => cu!(cuMemcpy3DPeer(&of_peers(&parms)?)),
        }
    }

    /// Copies a box between devices.
    fn cudaMemcpy3DPeerAsync(parms: u64, stream: u64) or cudaMemcpy3DPeerAsync_ptsz {
        let parms = host::get::<PeerParms>(parms)?;
        match is_empty(&parms.extent) {
            true => Ok(()),
            false => cu!(cuMemcpy3DPeerAsync(&of_peers(&parms)?, stream)),
        }
    }
}

// --- Runs of bytes in arrays, which go on in the next row ---

/// The rows of a run: where each begins in the array, and its bytes.
fn run(array: u64, x: usize, y: usize, count: usize) -> Result<Vec<(usize, usize, usize)>> {
    let width = array::row(array)?;
    if width == 0 || x >= width {
        return Err(Code::INVALID_VALUE);
    }
    let (mut rows, mut x, mut y, mut rest) = (Vec::new(), x, y, count);
    while rest != 0 {
        let len = rest.min(width - x);
        rows.push((x, y, len));
        (x, y, rest) = (0, y + 1, rest - len);
    }
    Ok(rows)
}

fn run_to_array(
    to: (u64, usize, usize),
    from: u64,
    count: usize,
    kind: u32,
    stream: Option<u64>,
) -> Result {
    let (source, _) = Kind::new(kind)?.memory_types();
    let mut from = from;
    for (x, y, len) in run(to.0, to.1, to.2, count)? {
        let side = Side::linear(source, from, len);
        rows(Side::array(to.0, x, y), side, (len, 1), stream)?;
        from += len as u64;
    }
    Ok(())
}

fn run_from_array(
    to: u64,
    from: (u64, usize, usize),
    count: usize,
    kind: u32,
    stream: Option<u64>,
) -> Result {
    let (_, target) = Kind::new(kind)?.memory_types();
    let mut to = to;
    for (x, y, len) in run(from.0, from.1, from.2, count)? {
        let side = Side::linear(target, to, len);
        rows(side, Side::array(from.0, x, y), (len, 1), stream)?;
        to += len as u64;
    }
    Ok(())
}

exports! {
    /// Copies bytes to an array.
    fn cudaMemcpyToArray(
        to: u64, x: usize, y: usize, from: u64, count: usize, kind: u32,
    ) or cudaMemcpyToArray_ptds {
        run_to_array((to, x, y), from, count, kind, None)
    }

    /// Copies bytes to an array.
    fn cudaMemcpyToArrayAsync(
        to: u64, x: usize, y: usize, from: u64, count: usize, kind: u32, stream: u64,
    ) or cudaMemcpyToArrayAsync_ptsz {
        run_to_array((to, x, y), from, count, kind, Some(stream))
    }

    /// Copies bytes of an array.
    fn cudaMemcpyFromArray(
        to: u64, from: u64, x: usize, y: usize, count: usize, kind: u32,
    ) or cudaMemcpyFromArray_ptds {
        run_from_array(to, (from, x, y), count, kind, None)
    }

    /// Copies bytes of an array.
    fn cudaMemcpyFromArrayAsync(
        to: u64, from: u64, x: usize, y: usize, count: usize, kind: u32, stream: u64,
    ) or cudaMemcpyFromArrayAsync_ptsz {
        run_from_array(to, (from, x, y), count, kind, Some(stream))
    }

    /// Copies bytes between arrays, as far as both have rows of one length.
    fn cudaMemcpyArrayToArray(
        to: u64, to_x: usize, to_y: usize, from: u64, from_x: usize, from_y: usize, count: usize,
        kind: u32,
    ) or cudaMemcpyArrayToArray_ptds {
        Kind::new(kind)?;
        let (targets, sources) = (run(to, to_x, to_y, count)?, run(from, from_x, from_y, count)?);
        let are_alike = targets.len() == sources.len()
            && targets.iter().zip(&sources).all(|(target, source)| target.2 == source.2);
        if !are_alike {
            return Err(Code::NOT_SUPPORTED);
        }
        for (target, source) in targets.into_iter().zip(sources) {
            rows(Side::array(to, target.0, target.1), Side::array(from, source.0, source.1), (target.2, 1), None)?;
        }
        Ok(())
    }
}
