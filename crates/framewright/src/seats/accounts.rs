//! How long locks are held, where the user asked for it.

use crate::platform::FramePlatform;
use crate::stats::LockStats;
use crate::sync::{AtomicU64, Lock, LockGuard, Ordering::Relaxed};
use core::{fmt, mem};

/// Whether an allocator accounts its locks, and by which clock.
///
/// Off, it costs a branch for each lock taken. On, it costs two readings of the clock and a few additions
/// to words that only holders of the lock, or one CPU, write.
pub(crate) struct Accounts<P>(Option<fn(&P) -> u64>);

impl<P> Clone for Accounts<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Accounts<P> {}

impl<P> fmt::Debug for Accounts<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Accounts({})", self.0.is_some())
    }
}

/// The caller reads the clock, and may hold a lock or sit in a seat in the middle of a change. If the clock
/// unwinds, these stay so for ever. So this ends the program, with a message: a panic while another one unwinds
/// is no longer caught.
struct ReadsClock;

impl Drop for ReadsClock {
    #[cold]
    fn drop(&mut self) {
        panic!("the platform's clock unwound, perhaps under a lock: no CPU may go on");
    }
}

/// The words of one account: acquisitions, contentions, the longest hold.
pub(crate) const ACCOUNT_WORDS: usize = 3;

/// The account of one lock, or of one CPU's use of all locks of a name.
pub(crate) type Account<'m> = &'m [AtomicU64; ACCOUNT_WORDS];

impl<P> Accounts<P> {
    pub(crate) const OFF: Self = Self(None);

    pub(crate) fn on() -> Self
    where
        P: FramePlatform,
    {
        Self(Some(P::now_ns))
    }

    /// The time now; reads the clock only if locks are accounted.
    #[inline(always)]
    fn now(self, platform: &P) -> u64 {
        self.0.map_or(0, |now_ns| {
            let reading = ReadsClock;
            let now = now_ns(platform);
            mem::forget(reading);
            now
        })
    }

    /// Records that the caller found a lock held.
    #[inline(always)]
    pub(crate) fn contended(self, account: Account<'_>) {
        if self.0.is_some() {
            add(&account[1], 1);
        }
    }

    /// Records that the caller took a lock. Returns when, for [`released`](Self::released).
    #[inline(always)]
    pub(crate) fn acquired(self, platform: &P, account: Account<'_>) -> u64 {
        if self.0.is_some() {
            add(&account[0], 1);
        }
        self.now(platform)
    }

    /// Records that the caller, which took a lock at `since`, gives it up now.
    #[inline(always)]
    pub(crate) fn released(self, platform: &P, account: Account<'_>, since: u64) {
        if self.0.is_some() {
            let held = self.now(platform).saturating_sub(since);
            if account[2].load(Relaxed) < held {
                account[2].store(held, Relaxed);
            }
        }
    }

    /// Takes a lock whose account only its holders write.
    #[inline]
    pub(crate) fn lock<'p, 'm>(
        self,
        lock: Lock<'m>,
        platform: &'p P,
        account: Account<'m>,
    ) -> WatchedLock<'p, 'm, P>
    where
        P: FramePlatform,
    {
        let (guard, waited) = lock.lock_and_tell(|attempt| platform.relax(attempt));
        self.watch(platform, account, waited, guard)
    }

    /// Watches a lock that the caller has just taken, or a value that stands for holding one.
    #[inline]
    pub(crate) fn watch<'p, 'm, G>(
        self,
        platform: &'p P,
        account: Account<'m>,
        waited: bool,
        guard: G,
    ) -> WatchedLock<'p, 'm, P, G> {
        if waited {
            self.contended(account);
        }
        WatchedLock {
            accounts: self,
            platform,
            account,
            since: self.acquired(platform, account),
            guard,
        }
    }
}

/// Adds to a word that no other CPU writes at the moment.
#[inline(always)]
fn add(word: &AtomicU64, by: u64) {
    word.store(word.load(Relaxed) + by, Relaxed);
}

/// The figures of an account.
pub(crate) fn read(account: Account<'_>) -> LockStats {
    let [acquisitions, contended, hold_ns_max] = account.each_ref().map(|word| word.load(Relaxed));
    LockStats {
        acquisitions,
        contended,
        hold_ns_max,
    }
}

/// A held lock. When its holder gives it up, its account is written.
pub(crate) struct WatchedLock<'p, 'm, P, G = LockGuard<'m>> {
    accounts: Accounts<P>,
    platform: &'p P,
    account: Account<'m>,
    since: u64,
    /// Dropped last, after this value's own `drop`, which so writes the account under the lock.
    pub(crate) guard: G,
}

impl<P, G> Drop for WatchedLock<'_, '_, P, G> {
    #[inline]
    fn drop(&mut self) {
        self.accounts
            .released(self.platform, self.account, self.since);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use core::cell::Cell;

    /// A clock that goes on by ten at each reading; waiting on this platform unlocks a lock.
    struct Ticking<'m>(Cell<u64>, &'m AtomicU64);

    impl FramePlatform for Ticking<'_> {
        fn relax(&self, _attempt: u32) {
            self.1.store(0, Relaxed);
        }

        fn now_ns(&self) -> u64 {
            self.0.set(self.0.get() + 10);
            self.0.get()
        }
    }

    #[test]
    fn each_time_counts_waits_too_and_the_longest_hold_stays() {
        let word = AtomicU64::new(0);
        let account = [const { AtomicU64::new(0) }; ACCOUNT_WORDS];
        let platform = Ticking(Cell::new(0), &word);
        let accounts = Accounts::on();
        drop(accounts.lock(Lock::new(&word), &platform, &account));
        let held = accounts.lock(Lock::new(&word), &platform, &account);
        platform.now_ns();
        assert!(Lock::new(&word).is_locked());
        drop(held);
        assert!(!Lock::new(&word).is_locked());
        word.store(1, Relaxed);
        drop(accounts.lock(Lock::new(&word), &platform, &account));
        let expected = LockStats {
            acquisitions: 3,
            contended: 1,
            hold_ns_max: 20,
        };
        assert_eq!(read(&account), expected);
    }

    #[test]
    fn switched_off_nothing_is_written_and_no_clock_is_read() {
        let word = AtomicU64::new(1);
        let account = [const { AtomicU64::new(0) }; ACCOUNT_WORDS];
        let platform = Ticking(Cell::new(0), &word);
        drop(Accounts::OFF.lock(Lock::new(&word), &platform, &account));
        assert_eq!(read(&account), LockStats::default());
        assert_eq!(platform.0.get(), 0);
    }
}
