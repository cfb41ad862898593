//! Fetching the next box of a tensor while a kernel works on the one that has come.
//!
//! A GPU's tensor copies run beside the program, several at a time. Here a copy is done when it is
//! asked for, and would wait for memory, or for a cache that all cores share, row by row. Programs
//! mostly walk through a tensor by even steps: what lies one step behind a box is fetched to the
//! cache meanwhile. A wrong guess costs some bandwidth and nothing else.
//!
//! Memory is busiest where reading and writing overlap: in a kernel that stores boxes, too, each
//! row that is stored takes one row with it that is fetched.

use std::cell::RefCell;

use ptxjit_device::Rows;

/// Tensors that a thread of the host remembers: the operands of a product, and some more.
const TENSORS: usize = 4;

/// Bytes from which on a row is not fetched ahead.
const SEQUENCE: usize = 4096;

/// Where the last box of a tensor began.
#[derive(Copy, Clone)]
struct Last {
    tensor: u64,
    addr: u64,
}

struct State {
    last: [Last; TENSORS],
    /// Rows of a tensor that wait for rows to be stored: addresses and lengths, in reverse order.
    waiting: Vec<(u64, usize)>,
    /// The tensor that they belong to.
    tensor: u64,
    /// A row has been stored since rows of that tensor were fetched.
    has_stored: bool,
}

thread_local! {
    static STATE: RefCell<State> = const {
        RefCell::new(State {
            last: [Last { tensor: 0, addr: 0 }; TENSORS],
            waiting: Vec::new(),
            tensor: 0,
            has_stored: false,
        })
    };
}

/// A box is about to be copied whose rows are these, of the tensor that begins at `tensor`.
pub(crate) fn fetch_next(tensor: u64, rows: &[(usize, Rows)]) {
    let Some((_, first)) = rows.first() else {
        return;
    };
    // The processor follows a sequence by itself.
    if first.joined().len >= SEQUENCE {
        return;
    }
    STATE.with_borrow_mut(|state| {
        let step = state.step(tensor, first.addr);
        if state.tensor == tensor {
            // What still waits is about to be read.
            state.waiting.clear();
        }
        if step == 0 {
            return;
        }
        let rows = rows.iter().flat_map(|(_, rows)| rows.joined().each());
        let rows = rows.map(|(addr, place)| (addr.wrapping_add(step), place.len()));
        if state.has_stored && state.waiting.is_empty() {
            state.tensor = tensor;
            state.waiting.extend(rows);
            state.waiting.reverse();
        } else {
            rows.for_each(|(addr, len)| fetch(addr, len));
        }
        state.has_stored = false;
    });
}

/// Stores rows, each by `store`, and fetches what waits for that.
pub(crate) fn beside<T>(rows: impl Iterator<Item = T>, mut store: impl FnMut(T)) {
    STATE.with_borrow_mut(|state| {
        state.has_stored = true;
        for row in rows {
            if let Some((addr, len)) = state.waiting.pop() {
                fetch(addr, len);
            }
            store(row);
        }
    });
}

impl State {
    /// How far the tensor's box lies behind its last one; 0 if nothing is known of that. The last
    /// used come first.
    fn step(&mut self, tensor: u64, addr: u64) -> u64 {
        let found = self.last.iter().position(|last| last.tensor == tensor);
        let step = found.map_or(0, |idx| addr.wrapping_sub(self.last[idx].addr));
        self.last.copy_within(..found.unwrap_or(TENSORS - 1), 1);
        self.last[0] = Last { tensor, addr };
        step
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
