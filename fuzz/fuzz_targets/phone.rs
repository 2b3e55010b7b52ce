//! The lab's `phone`: `cargo +nightly fuzz run phone fuzz/corpus/phone fuzz/seeds/phone`.
#![no_main]

framewright_fuzz::target!("phone");
