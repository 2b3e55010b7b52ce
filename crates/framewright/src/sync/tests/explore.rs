//! How loom tries a model: one file, which each crate's models have.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Everything, or everything up to this many preemptions.
///
/// # Panics
/// If there was one interleaving only: loom has then seen no race, and the model shows nothing.
pub(crate) fn explore(preemptions: Option<usize>, body: impl Fn() + Sync + Send + 'static) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let mut model = loom::model::Builder::new();
    model.preemption_bound = preemptions;
    model.max_branches = 100_000;
    model.check(move || {
        counted.fetch_add(1, Relaxed);
        body();
    });
    assert!(count.load(Relaxed) > 1, "one interleaving is no model");
}
