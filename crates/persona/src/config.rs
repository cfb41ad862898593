//! All that environment variables ask of the driver, read once.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::capability::Capability;
use crate::device::Device;
use crate::persona::Persona;
use crate::sanitize::Sanitize;
use crate::{value, visible};

/// Most devices there can be.
const MOST_DEVICES: u32 = 1024;

/// The order in which threads run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// As the machine has it.
    #[default]
    Free,
    /// One block after another, the same in each run.
    Deterministic,
    /// One group of lanes after the other.
    RoundRobin,
    /// An order that a number chooses, the same in each run.
    Random(u64),
    /// The newest lanes first.
    Adversarial,
    /// By random priorities that fall at `depth - 1` points.
    Pct {
        /// Of the priorities and the points.
        seed: u64,
        /// Depth of the bugs that are looked for.
        depth: u32,
    },
}

/// When functions are compiled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ModuleLoading {
    /// When they are first asked for.
    #[default]
    Lazy,
    /// With their module.
    Eager,
}

/// What the environment says; every field has a default.
#[derive(Clone, Debug)]
pub struct Config {
    /// All devices, in the order of NVML.
    pub all_devices: Vec<Device>,
    /// The devices that this process sees, in its order: `CUDA_VISIBLE_DEVICES`.
    pub devices: Vec<Device>,
    /// What `cuDriverGetVersion` says: `PTXJIT_DRIVER_VERSION`.
    pub driver_version: u32,
    /// How long a launch may take: `PTXJIT_TIMEOUT`.
    pub timeout: Option<Duration>,
    /// Whether each access is checked: `PTXJIT_MEMCHECK`.
    pub memcheck: bool,
    /// `PTXJIT_SANITIZE`.
    pub sanitize: Sanitize,
    /// What is wrong with `PTXJIT_SANITIZE`: a program that was to be checked must not go on as if
    /// it had been.
    pub refused: Option<String>,
    /// `PTXJIT_SCHEDULE`.
    pub schedule: Schedule,
    /// Number of workers: `PTXJIT_THREADS`.
    pub threads: Option<u32>,
    /// Lanes that run together: `PTXJIT_GANG`.
    pub gang: Option<u32>,
    /// Where compiled code is kept: `PTXJIT_CACHE_DIR`.
    pub cache_dir: Option<PathBuf>,
    /// File for reports of faults: `PTXJIT_REPORT`.
    pub report: Option<PathBuf>,
    /// Whether nothing is written to stderr: `PTXJIT_QUIET`.
    pub quiet: bool,
    /// File for a line per call: `PTXJIT_TRACE`.
    pub trace: Option<PathBuf>,
    /// Whether each launch is waited for: `CUDA_LAUNCH_BLOCKING`.
    pub launch_blocking: bool,
    /// `CUDA_MODULE_LOADING`.
    pub module_loading: ModuleLoading,
    /// Whether PTX is refused: `CUDA_DISABLE_PTX_JIT`.
    pub disable_ptx_jit: bool,
}

/// Reads variables and collects what is wrong with them.
struct Reader<'v> {
    variables: &'v dyn Fn(&str) -> Option<OsString>,
    warnings: Vec<String>,
}

impl Reader<'_> {
    /// The value of a variable that is set to some text.
    fn text(&mut self, name: &str) -> Option<String> {
        match (self.variables)(name)?.into_string() {
            Ok(text) => Some(text),
            Err(_) => {
                self.warnings
                    .push(format!("{name} is not UTF-8; it is ignored"));
                None
            }
        }
    }

    /// The value of a variable that is set and not empty, if it is right.
    fn parsed<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = self.text(name).filter(|text| !text.trim().is_empty())?;
        match parse(&text) {
            Ok(value) => Some(value),
            Err(why) => {
                self.warnings
                    .push(format!("{name}=`{text}` {why}; it is ignored"));
                None
            }
        }
    }

    fn flag(&mut self, name: &str) -> bool {
        self.parsed(name, value::flag).unwrap_or_default()
    }

    /// What to look for, or why the driver refuses to start.
    fn sanitize(&mut self) -> (Sanitize, Option<String>) {
        let name = "PTXJIT_SANITIZE";
        let value = (self.variables)(name).unwrap_or_default();
        let text = match value.into_string() {
            Ok(text) if text.trim().is_empty() => return (Sanitize::default(), None),
            Ok(text) => text,
            Err(_) => return (Sanitize::default(), Some(format!("{name} is not UTF-8"))),
        };
        match Sanitize::parse(&text) {
            Ok(sanitize) => (sanitize, None),
            Err(why) => (Sanitize::default(), Some(format!("{name}=`{text}` {why}"))),
        }
    }

    fn path(&mut self, name: &str) -> Option<PathBuf> {
        (self.variables)(name)
            .filter(|path| !path.is_empty())
            .map(PathBuf::from)
    }

    fn persona(&mut self) -> Persona {
        let wrong = |why: String| format!("names no persona: {why}");
        let named = self.parsed("PTXJIT_PERSONA", |text| Persona::find(text).map_err(wrong));
        let capability = self.parsed("PTXJIT_COMPUTE_CAPABILITY", |text| {
            text.parse::<Capability>()
                .map_err(|why| format!("is wrong: {why}"))
        });
        match (named, capability) {
            (None, None) => Persona::default(),
            (None, Some(capability)) => Persona::of_capability(capability),
            (Some(persona), None) => persona,
            (Some(mut persona), Some(capability)) => {
                // The persona's own capability leaves its limits as the file has them.
                if persona.compute_capability != capability {
                    persona.set_capability(capability);
                }
                persona
            }
        }
    }

    /// All devices, with as much memory as asked for, or as the persona and the host have.
    fn devices(&mut self, host_memory: u64) -> Vec<Device> {
        let persona = Arc::new(self.persona());
        let count = self.parsed("PTXJIT_DEVICE_COUNT", |text| {
            value::number(text, 0, MOST_DEVICES)
        });
        let memory = self.parsed("PTXJIT_DEVICE_MEMORY", value::bytes);
        let memory = memory.unwrap_or_else(|| {
            let figure = persona.memory_mib.saturating_mul(1 << 20);
            let share = (host_memory / 4).saturating_mul(3) >> 20 << 20;
            if share == 0 {
                figure
            } else {
                figure.min(share)
            }
        });
        let device = |index| Device {
            index,
            memory,
            persona: Arc::clone(&persona),
        };
        (0..count.unwrap_or(1)).map(device).collect()
    }
}

/// The names of the command line: `deterministic`, `random:N`, `pct:N:DEPTH` and so on.
fn schedule(text: &str) -> Result<Schedule, String> {
    let mut words = text.trim().split(':');
    let (name, numbers) = (words.next().unwrap_or(""), words.collect::<Vec<_>>());
    let number = |text: &str| text.parse::<u64>().ok();
    let depth = |text: &str| text.parse().ok().filter(|depth| (1..=1000).contains(depth));
    let schedule = match (name, numbers.as_slice()) {
        ("deterministic", []) => Some(Schedule::Deterministic),
        ("roundrobin", []) => Some(Schedule::RoundRobin),
        ("adversarial", []) => Some(Schedule::Adversarial),
        ("random" | "seed", [seed]) => number(seed).map(Schedule::Random),
        ("pct", [seed]) => number(seed).map(|seed| Schedule::Pct { seed, depth: 3 }),
        ("pct", [seed, deep]) => {
            let both = number(seed).zip(depth(deep));
            both.map(|(seed, depth)| Schedule::Pct { seed, depth })
        }
        _ => None,
    };
    schedule.ok_or_else(|| {
        "is none of deterministic, roundrobin, random:SEED, adversarial, pct:SEED:DEPTH".to_owned()
    })
}

/// `LAZY`, `EAGER` or `DEFAULT`.
fn module_loading(text: &str) -> Result<ModuleLoading, String> {
    match text.trim().to_ascii_uppercase().as_str() {
        "EAGER" => Ok(ModuleLoading::Eager),
        "LAZY" | "DEFAULT" => Ok(ModuleLoading::Lazy),
        _ => Err("is neither LAZY nor EAGER".to_owned()),
    }
}

/// A gang's number of lanes: a power of two up to a warp.
fn gang(text: &str) -> Result<u32, String> {
    value::number(text, 1, 32)
        .ok()
        .filter(|lanes| lanes.is_power_of_two())
        .ok_or_else(|| "is not a power of two from 1 to 32".to_owned())
}

impl Config {
    /// Reads variables from wherever `variables` has them. `host_memory` is in bytes, or 0 if it is
    /// not known. A value that is wrong is not used, and told of in a line of the second result.
    #[must_use]
    pub fn read(
        variables: &dyn Fn(&str) -> Option<OsString>,
        host_memory: u64,
    ) -> (Self, Vec<String>) {
        let mut reader = Reader {
            variables,
            warnings: Vec::new(),
        };
        let all_devices = reader.devices(host_memory);
        // The empty list hides all devices, so this variable is not one that may be left empty.
        let devices = match reader.text("CUDA_VISIBLE_DEVICES") {
            None => all_devices.clone(),
            Some(list) => visible::select(&list, &all_devices),
        };
        let version = reader.parsed("PTXJIT_DRIVER_VERSION", value::cuda_version);
        let (sanitize, refused) = reader.sanitize();
        let config = Self {
            all_devices,
            devices,
            driver_version: version.unwrap_or(13_000),
            timeout: reader.parsed("PTXJIT_TIMEOUT", value::seconds).flatten(),
            memcheck: reader.flag("PTXJIT_MEMCHECK") | sanitize.mem,
            sanitize,
            refused,
            schedule: reader
                .parsed("PTXJIT_SCHEDULE", schedule)
                .unwrap_or_default(),
            threads: reader.parsed("PTXJIT_THREADS", |text| value::number(text, 1, 65_536)),
            gang: reader.parsed("PTXJIT_GANG", gang),
            cache_dir: reader.path("PTXJIT_CACHE_DIR"),
            report: reader.path("PTXJIT_REPORT"),
            quiet: reader.flag("PTXJIT_QUIET"),
            trace: reader.path("PTXJIT_TRACE"),
            launch_blocking: reader.flag("CUDA_LAUNCH_BLOCKING"),
            module_loading: reader
                .parsed("CUDA_MODULE_LOADING", module_loading)
                .unwrap_or_default(),
            disable_ptx_jit: reader.flag("CUDA_DISABLE_PTX_JIT"),
        };
        (config, reader.warnings)
    }

    /// What the environment of this process says. It is read at the first call, which also writes
    /// warnings to stderr unless `PTXJIT_QUIET` is set.
    pub fn get() -> &'static Self {
        static CONFIG: OnceLock<Config> = OnceLock::new();
        CONFIG.get_or_init(|| {
            let (config, warnings) = Self::read(&|name| std::env::var_os(name), host_memory());
            if !config.quiet {
                for warning in warnings {
                    eprintln!("ptxjit: warning: {warning}");
                }
            }
            config
        })
    }

    /// The version of the driver as NVIDIA's tools write it, digits and a point: the branch of the
    /// driver that brought the version of CUDA.
    #[must_use]
    pub fn driver_version_text(&self) -> &'static str {
        BRANCHES
            .iter()
            .rev()
            .find(|(cuda, _)| *cuda <= self.driver_version)
            .map_or(BRANCHES[0].1, |(_, text)| *text)
    }
}

/// Versions of CUDA and the branches of the driver that brought them.
const BRANCHES: &[(u32, &str)] = &[
    (11_000, "450.00"),
    (11_010, "455.00"),
    (11_020, "460.00"),
    (11_030, "465.00"),
    (11_040, "470.00"),
    (11_050, "495.00"),
    (11_060, "510.00"),
    (11_070, "515.00"),
    (11_080, "520.00"),
    (12_000, "525.00"),
    (12_010, "530.00"),
    (12_020, "535.00"),
    (12_030, "545.00"),
    (12_040, "550.00"),
    (12_050, "555.00"),
    (12_060, "560.00"),
    (12_080, "570.00"),
    (12_090, "575.00"),
    (13_000, "580.00"),
    (13_010, "590.00"),
    (13_020, "595.00"),
    (13_030, "610.00"),
    (13_050, "615.00"),
];

/// The host's memory in bytes, or 0 if it cannot be told; no more than a container may use.
fn host_memory() -> u64 {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    let total = kib.unwrap_or_default().saturating_mul(1024);
    let limit = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let limit = limit.and_then(|text| text.trim().parse::<u64>().ok());
    limit.map_or(total, |limit| limit.min(total))
}
