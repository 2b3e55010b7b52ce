//! The lab's `pagetypeinfo`: `cargo +nightly fuzz run pagetypeinfo fuzz/corpus/pagetypeinfo fuzz/seeds/pagetypeinfo`.
#![no_main]

framewright_fuzz::target!("pagetypeinfo");
