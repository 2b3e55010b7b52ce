//! The lab's `assertion`: `cargo +nightly fuzz run assertion fuzz/corpus/assertion fuzz/seeds/assertion`.
#![no_main]

framewright_fuzz::target!("assertion");
