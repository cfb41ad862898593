//! Counters of coverage: additions to the worker's table ([`COUNTER_WORDS`]); and notes of accesses
//! for profiles.
//!
//! Lanes that do not run are not counted. Where a gang is a warp, code also counts how often it
//! runs for a warp, and how often the lanes of one agree; in narrower gangs that would say more
//! about the gang than about the program.

use core::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, MemFlagsData, types};
use ptxjit_abi::warp_ops::WARP;
use ptxjit_abi::{COUNTER_WORDS, CtaContext, TRACE_WARPS};
use ptxjit_ir::{Inst, Value};

use crate::lower::Lower;

/// Bytes of a word of a counter.
const WORD: usize = size_of::<u64>();

impl Lower<'_, '_> {
    /// Counts the lanes that run, or those of them for which a predicate is true.
    pub(super) fn count(&mut self, counter: u32, cond: Option<Value>, sides: bool) {
        let here = self.mask_as_bits();
        let at = counter as usize * COUNTER_WORDS * WORD;
        let hits = match cond {
            Some(cond) => {
                let hits = self.pred_bits(cond);
                self.b.ins().band(hits, here)
            }
            None => here,
        };
        let is_full = cond.is_none() && self.mask.is_full;
        let lanes = self.b.lanes;
        let n = match is_full {
            true => self.b.ins().iconst(types::I64, lanes as i64),
            false => self.n_lanes(hits),
        };
        self.add_to_word(at, n);
        if self.b.lanes != WARP {
            return;
        }
        if sides {
            let misses = self.b.ins().bxor(hits, here);
            let (some, others) = (self.is_any(hits), self.is_any(misses));
            let diverges = self.b.ins().band(some, others);
            return self.add_to_word(at + WORD, diverges);
        }
        let runs = match cond {
            Some(_) => self.is_any(hits),
            None => self.b.ins().iconst(types::I64, 1),
        };
        self.add_to_word(at + WORD, runs);
        let is_whole = match is_full {
            true => self.b.ins().iconst(types::I64, 1),
            false => self.is_whole_warp(n),
        };
        self.add_to_word(at + 2 * WORD, is_whole);
    }

    /// Whether a set has any lanes, as a number.
    fn is_any(&mut self, bits: cl::Value) -> cl::Value {
        let is_any = self.b.ins().icmp_imm_s(IntCC::NotEqual, bits, 0);
        self.b.ins().uextend(types::I64, is_any)
    }

    /// Tells the profile of an access, if it is that one's turn. In most CTAs none is told.
    pub(super) fn trace(&mut self, inst: Inst, site: u32) {
        if self.b.lanes != WARP {
            return;
        }
        let at = offset_of!(CtaContext, traces) as i32;
        let cta = self.b.cta;
        let table = self.b.load_own(types::I64, cta, at);
        let [count, tell, go_on] = self.b.create_blocks();
        self.b.ins().brif(table, count, &[], go_on, &[]);
        self.b.set_cold_block(count);
        self.b.set_cold_block(tell);
        self.b.switch_to_block(count);
        self.scoped(|lower| {
            let thread = lower.gang_thread();
            let thread = lower.b.ins().uextend(types::I64, thread);
            // Eight bytes for each warp of 32 threads.
            let warp = lower.b.ins().ushr_imm_u(thread, 2);
            let place = lower.b.ins().iadd(table, warp);
            let at = site as i32 * (TRACE_WARPS * size_of::<[u32; 2]>()) as i32;
            let left = lower.b.load_own(types::I32, place, at);
            let left = lower.b.ins().iadd_imm_s(left, -1);
            lower.b.store_own(left, place, at);
            lower.b.ins().brif(left, go_on, &[], tell, &[]);
            lower.b.switch_to_block(tell);
            lower.device(inst);
            lower.b.ins().jump(go_on, &[]);
        });
        self.b.switch_to_block(go_on);
    }

    /// How many lanes a set has.
    fn n_lanes(&mut self, bits: cl::Value) -> cl::Value {
        let n = match self.b.lanes {
            1 => self.b.ins().band_imm_u(bits, 1),
            _ => self.b.ins().popcnt(bits),
        };
        self.b.ins().uextend(types::I64, n)
    }

    /// Whether so many lanes are all threads of the gang: the last warp of a CTA may have fewer
    /// than 32.
    fn is_whole_warp(&mut self, n: cl::Value) -> cl::Value {
        let first = self.gang_thread();
        let at = offset_of!(CtaContext, n_threads) as i32;
        let flags = MemFlagsData::trusted().with_can_move();
        let cta = self.b.cta;
        let all = self.b.ins().load(types::I32, flags, cta, at);
        let left = self.b.ins().isub(all, first);
        let left = self.b.ins().uextend(types::I64, left);
        let most = self.b.ins().iconst(types::I64, WARP as i64);
        let threads = self.b.ins().umin(left, most);
        let is_whole = self.b.ins().icmp(IntCC::Equal, n, threads);
        self.b.ins().uextend(types::I64, is_whole)
    }

    fn add_to_word(&mut self, at: usize, n: cl::Value) {
        let table = self.b.field(offset_of!(CtaContext, counters));
        let at = at as i32;
        let before = self.b.load_own(types::I64, table, at);
        let after = self.b.ins().iadd(before, n);
        self.b.store_own(after, table, at);
    }
}
