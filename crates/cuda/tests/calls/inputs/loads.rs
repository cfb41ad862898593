//! Images as modules and as libraries.

use crate::images::{self, Entry, NAMES};
use crate::rng::Rng;

use super::{Session, damage};

/// Images that NVIDIA's tools have written.
const FILES: [&[u8]; 9] = [
    include_bytes!("../../../../image/tests/data/lz4.fatbin"),
    include_bytes!("../../../../image/tests/data/zstd.fatbin"),
    include_bytes!("../../../../image/tests/data/plain.fatbin"),
    include_bytes!("../../../../image/tests/data/mixed.fatbin"),
    include_bytes!("../../../../image/tests/data/family.fatbin"),
    include_bytes!("../../../../image/tests/data/nvcc13.fatbin"),
    include_bytes!("../../../../image/tests/data/user.o"),
    include_bytes!("../../../../image/tests/data/pair.a"),
    include_bytes!("../../../../image/tests/data/sm80.cubin"),
];

/// Functions of a module that are used; damaged modules have about as many as the others.
const MAX_FUNCTIONS: u64 = 12;

/// Loads an image, uses what is in it, and unloads it.
pub(super) fn round(session: &mut Session, rng: &mut Rng) {
    let is_whole = rng.chance(20);
    let image = match is_whole {
        true => whole(rng),
        false => damaged(rng),
    };
    let address = place(session, &image);
    let out = session.scratch.slot();
    let code = match rng.below(6) {
        0 => session.call("cuModuleLoadData", &[out, address]),
        1 => session.call("cuModuleLoadFatBinary", &[out, address]),
        2 => load_file(session, &image, out),
        3 | 4 => {
            let (keys, values) = log_options(session, rng);
            session.call("cuModuleLoadDataEx", &[out, address, 4, keys, values])
        }
        _ => return library(session, address, is_whole, rng),
    };
    if code != 0 {
        if is_whole {
            session.found(&format!("an image that is not damaged gave {code}"));
        }
        return;
    }
    let module = session.word(out);
    if use_module(session, module, is_whole, rng) {
        session.expect("cuModuleUnload", &[module]);
    }
}

/// An image with the module of all fuzzers that loads.
fn whole(rng: &mut Rng) -> Vec<u8> {
    let ptx = damage::module(false, rng);
    if rng.chance(30) {
        return [ptx.as_bytes(), b"\0"].concat();
    }
    let mut entries = Vec::new();
    for _ in 0..rng.below(3) {
        let kind = rng.pick(&[Entry::Ptx, Entry::Code]);
        let target = if matches!(kind, Entry::Ptx) { 120 } else { 90 };
        entries.extend(images::entry(
            rng,
            b"of another GPU, or machine code",
            kind,
            target,
        ));
    }
    entries.extend(images::entry(rng, ptx.as_bytes(), Entry::Ptx, 90));
    images::container(&entries)
}

fn damaged(rng: &mut Rng) -> Vec<u8> {
    // Half of the damage is to the text, so that the container around it is read to its end.
    let is_text_damaged = rng.chance(50);
    let ptx = damage::module(is_text_damaged, rng);
    let mut image = match rng.below(8) {
        0..3 => [ptx.as_bytes(), b"\0"].concat(),
        3..5 => images::container(&images::entry(rng, ptx.as_bytes(), Entry::Ptx, 90)),
        5 => images::object(&images::container(&images::entry(
            rng,
            ptx.as_bytes(),
            Entry::Ptx,
            80,
        ))),
        _ => rng.pick(&FILES).to_vec(),
    };
    if !is_text_damaged || rng.chance(20) {
        damage::bytes(&mut image, rng);
    }
    image
}

/// Puts an image where nothing is behind it.
pub(super) fn place(session: &Session, image: &[u8]) -> u64 {
    let address = session.pages.before_end(image.len());
    session.pages.put_bytes(address, image);
    address
}

fn load_file(session: &Session, image: &[u8], out: u64) -> u32 {
    std::fs::write("image", image).expect("the folder can be written");
    let path = session.string("image");
    session.call("cuModuleLoad", &[out, path])
}

/// Keys and values of four options: two logs and their sizes.
pub(super) fn log_options(session: &Session, rng: &mut Rng) -> (u64, u64) {
    let [keys, values, info, error] = [(); 4].map(|()| session.scratch.slot());
    session.scratch.put(keys, &[3 | 4 << 32, 5 | 6 << 32]);
    let [info_size, error_size] = [(); 2].map(|()| rng.pick(&[0, 1, 2, 80, 1024]));
    session
        .scratch
        .put(values, &[info, info_size, error, error_size]);
    (keys, values)
}

fn library(session: &mut Session, address: u64, is_whole: bool, rng: &mut Rng) {
    let out = session.scratch.slot();
    let code = session.call("cuLibraryLoadData", &[out, address, 0, 0, 0, 0, 0, 0]);
    if code != 0 {
        if is_whole {
            session.found(&format!("a library that is not damaged gave {code}"));
        }
        return;
    }
    let library = session.word(out);
    let name = session.string(rng.pick(NAMES));
    if session.call("cuLibraryGetKernel", &[out, library, name]) == 0 {
        let kernel = session.word(out);
        let size = session.scratch.slot();
        for idx in 0..4 {
            session.call("cuKernelGetParamInfo", &[kernel, idx, out, size]);
        }
    }
    session.call("cuLibraryGetManaged", &[out, 0, library, name]);
    if session.call("cuLibraryGetModule", &[out, library]) == 0 {
        let module = session.word(out);
        use_module(session, module, is_whole, rng);
    }
    session.expect("cuLibraryUnload", &[library]);
}

/// Asks for all that is in a module, and launches its kernels; whether the module is still there.
pub(super) fn use_module(
    session: &mut Session,
    module: u64,
    is_whole: bool,
    rng: &mut Rng,
) -> bool {
    let [out, size] = [(); 2].map(|()| session.scratch.slot());
    for name in NAMES {
        let name = session.string(name);
        if session.call("cuModuleGetGlobal_v2", &[out, size, module, name]) == 0 {
            let (address, size) = (session.word(out), session.word(size));
            session.read(address, size.min(64) as usize);
        }
    }
    session.call("cuModuleGetFunctionCount", &[out, module]);
    if is_whole {
        fill(session, module);
    }
    let count = (session.word(out) & 0xffff_ffff).min(MAX_FUNCTIONS);
    let list = session.scratch.slot();
    if session.call("cuModuleEnumerateFunctions", &[list, count, module]) != 0 {
        return true;
    }
    // Some kernels end the context, so each should be the first once.
    let start = rng.below(16) as u64;
    for idx in 0..count {
        let function = session.word(list + 8 * ((idx + start) % count));
        for attribute in 0..10 {
            session.call("cuFuncGetAttribute", &[out, attribute, function]);
        }
        session.call(
            "cuFuncGetParamInfo",
            &[function, rng.below(4) as u64, out, size],
        );
        if launch(session, function, rng) == 0 && !session.synchronize() {
            return false;
        }
    }
    true
}

/// Launches a kernel with arguments that mean something to most.
fn launch(session: &Session, function: u64, rng: &mut Rng) -> u32 {
    let [list, values] = [(); 2].map(|()| session.scratch.slot());
    session.scratch.put(values, &[session.buffer, 32, 64, 1, 0]);
    let places: Vec<u64> = (0..16).map(|idx| values + 8 * idx).collect();
    session.scratch.put(list, &places);
    let (grid, block) = (rng.pick(&[1, 1, 2]), rng.pick(&[1, 32, 33, 128]));
    let shared = rng.pick(&[0, 16, 1024]);
    session.call(
        "cuLaunchKernel",
        &[function, grid, 1, 1, block, 1, 1, shared, 0, list, 0],
    )
}

/// The kernel `fill` writes the numbers of its threads.
fn fill(session: &mut Session, module: u64) {
    let [out, list, values] = [(); 3].map(|()| session.scratch.slot());
    let name = session.string("fill");
    session.expect("cuModuleGetFunction", &[out, module, name]);
    let function = session.word(out);
    session.scratch.put(values, &[session.buffer, 64]);
    session.scratch.put(list, &[values, values + 8]);
    session.expect(
        "cuLaunchKernel",
        &[function, 2, 1, 1, 32, 1, 1, 0, 0, list, 0],
    );
    session.expect("cuCtxSynchronize", &[]);
    let expected: Vec<u8> = (0..64_u32).flat_map(u32::to_le_bytes).collect();
    if session.read(session.buffer, 256) != expected {
        session.found("fill wrote something else");
    }
}
