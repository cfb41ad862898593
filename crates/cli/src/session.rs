//! A plan on a device: modules loaded, buffers filled, launches prepared and run.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ptxjit::{Buffer, Device, Engine, Error, LaunchStats, Module, Options, Prepared, TensorMap};

use ptxjit::sanitize::{Finding, FoundAccess};

use crate::args::ExecArgs;
use crate::contents;
use crate::coverage;
use crate::input;
use crate::plan::{Plan, PlanArg, PlanLaunch, PlanPatch};
use crate::term;
use crate::texture::Objects;

/// Why a plan could not be carried out, by whose fault it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub kind: FailureKind,
    /// For people.
    pub text: String,
    /// The CUDA driver's name of the error.
    pub cuda_name: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The launch went wrong.
    Failed,
    /// The PTX or the arguments are wrong.
    Wrong,
    /// Right, but not possible yet.
    Unsupported,
}

impl Failure {
    pub fn wrong(text: impl Into<String>) -> Failure {
        Failure {
            kind: FailureKind::Wrong,
            text: text.into(),
            cuda_name: "CUDA_ERROR_INVALID_VALUE",
        }
    }

    /// The process's exit code.
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            FailureKind::Failed => 1,
            FailureKind::Wrong | FailureKind::Unsupported => 2,
        }
    }
}

impl From<Error> for Failure {
    fn from(err: Error) -> Failure {
        let kind = match &err {
            Error::Launch(_) | Error::OutOfMemory { .. } => FailureKind::Failed,
            Error::Unsupported(_) => FailureKind::Unsupported,
            _ => FailureKind::Wrong,
        };
        Failure {
            kind,
            cuda_name: err.cuda_name(),
            text: match &err {
                Error::Invalid(list) | Error::Unsupported(list) => {
                    list.render(false, term::error_limit())
                }
                _ => err.to_string(),
            },
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(err: anyhow::Error) -> Failure {
        Failure::wrong(format!("error: {err:#}"))
    }
}

/// Collects what the device prints.
pub type Output = Arc<Mutex<Vec<u8>>>;

/// Library options for the flags that `run` and `test` share.
pub fn options(exec: &ExecArgs) -> Options {
    let mut options = Options::default();
    options.gang = exec.gang;
    options.threads = exec.threads.map(|n| n as usize);
    options.timeout = exec.timeout;
    options.memcheck = exec.memcheck;
    if let Some(checks) = exec.sanitize {
        options.sanitize = checks.0;
        options.memcheck |= checks.0.mem;
    }
    options.eager = exec.eager;
    if exec.interp {
        options.engine = Engine::Interp;
    }
    if exec.by_plan {
        options.engine = Engine::Plan;
    }
    options.schedule = exec.schedule.unwrap_or_default();
    options.coverage = coverage::collector(exec);
    options
}

/// `options` with device output going to the returned collector.
pub fn capture(mut options: Options) -> (Options, Output) {
    let output = Output::default();
    let sink = output.clone();
    options.output = Some(Arc::new(move |bytes: &[u8]| {
        sink.lock()
            .expect("no holder panics")
            .extend_from_slice(bytes)
    }));
    (options, output)
}

/// Stack of a thread that compiles. Deeply nested PTX takes some, and memory is only used when
/// touched.
const STACK_SIZE: usize = 64 << 20;

/// A plan that is ready to launch.
pub struct Session<'a> {
    plan: &'a Plan,
    buffers: Vec<Buffer<u8>>,
    tensor_maps: Vec<TensorMap>,
    objects: Objects,
    launches: Vec<Prepared>,
    /// Kernel names in the order of the launches.
    pub kernels: Vec<String>,
    /// Parse and check.
    pub load: Duration,
    /// From there to runnable code.
    pub compile: Duration,
}

impl<'a> Session<'a> {
    /// Loads, allocates and compiles everything; nothing runs yet.
    pub fn new(device: &Device, plan: &'a Plan, options: &Options) -> Result<Session<'a>, Failure> {
        let start = Instant::now();
        let modules = plan.files.iter().enumerate().map(|(idx, path)| {
            let mut files = vec![path.clone()];
            if idx == 0 {
                files.extend_from_slice(&plan.linked);
            }
            input::load(device, &files)
        });
        let modules = modules.collect::<Result<Vec<_>, _>>()?;
        let load = start.elapsed();

        let mut compile = Duration::ZERO;
        let start = Instant::now();
        let mut kernels = Vec::new();
        for launch in &plan.launches {
            let module = &modules[launch.file];
            kernels.push(match &launch.kernel {
                Some(name) => module.kernel(name)?,
                None => module.only_kernel()?,
            });
        }
        compile += start.elapsed();

        set_globals(plan, &modules)?;
        if options.memcheck {
            device.prepare_checks()?;
        }
        if options.sanitize.init {
            device.track_contents();
        }
        let buffers = plan
            .buffers
            .iter()
            .map(|buffer| device.alloc::<u8>(buffer.count * buffer.dtype.size()));
        let buffers = buffers.collect::<Result<Vec<_>, _>>()?;
        let tensor_maps = plan
            .tensor_maps
            .iter()
            .map(|map| map.encode(buffers[map.buffer].address()))
            .collect::<anyhow::Result<_>>()?;
        let objects = Objects::new(device, &plan.textures, &plan.samplers, &buffers)?;
        bind(plan, &modules, &objects)?;
        let mut session = Session {
            plan,
            objects,
            buffers,
            tensor_maps,
            launches: Vec::new(),
            kernels: kernels
                .iter()
                .map(|kernel| kernel.name().to_owned())
                .collect(),
            load,
            compile,
        };
        session.reset()?;
        let requests = kernels.iter().zip(&plan.launches).map(|(kernel, launch)| {
            let request = session.request(kernel.launch(), launch)?;
            Ok(request.options(options.clone()))
        });
        let requests = requests.collect::<Result<Vec<_>, Failure>>()?;
        let start = Instant::now();
        session.launches = prepare(requests)?;
        session
            .launches
            .iter()
            .try_for_each(Prepared::check_bindings)?;
        session.compile += start.elapsed();
        Ok(session)
    }

    fn request(
        &self,
        request: ptxjit::Launch,
        launch: &PlanLaunch,
    ) -> Result<ptxjit::Launch, Failure> {
        let request = request
            .grid(launch.grid)
            .block(launch.block)
            .shared(launch.shared);
        let mut request = request
            .cooperative(launch.cooperative)
            .programmatic(launch.programmatic);
        if let Some(cluster) = launch.cluster {
            request = request.cluster(cluster);
        }
        for arg in &launch.args {
            request = match arg {
                PlanArg::Bytes(bytes) => request.arg_bytes(bytes.clone()),
                PlanArg::Pointer { buffer, offset } => {
                    let buffer = &self.buffers[*buffer];
                    request
                        .uses(buffer)
                        .arg(buffer.address().wrapping_add_signed(*offset))
                }
                PlanArg::TensorMap(idx) => {
                    let buffer = &self.buffers[self.plan.tensor_maps[*idx].buffer];
                    request.uses(buffer).arg(&self.tensor_maps[*idx])
                }
                PlanArg::Patched { bytes, patches } => {
                    request.arg_bytes(self.patched(bytes.clone(), patches))
                }
                PlanArg::Object(object) => request.arg(&self.objects.get(*object)),
            };
        }
        Ok(request)
    }

    /// The bytes of a structure, with addresses and maps in them.
    fn patched(&self, mut bytes: Vec<u8>, patches: &[PlanPatch]) -> Vec<u8> {
        for patch in patches {
            let mut put = |value: &[u8]| {
                bytes[patch.offset..patch.offset + value.len()].copy_from_slice(value);
            };
            match &patch.value {
                PlanArg::TensorMap(idx) => put(self.tensor_maps[*idx].bytes()),
                PlanArg::Pointer { buffer, offset } => {
                    let address = self.buffers[*buffer].address();
                    put(&address.wrapping_add_signed(*offset).to_le_bytes());
                }
                PlanArg::Object(object) => put(&self.objects.get(*object).handle().to_le_bytes()),
                PlanArg::Bytes(_) | PlanArg::Patched { .. } => {}
            }
        }
        bytes
    }

    /// Gives every buffer its first contents.
    pub fn reset(&mut self) -> Result<(), Failure> {
        for (buffer, planned) in self.buffers.iter().zip(&self.plan.buffers) {
            if let Some(contents) = &planned.contents {
                contents.write_to(buffer)?;
            }
            for (n, &map) in planned.tensor_maps.iter().enumerate() {
                buffer.write_at(n * TensorMap::SIZE, self.tensor_maps[map].bytes())?;
            }
        }
        Ok(())
    }

    /// Runs launch number `idx`.
    pub fn launch(&self, idx: usize) -> Result<LaunchStats, Failure> {
        Ok(self.launches[idx].run()?)
    }

    /// What sanitizers have found in all launches, and at the end of them.
    pub fn findings(&self, all_ended_well: bool) -> Vec<Finding> {
        let mut findings: Vec<Finding> = Vec::new();
        let leaks =
            self.launches
                .iter()
                .flat_map(|launch| match all_ended_well && launch.wants_leaks() {
                    true => launch.leaks(),
                    false => Vec::new(),
                });
        let found = self
            .launches
            .iter()
            .flat_map(|launch| launch.report().findings());
        for finding in found.chain(leaks) {
            match findings
                .iter_mut()
                .find(|other| other.key() == finding.key())
            {
                Some(other) => other.count += finding.count,
                None => findings.push(finding),
            }
        }
        findings
    }

    /// The kernel that last changed the word of device memory at an address, where it did, and
    /// whether by an atomic operation on floating-point numbers.
    pub fn last_write(&self, addr: u64) -> Option<(String, FoundAccess, bool)> {
        let launches = self.launches.iter().zip(&self.kernels).rev();
        launches
            .filter_map(|(launch, kernel)| {
                let (access, is_float_atomic) = launch.last_write(addr)?;
                Some((kernel.clone(), access, is_float_atomic))
            })
            .next()
    }

    pub fn n_launches(&self) -> usize {
        self.launches.len()
    }

    /// The address of buffer number `idx`.
    pub fn address(&self, idx: usize) -> u64 {
        self.buffers[idx].address()
    }

    /// The launches, in order.
    pub fn prepared(&self) -> impl Iterator<Item = &Prepared> {
        self.launches.iter()
    }

    /// Gang width of launch number `idx`.
    pub fn gang(&self, idx: usize) -> u32 {
        self.launches[idx].gang()
    }

    /// Calls `take` with the bytes of buffer number `idx`, piece by piece.
    pub fn each_piece(
        &self,
        idx: usize,
        take: impl FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        contents::each_piece(&self.buffers[idx], take)
    }

    /// The bytes of buffer number `idx`.
    pub fn read(&self, idx: usize) -> Result<Vec<u8>, Failure> {
        Ok(self.buffers[idx].read()?)
    }
}

/// Compiles for all launches side by side.
fn prepare(requests: Vec<ptxjit::Launch>) -> Result<Vec<Prepared>, Failure> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if requests.len() <= 1 || cores == 1 {
        let prepared = requests.into_iter().map(ptxjit::Launch::prepare);
        return Ok(prepared.collect::<Result<_, _>>()?);
    }
    let share = requests.len().div_ceil(cores);
    let prepared = std::thread::scope(|scope| {
        let threads: Vec<_> = requests
            .chunks(share)
            .map(|some| {
                let some = some.to_vec();
                let work = move || some.into_iter().map(ptxjit::Launch::prepare).collect();
                let builder = std::thread::Builder::new().stack_size(STACK_SIZE);
                builder.spawn_scoped(scope, work)
            })
            .collect();
        let prepared = threads.into_iter().map(|thread| {
            let thread = thread
                .map_err(|err| Failure::wrong(format!("error: cannot start a thread: {err}")))?;
            let result: Result<Vec<Prepared>, Error> = match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            Ok(result?)
        });
        prepared.collect::<Result<Vec<Vec<Prepared>>, Failure>>()
    })?;
    Ok(prepared.into_iter().flatten().collect())
}

/// Binds objects to the module variables that are meant.
fn bind(plan: &Plan, modules: &[Module], objects: &Objects) -> Result<(), Failure> {
    for binding in &plan.bindings {
        let mut found = modules
            .iter()
            .filter_map(|module| module.global(&binding.symbol))
            .peekable();
        if found.peek().is_none() {
            return Err(Failure::wrong(format!(
                "error: no module has a variable `{}`",
                ptxjit::escape(&binding.symbol)
            )));
        }
        for variable in found {
            variable.bind(objects.get(binding.object))?;
        }
    }
    Ok(())
}

fn set_globals(plan: &Plan, modules: &[Module]) -> Result<(), Failure> {
    for global in &plan.globals {
        let mut found = modules
            .iter()
            .filter_map(|module| module.global(&global.symbol))
            .peekable();
        if found.peek().is_none() {
            return Err(Failure::wrong(format!(
                "error: no module has a variable `{}`",
                ptxjit::escape(&global.symbol)
            )));
        }
        for variable in found {
            variable.write(&global.bytes)?;
        }
    }
    Ok(())
}
