//! What a variant of a kernel takes for granted about its launches.

use serde::{Deserialize, Serialize};

/// A grid whose threads in the first dimension are no more is small. A gang at its end does not
/// leave the signed integers of 32 bits.
pub const MOST_THREADS: u64 = (1 << 31) - 1024;

/// What a compiled variant takes for granted about its launches.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Facts {
    /// `ntid.y == ntid.z == 1`.
    pub one_dimensional: bool,
    /// The gang width divides `ntid.x`: a gang never spans two rows, and every gang is full.
    pub whole_rows: bool,
    /// The gang width divides the number of threads: every gang is full. Code that takes this for
    /// granted may be [for whole gangs only](crate::CompiledKernel::whole_gangs).
    pub whole_gangs: bool,
    /// `%ctaid.x * %ntid.x + %tid.x` is always less than [`MOST_THREADS`].
    pub small_grid: bool,
    /// No component of `%nctaid` exceeds 65,536.
    pub small_ctaid: bool,
    /// Not taken for granted, but provided for: clusters have several CTAs, whose shared memories
    /// lie in one window.
    pub clusters: bool,
}

impl Facts {
    /// What holds for a launch of this shape with gangs of `gang` lanes.
    pub fn of(grid: [u32; 3], block: [u32; 3], cluster: [u32; 3], gang: u32) -> Facts {
        let threads = block.iter().map(|&n| u64::from(n)).product::<u64>();
        Facts {
            one_dimensional: block[1] == 1 && block[2] == 1,
            whole_rows: block[0].is_multiple_of(gang),
            whole_gangs: threads.is_multiple_of(u64::from(gang)),
            small_grid: u64::from(grid[0]) * u64::from(block[0]) <= MOST_THREADS,
            small_ctaid: grid.iter().all(|&n| n <= 1 << 16),
            clusters: cluster != [1; 3],
        }
    }
}
