//! The processor's own count of time, by which `profile` measures. Nothing depends on it as a clock.

/// Returns the ticks since some moment, all at one rate, read when the thread's earlier loads have completed. Ticks
/// differ little between processors, and only their differences have a meaning. Returns always 0 if the processor has
/// no such counter that the engine knows.
#[inline(always)]
pub fn ticks() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_mm_lfence, _rdtsc};
        // Without this, the counter is read while the code to be measured still waits for memory.
        // SAFETY: every processor of this architecture has the instruction.
        unsafe { _mm_lfence() };
        // SAFETY: every processor of this architecture has the instruction.
        unsafe { _rdtsc() }
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        let ticks: u64;
        // SAFETY: this reads a register that programs may read, and nothing else.
        unsafe { std::arch::asm!("isb", "mrs {t}, cntvct_el0", t = out(reg) ticks, options(nostack, nomem)) };
        ticks
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    {
        0
    }
}
