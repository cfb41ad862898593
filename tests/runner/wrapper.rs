//! Kernels that call a device function once per thread, with arguments and results in memory.
//!
//! Thread `i` reads argument `k` from byte `16 * (i * n_params + k)` of its first buffer and writes
//! result `k` to byte `16 * (i * n_returns + k)` of its second one.

use std::fmt::Write;

use crate::signature::{Formal, Signature};
use crate::value::Kind;

/// Bytes per argument and per result.
pub(crate) const SLOT: usize = 16;

/// Name of the kernel that calls `func`.
pub(crate) fn name(func: &str) -> String {
    format!("test_wrapper_of_{func}")
}

/// The text of that kernel.
pub(crate) fn kernel(func: &str, signature: &Signature) -> String {
    let mut text = format!(
        "\n.visible .entry {}(.param .u64 tw_in, .param .u64 tw_out)\n{{\n",
        name(func)
    );
    text += ".reg .u32 %tw_i, %tw_n, %tw_c;\n.reg .u64 %tw_src, %tw_dst, %tw_at, %tw_lo, %tw_hi;\n.reg .u16 %tw_p;\n";
    let formals = signature
        .params
        .iter()
        .map(|formal| ('a', formal))
        .enumerate();
    let returns = signature
        .returns
        .iter()
        .map(|formal| ('r', formal))
        .enumerate();
    for (idx, (letter, formal)) in formals.chain(returns) {
        push(
            &mut text,
            format_args!(".reg .{} %tw_{letter}{idx};", formal.ty),
        );
        if formal.is_param {
            push(
                &mut text,
                format_args!(".param .{} tw_{letter}{idx};", formal.ty),
            );
        }
    }
    text += "mov.u32 %tw_i, %tid.x;\nmov.u32 %tw_n, %ntid.x;\nmov.u32 %tw_c, %ctaid.x;\n";
    text += "mad.lo.u32 %tw_i, %tw_c, %tw_n, %tw_i;\n";
    push_address(&mut text, "%tw_src", "tw_in", signature.params.len());
    push_address(&mut text, "%tw_dst", "tw_out", signature.returns.len());
    for (idx, formal) in signature.params.iter().enumerate() {
        push_load(&mut text, idx, formal);
    }
    push_call(&mut text, func, signature);
    for (idx, formal) in signature.returns.iter().enumerate() {
        push_store(&mut text, idx, formal);
    }
    text += "ret;\n}\n";
    text
}

fn push(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("strings take all writes");
}

fn push_address(text: &mut String, reg: &str, param: &str, n_slots: usize) {
    push(text, format_args!("ld.param.u64 {reg}, [{param}];"));
    push(
        text,
        format_args!("mul.wide.u32 %tw_at, %tw_i, {};", n_slots * SLOT),
    );
    push(text, format_args!("add.u64 {reg}, {reg}, %tw_at;"));
}

fn push_load(text: &mut String, idx: usize, formal: &Formal) {
    let (reg, at) = (format!("%tw_a{idx}"), idx * SLOT);
    match formal.kind {
        Kind::Pred => {
            push(text, format_args!("ld.global.u8 %tw_p, [%tw_src+{at}];"));
            push(text, format_args!("setp.ne.u16 {reg}, %tw_p, 0;"));
        }
        Kind::Int(128) => {
            push(text, format_args!("ld.global.u64 %tw_lo, [%tw_src+{at}];"));
            push(
                text,
                format_args!("ld.global.u64 %tw_hi, [%tw_src+{}];", at + 8),
            );
            push(text, format_args!("mov.b128 {reg}, {{%tw_lo, %tw_hi}};"));
        }
        kind => push(
            text,
            format_args!("ld.global.b{} {reg}, [%tw_src+{at}];", kind.bits()),
        ),
    }
    if formal.is_param {
        push(
            text,
            format_args!("st.param.b{} [tw_a{idx}], {reg};", formal.kind.bits()),
        );
    }
}

fn push_call(text: &mut String, func: &str, signature: &Signature) {
    let list = |letter: char, formals: &[Formal]| {
        let one = |(idx, formal): (usize, &Formal)| {
            let sigil = if formal.is_param { "" } else { "%" };
            format!("{sigil}tw_{letter}{idx}")
        };
        formals
            .iter()
            .enumerate()
            .map(one)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let (args, results) = (list('a', &signature.params), list('r', &signature.returns));
    let results = if results.is_empty() {
        results
    } else {
        format!("({results}), ")
    };
    let args = if args.is_empty() {
        args
    } else {
        format!(", ({args})")
    };
    push(text, format_args!("call {results}{func}{args};"));
}

fn push_store(text: &mut String, idx: usize, formal: &Formal) {
    let (reg, at) = (format!("%tw_r{idx}"), idx * SLOT);
    if formal.is_param {
        push(
            text,
            format_args!("ld.param.b{} {reg}, [tw_r{idx}];", formal.kind.bits()),
        );
    }
    match formal.kind {
        Kind::Pred => {
            push(text, format_args!("selp.u16 %tw_p, 1, 0, {reg};"));
            push(text, format_args!("st.global.u8 [%tw_dst+{at}], %tw_p;"));
        }
        Kind::Int(128) => {
            push(text, format_args!("mov.b128 {{%tw_lo, %tw_hi}}, {reg};"));
            push(text, format_args!("st.global.u64 [%tw_dst+{at}], %tw_lo;"));
            push(
                text,
                format_args!("st.global.u64 [%tw_dst+{}], %tw_hi;", at + 8),
            );
        }
        kind => push(
            text,
            format_args!("st.global.b{} [%tw_dst+{at}], {reg};", kind.bits()),
        ),
    }
}
