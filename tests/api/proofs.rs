//! Proofs under sanitizers: launches that have nothing to find are known before they run, and
//! kernels one step away from those have the interpreter's findings at every gang width.

use ptxjit::sanitize::{Checks, FindingKind};
use ptxjit::{Device, Engine, Module};

mod contents;
mod copies;
mod locals;
mod memory;
mod warps;

const GANGS: [u32; 3] = [1, 8, 32];

const ALL: Checks = Checks {
    mem: true,
    race: true,
    init: true,
    sync: true,
    leak: false,
    same_value: false,
};

/// Of divergent barriers something is only proven if nothing is asked of barriers themselves.
const NO_SYNC: Checks = Checks { sync: false, ..ALL };

/// Words of the buffer that `%p` points to, and of one that was never written.
const WORDS: u32 = 1024;
const UNWRITTEN: usize = 256;

/// A body with its launch.
#[derive(Copy, Clone)]
struct Case<'a> {
    body: &'a str,
    grid: [u32; 3],
    block: [u32; 3],
    /// Where `%e` points, in words behind `%p`.
    second: u32,
    n: u32,
    /// Bytes of dynamic shared memory.
    shared: u32,
    checks: Checks,
}

/// On 2 blocks of 64 threads, with `%e` in the middle of the buffer.
fn case(body: &str) -> Case<'_> {
    Case {
        body,
        grid: [2, 1, 1],
        block: [64, 1, 1],
        second: WORDS / 2,
        n: 0,
        shared: 0,
        checks: ALL,
    }
}

/// What came of a launch.
struct Outcome {
    keys: Vec<String>,
    kinds: Vec<FindingKind>,
    is_screened: bool,
    is_proven: bool,
    words: Option<Vec<u32>>,
}

/// A kernel with the pointers `%p` and `%e`, the number `%n` and `%u`, how far it is from `%p` to
/// memory that was never written. The thread is `%t` of the grid, `%l` of its CTA, `%x` and `%y`
/// there; its own element of four bytes is at `%own`, and that of shared memory at `%own_s`.
fn text(body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n\
         .const .align 4 .b8 c[64] = {{1}};\n\
         .extern .shared .align 16 .b8 dyn[];\n\
         .visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n, .param .u64 u) {{\n\
         .shared .align 16 .b8 s[4096];\n\
         .reg .pred %q<4>; .reg .b16 %h<4>; .reg .b64 %d<9>, %p, %e, %u, %own;\n\
         .reg .b32 %r<12>, %t, %l, %x, %y, %n, %b, %i, %own_s;\n\
         ld.param.u64 %p, [a]; ld.param.u64 %e, [b]; ld.param.u32 %n, [n]; ld.param.u64 %u, [u];\n\
         mov.u32 %x, %tid.x; mov.u32 %y, %tid.y; mov.u32 %b, %ctaid.x;\n\
         mov.u32 %r1, %ntid.x; mov.u32 %r2, %ntid.y; mad.lo.u32 %l, %y, %r1, %x;\n\
         mul.lo.u32 %r2, %r1, %r2; mad.lo.u32 %t, %b, %r2, %l;\n\
         mul.wide.u32 %own, %t, 4; add.u64 %own, %own, %p;\n\
         mov.u32 %r1, s; mad.lo.u32 %own_s, %l, 4, %r1;\n\
         {body}\nret;\n}}\n"
    )
}

fn run(case: &Case<'_>, gang: Option<u32>) -> Outcome {
    let device = Device::new().unwrap();
    device.track_contents();
    let data = device.alloc_from(&(0..WORDS).collect::<Vec<_>>()).unwrap();
    let unwritten = device.alloc::<u32>(UNWRITTEN).unwrap();
    let module = Module::from_source(&device, "proofs.ptx", text(case.body)).unwrap();
    let launch = module.only_kernel().unwrap().launch();
    let launch = launch.grid(case.grid).block(case.block).shared(case.shared);
    let launch = launch
        .arg(data.address())
        .arg(data.address() + 4 * u64::from(case.second))
        .arg(case.n)
        .arg(unwritten.address().wrapping_sub(data.address()))
        .uses(&data)
        .uses(&unwritten)
        .sanitize(case.checks);
    let launch = match gang {
        Some(gang) => launch.gang(gang),
        None => launch.engine(Engine::Interp),
    };
    let report = launch.report();
    let stats = launch.run();
    let findings = report.findings();
    let stats = stats.ok();
    Outcome {
        keys: findings
            .iter()
            .map(|it| format!("{:?}", it.key()))
            .collect(),
        kinds: findings.iter().map(|it| it.kind).collect(),
        is_screened: stats.as_ref().is_some_and(|it| it.is_screened),
        is_proven: stats.as_ref().is_some_and(|it| it.is_proven),
        words: stats.map(|_| data.read().unwrap()),
    }
}

/// The launch has nothing to find, which is known before it runs.
fn is_proven(case: Case<'_>) {
    let exact = run(&case, None);
    assert_eq!(exact.keys, [""; 0], "{}", case.body);
    for gang in GANGS {
        let found = run(&case, Some(gang));
        assert!(found.is_proven, "gang {gang}: {}", case.body);
        assert_eq!(found.words, exact.words, "gang {gang}: {}", case.body);
    }
}

/// The launch has nothing to find, which compiled code has to look for.
fn is_only_screened(case: Case<'_>) {
    let exact = run(&case, None);
    assert_eq!(exact.keys, [""; 0], "{}", case.body);
    for gang in GANGS {
        let found = run(&case, Some(gang));
        assert!(
            !found.is_proven && found.is_screened,
            "gang {gang}: {}",
            case.body
        );
        assert_eq!(found.words, exact.words, "gang {gang}: {}", case.body);
    }
}

/// Whether a launch is screened; in any case the findings are the interpreter's.
fn run_both(case: Case<'_>) -> bool {
    let exact = run(&case, None);
    let mut is_screened = false;
    for gang in GANGS {
        let found = run(&case, Some(gang));
        assert_eq!(found.keys, exact.keys, "gang {gang}: {}", case.body);
        is_screened |= found.is_screened;
    }
    is_screened
}

/// The launch has findings, of this kind among others.
fn finds(kind: FindingKind, case: Case<'_>) {
    let exact = run(&case, None);
    assert!(
        exact.kinds.contains(&kind),
        "{:?}: {}",
        exact.keys,
        case.body
    );
    for gang in GANGS {
        let found = run(&case, Some(gang));
        assert!(!found.is_screened, "gang {gang}: {}", case.body);
        assert_eq!(found.keys, exact.keys, "gang {gang}: {}", case.body);
        assert_eq!(found.words, exact.words, "gang {gang}: {}", case.body);
    }
}

fn races(case: Case<'_>) {
    finds(FindingKind::Race, case);
}

/// A store of `%t` to the element of so many bytes with the index `%i`.
fn store_at(index: &str, bytes: u32) -> String {
    let (suffix, value) = match bytes {
        1 => ("b8", "%h1"),
        2 => ("b16", "%h1"),
        4 => ("b32", "%t"),
        _ => ("v2.b32", "{%t, %l}"),
    };
    format!(
        "{index} cvt.u16.u32 %h1, %t; mul.wide.s32 %d1, %i, {bytes}; add.u64 %d1, %d1, %p; \
         st.global.{suffix} [%d1], {value};"
    )
}

/// A store to an element of four bytes.
fn store(index: &str) -> String {
    store_at(index, 4)
}

#[test]
fn strides_hold_an_element_or_do_not() {
    for bytes in [1, 2, 4, 8] {
        is_proven(case(&store_at("mov.u32 %i, %t;", bytes)));
        is_proven(case(&store_at("mul.lo.u32 %i, %t, 2;", bytes)));
        races(case(&store_at("shr.u32 %i, %t, 1;", bytes)));
    }
    let near = "st.global.b32 [%own], %t; ld.global.b32 %r3, [%own+4]; st.global.b32 [%own], %r3;";
    races(case(near));
    let overlapping =
        "add.u64 %d1, %own, %p; sub.u64 %d1, %d1, %p; st.global.v2.b32 [%d1], {%t, %l};";
    finds(FindingKind::Misaligned, case(overlapping));
}

#[test]
fn strides_may_be_negative() {
    is_proven(case(&store("sub.u32 %i, 127, %t;")));
    races(case(&store("sub.u32 %i, 63, %l;")));
    finds(
        FindingKind::OutOfBounds,
        case(&store("sub.u32 %i, 126, %t;")),
    );
}

#[test]
fn indices_wrap() {
    is_proven(case(&store("shl.b32 %i, %t, 25; shr.u32 %i, %i, 25;")));
    races(case(&store("shl.b32 %i, %t, 26; shr.u32 %i, %i, 26;")));
    // In one product of 32 bits all threads but 8 come back to the first places.
    races(case(&store(
        "mul.lo.u32 %i, %t, 0x20000000; shr.u32 %i, %i, 29;",
    )));
    is_proven(Case {
        grid: [1, 1, 1],
        block: [8, 1, 1],
        ..case(&store("mul.lo.u32 %i, %t, 0x20000000; shr.u32 %i, %i, 29;"))
    });
    let from_end = store("add.u32 %i, %t, %n;");
    is_proven(Case {
        n: 100,
        ..case(&from_end)
    });
    finds(
        FindingKind::OutOfBounds,
        Case {
            n: 0xffff_ffff,
            ..case(&from_end)
        },
    );
    finds(
        FindingKind::OutOfBounds,
        Case {
            n: 1000,
            ..case(&from_end)
        },
    );
}

#[test]
fn blocks_have_odd_shapes() {
    for block in [[12, 5, 1], [7, 9, 1], [64, 2, 1], [1, 33, 1]] {
        let pitch = |less: u32| {
            format!(
                "mad.lo.u32 %i, %y, {}, %x; mad.lo.u32 %i, %b, 128, %i;",
                block[0] - less
            )
        };
        // In sync of no whole warps nothing stands in the way, as there are no warp operations.
        is_proven(Case {
            block,
            ..case(&store(&pitch(0)))
        });
        if block[0] > 1 {
            races(Case {
                block,
                ..case(&store(&pitch(1)))
            });
        }
    }
    // The third dimension is left out of the index.
    races(Case {
        block: [8, 4, 2],
        ..case(&store("mov.u32 %i, %t;"))
    });
}

#[test]
fn parameters_may_point_to_one_buffer() {
    let copy = "mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %e; ld.global.b32 %r3, [%d1]; st.global.b32 [%own], %r3;";
    for second in [0, 128, 512] {
        is_proven(Case {
            second,
            ..case(copy)
        });
    }
    for second in [1, 32, 64, 127] {
        races(Case {
            second,
            ..case(copy)
        });
    }
    finds(
        FindingKind::OutOfBounds,
        Case {
            second: WORDS - 127,
            ..case(copy)
        },
    );
}

#[test]
fn guards_decide_who_writes() {
    let guarded =
        |test: &str| format!("setp.{test} %q1, %t, %n; @%q1 st.global.b32 [%p+2048], %t;");
    is_proven(Case {
        n: 77,
        ..case(&guarded("eq.u32"))
    });
    is_proven(Case {
        n: 1,
        ..case(&guarded("lt.u32"))
    });
    is_proven(Case {
        n: 127,
        ..case(&guarded("ge.u32"))
    });
    races(Case {
        n: 2,
        ..case(&guarded("lt.u32"))
    });
    races(Case {
        n: 126,
        ..case(&guarded("ge.u32"))
    });
    races(Case {
        n: 3,
        ..case(&guarded("ne.u32"))
    });
    // As signed numbers all are greater.
    races(Case {
        n: 0xffff_fff0,
        ..case(&guarded("gt.s32"))
    });
    is_proven(Case {
        n: 0xffff_fff0,
        ..case(&guarded("gt.u32"))
    });
}

/// Each thread leaves a word in shared memory, and takes that of another behind `between`.
fn exchange(between: &str) -> String {
    format!(
        "st.shared.b32 [%own_s], %t; {between} mov.u32 %r3, s; sub.u32 %r4, 63, %l; mad.lo.u32 %r4, %r4, 4, %r3; \
         ld.shared.b32 %r5, [%r4]; st.global.b32 [%own], %r5;"
    )
}

#[test]
fn barriers_are_there_or_not() {
    is_proven(case(&exchange("bar.sync 0;")));
    races(case(&exchange("")));
    let skipped = exchange("setp.gt.u32 %q1, %n, 5; @%q1 bra skip; bar.sync 0; skip:");
    is_proven(Case {
        n: 5,
        ..case(&skipped)
    });
    races(Case {
        n: 6,
        ..case(&skipped)
    });
    // Half of the threads do not come to the barrier, or come to another one.
    let half = exchange("setp.gt.u32 %q1, %l, 31; @%q1 bra skip; bar.sync 0; skip:");
    races(Case {
        checks: NO_SYNC,
        ..case(&half)
    });
    let loaded = exchange(
        "ld.global.b32 %r6, [%e]; setp.eq.u32 %q1, %r6, 0; @%q1 bra skip; bar.sync 0; skip:",
    );
    is_only_screened(Case {
        checks: NO_SYNC,
        ..case(&loaded)
    });
    races(Case {
        second: 0,
        checks: NO_SYNC,
        ..case(&loaded.replace("[%own]", "[%own+1024]"))
    });
}

#[test]
fn barriers_order_the_threads_of_one_block() {
    let neighbor = |mask: u32| {
        format!(
            "st.global.b32 [%own], %t; bar.sync 0; xor.b32 %i, %t, {mask}; mul.wide.u32 %d1, %i, 4; \
             add.u64 %d1, %d1, %p; ld.global.b32 %r3, [%d1]; st.global.b32 [%own+2048], %r3;"
        )
    };
    is_proven(case(&neighbor(63)));
    races(case(&neighbor(64)));
}

#[test]
fn loops_have_barriers() {
    let rounds = |second: &str| {
        let body = exchange("bar.sync 0;");
        format!(
            "mov.u32 %i, 0; again: {body} {second} add.u32 %i, %i, 1; setp.lt.u32 %q2, %i, %n; @%q2 bra again;"
        )
    };
    is_proven(Case {
        n: 4,
        ..case(&rounds("bar.sync 0;"))
    });
    races(Case {
        n: 4,
        ..case(&rounds(""))
    });
    // One round needs none.
    is_proven(Case {
        n: 1,
        ..case(&rounds(""))
    });
}

#[test]
fn loops_stride_over_the_buffer() {
    let over = |by: u32, go_on: &str| {
        format!(
            "mov.u32 %i, %t; again: mul.wide.u32 %d1, %i, 4; add.u64 %d1, %d1, %p; st.global.b32 [%d1], %i; \
             add.u32 %i, %i, {by}; setp.{go_on} %q1, %i, %n; @%q1 bra again;"
        )
    };
    for n in [100, 128, 300, WORDS] {
        is_proven(Case {
            n,
            ..case(&over(128, "lt.u32"))
        });
    }
    for n in [128 + 100, 300, WORDS] {
        races(Case {
            n,
            ..case(&over(127, "lt.u32"))
        });
    }
    finds(
        FindingKind::OutOfBounds,
        Case {
            n: WORDS + 1,
            ..case(&over(128, "lt.u32"))
        },
    );
    finds(
        FindingKind::OutOfBounds,
        Case {
            n: WORDS,
            ..case(&over(128, "le.u32"))
        },
    );
    // The buffer ends where the last thread does, which has fewer iterations than the first.
    let at_end = over(128, "lt.u32").replace("%d1, %p;", "%d1, %e;");
    let n = 900;
    for (room, is_enough) in [(n, true), (n - 1, false)] {
        let case = Case {
            n,
            second: WORDS - room,
            ..case(&at_end)
        };
        match is_enough {
            true => is_proven(case),
            false => finds(FindingKind::OutOfBounds, case),
        }
    }
}

#[test]
fn memory_decides_how_often_a_loop_runs() {
    let over = |by: u32| {
        format!(
            "ld.global.b32 %r3, [%e+8]; mov.u32 %i, 0; mov.u64 %d1, %own; \
             again: st.global.b32 [%d1], %i; add.u64 %d1, %d1, {by}; add.u32 %i, %i, 1; \
             setp.lt.u32 %q1, %i, %r3; @%q1 bra again;"
        )
    };
    is_proven(Case {
        second: 1000,
        grid: [1, 1, 1],
        ..case(&over(0))
    });
    let few = Case {
        second: 256,
        ..case("")
    };
    races(Case {
        body: &over(4),
        ..few
    });
}

#[test]
fn addresses_are_generic() {
    is_proven(case(
        "ld.b32 %r3, [%own]; add.u32 %r3, %r3, 1; st.b32 [%own], %r3;",
    ));
    races(case(
        "ld.b32 %r3, [%own+4]; add.u32 %r3, %r3, 1; st.b32 [%own], %r3;",
    ));
    let to_shared = "cvt.u64.u32 %d1, %own_s; cvta.shared.u64 %d1, %d1;";
    is_proven(case(&format!(
        "{to_shared} st.b32 [%d1], %t; ld.shared.b32 %r3, [%own_s]; st.b32 [%own], %r3;"
    )));
    races(case(&format!(
        "{to_shared} st.b32 [%d1], %t; ld.shared.b32 %r3, [%own_s+4]; st.b32 [%own], %r3;"
    )));
}

#[test]
fn atomic_operations_exclude_each_other_alone() {
    let count = "atom.global.add.u32 %r3, [%p+2048], 1;";
    is_proven(case(count));
    races(case(&format!("{count} st.global.b32 [%p+2048], %t;")));
    races(case(&format!(
        "{count} ld.global.b32 %r4, [%p+2048]; st.global.b32 [%own], %r4;"
    )));
    is_proven(case(&format!(
        "{count} ld.global.b32 %r4, [%p+2052]; st.global.b32 [%own], %r4;"
    )));
    races(case(
        "atom.shared.add.u32 %r3, [%own_s], 1; st.shared.b32 [%own_s+4], %t;",
    ));
}

#[test]
fn limits_of_threads_grow_in_a_loop() {
    // Of the sums of two numbers only the second round comes to 13.
    let body = "mov.u32 %i, 0; add.u32 %r3, %x, %y; \
         again: mad.lo.u32 %r4, %i, 4, 10; setp.gt.u32 %q1, %r3, %r4; @%q1 bra skip; \
         mul.wide.u32 %d1, %r3, 4; add.u64 %d1, %d1, %e; ld.global.b32 %r5, [%d1]; \
         skip: add.u32 %i, %i, 1; setp.lt.u32 %q2, %i, 2; @%q2 bra again; \
         setp.eq.u32 %q3, %t, %n; @%q3 st.global.b32 [%e+52], %t;";
    races(Case {
        block: [8, 8, 1],
        grid: [1, 1, 1],
        ..case(body)
    });
    let apart = body.replace("[%e+52]", "[%e+60]");
    is_proven(Case {
        block: [8, 8, 1],
        grid: [1, 1, 1],
        ..case(&apart)
    });
}
