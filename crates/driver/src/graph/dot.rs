//! Graphs as text in the DOT language.

use std::fmt::Write;

use crate::error::Result;
use crate::host;
use crate::types::{CUgraph, CUgraphDebugDot_flags, CUresult, HostPtr};

use super::work::Work;
use super::{Graph, get};

/// `cuGraphDebugDotPrint`.
pub fn debug_dot_print(graph: CUgraph, path: HostPtr, flags: u32) -> Result<()> {
    let graph = get(graph)?;
    let path = host::string(path)?;
    let mut text = "digraph dot {\n".to_owned();
    print(&mut text, &graph, CUgraphDebugDot_flags(flags));
    text.push_str("}\n");
    std::fs::write(path, text).map_err(|_| CUresult::OPERATING_SYSTEM)
}

/// Prints a graph, and those in it behind it.
fn print(out: &mut String, graph: &Graph, flags: CUgraphDebugDot_flags) {
    let body = graph.body.lock();
    let id = graph.id;
    let name = |node: u32| format!("\"graph_{id}_node_{node}\"");
    let _ = writeln!(
        out,
        "subgraph cluster_{id} {{\nlabel=\"graph_{id}\" graph[style=\"dashed\"];"
    );
    for (&node, data) in &body.nodes {
        let label = label(&data.work, flags);
        let handle = match has(flags, CUgraphDebugDot_flags::HANDLES) {
            true => format!("\\nhandle {:#x}", data.handle),
            false => String::new(),
        };
        let _ = writeln!(
            out,
            "{}[style=\"solid\" shape=\"rectangle\" label=\"{node}\\n{label}{handle}\"];",
            name(node)
        );
    }
    for (&node, data) in &body.nodes {
        for edge in &data.after {
            let _ = writeln!(out, "{} -> {};", name(node), name(edge.node));
        }
    }
    out.push_str("}\n");
    for inner in body.nodes.values().flat_map(|node| node.work.graphs()) {
        print(out, inner, flags);
    }
}

/// Whether a flag is set, or the one that stands for all.
fn has(flags: CUgraphDebugDot_flags, flag: CUgraphDebugDot_flags) -> bool {
    flags.contains(flag) || flags.contains(CUgraphDebugDot_flags::VERBOSE)
}

fn label(work: &Work, flags: CUgraphDebugDot_flags) -> String {
    let name = work.kind().c_name().unwrap_or_default();
    let mut label = name
        .strip_prefix("CU_GRAPH_NODE_TYPE_")
        .unwrap_or(name)
        .to_owned();
    match work {
        Work::Kernel(kernel) => {
            let command = &kernel.command;
            let _ = write!(label, "\\n{}", escape(&command.function.name));
            if has(flags, CUgraphDebugDot_flags::KERNEL_NODE_PARAMS) {
                let shape = &command.shape;
                let _ = write!(
                    label,
                    "\\ngrid {:?} block {:?} shared {}",
                    shape.grid, shape.block, shape.shared
                );
            }
        }
        Work::Copy(copy) if has(flags, CUgraphDebugDot_flags::MEMCPY_NODE_PARAMS) => {
            let params = &copy.params;
            let size = [params.WidthInBytes, params.Height, params.Depth];
            let _ = write!(label, "\\nsize {size:?}");
        }
        Work::Fill(fill) if has(flags, CUgraphDebugDot_flags::MEMSET_NODE_PARAMS) => {
            let params = fill.params();
            let _ = write!(
                label,
                "\\n{:#x} value {:#x} of {} bytes, {} x {}",
                params.dst, params.value, params.elementSize, params.width, params.height
            );
        }
        Work::Call(call) if has(flags, CUgraphDebugDot_flags::HOST_NODE_PARAMS) => {
            let _ = write!(label, "\\n{:#x}({:#x})", call.function().0, call.data().0);
        }
        Work::Record(event) | Work::Wait(event)
            if has(flags, CUgraphDebugDot_flags::EVENT_NODE_PARAMS) =>
        {
            let _ = write!(label, "\\nevent {:#x}", event.raw().0);
        }
        Work::Child(graph) => {
            let _ = write!(label, "\\ngraph_{}", graph.id);
        }
        Work::Alloc(memory) | Work::Free(memory) => {
            let params = &memory.params;
            let _ = write!(label, "\\n{:#x}, {} bytes", params.dptr, params.bytesize);
        }
        Work::Condition(node) => {
            let name = node.kind.c_name().unwrap_or_default();
            let name = name.strip_prefix("CU_GRAPH_COND_TYPE_").unwrap_or(name);
            let _ = write!(label, "\\n{name}");
        }
        Work::MemOps(node) => {
            let _ = write!(label, "\\n{} operations", node.ops.len());
        }
        Work::Empty
        | Work::Copy(_)
        | Work::Fill(_)
        | Work::Call(_)
        | Work::Record(_)
        | Work::Wait(_) => {}
    }
    label
}

/// A name as a part of a string.
fn escape(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"")
}
