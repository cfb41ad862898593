//! What is in memory and where it ends: dynamic shared memory, pointers from memory, constants, and
//! what was never written.

use ptxjit::sanitize::FindingKind;

use super::{Case, case, exchange, finds, is_only_screened, is_proven, races};

#[test]
fn shared_memory_is_dynamic() {
    let own = |stride: u32| {
        format!("mov.u32 %r3, dyn; mad.lo.u32 %r4, %l, {stride}, %r3; st.shared.b32 [%r4], %t;")
    };
    is_proven(Case {
        shared: 256,
        ..case(&own(4))
    });
    is_proven(Case {
        shared: 1024,
        ..case(&own(8))
    });
    races(Case {
        shared: 256,
        ..case(&own(0))
    });
    finds(
        FindingKind::OutOfBounds,
        Case {
            shared: 252,
            ..case(&own(4))
        },
    );
    finds(
        FindingKind::OutOfBounds,
        Case {
            shared: 0,
            ..case(&own(4))
        },
    );
}

#[test]
fn pointers_come_from_memory() {
    // Addresses differ from device to device, so none may stay.
    let clear = "st.global.b64 [%d1], 0;";
    let fetch = "st.global.b64 [%p+4088], %e; ld.global.b64 %d2, [%p+4088]; mul.wide.u32 %d3, %l, 4; add.u64 %d3, %d3, %d2;";
    let one = Case {
        grid: [1, 1, 1],
        block: [1, 1, 1],
        ..case("")
    };
    is_only_screened(Case {
        body: &format!("{fetch} st.global.b32 [%d3], %t; st.global.b64 [%p+4088], 0;"),
        ..one
    });
    // Each thread has a word for the pointer, and all write where it leads.
    let fetch = "mul.wide.u32 %d1, %t, 8; add.u64 %d1, %d1, %p; st.global.b64 [%d1], %e; ld.global.b64 %d2, [%d1];";
    races(case(&format!("{fetch} st.global.b32 [%d2], %t; {clear}")));
    let own = "mul.wide.u32 %d3, %t, 4; add.u64 %d2, %d2, %d3;";
    is_only_screened(case(&format!(
        "{fetch} {own} st.global.b32 [%d2], %t; {clear}"
    )));
    races(Case {
        second: 254,
        ..case(&format!("{fetch} {own} st.global.b32 [%d2], %t; {clear}"))
    });
}

#[test]
fn constants_have_ends() {
    let read = |mask: u32| {
        format!(
            "mov.u64 %d1, c; and.b32 %r3, %l, {mask}; mul.wide.u32 %d2, %r3, 4; add.u64 %d1, %d1, %d2; \
             ld.const.b32 %r4, [%d1]; st.global.b32 [%own], %r4;"
        )
    };
    is_proven(case(&read(15)));
    finds(FindingKind::OutOfBounds, case(&read(31)));
}

#[test]
fn shared_memory_is_written_before_it_is_read() {
    let some = |n: u32| {
        exchange("bar.sync 0;").replacen(
            "st.shared",
            &format!("setp.lt.u32 %q1, %l, {n}; @%q1 st.shared"),
            1,
        )
    };
    is_proven(case(&some(64)));
    finds(
        FindingKind::UninitializedRead,
        case(&some(63).replace(
            "st.global.b32 [%own], %r5;",
            "add.u32 %r5, %r5, 1; st.global.b32 [%own], %r5;",
        )),
    );
    // By a pointer of which nothing is known.
    let generic = "cvt.u64.u32 %d1, %own_s; cvta.shared.u64 %d1, %d1; ld.b32 %r3, [%d1]; add.u32 %r3, %r3, 1; st.global.b32 [%own], %r3;";
    finds(FindingKind::UninitializedRead, case(generic));
    // What a thread has written may be read by itself, and not by others.
    is_proven(case(
        "st.shared.b32 [%own_s], %t; ld.shared.b32 %r3, [%own_s]; add.u32 %r3, %r3, 1; st.global.b32 [%own], %r3;",
    ));
    finds(
        FindingKind::UninitializedRead,
        case(
            "st.shared.b32 [%own_s], %t; bar.sync 0; ld.shared.b32 %r3, [%own_s+4]; add.u32 %r3, %r3, 1; st.global.b32 [%own], %r3;",
        ),
    );
    // Only the first block writes.
    let first =
        exchange("bar.sync 0;").replacen("st.shared", "setp.eq.u32 %q1, %b, 0; @%q1 st.shared", 1);
    let first = first.replace(
        "st.global.b32 [%own], %r5;",
        "add.u32 %r5, %r5, 1; st.global.b32 [%own], %r5;",
    );
    finds(FindingKind::UninitializedRead, case(&first));
}

#[test]
fn device_memory_is_written_before_it_is_read() {
    let use_it = "add.u32 %r3, %r3, 1; st.global.b32 [%own], %r3;";
    let at = "add.u64 %d1, %own, %u;";
    is_only_screened(case(&format!(
        "{at} st.global.b32 [%d1], %t; ld.global.b32 %r3, [%d1]; {use_it}"
    )));
    finds(
        FindingKind::UninitializedRead,
        case(&format!("{at} ld.global.b32 %r3, [%d1]; {use_it}")),
    );
    // One instruction reads by two pointers, how far from them only memory knows.
    let body = format!(
        "st.global.b64 [%p+4088], %u; ld.global.b64 %d2, [%p+4088]; mov.u32 %i, 0; mov.u64 %d3, %p; \
         again: add.u64 %d4, %d3, %d2; ld.global.b32 %r3, [%d4]; {use_it} mov.u64 %d3, %e; \
         add.u32 %i, %i, 1; setp.lt.u32 %q1, %i, 2; @%q1 bra again;"
    );
    finds(
        FindingKind::UninitializedRead,
        Case {
            grid: [1, 1, 1],
            block: [1, 1, 1],
            second: 8,
            ..case(&body)
        },
    );
}
