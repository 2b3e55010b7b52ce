//! What README and the book say in figures: their regions are filled from result files, and no figure is typed.
//!
//! ```text
//!   regions ── the pages, and what stands between two marks of one
//!      │
//!   tables ── forms, filled; the tables that no form can say: ab, document, recordings; the notebook as a page
//!      │
//!   query ── one figure of a result file
//! ```
//!
//! Two tests hold the pages besides: `pasted` that a figure is generated or said to be a constant, `decisions` that
//! each decision has the one shape.

mod ab;
#[cfg(test)]
mod decisions;
mod document;
mod notebook;
#[cfg(test)]
mod pasted;
mod query;
mod recordings;
mod regions;
mod tables;

pub(crate) use query::{ResultFiles, number};
pub(crate) use recordings::{JUDGED, OURS, PolicyStanding, RIVALS, cases};
pub(crate) use regions::{END, run};
