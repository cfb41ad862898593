//! Running the `run:` and `launch:` lines of a file on one engine.

use anyhow::{Context, Result, anyhow, bail, ensure};
use ptxjit::{Binding, Buffer, Device, Engine, Error, Launch, Module, Options, Outline, Schedule};

use crate::file::{RunLine, TestFile};
use crate::launch::{ArgValue, LaunchLine, element_size};
use crate::signature::{Signature, Signatures};
use crate::value::from_bytes;
use crate::wrapper::{self, SLOT};

/// Threads that one launch of `run:` lines uses at most.
const MAX_LANES: usize = 256;

/// Who executes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Runner {
    Interp,
    Gang(u32),
    /// The interpreter of plans, for gangs of this width.
    Plan(u32),
    /// The interpreter, and compiled code, under a schedule that is drawn from a seed.
    InterpSeed(u64),
    GangSeed(u64),
}

/// The gang width under schedules with a seed.
const SEEDED_GANG: u32 = 8;

impl Runner {
    fn options(self) -> Options {
        let mut options = Options::default();
        // Nothing in a test file may take longer; a test of endless loops says so itself.
        options.timeout = Some(std::time::Duration::from_secs(60));
        match self {
            Runner::Interp => options.engine = Engine::Interp,
            Runner::Gang(gang) => options.gang = Some(gang),
            Runner::Plan(gang) => {
                options.engine = Engine::Plan;
                options.gang = Some(gang);
            }
            Runner::InterpSeed(seed) => {
                options.engine = Engine::Interp;
                options.schedule = Schedule::Random(seed);
            }
            Runner::GangSeed(seed) => {
                options.gang = Some(SEEDED_GANG);
                options.schedule = Schedule::Random(seed);
            }
        }
        // One width tries code that was made in a hurry.
        options.eager = !matches!(self, Runner::Gang(4));
        options
    }
}

impl std::fmt::Display for Runner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Runner::Interp => f.write_str("in the interpreter"),
            Runner::Gang(gang) => write!(f, "at gang={gang}"),
            Runner::Plan(gang) => write!(f, "by the plan at gang={gang}"),
            Runner::InterpSeed(seed) => write!(f, "in the interpreter with seed={seed}"),
            Runner::GangSeed(seed) => write!(f, "at gang={SEEDED_GANG} with seed={seed}"),
        }
    }
}

/// Runs all lines of the file; the error tells about every line that failed.
pub(crate) fn file(file: &TestFile, runner: Runner) -> Result<()> {
    let name = file.path.display().to_string();
    let signatures = Signatures::parse(&name, &file.text)?;
    let mut problems = Vec::new();
    if !file.runs.is_empty() {
        run_lines(file, &signatures, runner, &mut problems)?;
    }
    for launch in &file.launches {
        if let Err(err) = launch_line(file, &signatures, launch, runner) {
            problems.push(format!(
                "{name}:{}: {}\n  {runner}: {err:#}",
                launch.line, launch.text
            ));
        }
    }
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    Ok(())
}

/// One function with the lines that call it.
struct Calls<'a> {
    func: &'a str,
    signature: Signature,
    lines: Vec<&'a RunLine>,
}

fn run_lines(
    file: &TestFile,
    signatures: &Signatures,
    runner: Runner,
    problems: &mut Vec<String>,
) -> Result<()> {
    let mut calls: Vec<Calls<'_>> = Vec::new();
    for line in &file.runs {
        match calls.iter_mut().find(|calls| calls.func == line.func) {
            Some(calls) => calls.lines.push(line),
            None => {
                let signature = signatures
                    .device_function(&line.func)
                    .with_context(|| format!("line {}", line.line))?;
                let arrays = signature
                    .params
                    .iter()
                    .chain(&signature.returns)
                    .any(|formal| formal.array.is_some());
                ensure!(
                    !arrays,
                    "line {}: arrays as parameters need a `launch:`",
                    line.line
                );
                calls.push(Calls {
                    func: &line.func,
                    signature,
                    lines: vec![line],
                });
            }
        }
    }
    let mut text = file.text.clone();
    for calls in &calls {
        text += &wrapper::kernel(calls.func, &calls.signature);
    }
    let device = device(file)?;
    let module = Module::from_source(&device, &file.path.display().to_string(), text)?;
    for calls in &calls {
        for lines in calls.lines.chunks(MAX_LANES) {
            // As many threads as lines, and again with whole warps: full and partial gangs take
            // different paths.
            let whole = lines.len().next_multiple_of(32);
            call(
                &device,
                &module,
                calls,
                lines,
                lines.len(),
                runner,
                file,
                problems,
            )?;
            if whole != lines.len() {
                call(
                    &device, &module, calls, lines, whole, runner, file, problems,
                )?;
            }
        }
    }
    Ok(())
}

/// Calls the function in `n_lanes` threads, thread `i` for line `i`, and again from the first line
/// on.
#[expect(
    clippy::too_many_arguments,
    reason = "all of it is context, and there is one caller"
)]
fn call(
    device: &Device,
    module: &Module,
    calls: &Calls<'_>,
    lines: &[&RunLine],
    n_lanes: usize,
    runner: Runner,
    file: &TestFile,
    problems: &mut Vec<String>,
) -> Result<()> {
    let Signature { params, returns } = &calls.signature;
    let lanes = || lines.iter().cycle().take(n_lanes);
    let mut input = Vec::new();
    for line in lanes() {
        let context = || format!("line {}: {}", line.line, line.text);
        ensure!(
            line.args.len() == params.len(),
            "{}: {} parameters",
            context(),
            params.len()
        );
        ensure!(
            line.want.len() == returns.len(),
            "{}: {} results",
            context(),
            returns.len()
        );
        for (arg, formal) in line.args.iter().zip(params) {
            input.extend(formal.kind.parse(arg).with_context(context)?.to_le_bytes());
        }
    }
    let source = device.alloc_from(&input)?;
    let results = device.alloc_from(&vec![0u8; n_lanes * returns.len() * SLOT])?;
    let kernel = module.kernel(&wrapper::name(calls.func))?;
    let launch = kernel
        .launch()
        .grid(1)
        .block(n_lanes as u32)
        .arg(&source)
        .arg(&results);
    launch.options(runner.options()).run()?;
    let bytes = results.read()?;
    let slots: Vec<&[u8]> = bytes.chunks_exact(SLOT).collect();
    for (lane, line) in lanes().enumerate() {
        for (idx, formal) in returns.iter().enumerate() {
            let got = from_bytes(slots[lane * returns.len() + idx]) & formal.kind.mask();
            let checked = line.want[idx]
                .check(formal.kind, got)
                .with_context(|| format!("line {}", line.line))?;
            if let Err(want) = checked {
                let place = format!("{}:{}: {}", file.path.display(), line.line, line.text);
                let got = line.want[idx].kind.unwrap_or(formal.kind).show(got);
                let nth = if returns.len() > 1 {
                    format!("result {idx}: ")
                } else {
                    String::new()
                };
                problems.push(format!(
                    "{place}\n  {runner}, lane {lane} of {n_lanes}: {nth}got {got}, expected {want}"
                ));
            }
        }
    }
    Ok(())
}

/// A device for the file.
fn device(file: &TestFile) -> Result<Device> {
    let outline = Outline::read("test", file.text.clone().into_bytes());
    Ok(
        match outline.is_ok_and(|outline| outline.has_32_bit_addresses()) {
            true => Device::with_32_bit_addresses()?,
            false => Device::new()?,
        },
    )
}

fn launch_line(
    file: &TestFile,
    signatures: &Signatures,
    line: &LaunchLine,
    runner: Runner,
) -> Result<()> {
    let signature = signatures.kernel(&line.kernel)?;
    let device = device(file)?;
    let module = Module::from_source(&device, &file.path.display().to_string(), file.text.clone())?;
    let kernel = module.kernel(&line.kernel)?;
    let mut options = runner.options();
    options.memcheck = line.options.memcheck;
    options.timeout = line.options.timeout.or(options.timeout);
    let request = kernel
        .launch()
        .grid(line.grid)
        .block(line.block)
        .shared(line.shared);
    let mut request = request
        .cooperative(line.options.cooperative)
        .options(options);
    if let Some(cluster) = line.options.cluster {
        request = request.cluster(cluster);
    }
    let mut buffers: Vec<(&str, Buffer<u8>)> = Vec::new();
    ensure!(
        line.args.len() == signature.params.len(),
        "the kernel has {} parameters",
        signature.params.len()
    );
    for (arg, formal) in line.args.iter().zip(&signature.params) {
        request = pass(&device, request, &mut buffers, arg, formal)?;
    }
    let result = request.run();
    match (result, &line.traps) {
        (Ok(_), None) => compare(line, &buffers),
        (Ok(_), Some(trap)) => bail!("the launch succeeded, expected `{trap}`"),
        (Err(Error::Launch(failure)), Some(trap)) => {
            let text = failure.to_string();
            ensure!(
                text.to_lowercase().contains(&trap.to_lowercase()),
                "got, instead of `{trap}`:\n{text}"
            );
            Ok(())
        }
        (Err(err), _) => Err(anyhow!(err)),
    }
}

fn pass<'a>(
    device: &Device,
    request: Launch,
    buffers: &mut Vec<(&'a str, Buffer<u8>)>,
    arg: &'a crate::launch::Arg,
    formal: &crate::signature::Formal,
) -> Result<Launch> {
    Ok(match &arg.value {
        ArgValue::Buffer(bytes) => {
            let buffer = device.alloc_from(bytes)?;
            let request = request.arg(&buffer);
            buffers.push((&arg.name, buffer));
            request
        }
        ArgValue::Scalar(_) if formal.array.is_some() => bail!("`{}` is an array", formal.name),
        ArgValue::Scalar(text) => {
            let bits = formal
                .kind
                .parse(text)
                .with_context(|| format!("argument `{}`", arg.name))?;
            request.arg_bytes(bits.to_le_bytes()[..element_size(formal.kind)?].to_vec())
        }
        ArgValue::TensorMap(decl) => {
            let buffer = named(buffers, decl.buffer.as_deref().unwrap_or_default())?;
            request.uses(buffer).arg(&decl.encode(buffer.address())?)
        }
        ArgValue::Image(kind, decl) => {
            let buffer = named(buffers, decl.buffer.as_deref().unwrap_or_default())?;
            match decl.bind(*kind, decl, (device, buffer))? {
                Binding::Texture(texture) => request.arg(&texture),
                Binding::Surface(surface) => request.arg(&surface),
                Binding::Sampler(sampler) => request.arg(&sampler),
            }
        }
        ArgValue::Sampler(decl) => request.arg(&decl.make(device)?),
        ArgValue::Pointer(name, offset) => {
            let buffer = named(buffers, name)?;
            request
                .uses(buffer)
                .arg(buffer.address().wrapping_add_signed(*offset))
        }
    })
}

/// A buffer among the arguments so far.
fn named<'b>(buffers: &'b [(&str, Buffer<u8>)], name: &str) -> Result<&'b Buffer<u8>> {
    let buffer = buffers.iter().find(|(known, _)| *known == name);
    let (_, buffer) = buffer.with_context(|| format!("no buffer `{name}` before this argument"))?;
    Ok(buffer)
}

fn compare(line: &LaunchLine, buffers: &[(&str, Buffer<u8>)]) -> Result<()> {
    let mut problems = Vec::new();
    for want in &line.want {
        let buffer = buffers.iter().find(|(name, _)| *name == want.name);
        let (_, buffer) =
            buffer.with_context(|| format!("the launch has no buffer `{}`", want.name))?;
        let bytes = buffer.read()?;
        let size = element_size(want.kind)?;
        let count = bytes.len() / size;
        ensure!(
            count == want.values.len(),
            "`{}` has {count} elements, not {}",
            want.name,
            want.values.len()
        );
        for (idx, (element, expected)) in bytes.chunks_exact(size).zip(&want.values).enumerate() {
            let got = from_bytes(element);
            if let Err(wanted) = expected.check(want.kind, got)? {
                let got = expected.kind.unwrap_or(want.kind).show(got);
                problems.push(format!(
                    "{}[{idx}]: got {got}, expected {wanted}",
                    want.name
                ));
            }
        }
    }
    problems.truncate(20);
    ensure!(problems.is_empty(), "{}", problems.join("\n  "));
    Ok(())
}
