//! What the laboratory's targets share: an allocator that counts, and the bodies' bounds.

pub use libfuzzer_sys::fuzz_target;

use framewright_lab::fuzzing::{FuzzedFormat, by_name};
use peak_alloc::PeakAlloc;
use std::sync::OnceLock;

framewright_lab::metered_heap!(PeakAlloc);

/// One input, through the body of the format of that name.
pub fn run(name: &str, bytes: &[u8]) {
    static FORMAT: OnceLock<&FuzzedFormat> = OnceLock::new();
    let format = FORMAT.get_or_init(|| by_name(name).expect("a format of that name"));
    framewright_lab::fuzzing::check(format, bytes, &METER);
}

/// The target of a format.
#[macro_export]
macro_rules! target {
    ($name:literal) => {
        $crate::fuzz_target!(|bytes: &[u8]| $crate::run($name, bytes));
    };
}
