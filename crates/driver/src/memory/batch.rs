//! Several copies in one call, each with attributes.

use ptxjit::sanitize::AccessOp;

use crate::command::Command;
use crate::error::Result;
use crate::stream;
use crate::types::{
    CUDA_MEMCPY3D_BATCH_OP, CUdeviceptr, CUmemcpy3DOperand, CUmemcpy3DOperandType,
    CUmemcpyAttributes, CUmemcpyFlags, CUmemcpySrcAccessOrder, CUmemorytype, CUresult, CUstream,
};

use super::array;
use super::copy::{self, CopyCommand, Until, check_unified};
use super::shape::{self, Side};

/// Which copy of a batch was refused, or none in particular.
pub type Refused = (Option<usize>, CUresult);

fn check_flags(flags: u32) -> Result<()> {
    match flags & !CUmemcpyFlags::PREFER_OVERLAP_WITH_COMPUTE.0 {
        0 => Ok(()),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

fn check_order(order: CUmemcpySrcAccessOrder) -> Result<()> {
    match order {
        CUmemcpySrcAccessOrder::STREAM
        | CUmemcpySrcAccessOrder::DURING_API_CALL
        | CUmemcpySrcAccessOrder::ANY => Ok(()),
        _ => Err(CUresult::INVALID_VALUE),
    }
}

/// The stream of a batch, which may not be the legacy default stream.
fn check_stream(stream: CUstream) -> Result<()> {
    let is_legacy = stream::get(stream)?.role == stream::Role::Legacy;
    match is_legacy {
        true => Err(CUresult::INVALID_VALUE),
        false => Ok(()),
    }
}

fn submit(copy: CopyCommand, order: CUmemcpySrcAccessOrder, stream: CUstream) -> Result<()> {
    let stream = stream::get(stream)?;
    match order {
        // The source may be anything that the program changes after the call.
        CUmemcpySrcAccessOrder::DURING_API_CALL => {
            let copy = copy.staged()?;
            stream.submit(Command::Copy(copy)).map(|_| ())
        }
        CUmemcpySrcAccessOrder::STREAM => stream.submit(Command::Copy(copy)).map(|_| ()),
        _ => copy::submit(&stream, copy, Until::Submitted),
    }
}

fn linear(to: CUdeviceptr, from: CUdeviceptr, len: usize) -> Result<CopyCommand> {
    // A batch has no copies of nothing.
    if len == 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    check_unified(to, len as u64, AccessOp::Store)?;
    check_unified(from, len as u64, AccessOp::Load)?;
    Ok(CopyCommand::linear(to, from, len as u64))
}

/// One copy of a batch: to, from, bytes.
pub type LinearCopy = (CUdeviceptr, CUdeviceptr, usize);

/// `cuMemcpyBatchAsync`: `firsts` has the first copy that each of the attributes is for. Nothing is
/// copied if one is wrong.
pub fn copy_batch(
    copies: &[LinearCopy],
    attributes: &[CUmemcpyAttributes],
    firsts: &[usize],
    stream: CUstream,
) -> std::result::Result<(), Refused> {
    let invalid = (None, CUresult::INVALID_VALUE);
    check_stream(stream).map_err(|code| (None, code))?;
    let is_rising = firsts.first() == Some(&0) && firsts.is_sorted_by(|a, b| a < b);
    let is_within = firsts.last().is_some_and(|&last| last < copies.len());
    if copies.is_empty() || attributes.len() != firsts.len() || !is_rising || !is_within {
        return Err(invalid);
    }
    for attribute in attributes {
        check_flags(attribute.flags).map_err(|code| (None, code))?;
        check_order(attribute.srcAccessOrder).map_err(|code| (None, code))?;
    }
    let checked = copies.iter().enumerate().map(|(idx, &(to, from, len))| {
        let of = firsts.partition_point(|&first| first <= idx) - 1;
        let copy = linear(to, from, len).map_err(|code| (Some(idx), code))?;
        Ok((copy, attributes[of].srcAccessOrder))
    });
    let checked: Vec<_> = checked.collect::<std::result::Result<_, Refused>>()?;
    for (idx, (copy, order)) in checked.into_iter().enumerate() {
        submit(copy, order, stream).map_err(|code| (Some(idx), code))?;
    }
    Ok(())
}

/// `cuMemcpyWithAttributesAsync`.
pub fn copy_with_attributes(
    to: CUdeviceptr,
    from: CUdeviceptr,
    len: usize,
    attributes: &CUmemcpyAttributes,
    stream: CUstream,
) -> Result<()> {
    check_flags(attributes.flags)?;
    check_order(attributes.srcAccessOrder)?;
    submit(linear(to, from, len)?, attributes.srcAccessOrder, stream)
}

/// One side of a 3-D copy in a batch, and the bytes of its elements if it is an array.
fn side(operand: &CUmemcpy3DOperand) -> Result<(Side, Option<u64>)> {
    let nowhere = Side {
        kind: CUmemorytype::UNIFIED,
        host: 0,
        device: 0,
        array: Default::default(),
        start: [0; 3],
        pitch: 0,
        height: 0,
    };
    match operand.type_ {
        CUmemcpy3DOperandType::POINTER => {
            let pointer = operand.pointer();
            let side = Side {
                device: pointer.ptr,
                pitch: pointer.rowLength as u64,
                height: pointer.layerHeight as u64,
                ..nowhere
            };
            Ok((side, None))
        }
        CUmemcpy3DOperandType::ARRAY => {
            let operand = operand.array();
            let element = array::get(operand.array)?.element_bytes();
            let offset = operand.offset;
            let x = (offset.x as u64).checked_mul(element);
            let side = Side {
                kind: CUmemorytype::ARRAY,
                array: operand.array,
                start: [
                    x.ok_or(CUresult::INVALID_VALUE)?,
                    offset.y as u64,
                    offset.z as u64,
                ],
                ..nowhere
            };
            Ok((side, Some(element)))
        }
        _ => Err(CUresult::INVALID_VALUE),
    }
}

/// Sizes of operands are in elements: those of the array, if one is, and bytes otherwise.
fn command(op: &CUDA_MEMCPY3D_BATCH_OP) -> Result<CopyCommand> {
    check_flags(op.flags)?;
    check_order(op.srcAccessOrder)?;
    let ((mut to, to_element), (mut from, from_element)) = (side(&op.dst)?, side(&op.src)?);
    let element = match (to_element, from_element) {
        (Some(one), Some(other)) if one != other => return Err(CUresult::INVALID_VALUE),
        (Some(element), _) | (None, Some(element)) => element,
        (None, None) => 1,
    };
    let width = (op.extent.width as u64).checked_mul(element);
    let width = width.ok_or(CUresult::INVALID_VALUE)?;
    let extent = [width, op.extent.height as u64, op.extent.depth as u64];
    for side in [&mut to, &mut from] {
        if side.kind == CUmemorytype::UNIFIED {
            // Lengths that are 0 are those of the extent.
            let pitch = side
                .pitch
                .checked_mul(element)
                .ok_or(CUresult::INVALID_VALUE)?;
            side.pitch = if pitch == 0 { width } else { pitch };
            side.height = if side.height == 0 {
                extent[1]
            } else {
                side.height
            };
        }
    }
    shape::between(&to, &from, extent)?.ok_or(CUresult::INVALID_VALUE)
}

/// `cuMemcpy3DBatchAsync`.
pub fn copy_batch_3d(
    ops: &[CUDA_MEMCPY3D_BATCH_OP],
    flags: u64,
    stream: CUstream,
) -> std::result::Result<(), Refused> {
    check_stream(stream).map_err(|code| (None, code))?;
    if flags != 0 || ops.is_empty() {
        return Err((None, CUresult::INVALID_VALUE));
    }
    let commands = ops.iter().enumerate();
    let commands = commands.map(|(idx, op)| command(op).map_err(|code| (Some(idx), code)));
    let commands: Vec<CopyCommand> = commands.collect::<std::result::Result<_, Refused>>()?;
    for (idx, (copy, op)) in commands.into_iter().zip(ops).enumerate() {
        submit(copy, op.srcAccessOrder, stream).map_err(|code| (Some(idx), code))?;
    }
    Ok(())
}

/// `cuMemcpy3DWithAttributesAsync`.
pub fn copy_3d_with_attributes(
    op: &CUDA_MEMCPY3D_BATCH_OP,
    flags: u64,
    stream: CUstream,
) -> Result<()> {
    if flags != 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    submit(command(op)?, op.srcAccessOrder, stream)
}
