use super::CommandError;
use crate::replay::read_reference;
use crate::trace::reduce::{Reducer, ReferenceRow};
use crate::trace::{Input, Recording, TextReader, Trace, read_pft1};
use std::path::{Path, PathBuf};

/// A trace with all that lies beside it.
#[derive(Debug)]
pub(super) struct Loaded {
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
}

/// The sample trace and its reference, part of the program: the main job needs no file.
const SAMPLE: &[u8] = include_bytes!("../../../../traces/sample.pft.zst");
const SAMPLE_REFERENCE: &str = include_str!("../../../../traces/sample.linux_ref.csv");

/// The sample trace that the program carries.
pub(super) fn sample() -> Result<Loaded, CommandError> {
    let name = "sample";
    let input = Input::from_reader(name, SAMPLE).map_err(CommandError::input)?;
    let reference = read_reference(SAMPLE_REFERENCE).map_err(CommandError::input)?;
    Ok(Loaded {
        path: name.to_owned(),
        name: name.to_owned(),
        trace: read_pft1(input).map_err(CommandError::input)?,
        anomalies: Vec::new(),
        reference: Some(reference),
    })
}

/// Reads a trace and what lies beside it.
pub(super) fn load(path: &Path) -> Result<Loaded, CommandError> {
    let (trace, anomalies) = match Recording::open(path).map_err(CommandError::input)? {
        Recording::Columns(trace) => (trace, Vec::new()),
        Recording::Text(reader) => read_text(*reader)?,
    };
    let name = case_name(path);
    let reference = match beside(path, &name, "linux_ref.csv") {
        Some(beside) => Some(reference(&beside)?),
        None => None,
    };
    Ok(Loaded {
        path: path.display().to_string(),
        name,
        trace,
        anomalies,
        reference,
    })
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
    let at = |cause: String| CommandError::Input(format!("{}:{cause}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| at(format!(" cannot read: {e}")))?;
    read_reference(&text).map_err(at)
}

/// Reads text to its end and reduces it to objects.
fn read_text(mut reader: TextReader) -> Result<(Trace, Vec<(String, u64)>), CommandError> {
    let mut reducer = Reducer::new(None);
    while let Some(event) = reader.next_event().map_err(CommandError::input)? {
        let at = |e| format!("{}:{}: {e}", reader.name(), reader.line_number());
        reducer
            .push(&event)
            .map_err(|e| CommandError::Input(at(e)))?;
    }
    let at_end = |e| CommandError::Input(format!("{}: {e}", reader.name()));
    let reduction = reducer.finish(None).map_err(at_end)?;
    let text = reader.counts().anomalies().into_iter();
    let anomalies = text
        .chain(reduction.anomalies.kinds())
        .filter(|&(_, count)| count > 0)
        .map(|(kind, count)| (kind.to_owned(), count))
        .collect();
    Ok((reduction.trace, anomalies))
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
