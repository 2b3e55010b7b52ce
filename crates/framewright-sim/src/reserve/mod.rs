//! The reserve against the contract that it keeps, with "may miss" semantics.
//!
//! ```text
//!      Op ──▶ engine ──copies──▶ Ground: each frame's owner, and what is at the ends of it
//!       │        │
//!       │        └──── result ───▶ Pair: what each key was put as last; what owners have
//!       └───────────────────────▶
//! ```
//!
//! The model is a map from keys to what was put last. It does not say which pages are there, nor
//! where; it says what a get may return and when it must find a page:
//!
//! - a get returns what was put last, whole, or nothing; after nothing, nothing until the next put
//!   (C4, C5);
//! - a dirty page is found until it is written or invalidated, wherever it lies (C7), and is
//!   written once;
//! - a put is refused for a reason that holds, and leaves nothing (C5);
//! - an invalidated page is not found (C6);
//! - owners' runs are what they asked for, overlap neither each other nor a reservation, and no
//!   guest writes in them; an owner can take a reservation that is not taken (C2, C3);
//! - ordinary frames are used while they are lent and not afterwards, and all come back.

mod case;
mod ground;
mod pair;

pub use crate::difference::{Difference, Finding, RunSummary};
pub use crate::drive::{DrivenCase, check, every_sequence};
pub use case::{ReserveCase, ReserveLie, ReserveOp};
pub use ground::Ground;
pub use pair::run;

use framewright::reserve::PoolConfig;

/// The pools of every case: clean and got away, clean and staying, dirty under a budget, dirty and
/// put back, and dirty, put back and got away; and one with shares: its least number of pages is
/// not evicted for others, and it evicts its own above its most.
pub const POOLS: [PoolConfig; 6] = [
    PoolConfig::CLEAN,
    PoolConfig {
        exclusive: false,
        ..PoolConfig::CLEAN
    },
    PoolConfig {
        dirty_pages_max: 5,
        ..PoolConfig::SWAP
    },
    PoolConfig {
        put_back: true,
        ..PoolConfig::SWAP
    },
    PoolConfig {
        put_back: true,
        exclusive: true,
        ..PoolConfig::SWAP
    },
    PoolConfig {
        exclusive: false,
        min_pages: 2,
        max_pages: 3,
        ..PoolConfig::CLEAN
    },
];
