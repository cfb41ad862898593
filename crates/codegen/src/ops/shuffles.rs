//! Permutations of the lanes of a warp, in registers.

use cranelift_codegen::ir::{self as cl, InstBuilder, types};

use super::Emitter;

impl Emitter<'_> {
    /// A vector of any four lanes.
    pub(crate) fn pick_lanes(&mut self, value: &[cl::Value], lanes: [u32; 4]) -> cl::Value {
        let quad = |lane: u32| (lane / 4) as usize;
        let first = quad(lanes[0]);
        let Some(other) = lanes.iter().map(|&lane| quad(lane)).find(|&q| q != first) else {
            if lanes.map(|lane| lane % 4) == [0, 1, 2, 3] {
                return value[first];
            }
            return self.shuffle32(value[first], value[first], lanes.map(|lane| lane as u8 % 4));
        };
        let mut picked = self.shuffle32(
            value[first],
            value[other],
            lanes.map(|lane| lane as u8 % 4 + if quad(lane) == other { 4 } else { 0 }),
        );
        let mut done = vec![first, other];
        for lane in lanes {
            let q = quad(lane);
            if done.contains(&q) {
                continue;
            }
            done.push(q);
            let words = std::array::from_fn(|i| {
                if quad(lanes[i]) == q {
                    4 + lanes[i] as u8 % 4
                } else {
                    i as u8
                }
            });
            picked = self.shuffle32(picked, value[q], words);
        }
        picked
    }

    /// The byte shuffle that permutes words within a vector as `shfl.bfly` by `b` does.
    pub(crate) fn butterfly_words(&mut self, b: cl::Value) -> cl::Value {
        let bytes: Vec<u8> = (0..16).collect();
        let own = self.vconst_bytes(types::I8X16, &bytes);
        let low = self.ins().band_imm_s(b, 3);
        let low = self.ins().ishl_imm_s(low, 2);
        let low = self.ins().ireduce(types::I8, low);
        let low = self.ins().splat(types::I8X16, low);
        self.ins().bxor(own, low)
    }
}
