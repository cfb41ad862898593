//! Stream capture.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use ptxjit_driver::Result;
use ptxjit_driver::capture::{self, Info};
use ptxjit_driver::types::{
    CUgraph, CUresult, CUstream, CUstreamCaptureMode, CUstreamCaptureStatus, HostPtr,
};

use crate::call::{Out, exports};

/// Places for what a capture is asked; null if it is not wanted.
struct Wanted {
    id: Out<u64>,
    graph: Out<CUgraph>,
    nodes: Out<HostPtr>,
    /// None in versions that do not tell what edges mean.
    edges: Option<Out<HostPtr>>,
    count: Out<usize>,
}

fn put_info(info: Info, status: Out<CUstreamCaptureStatus>, wanted: Wanted) -> Result<()> {
    status.put(info.status)?;
    if info.status != CUstreamCaptureStatus::ACTIVE {
        return Ok(());
    }
    let tells_edges = wanted.edges.is_some_and(|edges| !edges.is_null());
    if !wanted.nodes.is_null() && !tells_edges && !info.is_plain {
        return Err(CUresult::LOSSY_QUERY);
    }
    wanted.id.put_if_wanted(info.id)?;
    wanted.graph.put_if_wanted(info.graph)?;
    wanted.nodes.put_if_wanted(info.nodes)?;
    if let Some(edges) = wanted.edges {
        edges.put_if_wanted(info.edges)?;
    }
    wanted.count.put_if_wanted(info.count)
}

exports! {
    /// Begins a capture, by the rules of CUDA 10.0, when all captures were global.
    fn cuStreamBeginCapture(stream: CUstream) or cuStreamBeginCapture_ptsz {
        capture::begin(stream, CUstreamCaptureMode::GLOBAL)
    }

    /// Begins a capture.
    fn cuStreamBeginCapture_v2(
        stream: CUstream, mode: CUstreamCaptureMode,
    ) or cuStreamBeginCapture_v2_ptsz {
        capture::begin(stream, mode)
    }

    /// Begins a capture into a graph that is there.
    fn cuStreamBeginCaptureToGraph(
        stream: CUstream, graph: CUgraph, nodes: HostPtr, data: HostPtr, count: usize,
        mode: CUstreamCaptureMode,
    ) or cuStreamBeginCaptureToGraph_ptsz {
        capture::begin_to_graph(stream, graph, [nodes, data], count, mode)
    }

    /// Ends a capture.
    fn cuStreamEndCapture(stream: CUstream, out: Out<CUgraph>) or cuStreamEndCapture_ptsz {
        if out.is_null() && capture::is_to_known_graph(stream)? {
            return capture::end(stream).map(|_| ());
        }
        let before = out.get()?;
        out.put(before)?;
        let graph = capture::end(stream);
        out.put(graph.unwrap_or_default())?;
        graph.map(|_| ())
    }

    /// Whether a stream is captured.
    fn cuStreamIsCapturing(
        stream: CUstream, out: Out<CUstreamCaptureStatus>,
    ) or cuStreamIsCapturing_ptsz {
        out.fill(|| Ok(capture::info(stream)?.status))
    }

    /// Tells of a capture.
    fn cuStreamGetCaptureInfo(
        stream: CUstream, status: Out<CUstreamCaptureStatus>, id: Out<u64>,
    ) or cuStreamGetCaptureInfo_ptsz {
        let info = capture::info(stream)?;
        status.put(info.status)?;
        match info.status == CUstreamCaptureStatus::ACTIVE {
            true => id.put_if_wanted(info.id),
            false => Ok(()),
        }
    }

    /// Tells of a capture.
    fn cuStreamGetCaptureInfo_v2(
        stream: CUstream, status: Out<CUstreamCaptureStatus>, id: Out<u64>, graph: Out<CUgraph>,
        nodes: Out<HostPtr>, count: Out<usize>,
    ) or cuStreamGetCaptureInfo_v2_ptsz {
        let wanted = Wanted { id, graph, nodes, edges: None, count };
        put_info(capture::info(stream)?, status, wanted)
    }

    /// Tells of a capture.
    fn cuStreamGetCaptureInfo_v3(
        stream: CUstream, status: Out<CUstreamCaptureStatus>, id: Out<u64>, graph: Out<CUgraph>,
        nodes: Out<HostPtr>, edges: Out<HostPtr>, count: Out<usize>,
    ) or cuStreamGetCaptureInfo_v3_ptsz {
        let wanted = Wanted { id, graph, nodes, edges: Some(edges), count };
        put_info(capture::info(stream)?, status, wanted)
    }

    /// Changes what the next node depends on.
    fn cuStreamUpdateCaptureDependencies(
        stream: CUstream, nodes: HostPtr, count: usize, flags: u32,
    ) or cuStreamUpdateCaptureDependencies_ptsz {
        capture::update_dependencies(stream, [nodes, HostPtr::NULL], count, flags)
    }

    /// Changes what the next node depends on, and how.
    fn cuStreamUpdateCaptureDependencies_v2(
        stream: CUstream, nodes: HostPtr, data: HostPtr, count: usize, flags: u32,
    ) or cuStreamUpdateCaptureDependencies_v2_ptsz {
        capture::update_dependencies(stream, [nodes, data], count, flags)
    }

    /// Exchanges the mode by which captures forbid calls of this thread.
    fn cuThreadExchangeStreamCaptureMode(mode: Out<CUstreamCaptureMode>) {
        let wanted = mode.get()?;
        mode.put(wanted)?;
        mode.put(capture::exchange_mode(wanted)?)
    }
}
