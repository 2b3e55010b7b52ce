//! The lab's `kpageflags`: `cargo +nightly fuzz run kpageflags fuzz/corpus/kpageflags fuzz/seeds/kpageflags`.
#![no_main]

framewright_fuzz::target!("kpageflags");
