//! A number for each thread.
//!
//! A thread takes the lowest free slot at its first use and keeps it until it ends; then the slot
//! is free for another thread. What lies at home in a slot (a seat's cache) stays there meanwhile.

use framewright::CpuId;
use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// Slots for the threads that use one host. Clones are the same slots.
#[derive(Clone, Debug)]
pub struct Slots {
    taken: Arc<[AtomicBool]>,
}

/// Why a thread has no slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoSlot {
    /// Each of so many slots is another thread's; one is free again when its thread ends.
    AllTaken(u16),
    /// The thread is ending, and has given its slots back.
    Ending,
}

impl fmt::Display for NoSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllTaken(count) => write!(f, "all {count} CPU slots are other threads'"),
            Self::Ending => f.write_str("a thread that is ending has no CPU slot"),
        }
    }
}

impl std::error::Error for NoSlot {}

/// The slots that this thread has, one of each [`Slots`] it met; given back when it ends.
struct Mine(RefCell<Vec<(Weak<[AtomicBool]>, u16)>>);

thread_local! {
    static MINE: Mine = const { Mine(RefCell::new(Vec::new())) };
}

impl Drop for Mine {
    fn drop(&mut self) {
        for (slots, slot) in self.0.take() {
            if let Some(taken) = slots.upgrade() {
                // Release pairs with the Acquire of the next thread that takes the slot.
                taken[usize::from(slot)].store(false, Ordering::Release);
            }
        }
    }
}

impl Slots {
    /// So many slots, all free.
    #[must_use]
    pub fn new(count: u16) -> Self {
        Self {
            taken: (0..count).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u16 {
        self.taken.len() as u16
    }

    /// The calling thread's slot; it takes the lowest free one if it has none.
    ///
    /// Some nanoseconds when it has one.
    ///
    /// # Errors
    /// If there is none for it. Nothing has changed then.
    pub fn mine(&self) -> Result<CpuId, NoSlot> {
        let mine = MINE.try_with(|mine| {
            let mut mine = mine.0.borrow_mut();
            // The address tells the slots apart: it is not used again as long as there is a Weak.
            let same = |(slots, _): &&(Weak<[AtomicBool]>, u16)| {
                std::ptr::addr_eq(slots.as_ptr(), Arc::as_ptr(&self.taken))
            };
            if let Some((_, slot)) = mine.iter().find(same) {
                return Ok(CpuId(*slot));
            }
            mine.retain(|(slots, _)| slots.strong_count() > 0);
            let slot = self.take().ok_or(NoSlot::AllTaken(self.count()))?;
            mine.push((Arc::downgrade(&self.taken), slot));
            Ok(CpuId(slot))
        });
        mine.unwrap_or(Err(NoSlot::Ending))
    }

    fn take(&self) -> Option<u16> {
        // Acquire pairs with the Release of the thread that gave the slot back.
        let free = |taken: &AtomicBool| !taken.swap(true, Ordering::Acquire);
        let slot = self.taken.iter().position(free)?;
        Some(slot as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Barrier, mpsc};
    use std::thread;

    #[test]
    fn each_thread_has_one_slot_until_it_ends() {
        let slots = Slots::new(3);
        assert_eq!(slots.mine(), Ok(CpuId(0)));
        let all_have_one = Barrier::new(3);
        thread::scope(|scope| {
            let worker = || {
                scope.spawn(|| {
                    let mine = slots.mine().unwrap();
                    all_have_one.wait();
                    assert_eq!(slots.mine(), Ok(mine));
                    all_have_one.wait();
                    mine
                })
            };
            let workers = [worker(), worker()];
            all_have_one.wait();
            let late = scope.spawn(|| slots.mine()).join().unwrap();
            let refused = late.unwrap_err();
            assert_eq!(refused, NoSlot::AllTaken(3));
            assert_eq!(refused.to_string(), "all 3 CPU slots are other threads'");
            all_have_one.wait();
            let mut had = workers.map(|worker| worker.join().unwrap());
            had.sort();
            assert_eq!(had, [CpuId(1), CpuId(2)]);
        });
        assert_eq!(slots.mine(), Ok(CpuId(0)));
        let next = thread::scope(|scope| scope.spawn(|| slots.mine()).join().unwrap());
        assert_eq!(next, Ok(CpuId(1)));
    }

    #[test]
    fn slots_of_two_hosts_are_not_mixed_up() {
        let (one, other) = (Slots::new(1), Slots::new(2));
        assert_eq!((one.mine(), other.mine()), (Ok(CpuId(0)), Ok(CpuId(0))));
        assert_eq!(one.clone().mine(), Ok(CpuId(0)));
        for _ in 0..100 {
            assert_eq!(Slots::new(1).mine(), Ok(CpuId(0)));
        }
        // What is gone is forgotten when the next one comes.
        assert!(MINE.with(|mine| mine.0.borrow().len()) <= 3);
    }

    #[test]
    fn a_thread_that_ends_gives_its_slot_back_and_asks_in_vain() {
        struct AtTheEnd(Slots, mpsc::Sender<Result<CpuId, NoSlot>>);
        impl Drop for AtTheEnd {
            fn drop(&mut self) {
                self.1.send(self.0.mine()).unwrap();
            }
        }
        thread_local! {
            static END: RefCell<Option<AtTheEnd>> = const { RefCell::new(None) };
        }
        let slots = Slots::new(1);
        let (found, finds) = mpsc::channel();
        let at_the_end = AtTheEnd(slots.clone(), found);
        thread::spawn(|| {
            // Used first, so destroyed last, as std does it; it promises no order.
            END.with(|end| *end.borrow_mut() = None);
            at_the_end.0.mine().unwrap();
            END.with(|end| *end.borrow_mut() = Some(at_the_end));
        })
        .join()
        .unwrap();
        let found = finds.recv().unwrap();
        assert!(matches!(found, Err(NoSlot::Ending) | Ok(CpuId(0))));
        let message = NoSlot::Ending.to_string();
        assert_eq!(message, "a thread that is ending has no CPU slot");
        assert_eq!(slots.mine(), Ok(CpuId(0)));
    }
}
