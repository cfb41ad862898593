//! Runs the kernels of PTX files in the interpreter and at every gang width, and compares what they
//! leave in memory, byte for byte.
//!
//! `cargo run --release -p ptxjit-bench --example engines -- [--rounds N] PATH…` takes files and
//! folders. Every kernel is launched with a buffer of random and corner values for each 64-bit
//! parameter and small numbers for others: once with a single thread, and once with [`THREADS`]
//! threads, whose addresses are moved apart: behind each `ld.param.u64` of the kernel's text the
//! thread's number times [`APART`] is added. Kernels that cannot be launched so are named and
//! passed over.
//!
//! All engines must agree in every byte, NaNs included. Files that read clocks or numbers of
//! launches are passed over.
//!
//! A line `// want: out[OFFSET] TYPE = VALUE` in a file is what a single thread must leave in the
//! second buffer.

#![expect(clippy::print_stdout, reason = "a program that prints a table")]

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use ptxjit::{Arg, Device, Engine, Kernel, Module};

const THREADS: u32 = 40;
/// Bytes from one thread's data to the next one's.
const APART: usize = 2048;
/// Bytes of a buffer.
const SIZE: usize = (THREADS as usize + 1) * APART;
const GANGS: [u32; 5] = [1, 4, 8, 16, 32];

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[(self.next() % items.len() as u64) as usize]
    }

    /// Eight bytes that are of interest as some type.
    fn word(&mut self) -> u64 {
        const SINGLES: [f32; 12] = [
            0.0,
            -0.0,
            1.0,
            -1.5,
            0.3,
            1e-40,
            -3e38,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
            1.175_494_2e-38,
            12345.678,
        ];
        const DOUBLES: [f64; 10] = [
            0.0,
            -0.0,
            1.0,
            -2.5,
            0.1,
            5e-324,
            -1e308,
            f64::INFINITY,
            f64::NAN,
            1e-310,
        ];
        const HALVES: [u16; 12] = [
            0, 0x8000, 0x3c00, 0xbc00, 1, 0x7c00, 0x7e00, 0x7bff, 0x3f80, 0x7f80, 0x7fc0, 0x1234,
        ];
        const INTS: [u64; 8] = [
            0,
            1,
            u64::MAX,
            0x7fff_ffff,
            0x8000_0000,
            1 << 63,
            0x7fff,
            0x80,
        ];
        match self.next() % 8 {
            0 | 1 => self.next(),
            2 => {
                let low = u64::from(self.pick(&SINGLES).to_bits());
                u64::from(self.pick(&SINGLES).to_bits()) << 32 | low
            }
            3 => self.pick(&DOUBLES).to_bits(),
            4 => (0..4).fold(0, |bits, _| bits << 16 | u64::from(self.pick(&HALVES))),
            5 => self.pick(&INTS),
            6 => self.next() % 100,
            _ => (self.next() as i32 >> (self.next() % 32)) as u64,
        }
    }

    fn buffer(&mut self) -> Vec<u8> {
        (0..SIZE / 8)
            .flat_map(|_| self.word().to_le_bytes())
            .collect()
    }
}

/// The text with every pointer parameter moved by the thread's number.
fn spread(ptx: &str) -> String {
    let mut text = String::new();
    for line in ptx.lines() {
        text.push_str(line);
        text.push('\n');
        let Some(rest) = line.trim().strip_prefix("ld.param.u64 ") else {
            continue;
        };
        if let Some((reg, _)) = rest.split_once(',') {
            let _ = writeln!(
                text,
                "{{ .reg .u32 spread_i; .reg .u64 spread_o; mov.u32 spread_i, %tid.x; mul.wide.u32 spread_o, spread_i, {APART}; \
                 add.u64 {reg}, {reg}, spread_o; }}"
            );
        }
    }
    text
}

/// The sizes behind a directive such as `.reqntid`.
fn required(ptx: &str, directive: &str) -> Option<[u32; 3]> {
    let rest = ptx.lines().find_map(|line| line.split_once(directive))?.1;
    let rest = rest.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit() && !matches!(c, ',' | ' '));
    let mut sizes = rest[..end.unwrap_or(rest.len())]
        .split(',')
        .filter_map(|n| n.trim().parse().ok());
    let x = sizes.next()?;
    Some([x, sizes.next().unwrap_or(1), sizes.next().unwrap_or(1)])
}

/// The buffers after a launch.
fn run(
    device: &Device,
    kernel: &Kernel,
    inputs: &[Vec<u8>],
    [grid, block]: [[u32; 3]; 2],
    gang: Option<u32>,
) -> Result<Vec<Vec<u8>>, String> {
    let mut launch = kernel
        .launch()
        .grid(grid)
        .block(block)
        .timeout(Duration::from_secs(10));
    launch = match gang {
        Some(gang) => launch.gang(gang),
        None => launch.engine(Engine::Interp),
    };
    let mut buffers = Vec::new();
    for ((_, size), input) in kernel.params().zip(inputs) {
        if size == 8 {
            let buffer = device
                .alloc_from(input)
                .map_err(|error| error.to_string())?;
            launch = launch.arg(&buffer);
            buffers.push(buffer);
        } else {
            launch = launch.arg(Arg::from_bytes(&input[..size]));
        }
    }
    launch.run().map_err(|error| error.to_string())?;
    buffers
        .iter()
        .map(|buffer| buffer.read().map_err(|error| error.to_string()))
        .collect()
}

/// The first eight bytes that differ.
fn difference(got: &[Vec<u8>], want: &[Vec<u8>]) -> String {
    let mut all = got.iter().flatten().zip(want.iter().flatten());
    let at = all.position(|(got, want)| got != want).unwrap_or(0);
    let (buffer, at) = (at / SIZE, (at % SIZE) & !7);
    let eight = |buffers: &[Vec<u8>]| format!("{:02x?}", &buffers[buffer][at..at + 8]);
    format!(
        "buffer {buffer} at {at}: {}, not {}",
        eight(got),
        eight(want)
    )
}

/// What a file says that its kernel leaves, as far as it is not there.
fn unmet(ptx: &str, out: &[u8]) -> Vec<String> {
    let wants = ptx
        .lines()
        .filter_map(|line| line.strip_prefix("// want: out["));
    wants
        .filter(|want| {
            let parts = want.split_once(']').and_then(|(offset, rest)| {
                let (ty, value) = rest.trim().split_once('=')?;
                Some((offset.parse::<usize>().ok()?, ty.trim(), value.trim()))
            });
            let Some((offset, ty, value)) = parts else {
                return true;
            };
            let bytes = ty.trim_start_matches(|c: char| c.is_ascii_alphabetic());
            let size = bytes.parse::<usize>().map_or(4, |bits| bits / 8);
            let got = out[offset..offset + size]
                .iter()
                .rev()
                .fold(0u64, |bits, &byte| bits << 8 | u64::from(byte));
            let value = value.split_whitespace().next().unwrap_or_default();
            let wanted = match value.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).ok(),
                None => value.parse::<i128>().ok().map(|value| value as u64),
            };
            wanted.is_none_or(|wanted| wanted & (u64::MAX >> (64 - 8 * size)) != got)
        })
        .map(str::to_owned)
        .collect()
}

/// Everything about one file; the number of differences.
fn file(device: &Device, path: &Path, rounds: u64, passed_over: &mut usize) -> usize {
    let name = path.display().to_string();
    let ptx = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}"));
    let own = ["%clock", "%globaltimer", "%gridid"];
    if let Some(sreg) = own.iter().find(|&&sreg| ptx.contains(sreg)) {
        println!("{name}: passed over: `{sreg}` differs by launch");
        *passed_over += 1;
        return 0;
    }
    let mut wrong = 0;
    for (threads, text) in [(1, ptx.clone()), (THREADS, spread(&ptx))] {
        let block = required(&ptx, ".reqntid ").unwrap_or([threads, 1, 1]);
        let shape = [
            required(&ptx, ".reqnctapercluster ").unwrap_or([1; 3]),
            block,
        ];
        let kernels = Module::from_source(device, &name, &text).and_then(|module| {
            let names = module.kernel_names();
            names
                .iter()
                .map(|name| module.kernel(name))
                .collect::<Result<Vec<_>, _>>()
        });
        let kernels = match kernels {
            Ok(kernels) => kernels,
            Err(error) => {
                println!("{name}: passed over: {error}");
                *passed_over += 1;
                continue;
            }
        };
        for (kernel, round) in kernels
            .iter()
            .flat_map(|kernel| (0..rounds).map(move |n| (kernel, n)))
        {
            let mut random = Random(round);
            let inputs: Vec<Vec<u8>> = kernel.params().map(|_| random.buffer()).collect();
            let want = match run(device, kernel, &inputs, shape, None) {
                Ok(want) => want,
                Err(error) => {
                    println!("{name}: passed over: {error}");
                    *passed_over += 1;
                    break;
                }
            };
            if threads == 1 && round == 0 {
                for line in unmet(&ptx, want.get(1).unwrap_or(&Vec::new())) {
                    println!("{name}: the interpreter does not leave out[{line}");
                    wrong += 1;
                }
            }
            for gang in GANGS {
                let got = match run(device, kernel, &inputs, shape, Some(gang)) {
                    Ok(got) => got,
                    Err(error) => {
                        println!("{name}: gang {gang}: {error}");
                        wrong += 1;
                        continue;
                    }
                };
                let place = format!("{name}: gang {gang}, {threads} threads, round {round}");
                if got == want {
                    continue;
                }
                println!(
                    "{place}: {}, as the interpreter has it",
                    difference(&got, &want)
                );
                wrong += 1;
            }
        }
    }
    wrong
}

fn files_below(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        let entries = std::fs::read_dir(path).expect("a folder can be listed");
        let mut paths: Vec<PathBuf> = entries
            .map(|entry| entry.expect("an entry").path())
            .collect();
        paths.sort();
        paths.iter().for_each(|path| files_below(path, found));
    } else if path.extension().is_some_and(|extension| extension == "ptx") {
        found.push(path.to_owned());
    }
}

fn main() -> ExitCode {
    let (mut rounds, mut files) = (3, Vec::new());
    let mut rest = std::env::args().skip(1);
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--rounds" => {
                rounds = rest
                    .next()
                    .and_then(|n| n.parse().ok())
                    .expect("a number follows")
            }
            path => files_below(Path::new(path), &mut files),
        }
    }
    let device = Device::new().expect("a device");
    let mut passed_over = 0;
    let wrong: usize = files
        .iter()
        .map(|path| file(&device, path, rounds, &mut passed_over))
        .sum();
    println!(
        "{} files, {wrong} differences; {passed_over} passed over",
        files.len()
    );
    if wrong == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
