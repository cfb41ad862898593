//! Room for the decoded factors of products, which each thread keeps from call to call.

use std::cell::Cell;

use super::further::Complete;
use super::operands::{LARGEST_A, LARGEST_B};
use super::products::{MOST_A, MOST_B};

/// Decoded factors, side by side, each as long as the form's are.
#[repr(align(64))]
pub(super) struct Factors {
    pub(super) a: [u32; MOST_A * LARGEST_A],
    pub(super) b: [u32; MOST_B * LARGEST_B],
    pub(super) complete: Complete,
}

thread_local! {
    static FACTORS: Cell<Option<Box<Factors>>> = const { Cell::new(None) };
}

impl Factors {
    /// The thread's room, until it is given back.
    pub(super) fn take() -> Box<Factors> {
        FACTORS.take().unwrap_or_else(|| {
            Box::new(Factors {
                a: [0; MOST_A * LARGEST_A],
                b: [0; MOST_B * LARGEST_B],
                complete: Complete::ZERO,
            })
        })
    }

    pub(super) fn give_back(self: Box<Factors>) {
        FACTORS.set(Some(self));
    }
}
