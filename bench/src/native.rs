//! The native versions: `native/*.c`, compiled when the benchmark starts and called in this
//! process.

use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use libloading::Library;

use crate::cases::{ArgSpec, Case};

/// The loaded library.
pub(crate) struct Native {
    /// Never unloaded: threads of OpenMP wait inside it for more work.
    library: ManuallyDrop<Library>,
}

/// What all entries look like: they take an array of arguments, 8 bytes each.
type Entry = unsafe extern "C" fn(*const u64);

impl Native {
    /// Compiles and loads everything, or says why that is not possible.
    pub(crate) fn build(compiler: &str, processor: &str, dir: &Path) -> Result<Native> {
        let sources = sources()?;
        let library = dir.join("libnative.so");
        let output = Command::new(compiler)
            .args(["-O3", "-fopenmp", "-fno-math-errno"])
            .arg(format!("-march={processor}"))
            .args(["-shared", "-fPIC", "-o"])
            .arg(&library)
            .args(&sources)
            .arg("-lm")
            .output()
            .with_context(|| format!("`{compiler}` cannot be started"))?;
        ensure!(
            output.status.success(),
            "`{compiler}` refuses native/*.c:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        #[expect(
            unsafe_code,
            reason = "loading a library is how native code gets into this process"
        )]
        // SAFETY: the library was just built from our own sources and has no initialisers but those
        // of the C and OpenMP runtimes, which may run at any time.
        let library = unsafe { Library::new(&library) }?;
        Ok(Native {
            library: ManuallyDrop::new(library),
        })
    }

    /// Sets how many threads native versions use.
    pub(crate) fn set_threads(&self, threads: usize) -> Result<()> {
        self.call("set_threads", &[threads as u64])
    }

    /// Seconds that all threads of this process have computed.
    pub(crate) fn cpu_time(&self) -> Result<f64> {
        let mut nanos = [0u64];
        self.call("cpu_time", &[nanos.as_mut_ptr().expose_provenance() as u64])?;
        Ok(nanos[0] as f64 * 1e-9)
    }

    /// The machine's limits, as `roofline.c` lists them.
    pub(crate) fn roofline(&self) -> Result<[f64; 4]> {
        let mut rates = [0.0f64; 4];
        self.call("roofline", &[rates.as_mut_ptr().expose_provenance() as u64])?;
        Ok(rates)
    }

    /// Runs the native version of `case` on `buffers`.
    pub(crate) fn run(&self, case: &Case, buffers: &mut [Vec<u64>]) -> Result<()> {
        let mut pack = |arg: &ArgSpec| match *arg {
            ArgSpec::Buf(idx)
            | ArgSpec::Map { buffer: idx, .. }
            | ArgSpec::Texture { buffer: idx, .. } => {
                buffers[idx].as_mut_ptr().expose_provenance() as u64
            }
            ArgSpec::I32(value) => i64::from(value) as u64,
            ArgSpec::U32(value) => u64::from(value),
            ArgSpec::U64(value) => value,
            ArgSpec::F32(value) => f64::from(value).to_bits(),
            ArgSpec::F64(value) => value.to_bits(),
        };
        let args: Vec<u64> = case.args.iter().map(&mut pack).collect();
        self.call(case.name, &args)
    }

    fn call(&self, name: &str, args: &[u64]) -> Result<()> {
        let symbol = format!("bench_{name}");
        #[expect(
            unsafe_code,
            reason = "calling into the library is the point of loading it"
        )]
        // SAFETY: every `bench_` symbol of the library is an `Entry`. It takes the arguments its
        // case lists in that order and stays inside the buffers, whose sizes belong to the same
        // case; nothing else touches them during the call, which leaves no pointer behind.
        unsafe {
            let entry = self.library.get::<Entry>(symbol.as_bytes())?;
            entry(args.as_ptr());
        }
        Ok(())
    }
}

fn sources() -> Result<Vec<PathBuf>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("native");
    let mut sources = Vec::new();
    for entry in
        std::fs::read_dir(&dir).with_context(|| format!("no sources in {}", dir.display()))?
    {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "c") {
            sources.push(path);
        }
    }
    sources.sort();
    Ok(sources)
}
