//! What every report is written in: a grid before it has a form, a section, JSON Lines, the traces' and Linux's own
//! layouts, and the file that is written whole or not at all. Nothing here knows what a figure came to; the one thing
//! that a form asks of a case is to be read.

mod file;
mod flame;
mod grid;
pub(super) mod json;
mod metrics_page;
mod perfetto;
mod proc;
mod section;
mod series;
mod width;

pub(crate) use file::create_beside;
pub use file::{WriteError, has_place, write_whole};
pub use flame::{FlameGraph, flame_svg};
pub use grid::{Accent, Grid, GridRow, Heading};
pub use json::{MachineRecord, RunInfo, json_lines};
pub use metrics_page::{metric_tables, metrics_page};
pub use perfetto::{PerfettoCase, perfetto};
pub use proc::{buddyinfo, pagetypeinfo};
pub use section::{
    BlockMaps, CardFigure, Item, Latency, Note, OverTime, PlotLine, PlotMark, Scale, Section, Size,
    Tabled, VerdictCard,
};
pub use series::series_csv;
pub use width::fit_terminal;
pub(crate) use width::width as terminal_width;
