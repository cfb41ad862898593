//! cudarc's safe interface: slices, a module, a launch, streams.

use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

const SCALE: &str = "
.version 7.0
.target sm_70
.address_size 64
.visible .entry scale(.param .u64 p, .param .f32 a, .param .u64 n)
{
    .reg .pred %q;
    .reg .f32 %a, %v;
    .reg .u32 %i, %b, %t;
    .reg .u64 %p, %o, %n, %w;
    ld.param.u64 %p, [p];
    ld.param.f32 %a, [a];
    ld.param.u64 %n, [n];
    mov.u32 %b, %ctaid.x;
    mov.u32 %i, %ntid.x;
    mov.u32 %t, %tid.x;
    mad.lo.u32 %i, %b, %i, %t;
    cvt.u64.u32 %w, %i;
    setp.ge.u64 %q, %w, %n;
    @%q ret;
    mul.wide.u32 %o, %i, 4;
    add.u64 %p, %p, %o;
    ld.global.f32 %v, [%p];
    mul.f32 %v, %v, %a;
    st.global.f32 [%p], %v;
    ret;
}";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let module = context.load_module(Ptx::from_src(SCALE))?;
    let kernel = module.load_function("scale")?;
    let host: Vec<f32> = (0..1000u16).map(f32::from).collect();
    let mut memory = stream.clone_htod(&host)?;
    let (factor, n) = (2.5f32, host.len());
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&mut memory).arg(&factor).arg(&n);
    // SAFETY: the arguments are those of the kernel, and the slice has `n` elements.
    unsafe { launch.launch(LaunchConfig::for_num_elems(1000)) }?;
    let back = stream.clone_dtoh(&memory)?;
    stream.synchronize()?;
    assert!(back.iter().zip(&host).all(|(back, host)| *back == host * factor));
    let zeros = stream.alloc_zeros::<u32>(77)?;
    assert_eq!(stream.clone_dtoh(&zeros)?, vec![0; 77]);
    println!("cudarc: fine");
    Ok(())
}
