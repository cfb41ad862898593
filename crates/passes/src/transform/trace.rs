//! Tells profiles about accesses to memory that several threads can reach.
//!
//! **Needs**: a program as translated, whose accesses are those that the PTX states. **Ensures**: a
//! [`TraceOp`] before each of them; results are as before.
//!
//! ```text
//! v1 = load.global.b32 [v0+4]   ==>   trace.0 of 4 bytes(v0)
//!                                     v1 = load.global.b32 [v0+4]
//! ```

use ptxjit_ir::{DeviceOp, Function, Inst, InstData, Program, Space, TraceOp, Traced, Type, Value};
use smallvec::SmallVec;

/// Runs the pass.
pub fn run(program: &mut Program) {
    let mut traced = Vec::new();
    for func in program.functions.values_mut() {
        for block in func.blocks.keys() {
            let insts = std::mem::take(&mut func.blocks[block].insts);
            let mut out = Vec::with_capacity(insts.len());
            for inst in insts {
                out.extend(trace(func, inst, &mut traced));
                out.push(inst);
            }
            func.blocks[block].insts = out;
        }
    }
    program.traced = traced;
}

/// The instruction that tells of an access.
fn trace(func: &mut Function, inst: Inst, traced: &mut Vec<Traced>) -> Option<Inst> {
    let loc = func.insts[inst].loc;
    let (addr, op) = access(&func.insts[inst].data)?;
    let op = TraceOp {
        site: traced.len() as u32,
        addr: func.ty(addr),
        ..op
    };
    traced.push(Traced {
        loc,
        bytes: op.bytes,
        is_atomic: op.is_atomic,
    });
    let data = InstData::Device {
        op: DeviceOp::Trace(op),
        args: SmallVec::from_slice(&[addr]),
    };
    Some(func.make_inst(data, &[], loc))
}

/// The address of an access, and what there is to tell of it. A thread's own memory and parameters
/// have no lanes that get into each other's way.
#[expect(clippy::wildcard_enum_match_arm, reason = "others access nothing")]
fn access(data: &InstData) -> Option<(Value, TraceOp)> {
    let (space, addr, offset, bytes, is_atomic) = match data {
        InstData::Load {
            space,
            ty,
            n,
            addr,
            offset,
            ..
        } => (*space, *addr, *offset, ty.bytes() * u32::from(*n), false),
        InstData::Store {
            space,
            ty,
            addr,
            offset,
            args,
            ..
        } => (
            *space,
            *addr,
            *offset,
            ty.bytes() * args.len() as u32,
            false,
        ),
        InstData::Atomic {
            fmt,
            space,
            addr,
            offset,
            ..
        } => (*space, *addr, *offset, fmt.ty().bytes(), true),
        _ => return None,
    };
    match space {
        Space::Global | Space::Shared | Space::SharedCluster | Space::Generic => {}
        Space::Local | Space::Const | Space::Param => return None,
    }
    let op = TraceOp {
        site: 0,
        addr: Type::B64,
        space,
        offset,
        bytes,
        is_atomic,
    };
    Some((addr, op))
}
