// UNSAFETY: pages are copied by instructions that the language has no name for: a string move, and
// stores past the caches. On atomic words the language has only loads and stores of one word.

//! Copying a page into a frame and out of one, while another thread may write the frame.
//!
//! A frame's words are atomics, and a page is copied as if by relaxed loads and stores of words. A
//! loop of these keeps eight entries of the processor's buffers busy for each cache line, so that
//! few lines are on their way at a time. On x86-64 an instruction that moves whole lines does
//! better. To the language an `asm!` block is what some code of its own could do: here relaxed
//! loads, and relaxed stores, of each word once or, for a word that a reader throws away, of a
//! mixture of old and new first.
//!
//! - **Out** (a get): `rep movsb`, into the caches, because the caller of a get reads the page.
//! - **In** (a put): stores that go past the caches where the processor has AVX-512, because the
//!   caller of a put does not read the page soon. So the frame is not read from memory before, and
//!   nothing is thrown out of the caches for it. Else `rep movsb`.
//!
//! # Sources
//! Intel 64 and IA-32 Architectures Optimization Reference Manual, on enhanced `rep movsb` and on
//! non-temporal stores.
#![cfg_attr(target_arch = "x86_64", allow(unsafe_code))]

use crate::ram::FRAME_WORDS;
use std::sync::atomic::AtomicU64;
#[cfg(not(target_arch = "x86_64"))]
use std::sync::atomic::Ordering::Relaxed;

/// The instructions that the processor has for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Copying {
    /// Stores of whole lines past the caches.
    #[cfg(target_arch = "x86_64")]
    streams: bool,
}

impl Copying {
    pub(super) fn detect() -> Self {
        Self {
            #[cfg(target_arch = "x86_64")]
            streams: std::arch::is_x86_feature_detected!("avx512f"),
        }
    }

    /// Copies a page into a frame that no other thread writes.
    #[inline]
    pub(super) fn page_in(self, to: &[AtomicU64; FRAME_WORDS], page: &[u64; 512]) {
        #[cfg(target_arch = "x86_64")]
        if self.streams && to.as_ptr().addr().is_multiple_of(64) {
            // SAFETY: the processor has AVX-512: `detect` asked it. The frame starts at a line.
            unsafe { x86_64::stream(to, page) }
        } else {
            x86_64::move_in(to, page);
        }
        #[cfg(not(target_arch = "x86_64"))]
        for (to, from) in to.iter().zip(page) {
            to.store(*from, Relaxed);
        }
    }

    /// Copies a frame into a page. Words that another thread writes meanwhile are any mixture of
    /// bytes.
    #[inline]
    pub(super) fn page_out(self, page: &mut [u64; 512], from: &[AtomicU64; FRAME_WORDS]) {
        #[cfg(target_arch = "x86_64")]
        x86_64::move_out(page, from);
        #[cfg(not(target_arch = "x86_64"))]
        for (to, from) in page.iter_mut().zip(from) {
            *to = from.load(Relaxed);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::{AtomicU64, FRAME_WORDS};
    use crate::ram::FRAME_BYTES;
    use std::arch::asm;

    const _: () = assert!(size_of::<[u64; 512]>() == FRAME_BYTES);

    #[inline]
    pub(super) fn move_in(to: &[AtomicU64; FRAME_WORDS], page: &[u64; 512]) {
        // SAFETY: as many bytes are read and written as both have. Atomics may be written through a
        // shared reference. The direction flag is clear, as the ABI says; no flag is changed.
        unsafe {
            asm!(
                "rep movsb",
                inout("rcx") FRAME_BYTES => _,
                inout("rsi") page.as_ptr() => _,
                inout("rdi") to.as_ptr() => _,
                options(nostack, preserves_flags),
            );
        }
    }

    #[inline]
    pub(super) fn move_out(page: &mut [u64; 512], from: &[AtomicU64; FRAME_WORDS]) {
        // SAFETY: as above; only the caller has the page. Another thread may write atomic words of
        // the frame meanwhile, and any value that is read of them is a number.
        unsafe {
            asm!(
                "rep movsb",
                inout("rcx") FRAME_BYTES => _,
                inout("rsi") from.as_ptr() => _,
                inout("rdi") page.as_mut_ptr() => _,
                options(nostack, preserves_flags),
            );
        }
    }

    /// # Safety
    /// The processor has AVX-512, and `to` is aligned to 64 bytes.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn stream(to: &[AtomicU64; FRAME_WORDS], page: &[u64; 512]) {
        // SAFETY: as above, in 16 steps of 256 bytes; aligned: the caller's promise. `sfence`: the
        // stores are seen before every later one, as the language expects of all stores.
        // Registers from 16 on leave no state behind that would slow older instructions down.
        unsafe {
            asm!(
                "2:",
                "vmovdqu64 zmm16, [{from}]",
                "vmovdqu64 zmm17, [{from} + 64]",
                "vmovdqu64 zmm18, [{from} + 128]",
                "vmovdqu64 zmm19, [{from} + 192]",
                "vmovntdq [{to}], zmm16",
                "vmovntdq [{to} + 64], zmm17",
                "vmovntdq [{to} + 128], zmm18",
                "vmovntdq [{to} + 192], zmm19",
                "add {from}, 256",
                "add {to}, 256",
                "dec {left:e}",
                "jnz 2b",
                "sfence",
                from = inout(reg) page.as_ptr() => _,
                to = inout(reg) to.as_ptr() => _,
                left = inout(reg) FRAME_BYTES / 256 => _,
                out("zmm16") _,
                out("zmm17") _,
                out("zmm18") _,
                out("zmm19") _,
                options(nostack),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::array::from_fn;
    use std::sync::atomic::Ordering::Relaxed;

    /// Aligned as frames are, with words around it that must not be written.
    #[repr(align(64))]
    struct GuardedFrames([[AtomicU64; FRAME_WORDS]; 3]);

    fn ways() -> Vec<Copying> {
        vec![
            Copying::detect(),
            #[cfg(target_arch = "x86_64")]
            Copying { streams: false },
        ]
    }

    #[test]
    fn a_page_comes_out_as_it_went_in_and_nothing_beside_it_changes() {
        for way in ways() {
            let frames = GuardedFrames(from_fn(|_| from_fn(|_| AtomicU64::new(7))));
            // At every offset of a word in a line.
            for skip in 0..8 {
                let words: Vec<u64> = (0..600).map(|n| n << 32 | skip).collect();
                let page: &[u64; 512] = words[skip as usize..].first_chunk().expect("600 words");
                way.page_in(&frames.0[1], page);
                let mut out = vec![9; 600];
                let into = out[skip as usize..].first_chunk_mut().expect("600 words");
                way.page_out(into, &frames.0[1]);
                assert_eq!(into, page, "{way:?} at word {skip}");
                let end = skip as usize + FRAME_WORDS;
                assert!(out[..skip as usize].iter().all(|word| *word == 9));
                assert!(out[end..].iter().all(|word| *word == 9));
            }
            let beside = [&frames.0[0], &frames.0[2]];
            assert!(beside.into_iter().flatten().all(|w| w.load(Relaxed) == 7));
        }
    }

    #[test]
    fn a_frame_that_starts_at_no_line_is_written_too() {
        let words: Vec<AtomicU64> = (0..600).map(|_| AtomicU64::new(0)).collect();
        let page: [u64; 512] = from_fn(|n| n as u64 + 1);
        for way in ways() {
            for skip in 0..8 {
                let frame = words[skip..].first_chunk().expect("600 words");
                way.page_in(frame, &page);
                assert!(frame.iter().zip(&page).all(|(w, n)| w.load(Relaxed) == *n));
            }
        }
    }
}
