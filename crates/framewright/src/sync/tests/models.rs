//! Every interleaving, and every outcome that the memory model allows, of a lock's word:
//! `RUSTFLAGS='--cfg loom' cargo test -p framewright --release --lib sync::models`

extern crate std;

use super::{AtomicU64, Lock, Ordering};
use loom::thread;
use std::boxed::Box;
use std::sync::Arc;

/// Everything, or everything up to this many preemptions.
///
/// # Panics
/// If there was one interleaving only: loom has then seen no race, and the model shows nothing.
pub(crate) fn explore(preemptions: Option<usize>, body: impl Fn() + Sync + Send + 'static) {
    let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let mut model = loom::model::Builder::new();
    model.preemption_bound = preemptions;
    model.max_branches = 100_000;
    model.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        body();
    });
    assert!(
        count.load(Ordering::Relaxed) > 1,
        "one interleaving is no model"
    );
}

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
