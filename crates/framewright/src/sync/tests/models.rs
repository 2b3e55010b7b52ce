//! Every interleaving, and every outcome that the memory model allows, of a lock's word:
//! `RUSTFLAGS='--cfg loom' cargo test -p framewright --release --lib sync::models`

extern crate std;

use super::{AtomicU64, Lock, Ordering};
use loom::thread;
use std::boxed::Box;

#[path = "explore.rs"]
mod explored;

pub(crate) use explored::explore;

#[test]
fn a_lock_excludes() {
    explore(None, || {
        let [word, sum]: &'static [AtomicU64; 2] =
            Box::leak(Box::new([AtomicU64::new(0), AtomicU64::new(0)]));
        let add = move || {
            let guard = Lock::new(word).lock(|_| thread::yield_now());
            let seen = sum.load(Ordering::Relaxed);
            sum.store(seen + 1, Ordering::Relaxed);
            drop(guard);
        };
        let other = thread::spawn(add);
        add();
        other.join().unwrap();
        assert_eq!(sum.load(Ordering::Relaxed), 2);
    });
}
