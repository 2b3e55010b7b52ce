//! The lab's `pfn`: `cargo +nightly fuzz run pfn fuzz/corpus/pfn fuzz/seeds/pfn`.
#![no_main]

framewright_fuzz::target!("pfn");
