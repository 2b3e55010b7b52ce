// UNSAFETY: the seats of a host borrow from it for as long as it is there, which the language has no name for.

//! The memory of a host, from which seats borrow.

use framewright::CpuId;
use framewright_linux::{HostCpu, HostKv};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::AcqRel};

/// A host at an address that does not change; or none.
pub(crate) struct HeldHost {
    // INVARIANT: null, or from `Box::into_raw`.
    host: AtomicPtr<HostKv>,
}

impl HeldHost {
    pub(crate) const fn none() -> Self {
        Self {
            host: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Holds a host until [`free`](Self::free), and takes its seats of the CPUs from 0 on.
    pub(crate) fn hold(&self, host: HostKv) -> impl Iterator<Item = HeldSeat> {
        let host = Box::into_raw(Box::new(host));
        let before = self.host.swap(host, AcqRel);
        debug_assert!(before.is_null(), "an entry has one host at a time");
        // SAFETY: from a box, and there until `free`, which the entry calls when it has dropped all seats. The reference
        // is not for ever, and its copies lie in these seats alone.
        let host: &'static HostKv = unsafe { &*host };
        (0..).map_while(move |cpu| {
            let cpu = host.engine().cpu(CpuId(cpu)).ok()?;
            Some(HeldSeat { cpu, host })
        })
    }

    /// Ends the host, and gives its memory back. The caller has dropped all seats that borrow from it.
    pub(crate) fn free(&self) {
        let host = self.host.swap(ptr::null_mut(), AcqRel);
        if !host.is_null() {
            // SAFETY: from `Box::into_raw`, and swapped out once. No reference is left: the seats had all of them, and
            // the entry took each seat out under the lock of its place, so no call is in one.
            drop(unsafe { Box::from_raw(host) });
        }
    }
}

/// A seat, and its host beside it, which is there as long as the seat.
pub(crate) struct HeldSeat {
    // INVARIANT: it has no clients.
    cpu: HostCpu<'static>,
    host: &'static HostKv,
}

// SAFETY: a seat may go from thread to thread, and has one user at a time; so do its parts, except the clients that it can
// have, and this one has none. The host is shared by reference anyway.
unsafe impl Send for HeldSeat {}

const fn is_shared<T: Sync>() {}
const _: () = is_shared::<HostKv>();

impl HeldSeat {
    /// The seats in the host's parts. The caller gives them no clients, and moves them to no other place.
    pub(crate) const fn cpu(&mut self) -> &mut HostCpu<'static> {
        &mut self.cpu
    }

    /// The host, for as long as the seat is borrowed.
    pub(crate) const fn host(&self) -> &HostKv {
        self.host
    }
}
