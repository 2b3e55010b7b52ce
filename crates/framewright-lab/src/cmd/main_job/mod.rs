//! The main job: the sample trace and all published experiments, as text and as one page.
//!
//! `framewright demo` and `framewright lab all` are the same; `lab all --full` differs in its [`Size`].

mod outputs;
mod sample;
#[cfg(test)]
mod tests;

pub(super) use outputs::JobOutputs;

use super::conduct::CommandError;
use super::input;
use crate::files::{OutputSet, is_stdout};
use crate::printable;
use crate::report::Size;
use crate::report::html::HtmlPage;
use crate::report::{MachineRecord, RunInfo, Section, write_whole};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

const LEAD: &str = "\
Framewright is a memory manager as a library, and this is its laboratory: five proposals for Linux's memory management, \
each repeated beside the behaviour it complains about (before) and beside what this project does instead (framewright); \
and a recording of a real machine, replayed under eight policies. Figures called published are the documents' own.";

/// What one question came to, for readers and for programs.
struct JobPart {
    section: Section,
    /// As its own command writes them with `--json`: for each run a record that describes it, and its figures.
    records: Vec<u8>,
}

/// Runs everything, tells each part as soon as it is done, and writes figures and page at the end.
///
/// # Errors
/// Before anything is run if an output has no place; later if an experiment fails or an output cannot
/// be written.
pub(super) fn run(size: Size, args: &JobOutputs) -> Result<(), CommandError> {
    let (page, json) = args.places()?;
    // If the figures go to standard output, their reader must find nothing else there.
    let is_told = json.is_none_or(|path| !is_stdout(path));
    let tell = |text: &str| if is_told { tell(text) } else { Ok(()) };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut sections: Vec<Section> = Vec::new();
    let mut records = Vec::new();
    let mut times = Vec::new();
    let start = Instant::now();
    let mut told = |part: JobPart| {
        let gap = if sections.is_empty() { "" } else { "\n" };
        let text = format!("{gap}{}", part.section.text());
        times.push(start.elapsed());
        records.extend(part.records);
        sections.push(part.section);
        tell(&text)
    };
    told(sample::part(&input::sample()?, threads)?)?;
    #[cfg(all(target_os = "linux", feature = "experiments"))]
    super::runner::each_section(size, |(section, records)| {
        told(JobPart { section, records })
    })?;
    tell(&summary(&sections))?;
    tell(&took(&sections, &times))?;
    let mut outputs = OutputSet::new();
    let mut write = |path: &Path, bytes| outputs.write(path, bytes).map_err(CommandError::input);
    if let Some(path) = json {
        write(path, records)?;
    }
    let page = page.map(|place| place.path()).transpose();
    let page = page.map_err(|e| CommandError::Input(format!("no folder for the page: {e}")))?;
    if let Some(path) = &page {
        let page = HtmlPage {
            title: "Framewright: five proposals and a recording".into(),
            lead: LEAD.into(),
            info: info(size),
            sections,
        };
        let text = page.render().map_err(CommandError::input)?;
        write(path, text.into_bytes())?;
    }
    outputs.keep().map_err(CommandError::input)?;
    match page {
        Some(path) => tell(&format!(
            "\nThe same with plots and maps: {}\n",
            printable::path(&path)
        )),
        None => Ok(()),
    }
}

/// How long each section took, of which `times` has the ends.
fn took(sections: &[Section], times: &[Duration]) -> String {
    let mut earlier = Duration::ZERO;
    let mut each = Vec::new();
    for (section, &end) in sections.iter().zip(times) {
        let seconds = (end - earlier).as_secs_f64();
        each.push(format!("{} {seconds:.1} s", section.id));
        earlier = end;
    }
    let all = earlier.as_secs_f64();
    format!("\nTime: {}; {all:.1} s in all.\n", each.join(", "))
}

fn tell(text: &str) -> Result<(), CommandError> {
    write_whole("-".as_ref(), text.as_bytes()).map_err(CommandError::input)
}

/// What came out, in a line each.
fn summary(sections: &[Section]) -> String {
    let mut text = String::from("\nWhat came out\n");
    for section in sections {
        for line in &section.summary {
            text += &format!("  {}: {line}\n", section.id);
        }
    }
    text
}

fn info(size: Size) -> RunInfo {
    let named = match size {
        Size::Quick => "quick",
        Size::Full => "full",
    };
    RunInfo {
        experiment: "all",
        version: env!("CARGO_PKG_VERSION"),
        commit: env!("FRAMEWRIGHT_COMMIT"),
        seed: 0,
        options: BTreeMap::from([("size", named.to_owned())]),
        machine: MachineRecord::this(),
        hollow: Vec::new(),
    }
}
