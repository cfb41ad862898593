//! Graphs, whose nodes the runtime describes in forms of its own, and streams that are captured.
#![expect(
    unsafe_code,
    reason = "calls functions of a loaded library, as a client does"
)]

#[path = "client/common.rs"]
mod common;

use std::ffi::{CString, c_char};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use common::Folder;
use libloading::Library;

const HOST_TO_DEVICE: u32 = 1;
const DEVICE_TO_HOST: u32 = 2;

const PTX: &str = ".version 7.0\n.target sm_80\n.address_size 64\n\
    .visible .entry add(.param .u64 pa, .param .u32 pv) { .reg .u64 %p, %o; .reg .u32 %t, %v, %x; \
    ld.param.u64 %p, [pa]; ld.param.u32 %v, [pv]; mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4; add.u64 %p, %p, %o; \
    ld.global.u32 %x, [%p]; add.u32 %x, %x, %v; st.global.u32 [%p], %x; ret; }";

static LIBRARY: LazyLock<Library> = LazyLock::new(|| {
    let folder = Folder::new("graphs");
    // SAFETY: loading this library runs no code of it.
    let library = unsafe { Library::new(folder.path("libcudart.so.12")) };
    let library = library.expect("the library can be loaded");
    // SAFETY: the function takes a pointer; the driver must be found while the folder exists.
    let free = unsafe { library.get::<unsafe extern "C" fn(u64) -> u32>(b"cudaFree") };
    // SAFETY: null is allowed.
    assert_eq!(unsafe { free.unwrap()(0) }, 0);
    library
});

/// Calls a function by name, with the types that its arguments have; it must succeed.
macro_rules! call {
    ($name:literal $(, $arg:expr => $ty:ty)* $(,)?) => {{
        // SAFETY: the types are those of `cuda_runtime_api.h`.
        let function = unsafe { LIBRARY.get::<unsafe extern "C" fn($($ty),*) -> u32>($name) };
        let function = function.expect("every function is exported");
        // SAFETY: pointers are null or refer to values that live long enough.
        let code = unsafe { function($($arg),*) };
        assert_eq!(code, 0, "{}", String::from_utf8_lossy($name));
    }};
}

fn at<T: ?Sized>(value: &T) -> u64 {
    std::ptr::from_ref(value).cast::<u8>().expose_provenance() as u64
}

fn at_mut<T: ?Sized>(value: &mut T) -> u64 {
    std::ptr::from_mut(value).cast::<u8>().expose_provenance() as u64
}

/// `cudaKernelNodeParams`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Kernel {
    function: u64,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    args: u64,
    extra: u64,
}

/// While a stream is captured, no thread may allocate: one test runs at a time.
static TURN: Mutex<()> = Mutex::new(());

/// The kernel of [`PTX`], four numbers of the device, and a stream.
struct Setting {
    kernel: u64,
    memory: u64,
    stream: u64,
    _turn: MutexGuard<'static, ()>,
}

impl Setting {
    fn new() -> Setting {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut library, mut kernel, mut memory, mut stream) = (0_u64, 0_u64, 0_u64, 0_u64);
        let [text, name] = [PTX, "add"].map(|text| CString::new(text).unwrap());
        call!(
            b"cudaLibraryLoadData", at_mut(&mut library) => u64, text.as_ptr() => *const c_char, 0 => u64, 0 => u64, 0 => u32,
            0 => u64, 0 => u64, 0 => u32
        );
        call!(b"cudaLibraryGetKernel", at_mut(&mut kernel) => u64, library => u64, name.as_ptr() => *const c_char);
        call!(b"cudaMalloc", at_mut(&mut memory) => u64, 16 => usize);
        call!(b"cudaMemcpy", memory => u64, at(&[1_u32, 2, 3, 4]) => u64, 16 => usize, HOST_TO_DEVICE => u32);
        call!(b"cudaStreamCreate", at_mut(&mut stream) => u64);
        Setting {
            kernel,
            memory,
            stream,
            _turn: turn,
        }
    }

    /// A launch of four threads, of a kernel's handle where compiled programs have a function.
    fn node(&self, args: &[u64; 2]) -> Kernel {
        Kernel {
            function: self.kernel,
            grid: [1, 1, 1],
            block: [4, 1, 1],
            args: at(args),
            ..Kernel::default()
        }
    }

    fn run(&self, graph: u64) -> u64 {
        let mut exec = 0_u64;
        call!(b"cudaGraphInstantiate", at_mut(&mut exec) => u64, graph => u64, 0 => u64);
        self.launch(exec);
        exec
    }

    fn launch(&self, exec: u64) {
        call!(b"cudaGraphLaunch", exec => u64, self.stream => u64);
        call!(b"cudaStreamSynchronize", self.stream => u64);
    }
}

#[test]
fn nodes_launch_and_copy_and_tell_so() {
    let setting = Setting::new();
    let (mut graph, mut launch, mut copy) = (0_u64, 0_u64, 0_u64);
    call!(b"cudaGraphCreate", at_mut(&mut graph) => u64, 0 => u32);
    let mut value = 5_u32;
    let args = [at(&setting.memory), at(&value)];
    let node = setting.node(&args);
    call!(b"cudaGraphAddKernelNode", at_mut(&mut launch) => u64, graph => u64, 0 => u64, 0 => usize, at(&node) => u64);
    let mut out = [0_u32; 4];
    call!(
        b"cudaGraphAddMemcpyNode1D", at_mut(&mut copy) => u64, graph => u64, at(&launch) => u64, 1 => usize,
        at_mut(&mut out) => u64, setting.memory => u64, 16 => usize, DEVICE_TO_HOST => u32
    );
    let exec = setting.run(graph);
    assert_eq!(out, [6, 7, 8, 9]);
    value = 10;
    call!(b"cudaGraphExecKernelNodeSetParams", exec => u64, launch => u64, at(&node) => u64);
    setting.launch(exec);
    assert_eq!((out, value), ([16, 17, 18, 19], 10));

    let mut same = Kernel::default();
    call!(b"cudaGraphKernelNodeGetParams", launch => u64, at_mut(&mut same) => u64);
    assert_eq!(
        (same.function, same.grid, same.block),
        (setting.kernel, [1, 1, 1], [4, 1, 1])
    );
    // `cudaMemcpy3DParms`, as words: array, place and memory of source and target, extent, kind.
    let mut parms = [0_usize; 20];
    call!(b"cudaGraphMemcpyNodeGetParams", copy => u64, at_mut(&mut parms) => u64);
    assert_eq!([parms[0], parms[8]], [0, 0]);
    assert_eq!(
        [parms[4] as u64, parms[12] as u64],
        [setting.memory, at(&out)]
    );
    assert_eq!(parms[16..19], [16, 1, 1]);
    assert_eq!(parms[19] as u32, DEVICE_TO_HOST);
}

/// `cudaGraphNodeParams`: a kind, and from byte 16 on what the kind says.
#[test]
fn nodes_of_any_kind_are_described_in_one_form() {
    const KERNEL: u64 = 0;
    const MEMCPY: u64 = 1;
    let setting = Setting::new();
    let (mut graph, mut nodes) = (0_u64, [0_u64; 2]);
    call!(b"cudaGraphCreate", at_mut(&mut graph) => u64, 0 => u32);
    let value = 100_u32;
    let args = [at(&setting.memory), at(&value)];
    let mut launch = [0_u64; 32];
    launch[0] = KERNEL;
    let node = setting.node(&args);
    launch[2..6].copy_from_slice(&[node.function, 1 | 1 << 32, 1 | 4 << 32, 1 | 1 << 32]);
    launch[7] = node.args;
    call!(b"cudaGraphAddNode", at_mut(&mut nodes[0]) => u64, graph => u64, 0 => u64, 0 => usize, at_mut(&mut launch) => u64);
    let mut out = [0_u32; 4];
    let mut copy = [0_u64; 32];
    copy[0] = MEMCPY;
    // Behind flags: the source's memory, the target's, the extent, the kind.
    copy[8..12].copy_from_slice(&[setting.memory, 16, 16, 1]);
    copy[16..20].copy_from_slice(&[at_mut(&mut out), 16, 16, 1]);
    copy[20..24].copy_from_slice(&[16, 1, 1, u64::from(DEVICE_TO_HOST)]);
    let before = nodes[0];
    call!(
        b"cudaGraphAddNode", at_mut(&mut nodes[1]) => u64, graph => u64, at(&before) => u64, 1 => usize,
        at_mut(&mut copy) => u64
    );
    setting.run(graph);
    assert_eq!(out, [101, 102, 103, 104]);
}

#[test]
fn captured_work_is_a_graph() {
    let setting = Setting::new();
    call!(b"cudaStreamBeginCapture", setting.stream => u64, 0 => u32);
    let value = 7_u32;
    let args = [at(&setting.memory), at(&value)];
    /// `dim3`.
    #[derive(Clone, Copy)]
    #[repr(C)]
    struct Dim3([u32; 3]);
    for _ in 0..2 {
        call!(
            b"cudaLaunchKernel", setting.kernel => u64, Dim3([1, 1, 1]) => Dim3, Dim3([4, 1, 1]) => Dim3, at(&args) => u64,
            0 => usize, setting.stream => u64
        );
    }
    let (mut status, mut id, mut graph) = (0_u32, 0_u64, 0_u64);
    call!(b"cudaStreamGetCaptureInfo", setting.stream => u64, at_mut(&mut status) => u64, at_mut(&mut id) => u64);
    assert_eq!(status, 1);
    call!(b"cudaStreamEndCapture", setting.stream => u64, at_mut(&mut graph) => u64);
    let mut out = [0_u32; 4];
    let look = |out: &mut [u32; 4]| {
        call!(b"cudaMemcpy", at_mut(out) => u64, setting.memory => u64, 16 => usize, DEVICE_TO_HOST => u32);
    };
    look(&mut out);
    assert_eq!(out, [1, 2, 3, 4], "nothing has run");
    setting.run(graph);
    look(&mut out);
    assert_eq!(out, [15, 16, 17, 18]);
}

/// NVIDIA's samples want no graph back that they have.
#[test]
fn a_capture_to_a_known_graph_ends_without_giving_it() {
    let setting = Setting::new();
    let mut graph = 0_u64;
    call!(b"cudaGraphCreate", at_mut(&mut graph) => u64, 0 => u32);
    call!(
        b"cudaStreamBeginCaptureToGraph", setting.stream => u64, graph => u64, 0 => u64, 0 => u64, 0 => usize, 0 => u32
    );
    call!(b"cudaMemsetAsync", setting.memory => u64, 0x11 => u32, 16 => usize, setting.stream => u64);
    call!(b"cudaStreamEndCapture", setting.stream => u64, 0 => u64);
    let mut out = [0_u32; 4];
    setting.run(graph);
    call!(b"cudaMemcpy", at_mut(&mut out) => u64, setting.memory => u64, 16 => usize, DEVICE_TO_HOST => u32);
    assert_eq!(out, [0x1111_1111; 4]);
}
