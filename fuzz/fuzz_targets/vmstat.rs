//! The lab's `vmstat`: `cargo +nightly fuzz run vmstat fuzz/corpus/vmstat fuzz/seeds/vmstat`.
#![no_main]

framewright_fuzz::target!("vmstat");
