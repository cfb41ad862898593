//! Random images, and kernels that read textures of them at random places, read surfaces and write
//! to them: the engines must see the same texels.
//!
//! Each thread keeps what it reads, and writes to texels of its own alone. Places lie inside, on
//! edges and far outside of the image.

use std::fmt::Write;
use std::panic::AssertUnwindSafe;

use ptxjit::{
    ChannelType, Device, Engine, Error, Image, Module, Schedule, Shape, Surface, Texture,
};

use super::rng::Rng;

/// Threads of a launch; a row of texels in the surface that is written has as many.
const THREADS: usize = 64;
/// Words that a read gives at most.
const WORDS: usize = 4;
/// Numbers that a thread has for the coordinates of a read.
const NUMBERS: usize = 12;

const SHAPES: [(Shape, &str, usize, usize); 7] = [
    (Shape::D1, "1d", 1, 1),
    (Shape::D2, "2d", 2, 2),
    (Shape::D2, "2d", 2, 2),
    (Shape::D3, "3d", 3, 3),
    (Shape::Layers1, "a1d", 1, 1),
    (Shape::Layers2, "a2d", 2, 2),
    (Shape::Cube, "cube", 2, 3),
];

const TYPES: [ChannelType; 8] = [
    ChannelType::U8,
    ChannelType::I8,
    ChannelType::U16,
    ChannelType::I16,
    ChannelType::U32,
    ChannelType::I32,
    ChannelType::F16,
    ChannelType::F32,
];

/// An image and how it is sampled.
struct Subject {
    shape: Shape,
    geometry: &'static str,
    /// Coordinates that a read takes beside the layer.
    n_coordinates: usize,
    dtype: ChannelType,
    channels: u32,
    dims: Vec<u32>,
    layers: u32,
    levels: u32,
    /// Reads give floats.
    gives_floats: bool,
    linear: bool,
    normalized: bool,
}

impl Subject {
    fn random(rng: &mut Rng) -> Subject {
        let (shape, geometry, n_dims, n_coordinates) = *rng.pick(&SHAPES);
        let is_cube = shape == Shape::Cube;
        let mut dims: Vec<u32> = (0..n_dims).map(|_| 1 + rng.below(9) as u32).collect();
        if is_cube {
            dims[1] = dims[0];
        }
        let dtype = *rng.pick(&TYPES);
        let gives_floats = dtype.is_float() || dtype.bytes() < 4 && rng.chance(60);
        let longest = dims.iter().max().copied().unwrap_or(1);
        Subject {
            shape,
            geometry,
            n_coordinates,
            dtype,
            channels: *rng.pick(&[1, 2, 4]),
            layers: if is_cube { 6 } else { 1 + rng.below(4) as u32 },
            levels: if rng.chance(30) {
                1 + longest.ilog2()
            } else {
                1
            },
            gives_floats,
            linear: gives_floats && rng.chance(60),
            normalized: is_cube || rng.chance(50),
            dims,
        }
    }

    fn image(&self, device: &Device, rng: &mut Rng) -> Result<Image, Error> {
        let mut builder = Image::new(self.dtype, self.channels, &self.dims).shape(self.shape);
        if self.shape.is_layered() {
            builder = builder.layers(self.layers);
        }
        if self.levels > 1 {
            builder = builder.levels(self.levels);
        }
        let image = builder.alloc(device)?;
        if let Some(data) = image.data() {
            let bytes = (0..data.len()).map(|_| rng.next() as u8);
            let mut bytes: Vec<u8> = bytes.collect();
            if self.dtype == ChannelType::F32 {
                for word in bytes.chunks_exact_mut(4) {
                    word.copy_from_slice(&rng.float_bits().to_le_bytes());
                }
            }
            data.write(&bytes)?;
        }
        Ok(image)
    }

    fn texture(&self, image: &Image, rng: &mut Rng) -> Result<Texture, Error> {
        const MODES: [&str; 4] = ["wrap", "mirror", "clamp", "border"];
        let modes = [(); 3].map(|()| *rng.pick(&MODES));
        let is_srgb = self.dtype == ChannelType::U8 && self.gives_floats && rng.chance(30);
        Texture::new(image)
            .address(&modes)
            .border([0.25, -1.5, 3.0, 1.0])
            .linear(self.linear)
            .mip_linear(self.gives_floats && rng.chance(50))
            .mip_bias(rng.below(5) as f32 / 2.0 - 1.0)
            .mip_clamp(0.0, rng.below(4) as f32)
            .normalized(self.normalized)
            .normalized_read(self.gives_floats && !self.dtype.is_float())
            .srgb(is_srgb)
            .build()
    }

    /// A number for a coordinate: mostly inside, sometimes far outside or none at all.
    fn number(&self, rng: &mut Rng) -> f32 {
        if rng.chance(8) {
            return f32::from_bits(rng.float_bits());
        }
        let place = rng.below(640) as f32 / 32.0 - 5.0;
        match self.normalized {
            true => place / 8.0,
            false => place,
        }
    }

    /// A read of the texture; registers `%c0` and further ones have numbers, `%i0` and further ones
    /// integers, and `%layer` a layer.
    fn read(&self, rng: &mut Rng) -> String {
        let has_layers = self.geometry.starts_with('a');
        let by_integers = !self.normalized && !self.linear && rng.chance(30);
        let names = if by_integers { "%i" } else { "%c" };
        let mut coordinates: Vec<String> = (0..self.n_coordinates)
            .map(|n| format!("{names}{n}"))
            .collect();
        if has_layers {
            coordinates.insert(0, "%layer".to_owned());
        }
        // Vectors have 1, 2 or 4 elements.
        if coordinates.len() == 3 {
            coordinates.push(format!("{names}0"));
        }
        let at = format!("[%texture, {{{}}}]", coordinates.join(", "));
        let (ty, regs) = match self.gives_floats {
            true => ("f32", "{%f0, %f1, %f2, %f3}"),
            false => (*rng.pick(&["u32", "s32"]), "{%w0, %w1, %w2, %w3}"),
        };
        let geometry = self.geometry;
        if geometry == "2d" && !by_integers && rng.chance(20) {
            let channel = *rng.pick(&["r", "g", "b", "a"]);
            return format!("    tld4.{channel}.2d.v4.{ty}.f32 {regs}, {at};\n");
        }
        if by_integers {
            return format!("    tex.{geometry}.v4.{ty}.s32 {regs}, {at};\n");
        }
        match rng.below(if self.levels > 1 { 4 } else { 10 }) {
            0 => format!("    tex.level.{geometry}.v4.{ty}.f32 {regs}, {at}, %c8;\n"),
            1 if geometry != "cube" => {
                let width = if self.n_coordinates == 3 {
                    4
                } else {
                    self.n_coordinates
                };
                let vector = |first: usize| {
                    let elements = (0..width).map(|n| format!("%c{}", first + n));
                    format!("{{{}}}", elements.collect::<Vec<_>>().join(", "))
                };
                format!(
                    "    tex.grad.{geometry}.v4.{ty}.f32 {regs}, {at}, {}, {};\n",
                    vector(4),
                    vector(8)
                )
            }
            _ => format!("    tex.{geometry}.v4.{ty}.f32 {regs}, {at};\n"),
        }
    }
}

/// A read of a surface of words, or a write to the thread's own texel of another.
fn surface(rng: &mut Rng) -> String {
    const SIZES: [(&str, &str, usize); 4] = [
        ("b32", "%w0", 4),
        ("v2.b32", "{%w0, %w1}", 8),
        ("v4.b32", "{%w0, %w1, %w2, %w3}", 16),
        ("b8", "%h0", 1),
    ];
    let (ty, regs, size) = *rng.pick(&SIZES);
    let head = format!("    mul.lo.s32 %x, %i0, {size};\n");
    match rng.below(3) {
        0 => {
            let outside = *rng.pick(&["clamp", "zero"]);
            let widen = if size == 1 {
                "    cvt.u32.u16 %w0, %h0;\n"
            } else {
                ""
            };
            format!("{head}    suld.b.2d.{ty}.{outside} {regs}, [%source, {{%x, %i1}}];\n{widen}")
        }
        1 => {
            let row = rng.below(4);
            format!(
                "    shl.b32 %x, %t, 4;\n    cvt.u16.u32 %h0, %w1;\n    sust.b.2d.{ty}.trap [%target, {{%x, {row}}}], {regs};\n"
            )
        }
        // Outside of the surface nothing is written.
        _ => format!(
            "    shl.b32 %x, %t, 4;\n    cvt.u16.u32 %h0, %w1;\n    sust.b.2d.{ty}.zero [%target, {{%x, 77}}], {regs};\n"
        ),
    }
}

const HEAD: &str = ".version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 p_texture, .param .u64 p_source, .param .u64 p_target, .param .u64 p_in, .param .u64 p_out)
{
    .reg .b64 %texture, %source, %target, %in, %out, %a;
    .reg .b32 %t, %x, %layer, %w<4>, %i<12>;
    .reg .b16 %h0;
    .reg .f32 %f<4>, %c<12>;
    .reg .pred %p;
    ld.param.u64 %texture, [p_texture];
    ld.param.u64 %source, [p_source];
    ld.param.u64 %target, [p_target];
    ld.param.u64 %in, [p_in];
    ld.param.u64 %out, [p_out];
    mov.u32 %t, %tid.x;
    mad.wide.u32 %out, %t, 4, %out;
    mad.wide.u32 %in, %t, 4, %in;
";

/// The kernel of a seed, with how many reads it has.
fn text(rng: &mut Rng, subject: &Subject) -> (String, usize) {
    let n_steps = 1 + rng.below(6);
    let mut text = HEAD.to_owned();
    for register in 0..WORDS {
        let _ = writeln!(text, "    mov.b32 %w{register}, 0;");
    }
    for step in 0..n_steps {
        for n in 0..NUMBERS {
            let at = (step * NUMBERS + n) * THREADS * 4;
            let _ = write!(
                text,
                "    ld.global.f32 %c{n}, [%in+{at}];\n    cvt.rmi.s32.f32 %i{n}, %c{n};\n"
            );
        }
        let _ = writeln!(text, "    and.b32 %layer, %i11, 7;");
        // Lanes read together, or some of them.
        let end = (rng.chance(30)).then(|| {
            let bound = rng.below(32);
            let _ = write!(
                text,
                "    and.b32 %x, %t, 31;\n    setp.lt.u32 %p, %x, {bound};\n    @%p bra DONE_{step};\n"
            );
            format!("DONE_{step}:\n")
        });
        if rng.chance(30) {
            text += &surface(rng);
        } else {
            text += &subject.read(rng);
            if subject.gives_floats {
                for n in 0..WORDS {
                    let _ = writeln!(text, "    mov.b32 %w{n}, %f{n};");
                }
            }
        }
        for n in 0..WORDS {
            let at = (step * WORDS + n) * THREADS * 4;
            let _ = writeln!(text, "    st.global.b32 [%out+{at}], %w{n};");
        }
        text += &end.unwrap_or_default();
    }
    (text + "    ret;\n}\n", n_steps)
}

/// Runs the kernel of a seed in the interpreter and at all widths; says what went wrong.
pub fn check(device: &Device, seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed ^ 0x1a6e);
    let subject = Subject::random(&mut rng);
    let (text, n_steps) = text(&mut rng, &subject);
    let numbers = (0..n_steps * NUMBERS * THREADS).map(|_| subject.number(&mut rng));
    let numbers: Vec<f32> = numbers.collect();
    let run = || -> Result<Option<String>, Error> {
        let image = subject.image(device, &mut rng)?;
        let texture = subject.texture(&image, &mut rng)?;
        let source = words(device, 7, 5)?;
        let module = Module::from_source(device, "images.ptx", text.clone())?;
        let kernel = module.only_kernel()?;
        let input = device.alloc_from(&numbers)?;
        let launch = |engine, gang, schedule| -> Result<(Vec<u32>, Vec<u8>), Error> {
            let target = words(device, THREADS as u32, 4)?;
            let out = device.alloc_from(&vec![0u32; n_steps * WORDS * THREADS])?;
            kernel
                .launch()
                .block(THREADS as u32)
                .arg(&texture)
                .arg(&Surface::new(&source)?)
                .arg(&Surface::new(&target)?)
                .arg(&input)
                .arg(&out)
                .engine(engine)
                .gang(gang)
                .schedule(schedule)
                .run()?;
            let texels = target.data().map(|data| data.read()).transpose()?;
            Ok((out.read()?, texels.unwrap_or_default()))
        };
        let want = launch(Engine::Interp, 1, Schedule::Parallel)?;
        for gang in [1, 4, 8, 16, 32] {
            let schedule = match seed % 3 {
                0 => Schedule::Random(seed),
                _ => Schedule::Parallel,
            };
            let got = launch(Engine::Jit, gang, schedule)?;
            if let Some(at) = (0..want.0.len()).find(|&at| !is_same(want.0[at], got.0[at])) {
                let (a, b) = (want.0[at], got.0[at]);
                let place = format!("step {}, thread {}", at / THREADS / WORDS, at % THREADS);
                return Ok(Some(format!(
                    "gang {gang}, {place}: {a:#x} expected, {b:#x} computed"
                )));
            }
            if want.1 != got.1 {
                return Ok(Some(format!("gang {gang}: other texels were written")));
            }
        }
        Ok(None)
    };
    match std::panic::catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(None)) => Ok(()),
        Ok(Ok(Some(problem))) => Err(format!("{problem}\n{text}")),
        Ok(Err(err)) => Err(format!("{err}\n{text}")),
        Err(_) => Err(format!("a panic\n{text}")),
    }
}

/// An image of four words for each texel, which count.
fn words(device: &Device, width: u32, height: u32) -> Result<Image, Error> {
    let image = Image::new(ChannelType::U32, 4, &[width, height]).alloc(device)?;
    if let Some(data) = image.data() {
        let bytes = (0..data.len()).map(|at| (at * 7) as u8);
        data.write(&bytes.collect::<Vec<u8>>())?;
    }
    Ok(image)
}

/// Equal, or NaNs both.
fn is_same(a: u32, b: u32) -> bool {
    a == b || f32::from_bits(a).is_nan() && f32::from_bits(b).is_nan()
}
