//! One benchmark: ptxjit and the native version take turns, and their results are compared.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ptxjit::{
    Buffer, ChannelType, Device, ElementType, Image, Kernel, Module, Options, Prepared, TensorMap,
    Texture,
};

use crate::cases::{ArgSpec, Case, Init, Role};
use crate::data;
use crate::native::Native;

/// What was measured.
pub(crate) struct Outcome {
    pub(crate) gang: u32,
    /// From the text to code that is ready to run.
    pub(crate) first: Duration,
    pub(crate) ptxjit: Times,
    pub(crate) native: Option<Times>,
    /// What is wrong with the results, if anything.
    pub(crate) mismatch: Option<String>,
}

/// Seconds of each round.
#[derive(Default)]
pub(crate) struct Times {
    pub(crate) wall: Vec<f64>,
    /// Of all threads together; only if there are native versions, which know.
    pub(crate) cpu: Vec<f64>,
}

pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

impl Outcome {
    /// How often the time of the native version ptxjit takes: the median of the rounds' ratios.
    pub(crate) fn ratio(&self, pick: fn(&Times) -> &Vec<f64>) -> Option<f64> {
        let native = self.native.as_ref()?;
        let pairs = pick(&self.ptxjit).iter().zip(pick(native));
        median(
            &pairs
                .map(|(ours, theirs)| ours / theirs)
                .collect::<Vec<_>>(),
        )
    }
}

/// Runs `case` this many rounds, after one that does not count.
pub(crate) fn run(
    case: &Case,
    options: &Options,
    rounds: usize,
    native: Option<&Native>,
) -> Result<Outcome> {
    let device = Device::new()?;
    let start = Instant::now();
    let module = Module::from_source(&device, case.name, case.ptx)?;
    let kernel = module.kernel(case.kernel)?;
    let first = start.elapsed();
    let init: Vec<Vec<u64>> = case.buffers.iter().map(data::make).collect();
    let buffers: Vec<Buffer<u64>> = init
        .iter()
        .map(|words| device.alloc_from(words))
        .collect::<Result<_, _>>()?;
    let prepared = prepare(case, (&device, &kernel), &buffers, options)?;
    let mut host = init.clone();
    let mut outcome = Outcome {
        gang: prepared.gang(),
        first: first + prepared.compile_time(),
        ptxjit: Times::default(),
        native: native.map(|_| Times::default()),
        mismatch: None,
    };
    for round in 0..=rounds {
        reset_device(case, &buffers, &init)?;
        let ours = timed(native, || Ok(prepared.run().map(|_| ())?))?;
        let counts = round > 0;
        if counts {
            outcome.ptxjit.push(ours);
        }
        let (Some(native), Some(times)) = (native, &mut outcome.native) else {
            continue;
        };
        reset_host(case, &mut host, &init);
        let theirs = timed(Some(native), || native.run(case, &mut host))?;
        // OpenMP's threads look for more work for a while, which must not slow down the next to
        // run.
        std::thread::sleep(Duration::from_millis(5));
        if counts {
            times.push(theirs);
        } else {
            outcome.mismatch = compare(case, &buffers, &host)?;
        }
    }
    Ok(outcome)
}

impl Times {
    fn push(&mut self, (wall, cpu): (f64, Option<f64>)) {
        self.wall.push(wall);
        self.cpu.extend(cpu);
    }
}

fn timed(native: Option<&Native>, work: impl FnOnce() -> Result<()>) -> Result<(f64, Option<f64>)> {
    let cpu = native.map(Native::cpu_time).transpose()?;
    let start = Instant::now();
    work()?;
    let wall = start.elapsed().as_secs_f64();
    let after = native.map(Native::cpu_time).transpose()?;
    Ok((wall, after.zip(cpu).map(|(after, before)| after - before)))
}

pub(crate) fn prepare(
    case: &Case,
    (device, kernel): (&Device, &Kernel),
    buffers: &[Buffer<u64>],
    options: &Options,
) -> Result<Prepared> {
    let mut launch = kernel
        .launch()
        .grid(case.grid)
        .block(case.block)
        .shared(case.shared)
        .options(options.clone());
    for arg in case.args {
        launch = match *arg {
            ArgSpec::Buf(idx) => launch.arg(&buffers[idx]),
            ArgSpec::I32(value) => launch.arg(value),
            ArgSpec::U32(value) => launch.arg(value),
            ArgSpec::U64(value) => launch.arg(value),
            ArgSpec::F32(value) => launch.arg(value),
            ArgSpec::F64(value) => launch.arg(value),
            ArgSpec::Map {
                buffer,
                width,
                height,
            } => {
                let buffer = &buffers[buffer];
                let (dims, strides) = ([width, height], [4 * width]);
                let map = TensorMap::tiled(
                    buffer.address(),
                    ElementType::F32,
                    &dims,
                    &strides,
                    &[64, 64],
                );
                launch.uses(buffer).arg(&map.encode()?)
            }
            ArgSpec::Texture {
                buffer,
                width,
                height,
            } => {
                let image = Image::new(ChannelType::F32, 1, &[width, height])
                    .pitch(4 * u64::from(width))
                    .in_buffer(device, &buffers[buffer], 0)?;
                launch.arg(&Texture::new(&image).linear(true).build()?)
            }
        };
    }
    launch
        .prepare()
        .with_context(|| format!("{} cannot be launched", case.name))
}

pub(crate) fn reset_device(case: &Case, buffers: &[Buffer<u64>], init: &[Vec<u64>]) -> Result<()> {
    for ((spec, buffer), init) in case.buffers.iter().zip(buffers).zip(init) {
        match (&spec.role, &spec.init) {
            (Role::In, _) => {}
            (Role::Out(_), Init::Zeros) => buffer.fill_bytes(0)?,
            (Role::Out(_), Init::Random { .. } | Init::RowStarts | Init::Columns { .. }) => {
                buffer.write(init)?
            }
        }
    }
    Ok(())
}

fn reset_host(case: &Case, host: &mut [Vec<u64>], init: &[Vec<u64>]) {
    for ((spec, words), init) in case.buffers.iter().zip(host).zip(init) {
        match spec.role {
            Role::In => {}
            Role::Out(_) => words.copy_from_slice(init),
        }
    }
}

fn compare(case: &Case, buffers: &[Buffer<u64>], host: &[Vec<u64>]) -> Result<Option<String>> {
    for (idx, (spec, buffer)) in case.buffers.iter().zip(buffers).enumerate() {
        let Role::Out(check) = spec.role else {
            continue;
        };
        if let Err(message) = data::compare(spec, check, &buffer.read()?, &host[idx]) {
            return Ok(Some(format!("buffer {idx}: {message}")));
        }
    }
    Ok(None)
}
