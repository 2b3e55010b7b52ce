// UNSAFETY: C calls a function with the address of a thread's list of slots when the thread ends,
// to give them back.

//! A number for each thread.
//!
//! A thread takes the lowest free slot at its first use and keeps it until it ends; then the slot
//! is free for another thread. A slot keeps its belongings (a seat's cache) meanwhile.
//!
//! # When a thread has ended
//! A slot is not given back when the thread's values are dropped: they, and the destructors of
//! pthread keys after them, need a slot for their work with a host as well. Destructors are called
//! in rounds, four at least, as long as there are keys with values. The slots' own key stays set
//! until the fourth, and then gives the slots back. Only a destructor that runs after it in the
//! fourth round finds none ([`NoSlot::Ending`]).
//!
//! So a caller that waits for a thread by [`scope`](std::thread::scope), which returns before all
//! that, may find its slot taken for a moment: [`await_mine`](Slots::await_mine) waits for that
//! moment.

use framewright::CpuId;
use std::cell::Cell;
use std::ffi::c_void;
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Rounds of a thread's destructors that are sure to come: PTHREAD_DESTRUCTOR_ITERATIONS of POSIX.
/// The thread sanitizer ends its own account of a thread in the last one, and crashes on calls
/// after that.
const ROUNDS: u32 = if cfg!(tsan) { 3 } else { 4 };

/// How long a thread that ends may take to give its slot back.
const ENDING: Duration = Duration::from_millis(50);

/// Slots for the threads that use one host. Clones share the slots.
#[derive(Clone, Debug)]
pub struct Slots {
    taken: Arc<[AtomicBool]>,
}

/// Why a thread has no slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoSlot {
    /// Other threads have all of these slots; one is free again when its thread ends.
    AllTaken(u16),
    /// The thread is ending, and has given its slots back.
    Ending,
    /// The process has no pthread key left, or no memory, by which the slot could be given back.
    NoKey,
}

impl fmt::Display for NoSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllTaken(count) => write!(f, "all {count} CPU slots are other threads'"),
            Self::Ending => f.write_str("a thread that is ending has no CPU slot"),
            Self::NoKey => f.write_str("the process has no pthread key to give a CPU slot back by"),
        }
    }
}

impl std::error::Error for NoSlot {}

/// The slots that this thread has, one of each [`Slots`] it met; given back when it ends.
struct MySlots {
    slots: Vec<(Weak<[AtomicBool]>, u16)>,
    /// Rounds of destructors so far.
    rounds: u32,
}

thread_local! {
    // It has no destructor, so it is there until the thread's very end.
    // INVARIANT: null, or from `Box::into_raw`, and the value of `key` but while `ending` runs.
    static MINE: Cell<*mut MySlots> = const { Cell::new(ptr::null_mut()) };
    static HAS_ENDED: Cell<bool> = const { Cell::new(false) };
}

/// The key by which threads give their slots back. `None` if the system has none left.
///
/// Not a `OnceLock`: a child that is forked off while another thread is at work in one would wait for
/// that thread, which it does not have.
fn key() -> Option<libc::pthread_key_t> {
    /// The key plus one.
    static KEY: AtomicU64 = AtomicU64::new(0);
    // Relaxed: a number, which needs nothing that was written before it.
    if let Some(key) = KEY.load(Ordering::Relaxed).checked_sub(1) {
        return Some(key as libc::pthread_key_t);
    }
    let mut key = 0;
    // SAFETY: `key` is written to; `ending` is a function for values of this key.
    if unsafe { libc::pthread_key_create(&mut key, Some(ending)) } != 0 {
        return None;
    }
    match KEY.compare_exchange(0, u64::from(key) + 1, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => Some(key),
        Err(first) => {
            // Another thread was faster.
            // SAFETY: this thread's key, which has no values.
            unsafe { libc::pthread_key_delete(key) };
            Some((first - 1) as libc::pthread_key_t)
        }
    }
}

/// Sets the key's value. Returns whether the thread will be told of its end.
fn set(mine: NonNull<MySlots>) -> bool {
    // SAFETY: the key is there for ever.
    key().is_some_and(|key| unsafe { libc::pthread_setspecific(key, mine.as_ptr().cast()) } == 0)
}

/// Called in each round of a thread's end, as long as it sets the value again.
unsafe extern "C" fn ending(mine: *mut c_void) {
    let Some(mut mine) = NonNull::new(mine.cast::<MySlots>()) else {
        return;
    };
    // SAFETY: the key's value is this thread's `MINE`, from `Box::into_raw`; no other code uses it
    // now.
    let rounds = unsafe {
        mine.as_mut().rounds += 1;
        mine.as_ref().rounds
    };
    if rounds < ROUNDS && set(mine) {
        return;
    }
    HAS_ENDED.set(true);
    MINE.set(ptr::null_mut());
    // SAFETY: from `Box::into_raw`, and no reference to it is left.
    drop(unsafe { Box::from_raw(mine.as_ptr()) });
}

/// This thread's slots, if it can have any.
fn mine<'t>() -> Result<&'t mut MySlots, NoSlot> {
    if let Some(mut mine) = NonNull::new(MINE.get()) {
        // SAFETY: only this thread has it (invariant), and only `Slots::mine` uses it, which does
        // not call itself.
        return Ok(unsafe { mine.as_mut() });
    }
    if HAS_ENDED.get() {
        return Err(NoSlot::Ending);
    }
    let new = Box::new(MySlots {
        slots: Vec::new(),
        rounds: 0,
    });
    let mut new = NonNull::from(Box::leak(new));
    if !set(new) {
        // SAFETY: leaked just now.
        drop(unsafe { Box::from_raw(new.as_ptr()) });
        return Err(NoSlot::NoKey);
    }
    MINE.set(new.as_ptr());
    // SAFETY: as above.
    Ok(unsafe { new.as_mut() })
}

impl Drop for MySlots {
    fn drop(&mut self) {
        for (slots, slot) in self.slots.drain(..) {
            if let Some(taken) = slots.upgrade() {
                // Release pairs with the Acquire of the next thread that takes the slot.
                taken[usize::from(slot)].store(false, Ordering::Release);
            }
        }
    }
}

impl Slots {
    /// `count` slots, all free.
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

    /// The calling thread's slot. It takes the lowest free one if it has none.
    ///
    /// Some nanoseconds if it has one.
    ///
    /// # Errors
    /// If there is no slot for it. Nothing has changed then.
    pub fn mine(&self) -> Result<CpuId, NoSlot> {
        let mine = &mut mine()?.slots;
        // The address tells the slots apart: it is not used again while there is a Weak.
        let same = |(slots, _): &&(Weak<[AtomicBool]>, u16)| {
            ptr::addr_eq(slots.as_ptr(), Arc::as_ptr(&self.taken))
        };
        if let Some((_, slot)) = mine.iter().find(same) {
            return Ok(CpuId(*slot));
        }
        mine.retain(|(slots, _)| slots.strong_count() > 0);
        let slot = self.take().ok_or(NoSlot::AllTaken(self.count()))?;
        mine.push((Arc::downgrade(&self.taken), slot));
        Ok(CpuId(slot))
    }

    /// The same; if all slots are taken, waits up to 50 ms for a thread that is ending to give its
    /// slot back.
    ///
    /// # Errors
    /// As [`mine`](Self::mine).
    pub fn await_mine(&self) -> Result<CpuId, NoSlot> {
        let mut begun = None;
        loop {
            match self.mine() {
                Err(NoSlot::AllTaken(_)) => {}
                other => return other,
            }
            let begun: &mut Instant = begun.get_or_insert_with(Instant::now);
            if begun.elapsed() > ENDING {
                return self.mine();
            }
            std::thread::sleep(Duration::from_micros(50));
        }
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
    use std::cell::RefCell;
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
        // Entries of dropped slots are forgotten when the next one comes.
        assert!(super::mine().unwrap().slots.len() <= 3);
    }

    #[test]
    fn values_that_are_dropped_at_a_threads_end_find_its_slot() {
        struct AsksAtTheEnd(Slots, mpsc::Sender<Result<CpuId, NoSlot>>);
        impl Drop for AsksAtTheEnd {
            fn drop(&mut self) {
                self.1.send(self.0.mine()).unwrap();
            }
        }
        thread_local! {
            static END: RefCell<Option<AsksAtTheEnd>> = const { RefCell::new(None) };
        }
        // Used before the slot, or after it, or although the thread never asked before.
        for asks in 0..3 {
            let slots = Slots::new(1);
            let (found, finds) = mpsc::channel();
            let at_the_end = AsksAtTheEnd(slots.clone(), found);
            thread::spawn(move || {
                if asks == 0 {
                    at_the_end.0.mine().unwrap();
                }
                END.with(|end| *end.borrow_mut() = Some(at_the_end));
                END.with(|end| {
                    if asks == 1 {
                        end.borrow().as_ref().unwrap().0.mine().unwrap();
                    }
                });
            })
            .join()
            .unwrap();
            assert_eq!(finds.recv(), Ok(Ok(CpuId(0))), "{asks}");
            assert_eq!(slots.mine(), Ok(CpuId(0)), "it was given back");
        }
        assert_eq!(
            NoSlot::Ending.to_string(),
            "a thread that is ending has no CPU slot"
        );
    }

    /// The argument of a key's destructor, which asks for its slot in each round, and reports the
    /// answer.
    struct Rounds {
        slots: Slots,
        key: libc::pthread_key_t,
        got: mpsc::Sender<Result<CpuId, NoSlot>>,
    }

    unsafe extern "C" fn ask(rounds: *mut c_void) {
        // SAFETY: the value that the test below set for the key; no other code has it.
        let rounds = unsafe { Box::from_raw(rounds.cast::<Rounds>()) };
        rounds.got.send(rounds.slots.mine()).unwrap();
        let key = rounds.key;
        // The value of the last round stays: no destructor is called after it.
        // SAFETY: the key is the test's.
        unsafe { libc::pthread_setspecific(key, Box::into_raw(rounds).cast()) };
    }

    // The thread sanitizer crashes on calls in the last round.
    #[cfg(not(tsan))]
    #[test]
    fn destructors_of_pthread_keys_find_the_threads_slot_and_in_the_last_round_it_or_none() {
        // One key before that of the slots, if this is the first test; and one after it.
        for knows_slot in [true, false] {
            let mut key = 0;
            // SAFETY: `key` is written to; `ask` is for this key's values.
            assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(ask)) }, 0);
            let slots = Slots::new(1);
            let (got, gets) = mpsc::channel();
            let rounds = Box::new(Rounds {
                slots: slots.clone(),
                key,
                got,
            });
            thread::spawn(move || {
                if knows_slot {
                    rounds.slots.mine().unwrap();
                }
                // SAFETY: the key is this test's.
                unsafe { libc::pthread_setspecific(key, Box::into_raw(rounds).cast()) };
            })
            .join()
            .unwrap();
            // The value of the last round is leaked.
            let all: Vec<_> = gets.try_iter().collect();
            assert!(all.len() >= ROUNDS as usize);
            for (round, got) in all.iter().enumerate() {
                let is_last = round + 1 >= ROUNDS as usize;
                let is_right = *got == Ok(CpuId(0)) || is_last && *got == Err(NoSlot::Ending);
                assert!(is_right, "round {round}: {got:?}");
            }
            if knows_slot {
                assert_eq!(slots.mine(), Ok(CpuId(0)), "it was given back");
            }
            // SAFETY: no thread has a value of it that it could be called for.
            unsafe { libc::pthread_key_delete(key) };
        }
    }

    #[test]
    fn four_thousand_threads_one_after_the_other_have_a_slot_each() {
        let slots = Slots::new(2);
        for _ in 0..2000 {
            // A scope returns before its threads have given their slots back.
            thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| slots.await_mine().unwrap());
                }
            });
        }
    }
}
