//! The lab's `ftrace`: `cargo +nightly fuzz run ftrace fuzz/corpus/ftrace fuzz/seeds/ftrace`.
#![no_main]

framewright_fuzz::target!("ftrace");
