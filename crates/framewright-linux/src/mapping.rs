// UNSAFETY: memory is asked of the kernel and given back here, and used as words and bytes; mmap
// has no safe form, because the caller must know that no reference outlives the mapping.

//! Memory from the kernel for as long as a value lives.

use crate::fork::{Process, Unforked};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Linux 6.1; `libc` has it for some C libraries only.
const MADV_COLLAPSE: libc::c_int = 25;

/// The size of a huge page, and the alignment of every mapping.
pub(crate) const HUGE_BYTES: usize = 2 << 20;

/// How often addresses were given back. The kernel gives them to others only after that, and the
/// language and the thread sanitizer know it by this number alone: the system calls are not libc's.
static GIVEN_BACK: AtomicU64 = AtomicU64::new(0);

/// To be called before addresses are given back.
pub(crate) fn before_unmap() {
    // Release: all uses of the addresses come before it; pairs with the Acquire of the thread that
    // gets them next.
    GIVEN_BACK.fetch_add(1, Ordering::Release);
}

/// To be called when the kernel has given addresses.
pub(crate) fn after_map() {
    // Acquire pairs with the Release of the thread that had them before.
    GIVEN_BACK.load(Ordering::Acquire);
}

/// A readable and writable mapping, aligned to [`HUGE_BYTES`], with inaccessible memory around it.
///
/// # Invariants
/// - `start .. start + len_bytes` is mapped readable and writable until the value is dropped, lies
///   in the reservation, and no other code maps or unmaps anything there.
/// - `start` is aligned to [`HUGE_BYTES`].
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len_bytes: usize,
    /// The range that was first asked of the kernel, and is given back as a whole.
    reservation: *mut c_void,
    reserved_bytes: usize,
    /// A child has no access to it.
    unforked: Unforked,
    process: Process,
}

// SAFETY: the mapping belongs to the process and not to a thread; through `&Mapping` only atomics
// are handed out, or memory that an `unsafe` function's caller answers for.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Zeroed memory that no other code has.
    ///
    /// # Errors
    /// What mmap said.
    pub(crate) fn anonymous(len_bytes: usize) -> Result<Self, Errno> {
        Self::reserve(len_bytes, |at| {
            // SAFETY: MAP_FIXED replaces only what `reserve` reserved: it hands in the place.
            unsafe { mmap_anonymous(at, len_bytes, read_write(), fixed(MapFlags::PRIVATE)) }
        })
    }

    /// The first `len_bytes` of a file, shared with all that map it.
    ///
    /// # Errors
    /// What mmap said.
    pub(crate) fn shared(file: BorrowedFd<'_>, len_bytes: usize) -> Result<Self, Errno> {
        Self::reserve(len_bytes, |at| {
            // SAFETY: MAP_FIXED replaces only what `reserve` reserved: it hands in the place.
            unsafe {
                mmap(
                    at,
                    len_bytes,
                    read_write(),
                    fixed(MapFlags::SHARED),
                    file,
                    0,
                )
            }
        })
    }

    fn reserve(
        len_bytes: usize,
        map: impl FnOnce(*mut c_void) -> Result<*mut c_void, Errno>,
    ) -> Result<Self, Errno> {
        // Room for the alignment, and for an inaccessible page at the end even without any.
        let reserved_bytes = len_bytes
            .checked_next_multiple_of(HUGE_BYTES)
            .and_then(|whole| whole.checked_add(2 * HUGE_BYTES))
            .ok_or(Errno::NOMEM)?;
        let none = ProtFlags::empty();
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: no address is asked for, so no mapping is replaced.
        let reservation =
            unsafe { mmap_anonymous(std::ptr::null_mut(), reserved_bytes, none, flags)? };
        after_map();
        let misaligned = reservation.addr() % HUGE_BYTES;
        let at = reservation.wrapping_byte_add((HUGE_BYTES - misaligned) % HUGE_BYTES);
        match map(at) {
            // INVARIANT: `at` is aligned, and `len_bytes` from there lie in the reservation, which
            // is longer by twice the alignment.
            Ok(start) => {
                // No kernel refuses it; and fork(3) calls the function that hides it in any case. Only then it is known
                // to that function; a child that is forked off before knows no value that lies here (Y3).
                // SAFETY: the advice leaves contents and protection as they are.
                let refused = unsafe { libc::madvise(start, len_bytes, libc::MADV_DONTFORK) };
                Ok(Self {
                    start: NonNull::new(start.cast()).expect("mmap never returns the null page"),
                    len_bytes,
                    reservation,
                    reserved_bytes,
                    unforked: Unforked::new(start.addr(), len_bytes, refused == 0),
                    process: Process::this(),
                })
            }
            Err(errno) => {
                // SAFETY: no other code knows the reservation yet. A failed MAP_FIXED may have
                // unmapped a part of it; munmap does not mind holes.
                let _ = unsafe { munmap(reservation, reserved_bytes) };
                Err(errno)
            }
        }
    }

    /// Lets a child read it from here on. The caller has told no other thread of it yet.
    pub(crate) fn let_children_read(&self) {
        // In this order: a child must not change the protection of a hole, where others may have a mapping (Y3).
        if self.advise(0, self.len_bytes, libc::MADV_DOFORK).is_ok() {
            self.unforked.let_read();
        }
    }

    /// The process that made it.
    pub(crate) const fn process(&self) -> Process {
        self.process
    }

    /// Its length in bytes.
    #[cfg(test)]
    pub(crate) const fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    pub(crate) const fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// `count` words from byte `offset` on, as atomics.
    ///
    /// # Panics
    /// If they do not all lie in the mapping, or `offset` is not a word's.
    #[inline]
    pub(crate) fn words(&self, offset: usize, count: usize) -> &[AtomicU64] {
        self.check(offset, count.saturating_mul(8));
        assert!(offset.is_multiple_of(8), "a word starts at a multiple of 8");
        // SAFETY: inside: checked above. Alignment: `start` is aligned to 2 MiB, and `offset`
        // checked. Initialised: the kernel hands out zeroed memory, and any bits are a number.
        // Shared writes: atomics allow them; the callers of `bytes_mut` and `words_for_ever`
        // promise that there is no `&mut` to the same bytes.
        unsafe { std::slice::from_raw_parts(self.start.byte_add(offset).cast().as_ptr(), count) }
    }

    /// `len_bytes` from byte `offset` on.
    ///
    /// # Safety
    /// As long as the result lives, no other access reads or writes these bytes.
    ///
    /// # Panics
    /// If they do not all lie in the mapping.
    #[inline]
    #[allow(clippy::mut_from_ref, reason = "the caller owes the exclusiveness")]
    pub(crate) unsafe fn bytes_mut(&self, offset: usize, len_bytes: usize) -> &mut [u8] {
        self.check(offset, len_bytes);
        // SAFETY: inside: checked above. Alignment: any address will do for bytes. Initialised: by
        // the kernel. Exclusive: the caller's promise. Lifetime: the mapping lives as long as
        // `self`.
        unsafe { std::slice::from_raw_parts_mut(self.start.byte_add(offset).as_ptr(), len_bytes) }
    }

    /// All of it as words, for a lifetime of the caller's choice.
    ///
    /// # Safety
    /// The result is not used after `self` is dropped, no code accesses the mapping in another way,
    /// and this is not called again.
    pub(crate) unsafe fn words_for_ever<'m>(&self) -> &'m mut [u64] {
        // SAFETY: inside: it is the whole mapping. Alignment: 2 MiB. Initialised: by the kernel.
        // Exclusive, and lifetime: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast().as_ptr(), self.len_bytes / 8) }
    }

    /// Asks the kernel to serve the first `huge_bytes` with huge pages when they are first used, and the
    /// pages behind them never with huge ones, so that parts that are not touched cost no memory. The kernel
    /// may ignore it.
    pub(crate) fn advise_huge_up_to(&self, huge_bytes: usize) {
        let huge_bytes = huge_bytes / 4096 * 4096;
        let _ = self.advise(0, huge_bytes, libc::MADV_HUGEPAGE);
        let rest = self.len_bytes - huge_bytes;
        let _ = self.advise(huge_bytes, rest, libc::MADV_NOHUGEPAGE);
    }

    /// Makes huge pages of the whole mapping now, as far as whole ones fit, and fills it.
    ///
    /// 0.7 to 5 ms for each 2 MiB.
    ///
    /// # Errors
    /// What the kernel said; there may be some huge pages nevertheless.
    pub(crate) fn collapse(&self) -> Result<(), Errno> {
        // The kernel collapses memory that has a page table, and touching one page makes one. The
        // compiler would leave out a read with an unused result.
        for offset in (0..self.len_bytes).step_by(HUGE_BYTES) {
            std::hint::black_box(self.words(offset, 1)[0].load(Ordering::Relaxed));
        }
        self.advise(0, self.len_bytes, MADV_COLLAPSE)
    }

    /// Gives advice that must leave the contents and the protection unchanged.
    fn advise(&self, offset: usize, len_bytes: usize, advice: libc::c_int) -> Result<(), Errno> {
        self.check(offset, len_bytes);
        // SAFETY: the range lies in this mapping, and the advices used here change which physical
        // pages are behind it, but neither contents nor protection.
        let failed = unsafe {
            let start = self.start.byte_add(offset);
            libc::madvise(start.as_ptr().cast(), len_bytes, advice)
        };
        if failed == 0 {
            return Ok(());
        }
        let errno = std::io::Error::last_os_error().raw_os_error();
        Err(Errno::from_raw_os_error(errno.unwrap_or(libc::EINVAL)))
    }

    #[inline]
    fn check(&self, offset: usize, len_bytes: usize) {
        let inside = offset <= self.len_bytes && len_bytes <= self.len_bytes - offset;
        assert!(inside, "{len_bytes} bytes at {offset} are not in a mapping");
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if !self.process.is_this() {
            // The child may have memory of its own where the parent's mapping was left out.
            return;
        }
        self.unforked.give_up();
        before_unmap();
        // SAFETY: the reservation is this value's (invariant), and no reference into it outlives
        // the value. It cannot fail: whole mappings are given back.
        let _ = unsafe { munmap(self.reservation, self.reserved_bytes) };
    }
}

fn read_write() -> ProtFlags {
    ProtFlags::READ | ProtFlags::WRITE
}

/// Not NORESERVE: if a pool of huge pages cannot give the memory, it must refuse here, not at a
/// touch.
fn fixed(flags: MapFlags) -> MapFlags {
    flags | MapFlags::FIXED
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn a_mapping_is_zeroed_aligned_and_all_its_own() {
        let one = Mapping::anonymous(3 * 4096).unwrap();
        let other = Mapping::anonymous(HUGE_BYTES).unwrap();
        assert!(one.start().addr().get().is_multiple_of(HUGE_BYTES));
        let words = one.words(0, 3 * 512);
        assert!(words.iter().all(|word| word.load(Relaxed) == 0));
        words.iter().for_each(|word| word.store(!0, Relaxed));
        assert!(other.words(0, 512).iter().all(|w| w.load(Relaxed) == 0));
        assert!(one.words(3 * 4096, 0).is_empty());
    }

    #[test]
    #[should_panic(expected = "not in a mapping")]
    fn what_lies_behind_a_mapping_is_refused() {
        let one = Mapping::anonymous(4096).unwrap();
        let _ = one.words(4088, 2);
    }

    #[test]
    fn more_than_the_address_space_is_an_error() {
        assert_eq!(Mapping::anonymous(usize::MAX).unwrap_err(), Errno::NOMEM);
        assert_eq!(Mapping::anonymous(1 << 60).unwrap_err(), Errno::NOMEM);
    }
}
