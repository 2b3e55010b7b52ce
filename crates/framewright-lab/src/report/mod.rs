//! Reports: what an experiment found, as a table, as JSON Lines, as a series over time and in
//! Linux's own layouts.
//!
//! A [`ReportCase`] is one input under one start, with a [`ReportColumn`] a variant; every form of output is
//! made from it, so that all of them say the same. A [`Figure`] is one figure of an experiment on
//! virtual ranges.

mod assertion;
mod deviation;
mod distribution;
mod figure;
#[cfg(all(target_os = "linux", feature = "experiments"))]
mod figure_assertion;
mod form;
pub mod html;
mod replayed;
mod source;
mod statement;

pub use assertion::Assertion;
pub use deviation::Deviation;
pub use distribution::Distribution;
pub use figure::{
    Figure, FigureColumn, figure_cases, figure_grid, figure_grid_of, figure_lines, figure_value,
    measured_cases,
};
#[cfg(all(target_os = "linux", feature = "experiments"))]
pub use figure_assertion::FigureAssertion;
pub use form::{
    Accent, BlockMaps, CardFigure, FlameGraph, Grid, GridRow, Heading, Item, Latency,
    MachineRecord, Note, OverTime, PerfettoCase, PlotLine, PlotMark, RunInfo, Scale, Section, Size,
    Tabled, VerdictCard, WriteError, buddyinfo, fit_terminal, flame_svg, has_place, json_lines,
    metric_tables, metrics_page, pagetypeinfo, perfetto, series_csv, write_whole,
};
pub(crate) use form::{create_beside, terminal_width};
pub(crate) use replayed::within_error;
pub use replayed::{
    Answer, AnswerFigures, AnswerPart, AnswerZones, COLLAPSED_MAX, Calibration, ComparedRecording,
    ComparedVariant, Headline, Hollow, MachineStalls, OwnersReport, POINTS_A_WINDOW,
    RecordedKernel, RecordingComparison, ReportCase, ReportColumn, SettingTrial, SettingsAsked,
    SettingsReport, StackWeight, TriedCounts, TriedPolicy, TriedSetting, TriedSettings, WhoHolds,
    WhoReport, WhoRow, WhoTable, WindowedFigure, accent, answer, calibrate, calibrate_requests,
    case_grid, hollow_areas, hollow_blocks, hollow_events, hollow_pages, hollow_samples,
    hollow_text, hollow_trace, linux_column, machine_figures, pareto_front, placement_column,
    replay_figures, request_calibration_lines, standing, verdict,
};
pub use source::{FigureSource, LINUX, RECORDED_KERNEL, shown_variant};
pub use statement::{AssertionError, AssertionHeld};
