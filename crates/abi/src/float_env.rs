//! The floating-point environment of the code that surrounds kernels.

#![expect(
    unsafe_code,
    reason = "reads and writes the control register of the vector unit"
)]

/// Runs `f` with the default floating-point environment: kernels may run with subnormals flushed.
pub fn with_default_rounding<T>(f: impl FnOnce() -> T) -> T {
    #[cfg(target_arch = "x86_64")]
    {
        let (mut saved, default) = (0u32, 0x1f80u32);
        // SAFETY: stores the control register through a valid reference.
        unsafe { core::arch::asm!("stmxcsr [{}]", in(reg) &mut saved, options(nostack)) };
        // The lower bits tell what has happened.
        if saved & !0x3f == default {
            return f();
        }
        // SAFETY: loads the control register through a valid reference.
        unsafe { core::arch::asm!("ldmxcsr [{}]", in(reg) &default, options(nostack, readonly)) };
        let result = f();
        // SAFETY: as above.
        unsafe { core::arch::asm!("ldmxcsr [{}]", in(reg) &saved, options(nostack, readonly)) };
        result
    }
    #[cfg(not(target_arch = "x86_64"))]
    f()
}
