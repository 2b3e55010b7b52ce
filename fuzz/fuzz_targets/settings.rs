//! The lab's `settings`: `cargo +nightly fuzz run settings fuzz/corpus/settings fuzz/seeds/settings`.
#![no_main]

framewright_fuzz::target!("settings");
