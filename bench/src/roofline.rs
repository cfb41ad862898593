//! What the machine can do at most, to judge rates by.

use anyhow::Result;
use serde_json::{Value, json};

use crate::cases::Work;
use crate::native::Native;

/// Rates per second with the threads that the benchmarks use.
#[derive(Clone, Copy)]
pub(crate) struct Roofline {
    /// Operations of f32 with vectors of 128 bits, which is what ptxjit uses.
    pub(crate) peak128: f64,
    /// The same with 256 bits, which native code uses.
    pub(crate) peak256: f64,
    /// Bytes from memory, reading.
    pub(crate) read: f64,
    /// Bytes to and from memory where one array is computed from two.
    pub(crate) triad: f64,
}

impl Roofline {
    /// Measures.
    pub(crate) fn measure(native: &Native) -> Result<Roofline> {
        let [peak128, peak256, read, triad] = native.roofline()?;
        Ok(Roofline {
            peak128,
            peak256,
            read,
            triad,
        })
    }

    /// What share of the limit that bounds such work a rate is: of memory's, or of arithmetic's
    /// with 128 bits.
    pub(crate) fn share(&self, work: Work, rate: f64) -> f64 {
        match work {
            Work::Bytes(_) => rate / self.read.max(self.triad),
            Work::Ops(_) => rate / self.peak128,
        }
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        format!(
            "this machine: {:.1} GFLOP/s with 128 bits, {:.1} with 256, {:.1} GB/s read, {:.1} GB/s triad",
            self.peak128 * 1e-9,
            self.peak256 * 1e-9,
            self.read * 1e-9,
            self.triad * 1e-9
        )
    }

    /// For programs.
    pub(crate) fn json(&self) -> Value {
        json!({
            "f32_128_op_s": self.peak128,
            "f32_256_op_s": self.peak256,
            "read_byte_s": self.read,
            "triad_byte_s": self.triad,
        })
    }
}
