//! Versions that the store is to have no longer, and may have all the same, because a call unwound (FS7).
//!
//! No later call would name them: a page's next version has another key. A dirty one would stay in the store for ever.

use super::Frontswap;
use framewright::reserve::Key;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The keys of such versions.
#[derive(Default)]
pub(super) struct LeftVersions {
    keys: Mutex<Vec<Key>>,
    /// Whether there is one: all that a call looks at that finds none.
    has_some: AtomicBool,
}

impl LeftVersions {
    fn keys(&self) -> MutexGuard<'_, Vec<Key>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(&self, key: Key) {
        let mut keys = self.keys();
        keys.push(key);
        self.has_some.store(true, Release);
    }
}

/// A version that the store is told to forget: noted if that unwinds.
struct ForgottenVersion<'f> {
    left: &'f LeftVersions,
    key: Key,
}

impl Drop for ForgottenVersion<'_> {
    fn drop(&mut self) {
        self.left.note(self.key);
    }
}

impl Frontswap<'_> {
    /// Makes the store forget a version that no entry names.
    pub(super) fn forget_version(&self, key: Key) {
        let Some(front) = self.front else { return };
        let left = &self.left;
        let unwound = ForgottenVersion { left, key };
        front.tenancy.with(&mut |store| store.invalidate_page(key));
        std::mem::forget(unwound);
    }

    /// Makes the store forget what earlier calls left there. Each call comes here before it gives a page another
    /// version: so no page has a version anew that was left. Other calls wait meanwhile.
    pub(super) fn forget_left(&self) {
        if !self.left.has_some.load(Acquire) {
            return;
        }
        let Some(front) = self.front else { return };
        let mut keys = self.left.keys();
        while let Some(&key) = keys.last() {
            front.tenancy.with(&mut |store| store.invalidate_page(key));
            keys.pop();
        }
        self.left.has_some.store(false, Release);
    }
}
