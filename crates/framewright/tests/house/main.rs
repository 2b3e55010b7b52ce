//! The rules of the house: what neither the compiler nor Clippy checks in sources and documents.
//! `cargo test -p framewright --test house prose` runs those of one file.

mod circles;
mod filters;
mod invariants;
mod layers;
mod links;
mod names;
mod prose;
mod seams;
mod sources;
