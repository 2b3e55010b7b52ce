//! The lab's `zoneinfo`: `cargo +nightly fuzz run zoneinfo fuzz/corpus/zoneinfo fuzz/seeds/zoneinfo`.
#![no_main]

framewright_fuzz::target!("zoneinfo");
