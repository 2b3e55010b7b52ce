//! The lab's `recording`: `cargo +nightly fuzz run recording fuzz/corpus/recording fuzz/seeds/recording`.
#![no_main]

framewright_fuzz::target!("recording");
