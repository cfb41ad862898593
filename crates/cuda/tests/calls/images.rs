//! Modules as programs load them, whole and damaged: PTX, fat binaries, archives, machine code.

use crate::memory::Scratch;
use crate::rng::Rng;

/// Kernels that do what a driver has to cope with, and a variable of each sort.
pub(crate) const PTX: &str = "
.version 8.0
.target sm_90
.address_size 64
.visible .global .align 8 .b8 numbers[64];
.visible .const .align 4 .u32 factor = 3;
.global .attribute(.managed) .align 4 .u32 managed = 5;
.extern .shared .align 16 .b8 dynamic[];
.visible .global .texref image;
.visible .entry nothing() { ret; }
.visible .entry fill(.param .u64 to, .param .u32 count)
{
    .reg .pred %p<2>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [to];
    ld.param.u32 %r1, [count];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 ret;
    mul.wide.u32 %rd2, %r5, 4;
    add.u64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r5;
    ret;
}
.visible .entry wild()
{
    .reg .b64 %rd<2>;
    mov.u64 %rd1, 8;
    st.global.u64 [%rd1], %rd1;
    ret;
}
.visible .entry stops() { trap; }
.visible .entry shares(.param .u32 index)
{
    .reg .b32 %r<4>;
    ld.param.u32 %r1, [index];
    mov.u32 %r2, dynamic;
    add.u32 %r3, %r2, %r1;
    st.shared.u32 [%r3], %r1;
    bar.sync 0;
    ret;
}
.visible .entry tiles(.param .align 64 .b8 map[128])
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    .shared .align 128 .b8 tile[1024];
    .shared .align 8 .b64 barrier;
    mov.b64 %rd1, map;
    cvta.param.u64 %rd2, %rd1;
    mov.u32 %r1, tile;
    mov.u32 %r2, barrier;
    mov.u32 %r3, 0;
    mbarrier.init.shared.b64 [%r2], 1;
    cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
        [%r1], [%rd2, {%r3}], [%r2];
    ret;
}
";

/// The kernels' names, and others.
pub(crate) const NAMES: &[&str] = &[
    "nothing",
    "fill",
    "wild",
    "stops",
    "shares",
    "tiles",
    "numbers",
    "factor",
    "managed",
    "image",
    "dynamic",
    "absent",
    "",
    "cuMemAlloc",
    "cuGetProcAddress",
];

const WRAPPER: u32 = 0x4662_43b1;
const CONTAINER: u32 = 0xba55_ed50;

/// Puts an image somewhere and gives its address and size.
pub(crate) fn put(scratch: &Scratch, rng: &mut Rng) -> (u64, usize) {
    let mut bytes = match rng.below(8) {
        0..3 => text(rng),
        3..6 => several(rng),
        6 => archive(&object(&several(rng))),
        _ => object(&several(rng)),
    };
    if rng.chance(50) {
        damage(&mut bytes, rng);
    }
    let address = scratch.before_end(bytes.len());
    scratch.put_bytes(address, &bytes);
    match rng.chance(25) {
        true => (wrapper(scratch, rng, address), 24),
        false => (address, bytes.len()),
    }
}

fn text(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = PTX.as_bytes().to_vec();
    if rng.chance(90) {
        bytes.push(0);
    }
    bytes
}

/// Some bytes less, or others.
fn damage(bytes: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..=rng.below(4) {
        let at = rng.below(bytes.len());
        match rng.below(4) {
            0 => bytes.truncate(at.max(1)),
            1 => bytes[at] = rng.next() as u8,
            // Most of what is read from headers is at the beginning.
            2 => bytes[at % 80] = rng.pick(&[0, 1, 2, 0x7f, 0x80, 0xff]),
            _ => bytes.resize(bytes.len().div_ceil(8) * 8, 0),
        }
    }
}

/// A container of the module, for some GPUs.
fn several(rng: &mut Rng) -> Vec<u8> {
    let entries: Vec<u8> = (0..=rng.below(3))
        .flat_map(|_| {
            let kind = if rng.chance(10) {
                Entry::Code
            } else {
                Entry::Ptx
            };
            let target = rng.pick(&[75_u32, 80, 90, 100]);
            entry(rng, PTX.as_bytes(), kind, target)
        })
        .collect();
    container(&entries)
}

/// A container of entries.
pub(crate) fn container(entries: &[u8]) -> Vec<u8> {
    let mut bytes = CONTAINER.to_le_bytes().to_vec();
    bytes.extend([1, 0, 16, 0]);
    bytes.extend((entries.len() as u64).to_le_bytes());
    bytes.extend(entries);
    bytes
}

/// What an entry says that it holds.
#[derive(Copy, Clone)]
pub(crate) enum Entry {
    /// PTX.
    Ptx = 1,
    /// Machine code.
    Code = 2,
}

/// An entry for a GPU, which may be compressed.
pub(crate) fn entry(rng: &mut Rng, plain: &[u8], kind: Entry, target: u32) -> Vec<u8> {
    const HEADER: usize = 80;
    let (flags, payload) = match rng.below(3) {
        0 => (0, plain.to_vec()),
        1 => (0x2000, lz4(plain)),
        _ => (0x8000, zstd(plain)),
    };
    let padded = payload.len().next_multiple_of(8);
    let compressed = if flags == 0 { 0 } else { payload.len() };
    let mut header = [0; HEADER];
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &[kind as u8, 0, 1, 1]);
    put(4, &(HEADER as u32).to_le_bytes());
    put(8, &(padded as u32).to_le_bytes());
    put(16, &(compressed as u32).to_le_bytes());
    put(24, &[0, 0, 8, 0]);
    put(28, &target.to_le_bytes());
    put(32, &64_u32.to_le_bytes());
    put(40, &(1_u64 | flags).to_le_bytes());
    put(56, &(plain.len() as u64).to_le_bytes());
    let mut bytes = header.to_vec();
    bytes.extend(payload);
    bytes.resize(HEADER + padded, 0);
    bytes
}

/// An LZ4 block of one run of literals.
fn lz4(plain: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xf0];
    let rest = plain.len() - 15;
    bytes.extend(vec![255; rest / 255]);
    bytes.push((rest % 255) as u8);
    bytes.extend(plain);
    bytes
}

/// A zstd frame of one block that is not compressed.
fn zstd(plain: &[u8]) -> Vec<u8> {
    // The magic number; a single segment whose size has four bytes.
    let mut bytes = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
    bytes.extend((plain.len() as u32).to_le_bytes());
    let header = 1 | (plain.len() as u32) << 3;
    bytes.extend(&header.to_le_bytes()[..3]);
    bytes.extend(plain);
    bytes
}

/// An archive with one member.
pub(crate) fn archive(member: &[u8]) -> Vec<u8> {
    let mut bytes = b"!<arch>\n".to_vec();
    let size = member.len();
    let header = format!(
        "{:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n",
        "a.o/", 0, 0, 0, 644
    );
    bytes.extend(header.as_bytes());
    bytes.extend(member);
    bytes
}

/// An ELF file with a section of fat binaries, whose headers are damaged soon enough.
pub(crate) fn object(section: &[u8]) -> Vec<u8> {
    let names = b"\0.nv_fatbin\0.names\0";
    let offset = 64 + section.len() + names.len();
    let mut bytes = vec![0; 64];
    bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    bytes[16..20].copy_from_slice(&[1, 0, 62, 0]);
    bytes[20] = 1;
    bytes[40..48].copy_from_slice(&(offset as u64).to_le_bytes());
    bytes[52..64].copy_from_slice(&[64, 0, 0, 0, 0, 0, 64, 0, 3, 0, 2, 0]);
    bytes.extend(section);
    bytes.extend(names);
    bytes.extend([0; 64]);
    bytes.extend(section_header(1, 64, section.len()));
    bytes.extend(section_header(12, 64 + section.len(), names.len()));
    bytes
}

fn section_header(name: u32, offset: usize, size: usize) -> Vec<u8> {
    let mut header = vec![0; 64];
    header[..4].copy_from_slice(&name.to_le_bytes());
    header[4] = 1;
    header[24..32].copy_from_slice(&(offset as u64).to_le_bytes());
    header[32..40].copy_from_slice(&(size as u64).to_le_bytes());
    header
}

/// What compilers put before a container: its address.
fn wrapper(scratch: &Scratch, rng: &mut Rng, container: u64) -> u64 {
    let address = scratch.slot();
    let version = rng.pick(&[1, 1, 2, 3]);
    let list = scratch.slot();
    scratch.put(list, &[container, container, 0]);
    scratch.put(
        address,
        &[version << 32 | u64::from(WRAPPER), container, list],
    );
    address
}
