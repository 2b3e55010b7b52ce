//! Kernels in an emulator: this repository's own, Linux with the same tests, and one on OSTD.
//!
//! ```text
//!   suite ── the kernel's figures and tests      linux ── the same tests of Linux      ostd ── two kernels on OSTD
//!     │  replay ── a recording, as the laboratory's    │  fallback ── Linux by three rules, under a load
//!   figures: instructions a loop                 linux_build: Linux from Debian's source
//!     └──────────────┬─────────────────────────────┴───────────────────────────────────────────┘
//!                  boot: builds a kernel, boots it once, reads what it says and how it ends
//! ```
//!
//! All of them are built, booted and read in one way, so that their figures stand in one column each of one table.

pub(crate) mod boot;
pub(crate) mod fallback;
pub(crate) mod figures;
pub(crate) mod linux;
pub(crate) mod linux_build;
pub(crate) mod long;
pub(crate) mod ostd;
pub(crate) mod replay;
pub(crate) mod suite;
pub(crate) mod text;
