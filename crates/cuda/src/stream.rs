//! Streams.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use ptxjit_driver::stream;
use ptxjit_driver::types::{CUcontext, CUstream};

use crate::call::{Out, exports};

exports! {
    /// Makes a stream.
    fn cuStreamCreate(out: Out<CUstream>, flags: u32) {
        out.fill(|| stream::create(flags, 0))
    }

    /// Makes a stream with a priority.
    fn cuStreamCreateWithPriority(out: Out<CUstream>, flags: u32, priority: i32) {
        out.fill(|| stream::create(flags, priority))
    }

    /// Ends a stream once its work has run.
    fn cuStreamDestroy_v2(stream: CUstream) {
        stream::destroy(stream)
    }

    /// Whether all work of a stream has run.
    fn cuStreamQuery(stream: CUstream) or cuStreamQuery_ptsz {
        stream::query(stream)
    }

    /// Waits for all work of a stream.
    fn cuStreamSynchronize(stream: CUstream) or cuStreamSynchronize_ptsz {
        stream::synchronize(stream)
    }

    /// Flags of a stream.
    fn cuStreamGetFlags(stream: CUstream, out: Out<u32>) or cuStreamGetFlags_ptsz {
        out.fill(|| stream::get_flags(stream))
    }

    /// Priority of a stream.
    fn cuStreamGetPriority(stream: CUstream, out: Out<i32>) or cuStreamGetPriority_ptsz {
        out.fill(|| stream::get_priority(stream))
    }

    /// A number that no other stream has.
    fn cuStreamGetId(stream: CUstream, out: Out<u64>) or cuStreamGetId_ptsz {
        out.fill(|| stream::get_id(stream))
    }

    /// Context of a stream.
    fn cuStreamGetCtx(stream: CUstream, out: Out<CUcontext>) or cuStreamGetCtx_ptsz {
        out.fill(|| stream::get_ctx(stream))
    }

    /// Device of a stream.
    fn cuStreamGetDevice(stream: CUstream, out: Out<i32>) or cuStreamGetDevice_ptsz {
        out.fill(|| stream::get_device(stream))
    }
}
