//! The lab's `pft`: `cargo +nightly fuzz run pft fuzz/corpus/pft fuzz/seeds/pft`.
#![no_main]

framewright_fuzz::target!("pft");
