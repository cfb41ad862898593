//! The floating-point control register of the thread: whether subnormals are flushed.
//!
//! Compiled code of a kernel may run with subnormals flushed; the runtime's own code must not. Both
//! switch here.

#![expect(unsafe_code, reason = "the control register is reached by assembly")]

use std::arch::asm;

/// A value of the control register.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct FpControl(u64);

#[cfg(target_arch = "x86_64")]
impl FpControl {
    /// Round to nearest, no exceptions, subnormals kept.
    pub(crate) const DEFAULT: FpControl = FpControl(0x1f80);
    /// Subnormal operands count as zeros, subnormal results become zeros (DAZ and FTZ).
    pub(crate) const FLUSH: FpControl = FpControl(0x1f80 | 0x8040);

    /// The current value, without the sticky exception flags.
    pub(crate) fn get() -> FpControl {
        let mut value = 0u32;
        // SAFETY: stores MXCSR to a local variable.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut value, options(nostack, preserves_flags)) };
        FpControl(u64::from(value & !0x3f))
    }

    /// Sets the register.
    pub(crate) fn set(self) {
        let value = self.0 as u32;
        // SAFETY: every `FpControl` is a valid MXCSR, and code of this crate that computes floats
        // runs with `DEFAULT`.
        unsafe {
            asm!("ldmxcsr [{}]", in(reg) &raw const value, options(nostack, preserves_flags, readonly))
        };
    }
}

#[cfg(target_arch = "aarch64")]
impl FpControl {
    /// Round to nearest, no exceptions, subnormals kept.
    pub(crate) const DEFAULT: FpControl = FpControl(0);
    /// Subnormals flushed (FZ).
    pub(crate) const FLUSH: FpControl = FpControl(1 << 24);

    /// The current value.
    pub(crate) fn get() -> FpControl {
        let value: u64;
        // SAFETY: reads FPCR.
        unsafe { asm!("mrs {}, fpcr", out(reg) value, options(nostack, nomem, preserves_flags)) };
        FpControl(value)
    }

    /// Sets the register.
    pub(crate) fn set(self) {
        // SAFETY: every `FpControl` is a valid FPCR, and code of this crate that computes floats
        // runs with `DEFAULT`.
        unsafe { asm!("msr fpcr, {}", in(reg) self.0, options(nostack, nomem, preserves_flags)) };
    }
}

/// Restores the register's former value when dropped.
#[derive(Debug)]
pub(crate) struct FpGuard(FpControl);

impl FpGuard {
    /// Sets the register until the guard is dropped.
    pub(crate) fn set(value: FpControl) -> FpGuard {
        let before = FpControl::get();
        if before != value {
            value.set();
        }
        FpGuard(before)
    }

    /// As [`FpGuard::set`], for code that leaves the register as it finds it: nothing needs to be
    /// restored if it has the value already.
    pub(crate) fn set_for_callback(value: FpControl) -> Option<FpGuard> {
        (FpControl::get() != value).then(|| FpGuard::set(value))
    }
}

impl Drop for FpGuard {
    fn drop(&mut self) {
        if FpControl::get() != self.0 {
            self.0.set();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn guard_flushes_and_restores() {
        let tiny = || black_box(f32::MIN_POSITIVE) * black_box(0.5);
        assert_ne!(tiny(), 0.0);
        {
            let _guard = FpGuard::set(FpControl::FLUSH);
            assert_eq!(tiny().to_bits(), 0);
        }
        assert_ne!(tiny(), 0.0);
    }
}
