//! Float operations with rare cases: one test for all of the gang's lanes finds whether there are
//! any.

use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{self as cl, InstBuilder};
use ptxjit_ir::{FloatBinaryOp, FloatFmt, Inst, InstData, Type};

use crate::lower::Lower;
use crate::ops::{Parts, float_vector_type};

impl Lower<'_, '_> {
    /// The same for all of the gang's lanes, where NaNs are rare.
    pub(in crate::lower) fn canonical_nans_of_gang(&mut self, inst: Inst) {
        let node = &self.func.insts[inst];
        let (arg, result) = (node.data.args()[0], node.results[0]);
        let parts: Vec<cl::Value> = self
            .parts(arg)
            .iter()
            .map(|&part| self.b.cast_vector(part, float_vector_type(Type::B32)))
            .collect();
        // One comparison tests two vectors, which must not share a register.
        let n_tests = self.strip().max(parts.len() / 2);
        let tests: Vec<cl::Value> = (0..n_tests)
            .map(|at| {
                let other = parts[(at + n_tests) % parts.len()];
                self.b.ins().fcmp(FloatCC::Unordered, parts[at], other)
            })
            .collect();
        let any = self.b.any(&tests);
        let fixed = self.unless(any, &parts, |lower| {
            parts
                .iter()
                .map(|&part| lower.b.with_canonical_nans(FloatFmt::F32, part))
                .collect()
        });
        for (q, part) in fixed.into_iter().enumerate() {
            self.push_quad(result, smallvec::smallvec![part], q);
        }
    }

    /// Minimum or maximum for all lanes of the gang, where NaNs are rare.
    pub(in crate::lower) fn min_max_of_gang(&mut self, inst: Inst) {
        let node = &self.func.insts[inst];
        let InstData::FloatBinary {
            op,
            fmt,
            mode,
            args,
        } = node.data
        else {
            unreachable!("asked for minima and maxima only")
        };
        let [xs, ys] = args.map(|arg| -> Parts {
            let parts = self.parts(arg);
            let flushed = parts.iter().map(|&part| {
                let part = self.b.cast_vector(part, float_vector_type(Type::B32));
                self.b.flush_always(fmt, mode.ftz, part)
            });
            flushed.collect()
        });
        let (mut picked, mut tests) = (Parts::new(), Parts::new());
        for (&x, &y) in xs.iter().zip(&ys) {
            let both = self
                .b
                .min_max_of_numbers(op == FloatBinaryOp::Min, fmt, x, y);
            picked.push(self.b.as_float(fmt, both));
            tests.push(self.b.ins().fcmp(FloatCC::Unordered, x, y));
        }
        let any = self.b.any(&tests);
        let picked = self.unless(any, &picked, |lower| {
            let both = xs.iter().zip(&ys);
            both.map(|(&x, &y)| lower.b.min_max(op, fmt, false, x, y))
                .collect()
        });
        for (q, part) in picked.into_iter().enumerate() {
            self.push_quad(node.results[0], smallvec::smallvec![part], q);
        }
    }
}
