//! Owners: what they take and give back, what a guest's dirty pages become, and what an owner waits for.

mod contiguous;
mod handles;
mod owners;
pub(super) mod put_back;
mod supplies;
mod waits;

use super::*;
