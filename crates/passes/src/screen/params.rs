//! What instrumented code is told of its launch.

/// The parameter of instrumented code.
#[derive(Copy, Clone, Debug)]
pub struct Params {
    /// The lowest tag of the launch.
    pub base: u32,
    /// Tags of a CTA.
    pub chunk: u32,
    /// Tags of an interval: one more than the threads of a CTA.
    pub width: u32,
    /// Where a word becomes 1 if something is suspected.
    pub flag: u64,
    /// For device memory: what is added to an address, times tags for each byte, for the address of
    /// its tag; tables of writers, readers and atomic operations.
    pub device: [u64; 3],
    /// For shared memory: the same for offsets in the window.
    pub shared: [u64; 3],
}

impl Params {
    pub(super) const CHUNK: u32 = 4;
    pub(super) const WIDTH: u32 = 8;
    pub(super) const FLAG: u32 = 16;
    pub(super) const DEVICE: u32 = 24;
    pub(super) const SHARED: u32 = 48;
    pub(super) const SIZE: u32 = 72;

    /// The parameter's bytes.
    pub fn to_bytes(self) -> Vec<u8> {
        let small = [self.base, self.chunk, self.width, 0];
        let mut bytes: Vec<u8> = small.iter().flat_map(|word| word.to_le_bytes()).collect();
        let large = [self.flag]
            .into_iter()
            .chain(self.device)
            .chain(self.shared);
        bytes.extend(large.flat_map(u64::to_le_bytes));
        bytes
    }
}
