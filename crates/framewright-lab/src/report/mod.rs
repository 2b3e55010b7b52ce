//! Reports: what an experiment found, as a table, as JSON Lines, as a series over time and in
//! Linux's own layouts.
//!
//! A [`ReportCase`] is one input under one start, with a [`ReportColumn`] a variant; every form of output is
//! made from it, so that all of them say the same. A [`Figure`] is one figure of an experiment on
//! virtual ranges.

mod answer;
mod assertion;
mod calibrate;
mod case;
mod compared;
mod deviation;
mod distribution;
mod figure;
#[cfg(all(target_os = "linux", feature = "experiments"))]
mod figure_assertion;
mod file;
mod front;
mod grid;
mod hollow;
pub mod html;
mod json;
mod metrics_page;
mod perfetto;
mod proc;
mod section;
mod series;
mod source;
mod statement;
mod table;
mod verdict;
mod who;
mod width;

pub use answer::{Answer, AnswerFigures, MachineStalls, TriedPolicy, answer};
pub use assertion::Assertion;
pub use calibrate::{
    calibrate, calibrate_requests, linux_column, placement_column, request_calibration_lines,
};
pub use case::{Calibration, ReportCase, ReportColumn};
pub use compared::{
    ComparedRecording, ComparedVariant, POINTS_A_WINDOW, RecordingComparison, WindowedFigure,
    machine_figures, replay_figures,
};
pub use deviation::Deviation;
pub use distribution::Distribution;
pub use figure::{
    Figure, FigureColumn, figure_cases, figure_grid, figure_grid_of, figure_lines, figure_value,
    measured_cases,
};
#[cfg(all(target_os = "linux", feature = "experiments"))]
pub use figure_assertion::FigureAssertion;
pub(crate) use file::create_beside;
pub use file::{WriteError, has_place, write_whole};
pub use front::pareto_front;
pub use grid::{Accent, Grid, GridRow, Heading};
pub use hollow::{Hollow, hollow_blocks, hollow_samples, hollow_text, hollow_trace};
pub use json::{MachineRecord, RunInfo, json_lines};
pub use metrics_page::{metric_tables, metrics_page};
pub use perfetto::{PerfettoCase, perfetto};
pub use proc::{buddyinfo, pagetypeinfo};
pub use section::{
    BlockMaps, Item, Latency, Note, OverTime, PlotLine, Scale, Section, Size, Tabled,
};
pub use series::series_csv;
pub use source::{FigureSource, LINUX};
pub use statement::{AssertionError, AssertionHeld};
pub use table::{accent, case_grid};
pub use verdict::{standing, verdict};
pub use who::{COLLAPSED_MAX, StackWeight, WhoHolds, WhoReport, WhoRow, WhoTable};
pub use width::fit_terminal;
pub(crate) use width::width as terminal_width;
