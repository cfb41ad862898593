//! Tables of functions that NVIDIA's driver has for NVIDIA's own libraries: this driver has none.
//!
//! NVRTC and nvJitLink ask for one and do without it. NVIDIA's CUDA runtime does not: each of its
//! calls fails then, and most programs tell no more than a code, so the reason is told here.

use std::sync::Once;

use crate::host;
use crate::report;
use crate::types::{CUresult, HostPtr};

/// The table without which NVIDIA's CUDA runtime gives up. Its releases 12.9 to 13.2 ask for it
/// right after `cuInit`; NVRTC and nvJitLink of the same releases ask for another one.
const OF_THE_RUNTIME: [u8; 16] = [
    0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9,
];

/// What to do about it.
const RUNTIME: &str = "error: this program contains NVIDIA's CUDA runtime, which runs on NVIDIA's driver only: \
    link it with the shared runtime (`nvcc -cudart shared`) and start it by `ptxjit exec`";

/// The code for a table with this identifier; once in a process it tells why a program that
/// contains NVIDIA's runtime cannot run.
pub fn missing(id: HostPtr) -> CUresult {
    static TOLD: Once = Once::new();
    let code = CUresult::NOT_FOUND;
    let mut bytes = [0; OF_THE_RUNTIME.len()];
    if host::read_bytes(id.0, &mut bytes).is_ok() && bytes == OF_THE_RUNTIME {
        TOLD.call_once(|| {
            report::say(&code.name().unwrap_or_default().to_string_lossy(), RUNTIME);
        });
    }
    code
}
