use super::error::CommandError;
use crate::measure::MAX_ORDER;
use crate::printable;
use crate::replay::{ListedFree, fit_free_memory, read_reference};
use crate::trace::reduce::{Reducer, ReferenceRow};
use crate::trace::state::read_pagetypeinfo;
use crate::trace::{
    Input, MemoryLimit, Recording, TextReader, Trace, read_frames, read_pft1, text_of,
};
use framewright::Mobility;
use std::path::{Path, PathBuf};

/// A trace with all that lies beside it.
#[derive(Debug)]
pub(super) struct LoadedTrace {
    /// What messages call it.
    pub(super) path: String,
    /// The file's name without folder and extensions, as cases have it.
    pub(super) name: String,
    /// The trace.
    pub(super) trace: Trace,
    /// What the input could not mean as it stands, by kind; kinds that did not occur left out.
    pub(super) anomalies: Vec<(String, u64)>,
    /// What the recording kernel itself made of memory, from `NAME.linux_ref.csv`.
    pub(super) reference: Option<Vec<ReferenceRow>>,
    /// The frame that the recording kernel chose for each allocation, from `NAME.pfn.zst`.
    pub(super) chosen: Option<Vec<u32>>,
    /// Free frames by label on the recording machine, from `--state`.
    pub(super) listed: Option<ListedFree>,
}

/// The sample trace and its reference, part of the program: the main job needs no file.
const SAMPLE: &[u8] = include_bytes!("../../../../traces/sample.pft.zst");
const SAMPLE_REFERENCE: &str = include_str!("../../../../traces/sample.linux_ref.csv");

/// The sample trace that the program carries.
pub(super) fn sample() -> Result<LoadedTrace, CommandError> {
    let name = "sample";
    let input = Input::from_reader(name, SAMPLE).map_err(CommandError::input)?;
    let reference = read_reference(SAMPLE_REFERENCE).map_err(CommandError::input)?;
    Ok(LoadedTrace {
        path: name.to_owned(),
        name: name.to_owned(),
        trace: read_pft1(input).map_err(CommandError::input)?,
        anomalies: Vec::new(),
        reference: Some(reference),
        chosen: None,
        listed: None,
    })
}

/// Reads a trace and what lies beside it; `state` is the recording machine's
/// `/proc/pagetypeinfo` when the trace began, `limit` how much of this machine's memory that may
/// take.
pub(super) fn load(
    path: &Path,
    state: Option<&Path>,
    limit: MemoryLimit,
) -> Result<LoadedTrace, CommandError> {
    let listed = state.map(read_state).transpose()?;
    let stem = case_name(path);
    let mut loaded = LoadedTrace {
        path: printable::path(path),
        name: printable::text(&stem),
        trace: Trace::default(),
        anomalies: Vec::new(),
        reference: None,
        chosen: None,
        listed,
    };
    let input = Input::open(path).map_err(CommandError::input)?;
    let input = input.with_memory_limit(limit);
    match Recording::from_input(input).map_err(CommandError::input)? {
        Recording::Columns(trace) => loaded.trace = trace,
        Recording::Text(reader) => read_text(*reader, &mut loaded, limit)?,
    }
    if let Some(beside) = beside(path, &stem, "linux_ref.csv") {
        loaded.reference = Some(reference(&beside)?);
    }
    // The reference knows more: migrations are in it.
    let frames = beside(path, &stem, "pfn.zst").filter(|_| loaded.reference.is_none());
    if let Some(beside) = frames {
        let input = Input::open(&beside).map_err(CommandError::input)?;
        let frames = read_frames(input, &loaded.trace).map_err(CommandError::input)?;
        loaded.chosen = Some(frames);
    }
    Ok(loaded)
}

/// Free frames by label in a `/proc/pagetypeinfo`, over all zones.
fn read_state(path: &Path) -> Result<ListedFree, CommandError> {
    let (name, text) = text_of(path).map_err(CommandError::input)?;
    let info = read_pagetypeinfo(&name, &text).map_err(CommandError::input)?;
    Ok(Mobility::ALL.map(|label| {
        (0..=MAX_ORDER)
            .map(|order| info.free_blocks(label, order).saturating_mul(1 << order))
            .fold(0, u64::saturating_add)
    }))
}

/// `fileA` for `../traces/fileA.pft.zst`, `stdin` for `-`.
fn case_name(path: &Path) -> String {
    if path.as_os_str() == "-" {
        return "stdin".into();
    }
    let file = path
        .file_name()
        .map(|name| name.to_string_lossy())
        .unwrap_or_default();
    // A leading point belongs to the name.
    let end = file
        .char_indices()
        .find(|&(at, c)| at > 0 && c == '.')
        .map_or(file.len(), |f| f.0);
    file[..end].to_owned()
}

fn beside(path: &Path, name: &str, extension: &str) -> Option<PathBuf> {
    if path.as_os_str() == "-" {
        return None;
    }
    let beside = path.with_file_name(format!("{name}.{extension}"));
    beside.is_file().then_some(beside)
}

fn reference(path: &Path) -> Result<Vec<ReferenceRow>, CommandError> {
    let (name, text) = text_of(path).map_err(CommandError::input)?;
    read_reference(&text).map_err(|cause| CommandError::Input(format!("{name}:{cause}")))
}

/// Reads text to its end and reduces it to objects.
fn read_text(
    mut reader: TextReader,
    loaded: &mut LoadedTrace,
    limit: MemoryLimit,
) -> Result<(), CommandError> {
    let mut reducer = Reducer::new(None).with_memory_limit(limit);
    while let Some(event) = reader.next_event().map_err(CommandError::input)? {
        let at = |e| format!("{}:{}: {e}", reader.name(), reader.line_number());
        reducer
            .push(&event)
            .map_err(|e| CommandError::Input(at(e)))?;
    }
    let at_end = |e| CommandError::Input(format!("{}: {e}", reader.name()));
    let reduction = reducer.finish(None).map_err(at_end)?;
    let mut kinds = reader.counts().anomalies();
    // Lost events come through both; the reader's count stands.
    for (kind, count) in reduction.anomalies.kinds() {
        if count > 0 && !kinds.iter().any(|&(known, _)| known == kind) {
            kinds.push((kind, count));
        }
    }
    loaded.anomalies = kinds
        .into_iter()
        .map(|(kind, n)| (kind.to_owned(), n))
        .collect();
    loaded.trace = reduction.trace;
    match loaded.listed {
        // The reduction's own reference counts frames as free that are made absent here.
        Some(listed) => fit_free_memory(&mut loaded.trace, &reduction.chosen, listed),
        None => loaded.reference = Some(reduction.reference).filter(|rows| !rows.is_empty()),
    }
    loaded.chosen = Some(reduction.chosen);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_named_by_the_file_without_folder_and_extensions() {
        assert_eq!(case_name(Path::new("../traces/fileA.pft.zst")), "fileA");
        assert_eq!(case_name(Path::new("trace")), "trace");
        assert_eq!(case_name(Path::new("./.hidden.txt")), ".hidden");
        assert_eq!(case_name(Path::new("-")), "stdin");
    }
}
