//! Virtual ranges and their model in step, over whatever the fuzzer thinks of:
//! `cargo +nightly fuzz run ranges`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Err(difference) = framewright_sim::range::run_bytes(bytes) {
        panic!("{difference}");
    }
});
