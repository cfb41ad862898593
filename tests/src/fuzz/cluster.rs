//! Random programs of clusters: threads reach the shared memory of other CTAs, arrive at mbarriers
//! there, and copy in bulk.
//!
//! A program is a sequence of steps, some of them in loops that all threads make alike. A step
//! begins and ends where all threads of the cluster meet, and in between each place in memory is
//! written by one thread or copy, or changed by operations whose order does not show. So a program
//! does the same under every schedule, those under which copies complete late included. Each step
//! that waits has mbarriers of its own, and the parity that it waits for in a register.

use std::fmt::Write;

use super::access::{INTS, operand, vector};
use super::case::Case;
use super::generate::{Gen, Program, kernel_of};
use super::ops::Ftz;
use super::rng::Rng;
use super::tree::Node;

/// Bytes of a thread's slot in each of the two rooms.
const SLOT: usize = 16;
/// Most threads of a CTA.
const MOST_THREADS: usize = 128;
/// Most threads of the grid: each has words of the input to begin with.
const MOST_IN_GRID: u32 = 768;
/// Shapes of clusters.
const SHAPES: [[u32; 3]; 7] = [
    [1, 1, 1],
    [2, 1, 1],
    [2, 1, 1],
    [1, 3, 1],
    [2, 2, 1],
    [4, 1, 1],
    [4, 2, 1],
];
const BLOCKS: [[u32; 3]; 7] = [
    [32, 1, 1],
    [64, 1, 1],
    [33, 1, 1],
    [7, 1, 1],
    [16, 4, 1],
    [5, 3, 2],
    [128, 1, 1],
];

/// All threads of the cluster meet.
const MEET: &str = "    barrier.cluster.arrive;\n    barrier.cluster.wait;\n";

/// The same, and what threads have written is there for copies, too.
const MEET_COPIES: &str =
    "    fence.proxy.async;\n    barrier.cluster.arrive;\n    barrier.cluster.wait;\n";

/// A program in the making.
struct Making {
    g: Gen,
    /// CTAs of a cluster.
    n: usize,
    /// Threads of a CTA.
    n_threads: usize,
    /// Arrivals that the phases of each mbarrier take.
    barriers: Vec<usize>,
    in_loop: bool,
}

/// The program of a seed, and its launch.
pub fn program(seed: u64) -> (Program, Case) {
    let mut rng = Rng::new(seed ^ 0xc105_7e25);
    let (shape, mut block) = (*rng.pick(&SHAPES), *rng.pick(&BLOCKS));
    let grid = [shape[0] * (1 + rng.below(2) as u32), shape[1], shape[2]];
    let n_ctas: u32 = grid.iter().product();
    if n_ctas * block.iter().product::<u32>() > MOST_IN_GRID {
        block = [32, 1, 1];
    }
    let case = Case {
        grid,
        block,
        data: rng.next() % 1_000_000,
    };
    let n_steps = 1 + rng.below(8);
    let mut making = Making {
        g: Gen::new(rng, Ftz::None),
        n: shape.iter().product::<u32>() as usize,
        n_threads: block.iter().product::<u32>() as usize,
        barriers: Vec::new(),
        in_loop: false,
    };
    making.g.start(0);
    let body = (0..n_steps).map(|_| making.statement()).collect();
    let [x, y, z] = shape;
    let directives = format!(" .reqnctapercluster {x}, {y}, {z}");
    let start = making.start();
    let kernel = kernel_of(&making.g, &directives, &start, body);
    let functions = vec![kernel];
    (Program { functions }, case)
}

impl Making {
    /// What comes before the first step: the rooms, and the mbarriers.
    fn start(&self) -> String {
        let mut text = format!(
            "    .reg .b32 %rank, %a_own, %b_own;\n    .reg .pred %first;\n    .shared .align 128 .b8 rooms[{}];\n    \
             .shared .align 8 .b64 bars[{}];\n    mov.u32 %rank, %cluster_ctarank;\n    setp.eq.u32 %first, %ct, 0;\n    \
             mov.u32 %a_own, rooms;\n    mad.lo.u32 %a_own, %ct, {SLOT}, %a_own;\n    add.u32 %b_own, %a_own, {};\n",
            2 * SLOT * MOST_THREADS,
            self.barriers.len() + 1,
            SLOT * MOST_THREADS,
        );
        for (idx, count) in self.barriers.iter().enumerate() {
            let _ = write!(
                text,
                "    .reg .b32 %phase{idx};\n    mov.u32 %phase{idx}, 0;\n    \
                 @%first mbarrier.init.shared.b64 [bars+{}], {count};\n",
                8 * idx
            );
        }
        // Nothing is read that was never written.
        for room in ["%a_own", "%b_own"] {
            let _ = writeln!(
                text,
                "    st.shared.v4.b32 [{room}], {{%r0, %r1, %r3, %r6}};"
            );
        }
        text + "    fence.mbarrier_init.release.cluster;\n" + MEET_COPIES
    }

    fn statement(&mut self) -> Node {
        if !self.in_loop && self.g.rng.chance(20) {
            return self.repeated();
        }
        match self.g.rng.below(10) {
            0 | 1 => self.g.compute(),
            2 => self.split_barrier(),
            _ => Node::text(self.step()),
        }
    }

    /// A loop that all threads make equally often.
    fn repeated(&mut self) -> Node {
        self.in_loop = true;
        let n_steps = 1 + self.g.rng.below(3);
        let body = (0..n_steps).map(|_| self.statement()).collect();
        self.in_loop = false;
        let (id, left, p) = (self.g.id(), self.g.temp("b32"), self.g.temp("pred"));
        let n = 2 + self.g.rng.below(3);
        Node::text(format!("    mov.u32 {left}, {n};\nAGAIN_{id}:\n"))
            .body(body)
            .with(format!(
                "    sub.u32 {left}, {left}, 1;\n    setp.ne.u32 {p}, {left}, 0;\n    @{p} bra AGAIN_{id};\n"
            ))
    }

    fn step(&mut self) -> String {
        match self.g.rng.below(12) {
            0 => self.remote_load(),
            1 => self.remote_store(),
            2 => self.remote_atomic(),
            3 => self.remote_update(),
            4 => self.meet_at_barrier(),
            5 => self.meet_at_remote_barriers(),
            6 => self.copies(),
            7 => self.bulk_in(),
            8 => self.bulk_out(),
            9 => self.bulk_reduce(),
            10 if self.n > 1 => self.bulk_across(),
            11 if self.n > 1 => self.store_across(),
            _ => self.windows(),
        }
    }

    /// An mbarrier of a step, whose phases take so many arrivals: its number.
    fn barrier(&mut self, arrivals: usize) -> usize {
        self.barriers.push(arrivals);
        self.barriers.len() - 1
    }

    /// Waits for the next phase of an mbarrier.
    fn wait(&mut self, barrier: usize) -> String {
        let (id, p, t) = (self.g.id(), self.g.temp("pred"), self.g.temp("b32"));
        let at = 8 * barrier;
        let how = *self.g.rng.pick(&["test_wait", "try_wait"]);
        let sem = *self.g.rng.pick(&["", ".acquire.cluster", ".acquire.cta"]);
        // Remote arrivals and copies need the scope of the cluster.
        let sem = if self.n > 1 { ".acquire.cluster" } else { sem };
        let time = match (how, self.g.rng.chance(30)) {
            ("try_wait", true) => ", 100",
            _ => "",
        };
        format!(
            "    mov.u32 {t}, bars;\nWAIT_{id}:\n    mbarrier.{how}.parity{sem}.shared::cta.b64 {p}, [{t}+{at}], %phase{barrier}{time};\n    \
             @!{p} bra WAIT_{id};\n    xor.b32 %phase{barrier}, %phase{barrier}, 1;\n"
        )
    }

    /// The rank of a CTA, in a register: another in the same way for all threads, or any.
    fn rank(&mut self, any: bool) -> (String, String) {
        let (t, n, r) = (self.g.temp("b32"), self.n, self.g.reg('r'));
        let text = match any && self.g.rng.chance(50) {
            true => format!("    rem.u32 {t}, {r}, {n};\n"),
            // One that is not the own where there are several.
            false => {
                let k = 1 + self.g.rng.below((n - 1).max(1));
                format!("    add.u32 {t}, %rank, {k};\n    rem.u32 {t}, {t}, {n};\n")
            }
        };
        (text, t)
    }

    /// The address of the slot of another thread, in another CTA: each thread names another one.
    /// Text, address, whether it is a generic one.
    fn place(&mut self, room: usize, any: bool) -> (String, String, bool) {
        let (mut text, rank) = self.rank(any);
        let (t, m) = (self.g.temp("b32"), self.g.rng.below(self.n_threads));
        let _ = write!(
            text,
            "    add.u32 {t}, %ct, {m};\n    rem.u32 {t}, {t}, %cn;\n    mov.u32 %a0, rooms;\n    \
             mad.lo.u32 {t}, {t}, {SLOT}, %a0;\n    add.u32 {t}, {t}, {};\n",
            room * SLOT * MOST_THREADS
        );
        if self.g.rng.chance(60) {
            let to = self.g.temp("b32");
            let _ = writeln!(text, "    mapa.shared::cluster.u32 {to}, {t}, {rank};");
            return (text, to, false);
        }
        let wide = self.g.temp("b64");
        let _ = write!(
            text,
            "    cvt.u64.u32 {wide}, {t};\n    cvta.shared.u64 {wide}, {wide};\n    mapa.u64 {wide}, {wide}, {rank};\n"
        );
        (text, wide, true)
    }

    /// Writes a whole slot of the thread's own.
    fn fill(&mut self, slot: &str) -> String {
        let regs = operand(&mut self.g, 'r', 4);
        format!("    st.shared.v4.b32 [{slot}], {regs};\n")
    }

    /// Reads a slot of the thread's own.
    fn read(&mut self, slot: &str) -> String {
        let regs = operand(&mut self.g, 'r', 4);
        format!("    ld.shared.v4.b32 {regs}, [{slot}];\n")
    }

    fn remote_load(&mut self) -> String {
        let filled = self.fill("%a_own");
        let (text, from, is_generic) = self.place(0, true);
        let (class, ty, size) = *self.g.rng.pick(&INTS);
        let (n, vec) = vector(&mut self.g, class, size);
        let at = self.g.rng.below(SLOT / (n * size)) * n * size;
        let (guard, regs) = (self.g.guard(), operand(&mut self.g, class, n));
        let space = if is_generic { "" } else { ".shared::cluster" };
        format!("{filled}{MEET}{text}    {guard}ld{space}{vec}.{ty} {regs}, [{from}+{at}];\n{MEET}")
    }

    fn remote_store(&mut self) -> String {
        let filled = self.fill("%a_own");
        let (text, to, is_generic) = self.place(0, false);
        let (class, ty, size) = *self.g.rng.pick(&INTS);
        let (n, vec) = vector(&mut self.g, class, size);
        let at = self.g.rng.below(SLOT / (n * size)) * n * size;
        let (guard, regs) = (self.g.guard(), operand(&mut self.g, class, n));
        let (space, ty) = (
            if is_generic { "" } else { ".shared::cluster" },
            ty.replace('s', "u"),
        );
        let read = self.read("%a_own");
        format!(
            "{filled}{MEET}{text}    {guard}st{space}{vec}.{ty} [{to}+{at}], {regs};\n{MEET}{read}{MEET}"
        )
    }

    /// Operations of one kind, whose order does not show, on slots that several threads name.
    fn remote_update(&mut self) -> String {
        const OPS: [(&str, char); 7] = [
            ("add.u32", 'r'),
            ("min.s32", 'r'),
            ("max.u32", 'r'),
            ("and.b32", 'r'),
            ("or.b32", 'r'),
            ("xor.b32", 'r'),
            ("add.u64", 'd'),
        ];
        let (op, class) = *self.g.rng.pick(&OPS);
        let filled = self.fill("%a_own");
        let (text, to, is_generic) = self.place(0, true);
        let (guard, source) = (self.g.guard(), self.g.reg(class));
        let space = if is_generic { "" } else { ".shared::cluster" };
        let inst = match self.g.rng.chance(50) {
            true => format!("red{space}.{op} [{to}+8], {source}"),
            false => {
                let unused = self.g.temp(if class == 'r' { "b32" } else { "b64" });
                format!("atom{space}.{op} {unused}, [{to}+8], {source}")
            }
        };
        let read = self.read("%a_own");
        format!("{filled}{MEET}{text}    {guard}{inst};\n{MEET}{read}{MEET}")
    }

    /// An operation whose result shows, on a slot that no other thread names.
    fn remote_atomic(&mut self) -> String {
        const OPS: [(&str, char, usize); 8] = [
            ("add.u32", 'r', 1),
            ("inc.u32", 'r', 1),
            ("dec.u32", 'r', 1),
            ("exch.b32", 'r', 1),
            ("cas.b32", 'r', 2),
            ("max.s64", 'd', 1),
            ("exch.b64", 'd', 1),
            ("cas.b64", 'd', 2),
        ];
        let (op, class, n) = *self.g.rng.pick(&OPS);
        let filled = self.fill("%a_own");
        let (text, to, is_generic) = self.place(0, false);
        let sources: Vec<String> = (0..n).map(|_| self.g.reg(class)).collect();
        let (guard, d) = (self.g.guard(), self.g.reg(class));
        let space = if is_generic { "" } else { ".shared::cluster" };
        let sem = *self
            .g
            .rng
            .pick(&["", ".relaxed.cluster", ".acq_rel.cluster"]);
        let read = self.read("%a_own");
        format!(
            "{filled}{MEET}{text}    {guard}atom{sem}{space}.{op} {d}, [{to}], {};\n{MEET}{read}{MEET}",
            sources.join(", ")
        )
    }

    /// The threads of a CTA meet at an mbarrier, and read what others have written before.
    fn meet_at_barrier(&mut self) -> String {
        let n = self.n_threads;
        let filled = self.fill("%a_own");
        let (form, each) = (self.g.rng.below(5), self.g.temp("b64"));
        let barrier = self.barrier(if form < 2 { n } else { 2 * n });
        let at = format!("[bars+{}]", 8 * barrier);
        let arrive = match form {
            0 => format!("    mbarrier.arrive.shared.b64 {each}, {at};\n"),
            1 => format!("    mbarrier.arrive.release.cta.shared::cta.b64 {each}, {at}, 1;\n"),
            2 => format!("    mbarrier.arrive.shared.b64 {each}, {at}, 2;\n"),
            // The other arrival of each thread keeps the phase open.
            3 => format!(
                "    mbarrier.arrive.noComplete.shared.b64 _, {at}, 1;\n    mbarrier.arrive.shared.b64 {each}, {at};\n"
            ),
            _ => format!(
                "    mbarrier.arrive.shared.b64 _, {at};\n    mbarrier.arrive.shared.b64 _, {at};\n"
            ),
        };
        let wait = match form < 4 && self.g.rng.chance(40) {
            // By the state of the phase.
            true => {
                let (id, p) = (self.g.id(), self.g.temp("pred"));
                let how = *self.g.rng.pick(&["test_wait", "try_wait"]);
                format!(
                    "HERE_{id}:\n    mbarrier.{how}.shared.b64 {p}, {at}, {each};\n    @!{p} bra HERE_{id};\n    \
                     xor.b32 %phase{barrier}, %phase{barrier}, 1;\n"
                )
            }
            false => self.wait(barrier),
        };
        let (t, d, m) = (
            self.g.temp("b32"),
            self.g.reg('r'),
            self.g.rng.below(self.n_threads),
        );
        format!(
            "{filled}{arrive}{wait}    add.u32 {t}, %ct, {m};\n    rem.u32 {t}, {t}, %cn;\n    mov.u32 %a0, rooms;\n    \
             mad.lo.u32 {t}, {t}, {SLOT}, %a0;\n    ld.shared.b32 {d}, [{t}+4];\n{MEET}"
        )
    }

    /// Each thread of the cluster arrives at an mbarrier of each CTA.
    fn meet_at_remote_barriers(&mut self) -> String {
        let filled = self.fill("%a_own");
        let all_arrive = self.g.rng.chance(50);
        let arrivals = if all_arrive { self.n_threads } else { 1 };
        let count = if self.g.rng.chance(30) { 3 } else { 1 };
        let barrier = self.barrier(self.n * arrivals * count);
        let (id, rank, t, p) = (
            self.g.id(),
            self.g.temp("b32"),
            self.g.temp("b32"),
            self.g.temp("pred"),
        );
        let (guard, gather) = match all_arrive {
            true => ("", ""),
            // What the others have written is there when the one arrives.
            false => ("@%first ", "    bar.sync 0;\n"),
        };
        let count = if count == 1 { "" } else { ", 3" };
        let wait = self.wait(barrier);
        let (text, from, is_generic) = self.place(0, true);
        let space = if is_generic { "" } else { ".shared::cluster" };
        let d = self.g.reg('r');
        format!(
            "{filled}{gather}    mov.u32 {rank}, 0;\nARRIVE_{id}:\n    mov.u32 {t}, bars;\n    mapa.shared::cluster.u32 {t}, {t}, {rank};\n    \
             {guard}mbarrier.arrive.release.cluster.shared::cluster.b64 _, [{t}+{}]{count};\n    add.u32 {rank}, {rank}, 1;\n    \
             setp.lt.u32 {p}, {rank}, {};\n    @{p} bra ARRIVE_{id};\n{wait}{text}    ld{space}.b32 {d}, [{from}+8];\n{MEET}",
            8 * barrier,
            self.n
        )
    }

    /// The address of 16 bytes for each thread in what is never written.
    fn input(&mut self, a: &str) -> String {
        let k = SLOT * self.g.rng.below(64);
        format!(
            "    mul.wide.u32 {a}, %ct, {SLOT};\n    add.u64 {a}, {a}, %in;\n    add.u64 {a}, {a}, {k};\n"
        )
    }

    /// Copies of single threads, in groups or on an mbarrier.
    fn copies(&mut self) -> String {
        let a = self.g.temp("b64");
        let input = self.input(&a);
        let mut text = input;
        let on_barrier = self.g.rng.chance(40);
        for slot in ["%a_own", "%b_own"] {
            let size = *self.g.rng.pick(&[4, 8, 16]);
            let at = self.g.rng.below(SLOT / size) * size;
            let cache = if size == 16 && self.g.rng.chance(50) {
                "cg"
            } else {
                "ca"
            };
            let source = match self.g.rng.below(4) {
                0 => {
                    let (t, r) = (self.g.temp("b32"), self.g.reg('r'));
                    let _ = writeln!(text, "    and.b32 {t}, {r}, {};", size - 1);
                    format!(", {t}")
                }
                1 => format!(", {}", self.g.reg('p')),
                _ => String::new(),
            };
            let guard = self.g.guard();
            let _ = write!(
                text,
                "    {guard}cp.async.{cache}.shared.global [{slot}+{at}], [{a}+{at}], {size}{source};"
            );
            if !on_barrier {
                text += "    cp.async.commit_group;\n";
            }
        }
        text += &match on_barrier {
            false => {
                let (first, rest) = (self.read("%a_own"), self.read("%b_own"));
                let last = *self
                    .g
                    .rng
                    .pick(&["cp.async.wait_group 0", "cp.async.wait_all"]);
                format!("    cp.async.wait_group 1;\n{first}    {last};\n{rest}")
            }
            true => {
                let is_counted = self.g.rng.chance(50);
                let n = self.n_threads;
                let barrier = self.barrier(if is_counted { 2 * n } else { n });
                let noinc = if is_counted { ".noinc" } else { "" };
                let wait = self.wait(barrier);
                let read = self.read("%b_own");
                let at = 8 * barrier;
                format!(
                    "    cp.async.mbarrier.arrive{noinc}.shared.b64 [bars+{at}];\n    mbarrier.arrive.shared.b64 _, [bars+{at}];\n{wait}{read}"
                )
            }
        };
        text + MEET
    }

    /// A bulk copy to shared memory: each CTA its own, or one for all.
    fn bulk_in(&mut self) -> String {
        let a = self.g.temp("b64");
        let k = SLOT * self.g.rng.below(100);
        let barrier = self.barrier(1);
        let (bytes, at) = (SLOT * self.n_threads, 8 * barrier);
        let (to, bar) = (self.g.temp("b32"), self.g.temp("b32"));
        let head = format!(
            "{MEET_COPIES}    add.u64 {a}, %in, {k};\n    mov.u32 {to}, rooms;\n    mov.u32 {bar}, bars;\n    add.u32 {bar}, {bar}, {at};\n    \
             @%first mbarrier.arrive.expect_tx.shared.b64 _, [{bar}], {bytes};\n"
        );
        let copy = match self.n > 1 && self.g.rng.chance(60) {
            false => format!(
                "    @%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{to}], [{a}], {bytes}, [{bar}];\n"
            ),
            true => {
                let (p, from) = (self.g.temp("pred"), self.g.rng.below(self.n));
                let mask = (1u32 << self.n) - 1;
                format!(
                    "    setp.eq.and.u32 {p}, %rank, {from}, %first;\n    \
                     @{p} cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster \
                     [{to}], [{a}], {bytes}, [{bar}], {mask};\n"
                )
            }
        };
        let (wait, read) = (self.wait(barrier), self.read("%a_own"));
        format!("{head}{copy}{wait}{read}{MEET}")
    }

    /// A bulk copy to global memory, to the bytes that belong to the CTA's threads.
    fn bulk_out(&mut self) -> String {
        let (from, to, mine) = (self.g.temp("b32"), self.g.temp("b64"), self.g.temp("b64"));
        let bytes = SLOT * self.n_threads;
        let filled = self.fill("%a_own");
        let mask = match self.g.rng.chance(30) {
            true => Some(self.g.rng.next() as u16),
            false => None,
        };
        let (form, which) = match mask {
            Some(mask) => (".cp_mask", format!(", {mask}")),
            None => ("", String::new()),
        };
        // The sources may change once they have been read, the destination is there later.
        let changed = match self.g.rng.chance(50) {
            true => format!(
                "    @%first cp.async.bulk.wait_group.read 0;\n    bar.sync 0;\n{}",
                self.fill("%a_own")
            ),
            false => String::new(),
        };
        let regs = operand(&mut self.g, 'r', 4);
        format!(
            "{filled}{MEET_COPIES}    mul.wide.u32 {to}, %ct, 128;\n    sub.u64 {to}, %own, {to};\n    mov.u32 {from}, rooms;\n    \
             @%first cp.async.bulk.global.shared::cta.bulk_group{form} [{to}], [{from}], {bytes}{which};\n    \
             @%first cp.async.bulk.commit_group;\n{changed}    @%first cp.async.bulk.wait_group 0;\n    bar.sync 0;\n    \
             mul.wide.u32 {mine}, %ct, {SLOT};\n    add.u64 {mine}, {mine}, {to};\n    ld.global.v4.b32 {regs}, [{mine}];\n{MEET}"
        )
    }

    /// Reductions of all CTAs to the same counters: one operation for each part of these.
    fn bulk_reduce(&mut self) -> String {
        const OPS: [&str; 6] = [
            "add.u32", "min.s32", "max.u32", "xor.b32", "add.u64", "or.b64",
        ];
        const PART: usize = 64;
        let (from, to) = (self.g.temp("b32"), self.g.temp("b64"));
        let filled = self.fill("%a_own");
        let part = self.g.rng.below(OPS.len());
        let bytes = PART.min(SLOT * self.n_threads);
        format!(
            "{filled}{MEET_COPIES}    add.u64 {to}, %acc, {};\n    mov.u32 {from}, rooms;\n    \
             @%first cp.reduce.async.bulk.global.shared::cta.bulk_group.{} [{to}], [{from}], {bytes};\n    \
             @%first cp.async.bulk.commit_group;\n    @%first cp.async.bulk.wait_group 0;\n{MEET}",
            part * PART,
            OPS[part]
        )
    }

    /// A bulk copy, or a reduction, to the second room of another CTA.
    fn bulk_across(&mut self) -> String {
        const OPS: [&str; 6] = [
            "add.u32", "min.s32", "max.u32", "inc.u32", "xor.b32", "add.u64",
        ];
        let [from, to, bar, far_bar] = std::array::from_fn(|_| self.g.temp("b32"));
        let filled = self.fill("%a_own") + &self.fill("%b_own");
        let barrier = self.barrier(1);
        let (bytes, at) = (SLOT * self.n_threads, 8 * barrier);
        let (text, rank) = self.rank(false);
        let (verb, op) = match self.g.rng.chance(50) {
            true => ("cp.reduce", format!(".{}", *self.g.rng.pick(&OPS))),
            false => ("cp", String::new()),
        };
        let (wait, read) = (self.wait(barrier), self.read("%b_own"));
        format!(
            "{filled}{MEET_COPIES}{text}    mov.u32 {from}, rooms;\n    add.u32 {to}, {from}, {};\n    \
             mapa.shared::cluster.u32 {to}, {to}, {rank};\n    mov.u32 {bar}, bars;\n    add.u32 {bar}, {bar}, {at};\n    \
             mapa.shared::cluster.u32 {far_bar}, {bar}, {rank};\n    \
             @%first mbarrier.arrive.expect_tx.shared.b64 _, [{bar}], {bytes};\n    \
             @%first {verb}.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes{op} [{to}], [{from}], {bytes}, [{far_bar}];\n\
             {wait}{read}{MEET}",
            SLOT * MOST_THREADS
        )
    }

    /// Stores, or reductions, of single threads to another CTA, which complete there.
    fn store_across(&mut self) -> String {
        const OPS: [(&str, char, usize); 7] = [
            ("add.u32", 'r', 4),
            ("min.s32", 'r', 4),
            ("inc.u32", 'r', 4),
            ("and.b32", 'r', 4),
            ("xor.b32", 'r', 4),
            ("add.u64", 'd', 8),
            ("max.u32", 'r', 4),
        ];
        let (t, far, to, bar) = (
            self.g.temp("b32"),
            self.g.temp("b32"),
            self.g.temp("b32"),
            self.g.temp("b32"),
        );
        let (text, rank) = self.rank(false);
        let m = self.g.rng.below(self.n_threads);
        let filled = self.fill("%b_own");
        let (inst, bytes) = match self.g.rng.below(4) {
            0 => (
                format!(
                    "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [{to}+4], {}",
                    self.g.reg('r')
                ),
                4,
            ),
            1 => (
                format!(
                    "st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [{to}+8], {}",
                    self.g.reg('d')
                ),
                8,
            ),
            2 => (
                format!(
                    "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [{to}], {}",
                    operand(&mut self.g, 'r', 4)
                ),
                16,
            ),
            _ => {
                let (op, class, bytes) = *self.g.rng.pick(&OPS);
                (
                    format!(
                        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{op} [{to}+8], {}",
                        self.g.reg(class)
                    ),
                    bytes,
                )
            }
        };
        let barrier = self.barrier(1);
        let (wait, read) = (self.wait(barrier), self.read("%b_own"));
        format!(
            "{filled}{MEET}{text}    add.u32 {t}, %ct, {m};\n    rem.u32 {t}, {t}, %cn;\n    mov.u32 {far}, rooms;\n    \
             mad.lo.u32 {t}, {t}, {SLOT}, {far};\n    add.u32 {t}, {t}, {};\n    mapa.shared::cluster.u32 {to}, {t}, {rank};\n    \
             mov.u32 {bar}, bars;\n    add.u32 {bar}, {bar}, {};\n    \
             @%first mbarrier.arrive.expect_tx.shared.b64 _, [{bar}], {};\n    mapa.shared::cluster.u32 {far}, {bar}, {rank};\n    \
             {inst}, [{far}];\n{wait}{read}{MEET}",
            SLOT * MOST_THREADS,
            8 * barrier,
            bytes * self.n_threads,
        )
    }

    /// What an address tells of its CTA.
    fn windows(&mut self) -> String {
        let (text, at, is_generic) = self.place(1, true);
        let (d, e, p) = (self.g.reg('r'), self.g.reg('r'), self.g.temp("pred"));
        match is_generic {
            true => format!(
                "{text}    getctarank.u64 {d}, {at};\n    isspacep.shared::cluster {p}, {at};\n    selp.u32 {e}, 3, 5, {p};\n    \
                 isspacep.shared::cta {p}, {at};\n    @{p} add.u32 {e}, {e}, 8;\n"
            ),
            false => format!("{text}    getctarank.shared::cluster.u32 {d}, {at};\n"),
        }
    }

    /// Threads arrive at the barrier of the cluster, compute, and wait.
    fn split_barrier(&mut self) -> Node {
        let filled = self.fill("%a_own");
        let inside = (0..self.g.rng.below(4)).map(|_| self.g.compute()).collect();
        let (text, from, is_generic) = self.place(0, true);
        let space = if is_generic { "" } else { ".shared::cluster" };
        let d = self.g.reg('r');
        Node::text(format!("{filled}    barrier.cluster.arrive.release;\n"))
            .body(inside)
            .with(format!(
                "    barrier.cluster.wait.acquire;\n{text}    ld{space}.b32 {d}, [{from}];\n{MEET}"
            ))
    }
}
