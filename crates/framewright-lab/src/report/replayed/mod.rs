//! What replays came to: the figures of one input, how far the model of the recording kernel is off, why figures are
//! hollow, which requests hold the memory, the answer, the verdict, and two recordings compared.
//!
//! All of it is made from a [`ReportCase`] and the outcomes behind it, so that each form of a report says the same.

mod answer;
mod calibrate;
mod case;
mod compared;
mod front;
mod hollow;
mod owners;
mod settings;
mod table;
mod verdict;
mod who;

pub use answer::{
    Answer, AnswerFigures, AnswerPart, AnswerZones, Headline, MachineStalls, RecordedKernel,
    SettingTrial, SettingsAsked, TriedCounts, TriedPolicy, TriedSetting, TriedSettings, answer,
};
pub use calibrate::{
    calibrate, calibrate_requests, linux_column, placement_column, request_calibration_lines,
};
pub use case::{Calibration, ReportCase, ReportColumn};
pub use compared::{
    ComparedRecording, ComparedVariant, POINTS_A_WINDOW, RecordingComparison, WindowedFigure,
    machine_figures, replay_figures,
};
pub use front::pareto_front;
pub use hollow::{
    Hollow, hollow_areas, hollow_blocks, hollow_events, hollow_pages, hollow_samples, hollow_text,
    hollow_trace,
};
pub use owners::OwnersReport;
pub(in crate::report) use settings::AS_SET;
pub use settings::SettingsReport;
pub(crate) use table::within_error;
pub use table::{accent, case_grid};
pub use verdict::{standing, verdict};
pub use who::{COLLAPSED_MAX, StackWeight, WhoHolds, WhoReport, WhoRow, WhoTable};
