//! A state as it is shown: on a screen, as plain text, as JSON.
//!
//! ```text
//!   TopState ─┬─▶ rows ─┬─▶ draw ─▶ screen
//!             │         └─▶ text
//!             └─▶ json
//! ```
//!
//! The screen and the text say the same words, so both take them from one file, `rows`. These files belong together
//! because a figure that is added to a view is added in each of them. They read a state and its verdict, and change
//! neither.

mod draw;
mod json;
mod rows;
mod screen;
mod text;

pub(crate) use draw::Shown;
#[cfg(test)]
pub(crate) use draw::draw;
pub(crate) use json::json_line;
pub(crate) use screen::{Screen, Wish};
pub(crate) use text::plain_text;
