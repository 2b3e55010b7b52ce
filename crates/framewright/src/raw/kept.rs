//! Where a model keeps the atomics that the engine makes of a user's words.

use std::vec::Vec;

/// Keeps `values`: for as long as loom's process runs.
#[cfg(loom)]
pub(super) fn kept<T>(values: Vec<T>) -> &'static [T] {
    values.leak()
}

/// Keeps `values`: until shuttle's schedule ends, because an atomic of shuttle's is larger than a cache line, and a test
/// has thousands of schedules.
#[cfg(shuttle)]
pub(super) fn kept<T: Send + Sync + 'static>(values: Vec<T>) -> &'static [T] {
    use std::any::Any;
    use std::boxed::Box;
    use std::sync::OnceLock;

    #[derive(Default)]
    struct KeptAtomics(OnceLock<(Box<dyn Any + Send + Sync>, Box<KeptAtomics>)>);

    shuttle::lazy_static! { static ref FIRST: KeptAtomics = KeptAtomics::default(); }

    let mut last: &'static KeptAtomics = &FIRST;
    while let Some((_, next)) = last.0.get() {
        last = next;
    }
    let (values, _) = last.0.get_or_init(|| (Box::new(values), Box::default()));
    values.downcast_ref::<Vec<T>>().expect("it is of that type")
}
