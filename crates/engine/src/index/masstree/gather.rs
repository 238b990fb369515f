//! Copies a border's keys and record ids in the order of its slots. A scan does this with each border that it comes to.
//!
//! Other threads may be writing the node. The vector form is inline assembly for the reasons that `search.rs` gives,
//! and the caller discards the copy unless the node's version is the same before and after. There is no form for AVX2,
//! because its permutations reach only over four keys, and its gathering loads take as long as the loop here.

use super::node::{KEYS, Node, Sequence};
use super::search::Simd;
use crate::index::RecordId;

impl Node {
    /// Copies the keys and ids of the first `count` slots of `order`. The rest of `keys` and `ids` is overwritten, too.
    #[inline(always)]
    pub(super) fn gather(
        &self,
        simd: Simd,
        order: Sequence,
        count: usize,
        keys: &mut [u64; KEYS],
        ids: &mut [RecordId; KEYS],
    ) {
        match simd {
            #[cfg(all(target_arch = "x86_64", not(miri), not(braid_shuttle)))]
            // SAFETY: `resolve` has seen that the processor has what is needed.
            Simd::Avx512 => unsafe { x86::gather_512(self, order, keys, ids) },
            _ => self.gather_portable(order, count, keys, ids),
        }
    }

    /// Copies one slot at a time, by atomic loads.
    #[inline(always)]
    fn gather_portable(
        &self,
        order: Sequence,
        count: usize,
        keys: &mut [u64; KEYS],
        ids: &mut [RecordId; KEYS],
    ) {
        for ((key, id), slot) in keys.iter_mut().zip(ids).zip(order).take(count) {
            (*key, *id) = (self.key(slot), RecordId(self.rid(slot)));
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(miri), not(braid_shuttle)))]
mod x86 {
    use super::{KEYS, Node, RecordId, Sequence};
    use std::arch::asm;

    /// The key of a slot is in the lane after the slot's number. Its id is in the third line, in the second word after
    /// that number.
    const _: () = assert!(KEYS == 14 && size_of::<RecordId>() == 4);

    /// Copies all fourteen slots of `order`. The four-bit numbers are spread to bytes, and these to lanes, which
    /// permute keys and ids.
    ///
    /// # Safety
    /// The processor has AVX-512 F, BW and VL, and BMI2.
    #[inline(always)]
    pub(super) unsafe fn gather_512(
        node: &Node,
        order: Sequence,
        keys: &mut [u64; KEYS],
        ids: &mut [RecordId; KEYS],
    ) {
        // SAFETY: the code reads the node's first three lines. A number is at most fifteen, so every lane is inside of
        // them. It writes fourteen keys and fourteen ids.
        unsafe {
            asm!(
                "pdep {low}, {order}, {nibbles}",
                "shr {order}, 32",
                "pdep {high}, {order}, {nibbles}",
                "vmovq xmm20, {low}",
                "vmovq xmm21, {high}",
                "vpunpcklqdq xmm22, xmm20, xmm21",
                "vpbroadcastq xmm23, {ones}",
                "vpaddb xmm22, xmm22, xmm23",
                "vpmovzxbq zmm16, xmm22",
                "vpsrldq xmm24, xmm22, 8",
                "vpmovzxbq zmm17, xmm24",
                "vmovdqu64 zmm18, [{node}]",
                "vpermi2q zmm16, zmm18, [{node} + 64]",
                "vpermi2q zmm17, zmm18, [{node} + 64]",
                "vpaddb xmm22, xmm22, xmm23",
                "vpmovzxbd zmm19, xmm22",
                "vpermd zmm19, zmm19, [{node} + 128]",
                "mov {low:e}, 0x3fff",
                "kmovw k1, {low:e}",
                "mov {low:e}, 0x3f",
                "kmovw k2, {low:e}",
                "vmovdqu64 [{keys}], zmm16",
                "vmovdqu64 [{keys} + 64]{{k2}}, zmm17",
                "vmovdqu32 [{ids}]{{k1}}, zmm19",
                order = inout(reg) order.0 => _,
                nibbles = in(reg) 0x0f0f_0f0f_0f0f_0f0f_u64,
                ones = in(reg) 0x0101_0101_0101_0101_u64,
                low = out(reg) _, high = out(reg) _,
                node = in(reg) node, keys = in(reg) keys, ids = in(reg) ids,
                out("xmm16") _, out("xmm17") _, out("xmm18") _, out("xmm19") _, out("xmm20") _, out("xmm21") _,
                out("xmm22") _, out("xmm23") _, out("xmm24") _, out("k1") _, out("k2") _,
                options(nostack),
            );
        }
    }
}

#[cfg(all(test, not(any(braid_shuttle, braid_loom))))]
mod tests {
    use super::*;
    use crate::index::masstree::node::Permutation;
    use crate::suspend::Seeded;

    #[test]
    fn forms_agree() {
        // Proves that each form copies what the portable form does, and that this is what the permutation says, in both
        // directions.
        let mut random = Seeded::new(7);
        let node = Node::unused();
        for _ in 0..20_000 {
            let mut permutation = Permutation::identity(0);
            for slot in 0..KEYS {
                node.set_key(slot, random.next_u64());
                node.set_rid(slot, random.next_u64() as u32);
                if random.next_u64().is_multiple_of(4) {
                    continue;
                }
                let place = random.next_u64() as usize % (permutation.len() + 1);
                permutation = permutation.inserted(place, slot);
            }
            let count = permutation.len();
            for reverse in [false, true] {
                let expected: Vec<_> = (0..count)
                    .map(|i| permutation.slot(if reverse { count - 1 - i } else { i }))
                    .map(|slot| (node.key(slot), RecordId(node.rid(slot))))
                    .collect();
                for simd in [Simd::Portable, Simd::Avx2, Simd::Avx512].map(Simd::resolve) {
                    let (mut keys, mut ids) = ([0; KEYS], [RecordId(0); KEYS]);
                    node.gather(simd, permutation.sequence(reverse), count, &mut keys, &mut ids);
                    let got: Vec<_> = keys.into_iter().zip(ids).take(count).collect();
                    assert_eq!(got, expected, "{simd:?}, reverse: {reverse}");
                }
            }
        }
    }
}
