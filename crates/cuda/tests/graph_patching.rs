//! A graph of kernels whose arguments are passed in buffers and patched between launches, by
//! functions of the C interface in the versions of CUDA 11: how machine learning compilers replay a
//! model.
#![expect(unsafe_code, reason = "calls the library as a C program does")]

use std::ffi::{CStr, c_void};

use cuda as _;

type Handle = u64;

/// `CUDA_KERNEL_NODE_PARAMS` of CUDA 11.
#[repr(C)]
struct KernelNodeParams {
    func: Handle,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    kernel_params: *const *const c_void,
    extra: *const *const c_void,
}

/// `CUDA_MEMCPY3D`, one side of it.
#[repr(C)]
#[derive(Default)]
struct Side {
    x_in_bytes: usize,
    y: usize,
    z: usize,
    lod: usize,
    memory_type: u32,
    host: u64,
    device: u64,
    array: u64,
    reserved: u64,
    pitch: usize,
    height: usize,
}

#[repr(C)]
#[derive(Default)]
struct Memcpy3d {
    from: Side,
    to: Side,
    width_in_bytes: usize,
    height: usize,
    depth: usize,
}

unsafe extern "C" {
    safe fn cuInit(flags: u32) -> u32;
    safe fn cuDeviceGet(device: &mut i32, ordinal: i32) -> u32;
    safe fn cuCtxCreate_v2(context: &mut Handle, flags: u32, device: i32) -> u32;
    safe fn cuCtxSynchronize() -> u32;
    fn cuModuleLoadData(module: &mut Handle, image: *const c_void) -> u32;
    fn cuModuleGetFunction(function: &mut Handle, module: Handle, name: *const i8) -> u32;
    safe fn cuMemAlloc_v2(address: &mut u64, size: usize) -> u32;
    fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, size: usize) -> u32;
    fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, size: usize) -> u32;
    safe fn cuGraphCreate(graph: &mut Handle, flags: u32) -> u32;
    safe fn cuGraphDestroy(graph: Handle) -> u32;
    fn cuGraphAddKernelNode(
        node: &mut Handle,
        graph: Handle,
        deps: *const Handle,
        count: usize,
        params: *const KernelNodeParams,
    ) -> u32;
    fn cuGraphAddMemcpyNode(
        node: &mut Handle,
        graph: Handle,
        deps: *const Handle,
        count: usize,
        params: *const Memcpy3d,
        context: Handle,
    ) -> u32;
    fn cuGraphInstantiate_v2(
        exec: &mut Handle,
        graph: Handle,
        node: *mut Handle,
        log: *mut i8,
        size: usize,
    ) -> u32;
    safe fn cuGraphLaunch(exec: Handle, stream: Handle) -> u32;
    fn cuGraphExecKernelNodeSetParams(
        exec: Handle,
        node: Handle,
        params: *const KernelNodeParams,
    ) -> u32;
    fn cuGraphExecMemcpyNodeSetParams(
        exec: Handle,
        node: Handle,
        params: *const Memcpy3d,
        context: Handle,
    ) -> u32;
    safe fn cuGraphExecDestroy(exec: Handle) -> u32;
    safe fn cuGraphGetNodes(graph: Handle, nodes: Option<&mut [Handle; 4]>, n: &mut usize) -> u32;
}

const PTX: &CStr = c"
.version 7.5
.target sm_80
.address_size 64
.visible .entry E_4(.param .u64 out, .param .u64 in, .param .u32 factor)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd0, [out];
    ld.param.u64 %rd1, [in];
    ld.param.u32 %r0, [factor];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2;
    ld.global.u32 %r2, [%rd3];
    mul.lo.u32 %r2, %r2, %r0;
    add.u64 %rd4, %rd0, %rd2;
    st.global.u32 [%rd4], %r2;
    ret;
}
";

/// Arguments as the kernel's parameter block has them.
#[repr(C)]
struct Args {
    out: u64,
    input: u64,
    factor: u32,
}

/// Size of the arguments, without padding at the end.
static SIZE: usize = 20;

/// A kernel node whose arguments lie in a buffer.
struct Node {
    args: Box<Args>,
    _extra: Box<[*const c_void; 5]>,
    params: KernelNodeParams,
}

fn node(func: Handle, args: Args) -> Node {
    let args = Box::new(args);
    let extra = Box::new([
        std::ptr::without_provenance(1),
        (&raw const *args).cast(),
        std::ptr::without_provenance(2),
        (&raw const SIZE).cast(),
        std::ptr::null(),
    ]);
    let params = KernelNodeParams {
        func,
        grid: [1; 3],
        block: [4, 1, 1],
        shared: 0,
        kernel_params: std::ptr::null(),
        extra: extra.as_ptr(),
    };
    Node {
        args,
        _extra: extra,
        params,
    }
}

fn on_device(to: u64, from: u64) -> Memcpy3d {
    const DEVICE: u32 = 2;
    let side = |device| Side {
        memory_type: DEVICE,
        device,
        pitch: 16,
        height: 1,
        ..Side::default()
    };
    Memcpy3d {
        from: side(from),
        to: side(to),
        width_in_bytes: 16,
        height: 1,
        depth: 1,
    }
}

fn read(from: u64) -> [u32; 4] {
    let mut values = [0; 4];
    // SAFETY: the array has 16 bytes.
    let result = unsafe { cuMemcpyDtoH_v2((&raw mut values).cast(), from, 16) };
    assert_eq!(result, 0);
    values
}

fn start() -> (Handle, Handle) {
    let (mut device, mut context, mut module, mut function) = (0, 0, 0, 0);
    assert_eq!(cuInit(0), 0);
    assert_eq!(cuDeviceGet(&mut device, 0), 0);
    assert_eq!(cuCtxCreate_v2(&mut context, 0, device), 0);
    // SAFETY: the texts end with NUL.
    unsafe {
        assert_eq!(cuModuleLoadData(&mut module, PTX.as_ptr().cast()), 0);
        let name = c"E_4".as_ptr();
        assert_eq!(cuModuleGetFunction(&mut function, module, name), 0);
    }
    (context, function)
}

#[test]
fn buffers_are_copied_and_patched_between_launches() {
    let (context, function) = start();
    let mut buffers = [0; 4];
    for buffer in &mut buffers {
        assert_eq!(cuMemAlloc_v2(buffer, 16), 0);
    }
    let [input, middle, copied, output] = buffers;
    let data = [1_u32, 2, 3, 4];
    // SAFETY: the array has 16 bytes.
    let result = unsafe { cuMemcpyHtoD_v2(input, data.as_ptr().cast(), 16) };
    assert_eq!(result, 0);

    let (mut graph, mut exec) = (0, 0);
    let (mut first_node, mut copy_node, mut last_node) = (0, 0, 0);
    assert_eq!(cuGraphCreate(&mut graph, 0), 0);
    let mut first = node(
        function,
        Args {
            out: middle,
            input,
            factor: 3,
        },
    );
    let copy = on_device(copied, middle);
    let last = node(
        function,
        Args {
            out: output,
            input: copied,
            factor: 5,
        },
    );
    // SAFETY: what the parameters point to outlives the calls.
    unsafe {
        let deps = std::ptr::null();
        assert_eq!(
            cuGraphAddKernelNode(&mut first_node, graph, deps, 0, &first.params),
            0
        );
        let deps = &raw const first_node;
        assert_eq!(
            cuGraphAddMemcpyNode(&mut copy_node, graph, deps, 1, &copy, context),
            0
        );
        let deps = &raw const copy_node;
        assert_eq!(
            cuGraphAddKernelNode(&mut last_node, graph, deps, 1, &last.params),
            0
        );
        let (node, log) = (std::ptr::null_mut(), std::ptr::null_mut());
        assert_eq!(cuGraphInstantiate_v2(&mut exec, graph, node, log, 0), 0);
    }
    // An argument that changes in the buffer changes nothing that was added with it.
    first.args.factor = 100;
    assert_eq!(cuGraphLaunch(exec, 0), 0);
    assert_eq!(cuCtxSynchronize(), 0);
    assert_eq!(read(output), [15, 30, 45, 60]);

    // Launches that are not waited for have the arguments of their time.
    let mut sums = Vec::new();
    for factor in [7, 11] {
        first.args.factor = factor;
        // SAFETY: as above.
        unsafe {
            assert_eq!(
                cuGraphExecKernelNodeSetParams(exec, first_node, &first.params),
                0
            );
        }
        assert_eq!(cuGraphLaunch(exec, 0), 0);
        sums.push(read(output));
    }
    assert_eq!(sums, [[35, 70, 105, 140], [55, 110, 165, 220]]);

    let back = on_device(copied, input);
    // SAFETY: as above.
    unsafe {
        assert_eq!(
            cuGraphExecMemcpyNodeSetParams(exec, copy_node, &back, context),
            0
        );
        // The node is no copy, and this is no node.
        assert_eq!(
            cuGraphExecMemcpyNodeSetParams(exec, first_node, &back, context),
            1
        );
        assert_eq!(
            cuGraphExecKernelNodeSetParams(exec, 12345, &first.params),
            1
        );
        assert_eq!(
            cuGraphExecKernelNodeSetParams(exec, first_node, std::ptr::null()),
            1
        );
    }
    assert_eq!(cuGraphLaunch(exec, 0), 0);
    assert_eq!(read(output), [5, 10, 15, 20]);

    let mut count = 0;
    assert_eq!(cuGraphGetNodes(graph, None, &mut count), 0);
    assert_eq!(count, 3);
    let (mut nodes, mut room) = ([77; 4], 4);
    assert_eq!(cuGraphGetNodes(graph, Some(&mut nodes), &mut room), 0);
    assert_eq!((nodes, room), ([first_node, copy_node, last_node, 0], 3));
    assert_eq!(cuGraphExecDestroy(exec), 0);
    assert_eq!(cuGraphDestroy(graph), 0);
    assert_eq!(cuGraphDestroy(graph), 1);
}
