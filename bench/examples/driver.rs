//! What calls of the driver library cost, as a program finds them that opens `libcuda.so.1`.
//!
//! `cargo run --release -p ptxjit-bench --example driver [LIBRARY [GROUP]]`
//!
//! With a group (`calls`, `graph`, `threads`, `idle`, `start`) it measures that one alone.
//!
//! Each line is the best and the median of some batches: on a busy machine, the best is the one to
//! look at. The start of a process is measured in processes of its own, with an empty code cache
//! and with a filled one.
#![expect(unsafe_code, reason = "calls the library as a C program does")]
#![expect(clippy::print_stdout, reason = "a program that prints a table")]

use std::ffi::{CStr, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::null;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use libloading::Library;

const EMPTY: &CStr = c".version 7.0
.target sm_80
.address_size 64
.visible .entry empty() { ret; }
";

/// A small kernel as nvcc compiles it: a loop over `y[i] += a * x[i]`.
const SAXPY: &CStr =
    match CStr::from_bytes_with_nul(concat!(include_str!("../kernels/saxpy.ptx"), "\0").as_bytes())
    {
        Ok(text) => text,
        Err(_) => panic!("the text has a zero"),
    };

const BATCHES: usize = 15;

type Handle = u64;

/// Declares the functions of the library that are called.
macro_rules! functions {
    ($($name:ident $symbol:ident ($($ty:ty),*);)*) => {
        struct Driver {
            $($name: unsafe extern "C" fn($($ty),*) -> u32,)*
            _library: Library,
        }

        impl Driver {
            fn open(path: &Path) -> Result<Driver> {
                // SAFETY: the library is the driver, whose start does nothing but set itself up.
                let library = unsafe { Library::new(path) }?;
                // SAFETY: the types are those of `cuda.h`.
                unsafe {
                    Ok(Driver {
                        $($name: *library.get(concat!(stringify!($symbol), "\0").as_bytes())?,)*
                        _library: library,
                    })
                }
            }
        }
    };
}

functions! {
    init cuInit(u32);
    retain cuDevicePrimaryCtxRetain(*mut Handle, i32);
    set_current cuCtxSetCurrent(Handle);
    synchronize cuCtxSynchronize();
    load cuModuleLoadData(*mut Handle, *const c_void);
    function cuModuleGetFunction(*mut Handle, Handle, *const i8);
    launch cuLaunchKernel(
        Handle, u32, u32, u32, u32, u32, u32, u32, Handle, *const c_void, *const c_void);
    alloc cuMemAllocAsync(*mut u64, usize, Handle);
    free cuMemFreeAsync(u64, Handle);
    event_create cuEventCreate(*mut Handle, u32);
    event_record cuEventRecord(Handle, Handle);
    launch_host cuLaunchHostFunc(Handle, extern "C" fn(*const c_void), *const c_void);
    stream_create cuStreamCreate(*mut Handle, u32);
    stream_synchronize cuStreamSynchronize(Handle);
    begin_capture cuStreamBeginCapture_v2(Handle, u32);
    end_capture cuStreamEndCapture(Handle, *mut Handle);
    instantiate cuGraphInstantiateWithFlags(*mut Handle, Handle, u64);
    graph_launch cuGraphLaunch(Handle, Handle);
}

fn check(code: u32) {
    assert_eq!(code, 0, "the driver's code");
}

/// Calls a function of the driver, which must succeed.
macro_rules! call {
    ($driver:expr, $name:ident($($arg:expr),* $(,)?)) => {
        // SAFETY: pointers are null, or those of variables of the right types that outlive it.
        check(unsafe { ($driver.$name)($($arg),*) })
    };
}

/// A driver with a context and the empty kernel.
struct Session {
    driver: Driver,
    context: Handle,
    empty: Handle,
}

impl Session {
    fn start(library: &Path) -> Result<Session> {
        let driver = Driver::open(library)?;
        let (mut context, mut module, mut empty) = (0, 0, 0);
        call!(driver, init(0));
        call!(driver, retain(&raw mut context, 0));
        call!(driver, set_current(context));
        call!(driver, load(&raw mut module, EMPTY.as_ptr().cast()));
        call!(
            driver,
            function(&raw mut empty, module, c"empty".as_ptr().cast())
        );
        Ok(Session {
            driver,
            context,
            empty,
        })
    }

    fn launch(&self, stream: Handle) {
        call!(
            self.driver,
            launch(self.empty, 1, 1, 1, 32, 1, 1, 0, stream, null(), null())
        );
    }

    fn stream(&self) -> Handle {
        let mut stream = 0;
        // Not a blocking one: nothing waits for the default stream.
        call!(self.driver, stream_create(&raw mut stream, 1));
        stream
    }
}

/// Prints the best and the median time of a turn, over batches of `turns` of them.
fn report(what: &str, turns: u32, mut turn: impl FnMut()) {
    let mut times: Vec<Duration> = (0..BATCHES)
        .map(|_| {
            let start = Instant::now();
            (0..turns).for_each(|_| turn());
            start.elapsed() / turns
        })
        .collect();
    print_times(what, &mut times);
}

fn print_times(what: &str, times: &mut [Duration]) {
    times.sort();
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let (best, median) = (micros(times[0]), micros(times[times.len() / 2]));
    println!("{what:48} {best:>11.3} µs, median {median:>11.3} µs");
}

fn calls(session: &Session) {
    let driver = &session.driver;
    let stream = session.stream();
    report("empty launch and cuStreamSynchronize", 20_000, || {
        session.launch(stream);
        call!(driver, stream_synchronize(stream));
    });
    report(
        "empty launch and cuCtxSynchronize, stream 0",
        20_000,
        || {
            session.launch(0);
            call!(driver, synchronize());
        },
    );
    report("cuCtxSetCurrent", 500_000, || {
        call!(driver, set_current(session.context))
    });
    report("cuMemAllocAsync and cuMemFreeAsync", 20_000, || {
        let mut address = 0;
        call!(driver, alloc(&raw mut address, 4096, stream));
        call!(driver, free(address, stream));
    });
    call!(driver, stream_synchronize(stream));
    let mut event = 0;
    call!(driver, event_create(&raw mut event, 0));
    report("cuEventRecord, on a stream without work", 20_000, || {
        call!(driver, event_record(event, stream));
    });
    call!(driver, stream_synchronize(stream));
    record_behind_work(driver, event, stream);
}

/// Records on a stream that is held up meanwhile, as by a long kernel: each is a command that
/// waits.
fn record_behind_work(driver: &Driver, event: Handle, stream: Handle) {
    const RECORDS: u32 = 20_000;
    let gate = Mutex::new(());
    let mut times: Vec<Duration> = (0..BATCHES)
        .map(|_| {
            let closed = gate.lock();
            let gate = (&raw const gate).cast();
            call!(driver, launch_host(stream, wait_at, gate));
            let start = Instant::now();
            for _ in 0..RECORDS {
                call!(driver, event_record(event, stream));
            }
            let time = start.elapsed() / RECORDS;
            drop(closed);
            call!(driver, stream_synchronize(stream));
            time
        })
        .collect();
    print_times("cuEventRecord, on a stream with work", &mut times);
}

/// Waits until the mutex at an address is free.
extern "C" fn wait_at(gate: *const c_void) {
    // SAFETY: the caller of `cuLaunchHostFunc` passes a mutex, and waits for the function.
    let gate = unsafe { &*gate.cast::<Mutex<()>>() };
    drop(gate.lock());
}

fn graph(session: &Session) {
    let (driver, stream) = (&session.driver, session.stream());
    let (mut graph, mut exec) = (0, 0);
    call!(driver, begin_capture(stream, 0));
    (0..100).for_each(|_| session.launch(stream));
    call!(driver, end_capture(stream, &raw mut graph));
    call!(driver, instantiate(&raw mut exec, graph, 0));
    report("graph of 100 empty kernels, and synchronize", 300, || {
        call!(driver, graph_launch(exec, stream));
        call!(driver, stream_synchronize(stream));
    });
}

/// Launches on `count` threads with a stream each, as many in all as one thread makes.
fn threads(session: &Session, count: u32) {
    const LAUNCHES: u32 = 16_000;
    let mut times: Vec<Duration> = (0..BATCHES)
        .map(|_| {
            let start = Instant::now();
            std::thread::scope(|scope| {
                for _ in 0..count {
                    scope.spawn(|| {
                        call!(session.driver, set_current(session.context));
                        let stream = session.stream();
                        for _ in 0..LAUNCHES / count {
                            session.launch(stream);
                            call!(session.driver, stream_synchronize(stream));
                        }
                    });
                }
            });
            start.elapsed() / LAUNCHES
        })
        .collect();
    print_times(
        &format!("launch and synchronize, {count} threads"),
        &mut times,
    );
}

/// Processor time of this process.
fn processor_time() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let fields = text.rsplit(')').next().context("the line's end")?;
    let ticks = fields.split_whitespace().skip(11).take(2);
    Ok(ticks.map(|field| field.parse().unwrap_or(0)).sum())
}

fn idle(session: &Session) -> Result<()> {
    session.launch(0);
    call!(session.driver, synchronize());
    // Threads may look for more work for a moment.
    std::thread::sleep(Duration::from_millis(100));
    let before = processor_time()?;
    std::thread::sleep(Duration::from_secs(2));
    println!(
        "processor time in 2 s without work: {} ticks",
        processor_time()? - before
    );
    Ok(())
}

/// What a new process does: opens the library, and adds two arrays.
fn child(library: &Path) -> Result<()> {
    let count = 1000u32;
    let start = Instant::now();
    let driver = Driver::open(library)?;
    let loaded = start.elapsed();
    let start = Instant::now();
    let (mut context, mut module, mut saxpy, mut x, mut y) = (0, 0, 0, 0, 0);
    call!(driver, init(0));
    call!(driver, retain(&raw mut context, 0));
    call!(driver, set_current(context));
    call!(driver, load(&raw mut module, SAXPY.as_ptr().cast()));
    call!(
        driver,
        function(&raw mut saxpy, module, c"saxpy".as_ptr().cast())
    );
    for array in [&mut x, &mut y] {
        call!(driver, alloc(array, 4 * count as usize, 0));
    }
    let factor = 2f32;
    let arguments: [*const c_void; 4] = [
        (&raw const count).cast(),
        (&raw const factor).cast(),
        (&raw const x).cast(),
        (&raw const y).cast(),
    ];
    let arguments = arguments.as_ptr().cast();
    call!(
        driver,
        launch(saxpy, 4, 1, 1, 256, 1, 1, 0, 0, arguments, null())
    );
    call!(driver, synchronize());
    println!("{} {}", loaded.as_nanos(), start.elapsed().as_nanos());
    Ok(())
}

/// Runs new processes, each with an empty cache if `cold`.
fn processes(library: &Path, cold: bool) -> Result<()> {
    let cache = std::env::temp_dir().join(format!("ptxjit-bench-{}", std::process::id()));
    let (mut loads, mut launches) = (Vec::new(), Vec::new());
    for turn in 0..=BATCHES {
        if cold && cache.exists() {
            std::fs::remove_dir_all(&cache)?;
        }
        let mut command = Command::new(std::env::current_exe()?);
        let output = command
            .arg("--child")
            .arg(library)
            .env("PTXJIT_CACHE_DIR", &cache)
            .output()?;
        ensure!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let text = String::from_utf8(output.stdout)?;
        let mut numbers = text.split_whitespace().map(str::parse::<u64>);
        let mut next = || numbers.next().context("a time")?.context("a time in ns");
        let (load, launch) = (next()?, next()?);
        // The first process fills the cache.
        if turn > 0 {
            loads.push(Duration::from_nanos(load));
            launches.push(Duration::from_nanos(launch));
        }
    }
    let how = if cold {
        "nothing cached"
    } else {
        "from the cache"
    };
    print_times("loading the library", &mut loads);
    print_times(
        &format!("cuInit to the end of a first launch, {how}"),
        &mut launches,
    );
    std::fs::remove_dir_all(&cache).or_else(|err| match err.kind() {
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(err.into()),
    })
}

fn main() -> Result<()> {
    let mut words = std::env::args_os().skip(1);
    let first = words.next();
    if first.as_ref().is_some_and(|word| word == "--child") {
        return child(&PathBuf::from(
            words.next().context("--child needs a library")?,
        ));
    }
    let library = first.map_or_else(|| PathBuf::from("target/release/libcuda.so"), PathBuf::from);
    let group = words.next();
    let wants = |name: &str| group.as_ref().is_none_or(|group| group == name);
    let session = Session::start(&library)?;
    if wants("calls") {
        calls(&session);
    }
    if wants("graph") {
        graph(&session);
    }
    if wants("threads") {
        threads(&session, 1);
        threads(&session, 8);
    }
    if wants("idle") {
        idle(&session)?;
    }
    if wants("start") {
        processes(&library, true)?;
        processes(&library, false)?;
    }
    Ok(())
}
