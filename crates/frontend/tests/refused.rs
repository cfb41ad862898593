//! Modules that NVIDIA's assembler refuses: versions, cache operators that exclude each other,
//! opaque types as operands. What belongs to each class and is correct stands beside it.

use ptxjit_frontend::source::Source;
use ptxjit_frontend::translate::Module;

fn errors(text: String) -> Vec<String> {
    let found = match Module::parse(Source::new("a.ptx", text)) {
        Ok(module) => module.check(),
        Err(found) => found,
    };
    found.into_iter().map(|d| d.message).collect()
}

/// The errors of a kernel of these statements.
fn of(statements: &str) -> Vec<String> {
    errors(format!(
        ".version 8.5\n.target sm_90\n.address_size 64\n
         .global .texref tx;
         .global .surfref sf;
         .global .b64 g;
         .entry k(.param .texref pt, .param .u64 pn)
         {{
             .reg .b32 r<9>;
             .reg .b64 d<9>;
             .reg .pred p;
             {statements}
             ret;
         }}"
    ))
}

#[track_caller]
fn accepted(statement: &str) {
    assert_eq!(of(statement), [""; 0], "{statement}");
}

#[track_caller]
fn refused(statement: &str) {
    assert_eq!(of(statement).len(), 1, "{statement}");
}

#[test]
fn versions() {
    let version =
        |version: &str, target: &str| errors(format!(".version {version}\n.target {target}\n"));
    let existing = [
        "1.0", "1.5", "2.3", "3.2", "4.3", "5.1", "6.5", "7.8", "8.8", "9.0", "9.5",
    ];
    for existing in existing {
        let target = if existing < "7" { "sm_10" } else { "sm_80" };
        assert_eq!(version(existing, target), [""; 0], "{existing}");
    }
    for none in [
        "0.9", "1.6", "2.4", "3.3", "4.4", "5.2", "6.6", "7.9", "8.9", "9.6", "10.0", "99.0",
    ] {
        assert!(!version(none, "sm_80").is_empty(), "{none}");
    }
    // A version that is known knows all of its targets.
    assert!(!version("9.0", "sm_130").is_empty());
    assert_eq!(version("9.5", "sm_130"), [""; 0]);
}

#[test]
fn cache_operators() {
    let evictions = [
        "evict_normal",
        "evict_unchanged",
        "evict_first",
        "evict_last",
        "no_allocate",
    ];
    for operator in [".ca", ".cg", ".cs", ".lu", ".cv"] {
        accepted(&format!("ld.global{operator}.b32 r1, [d1];"));
        for eviction in evictions {
            refused(&format!("ld.global{operator}.L1::{eviction}.b32 r1, [d1];"));
        }
        let nc = format!("ld.global{operator}.nc.b32 r1, [d1];");
        match operator {
            ".lu" | ".cv" => refused(&nc),
            _ => accepted(&nc),
        }
        refused(&format!("ld.volatile.global{operator}.b32 r1, [d1];"));
        refused(&format!("ld.relaxed.gpu.global{operator}.b32 r1, [d1];"));
    }
    for operator in [".wb", ".cg", ".cs", ".wt"] {
        accepted(&format!("st.global{operator}.b32 [d1], r1;"));
        for eviction in evictions {
            refused(&format!("st.global{operator}.L1::{eviction}.b32 [d1], r1;"));
        }
    }
    for eviction in evictions {
        accepted(&format!("ld.global.L1::{eviction}.b32 r1, [d1];"));
        accepted(&format!("ld.global.nc.L1::{eviction}.b32 r1, [d1];"));
        accepted(&format!(
            "ld.relaxed.gpu.global.L1::{eviction}.b32 r1, [d1];"
        ));
        accepted(&format!("st.global.L1::{eviction}.b32 [d1], r1;"));
    }
    refused("ld.global.ca.cg.b32 r1, [d1];");
    refused("ld.global.L1::evict_last.L1::no_allocate.b32 r1, [d1];");
}

#[test]
fn opaque_variables_are_not_memory() {
    for name in ["tx", "sf"] {
        for statement in [
            "ld.global.b32 r1, [X];",
            "ld.global.u64 d1, [X];",
            "ld.b32 r1, [X];",
            "ld.global.b32 r1, [X+4];",
            "ld.global.v2.b32 {r1, r2}, [X];",
            "ldu.global.b32 r1, [X];",
            "st.global.b32 [X], r1;",
            "st.b32 [X], r1;",
            "atom.global.add.u32 r1, [X], r2;",
            "atom.add.u32 r1, [X], r2;",
            "red.global.add.u32 [X], r2;",
            "mov.b64 d1, X;",
            "mov.s64 d1, X;",
            "setp.eq.u64 p, X, d1;",
            "add.u64 d1, X, 4;",
            "isspacep.global p, X;",
            "istypep.texref p, X;",
        ] {
            refused(&statement.replace('X', name));
        }
        accepted(&format!("mov.u64 d1, {name};"));
        accepted(&format!("cvta.global.u64 d1, {name};"));
    }
    refused("ld.param.b64 d1, [pt];");
    refused("ld.param.u64 d1, [pt];");
    accepted("ld.param.u64 d1, [pn];");
}

#[test]
fn opaque_variables_of_the_right_kind() {
    let tex = |handle: &str| format!("tex.1d.v4.s32.s32 {{r1, r2, r3, r4}}, [{handle}, {{r5}}];");
    let suld = |handle: &str| format!("suld.b.1d.b32.trap r1, [{handle}, {{r5}}];");
    let txq = |handle: &str| format!("txq.width.b32 r1, [{handle}];");
    let suq = |handle: &str| format!("suq.width.b32 r1, [{handle}];");
    for handle in ["tx", "pt", "d1"] {
        accepted(&tex(handle));
        accepted(&txq(handle));
    }
    for handle in ["sf", "d1"] {
        accepted(&suld(handle));
        accepted(&suq(handle));
    }
    for handle in ["sf", "g", "pn"] {
        refused(&tex(handle));
        refused(&txq(handle));
    }
    for handle in ["tx", "pt", "g", "pn"] {
        refused(&suld(handle));
        refused(&suq(handle));
    }
}
