//! Inputs of the linker, and the images that it writes.

use crate::images::{self, Entry, PTX};
use crate::rng::Rng;

use super::{Session, damage, loads};

const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

/// Calls the others, and uses their variables.
const USER: &str = ".extern .func (.param .b32 r) twice(.param .b32 x);
.extern .global .align 4 .u32 shift;
.common .global .align 4 .b8 room[16];
.func (.param .b32 r) own(.param .b32 x)
{ .reg .b32 %a; ld.param.b32 %a, [x]; add.u32 %a, %a, 1; st.param.b32 [r], %a; ret; }
.visible .entry links(.param .u64 to)
{
    .reg .b32 %r<4>;
    .reg .b64 %p;
    .param .b32 x;
    .param .b32 y;
    ld.param.u64 %p, [to];
    mov.u32 %r1, 20;
    st.param.b32 [x], %r1;
    call (y), twice, (x);
    ld.param.b32 %r1, [y];
    st.param.b32 [x], %r1;
    call (y), own, (x);
    ld.param.b32 %r1, [y];
    ld.global.u32 %r2, [shift];
    shl.b32 %r1, %r1, %r2;
    st.global.u32 [%p], %r1;
    ret;
}
";

/// Defines what it uses, with a private function of the same name.
const MAKER: &str = ".visible .global .align 4 .u32 shift = 1;
.common .global .align 8 .b8 room[64];
.func own() { ret; }
.visible .func (.param .b32 r) twice(.param .b32 x)
{ .reg .b32 %a; ld.param.b32 %a, [x]; add.u32 %a, %a, %a; call own; st.param.b32 [r], %a; ret; }
";

/// Defines the same, but gives way.
const WEAK: &str = ".weak .global .align 4 .u32 shift = 9;
.weak .func (.param .b32 r) twice(.param .b32 x)
{ .reg .b32 %a; ld.param.b32 %a, [x]; st.param.b32 [r], %a; ret; }
";

/// Declares the names as something else.
const LIAR: &str = ".extern .func twice(.param .b64 x);
.extern .const .align 8 .u64 shift;
.extern .entry links(.param .u64 to);
.common .global .align 4 .u32 own;
.visible .global .u64 table[2] = { generic(shift), twice };
";

/// What `links` computes: 20, doubled, and one, shifted by one.
const EXPECTED: u32 = 82;

/// Types of inputs as the driver counts them.
const CUBIN: u64 = 0;
const PTX_TEXT: u64 = 1;
const FATBIN: u64 = 2;
const OBJECT: u64 = 3;
const LIBRARY: u64 = 4;

/// Links some inputs, loads the result, and links it again.
pub(super) fn round(session: &mut Session, rng: &mut Rng) {
    let is_whole = rng.chance(25);
    let (keys, values) = loads::log_options(session, rng);
    let out = session.scratch.slot();
    session.expect("cuLinkCreate_v2", &[4, keys, values, out]);
    let link = session.word(out);
    match is_whole {
        true => add_whole(session, link, rng),
        false => add_some(session, link, rng),
    }
    let size = session.scratch.slot();
    session.may_be_unknown.set(!is_whole);
    let code = session.call("cuLinkComplete", &[link, out, size]);
    session.may_be_unknown.set(false);
    if code != 0 {
        if is_whole {
            session.found(&format!("inputs that are not damaged gave {code}"));
        }
    } else {
        let (image, size) = (session.word(out), session.word(size));
        use_linked(session, (image, size), is_whole, rng);
    }
    session.expect("cuLinkDestroy", &[link]);
}

/// The two parts that fit, and perhaps the weak one, in any order and form.
fn add_whole(session: &Session, link: u64, rng: &mut Rng) {
    let mut parts = vec![USER, MAKER];
    if rng.chance(50) {
        parts.insert(rng.below(3), WEAK);
    }
    if rng.chance(50) {
        parts.swap(0, 1);
    }
    for part in parts {
        let (bytes, kind) = formed(&format!("{HEAD}{part}"), rng);
        let address = loads::place(session, &bytes);
        let name = session.string("part");
        let words = [link, kind, address, bytes.len() as u64, name, 0, 0, 0];
        session.expect("cuLinkAddData_v2", &words);
    }
}

/// Up to five parts, most of them damaged, with types and sizes that need not fit.
fn add_some(session: &Session, link: u64, rng: &mut Rng) {
    for _ in 0..=rng.below(5) {
        let part = rng.pick(&[USER, MAKER, WEAK, LIAR, PTX]);
        let mut text = match part == PTX {
            true => part.to_owned(),
            false => format!("{HEAD}{part}"),
        };
        if rng.chance(30) {
            text = damage::text(&text, rng);
        }
        let (mut bytes, mut kind) = formed(&text, rng);
        if rng.chance(30) {
            damage::bytes(&mut bytes, rng);
        }
        if rng.chance(10) {
            kind = rng.below(9) as u64;
        }
        let address = loads::place(session, &bytes);
        let len = bytes.len() as u64;
        let len = match rng.chance(10) {
            true => rng.pick(&[0, 1, len / 2, len + 1, len + 8, 1 << 40, u64::MAX]),
            false => len,
        };
        let name = rng.pick(&[0, session.string("part"), 8]);
        if rng.chance(20) {
            std::fs::write("part", &bytes).expect("the folder can be written");
            let path = session.string(rng.pick(&["part", "absent", ""]));
            session.call("cuLinkAddFile_v2", &[link, kind, path, 0, 0, 0]);
        } else {
            let words = [link, kind, address, len, name, 0, 0, 0];
            session.call("cuLinkAddData_v2", &words);
        }
    }
}

/// PTX in one of the forms in which the linker takes it, and the type of that.
fn formed(text: &str, rng: &mut Rng) -> (Vec<u8>, u64) {
    let container =
        |rng: &mut Rng| images::container(&images::entry(rng, text.as_bytes(), Entry::Ptx, 80));
    match rng.below(4) {
        0 => ([text.as_bytes(), b"\0"].concat(), PTX_TEXT),
        1 => (container(rng), FATBIN),
        2 => (images::object(&container(rng)), OBJECT),
        _ => (images::archive(&images::object(&container(rng))), LIBRARY),
    }
}

/// Loads and runs what was linked, links it again, and loads it damaged.
fn use_linked(session: &mut Session, (image, size): (u64, u64), is_whole: bool, rng: &mut Rng) {
    let out = session.scratch.slot();
    let code = session.call("cuModuleLoadData", &[out, image]);
    if code == 0 {
        let module = session.word(out);
        if is_whole {
            run(session, module);
        }
        if loads::use_module(session, module, false, rng) {
            session.expect("cuModuleUnload", &[module]);
        }
    } else if is_whole {
        session.found(&format!("a linked image gave {code}"));
    }
    // SAFETY: the linker has told that the image lies there, and it stays until the link is
    // destroyed.
    let bytes = unsafe { std::slice::from_raw_parts(image as *const u8, size as usize) };
    let mut bytes = bytes.to_vec();
    again(session, &bytes, is_whole, rng);
    damage::bytes(&mut bytes, rng);
    let address = loads::place(session, &bytes);
    if session.call("cuModuleLoadData", &[out, address]) == 0 {
        let module = session.word(out);
        if loads::use_module(session, module, false, rng) {
            session.expect("cuModuleUnload", &[module]);
        }
    }
}

fn again(session: &Session, image: &[u8], is_whole: bool, rng: &mut Rng) {
    let [out, size] = [(); 2].map(|()| session.scratch.slot());
    session.expect("cuLinkCreate_v2", &[0, 0, 0, out]);
    let link = session.word(out);
    let address = loads::place(session, image);
    let kind = rng.pick(&[CUBIN, FATBIN, OBJECT]);
    let words = [link, kind, address, image.len() as u64, 0, 0, 0, 0];
    if is_whole {
        session.expect("cuLinkAddData_v2", &words);
        session.expect("cuLinkComplete", &[link, out, size]);
    } else {
        session.may_be_unknown.set(true);
        session.call("cuLinkAddData_v2", &words);
        session.call("cuLinkComplete", &[link, out, size]);
        session.may_be_unknown.set(false);
    }
    session.expect("cuLinkDestroy", &[link]);
}

fn run(session: &mut Session, module: u64) {
    let [out, list, values] = [(); 3].map(|()| session.scratch.slot());
    let name = session.string("links");
    session.expect("cuModuleGetFunction", &[out, module, name]);
    let function = session.word(out);
    session.scratch.put(values, &[session.buffer]);
    session.scratch.put(list, &[values]);
    session.expect(
        "cuLaunchKernel",
        &[function, 1, 1, 1, 32, 1, 1, 0, 0, list, 0],
    );
    session.expect("cuCtxSynchronize", &[]);
    if session.read(session.buffer, 4) != EXPECTED.to_le_bytes() {
        session.found("what was linked computes something else");
    }
}
