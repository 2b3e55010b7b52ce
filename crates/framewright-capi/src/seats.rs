//! The calling thread: whether it is inside a call, its last refusal, and which place is its own in which host.
//!
//! All of it lies in thread-local memory without a destructor, so it is there until the thread's very end, and a first
//! call allocates nothing. The places go back in the destructor of a pthread key ([`end`]). Calls that come later, from
//! destructors of other keys, work in the shared place.

use crate::c::ending;
use crate::codes::CallRefusal;
use crate::registry::{self, HostEntry, HostPlace, HostedSeat};
use framewright_capi_core::codes::{FW_EPANIC, FW_EREENTRY, FW_OK};
use std::cell::Cell;
use std::ffi::c_int;
use std::fmt::{self, Display, Write};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{Ordering::SeqCst, compiler_fence};

/// How many hosts a thread remembers its places in. With more in turn, it gives the place in one back for the next.
const KNOWN: usize = 8;

/// How many calls a thread that found no place makes in the shared one before it looks for its own again.
const PATIENCE: u32 = 1000;

/// The most bytes of a message.
pub(crate) const MESSAGE_MAX: usize = 200;

/// A host that the thread used, and its place there.
#[derive(Clone, Copy)]
struct KnownPlace {
    /// 0 for none.
    handle: usize,
    /// Its own place; `None` if it has none.
    place: Option<u16>,
    /// How many calls it makes before it looks for one.
    patience: u32,
}

/// Whether the thread's places will go back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PlaceEnd {
    /// The key has no value for the thread yet.
    Unknown,
    /// It has: the thread will call [`end`].
    Announced,
    /// It did, or the process has no key: the thread has no place of its own.
    Past,
}

struct ThreadNow {
    is_inside: Cell<bool>,
    last: Cell<c_int>,
    message: [Cell<u8>; MESSAGE_MAX],
    message_len: Cell<usize>,
    known: [Cell<KnownPlace>; KNOWN],
    /// The entry of `known` that the next host gets if none is empty.
    next: Cell<usize>,
    end: Cell<PlaceEnd>,
}

thread_local! {
    static NOW: ThreadNow = const {
        ThreadNow {
            is_inside: Cell::new(false),
            last: Cell::new(FW_OK),
            message: [const { Cell::new(0) }; MESSAGE_MAX],
            message_len: Cell::new(0),
            known: [const {
                Cell::new(KnownPlace {
                    handle: 0,
                    place: None,
                    patience: 0,
                })
            }; KNOWN],
            next: Cell::new(0),
            end: Cell::new(PlaceEnd::Unknown),
        }
    };
}

/// Writes into the thread's message, and drops what does not fit.
struct MessageWriter<'t>(&'t ThreadNow);

impl Write for MessageWriter<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // A signal handler that is refused meanwhile writes, too: the text is torn then, and its length right.
        for byte in text.bytes() {
            let at = self.0.message_len.get();
            if at < MESSAGE_MAX {
                self.0.message[at].set(byte);
                self.0.message_len.set(at + 1);
            }
        }
        Ok(())
    }
}

/// Sets the thread's last message.
pub(crate) fn set_message(message: &dyn Display) {
    NOW.with(|now| {
        now.message_len.set(0);
        // The writer refuses nothing.
        let _ = write!(MessageWriter(now), "{message}");
    });
}

/// Copies the thread's last message, as far as it fits. Returns its whole length.
pub(crate) fn copy_message(into: &mut [u8]) -> usize {
    NOW.with(|now| {
        let len = now.message_len.get().min(MESSAGE_MAX);
        for (to, from) in into.iter_mut().zip(&now.message[..len]) {
            *to = from.get();
        }
        len
    })
}

/// The code of the thread's last refusal.
pub(crate) fn last() -> c_int {
    NOW.with(|now| now.last.get())
}

/// Notes a refusal as the thread's last one, and passes its code on.
pub(crate) fn note(refusal: CallRefusal) -> c_int {
    NOW.with(|now| now.last.set(refusal.code()));
    refusal.code()
}

/// That the thread is inside a call, until this is dropped (CA2).
struct InsideCall;

impl InsideCall {
    fn enter() -> Result<Self, CallRefusal> {
        let was_inside = NOW.with(|now| now.is_inside.replace(true));
        // A signal handler of this thread sees what came before in program order.
        compiler_fence(SeqCst);
        match was_inside {
            true => Err(CallRefusal::plain(FW_EREENTRY)),
            false => Ok(Self),
        }
    }
}

impl Drop for InsideCall {
    fn drop(&mut self) {
        compiler_fence(SeqCst);
        NOW.with(|now| now.is_inside.set(false));
    }
}

/// Runs the body of a call: refuses a nested one, and lets nothing unwind (CA2, CA3).
pub(crate) fn call<T>(body: impl FnOnce() -> Result<T, CallRefusal>) -> Result<T, c_int> {
    let done = InsideCall::enter().and_then(|_inside| {
        let done = panic::catch_unwind(AssertUnwindSafe(body));
        done.unwrap_or_else(|panic| {
            // A payload whose own drop panics would unwind from here.
            std::mem::forget(panic);
            Err(CallRefusal::plain(FW_EPANIC))
        })
    });
    done.map_err(note)
}

/// Works in a seat of the host: in the thread's own place, or in the shared one.
pub(crate) fn in_seat<T>(
    handle: usize,
    work: impl FnOnce(&mut HostedSeat) -> Result<T, CallRefusal>,
) -> Result<T, CallRefusal> {
    let (entry, place) = NOW.with(|now| now.place(handle))?;
    entry.work_at(place, handle, work)
}

/// The same for a call that must not wait: it is refused where another thread is in the seat.
pub(crate) fn in_seat_at_once<T>(
    handle: usize,
    work: impl FnOnce(&mut HostedSeat) -> Result<T, CallRefusal>,
) -> Result<T, CallRefusal> {
    let (entry, place) = NOW.with(|now| now.place(handle))?;
    entry.work_at_once(place, handle, work)
}

/// Gives the thread's places back. Called at its end, when no call of the thread is under way.
pub(crate) fn end() {
    NOW.with(|now| {
        now.end.set(PlaceEnd::Past);
        for known in &now.known {
            now.give_back(known);
        }
    });
}

impl ThreadNow {
    /// The thread's own place in a host; the shared one, if it has none.
    fn place(
        &self,
        handle: usize,
    ) -> Result<(&'static HostEntry, &'static HostPlace), CallRefusal> {
        let entry = registry::find(handle)?;
        let found = self.known.iter().find(|known| known.get().handle == handle);
        if let Some(known) = found
            && let Some(place) = known.get().place
        {
            return Ok((entry, entry.own(place)));
        }
        Ok((entry, self.new_place(entry, handle, found)))
    }

    /// A place in a host that the thread has none in, as far as it knows.
    #[cold]
    fn new_place(
        &self,
        entry: &'static HostEntry,
        handle: usize,
        found: Option<&Cell<KnownPlace>>,
    ) -> &'static HostPlace {
        if self.end.get() == PlaceEnd::Unknown {
            let is_announced = ending::announce();
            self.end.set(match is_announced {
                true => PlaceEnd::Announced,
                false => PlaceEnd::Past,
            });
        }
        if self.end.get() == PlaceEnd::Past {
            return entry.shared();
        }
        let known = found.unwrap_or_else(|| self.forget_one());
        let patience = match known.get().handle == handle {
            true => known.get().patience,
            false => 0,
        };
        let place = match patience {
            0 => entry.take_place(handle),
            _ => None,
        };
        known.set(KnownPlace {
            handle,
            place,
            patience: patience.checked_sub(1).unwrap_or(PATIENCE),
        });
        place.map_or(entry.shared(), |place| entry.own(place))
    }

    /// Room for one more host.
    fn forget_one(&self) -> &Cell<KnownPlace> {
        let is_gone = |known: &&Cell<KnownPlace>| !registry::is_known(known.get().handle);
        let gone = self.known.iter().find(is_gone);
        let known = gone.unwrap_or_else(|| {
            let next = self.next.get();
            self.next.set((next + 1) % KNOWN);
            &self.known[next]
        });
        self.give_back(known);
        known
    }

    fn give_back(&self, known: &Cell<KnownPlace>) {
        let KnownPlace { handle, place, .. } = known.replace(KnownPlace {
            handle: 0,
            place: None,
            patience: 0,
        });
        if let Some(place) = place {
            registry::give_place_back(handle, place);
        }
    }
}
