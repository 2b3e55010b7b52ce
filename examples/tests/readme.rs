//! The programs of the README.

include!(concat!(env!("OUT_DIR"), "/readme.rs"));
