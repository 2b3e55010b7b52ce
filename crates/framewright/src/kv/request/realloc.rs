//! Objects that change their length.
//!
//! ```text
//!   fits where it is, aligned so     stays; a block's tail that is no longer needed is free
//!     ... and has four times what    moves to something smaller, if that is there at once
//!         a new one would have
//!   else                             moves to what `kvmalloc` obtains
//! ```
//!
//! So a request that is no longer than the object never fails, if the object is aligned to it. An
//! object that stays needs no memory, nor even the possibility of another such object, and no
//! request waits for something smaller.

use super::super::lengths::{bytes_of, order_of};
use super::super::table::KvEntry;
use super::super::{KvError, KvFreeError, KvSeat};
use super::KvRequest;
use super::obtain::MemoryNeed;
use crate::frame::FrameSource;
use crate::platform::parts::{copy_object, zero_object};
use crate::platform::{ObjectPlatform, OrElse, Relief};
use crate::units::{Addr, Context, Page};
use crate::vrange::RangeFreeError;

/// An object moves to something smaller if it has this many times the memory it needs: below that the
/// copy costs more than it gains.
const WASTE: u64 = 4;

impl<P, F, R> KvSeat<'_, '_, '_, P, F, R>
where
    P: ObjectPlatform,
    R: Relief<F>,
    F: FrameSource,
{
    /// Changes the length of an object to the request's, and keeps the bytes that both lengths have
    /// \[`kvrealloc`\]. It is aligned as the request says, and moves if it must. If it fits in the
    /// memory that it has, it moves only if that is four times what it needs, and something smaller
    /// is there at once. The rest of a block that becomes shorter is given back in place.
    ///
    /// With [`zero`](KvRequest::zero) the bytes behind the old length are zero, if the object's own
    /// request and all its changes asked for that. Else those that it already had room for keep
    /// their contents.
    ///
    /// # Errors
    /// As [`kvmalloc`](Self::kvmalloc), and what is wrong with the address. The object is unchanged then. An area that
    /// is mapped for another access than the default is no object: [`RangeFreeError::WrongKind`].
    /// Mapped pages move only for a caller that may wait, because freeing them may wait. A length that
    /// the object can have already, at an alignment that it has, is never refused for want of anything.
    ///
    /// It is an error, too, if another CPU frees the object while it moves. Then the new one is freed as by
    /// [`kvfree`](Self::kvfree), which has no context.
    pub fn kvrealloc(&mut self, addr: Addr, request: &KvRequest) -> Result<Addr, KvError> {
        request.check()?;
        let had = self.kvsize(addr);
        // An object that stays in place needs no memory, nor the possibility of another such
        // object.
        let need = self.need(request, true);
        let need = need.and_then(|need| self.possible(request, &need));
        let (had, need) = match (had, need) {
            (Ok(had), need) => (had, need),
            (Err(_), Err(error)) => return Err(error),
            (Err(error), Ok(_)) => return Err(KvError::Free(error)),
        };
        let is_mapped = self.kv.place(addr).is_none();
        if is_mapped && self.ranges.space().has_access(addr.page()) {
            let error = RangeFreeError::WrongKind(addr.page());
            return Err(KvError::Free(KvFreeError::Ranges(error)));
        }
        let fits = request.bytes <= had && addr.0 & (request.align_bytes - 1) == 0;
        // A free of mapped pages may wait.
        let may_move = request.context.may_block || !is_mapped;
        if !fits && need.is_ok() && !may_move {
            return Err(KvError::MustNotFree(addr));
        }
        // The new object is zeroed behind the copied part, and not before.
        let bare = KvRequest {
            zero: false,
            ..*request
        };
        let new = if fits {
            let had = self.cut(addr, had, request.bytes);
            let need = need.ok().filter(|_| may_move);
            match need.and_then(|need| self.smaller(had, &bare, &need, addr)) {
                Some(new) => new,
                None => {
                    zero_behind(&self.kv.platform, addr, request, request.bytes, had);
                    return Ok(addr);
                }
            }
        } else {
            self.obtain(&bare, &need?)?
        };
        let kept = had.min(request.bytes);
        let has = self.kvsize(new).unwrap_or(kept);
        self.calling_out_for(new, |platform| {
            copy_object(platform, addr, new, kept);
            zero_behind(platform, new, request, kept, has);
        });
        // If the wait for another CPU unwinds out of this, the caller does not know the new object either.
        let unwound = OrElse::new(self, |seat| seat.free_unwound(new));
        let freed = unwound.seat.kvfree(addr);
        unwound.end();
        match freed {
            Ok(_) => Ok(new),
            // Another CPU has freed the object meanwhile, and does not know the new one.
            Err(error) => {
                let given_back = self.kvfree(new);
                debug_assert!(given_back.is_ok(), "{given_back:?}: it was just made");
                Err(KvError::Free(error))
            }
        }
    }

    /// Gives back the tail of a block that `bytes` bytes do not need. Returns how many bytes the
    /// object can have then.
    fn cut(&mut self, addr: Addr, had: u64, bytes: u64) -> u64 {
        let Some(place) = self.kv.place(addr) else {
            return had;
        };
        let KvEntry::Run(order) = self.kv.table.get(place) else {
            return had;
        };
        match order_of(bytes, 1) {
            Some(shorter) if shorter < order && self.cut_run(place, order, shorter) => {
                bytes_of(shorter)
            }
            _ => had,
        }
    }

    /// A much smaller object than the one of `had` bytes, if one is there at once.
    fn smaller(
        &mut self,
        had: u64,
        request: &KvRequest,
        need: &MemoryNeed,
        addr: Addr,
    ) -> Option<Addr> {
        let enough = had / WASTE;
        let slot = need.class.map(|class| class.bytes());
        let block = need.order.map(bytes_of);
        if slot.or(block).is_some_and(|bytes| bytes <= enough)
            && let Some(new) = self.look(request, need)
        {
            return Some(new);
        }
        let is_mapped = self.kv.place(addr).is_none();
        let pages = request.bytes.div_ceil(Page::BYTES);
        if is_mapped && pages * Page::BYTES <= enough {
            // Takes only memory that is there at once: the object may as well stay, so no CPU is
            // stopped and nothing flushed for it.
            let at_once = Context {
                may_block: false,
                ..request.context
            };
            return self.map(&request.within(at_once), need).ok();
        }
        None
    }
}

fn zero_behind(
    platform: &impl ObjectPlatform,
    addr: Addr,
    request: &KvRequest,
    from: u64,
    to: u64,
) {
    if request.zero && from < to {
        let at = Addr(addr.0 + from);
        zero_object(platform, at, to - from);
    }
}
