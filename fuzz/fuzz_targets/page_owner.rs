//! The lab's `page_owner`: `cargo +nightly fuzz run page_owner fuzz/corpus/page_owner fuzz/seeds/page_owner`.
#![no_main]

framewright_fuzz::target!("page_owner");
