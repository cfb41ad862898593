//! Code is placed whatever else the process has mapped, and its memory is given back.
//!
//! For longer: `PTXJIT_FUZZ_SECONDS=600` goes on mapping and compiling for ten minutes, and
//! `PTXJIT_TEST_MODULES=10000` loads and unloads as many modules.

#![expect(
    unsafe_code,
    reason = "address space is mapped around what the library maps"
)]

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use ptxjit::{Device, Module};
use ptxjit_tests::fuzz::rng::Rng;

use crate::ptx;

/// Address space without access rights, unmapped when dropped.
struct Mapped(*mut libc::c_void, usize);

impl Mapped {
    fn new(size: usize) -> Mapped {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: the system picks the place.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), size, libc::PROT_NONE, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        Mapped(at, size)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and never accessed.
        unsafe { libc::munmap(self.0, self.1) };
    }
}

/// Adds up a histogram: the code consists of several pieces, as lanes that miss memory leave
/// through stubs.
fn text(number: u32) -> String {
    ptx(&format!(
        ".visible .entry k(.param .u64 p) {{
            .reg .pred %p; .reg .b32 %r<5>; .reg .b64 %rd<3>; .reg .f32 %f<3>;
            mov.u32 %r1, %tid.x;
            ld.param.u64 %rd1, [p];
            mul.lo.u32 %r2, %r1, 7;
            and.b32 %r2, %r2, 31;
            mul.wide.u32 %rd2, %r2, 4;
            add.u64 %rd2, %rd1, %rd2;
            setp.gt.u32 %p, %r1, 3;
            @%p bra ADD;
            cvt.rn.f32.u32 %f1, %r1;
            ex2.approx.f32 %f2, %f1;
            atom.global.add.f32 %f1, [%rd2], %f2;
            bra END;
        ADD:
            atom.global.add.u32 %r3, [%rd2], {number};
        END:
            ret;
        }}"
    ))
}

fn run(device: &Device, number: u32, gang: u32) {
    let module = Module::from_source(device, "test.ptx", text(number)).unwrap();
    let data = device.alloc_from(&[0u32; 32]).unwrap();
    let launch = module.only_kernel().unwrap().launch().block(32);
    launch.gang(gang).eager(true).arg(&data).run().unwrap();
    let mut expected = [number; 32];
    for lane in 0..4 {
        expected[lane * 7 % 32] = ((1 << lane) as f32).to_bits();
    }
    assert_eq!(data.read().unwrap(), expected, "gang {gang}");
}

#[test]
fn pieces_of_code_find_each_other_in_a_full_address_space() {
    let device = Device::new().unwrap();
    // Holes of one page each, four gigabytes apart: what is mapped page by page lands in them.
    let size = 4 << 30;
    let mut all: Vec<Mapped> = (0..100)
        .flat_map(|_| [Mapped::new(4096), Mapped::new(size)])
        .collect();
    for number in 0..20 {
        run(&device, number, [1, 4, 8, 16, 32][number as usize % 5]);
        all.remove((number as usize * 7) % all.len());
        all.push(Mapped::new(300 << 30));
    }
    all.retain(|mapped| mapped.1 != 4096);
    for number in 20..60 {
        run(&device, number, [1, 4, 8, 16, 32][number as usize % 5]);
    }
}

/// Hundreds of gigabytes are mapped and unmapped at random between compilations.
#[test]
fn code_is_placed_while_other_memory_comes_and_goes() {
    let seconds = std::env::var("PTXJIT_FUZZ_SECONDS").map(|text| text.parse().expect("seconds"));
    let seconds = Duration::from_secs(seconds.unwrap_or(0));
    let device = Device::new().unwrap();
    let (start, mut rng) = (Instant::now(), Rng::new(1));
    let mut all: VecDeque<Mapped> = VecDeque::new();
    let mut number = 0;
    while number < 30 || start.elapsed() < seconds {
        for _ in 0..rng.below(5) {
            all.push_back(Mapped::new(1 << (12 + rng.below(28))));
            let idx = rng.below(all.len());
            all.swap_remove_back(idx);
            all.push_back(Mapped::new((1 + rng.below(300)) << 30));
        }
        while all.len() > 100 {
            all.swap_remove_back(rng.below(all.len()));
        }
        run(&device, number, *rng.pick(&[1, 4, 8, 16, 32]));
        number += 1;
    }
    eprintln!("{number} modules");
}

#[test]
fn many_modules_come_and_go() {
    let device = Device::new().unwrap();
    let n = std::env::var("PTXJIT_TEST_MODULES")
        .ok()
        .and_then(|n| n.parse().ok());
    let n = n.unwrap_or(200);
    let run = |number| run(&device, number, 4);
    (0..50).for_each(run);
    let before = code_mappings();
    (50..n).for_each(run);
    let after = code_mappings();
    // A block of code has sixteen pages or more. Other tests of this process compile at the same
    // time, but not for so many modules.
    let kept = 16 * (n as usize - 50);
    assert!(
        after < before + kept / 2,
        "{before} to {after} pages of code"
    );
}

/// Pages of memory without a file that are executable.
fn code_mappings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let sizes = maps.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (range, access) = (words.next()?, words.next()?);
        let inode = words.nth(2)?;
        let (start, end) = range.split_once('-')?;
        let parse = |text| usize::from_str_radix(text, 16).ok();
        (access.contains('x') && inode == "0").then_some((parse(end)? - parse(start)?) / 4096)
    });
    sizes.sum()
}
