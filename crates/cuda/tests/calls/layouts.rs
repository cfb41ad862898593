//! Structs that calls take by pointer: what their fields are for.
//!
//! A layout is a line of letters, one per field; see [`Field::of`]. Structs of random words would
//! hardly ever pass the first check of a call, and calls with a function of the client in a struct
//! must get one that exists.

/// What a field of a struct holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    /// A number of 32 bits: an enum, a flag, a few.
    Small,
    /// A dimension of a grid or block.
    Dimension,
    /// A size of 64 bits.
    Size,
    /// A device's address.
    Device,
    /// A host's address.
    Host,
    /// The address of a list of words.
    List,
    /// A handle of this type.
    Handle(&'static str),
    /// A function of the client.
    Function,
    /// The list of addresses of a kernel's arguments.
    Arguments,
    /// The list that says where a kernel's arguments are.
    Extra,
    /// 32 bits of zero.
    Zero,
}

impl Field {
    fn of(letter: char) -> Field {
        match letter {
            'i' => Field::Small,
            'k' => Field::Dimension,
            'z' => Field::Size,
            'd' => Field::Device,
            'h' => Field::Host,
            'l' => Field::List,
            'x' => Field::Function,
            'P' => Field::Arguments,
            'E' => Field::Extra,
            '.' => Field::Zero,
            'a' => Field::Handle("CUarray"),
            'c' => Field::Handle("CUcontext"),
            'e' => Field::Handle("CUevent"),
            'f' => Field::Handle("CUfunction"),
            'g' => Field::Handle("CUgraph"),
            's' => Field::Handle("CUstream"),
            _ => unreachable!("no field is called {letter}"),
        }
    }
}

/// `CUDA_MEMCPY2D`.
const COPY_2D: &str = "zzi.hdaz zzi.hdaz zz";
/// `CUDA_MEMCPY3D`.
const COPY_3D: &str = "zzzzi.hda..zz zzzzi.hda..zz zzz";
/// `CUDA_MEMCPY3D_PEER`.
const COPY_PEER: &str = "zzzzi.hdaczz zzzzi.hdaczz zzz";
const KERNEL: &str = "fkkkkkki.PEfci.";
const MEMSET: &str = "dziizzc";
const HOST: &str = "xhi.c";
const LAUNCH: &str = "kkkkkki.slz";
const RESOURCE: &str = "i.diizzz";
const MEM_OPS: &str = "ci.li.";

/// Parameters of graph nodes of any kind, by the kind's number.
const NODES: [&str; 14] = [
    KERNEL,
    "ii.c zzzzi.hda..zz zzzzi.hda..zz zzz",
    MEMSET,
    HOST,
    "gi.",
    "..",
    "e",
    "e",
    "lli.",
    "lli.",
    "iiiihz...... ..lzzd",
    "d",
    MEM_OPS,
    "ziil",
];

/// How the struct is laid out that a parameter points to, if it is known.
pub(crate) fn find(function: &str, parameter: &str, ty: &str, kind: usize) -> Option<Vec<Field>> {
    let of_type = [
        ("CUDA_MEMCPY2D_v2", COPY_2D),
        ("CUDA_MEMCPY3D_v2", COPY_3D),
        ("CUDA_MEMCPY3D_PEER_v1", COPY_PEER),
        ("CUDA_ARRAY_DESCRIPTOR_v2", "zzii"),
        ("CUDA_ARRAY3D_DESCRIPTOR_v2", "zzziii"),
        ("CUDA_RESOURCE_DESC", RESOURCE),
        ("CUmemAllocationProp", "iiiih.."),
        ("CUmemLocation", "ii"),
        ("CUmemAccessDesc", "iii"),
        ("CUstreamBatchMemOpParams", "i.diii.d"),
        ("CUDA_GRAPH_INSTANTIATE_PARAMS", "zs.."),
    ];
    let of_function = [
        ("HostNode", "params", HOST),
        ("KernelNode", "params", KERNEL),
        ("MemcpyNode", "params", COPY_3D),
        ("MemsetNode", "params", MEMSET),
        ("BatchMemOpNode", "params", MEM_OPS),
        ("cuLaunch", "config", LAUNCH),
        ("cuOccupancy", "config", LAUNCH),
        ("cuLaunch", "extra", ""),
        ("cuLaunch", "params", ""),
    ];
    let is_any_node = ty.contains("CUgraphNodeParams")
        || ["GraphAddNode", "GraphNodeSetParams", "ExecNodeSetParams"]
            .iter()
            .any(|name| function.contains(name) && parameter == "params");
    let inner = ty.split(['<', '>']).nth(1).unwrap_or(ty);
    let layout = if is_any_node {
        return Some(node(kind));
    } else if let Some((_, layout)) = of_type.iter().find(|(name, _)| *name == inner) {
        layout
    } else {
        let fits = |row: &&(&str, &str, &str)| function.contains(row.0) && parameter == row.1;
        of_function.iter().find(fits)?.2
    };
    if layout.is_empty() {
        let is_extra = parameter == "extra";
        return Some(vec![if is_extra {
            Field::Extra
        } else {
            Field::Arguments
        }]);
    }
    Some(fields(layout))
}

fn fields(layout: &str) -> Vec<Field> {
    let letters = layout.chars().filter(|letter| *letter != ' ');
    letters.map(Field::of).collect()
}

fn node(kind: usize) -> Vec<Field> {
    // The kind's number takes the place of the first field.
    let mut all = vec![Field::Zero; 4];
    all.extend(fields(NODES[kind % NODES.len()]));
    all
}
