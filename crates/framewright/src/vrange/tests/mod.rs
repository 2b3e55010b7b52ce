//! A space as its callers see it: areas of pages, mappings of frames that a caller has, and calls that are left or
//! interrupted. The arena's tests belong to its own module.

mod calls;
#[cfg(not(miri))]
mod ram;
mod space;

use super::*;
