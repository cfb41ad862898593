//! Damaged and hostile images: no panic, and no more memory than the bound allows.
//!
//! The allocator of this test counts, which is the only way to see that a small image cannot ask
//! for a large buffer.

#![expect(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use ptxjit_image::{Capability, Container, Error, MAX_TEXT, Purpose, choose, modules};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is left to the system's allocator; the counters own no memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(live, Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let live = LIVE.fetch_add(new_size, Relaxed) + new_size - layout.size();
        LIVE.fetch_sub(layout.size(), Relaxed);
        PEAK.fetch_max(live, Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One test at a time, as they share the counters.
static ALONE: Mutex<()> = Mutex::new(());

/// The memory that `run` had at once, beyond what was there before.
fn peak_of(run: impl FnOnce()) -> usize {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    run();
    PEAK.load(Relaxed) - before
}

const IMAGES: [&[u8]; 9] = [
    include_bytes!("data/lz4.fatbin"),
    include_bytes!("data/zstd.fatbin"),
    include_bytes!("data/plain.fatbin"),
    include_bytes!("data/mixed.fatbin"),
    include_bytes!("data/family.fatbin"),
    include_bytes!("data/nvcc13.fatbin"),
    include_bytes!("data/user.o"),
    include_bytes!("data/pair.a"),
    include_bytes!("data/sm80.cubin"),
];

/// A generator of the xorshift kind: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n.max(1)
    }
}

/// Changes bytes, words and lengths, cuts, and splices.
fn damage(random: &mut Random, image: &[u8]) -> Vec<u8> {
    let mut bytes = image.to_vec();
    for _ in 0..=random.below(4) {
        // Most of what matters stands in headers, near the start.
        let range = if random.below(2) == 0 {
            128
        } else {
            bytes.len()
        };
        let at = random.below(range.min(bytes.len()));
        match random.below(6) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            1 if !bytes.is_empty() => bytes[at] = random.below(256) as u8,
            2 => {
                let words = [0, 1, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 28];
                let word: u32 = words[random.below(words.len())];
                let end = (at + 4).min(bytes.len());
                bytes[at..end].copy_from_slice(&word.to_le_bytes()[..end - at]);
            }
            3 => bytes.truncate(at),
            4 => {
                let other = IMAGES[random.below(IMAGES.len())];
                let from = random.below(other.len());
                bytes.splice(at.., other[from..].iter().copied());
            }
            _ => bytes.extend_from_within(at..),
        }
    }
    bytes
}

#[test]
fn damaged_images() {
    let _alone = ALONE.lock().unwrap();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut n_fine = 0;
    let peak = peak_of(|| {
        for round in 0..20_000 {
            let image = damage(&mut random, IMAGES[round % IMAGES.len()]);
            for purpose in [Purpose::Load, Purpose::Link] {
                let found = modules("x", &image, Capability::from_sm(90), purpose);
                n_fine += usize::from(found.is_ok());
            }
        }
    });
    assert!(n_fine > 1000, "much damage does no harm: {n_fine}");
    assert!(peak as u64 <= MAX_TEXT, "{peak} bytes at once");
}

/// A container of entries for sm_50, with these flags, sizes and payloads.
fn container(entries: &[(u64, u64, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for &(flags, size, payload) in entries {
        let mut head = [0u8; 64];
        let len = payload.len() as u32;
        head[0] = 1;
        head[4..8].copy_from_slice(&64u32.to_le_bytes());
        head[8..12].copy_from_slice(&len.to_le_bytes());
        head[16..20].copy_from_slice(&len.to_le_bytes());
        head[24..28].copy_from_slice(&[0, 0, 8, 0]);
        head[28] = 50;
        head[40..48].copy_from_slice(&flags.to_le_bytes());
        head[56..64].copy_from_slice(&size.to_le_bytes());
        body.extend(head);
        body.extend(payload);
    }
    let mut image = b"\x50\xed\x55\xba\x01\0\x10\0".to_vec();
    image.extend((body.len() as u64).to_le_bytes());
    image.extend(body);
    image
}

const LZ4: u64 = 0x2000;
const ZSTD: u64 = 0x8000;

/// A Zstandard frame of `n` blocks that each say "128 KiB of blanks" in four bytes.
fn zstd_bomb(n: usize) -> Vec<u8> {
    let mut frame = b"\x28\xb5\x2f\xfd\x00\x50".to_vec();
    for block in 0..n {
        let is_last = u32::from(block + 1 == n);
        let head = is_last | 1 << 1 | (128 << 10) << 3;
        frame.extend(&head.to_le_bytes()[..3]);
        frame.push(b' ');
    }
    frame
}

fn unpack(image: &[u8]) -> Result<usize, Error> {
    let container = Container::parse(image)?;
    Ok(choose(&container, Capability::from_sm(80))?.len())
}

#[test]
fn bombs() {
    let _alone = ALONE.lock().unwrap();
    const MIB: u64 = 1 << 20;
    // What a frame says comes out, and no more is taken of what says less than it is.
    let bomb = zstd_bomb(8 * 512);
    let honest = zstd_bomb(8 * 4);
    let version = b".version 8.0\n".len();
    assert_eq!(
        unpack(&container(&[(ZSTD, 4 * MIB, &honest)])),
        Ok(4 << 20 | version)
    );
    let peak = peak_of(|| {
        let found = unpack(&container(&[(ZSTD, MIB, &bomb)]));
        assert!(matches!(found, Err(Error::Damaged(_))), "{found:?}");
    });
    assert!((peak as u64) < 16 * MIB, "{peak}");
    let found = unpack(&container(&[(ZSTD, 512 * MIB, &bomb)]));
    assert_eq!(found, Err(Error::TooLarge(512 * MIB)));
    // A few bytes that ask for a large buffer.
    let peak = peak_of(|| {
        for flags in [LZ4, ZSTD] {
            let found = unpack(&container(&[(flags, 200 * MIB, b"\x10 \0\0")]));
            assert!(matches!(found, Err(Error::Damaged(_))), "{found:?}");
        }
        let window = b"\x28\xb5\x2f\xfd\x00\xf8\x03\0\x10 ";
        let found = unpack(&container(&[(ZSTD, MIB, window)]));
        assert!(matches!(found, Err(Error::Damaged(_))), "{found:?}");
    });
    assert!((peak as u64) < 16 * MIB, "{peak}");
}

#[test]
fn the_bound_is_for_the_whole_image() {
    let _alone = ALONE.lock().unwrap();
    let part = zstd_bomb(8 * 160);
    let one = container(&[(ZSTD, 160 << 20, &part)]);
    let load = |image: &[u8]| modules("x", image, Capability::from_sm(80), Purpose::Load);
    let peak = peak_of(|| {
        assert_eq!(load(&one).map(|found| found.len()), Ok(1));
        assert_eq!(
            load(&[one.as_slice(), &one].concat()),
            Err(Error::TooLarge(160 << 20))
        );
    });
    assert!(peak as u64 <= MAX_TEXT + (16 << 20), "{peak}");
}
