//! Tells the processor which memory is needed soon, so that it is fetched during other work.
//! Without such an instruction this does nothing: it is never more than a hint.

// UNSAFETY: a hint to the processor is an instruction that the language has no safe name for.
#![cfg_attr(
    all(target_arch = "x86_64", not(any(miri, loom, shuttle))),
    allow(unsafe_code)
)]

/// Hints that the cache line in which `what` starts is written soon.
#[inline]
pub(crate) fn soon_written<T>(what: &T) {
    #[cfg(all(target_arch = "x86_64", not(any(miri, loom, shuttle))))]
    // SAFETY: for the language the instruction accesses nothing: it neither faults nor changes a
    // register, and the reference makes the address valid. A processor of x86-64 without the
    // instruction ignores it.
    unsafe {
        core::arch::asm!(
            "prefetchw [{}]",
            in(reg) core::ptr::from_ref(what),
            options(nostack, preserves_flags, readonly),
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(miri, loom, shuttle)))))]
    let _ = what;
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_hint_changes_nothing() {
        let words = [3u64; 512];
        for word in &words {
            soon_written(word);
        }
        assert_eq!(words, [3; 512]);
    }
}
