//! The random numbers of the fuzzers: small, fast and the same everywhere, so that a seed names a
//! program for good.

/// A SplitMix64 generator.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The sequence that `seed` names.
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def0)
    }

    /// 64 random bits.
    #[expect(
        clippy::should_implement_trait,
        reason = "a generator has no end that `Iterator` would tell of"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `limit`, which is not zero.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// True in `percent` of a hundred cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `items`, which are not empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// An integer as programs have them: often small, or at the edge of a type.
    pub fn integer(&mut self) -> i64 {
        const EDGES: [i64; 12] = [
            0,
            1,
            -1,
            2,
            31,
            32,
            33,
            255,
            0x7fff_ffff,
            -0x8000_0000,
            0xffff,
            -128,
        ];
        match self.below(4) {
            0 => *self.pick(&EDGES),
            1 => self.below(64) as i64 - 16,
            2 => i64::from(self.next() as i32),
            _ => 1 << self.below(31),
        }
    }

    /// The bits of an `f32`: often simple, sometimes special.
    pub fn float_bits(&mut self) -> u32 {
        const EDGES: [u32; 14] = [
            0,
            0x8000_0000,
            0x3f80_0000,
            0xbf80_0000,
            0x7f80_0000,
            0xff80_0000,
            0x7fff_ffff,
            1,
            0x807f_ffff,
            0x0080_0000,
            0x7f7f_ffff,
            0x4f00_0000,
            0x5f00_0000,
            0x3400_0000,
        ];
        match self.below(4) {
            0 => *self.pick(&EDGES),
            1 => (self.below(41) as f32 - 20.0).to_bits(),
            2 => (self.below(2001) as f32 / 8.0 - 125.0).to_bits(),
            _ => self.next() as u32,
        }
    }
}
