//! Variables in local memory, which compiled code looks at.

use ptxjit::sanitize::FindingKind;

use super::{Case, case, finds, is_only_screened};

/// A variable of 16 words of which the first `n` are written; then the one that `index` tells is
/// read and used.
fn table(index: &str, n: u32) -> Case<'static> {
    let body = format!(
        "{{.local .align 8 .b8 v[64]; .local .align 8 .b8 w[64]; mov.u64 %d1, v; mov.u32 %i, 0; \
         again: mul.wide.u32 %d2, %i, 4; add.u64 %d2, %d2, %d1; st.local.b32 [%d2], %i; \
         add.u32 %i, %i, 1; setp.lt.u32 %q1, %i, %n; @%q1 bra again; \
         mov.u64 %d4, w; st.local.b32 [%d4], %t; \
         {index} mul.wide.s32 %d2, %r3, 4; add.u64 %d2, %d2, %d1; ld.local.b32 %r4, [%d2]; \
         add.u32 %r4, %r4, 1; ld.local.b32 %r5, [%d4]; add.u32 %r4, %r4, %r5; st.global.b32 [%own], %r4;}}"
    );
    Case {
        n,
        ..case(String::leak(body))
    }
}

#[test]
fn words_of_variables_are_written() {
    let low = "and.b32 %r3, %t, 15;";
    is_only_screened(table(low, 16));
    finds(FindingKind::UninitializedRead, table(low, 15));
    is_only_screened(table("and.b32 %r3, %t, 7;", 8));
    // One thread alone reads what was not written.
    finds(
        FindingKind::UninitializedRead,
        table(
            "min.u32 %r3, %t, 127; sub.u32 %r3, 127, %r3; min.u32 %r3, %r3, 1; sub.u32 %r3, 1, %r3; add.u32 %r3, %r3, 14;",
            15,
        ),
    );
}

#[test]
fn accesses_stay_in_variables() {
    let index = |n: u32| {
        String::leak(format!(
            "and.b32 %r3, %t, 15; setp.eq.u32 %q2, %t, 100; @%q2 mov.u32 %r3, {n};"
        )) as &str
    };
    is_only_screened(table(index(3), 16));
    finds(FindingKind::OutOfBounds, table(index(16), 16));
    finds(FindingKind::OutOfBounds, table(index(0xffff_ffff), 16));
    finds(FindingKind::OutOfBounds, table(index(3), 17));
}

#[test]
fn bytes_of_words_are_written() {
    let byte = |bytes: &str| {
        let body = format!(
            "{{.local .align 8 .b8 v[16]; mov.u64 %d1, v; and.b32 %r3, %t, 3; cvt.u64.u32 %d2, %r3; \
             shl.b64 %d2, %d2, 2; add.u64 %d1, %d1, %d2; cvt.u16.u32 %h1, %t; {bytes} \
             ld.local.b32 %r4, [%d1]; add.u32 %r4, %r4, 1; st.global.b32 [%own], %r4;}}"
        );
        case(String::leak(body))
    };
    is_only_screened(byte(
        "st.local.b16 [%d1], %h1; st.local.b8 [%d1+2], %h1; st.local.b8 [%d1+3], %h1;",
    ));
    finds(
        FindingKind::UninitializedRead,
        byte("st.local.b16 [%d1], %h1; st.local.b8 [%d1+3], %h1;"),
    );
}

#[test]
fn variables_at_constant_places_are_written() {
    let body = |store: &str| {
        let body = format!(
            "{{.local .align 8 .b8 v[16]; mov.u64 %d1, v; {store} \
             ld.local.b32 %r4, [%d1+4]; add.u32 %r4, %r4, 1; st.global.b32 [%own], %r4;}}"
        );
        case(String::leak(body))
    };
    is_only_screened(body("st.local.b32 [%d1+4], %t;"));
    finds(
        FindingKind::UninitializedRead,
        body("st.local.b32 [%d1+8], %t;"),
    );
    finds(
        FindingKind::UninitializedRead,
        body("setp.lt.u32 %q1, %t, 127; @%q1 st.local.b32 [%d1+4], %t;"),
    );
    finds(
        FindingKind::OutOfBounds,
        body("st.local.b32 [%d1+4], %t; st.local.b32 [%d1+16], %t;"),
    );
}
