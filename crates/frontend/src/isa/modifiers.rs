//! The modifiers of PTX instructions, and sets of them.
//!
//! Every modifier of every instruction is in one list, apart from type names ([`super::types`]) and
//! the matrix shapes of `wgmma`, which a row of the instruction table accepts by a function.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

macro_rules! modifiers {
    ($($name:ident = $text:literal,)*) => {
        /// One modifier of an instruction, as PTX writes it without its dot.
        #[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        pub enum Mod { $($name,)* }

        impl Mod {
            /// All modifiers.
            pub const ALL: &'static [Mod] = &[$(Mod::$name,)*];

            /// As PTX writes it.
            pub const fn name(self) -> &'static str {
                match self { $(Mod::$name => $text,)* }
            }
        }
    };
}

impl Mod {
    /// The modifier that `name` stands for.
    pub fn from_name(name: &str) -> Option<Mod> {
        static NAMES: LazyLock<FxHashMap<&str, Mod>> =
            LazyLock::new(|| Mod::ALL.iter().map(|&m| (m.name(), m)).collect());
        NAMES.get(name).copied()
    }
}

const WORDS: usize = 6;
const _: () = assert!(Mod::ALL.len() <= WORDS * 64);

/// A set of modifiers.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct ModSet([u64; WORDS]);

impl ModSet {
    /// Adds a modifier; false if it was there.
    pub fn insert(&mut self, m: Mod) -> bool {
        let (word, bit) = (m as usize / 64, 1 << (m as usize % 64));
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }

    /// Removes a modifier.
    pub fn remove(&mut self, m: Mod) {
        self.0[m as usize / 64] &= !(1 << (m as usize % 64));
    }

    /// Whether the modifier is there.
    pub const fn has(&self, m: Mod) -> bool {
        self.0[m as usize / 64] >> (m as usize % 64) & 1 == 1
    }

    /// The first of `mods` that is there.
    pub fn pick(&self, mods: &[Mod]) -> Option<Mod> {
        mods.iter().copied().find(|&m| self.has(m))
    }

    /// Whether no modifier is there.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// Any modifier of the set.
    pub fn iter_if_any(&self) -> Option<Mod> {
        if self.is_empty() {
            None
        } else {
            self.iter().next()
        }
    }

    /// The modifiers of the set, in the order of the list.
    pub fn iter(&self) -> impl Iterator<Item = Mod> + '_ {
        Mod::ALL.iter().copied().filter(|&m| self.has(m))
    }
}

modifiers! {
    N128x128b = "128x128b",
    N128x256b = "128x256b",
    N16x128b = "16x128b",
    N16x256b = "16x256b",
    N16x32bx2 = "16x32bx2",
    N16x64b = "16x64b",
    N1d = "1d",
    N2d = "2d",
    N2dms = "2dms",
    N32x128b = "32x128b",
    N32x32b = "32x32b",
    N3d = "3d",
    N4d = "4d",
    N4x256b = "4x256b",
    N5d = "5d",
    N64x128b = "64x128b",
    L1 = "L1",
    L1EvictFirst = "L1::evict_first",
    L1EvictLast = "L1::evict_last",
    L1EvictNormal = "L1::evict_normal",
    L1EvictUnchanged = "L1::evict_unchanged",
    L1NoAllocate = "L1::no_allocate",
    L2 = "L2",
    L2Bytes128 = "L2::128B",
    L2Bytes256 = "L2::256B",
    L2Bytes64 = "L2::64B",
    L2CacheHint = "L2::cache_hint",
    L2EvictFirst = "L2::evict_first",
    L2EvictLast = "L2::evict_last",
    L2EvictNormal = "L2::evict_normal",
    L2EvictUnchanged = "L2::evict_unchanged",
    NaN = "NaN",
    A = "a",
    A1d = "a1d",
    A2d = "a2d",
    A2dms = "a2dms",
    Abs = "abs",
    AccF16 = "acc::f16",
    AccF32 = "acc::f32",
    AcqRel = "acq_rel",
    Acquire = "acquire",
    Acube = "acube",
    Add = "add",
    AddrMode0 = "addr_mode_0",
    AddrMode1 = "addr_mode_1",
    AddrMode2 = "addr_mode_2",
    Alias = "alias",
    Aligned = "aligned",
    All = "all",
    Alloc = "alloc",
    And = "and",
    Any = "any",
    Approx = "approx",
    ArraySize = "array_size",
    Arrive = "arrive",
    ArriveDrop = "arrive_drop",
    Ashift = "ashift",
    Async = "async",
    AsyncGeneric = "async::generic",
    B = "b",
    B1024 = "b1024",
    B4e = "b4e",
    B4x16P64 = "b4x16_p64",
    B6p2x16 = "b6p2x16",
    B6x16P32 = "b6x16_p32",
    B8x16 = "b8x16",
    Ballot = "ballot",
    Base = "base",
    Bfly = "bfly",
    Block16 = "block16",
    Block32 = "block32",
    BlockScale = "block_scale",
    BoxDim = "box_dim",
    Bulk = "bulk",
    BulkGroup = "bulk_group",
    C = "c",
    Ca = "ca",
    Cas = "cas",
    Cc = "cc",
    Cg = "cg",
    ChannelDataType = "channel_data_type",
    ChannelOrder = "channel_order",
    Clamp = "clamp",
    Cluster = "cluster",
    Col = "col",
    CollectorADiscard = "collector::a::discard",
    CollectorAFill = "collector::a::fill",
    CollectorALastuse = "collector::a::lastuse",
    CollectorAUse = "collector::a::use",
    CollectorB0Discard = "collector::b0::discard",
    CollectorB0Fill = "collector::b0::fill",
    CollectorB0Lastuse = "collector::b0::lastuse",
    CollectorB0Use = "collector::b0::use",
    CollectorB1Discard = "collector::b1::discard",
    CollectorB1Fill = "collector::b1::fill",
    CollectorB1Lastuse = "collector::b1::lastuse",
    CollectorB1Use = "collector::b1::use",
    CollectorB2Discard = "collector::b2::discard",
    CollectorB2Fill = "collector::b2::fill",
    CollectorB2Lastuse = "collector::b2::lastuse",
    CollectorB2Use = "collector::b2::use",
    CollectorB3Discard = "collector::b3::discard",
    CollectorB3Fill = "collector::b3::fill",
    CollectorB3Lastuse = "collector::b3::lastuse",
    CollectorB3Use = "collector::b3::use",
    Commit = "commit",
    CommitGroup = "commit_group",
    CompleteTx = "complete_tx",
    Const = "const",
    Cp = "cp",
    CpFenceproxy = "cp_fenceproxy",
    CpMask = "cp_mask",
    Cs = "cs",
    Cta = "cta",
    CtaGroup1 = "cta_group::1",
    CtaGroup2 = "cta_group::2",
    Cube = "cube",
    Cv = "cv",
    Cvt = "cvt",
    D = "d",
    Dealloc = "dealloc",
    Dec = "dec",
    Depth = "depth",
    Down = "down",
    Ecl = "ecl",
    Ecr = "ecr",
    ElementStride = "element_stride",
    Elemtype = "elemtype",
    Eq = "eq",
    Equ = "equ",
    Exch = "exch",
    ExpectTx = "expect_tx",
    F4e = "f4e",
    Fence = "fence",
    FenceAfterThreadSync = "fence::after_thread_sync",
    FenceBeforeThreadSync = "fence::before_thread_sync",
    FillMode = "fill_mode",
    FilterMode = "filter_mode",
    Finite = "finite",
    ForceUnnormalizedCoords = "force_unnormalized_coords",
    Fractional = "fractional",
    Ftz = "ftz",
    Full = "full",
    G = "g",
    Ge = "ge",
    GetFirstCtaid = "get_first_ctaid",
    GetFirstCtaidX = "get_first_ctaid::x",
    GetFirstCtaidY = "get_first_ctaid::y",
    GetFirstCtaidZ = "get_first_ctaid::z",
    Geu = "geu",
    Gl = "gl",
    Global = "global",
    GlobalAddress = "global_address",
    GlobalDim = "global_dim",
    GlobalStride = "global_stride",
    Gpu = "gpu",
    Grad = "grad",
    Gt = "gt",
    Gtu = "gtu",
    Height = "height",
    Hi = "hi",
    Hs = "hs",
    Idx = "idx",
    Im2col = "im2col",
    Im2colW = "im2col::w",
    Im2colW128 = "im2col::w::128",
    Im2colNoOffs = "im2col_no_offs",
    Inc = "inc",
    Infinite = "infinite",
    Init = "init",
    InterleaveLayout = "interleave_layout",
    Inval = "inval",
    IsCanceled = "is_canceled",
    KindF16 = "kind::f16",
    KindF8f6f4 = "kind::f8f6f4",
    KindI8 = "kind::i8",
    KindMxf4 = "kind::mxf4",
    KindMxf4nvf4 = "kind::mxf4nvf4",
    KindMxf8f6f4 = "kind::mxf8f6f4",
    KindTf32 = "kind::tf32",
    L = "l",
    LaunchDependents = "launch_dependents",
    Ld = "ld",
    LdReduce = "ld_reduce",
    Le = "le",
    Leu = "leu",
    Level = "level",
    Lo = "lo",
    Load = "load",
    Local = "local",
    Ls = "ls",
    Lt = "lt",
    Ltu = "ltu",
    Lu = "lu",
    M16n16 = "m16n16",
    M16n16k16 = "m16n16k16",
    M16n16k8 = "m16n16k8",
    M16n8 = "m16n8",
    M16n8k128 = "m16n8k128",
    M16n8k16 = "m16n8k16",
    M16n8k256 = "m16n8k256",
    M16n8k32 = "m16n8k32",
    M16n8k4 = "m16n8k4",
    M16n8k64 = "m16n8k64",
    M16n8k8 = "m16n8k8",
    M32n8k16 = "m32n8k16",
    M8n16 = "m8n16",
    M8n32k16 = "m8n32k16",
    M8n8 = "m8n8",
    M8n8k128 = "m8n8k128",
    M8n8k16 = "m8n8k16",
    M8n8k32 = "m8n8k32",
    M8n8k4 = "m8n8k4",
    Mask = "mask",
    Max = "max",
    Mbarrier = "mbarrier",
    MbarrierArriveOne = "mbarrier::arrive::one",
    MbarrierCompleteTxBytes = "mbarrier::complete_tx::bytes",
    MbarrierInit = "mbarrier_init",
    MemoryLayout = "memory_layout",
    Min = "min",
    Mma = "mma",
    MmaAsync = "mma_async",
    Mmio = "mmio",
    MulticastCluster = "multicast::cluster",
    MulticastClusterAll = "multicast::cluster::all",
    Nan = "nan",
    Nc = "nc",
    Ne = "ne",
    Neu = "neu",
    NoComplete = "noComplete",
    Noftz = "noftz",
    Noinc = "noinc",
    Normal = "normal",
    NormalizedCoords = "normalized_coords",
    Notanumber = "notanumber",
    Num = "num",
    NumMipmapLevels = "num_mipmap_levels",
    NumSamples = "num_samples",
    Number = "number",
    Oob = "oob",
    Or = "or",
    P = "p",
    Pack = "pack",
    Pack16b = "pack::16b",
    Param = "param",
    ParamEntry = "param::entry",
    ParamFunc = "param::func",
    Parity = "parity",
    PendingCount = "pending_count",
    Po = "po",
    Popc = "popc",
    Prefetch = "prefetch",
    Proxy = "proxy",
    QueryCancel = "query_cancel",
    R = "r",
    Range = "range",
    Rank = "rank",
    Rc16 = "rc16",
    Rc8 = "rc8",
    Read = "read",
    Red = "red",
    Reduce = "reduce",
    Relaxed = "relaxed",
    Release = "release",
    RelinquishAllocPermit = "relinquish_alloc_permit",
    Relu = "relu",
    Replace = "replace",
    Rm = "rm",
    Rmi = "rmi",
    Rn = "rn",
    Rna = "rna",
    Rni = "rni",
    Row = "row",
    Rp = "rp",
    Rpi = "rpi",
    Rs = "rs",
    Rz = "rz",
    Rzi = "rzi",
    Sat = "sat",
    Satfinite = "satfinite",
    Sc = "sc",
    ScaleVec1X = "scale_vec::1X",
    ScaleVec2X = "scale_vec::2X",
    ScaleVec4X = "scale_vec::4X",
    ScaledN2Ue8m0 = "scaled::n2::ue8m0",
    Shared = "shared",
    SharedCluster = "shared::cluster",
    SharedCta = "shared::cta",
    Shift = "shift",
    Shiftamt = "shiftamt",
    Shr15 = "shr15",
    Shr7 = "shr7",
    Sp = "sp",
    SpOrderedMetadata = "sp::ordered_metadata",
    St = "st",
    Store = "store",
    Subnormal = "subnormal",
    SwizzleAtomicity = "swizzle_atomicity",
    SwizzleMode = "swizzle_mode",
    Sync = "sync",
    SyncRestrictSharedCluster = "sync_restrict::shared::cluster",
    SyncRestrictSharedCta = "sync_restrict::shared::cta",
    Sys = "sys",
    Tensor = "tensor",
    TensormapGeneric = "tensormap::generic",
    TestWait = "test_wait",
    Tile = "tile",
    TileGather4 = "tile::gather4",
    TileScatter4 = "tile::scatter4",
    To = "to",
    Trans = "trans",
    Trap = "trap",
    TryCancel = "try_cancel",
    TryWait = "try_wait",
    Uni = "uni",
    Unpack16b = "unpack::16b",
    Up = "up",
    V2 = "v2",
    V4 = "v4",
    V8 = "v8",
    Volatile = "volatile",
    Wait = "wait",
    WaitLd = "wait::ld",
    WaitSt = "wait::st",
    WaitAll = "wait_all",
    WaitGroup = "wait_group",
    Warp = "warp",
    Warpx20123 = "warpx2::01_23",
    Warpx20213 = "warpx2::02_13",
    Warpx4 = "warpx4",
    Wb = "wb",
    Weak = "weak",
    Wide = "wide",
    Width = "width",
    Wrap = "wrap",
    Ws = "ws",
    Wt = "wt",
    X1 = "x1",
    X128 = "x128",
    X16 = "x16",
    X2 = "x2",
    X32 = "x32",
    X4 = "x4",
    X64 = "x64",
    X8 = "x8",
    Xor = "xor",
    Xorsign = "xorsign",
    Zero = "zero",
    Tensormap = "tensormap",
}
