//! A context with a module of small kernels, and what several tests need to use them.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test binary uses the parts that it needs"
)]

use std::ffi::CString;

use ptxjit_driver::image::jit::Options;
use ptxjit_driver::launch::{self, Arguments};
use ptxjit_driver::memory::{alloc, copy};
use ptxjit_driver::types::*;
use ptxjit_driver::{context, module};

/// `step(p, a, b)`: `*p = *p * a + b`, so that the order of steps shows. `empty()` does nothing.
const PTX: &str = "
.version 7.0
.target sm_80
.address_size 64
.visible .entry step(.param .u64 p, .param .u32 a, .param .u32 b)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd0, [p];
    ld.param.u32 %r1, [a];
    ld.param.u32 %r2, [b];
    ld.global.u32 %r0, [%rd0];
    mad.lo.u32 %r0, %r0, %r1, %r2;
    st.global.u32 [%rd0], %r0;
    ret;
}
.visible .entry wild(.param .u64 p)
{
    .reg .b64 %rd<2>;
    ld.param.u64 %rd0, [p];
    st.global.u64 [%rd0], %rd0;
    ret;
}
.visible .entry empty()
{
    ret;
}
";

/// A context that is current on this thread.
pub struct Gpu {
    pub context: CUcontext,
    module: CUmodule,
    pub step: CUfunction,
}

impl Gpu {
    pub fn new() -> Gpu {
        ptxjit_driver::init(0).unwrap();
        let context = context::create(0, 0, 3020).unwrap();
        let text = CString::new(PTX).unwrap();
        let options = Options {
            count: 0,
            keys: HostPtr::NULL,
            values: HostPtr::NULL,
        };
        let module = module::load_data(address(text.as_bytes_with_nul()), options).unwrap();
        let mut gpu = Gpu {
            context,
            module,
            step: CUfunction::NULL,
        };
        gpu.step = gpu.function("step");
        gpu
    }

    pub fn function(&self, name: &str) -> CUfunction {
        let name = CString::new(name).unwrap();
        module::get_function(self.module, address(name.as_bytes_with_nul())).unwrap()
    }

    /// One number on the device.
    pub fn number(&self, value: u32) -> CUdeviceptr {
        let ptr = alloc::alloc(4).unwrap();
        self.set(ptr, value);
        ptr
    }

    pub fn set(&self, ptr: CUdeviceptr, value: u32) {
        copy::to_device(ptr, (&raw const value) as u64, 4).unwrap();
    }

    /// Waits for everything, then reads a number.
    pub fn get(&self, ptr: CUdeviceptr) -> u32 {
        context::synchronize(CUcontext::NULL).unwrap();
        let mut value = 0_u32;
        copy::to_host((&raw mut value) as u64, ptr, 4).unwrap();
        value
    }

    /// Launches `step`.
    pub fn launch(&self, stream: CUstream, args: StepArgs) -> ptxjit_driver::Result<()> {
        let pointers = args.pointers();
        let arguments = Arguments {
            params: address(&*pointers),
            extra: HostPtr::NULL,
        };
        launch::kernel(self.step, [1; 3], [1; 3], 0, stream, arguments, false)
    }

    /// A node that runs `step`.
    pub fn node(&self, args: &StepArgs) -> NodeParams {
        self.node_of_blocks(args, 1)
    }

    /// A node of so many blocks.
    pub fn node_of_blocks(&self, args: &StepArgs, n_blocks: u32) -> NodeParams {
        let args = Box::new(*args);
        let pointers = args.pointers();
        let params = CUDA_KERNEL_NODE_PARAMS_v3 {
            func: self.step,
            gridDimX: n_blocks,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: 1,
            blockDimY: 1,
            blockDimZ: 1,
            kernelParams: address(&*pointers),
            ..CUDA_KERNEL_NODE_PARAMS_v3::default()
        };
        NodeParams {
            params: params_of(CUgraphNodeType::KERNEL, params),
            _pointed: (args, pointers),
        }
    }
}

/// Arguments of `step`.
#[derive(Copy, Clone)]
pub struct StepArgs {
    pub p: u64,
    pub a: u32,
    pub b: u32,
}

impl StepArgs {
    fn pointers(&self) -> Box<[u64; 3]> {
        Box::new([
            (&raw const self.p) as u64,
            (&raw const self.a) as u64,
            (&raw const self.b) as u64,
        ])
    }
}

pub fn step(p: u64, a: u32, b: u32) -> StepArgs {
    StepArgs { p, a, b }
}

/// A node's parameters with what they point to.
pub struct NodeParams {
    pub params: CUgraphNodeParams,
    _pointed: (Box<StepArgs>, Box<[u64; 3]>),
}

pub fn params_of<T: Raw>(type_: CUgraphNodeType, params: T) -> CUgraphNodeParams {
    CUgraphNodeParams {
        type_,
        params: Union::of(params),
        ..CUgraphNodeParams::default()
    }
}

/// The address of the program's own data.
pub fn address<T: ?Sized>(data: &T) -> HostPtr {
    HostPtr((&raw const *data).cast::<u8>() as u64)
}
