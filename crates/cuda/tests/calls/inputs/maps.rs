//! Tensor maps: random ones, encoded and damaged, and copies through them.

use std::fmt::Write;

use crate::rng::Rng;

use super::{BUFFER, Session};

/// Bytes of a map.
const MAP: usize = 128;

/// What surrounds a tensor on the device.
const GUARD: u8 = 0xa5;

/// Copies that kernels make, with `D` for the number of dimensions, and how many have them.
const COPIES: [(&str, &str, [usize; 2]); 17] = [
    (
        "tile",
        "cp.async.bulk.tensor.Dd.shared::cta.global.tile.mbarrier::complete_tx::bytes [box], [m, C], [bar];",
        [1, 5],
    ),
    (
        "gather",
        "cp.async.bulk.tensor.Dd.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [box], [m, {c0, c1, c2, c3, c4}], [bar];",
        [2, 2],
    ),
    (
        "columns",
        "cp.async.bulk.tensor.Dd.shared::cta.global.im2col.mbarrier::complete_tx::bytes [box], [m, C], [bar], O;",
        [3, 5],
    ),
    (
        "wide",
        "cp.async.bulk.tensor.Dd.shared::cta.global.im2col::w.mbarrier::complete_tx::bytes [box], [m, C], [bar], {o0, o1};",
        [3, 5],
    ),
    (
        "wide_128",
        "cp.async.bulk.tensor.Dd.shared::cta.global.im2col::w::128.mbarrier::complete_tx::bytes [box], [m, C], [bar], {o0, o1};",
        [3, 5],
    ),
    (
        "store",
        "cp.async.bulk.tensor.Dd.global.shared::cta.tile.bulk_group [m, C], [box];",
        [1, 5],
    ),
    (
        "scatter",
        "cp.async.bulk.tensor.Dd.global.shared::cta.tile::scatter4.bulk_group [m, {c0, c1, c2, c3, c4}], [box];",
        [2, 2],
    ),
    (
        "store_columns",
        "cp.async.bulk.tensor.Dd.global.shared::cta.im2col_no_offs.bulk_group [m, C], [box];",
        [3, 5],
    ),
    (
        "prefetch",
        "cp.async.bulk.prefetch.tensor.Dd.L2.global.tile [m, C];",
        [1, 5],
    ),
    (
        "add",
        "cp.reduce.async.bulk.tensor.Dd.global.shared::cta.add.tile.bulk_group [m, C], [box];",
        [1, 5],
    ),
    (
        "min",
        "cp.reduce.async.bulk.tensor.Dd.global.shared::cta.min.tile.bulk_group [m, C], [box];",
        [1, 5],
    ),
    (
        "max",
        "cp.reduce.async.bulk.tensor.Dd.global.shared::cta.max.tile.bulk_group [m, C], [box];",
        [1, 5],
    ),
    (
        "inc",
        "cp.reduce.async.bulk.tensor.Dd.global.shared::cta.inc.tile.bulk_group [m, C], [box];",
        [1, 3],
    ),
    (
        "dec",
        "cp.reduce.async.bulk.tensor.Dd.global.shared::cta.dec.tile.bulk_group [m, C], [box];",
        [1, 3],
    ),
    (
        "and",
        "cp.reduce.async.bulk.tensor.Dd.global.shared::cta.and.tile.bulk_group [m, C], [box];",
        [1, 3],
    ),
    (
        "or",
        "cp.reduce.async.bulk.tensor.Dd.global.shared::cta.or.tile.bulk_group [m, C], [box];",
        [1, 3],
    ),
    (
        "xor",
        "cp.reduce.async.bulk.tensor.Dd.global.shared::cta.xor.tile.bulk_group [m, C], [box];",
        [1, 3],
    ),
];

/// Encodes a map and launches copies through it, as it is and damaged.
pub(super) fn round(session: &mut Session, rng: &mut Rng) {
    let rank = 1 + rng.below(5);
    let Some(tensor) = Tensor::new(session, rank, rng) else {
        return;
    };
    let mut kernels: Vec<(String, String)> = Vec::new();
    for _ in 0..3 {
        // Mostly copies of the map's dimensions, since all others are refused.
        let n_dims = if rng.chance(85) {
            rank
        } else {
            1 + rng.below(5)
        };
        let fits = |copy: &&(&str, &str, [usize; 2])| (copy.2[0]..=copy.2[1]).contains(&n_dims);
        let copies: Vec<_> = COPIES.iter().filter(fits).collect();
        let &(name, text, _) = rng.pick(&copies);
        kernels.push((format!("{name}{}", kernels.len()), copy(text, n_dims)));
    }
    let mut ptx = ".version 8.8\n.target sm_100a\n.address_size 64\n\
        .extern .shared .align 1024 .b8 room[];\n"
        .to_owned();
    for (name, copy) in &kernels {
        let _ = write!(ptx, "{}", kernel(name, copy));
    }
    ptx.push('\0');
    let image = super::loads::place(session, ptx.as_bytes());
    let out = session.scratch.slot();
    session.expect("cuModuleLoadData", &[out, image]);
    let module = session.word(out);
    for (name, _) in &kernels {
        let name = session.string(name);
        session.expect("cuModuleGetFunction", &[out, module, name]);
        let function = session.word(out);
        let is_damaged = rng.chance(60);
        let mut map = tensor.map;
        if is_damaged {
            damage(&mut map, rng);
        }
        if !is_damaged {
            let buffer = [session.buffer, u64::from(GUARD), BUFFER];
            session.expect("cuMemsetD8_v2", &buffer);
        }
        launch(session, function, &map, rng);
        if !session.synchronize() {
            // With its context the module has ended, and the tensor's buffer.
            return;
        }
        if !is_damaged {
            tensor.check_surroundings(session);
        }
    }
    session.expect("cuModuleUnload", &[module]);
}

/// A tensor in the buffer, and a map of it.
struct Tensor {
    map: [u8; MAP],
    /// The first byte of the buffer that belongs to the tensor, and the first behind it.
    range: [u64; 2],
}

impl Tensor {
    /// A map that the driver has taken, if it takes this one.
    fn new(session: &Session, rank: usize, rng: &mut Rng) -> Option<Tensor> {
        let dtype = rng.below(16);
        let size = [1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4, 1, 1, 1][dtype];
        let interleave = rng.pick(&[0, 0, 0, 0, 1, 2]);
        let offset = rng.pick(&[0, 16, 32, 64, 4096, 4096 + 16]);
        let mut dims: Vec<u64> = (0..rank).map(|_| 1 + rng.below(40) as u64).collect();
        // Types of several elements in 16 or 32 bytes, and rows of 16 bytes.
        if dtype >= 13 || rng.chance(60) {
            dims[0] = 128 * (1 + rng.below(2) as u64);
        }
        let mut strides = Vec::new();
        let mut stride = (dims[0] * size).next_multiple_of(32);
        for &dim in &dims[1..] {
            strides.push(stride);
            stride = stride * dim + rng.pick(&[0, 0, 32]);
        }
        let mut sides: Vec<u32> = (0..rank).map(|_| 1 + rng.below(8) as u32).collect();
        if rng.chance(70) {
            sides[0] = rng.pick(&[16, 32, 64, 128, 256]) / size as u32;
        }
        let mut steps = vec![1_u32; rank];
        if rng.chance(20) {
            steps[rng.below(rank)] = 1 + rng.below(8) as u32;
        }
        // Some numbers at their limits: most of those maps are refused.
        if rng.chance(15) {
            dims[rng.below(rank)] = rng.pick(&[0, 1 << 32, (1 << 32) + 1, u64::MAX]);
        }
        if rng.chance(15) && rank > 1 {
            strides[rng.below(rank - 1)] =
                rng.pick(&[0, 16, 1 << 40, (1 << 40) - 16, u64::MAX - 15]);
        }
        if rng.chance(10) {
            sides[rng.below(rank)] = rng.pick(&[0, 256, 257, u32::MAX]);
        }
        let address = session.buffer + BUFFER / 4 + offset;
        let lists = [(); 6].map(|()| session.scratch.slot());
        let [out, dims_at, strides_at, sides_at, steps_at, corners] = lists;
        session.scratch.put(dims_at, &dims);
        session.scratch.put(strides_at, &strides);
        session.scratch.put_bytes(sides_at, &bytes_of(&sides));
        session.scratch.put_bytes(steps_at, &bytes_of(&steps));
        let swizzle = rng.below(8) as u64;
        let [l2, fill] = [rng.below(4) as u64, rng.pick(&[0, 0, 1])];
        let head = [out, dtype as u64, rank as u64, address, dims_at, strides_at];
        let corner = |rng: &mut Rng| (rng.below(9) as i32 - 4) as u32;
        let code = match rng.below(4) {
            0 if rank > 2 => {
                let all: Vec<u32> = (0..6).map(|_| corner(rng)).collect();
                session.scratch.put_bytes(corners, &bytes_of(&all));
                let [channels, pixels] = [sides[0], 1 + rng.below(40) as u32].map(u64::from);
                let tail = [
                    corners,
                    corners + 12,
                    channels,
                    pixels,
                    steps_at,
                    interleave,
                    swizzle,
                    l2,
                    fill,
                ];
                session.call("cuTensorMapEncodeIm2col", &[&head[..], &tail].concat())
            }
            1 if rank > 2 => {
                let [low, high] = [(); 2].map(|()| u64::from(corner(rng)));
                let [channels, pixels] = [sides[0], 1 + rng.below(40) as u32].map(u64::from);
                let mode = rng.below(2) as u64;
                let tail = [
                    low, high, channels, pixels, steps_at, interleave, mode, swizzle, l2, fill,
                ];
                session.call("cuTensorMapEncodeIm2colWide", &[&head[..], &tail].concat())
            }
            _ => {
                let tail = [sides_at, steps_at, interleave, swizzle, l2, fill];
                session.call("cuTensorMapEncodeTiled", &[&head[..], &tail].concat())
            }
        };
        if code != 0 {
            return None;
        }
        let mut map = [0; MAP];
        for (idx, bytes) in map.chunks_mut(8).enumerate() {
            bytes.copy_from_slice(&session.word(out + 8 * idx as u64).to_ne_bytes());
        }
        // Up to the last row's last byte; elements of fewer bytes than one count as one.
        let above = |(&dim, &stride): (&u64, &u64)| (dim - 1).saturating_mul(stride);
        let rows = dims[1..].iter().zip(&strides).map(above);
        let extent = rows.fold(dims[0].saturating_mul(size), u64::saturating_add);
        let start = BUFFER / 4 + offset;
        let range = [start, start.saturating_add(extent).min(BUFFER)];
        Some(Tensor { map, range })
    }

    /// Copies through a map that is not damaged leave what surrounds the tensor as it is.
    fn check_surroundings(&self, session: &Session) {
        let all = session.read(session.buffer, BUFFER as usize);
        let [start, end] = self.range.map(|at| at as usize);
        let is_touched = |bytes: &[u8]| bytes.iter().any(|&byte| byte != GUARD);
        if is_touched(&all[..start]) || is_touched(&all[end..]) {
            session.found("a copy has written outside of its tensor");
        }
    }
}

fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Some bits, bytes or words of a map that are others.
fn damage(map: &mut [u8; MAP], rng: &mut Rng) {
    for _ in 0..=rng.below(3) {
        let at = rng.below(MAP);
        match rng.below(4) {
            0 => map[at] ^= 1 << rng.below(8),
            1 => map[at] = rng.next() as u8,
            2 => {
                let word = rng
                    .pick(&[0, 1, u32::MAX, 0x7fff_ffff, 1 << 31])
                    .to_ne_bytes();
                map[at & !3..][..4].copy_from_slice(&word);
            }
            _ => {
                let word = rng.pick(&[0, u64::MAX, 1 << 47, 1 << 63, 8]).to_ne_bytes();
                map[at & !7..][..8].copy_from_slice(&word);
            }
        }
    }
}

/// An instruction of a kernel, with its coordinates.
fn copy(text: &str, n_dims: usize) -> String {
    let list = |name: &str, n: usize| {
        let names: Vec<String> = (0..n).map(|idx| format!("{name}{idx}")).collect();
        format!("{{{}}}", names.join(", "))
    };
    text.replace("Dd", &format!("{n_dims}d"))
        .replace(" C", &format!(" {}", list("c", n_dims)))
        .replace(" O", &format!(" {}", list("o", n_dims.saturating_sub(2))))
}

/// A kernel with one copy, whose end it waits for a while: a copy of fewer bytes than were
/// announced never completes the barrier's phase.
fn kernel(name: &str, copy: &str) -> String {
    format!(
        ".visible .entry {name}(.param .align 64 .b8 map[128], .param .align 4 .b8 at[20], .param .u32 bytes)
{{
    .reg .pred p, q;
    .reg .b64 m;
    .reg .b32 c<5>, box, bar, n, t;
    .reg .b16 o<3>;
    .shared .align 8 .b64 barrier;
    mov.u32 t, %tid.x;
    setp.ne.u32 p, t, 0;
    @p ret;
    mov.b64 m, map;
    cvta.param.u64 m, m;
    mov.u32 box, room;
    mov.u32 bar, barrier;
    ld.param.b32 c0, [at]; ld.param.b32 c1, [at+4]; ld.param.b32 c2, [at+8];
    ld.param.b32 c3, [at+12]; ld.param.b32 c4, [at+16];
    cvt.u16.u32 o0, c4; cvt.u16.u32 o1, c3; cvt.u16.u32 o2, c2;
    ld.param.u32 n, [bytes];
    mbarrier.init.shared.b64 [bar], 1;
    mbarrier.arrive.expect_tx.shared.b64 _, [bar], n;
    {copy}
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    mov.u32 n, 0;
again:
    mbarrier.try_wait.parity.shared.b64 p, [bar], 0;
    add.u32 n, n, 1;
    setp.lt.and.u32 q, n, 20, !p;
    @q bra again;
    ret;
}}
"
    )
}

fn launch(session: &Session, function: u64, map: &[u8; MAP], rng: &mut Rng) {
    let [list, at, bytes] = [(); 3].map(|()| session.scratch.slot());
    let place = at + 512;
    session.scratch.put_bytes(place, map);
    let far = [i32::MIN, i32::MAX, -1000, 1 << 16];
    let coordinates: Vec<u32> = (0..5)
        .map(|_| match rng.below(8) {
            0 => rng.pick(&far) as u32,
            _ => (rng.below(50) as i32 - 8) as u32,
        })
        .collect();
    session.scratch.put_bytes(at, &bytes_of(&coordinates));
    let announced = rng.pick(&[16_u64, 128, 1024, 4096, (1 << 20) - 1]);
    session.scratch.put(bytes, &[announced]);
    session.scratch.put(list, &[place, at, bytes]);
    // The barrier lies in shared memory, too, of which a kernel has 48 KiB without asking for more.
    let shared = rng.pick(&[16_384, 16_384, 32_768, 1024, 0]);
    session.expect(
        "cuLaunchKernel",
        &[function, 1, 1, 1, 32, 1, 1, shared, 0, list, 0],
    );
}
