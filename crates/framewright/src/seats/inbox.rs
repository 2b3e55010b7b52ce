//! Remote frees: how they are sent, and how the owner collects them.
//!
//! A *parcel* is a span or a slab: it has an owner, and a bitmap into which every other CPU frees.
//!
//! ```text
//!     a CPU that frees     its bit         pending?  no: pending = 1, the parcel into the owner's inbox
//!                                                    yes: the owner is going to look
//!     the owner            takes the list  pending = 0, then the bits
//! ```
//!
//! Each writes one word and then reads the word of the other, and all four accesses are in one order. So
//! either the owner sees the bit, or the CPU that frees sees that the parcel is not pending and sends it again.

use crate::sync::{
    AtomicU64,
    Ordering::{AcqRel, Relaxed, Release, SeqCst},
    model_fence,
};

/// The two words with which a parcel is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parcel<'m> {
    /// Whether it is in an inbox, or about to be.
    pub(crate) pending: &'m AtomicU64,
    /// The next parcel in the same inbox, as a number plus one.
    pub(crate) next: &'m AtomicU64,
}

impl Parcel<'_> {
    /// Takes it out of the inbox, for its owner, or for a CPU that finds it without one. From here on the caller
    /// sees all earlier bits; a CPU that sets a later one sends the parcel again.
    fn open(self) {
        // At least Acquire: it pairs with the exchange in `notify`.
        self.pending.swap(0, SeqCst);
        model_fence();
    }

    /// Marks it as pending. Returns whether it was not pending before; then the caller pushes it into an inbox.
    fn mark(self) -> bool {
        self.pending.swap(1, AcqRel) == 0
    }
}

/// A seat, as one of several that send each other parcels.
pub(crate) trait Inboxes<'m> {
    /// The CPU whose seat this is.
    fn here(&self) -> u16;

    /// The inbox of a CPU: a list of parcels, as the first one's number plus one.
    fn inbox(&self, cpu: u16) -> &'m AtomicU64;

    fn parcel(&self, number: u32) -> Parcel<'m>;

    /// The CPU that owns a parcel, if one does.
    fn owner(&self, number: u32) -> Option<u16>;

    /// Whether a parcel has a remote free that its owner has not collected. Reads the bits in one order with
    /// all `SeqCst` accesses: a CPU that sees a bit sees the owner to which it was sent.
    fn has_remote(&self, number: u32) -> bool;

    /// Takes the bits that other CPUs set in a parcel of this seat's, and frees what they stand for.
    fn collect(&self, number: u32);

    /// Collects the frees of other CPUs in the parcels in the seat's inbox. Returns whether there was one.
    #[inline]
    fn collect_inbox(&self) -> bool {
        let is_full = self.inbox(self.here()).load(Relaxed) != 0;
        if is_full {
            self.collect_all();
        }
        is_full
    }

    #[cold]
    fn collect_all(&self) {
        // Acquire pairs with the Release in `push`.
        let mut next = self.inbox(self.here()).swap(0, AcqRel);
        while let Some(number) = (next as u32).checked_sub(1) {
            next = self.parcel(number).next.load(Relaxed);
            match self.owner(number) {
                Some(cpu) if cpu == self.here() => {
                    self.parcel(number).open();
                    self.collect(number);
                }
                // The parcel has changed hands since a CPU sent it.
                Some(cpu) => self.push(cpu, number),
                None => self.forget(number),
            }
        }
    }

    /// Takes a parcel without an owner out of the inboxes.
    #[cold]
    fn forget(&self, number: u32) {
        self.parcel(number).open();
        // Meanwhile a CPU may have become its owner. Another may have freed in it, and not sent it because it
        // was pending. This CPU sees that bit here, and because of it also the owner.
        if self.has_remote(number)
            && let Some(cpu) = self.owner(number)
            && self.parcel(number).mark()
        {
            self.push(cpu, number);
        }
    }

    /// Sends the parcel to its owner, unless it is on its way. The caller has set the bit of its remote free with
    /// `SeqCst` before.
    #[inline(always)]
    fn notify(&self, owner: u16, number: u32) {
        model_fence();
        // Mostly it is on its way, and this look is all that it costs.
        if self.parcel(number).pending.load(SeqCst) == 0 && self.parcel(number).mark() {
            self.push(owner, number);
        }
    }

    /// Puts a parcel that this CPU marked as pending, or took out of an inbox, into its owner's inbox.
    fn push(&self, owner: u16, number: u32) {
        let inbox = self.inbox(owner);
        let next = self.parcel(number).next;
        let mut head = inbox.load(Relaxed);
        loop {
            next.store(head, Relaxed);
            // Release: the CPU that takes the list sees the link.
            match inbox.compare_exchange_weak(head, u64::from(number) + 1, Release, Relaxed) {
                Ok(_) => return,
                Err(found) => head = found,
            }
        }
    }
}
