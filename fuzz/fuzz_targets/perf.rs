//! The lab's `perf`: `cargo +nightly fuzz run perf fuzz/corpus/perf fuzz/seeds/perf`.
#![no_main]

framewright_fuzz::target!("perf");
