//! Fetching the next box of a tensor while a kernel works on the one that has come.
//!
//! A GPU's tensor copies run beside the program, several at a time. Here a copy is done when it is
//! asked for, and would wait for memory row by row. Programs mostly walk through a tensor by even
//! steps: what lies one step behind a box is fetched to the cache meanwhile. A wrong guess costs
//! some bandwidth and nothing else.

use std::cell::Cell;

use ptxjit_device::Rows;

/// Tensors that a thread of the host remembers: the operands of a product, and some more.
const TENSORS: usize = 4;

#[derive(Copy, Clone, Default)]
struct Last {
    tensor: u64,
    addr: u64,
}

thread_local! {
    static LAST: Cell<[Last; TENSORS]> = const { Cell::new([Last { tensor: 0, addr: 0 }; TENSORS]) };
}

/// A box is about to be copied whose rows are these, of the tensor that begins at `tensor`.
pub(crate) fn fetch_next(tensor: u64, rows: &[(usize, Rows)]) {
    let Some((_, first)) = rows.first().filter(|(_, rows)| rows.is_large) else {
        return;
    };
    let mut all = LAST.get();
    let found = all.iter().position(|last| last.tensor == tensor);
    let before = found.map(|idx| all[idx].addr);
    // The one that has not been used for longest makes room.
    let end = found.unwrap_or(TENSORS - 1);
    all.copy_within(..end, 1);
    all[0] = Last {
        tensor,
        addr: first.addr,
    };
    LAST.set(all);
    let step = before.map_or(0, |before| first.addr.wrapping_sub(before));
    if step == 0 {
        return;
    }
    for (_, rows) in rows {
        for (addr, place) in rows.joined().each() {
            fetch(addr.wrapping_add(step), place.len());
        }
    }
}

/// A hint that these bytes will be read. They need not exist.
fn fetch(addr: u64, len: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        const LINE: usize = 64;
        for offset in (0..len).step_by(LINE) {
            let at = addr.wrapping_add(offset as u64) as *const i8;
            #[expect(unsafe_code, reason = "no safe function gives this hint")]
            // SAFETY: the instruction accesses nothing and takes any address.
            unsafe {
                _mm_prefetch::<_MM_HINT_T1>(at);
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (addr, len);
}
