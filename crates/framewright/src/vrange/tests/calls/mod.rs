//! Calls in parts: interrupts between these, calls that do not return, and what is counted meanwhile.

mod passing;
#[cfg(not(miri))]
mod poison;
mod turns;
#[cfg(not(miri))]
mod windows;

use super::*;
