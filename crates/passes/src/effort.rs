//! What one compilation may spend: counted work, and time.
//!
//! Some control flow, above all loops with many entries, takes effort that grows with a high power
//! of its size. Loops of the compiler that can run long [spend](Effort::spend) units, about one for
//! each step of an inner loop, and give up when they are used up. **Ensures**: whether *work* runs
//! out depends on the program alone, so it may decide which code is made; *time* only ever ends in
//! an error.

use std::cell::Cell;
use std::time::Instant;

/// Units between two looks at the clock: well below a millisecond.
const LOOK_AT_CLOCK: u64 = 1 << 14;

/// What is left to spend.
#[derive(Clone, Debug)]
pub struct Effort {
    left: Cell<u64>,
    /// Units left when the clock is next looked at.
    look: Cell<u64>,
    until: Option<Instant>,
}

/// What was used up.
#[derive(Copy, Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Spent {
    /// The units of work.
    #[error("the control flow is too complex")]
    Work,
    /// The time.
    #[error("the time limit passed")]
    Time,
}

impl Effort {
    /// So many units, before a deadline if there is one.
    pub fn new(units: u64, until: Option<Instant>) -> Effort {
        Effort {
            left: Cell::new(units),
            look: Cell::new(units),
            until,
        }
    }

    /// As much as it takes.
    pub fn unlimited() -> Effort {
        Effort::new(u64::MAX, None)
    }

    /// Takes units off; an error if there are not as many left.
    pub fn spend(&self, units: usize) -> Result<(), Spent> {
        let left = self.left.get().checked_sub(units as u64);
        let left = left.ok_or(Spent::Work)?;
        self.left.set(left);
        if left > self.look.get() {
            return Ok(());
        }
        self.look.set(left.saturating_sub(LOOK_AT_CLOCK));
        self.check_time()
    }

    /// An error if the deadline has passed.
    pub fn check_time(&self) -> Result<(), Spent> {
        match self.until.is_some_and(|until| Instant::now() >= until) {
            true => Err(Spent::Time),
            false => Ok(()),
        }
    }

    /// The deadline.
    pub fn until(&self) -> Option<Instant> {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_counted() {
        let effort = Effort::new(1000, None);
        assert!((0..10).all(|_| effort.spend(100).is_ok()));
        assert_eq!(effort.spend(1), Err(Spent::Work));
        assert_eq!(effort.spend(0), Ok(()));
    }

    #[test]
    fn a_deadline_is_noticed_between_steps() {
        let effort = Effort::new(u64::MAX, Some(Instant::now()));
        let steps = (0..).take_while(|_| effort.spend(1).is_ok()).count();
        assert!(steps as u64 <= LOOK_AT_CLOCK + 1, "{steps}");
        assert_eq!(effort.check_time(), Err(Spent::Time));
    }
}
