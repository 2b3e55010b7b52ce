//! The lab's `buddyinfo`: `cargo +nightly fuzz run buddyinfo fuzz/corpus/buddyinfo fuzz/seeds/buddyinfo`.
#![no_main]

framewright_fuzz::target!("buddyinfo");
