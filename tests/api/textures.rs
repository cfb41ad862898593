//! Textures and surfaces through the library: what is bound, what is refused, and which faults name
//! what.

use std::time::Duration;

use ptxjit::{
    ChannelType, Device, Engine, Error, Image, Kernel, Module, Sampler, Shape, Surface, Texture,
};

use crate::ptx;

const KERNELS: &str = "
.global .texref bound;
.global .surfref target;
.visible .entry by_handle(.param .u64 handle, .param .u64 out)
{
    .reg .b32 %r<4>;
    .reg .f32 %f<5>;
    .reg .b64 %rd<5>;
    mov.u32 %r1, %tid.x;
    ld.param.u64 %rd1, [handle];
    ld.param.u64 %rd2, [out];
    tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1}];
    mul.wide.u32 %rd3, %r1, 4;
    add.u64 %rd4, %rd2, %rd3;
    st.global.f32 [%rd4], %f1;
    ret;
}
.visible .entry by_name(.param .u64 out)
{
    .reg .b32 %r<4>;
    .reg .f32 %f<5>;
    .reg .b64 %rd<5>;
    mov.u32 %r1, %tid.x;
    ld.param.u64 %rd2, [out];
    tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [bound, {%r1}];
    mul.wide.u32 %rd3, %r1, 4;
    add.u64 %rd4, %rd2, %rd3;
    st.global.f32 [%rd4], %f1;
    ret;
}
.visible .entry store(.param .surfref to)
{
    .reg .b32 %r<4>;
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 2;
    sust.b.1d.b32.trap [to, {%r2}], %r1;
    ret;
}
.visible .entry waits(.param .u64 handle, .param .u64 flags)
{
    .reg .pred %p;
    .reg .b32 %r<4>;
    .reg .f32 %f<5>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [handle];
    ld.param.u64 %rd2, [flags];
    mov.u32 %r1, 0;
    tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1}];
    st.volatile.global.u32 [%rd2], 1;
again:
    ld.volatile.global.u32 %r2, [%rd2+4];
    setp.eq.u32 %p, %r2, 0;
    @%p bra again;
    tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1}];
    st.global.f32 [%rd2+8], %f1;
    ret;
}
";

fn module() -> (Device, Module) {
    let device = Device::new().unwrap();
    let module = Module::from_source(&device, "textures.ptx", ptx(KERNELS)).unwrap();
    (device, module)
}

/// Eight floats: 10, 11 and so on.
fn line(device: &Device) -> Image {
    let image = Image::new(ChannelType::F32, 1, &[8]).alloc(device).unwrap();
    let bytes: Vec<u8> = (10..18u8)
        .flat_map(|n| f32::from(n).to_le_bytes())
        .collect();
    image.data().unwrap().write(&bytes).unwrap();
    image
}

fn engines() -> [(Engine, u32); 4] {
    [
        (Engine::Interp, 1),
        (Engine::Jit, 1),
        (Engine::Jit, 8),
        (Engine::Jit, 32),
    ]
}

/// What a launch of `by_handle` with this handle ends with, in each engine.
#[track_caller]
fn refused(device: &Device, kernel: &Kernel, handle: u64, text: &str) {
    let out = device.alloc_from(&[0f32; 8]).unwrap();
    for (engine, gang) in engines() {
        let launch = kernel.launch().block(8).arg(handle).arg(&out);
        let err = launch.engine(engine).gang(gang).run().unwrap_err();
        assert!(matches!(err, Error::Launch(_)), "{err}");
        let told = err.to_string();
        assert!(told.contains(text), "{told}");
        assert!(told.contains("tex.1d.v4.f32.s32"), "{told}");
        assert!(told.contains("thread"), "{told}");
    }
    assert_eq!(out.read().unwrap(), [0.0; 8]);
}

#[test]
fn a_texture_is_read_by_its_handle_and_by_the_name_it_is_bound_to() {
    let (device, module) = module();
    let texture = Texture::new(&line(&device)).build().unwrap();
    let want: Vec<f32> = (10..18u8).map(f32::from).collect();
    for (engine, gang) in engines() {
        let out = device.alloc_from(&[0f32; 8]).unwrap();
        let launch = module.kernel("by_handle").unwrap().launch().block(8);
        let launch = launch.arg(&texture).arg(&out).engine(engine).gang(gang);
        launch.run().unwrap();
        assert_eq!(out.read().unwrap(), want);
        module.global("bound").unwrap().bind(&texture).unwrap();
        let out = device.alloc_from(&[0f32; 8]).unwrap();
        let launch = module.kernel("by_name").unwrap().launch().block(8);
        launch.arg(&out).engine(engine).gang(gang).run().unwrap();
        assert_eq!(out.read().unwrap(), want);
    }
}

#[test]
fn handles_of_other_things_stop_the_grid() {
    let (device, module) = module();
    let kernel = module.kernel("by_handle").unwrap();
    let image = line(&device);
    let buffer = device.alloc_from(&[0u64; 4]).unwrap();
    let sampler = Sampler::new(&device).build().unwrap();
    let surface = Surface::new(&image).unwrap();
    refused(
        &device,
        &kernel,
        sampler.handle(),
        "a sampler is given, not a texture",
    );
    refused(
        &device,
        &kernel,
        surface.handle(),
        "a surface is given, not a texture",
    );
    for garbage in [0, 1, buffer.address(), !0, 0x7e0b << 48] {
        refused(&device, &kernel, garbage, "neither the handle of a texture");
    }
    let gone = Texture::new(&image).build().unwrap().handle();
    refused(&device, &kernel, gone, "neither the handle of a texture");
    let plane = Image::new(ChannelType::F32, 1, &[4, 4])
        .alloc(&device)
        .unwrap();
    let plane = Texture::new(&plane).build().unwrap();
    refused(
        &device,
        &kernel,
        plane.handle(),
        "a texture of geometry `2d` is not read by `.1d`",
    );
    let other = Device::new().unwrap();
    let elsewhere = Texture::new(&line(&other)).build().unwrap();
    refused(
        &device,
        &kernel,
        elsewhere.handle(),
        "neither the handle of a texture",
    );
}

#[test]
fn a_texture_that_ends_while_a_kernel_runs_is_a_fault() {
    let (device, module) = module();
    let texture = Texture::new(&line(&device)).build().unwrap();
    let flags = device.alloc_from(&[0u32; 3]).unwrap();
    let launch = module.kernel("waits").unwrap().launch();
    let launch = launch
        .arg(texture.handle())
        .arg(&flags)
        .timeout(Duration::from_secs(60));
    let running = std::thread::spawn(move || launch.run());
    while flags.read_range(0, 1).unwrap() == [0] {
        std::thread::yield_now();
    }
    drop(texture);
    flags.write_at(1, &[1]).unwrap();
    let err = running.join().unwrap().unwrap_err().to_string();
    assert!(err.contains("neither the handle of a texture"), "{err}");
    assert_eq!(flags.read_range(2, 1).unwrap(), [0]);
}

#[test]
fn stores_outside_of_a_surface_trap() {
    let (device, module) = module();
    let surface = Surface::new(&line(&device)).unwrap();
    for (engine, gang) in engines() {
        let launch = module.kernel("store").unwrap().launch().block(9);
        let launch = launch.arg(&surface).engine(engine).gang(gang);
        let err = launch.run().unwrap_err().to_string();
        let text =
            "access to 4 bytes outside of the surface: byte 32 of a `1d` with rows of 32 bytes";
        assert!(err.contains(text), "{err}");
        assert!(err.contains("sust.b.1d.b32.trap"), "{err}");
    }
}

#[test]
fn variables_without_an_object_are_named() {
    let (device, module) = module();
    let out = device.alloc_from(&[0f32; 8]).unwrap();
    for (engine, gang) in engines() {
        let launch = module.kernel("by_name").unwrap().launch().block(8);
        let err = launch
            .arg(&out)
            .engine(engine)
            .gang(gang)
            .run()
            .unwrap_err();
        assert!(matches!(err, Error::Usage { .. }), "{err}");
        assert!(
            err.to_string()
                .contains("no texture is bound to the variable `bound`")
        );
    }
    let texture = Texture::new(&line(&device)).build().unwrap();
    let err = module.global("target").unwrap().bind(&texture).unwrap_err();
    assert!(
        err.to_string()
            .contains("`target` is no variable for a texture")
    );
}

#[test]
fn builders_name_the_field_that_does_not_fit() {
    let device = Device::new().unwrap();
    let image = |dtype| Image::new(dtype, 1, &[4, 4]).alloc(&device).unwrap();
    #[track_caller]
    fn names<T: std::fmt::Debug>(result: Result<T, Error>, field: &str) {
        let err = result.unwrap_err();
        assert!(matches!(err, Error::Usage { .. }), "{err}");
        assert!(err.to_string().contains(field), "{err}");
    }
    names(
        Texture::new(&image(ChannelType::U8)).linear(true).build(),
        "`filter`",
    );
    names(
        Texture::new(&image(ChannelType::U8)).srgb(true).build(),
        "`srgb`",
    );
    names(
        Texture::new(&image(ChannelType::F32))
            .address(&["repeat"])
            .build(),
        "`address`",
    );
    names(
        Image::new(ChannelType::F32, 3, &[4]).alloc(&device),
        "`channels`",
    );
    names(
        Image::new(ChannelType::F32, 1, &[4, 0]).alloc(&device),
        "`dims`",
    );
    names(
        Image::new(ChannelType::F32, 1, &[4, 4])
            .levels(4)
            .alloc(&device),
        "`levels`",
    );
    let layered = Image::new(ChannelType::F32, 1, &[4, 4]).shape(Shape::Layers2);
    names(layered.alloc(&device), "`layers`");
    let cubes = Image::new(ChannelType::F32, 1, &[4, 4]).shape(Shape::Cubes);
    names(cubes.layers(8).alloc(&device), "`layers`");
    let small = device.alloc::<u8>(63).unwrap();
    let builder = Image::new(ChannelType::F32, 1, &[4, 4]);
    names(builder.in_buffer(&device, &small, 0), "64 bytes");
}
