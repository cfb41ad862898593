//! Asynchronous operations under schedules with a seed: programs that wait for them give the same
//! bytes as always, programs that forget to give others (PTX ISA, "Asynchronous operations").

use ptxjit::{Device, ElementType, Engine, Error, Module, Schedule, TensorMap};

/// Threads of a CTA.
const BLOCK: usize = 32;
const N_SEEDS: u64 = 8;
/// Words of the buffer of results.
const OUT: usize = 256;

/// A program. Where `WAIT` stands, it waits, or forgets to.
struct Program {
    what: &'static str,
    /// CTAs of the cluster, which is the whole grid.
    n_ctas: u32,
    body: &'static str,
    wait: &'static str,
    /// What thread `t` of CTA `c` puts out if it has waited.
    expected: fn(c: u32, t: u32) -> u32,
}

/// Each thread has a word of its own in `room`, which is all ones; the words of `in` count from
/// 100.
const HEAD: &str = "
.version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out, .param .align 64 .b8 map[128])
{
    .reg .pred p, q, first;
    .reg .b32 t, x, at, mine, bar_at, other, peer, peer_mine, peer_bar, slot_at, tm, shape;
    .reg .b64 from, from_mine, to, to_mine, m, d, e;
    .reg .b128 answer;
    .shared .align 1024 .b8 room[4096];
    .shared .align 8 .b64 bar;
    .shared .align 4 .b32 slot;
    mov.u32 t, %tid.x;
    setp.eq.u32 first, t, 0;
    mov.u32 at, room;
    mov.u32 bar_at, bar;
    mov.u32 slot_at, slot;
    mad.lo.u32 mine, t, 4, at;
    ld.param.u64 from, [in];
    mad.wide.u32 from_mine, t, 4, from;
    ld.param.u64 to, [out];
    mov.u32 x, %ctaid.x;
    mad.wide.u32 to, x, 128, to;
    mad.wide.u32 to_mine, t, 4, to;
    mov.b64 m, map;
    cvta.param.u64 m, m;
    mov.u32 other, %cluster_ctarank;
    xor.b32 other, other, 1;
    mapa.shared::cluster.u32 peer, at, other;
    mad.lo.u32 peer_mine, t, 4, peer;
    mapa.shared::cluster.u32 peer_bar, bar_at, other;
    st.shared.u32 [mine], -1;
    @first mbarrier.init.shared.b64 [bar], 1;
    fence.mbarrier_init.release.cluster;
    fence.proxy.async;
    barrier.cluster.arrive;
    barrier.cluster.wait;
";

const TAIL: &str = "    ret;\n}\n";

/// Puts out the thread's word.
const WORD: &str = "
    ld.shared.u32 x, [mine];
    st.global.u32 [to_mine], x;
";

/// Lets no CTA end before both are here.
const MEET: &str = "
    barrier.cluster.arrive;
    barrier.cluster.wait;
";

/// For the first phase of `bar`.
const PHASE: &str = "
wait:
    mbarrier.try_wait.parity.shared.b64 p, [bar], 0;
    @!p bra wait;
";

/// Allocates tensor memory, and gives it back; puts out the first column of the thread's lane.
const ALLOC: &str = "
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot_at], 32;
    tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
    ld.shared.u32 tm, [slot];
";
const COLUMN: &str = "
    tcgen05.fence::after_thread_sync;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {x}, [tm];
    tcgen05.wait::ld.sync.aligned;
    st.global.u32 [to_mine], x;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 tm, 32;
";

/// Fills `room` with ones of 16 bits, and describes it as a matrix whose rows lie along K, without
/// swizzle.
const FILL: &str = "
    mov.u32 other, mine;
fill:
    st.shared.u32 [other], 0x3c003c00;
    add.u32 other, other, 128;
    setp.lt.u32 p, other, 4096;
    @p bra fill;
    fence.proxy.async;
    bar.sync 0;
    shr.u32 x, at, 4;
    cvt.u64.u32 d, x;
    or.b64 d, d, 0x0000400800800000;
";

/// A product of 128 by 8 elements, each the sum of 16 products of ones.
const PRODUCT: &str = "
    mov.u32 shape, 0x08020010;
    setp.ne.u32 q, t, t;
    @first tcgen05.mma.cta_group::1.kind::f16 [tm], d, d, shape, q;
    @first tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar_at];
";

fn from_input(_: u32, t: u32) -> u32 {
    100 + t
}

fn sixteen(_: u32, _: u32) -> u32 {
    16f32.to_bits()
}

const COPIES: &[Program] = &[
    Program {
        what: "cp.async.wait_group",
        n_ctas: 1,
        body: "cp.async.ca.shared.global [mine], [from_mine], 4;
            cp.async.commit_group; WAIT WORD",
        wait: "cp.async.wait_group 0;",
        expected: from_input,
    },
    Program {
        what: "cp.async.wait_group of the older group",
        n_ctas: 1,
        body: "cp.async.ca.shared.global [mine], [from_mine], 4;
            cp.async.commit_group;
            cp.async.ca.shared.global [mine+128], [from_mine], 4;
            cp.async.commit_group; WAIT WORD cp.async.wait_all;",
        wait: "cp.async.wait_group 1;",
        expected: from_input,
    },
    Program {
        what: "cp.async.wait_all",
        n_ctas: 1,
        body: "cp.async.ca.shared.global [mine], [from_mine], 4, 2; WAIT WORD",
        wait: "cp.async.wait_all;",
        expected: |_, t| 100 + t,
    },
    Program {
        what: "cp.async.mbarrier.arrive",
        n_ctas: 1,
        body: "cp.async.ca.shared.global [mine], [from_mine], 4;
            cp.async.mbarrier.arrive.shared.b64 [bar];
            bar.sync 0;
            @first mbarrier.arrive.shared.b64 _, [bar]; WAIT WORD",
        wait: PHASE,
        expected: from_input,
    },
    Program {
        what: "cp.async.mbarrier.arrive.noinc",
        n_ctas: 1,
        body: "@!first bra issued;
            cp.async.cg.shared.global [mine], [from_mine], 16;
            cp.async.mbarrier.arrive.noinc.shared.b64 [bar];
            issued: WAIT WORD",
        wait: PHASE,
        expected: |_, t| if t < 4 { 100 + t } else { u32::MAX },
    },
    Program {
        what: "cp.async.bulk to shared memory",
        n_ctas: 1,
        body: "@first mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;
            @first cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [at], [from], 128, [bar_at];
            WAIT WORD",
        wait: PHASE,
        expected: from_input,
    },
    Program {
        what: "cp.async.bulk.wait_group.read before the source changes",
        n_ctas: 1,
        body: "st.shared.u32 [mine], t;
            fence.proxy.async;
            bar.sync 0;
            @first cp.async.bulk.global.shared::cta.bulk_group [to], [at], 128;
            cp.async.bulk.commit_group; WAIT
            bar.sync 0;
            st.shared.u32 [mine], -1;
            cp.async.bulk.wait_group 0;",
        wait: "cp.async.bulk.wait_group.read 0;",
        expected: |_, t| t,
    },
    Program {
        what: "cp.async.bulk.wait_group before the destination is read",
        n_ctas: 1,
        body: "st.shared.u32 [mine], t;
            fence.proxy.async;
            bar.sync 0;
            @first cp.async.bulk.global.shared::cta.bulk_group [to+512], [at], 128;
            cp.async.bulk.commit_group;
            cp.async.bulk.wait_group.read 0; WAIT
            bar.sync 0;
            ld.global.u32 x, [to_mine+512];
            st.global.u32 [to_mine], x;",
        wait: "cp.async.bulk.wait_group 0;",
        expected: |_, t| t,
    },
    Program {
        what: "cp.reduce.async.bulk to global memory",
        n_ctas: 1,
        body: "st.shared.u32 [mine], t;
            st.global.u32 [to_mine+512], 5;
            fence.proxy.async;
            bar.sync 0;
            @first cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [to+512], [at], 128;
            cp.async.bulk.commit_group; WAIT
            bar.sync 0;
            ld.global.u32 x, [to_mine+512];
            st.global.u32 [to_mine], x;",
        wait: "cp.async.bulk.wait_group 0;",
        expected: |_, t| t + 5,
    },
];

const REMOTE: &[Program] = &[
    Program {
        what: "cp.async.bulk to another CTA",
        n_ctas: 2,
        body: "ld.global.u32 x, [from_mine];
            st.shared.u32 [mine+256], x;
            fence.proxy.async;
            bar.sync 0;
            add.u32 x, at, 256;
            @first mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;
            @first cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [peer], [x], 128, [peer_bar];
            WAIT WORD MEET",
        wait: PHASE,
        expected: from_input,
    },
    Program {
        what: "cp.async.bulk.multicast::cluster",
        n_ctas: 2,
        body: "@first mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;
            setp.eq.and.u32 p, other, 1, first;
            @p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [at], [from], 128, [bar_at], 3;
            WAIT WORD MEET",
        wait: PHASE,
        expected: from_input,
    },
    Program {
        what: "cp.reduce.async.bulk to another CTA",
        n_ctas: 2,
        body: "st.shared.u32 [mine+256], 3;
            st.shared.u32 [mine], t;
            fence.proxy.async;
            barrier.cluster.arrive;
            barrier.cluster.wait;
            add.u32 x, at, 256;
            @first mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;
            @first cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [peer], [x], 128, [peer_bar];
            WAIT WORD MEET",
        wait: PHASE,
        expected: |_, t| t + 3,
    },
    Program {
        what: "st.async",
        n_ctas: 2,
        body: "@first mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;
            mad.lo.u32 x, other, 1000, t;
            st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [peer_mine], x, [peer_bar];
            WAIT WORD MEET",
        wait: PHASE,
        expected: |c, t| c * 1000 + t,
    },
    Program {
        what: "red.async",
        n_ctas: 2,
        body: "@first mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;
            red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.and.b32 [peer_mine], t, [peer_bar];
            WAIT WORD MEET",
        wait: PHASE,
        expected: |_, t| t,
    },
    Program {
        what: "cp.async.bulk.tensor to shared memory",
        n_ctas: 1,
        body: "@first mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;
            @first cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes [at], [m, {0}], [bar_at];
            WAIT WORD",
        wait: PHASE,
        expected: from_input,
    },
    Program {
        what: "clusterlaunchcontrol.try_cancel",
        n_ctas: 1,
        body: "@first st.shared.v2.b64 [at], {-1, -1};
            bar.sync 0;
            fence.proxy.async;
            @first mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
            @first clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [at], [bar_at];
            WAIT
            ld.shared.v2.b64 {d, e}, [at];
            mov.b128 answer, {d, e};
            clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, answer;
            selp.u32 x, 1, 0, p;
            st.global.u32 [to_mine], x;",
        wait: PHASE,
        // No other cluster is left.
        expected: |_, _| 0,
    },
    Program {
        what: "cp.async.bulk.tensor to two CTAs",
        n_ctas: 2,
        body: "@first mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;
            setp.eq.and.u32 p, other, 1, first;
            @p cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [at], [m, {0}], [bar_at], 3;
            WAIT WORD MEET",
        wait: PHASE,
        expected: from_input,
    },
    Program {
        what: "cp.async.bulk.tensor to global memory, before the source changes",
        n_ctas: 1,
        body: "st.shared.u32 [mine], t;
            fence.proxy.async;
            bar.sync 0;
            @first cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [m, {0}], [at];
            cp.async.bulk.commit_group; WAIT
            bar.sync 0;
            st.shared.u32 [mine], -1;
            cp.async.bulk.wait_group 0;
            bar.sync 0;
            ld.global.u32 x, [from_mine];
            st.global.u32 [to_mine], x;",
        wait: "cp.async.bulk.wait_group.read 0;",
        expected: |_, t| t,
    },
    Program {
        what: "cp.reduce.async.bulk.tensor before the destination is read",
        n_ctas: 1,
        body: "st.shared.u32 [mine], t;
            fence.proxy.async;
            bar.sync 0;
            @first cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [m, {0}], [at];
            cp.async.bulk.commit_group;
            cp.async.bulk.wait_group.read 0; WAIT
            bar.sync 0;
            ld.global.u32 x, [from_mine];
            st.global.u32 [to_mine], x;",
        wait: "cp.async.bulk.wait_group 0;",
        expected: |_, t| 100 + 2 * t,
    },
];

const TENSOR_MEMORY: &[Program] = &[
    Program {
        what: "tcgen05.wait::st",
        n_ctas: 1,
        body: "ALLOC tcgen05.st.sync.aligned.32x32b.x1.b32 [tm], {t}; WAIT COLUMN",
        wait: "tcgen05.wait::st.sync.aligned;",
        expected: |_, t| t,
    },
    Program {
        what: "tcgen05.mma before its result is read",
        n_ctas: 1,
        body: "ALLOC FILL PRODUCT WAIT COLUMN",
        wait: PHASE,
        expected: sixteen,
    },
    Program {
        what: "tcgen05.mma before its matrices change",
        n_ctas: 1,
        body: "ALLOC FILL PRODUCT WAIT
            st.shared.u32 [mine], 0;
            bar.sync 0;
        again:
            mbarrier.try_wait.parity.shared.b64 p, [bar], 0;
            @!p bra again;
            COLUMN",
        wait: PHASE,
        expected: sixteen,
    },
    Program {
        what: "tcgen05.cp",
        n_ctas: 1,
        body: "ALLOC FILL
            @first tcgen05.cp.cta_group::1.128x256b [tm], d;
            @first tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar_at];
            WAIT COLUMN",
        wait: PHASE,
        expected: |_, _| 0x3c00_3c00,
    },
    Program {
        what: "tcgen05.shift",
        n_ctas: 1,
        body: "ALLOC
            tcgen05.st.sync.aligned.32x32b.x8.b32 [tm], {t, t, t, t, t, t, t, t};
            tcgen05.wait::st.sync.aligned;
            tcgen05.fence::before_thread_sync;
            bar.sync 0;
            tcgen05.fence::after_thread_sync;
            @first tcgen05.shift.cta_group::1.down [tm];
            @first tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar_at];
            WAIT COLUMN",
        wait: PHASE,
        // The last row of the warp's quarter stays.
        expected: |_, t| (t + 1).min(31),
    },
];

/// The text of a program, with `wait` where it waits.
fn text(program: &Program, wait: &str) -> String {
    let parts = [
        ("ALLOC", ALLOC),
        ("FILL", FILL),
        ("PRODUCT", PRODUCT),
        ("COLUMN", COLUMN),
        ("MEET", MEET),
        ("WAIT", wait),
        ("WORD", WORD),
    ];
    let mut body = program.body.to_owned();
    for (name, part) in parts {
        body = body.replace(name, part);
    }
    format!("{HEAD}{body}{TAIL}")
}

/// Runs a program, and gives what its threads put out.
fn run(
    device: &Device,
    (module, n_ctas): (&Module, u32),
    (engine, gang, schedule): (Engine, u32, Schedule),
) -> Result<Vec<u32>, Error> {
    let input = device.alloc_from(&(100..164).collect::<Vec<u32>>())?;
    let output = device.alloc_from(&[0u32; OUT])?;
    let map = TensorMap::tiled(input.address(), ElementType::U32, &[64], &[], &[32]);
    let map = map.encode().unwrap();
    module
        .kernel("k")?
        .launch()
        .grid(n_ctas)
        .block(BLOCK as u32)
        .cluster(n_ctas)
        .arg(&input)
        .arg(&output)
        .arg(&map)
        .engine(engine)
        .gang(gang)
        .schedule(schedule)
        .run()?;
    let mut words = output.read()?;
    words.truncate(n_ctas as usize * BLOCK);
    Ok(words)
}

fn seeds() -> impl Iterator<Item = Schedule> {
    (1..=N_SEEDS).map(Schedule::Random)
}

/// A program that waits is the same under all schedules.
fn check_waiting(device: &Device, program: &Program) {
    let module = Module::from_source(device, "waits.ptx", text(program, program.wait));
    let module = module.unwrap_or_else(|err| panic!("{}: {err}", program.what));
    let place = |n: usize| ((n / BLOCK) as u32, (n % BLOCK) as u32);
    let expected: Vec<u32> = (0..program.n_ctas as usize * BLOCK)
        .map(|n| (program.expected)(place(n).0, place(n).1))
        .collect();
    let engines = [
        (Engine::Interp, 1),
        (Engine::Jit, 1),
        (Engine::Jit, 8),
        (Engine::Jit, 32),
    ];
    for (engine, gang) in engines {
        let in_order = [Schedule::Parallel, Schedule::Deterministic];
        for schedule in in_order.into_iter().chain(seeds()) {
            let got = run(device, (&module, program.n_ctas), (engine, gang, schedule));
            let how = format!("{}: {engine:?}, gang {gang}, {schedule}", program.what);
            assert_eq!(
                got.unwrap_or_else(|err| panic!("{how}: {err}")),
                expected,
                "{how}"
            );
        }
    }
}

/// Whether one of the seeds shows that a program does not wait.
fn is_found(device: &Device, program: &Program, wait: &str, engine: Engine) -> bool {
    let module = Module::from_source(device, "forgets.ptx", text(program, wait)).unwrap();
    let words =
        (0..program.n_ctas).flat_map(|c| (0..BLOCK as u32).map(move |t| (program.expected)(c, t)));
    let expected: Vec<u32> = words.collect();
    let mut runs = seeds().map(|seed| run(device, (&module, program.n_ctas), (engine, 8, seed)));
    runs.any(|got| got.map_or(true, |got| got != expected))
}

fn check(programs: &[Program]) {
    let device = Device::new().unwrap();
    for program in programs {
        check_waiting(&device, program);
        for engine in [Engine::Interp, Engine::Jit] {
            let found = is_found(&device, program, "", engine);
            assert!(
                found,
                "{}: {engine:?} does not show that it is missing",
                program.what
            );
        }
    }
}

#[test]
fn copies_that_are_not_waited_for_come_late() {
    check(COPIES);
}

#[test]
fn copies_of_tensors_and_between_ctas_that_are_not_waited_for_come_late() {
    check(REMOTE);
}

#[test]
fn what_is_done_in_tensor_memory_comes_late() {
    check(TENSOR_MEMORY);
}

/// What goes wrong when an operation is completed is told of the instruction that began it.
#[test]
fn faults_of_late_operations_name_their_instruction() {
    let device = Device::new().unwrap();
    let program = Program {
        what: "a product for columns that are not allocated",
        n_ctas: 1,
        body: "ALLOC FILL
            add.u32 tm, tm, 64;
            PRODUCT WAIT
            sub.u32 tm, tm, 64;
            COLUMN",
        wait: PHASE,
        expected: sixteen,
    };
    for wait in [program.wait, ""] {
        let module = Module::from_source(&device, "wrong.ptx", text(&program, wait)).unwrap();
        for engine in [Engine::Interp, Engine::Jit] {
            for schedule in seeds() {
                let err = run(&device, (&module, 1), (engine, 8, schedule)).unwrap_err();
                let told = err.to_string();
                for part in [
                    "column 64 is not allocated",
                    "thread (0, 0, 0)",
                    "tcgen05.mma",
                ] {
                    assert!(told.contains(part), "{engine:?}, {schedule}: {told}");
                }
            }
        }
    }
}

/// The answer of `test_wait` is no promise that it was yes.
#[test]
fn an_answer_that_is_not_looked_at_is_found() {
    let device = Device::new().unwrap();
    let once = "mbarrier.test_wait.parity.shared.b64 p, [bar], 0;";
    let what = "cp.async.bulk to shared memory";
    let program = COPIES.iter().find(|program| program.what == what).unwrap();
    for engine in [Engine::Interp, Engine::Jit] {
        assert!(is_found(&device, program, once, engine), "{engine:?}");
    }
}
