//! What threads of [affine](super) kernels wait for beside barriers of their CTA: copies, and the
//! other lanes of their warps. And what they have for themselves: variables in local memory.

use super::{Kernel, SHARED, WORDS};

/// Words of a variable in local memory.
const LOCAL: usize = 16;

impl Kernel {
    /// A statement that few kernels have.
    pub(super) fn rare(&mut self) {
        match self.rng.below(8) {
            0..=2 => self.copy(),
            3 if self.is_uniform => self.wait_for_copies(),
            4 | 5 if self.is_whole => self.line("bar.warp.sync 0xffffffff;"),
            6 => self.variable(),
            _ => self.access(),
        }
    }

    /// An asynchronous copy to shared memory; mostly it is waited for.
    fn copy(&mut self) {
        let bytes = *self.rng.pick(&[4, 4, 4, 8, 16]);
        let to = self.address(true, SHARED * 4 / bytes, bytes);
        let from = self.address(false, WORDS / bytes, bytes);
        let part = match self.rng.below(12) {
            0 => ", 0".to_owned(),
            1 => {
                let (pred, size) = (self.condition(), self.reg("b32"));
                self.line(format!("selp.b32 {size}, {bytes}, 0, {pred};"));
                format!(", {size}")
            }
            _ => String::new(),
        };
        self.line(format!(
            "cp.async.ca.shared.global [{to}], [{from}], {bytes}{part};"
        ));
        if self.is_uniform && self.rng.chance(80) {
            self.wait_for_copies();
        }
    }

    fn wait_for_copies(&mut self) {
        let lines: &[&str] = match self.rng.below(6) {
            0 => &["cp.async.commit_group;"],
            1 => &["cp.async.commit_group;", "cp.async.wait_group 1;"],
            2 => &["cp.async.wait_all;"],
            3 => &["cp.async.commit_group;", "cp.async.wait_group 0;"],
            _ => &[
                "cp.async.commit_group;",
                "cp.async.wait_group 0;",
                "bar.sync 0;",
            ],
        };
        for line in lines {
            self.line(line);
        }
    }

    /// What a lane gets from another one.
    pub(super) fn shuffled(&mut self, value: &str) -> String {
        let (next, mask) = (self.reg("b32"), 1 << self.rng.below(5));
        let by = match self.rng.below(6) {
            0 => format!("idx.b32 {next}, {value}, {}, 31", self.rng.below(32)),
            1 => format!("up.b32 {next}, {value}, {mask}, 0"),
            2 => format!("down.b32 {next}, {value}, {mask}, 31"),
            3 => format!("idx.b32 {next}, {value}, {mask}, 0x181f"),
            4 => {
                let lane = self.reg("b32");
                let bits = self.rng.below(32);
                self.line(format!("xor.b32 {lane}, %t, {bits};"));
                format!("idx.b32 {next}, {value}, {lane}, 31")
            }
            _ => format!("bfly.b32 {next}, {value}, {mask}, 31"),
        };
        self.line(format!("shfl.sync.{by}, 0xffffffff;"));
        next
    }

    /// A variable of the thread's own, of which some words are written and one is read.
    fn variable(&mut self) {
        let (name, base, addr) = (self.label(), self.reg("b64"), self.reg("b64"));
        self.line(format!(
            ".local .align 16 .b8 {name}[{}]; mov.u64 {base}, {name};",
            4 * LOCAL
        ));
        let n_written = match self.rng.chance(75) {
            true => LOCAL,
            false => self.rng.below(LOCAL),
        };
        let (count, again, pred) = (self.reg("b32"), self.label(), self.reg("pred"));
        self.line(format!("mov.u32 {count}, 0; mov.u64 {addr}, {base};"));
        if n_written > 0 {
            self.line(format!(
                "{again}: st.local.u32 [{addr}], {count}; add.u64 {addr}, {addr}, 4; \
                 add.u32 {count}, {count}, 1; setp.lt.u32 {pred}, {count}, {n_written}; \
                 @{pred} bra {again};"
            ));
        }
        for op in ["st.local.u32 [@], %t;", "ld.local.u32 %v, [@];"] {
            let index = self.index(false, LOCAL as u32);
            self.line(format!("mul.wide.u32 {addr}, {index}, 4;"));
            self.line(format!("add.u64 {addr}, {addr}, {base};"));
            self.line(op.replace('@', &addr));
        }
        self.line("add.u32 %acc, %acc, %v;");
    }
}
