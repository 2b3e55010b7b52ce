//! The programs of README.md, docs/library.md and docs/kernel.md.

include!(concat!(env!("OUT_DIR"), "/programs.rs"));
