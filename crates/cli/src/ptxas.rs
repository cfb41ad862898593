//! `ptxjit ptxas`: stands in for NVIDIA's assembler where a compiler calls one.
//!
//! It takes the assembler's command line and checks the PTX as that does: what is wrong goes to
//! stderr, and the exit code is 255. What it writes is the PTX itself with a NUL behind it, which
//! ptxjit loads in the place of machine code. Options that would only change machine code are
//! ignored.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ptxjit::{Diagnostic, Linker, Severity};

use crate::term;

/// What `ptxas` exits with whenever something is wrong.
const FAILED: u8 = 255;

/// Compilers read the release from the second line and use all of the text in the keys of their
/// caches, so our own version must be in it.
const VERSION: &str = concat!(
    "ptxas: the PTX checker of ptxjit, in the place of NVIDIA's assembler\n",
    "Cuda compilation tools, release 12.9, V12.9.86\n",
    "ptxjit ",
    env!("CARGO_PKG_VERSION"),
    "\n"
);

const USAGE: &str = "Usage  : ptxas [options] <ptx file>\n\n\
    Checks the file and writes its PTX, which ptxjit loads in the place of machine code.\n\n\
    --gpu-name <gpu name>     (-arch)     sm_XX; a higher .target is an error. Default: sm_52.\n\
    --output-file <file>      (-o)        Default: elf.o.\n\
    --compile-only            (-c)        Functions and variables may be defined elsewhere.\n\
    --verbose                 (-v)        Name the kernels.\n\
    --options-file <file>     (-optf)     Read more options from a file.\n\
    --input-as-string <text>  (-ias)      PTX instead of a file.\n\
    --version                 (-V)\n\
    --help                    (-h)\n\n\
    Other options of ptxas are ignored.\n";

/// Options of `ptxas` whose value may be the next word.
const WITH_VALUE: &[&str] = &[
    "Ofast-compile",
    "Ofc",
    "allow-expensive-optimizations",
    "def-load-cache",
    "dlcm",
    "def-store-cache",
    "dscm",
    "device-function-maxrregcount",
    "func-maxrregcount",
    "device-stack-protector",
    "entry",
    "e",
    "fmad",
    "force-load-cache",
    "flcm",
    "force-store-cache",
    "fscm",
    "machine",
    "m",
    "maxntid",
    "maxrregcount",
    "minnctapersm",
    "opt-level",
    "O",
    "position-independent-code",
    "pic",
    "register-usage-level",
    "regUsageLevel",
    "split-compile",
];

/// Nested option files beyond this are a circle.
const MAX_OPTION_FILES: usize = 16;

pub(crate) fn run(words: &[OsString]) -> ExitCode {
    let request = Request::parse(words);
    let result = request.and_then(|request| match request.answer {
        Some(text) => {
            term::out(text);
            Ok(())
        }
        None => assemble(&request),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            term::err(&format!("ptxas fatal   : {text}"));
            ExitCode::from(FAILED)
        }
    }
}

/// What the command line asks for.
#[derive(Debug, Default)]
struct Request {
    /// Text to print instead of doing anything.
    answer: Option<&'static str>,
    inputs: Vec<Input>,
    output: Option<PathBuf>,
    gpu: Option<String>,
    is_verbose: bool,
    /// Names may be defined elsewhere.
    is_relocatable: bool,
    n_option_files: usize,
}

#[derive(Debug)]
enum Input {
    File(PathBuf),
    Text(String),
}

impl Request {
    fn parse(words: &[OsString]) -> Result<Request, String> {
        let mut request = Request::default();
        request.words(words)?;
        Ok(request)
    }

    fn words(&mut self, words: &[OsString]) -> Result<(), String> {
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let text = word.to_string_lossy();
            let Some(option) = text.strip_prefix('-').filter(|option| !option.is_empty()) else {
                self.inputs.push(Input::File(word.into()));
                continue;
            };
            let option = option.strip_prefix('-').unwrap_or(option);
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name, Some(OsString::from(value))),
                None => (option, None),
            };
            let mut value = || {
                let value = value.clone().or_else(|| words.next().cloned());
                value.ok_or_else(|| format!("Argument expected after '{text}'"))
            };
            match name {
                "version" | "V" => self.answer = Some(VERSION),
                "help" | "h" => self.answer = Some(USAGE),
                "output-file" | "o" => self.output = Some(value()?.into()),
                "gpu-name" | "arch" => self.gpu = Some(value()?.to_string_lossy().into_owned()),
                "verbose" | "v" => self.is_verbose = true,
                "compile-only" | "c" | "extensible-whole-program" | "ewp" => {
                    self.is_relocatable = true
                }
                "input-as-string" | "ias" => {
                    let text = value()?.to_string_lossy().into_owned();
                    self.inputs.push(Input::Text(text));
                }
                "options-file" | "optf" => self.option_file(Path::new(&value()?))?,
                _ if WITH_VALUE.contains(&name) => drop(value()?),
                _ => {}
            }
        }
        Ok(())
    }

    fn option_file(&mut self, path: &Path) -> Result<(), String> {
        self.n_option_files += 1;
        if self.n_option_files > MAX_OPTION_FILES {
            return Err(format!(
                "Too many option files, the last is '{}'",
                path.display()
            ));
        }
        let text = std::fs::read_to_string(path)
            .map_err(|_| format!("Options file '{}' could not be opened", path.display()))?;
        let words: Vec<OsString> = text.split_whitespace().map(OsString::from).collect();
        self.words(&words)
    }

    /// The number of the GPU that is to run the code.
    fn gpu_number(&self) -> Result<u32, String> {
        let name = self.gpu.as_deref().unwrap_or("sm_52");
        let number = ["sm_", "compute_", "lto_"]
            .iter()
            .find_map(|prefix| name.strip_prefix(prefix));
        let number = number.map(|number| number.strip_suffix(['a', 'f']).unwrap_or(number));
        number
            .and_then(|number| number.parse().ok())
            .ok_or_else(|| format!("Value '{name}' is not defined for option 'gpu-name'"))
    }
}

fn assemble(request: &Request) -> Result<(), String> {
    let gpu = request.gpu_number()?;
    let (name, mut bytes) = match request.inputs.as_slice() {
        [Input::File(path)] => {
            let name = path.to_string_lossy().into_owned();
            let bytes = std::fs::read(path);
            let bytes = bytes.map_err(|_| format!("Input file '{name}' could not be opened"))?;
            (name, bytes)
        }
        [Input::Text(text)] => ("<input-as-string>".to_owned(), text.clone().into_bytes()),
        [] => return Err("No input file was given".to_owned()),
        [..] => {
            return Err("Several input files were given, and only one can be checked".to_owned());
        }
    };
    check(request, &name, &bytes)?;
    describe(request, gpu, &name, &bytes)?;
    // Some loaders have no length and rely on it.
    if bytes.last() != Some(&0) {
        bytes.push(0);
    }
    let output = request.output.as_deref().unwrap_or(Path::new("elf.o"));
    std::fs::write(output, bytes).map_err(|err| {
        format!(
            "Output file '{}' could not be written: {err}",
            output.display()
        )
    })
}

/// Prints what is wrong with the text.
fn check(request: &Request, name: &str, bytes: &[u8]) -> Result<(), String> {
    let found = if request.is_relocatable {
        ptxjit::check_bytes(name, bytes.to_vec())
    } else {
        let mut linker = Linker::new();
        linker.add_bytes(name, bytes.to_vec());
        linker.check().map_err(|err| err.to_string())?
    };
    for diagnostic in &found {
        term::err(&diagnostic.render(false));
    }
    let is_error = |found: &Diagnostic| found.severity() == Severity::Error;
    match found.iter().any(is_error) {
        true => Err("Ptx assembly aborted due to errors".to_owned()),
        false => Ok(()),
    }
}

/// What depends on the outline: the target, and the kernels' names.
fn describe(request: &Request, gpu: u32, name: &str, bytes: &[u8]) -> Result<(), String> {
    let outline = ptxjit::Outline::read(name, bytes.to_vec()).map_err(|err| err.to_string())?;
    if outline.target() > gpu {
        return Err(
            "SM version specified by .target is higher than default SM version assumed".to_owned(),
        );
    }
    if request.is_verbose {
        for kernel in outline.kernel_names() {
            let gpu = format!("sm_{gpu}");
            let gpu = request.gpu.as_ref().unwrap_or(&gpu);
            term::err(&format!(
                "ptxas info    : Compiling entry function '{kernel}' for '{gpu}'"
            ));
        }
    }
    Ok(())
}
