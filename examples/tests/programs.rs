//! The programs of README.md and docs/library.md.

include!(concat!(env!("OUT_DIR"), "/programs.rs"));
