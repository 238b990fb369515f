//! Searches the sixteen lanes of a node's first two cache lines. Lane 0 is the head, lanes 1 to 14 are key slices, and
//! lane 15 is the high fence. Answers are bit masks, with bit `i` for lane `i`.
//!
//! The descent calls this on nodes that other threads may be writing. The vector variants are inline assembly for two
//! reasons. In Rust, plain loads that race with writers are undefined behavior, while the reads of assembly are outside
//! the language's memory model. The caller discards an answer unless the node's version is the same before and after.
//! And assembly needs no `target_feature` on the callers, so it inlines everywhere. AVX-512 uses the registers from
//! zmm16 up, which leave no dirty upper halves behind, so it needs no `vzeroupper`.

use crate::index::atomic::{AtomicU64, Ordering};

/// The lanes of a search: the head, the keys, the high fence.
pub(super) const LANES: usize = 16;

/// The way to search within a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    any(braid_shuttle, miri, not(target_arch = "x86_64")),
    allow(dead_code, reason = "vectors are for processors that have them")
)]
pub enum Simd {
    /// The best way that this processor has.
    Detect,
    /// Eight lanes at a time, by AVX-512 F, BW and VL, and BMI2. If the processor lacks it, `Portable` is used instead.
    Avx512,
    /// Four lanes at a time. If the processor lacks AVX2, `Portable` is used instead.
    Avx2,
    /// One lane at a time, by atomic loads.
    Portable,
}

impl Simd {
    /// Returns the requested way, or the one that this processor has instead. The result is never `Detect`.
    pub(super) fn resolve(self) -> Simd {
        #[cfg(all(target_arch = "x86_64", not(miri), not(braid_shuttle)))]
        {
            let avx512 = std::is_x86_feature_detected!("avx512f")
                && std::is_x86_feature_detected!("avx512bw")
                && std::is_x86_feature_detected!("avx512vl")
                && std::is_x86_feature_detected!("bmi2");
            let avx2 = std::is_x86_feature_detected!("avx2");
            return match self {
                Simd::Detect | Simd::Avx512 if avx512 => Simd::Avx512,
                Simd::Detect | Simd::Avx2 if avx2 => Simd::Avx2,
                _ => Simd::Portable,
            };
        }
        #[allow(unreachable_code, reason = "the end of the function where there are no vectors")]
        Simd::Portable
    }
}

/// Returns the lanes that equal `slice`.
#[inline(always)]
pub(super) fn equal(simd: Simd, lanes: &[AtomicU64; LANES], slice: u64) -> u32 {
    match simd {
        #[cfg(all(target_arch = "x86_64", not(miri), not(braid_shuttle)))]
        // SAFETY: `resolve` has seen that the processor has AVX-512.
        Simd::Avx512 => unsafe { x86::equal_512(lanes, slice) },
        #[cfg(all(target_arch = "x86_64", not(miri), not(braid_shuttle)))]
        // SAFETY: `resolve` has seen that the processor has AVX2.
        Simd::Avx2 => unsafe { x86::equal_256(lanes, slice) },
        _ => portable(lanes, move |lane| lane == slice),
    }
}

/// Returns the lanes that are at most `slice`, unsigned.
#[inline(always)]
pub(super) fn at_most(simd: Simd, lanes: &[AtomicU64; LANES], slice: u64) -> u32 {
    match simd {
        #[cfg(all(target_arch = "x86_64", not(miri), not(braid_shuttle)))]
        // SAFETY: `resolve` has seen that the processor has AVX-512.
        Simd::Avx512 => unsafe { x86::at_most_512(lanes, slice) },
        #[cfg(all(target_arch = "x86_64", not(miri), not(braid_shuttle)))]
        // SAFETY: `resolve` has seen that the processor has AVX2.
        Simd::Avx2 => unsafe { x86::at_most_256(lanes, slice) },
        _ => portable(lanes, move |lane| lane <= slice),
    }
}

/// Tests one lane at a time. Out of line on processors where this is the exception.
#[cfg_attr(target_arch = "x86_64", inline(never))]
#[cfg_attr(not(target_arch = "x86_64"), inline(always))]
fn portable(lanes: &[AtomicU64; LANES], test: impl Fn(u64) -> bool) -> u32 {
    let mut mask = 0;
    for (i, lane) in lanes.iter().enumerate() {
        // Relaxed: the caller validates by the head.
        mask |= u32::from(test(lane.load(Ordering::Relaxed))) << i;
    }
    mask
}

#[cfg(all(target_arch = "x86_64", not(miri), not(braid_shuttle)))]
mod x86 {
    use super::{AtomicU64, LANES};
    use std::arch::asm;

    macro_rules! avx512 {
        ($name:ident, $predicate:literal) => {
            /// # Safety
            /// The processor has AVX-512F.
            #[inline(always)]
            pub(super) unsafe fn $name(lanes: &[AtomicU64; LANES], slice: u64) -> u32 {
                let mask: u32;
                // SAFETY: the code reads the 128 bytes of `lanes`, and writes only registers.
                unsafe {
                    asm!(
                        "vpbroadcastq zmm16, {slice}",
                        concat!("vpcmpuq k1, zmm16, [{lanes}], ", $predicate),
                        concat!("vpcmpuq k2, zmm16, [{lanes} + 64], ", $predicate),
                        "kunpckbw k1, k2, k1",
                        "kmovw {mask:e}, k1",
                        slice = in(reg) slice, lanes = in(reg) lanes,
                        mask = lateout(reg) mask,
                        out("xmm16") _, out("k1") _, out("k2") _,
                        options(nostack, readonly, preserves_flags),
                    );
                }
                mask
            }
        };
    }
    // The predicates of vpcmpuq: 0 is "equal", 5 is "not less than".
    avx512!(equal_512, "0");
    avx512!(at_most_512, "5");

    /// # Safety
    /// The processor has AVX2.
    #[inline(always)]
    pub(super) unsafe fn equal_256(lanes: &[AtomicU64; LANES], slice: u64) -> u32 {
        let (a, b, c, d): (u32, u32, u32, u32);
        // SAFETY: the code reads the 128 bytes of `lanes`, and writes only registers.
        unsafe {
            asm!(
                "vmovq xmm0, {slice}",
                "vpbroadcastq ymm0, xmm0",
                "vpcmpeqq ymm1, ymm0, [{lanes}]",
                "vpcmpeqq ymm2, ymm0, [{lanes} + 32]",
                "vpcmpeqq ymm3, ymm0, [{lanes} + 64]",
                "vpcmpeqq ymm4, ymm0, [{lanes} + 96]",
                "vmovmskpd {a:e}, ymm1",
                "vmovmskpd {b:e}, ymm2",
                "vmovmskpd {c:e}, ymm3",
                "vmovmskpd {d:e}, ymm4",
                "vzeroupper",
                slice = in(reg) slice, lanes = in(reg) lanes,
                a = lateout(reg) a, b = lateout(reg) b, c = lateout(reg) c, d = lateout(reg) d,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _,
                out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _,
                out("xmm10") _, out("xmm11") _, out("xmm12") _, out("xmm13") _, out("xmm14") _,
                out("xmm15") _,
                options(nostack, readonly, preserves_flags),
            );
        }
        a | b << 4 | c << 8 | d << 12
    }

    /// Finds the lanes of at most `slice`. AVX2 compares only signed numbers, so both sides are moved by 2^63 first.
    ///
    /// # Safety
    /// The processor has AVX2.
    #[inline(always)]
    pub(super) unsafe fn at_most_256(lanes: &[AtomicU64; LANES], slice: u64) -> u32 {
        let (a, b, c, d): (u32, u32, u32, u32);
        let sign = 1u64 << 63;
        // SAFETY: the code reads the 128 bytes of `lanes`, and writes only registers.
        unsafe {
            asm!(
                "vmovq xmm0, {slice}",
                "vmovq xmm5, {sign}",
                "vpbroadcastq ymm0, xmm0",
                "vpbroadcastq ymm5, xmm5",
                "vpxor ymm1, ymm5, [{lanes}]",
                "vpxor ymm2, ymm5, [{lanes} + 32]",
                "vpxor ymm3, ymm5, [{lanes} + 64]",
                "vpxor ymm4, ymm5, [{lanes} + 96]",
                "vpcmpgtq ymm1, ymm1, ymm0",
                "vpcmpgtq ymm2, ymm2, ymm0",
                "vpcmpgtq ymm3, ymm3, ymm0",
                "vpcmpgtq ymm4, ymm4, ymm0",
                "vmovmskpd {a:e}, ymm1",
                "vmovmskpd {b:e}, ymm2",
                "vmovmskpd {c:e}, ymm3",
                "vmovmskpd {d:e}, ymm4",
                "vzeroupper",
                slice = in(reg) slice ^ sign, sign = in(reg) sign, lanes = in(reg) lanes,
                a = lateout(reg) a, b = lateout(reg) b, c = lateout(reg) c, d = lateout(reg) d,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _,
                out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _,
                out("xmm10") _, out("xmm11") _, out("xmm12") _, out("xmm13") _, out("xmm14") _,
                out("xmm15") _,
                options(nostack, readonly, preserves_flags),
            );
        }
        !(a | b << 4 | c << 8 | d << 12) & 0xffff
    }
}

#[cfg(all(test, not(braid_shuttle)))]
mod tests {
    use super::*;
    use crate::suspend::Seeded;

    #[test]
    fn variants_agree() {
        // Proves that every variant gives the portable variant's answer, also for signed extremes and repeated keys.
        let mut random = Seeded::new(7);
        let edges = [0, 1, u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1];
        for _ in 0..20_000 {
            let mut pick = || match random.next_u64() % 3 {
                0 => edges[(random.next_u64() % 6) as usize],
                1 => random.next_u64() % 8,
                _ => random.next_u64(),
            };
            #[repr(align(64))]
            struct Aligned([AtomicU64; LANES]);
            let lanes = Aligned(std::array::from_fn(|_| AtomicU64::new(pick())));
            let slice = pick();
            for simd in [Simd::Detect, Simd::Avx512, Simd::Avx2] {
                let simd = simd.resolve();
                assert_eq!(equal(simd, &lanes.0, slice), equal(Simd::Portable, &lanes.0, slice), "{simd:?}");
                assert_eq!(
                    at_most(simd, &lanes.0, slice),
                    at_most(Simd::Portable, &lanes.0, slice),
                    "{simd:?}"
                );
            }
        }
    }
}
