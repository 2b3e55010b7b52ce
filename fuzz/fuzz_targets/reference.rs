//! The lab's `reference`: `cargo +nightly fuzz run reference fuzz/corpus/reference fuzz/seeds/reference`.
#![no_main]

framewright_fuzz::target!("reference");
