//! A batch of calls, in a process of its own: a log of the calls, and what must not happen.

use std::ffi::c_void;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, OnceLock};

use cuda::signatures::{self, Signature};

use crate::images::PTX;
use crate::memory::{self, Scratch};
use crate::rng::Rng;
use crate::values::{Arguments, Maker, World};

/// Calls per thread.
const CALLS: usize = 300;

const NOT_INITIALIZED: u32 = 3;
const UNKNOWN: u32 = 999;

/// The exit status of a batch that has found something.
pub(crate) const FOUND: i32 = 3;

/// What calls need to make others, called more often than the rest.
const OFTEN: [&str; 32] = [
    "cuMemAlloc_v2",
    "cuMemHostAlloc",
    "cuMemAllocManaged",
    "cuMemAllocAsync",
    "cuMemHostRegister_v2",
    "cuStreamCreate",
    "cuEventCreate",
    "cuEventRecord",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuLibraryLoadData",
    "cuLibraryGetKernel",
    "cuLinkCreate_v2",
    "cuLinkAddData_v2",
    "cuLinkComplete",
    "cuGraphCreate",
    "cuGraphAddNode_v2",
    "cuGraphAddKernelNode_v2",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemsetD8Async",
    "cuArrayCreate_v2",
    "cuArray3DCreate_v2",
    "cuMemPoolCreate",
    "cuTensorMapEncodeTiled",
    "cuLaunchHostFunc",
];

/// What ends most of what there is, called seldom.
const SELDOM: [&str; 8] = [
    "cuCtxDestroy_v2",
    "cuCtxDetach",
    "cuCtxPopCurrent_v2",
    "cuCtxSetCurrent",
    "cuDevicePrimaryCtxReset_v2",
    "cuDevicePrimaryCtxReset",
    "cuModuleUnload",
    "cuLibraryUnload",
];

/// What the client's functions use.
struct Shared {
    world: World,
    log: File,
    seed: u64,
}

static SHARED: OnceLock<Shared> = OnceLock::new();

/// Calls made inside functions of the client.
static CALLBACKS: AtomicU64 = AtomicU64::new(0);

/// Runs the batch that `seed` names in `folder`, and ends the process.
pub(crate) fn run(seed: u64, folder: &Path) -> ! {
    std::env::set_current_dir(folder).expect("the folder exists");
    let shared = SHARED.get_or_init(|| start(seed, folder));
    let mut rng = Rng::new(seed);
    let n_threads = rng.pick(&[1, 1, 1, 2, 3]);
    // Not every program initializes the driver first.
    let is_prepared = rng.chance(95);
    if is_prepared {
        prepare(shared, &mut rng);
    }
    std::thread::scope(|scope| {
        for thread in 0..n_threads {
            let rng = Rng::new(seed ^ (thread + 1) << 48);
            scope.spawn(move || calls(shared, thread, rng));
        }
    });
    if is_prepared && seed.is_multiple_of(8) {
        fork(shared, seed);
    }
    std::process::exit(0);
}

fn start(seed: u64, folder: &Path) -> Shared {
    std::fs::write(folder.join("a.ptx"), PTX).expect("the folder can be written");
    let paths = ["a.ptx", "absent", "out", ".", "absent/out", ""];
    let paths = paths.map(|path| [path.as_bytes(), b"\0"].concat()).to_vec();
    let functions = [
        host_function as *const c_void,
        shared_memory_of as *const c_void,
    ];
    let log = File::options()
        .append(true)
        .create(true)
        .open(folder.join("log"))
        .expect("the folder can be written");
    Shared {
        world: World::new(memory::read_only_page(), paths, functions),
        log,
        seed,
    }
}

/// A function of the client, which makes calls.
extern "C" fn host_function(_data: *mut c_void) {
    let shared = SHARED.get().expect("functions are called by calls");
    let number = CALLBACKS.fetch_add(1, Ordering::Relaxed);
    if number.is_multiple_of(4) && number < 64 {
        let rng = Rng::new(shared.seed.wrapping_add(number) << 32);
        // The pages stay, since what was queued may use them.
        let scratch = Box::leak(Box::new(Scratch::new()));
        let mut maker = Maker {
            world: &shared.world,
            scratch,
            rng,
        };
        call(shared, 100, &mut maker, None);
    }
}

extern "C" fn shared_memory_of(threads: i32) -> usize {
    threads as usize * 16
}

/// The function with this name.
pub(crate) fn find(name: &str) -> &'static Signature {
    let found = signatures::all().find(|signature| signature.name == name);
    found.unwrap_or_else(|| panic!("{name} is exported"))
}

/// Initializes the driver, and makes what most calls need.
fn prepare(shared: &Shared, rng: &mut Rng) {
    let scratch = Box::leak(Box::new(Scratch::new()));
    let rng = Rng::new(rng.next());
    let mut maker = Maker {
        world: &shared.world,
        scratch,
        rng,
    };
    let [out, image] = [scratch.slot(), scratch.before_end(PTX.len() + 1)];
    scratch.put_bytes(image, &[PTX.as_bytes(), b"\0"].concat());
    let mut make = |name, words: &[u64], ty: &str| {
        let code = invoke(find(name), words, &[]);
        assert_eq!(code, 0, "{name}");
        let value = scratch.word(out).expect("the place is in the pages");
        shared.world.remember(ty, value, &mut maker.rng);
        value
    };
    make("cuInit", &[0], "");
    make("cuCtxCreate_v2", &[out, 0, 0], "CUcontext");
    let module = make("cuModuleLoadData", &[out, image], "CUmodule");
    let name = scratch.slot();
    for kernel in ["fill", "nothing", "shares", "tiles"] {
        scratch.put_bytes(name, &[kernel.as_bytes(), b"\0"].concat());
        make("cuModuleGetFunction", &[out, module, name], "CUfunction");
    }
    make("cuStreamCreate", &[out, 1], "CUstream");
    make("cuMemAlloc_v2", &[out, 4096], "CUdeviceptr");
    make("cuGraphCreate", &[out, 0], "CUgraph");
}

fn calls(shared: &Shared, thread: u64, rng: Rng) {
    let scratch = Box::leak(Box::new(Scratch::new()));
    let mut maker = Maker {
        world: &shared.world,
        scratch,
        rng,
    };
    if let Some(context) = maker.world.latest("CUcontext") {
        invoke(find("cuCtxSetCurrent"), &[context], &[]);
    }
    for _ in 0..CALLS {
        let code = call(shared, thread, &mut maker, None);
        // A context that has failed refuses everything.
        if (700..720).contains(&code) && maker.rng.chance(30) {
            let name = maker
                .rng
                .pick(&["cuCtxDestroy_v2", "cuDevicePrimaryCtxReset_v2"]);
            call(shared, thread, &mut maker, Some(find(name)));
            call(shared, thread, &mut maker, Some(find("cuCtxCreate_v2")));
            call(shared, thread, &mut maker, Some(find("cuModuleLoadData")));
        }
    }
}

fn choose(rng: &mut Rng) -> &'static Signature {
    static ONLY: LazyLock<Vec<&Signature>> = LazyLock::new(|| {
        let parts = std::env::var("PTXJIT_FUZZ_ONLY").unwrap_or_default();
        let parts: Vec<&str> = parts.split_whitespace().collect();
        let is_meant = |name: &str| parts.iter().any(|part| name.contains(part));
        signatures::all()
            .filter(|signature| is_meant(signature.name))
            .collect()
    });
    if !ONLY.is_empty() {
        return rng.pick(&ONLY);
    }
    if rng.chance(40) {
        return find(rng.pick(&OFTEN));
    }
    loop {
        let at = rng.below(signatures::all().count());
        let signature = signatures::all().nth(at).expect("it is below the count");
        if !SELDOM.contains(&signature.name) || rng.chance(10) {
            return signature;
        }
    }
}

/// Makes a random call, and gives its code.
fn call(
    shared: &Shared,
    thread: u64,
    maker: &mut Maker<'_>,
    signature: Option<&'static Signature>,
) -> u32 {
    let signature = signature.unwrap_or_else(|| choose(&mut maker.rng));
    let arguments = maker.arguments(signature.name, signature.parameters);
    shared.write(thread, signature, &arguments);
    let code = invoke(signature, &arguments.words, &arguments.floats);
    shared.say(&format!("{thread}   = {code}\n"));
    // Linking gives this code for names that are missing.
    let is_known = code < UNKNOWN || code == UNKNOWN && signature.name == "cuLinkComplete";
    if !is_known {
        shared.say(&format!("FOUND: {} gave {code}\n", signature.name));
        std::process::exit(FOUND);
    }
    if code == 0 {
        for (place, ty) in &arguments.results {
            // Addresses of memory that programs may write; a linked image is the library's.
            let is_address = ty == "u64" && signature.name.contains("Mem");
            let ty = if is_address { "CUdeviceptr" } else { ty };
            let value = maker.scratch.word(*place).unwrap_or(0);
            if ty.starts_with("CU") {
                maker.world.remember(ty, value, &mut maker.rng);
            }
        }
    }
    for (place, _) in &arguments.results {
        maker.scratch.put(*place, &[0; 32]);
    }
    code
}

/// Calls a function with arguments in C's order: numbers and floats each fill registers of their
/// own, and a function does not look at arguments that it does not have.
pub(crate) fn invoke(signature: &Signature, words: &[u64], floats: &[f32]) -> u32 {
    let mut all = [0; 16];
    all[..words.len()].copy_from_slice(words);
    let mut first = [0.0; 4];
    first[..floats.len()].copy_from_slice(floats);
    // SAFETY: the function is one of C's that takes at most as many arguments of each class.
    let function: extern "C" fn(
        u64,
        u64,
        u64,
        u64,
        u64,
        u64,
        u64,
        u64,
        u64,
        u64,
        u64,
        u64,
        u64,
        u64,
        u64,
        u64,
        f32,
        f32,
        f32,
        f32,
    ) -> u32 = unsafe { std::mem::transmute(signature.address()) };
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = all;
    let [w, x, y, z] = first;
    function(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, w, x, y, z)
}

/// In a forked process nothing works but what works without initialization, and nothing hangs.
fn fork(shared: &Shared, seed: u64) {
    // SAFETY: the new process only calls the library, writes to the log and ends.
    let process = unsafe { libc::fork() };
    if process == 0 {
        // SAFETY: an alarm ends the process.
        unsafe { libc::alarm(20) };
        let scratch = Box::leak(Box::new(Scratch::new()));
        let mut maker = Maker {
            world: &shared.world,
            scratch,
            rng: Rng::new(!seed),
        };
        let mut status = 0;
        for _ in 0..50 {
            let signature = choose(&mut maker.rng);
            let code = call(shared, 200, &mut maker, Some(signature));
            if !signature.is_early && code != NOT_INITIALIZED {
                shared.say(&format!(
                    "FOUND: {} gave {code} after a fork\n",
                    signature.name
                ));
                status = FOUND;
            }
        }
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(status) };
    }
    let mut status = 0;
    // SAFETY: waits for the process that was just made.
    unsafe { libc::waitpid(process, &raw mut status, 0) };
    if status != 0 {
        shared.say(&format!(
            "FOUND: the forked process ended with {status:#x}\n"
        ));
        std::process::exit(FOUND);
    }
}

impl Shared {
    fn write(&self, thread: u64, signature: &Signature, arguments: &Arguments) {
        let words: Vec<String> = arguments
            .words
            .iter()
            .map(|word| format!("{word:#x}"))
            .collect();
        let floats = &arguments.floats;
        self.say(&format!(
            "{thread} {}({}) {floats:?}\n",
            signature.name,
            words.join(", ")
        ));
    }

    fn say(&self, line: &str) {
        (&self.log)
            .write_all(line.as_bytes())
            .expect("the log can be written");
    }
}
