//! Reading and writing traces, through the crate's own doors.

mod askers;
mod columns;
mod columns_property;
mod ftrace;
mod moves;
mod packed;
mod perf_script;
mod recorded;
mod stream;
mod support;
mod text_property;
mod unlisted;
mod work;
