//! The folder's system calls by address, all of them inside one reservation. What a page shows, and how many mappings
//! there may be, are the other files' business.

// UNSAFETY: address space is asked of the kernel and given back here, and mapped anew inside of it;
// mmap has no safe form, because the caller must know what it replaces.

use crate::fork::Unforked;
use crate::mapping::{after_map, before_unmap};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, mmap_anonymous, msync, munmap};
use std::ffi::c_void;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What a mapping allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MappingAccess {
    /// Load.
    Read,
    /// Load and store.
    Write,
}

/// Addresses that no other code in the process gets, with as many in front and behind that cannot
/// be accessed.
///
/// # Invariants
/// - Unless `lost` is set, `start .. start + len_bytes` lies in the reservation, and is mapped
///   there without access, or to bytes of the file that [`map`](Self::map) was handed. No Rust
///   value lies there. Once it is set, other code may have a part of it: nothing is given back from
///   then on.
/// - `start` is aligned as was asked.
///
/// One gap is known: before Linux 6.12, between a refused mapping that left nothing and its repair,
/// another thread's mapping may come to lie there; if it covers all that was to be mapped, it looks
/// like this value's own.
#[derive(Debug)]
pub(super) struct AddressReservation {
    start: NonNull<u8>,
    len_bytes: usize,
    whole: *mut c_void,
    whole_bytes: usize,
    /// Other code may have a part of it by now.
    lost: AtomicBool,
    /// A child has no access to it.
    unforked: Unforked,
}

// SAFETY: addresses belong to the process and not to a thread; the value hands out no reference.
unsafe impl Send for AddressReservation {}
// SAFETY: as above; the kernel orders changes of mappings.
unsafe impl Sync for AddressReservation {}

impl AddressReservation {
    /// `len_bytes` of address space without access, from a multiple of `align_bytes` on.
    ///
    /// # Errors
    /// What mmap said.
    pub(super) fn new(len_bytes: usize, align_bytes: usize) -> Result<Self, Errno> {
        // One alignment to move the start, one for guard space behind the end.
        let whole_bytes = len_bytes
            .checked_next_multiple_of(align_bytes)
            .and_then(|bytes| bytes.checked_add(2 * align_bytes))
            .filter(|bytes| isize::try_from(*bytes).is_ok())
            .ok_or(Errno::NOMEM)?;
        // SAFETY: no address is asked for, so no mapping is replaced.
        let whole = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                whole_bytes,
                ProtFlags::empty(),
                none(),
            )?
        };
        after_map();
        let misaligned = whole.addr() % align_bytes;
        // Never 0 bytes further on: the space in front is to be reserved too.
        let start = whole.wrapping_byte_add(align_bytes - misaligned).cast();
        // INVARIANT: inside, because it is at most `align_bytes` further on.
        let start = NonNull::new(start).expect("mmap never returns the null page");
        Ok(Self {
            start,
            len_bytes,
            whole,
            whole_bytes,
            lost: AtomicBool::new(false),
            unforked: Unforked::new(start.addr().get(), len_bytes, false),
        })
    }

    pub(super) const fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Whether a part of it may be unmapped, or other code may have it, because the kernel took it
    /// away and did not give it back. From then on nothing must be mapped or unmapped there.
    pub(super) fn is_lost(&self) -> bool {
        // Relaxed: only the thread that lost a range changes that range, and the rest is unchanged.
        self.lost.load(Relaxed)
    }

    /// Shows `file` from `offset` on at the bytes `bytes` of the reservation, whatever was there;
    /// with `fill`, page tables are filled at once.
    ///
    /// # Errors
    /// What mmap said. The bytes are as they were then, except that the kernel may have cut their
    /// mapping or taken their access away; or the reservation [is lost](Self::is_lost).
    ///
    /// # Panics
    /// If the bytes are not all inside.
    pub(super) fn map(
        &self,
        bytes: &Range<usize>,
        file: BorrowedFd<'_>,
        offset: u64,
        access: MappingAccess,
        fill: bool,
    ) -> Result<(), Errno> {
        let at = self.place(bytes);
        let mut flags = MapFlags::SHARED | MapFlags::FIXED;
        if fill {
            flags |= MapFlags::POPULATE;
        }
        let access = match access {
            MappingAccess::Read => ProtFlags::READ,
            MappingAccess::Write => ProtFlags::READ | ProtFlags::WRITE,
        };
        // SAFETY: MAP_FIXED replaces only what is inside (checked by `place`), which is this
        // value's and has no Rust value in it (invariant). The file cannot become shorter: pages
        // that this makes accessible stay accessible.
        let mapped = unsafe { mmap(at, bytes.len(), access, flags, file, offset) };
        mapped.map(drop).inspect_err(|_| self.mend(bytes))
    }

    /// Takes the access to the bytes `bytes` away.
    ///
    /// # Errors
    /// What mmap said. The bytes are as they were then, except that the kernel may have cut their
    /// mapping or taken their access away; or the reservation [is lost](Self::is_lost).
    ///
    /// # Panics
    /// If the bytes are not all inside.
    pub(super) fn unmap(&self, bytes: &Range<usize>) -> Result<(), Errno> {
        let at = self.place(bytes);
        let flags = none() | MapFlags::FIXED;
        // SAFETY: as in `map`.
        let mapped = unsafe { mmap_anonymous(at, bytes.len(), ProtFlags::empty(), flags) };
        mapped.map(drop).inspect_err(|_| self.mend(bytes))
    }

    /// Before Linux 6.12 a refused MAP_FIXED could have unmapped the range that it was to replace:
    /// then any other mmap could land there.
    fn mend(&self, bytes: &Range<usize>) {
        let at = self.place(bytes);
        // SAFETY: changes nothing; an error if a part of the range is not mapped. (An mmap could
        // not tell: at the limit of mappings the kernel refuses it before it looks at the range.)
        if unsafe { msync(at, bytes.len(), MsyncFlags::ASYNC) }.is_ok() {
            return;
        }
        let flags = none() | MapFlags::FIXED_NOREPLACE;
        // SAFETY: replaces nothing. A kernel that does not know the flag takes the address for a
        // hint, and a mapping elsewhere is given back.
        match unsafe { mmap_anonymous(at, bytes.len(), ProtFlags::empty(), flags) } {
            Ok(mended) if mended == at => return,
            Ok(elsewhere) => {
                // SAFETY: the kernel chose the place just now, and no other code knows it.
                let _ = unsafe { munmap(elsewhere, bytes.len()) };
            }
            Err(_) => {}
        }
        self.lost.store(true, Relaxed);
        // Other code may have memory there, in a child too.
        self.unforked.give_up();
    }

    /// Lets a child read it from here on.
    pub(super) fn let_children_read(&self) {
        self.unforked.let_read();
    }

    fn place(&self, bytes: &Range<usize>) -> *mut c_void {
        let inside = bytes.start <= bytes.end && bytes.end <= self.len_bytes;
        assert!(inside, "bytes {bytes:?} are not in a reservation");
        self.start.as_ptr().wrapping_byte_add(bytes.start).cast()
    }
}

impl Drop for AddressReservation {
    fn drop(&mut self) {
        if self.is_lost() {
            // It is unknown which part belongs to whom. The address space stays, and the pages that
            // it shows.
            return;
        }
        self.unforked.give_up();
        before_unmap();
        // SAFETY: the whole is this value's (invariant: it is not lost), and no reference into it
        // outlives the value. If the kernel refuses, it stays reserved until the process ends.
        let _ = unsafe { munmap(self.whole, self.whole_bytes) };
    }
}

/// NORESERVE: without access, memory is never needed.
fn none() -> MapFlags {
    MapFlags::PRIVATE | MapFlags::NORESERVE
}

#[cfg(test)]
impl AddressReservation {
    /// Imitates the worst result of a refused change of the pages from byte `start` on: two pages
    /// are gone, and other code has the first. Returns where.
    pub(super) fn lose_two_pages(&self, start: usize) -> NonNull<u8> {
        let bytes = start..start + 2 * 4096;
        let at = self.place(&bytes);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE;
        // SAFETY: of the reservation, in which no Rust value lies; the mapping that replaces it is
        // new.
        let other = unsafe {
            munmap(at, bytes.len()).unwrap();
            mmap_anonymous(at, 4096, access, flags).unwrap()
        };
        assert!(!self.is_lost());
        self.mend(&bytes);
        assert!(self.is_lost());
        NonNull::new(other.cast()).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_is_aligned_with_room_on_both_sides() {
        for align in [4096, 4 << 20] {
            let one = AddressReservation::new(3 * 4096, align).unwrap();
            let start = one.start().addr().get();
            assert!(start.is_multiple_of(align));
            assert!(start > one.whole.addr());
            assert!(start + one.len_bytes < one.whole.addr() + one.whole_bytes);
        }
    }

    #[test]
    fn more_than_the_address_space_is_an_error() {
        for len in [usize::MAX, 1 << 62, 1 << 50] {
            assert_eq!(
                AddressReservation::new(len, 4096).unwrap_err(),
                Errno::NOMEM
            );
        }
    }

    #[test]
    fn a_refused_change_leaves_the_place_reserved() {
        let one = AddressReservation::new(16 * 4096, 4096).unwrap();
        let file = rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        use std::os::fd::AsFd;
        // An offset that no file has.
        let refused = one
            .map(&(4096..8192), file.as_fd(), 1, MappingAccess::Write, false)
            .unwrap_err();
        assert_eq!(refused, Errno::INVAL);
        one.mend(&(0..16 * 4096));
        assert!(!one.is_lost());
        one.unmap(&(0..16 * 4096)).unwrap();
    }

    #[test]
    fn what_the_kernel_took_away_is_reserved_again() {
        let one = AddressReservation::new(16 * 4096, 4096).unwrap();
        let bytes = 4 * 4096..6 * 4096;
        let at = one.place(&bytes);
        // SAFETY: of the reservation, in which no Rust value lies.
        unsafe { munmap(at, bytes.len()) }.unwrap();
        one.mend(&bytes);
        assert!(!one.is_lost());
        // SAFETY: changes nothing.
        unsafe { msync(at, bytes.len(), MsyncFlags::ASYNC) }.unwrap();
    }

    #[test]
    fn what_was_lost_cannot_be_given_back() {
        let one = AddressReservation::new(16 * 4096, 4096).unwrap();
        let (whole, whole_bytes) = (one.whole, one.whole_bytes);
        let mut other = one.lose_two_pages(4 * 4096);
        // SAFETY: just mapped, readable and writable, and no other code knows it.
        let byte = unsafe { other.as_mut() };
        *byte = 42;
        drop(one);
        // Not by a load: it would end the process if the page were gone.
        let file = rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        assert_eq!(rustix::io::write(file, std::slice::from_ref(byte)), Ok(1));
        assert_eq!(*byte, 42);
        // SAFETY: the reservation is still there (just written from), no other code uses it, and
        // `byte` is not used after this.
        unsafe { munmap(whole, whole_bytes) }.unwrap();
    }
}
