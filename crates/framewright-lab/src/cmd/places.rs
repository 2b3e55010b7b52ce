//! Where an output may go: nowhere that a command reads from, and nowhere that a recording lies.

use super::conduct::CommandError;
use crate::files::FileClaims;
use crate::printable;
use crate::report::has_place;
use crate::trace::{Input, is_recording};
use std::fs;
use std::path::{Path, PathBuf};

/// Claims `path` for the output that `option` names, before the work.
///
/// # Errors
/// If it is an input, another output or a recording, or there is no place for it.
pub(super) fn claim_output(
    claims: &mut FileClaims,
    option: &str,
    path: &Path,
) -> Result<(), CommandError> {
    claims.writes(option, path).map_err(CommandError::input)?;
    // A recording cannot be made again, and a slip of the keyboard would replace it.
    if let Some(what) = recorded(path) {
        return Err(CommandError::Input(format!(
            "{}: {option} would replace {what}, expected another name",
            printable::path(path)
        )));
    }
    has_place(path).map_err(CommandError::input)
}

/// What of a recording lies there, if anything does.
fn recorded(path: &Path) -> Option<String> {
    // Looking into a pipe would take from it.
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    if is_there(path) {
        return Some("a recording".into());
    }
    let trace = trace_of_companion(path)?;
    Some(format!(
        "what belongs to the recording {}",
        printable::path(&trace)
    ))
}

/// Whether a recording lies there, by what it holds.
fn is_there(path: &Path) -> bool {
    path.is_file() && Input::open(path).is_ok_and(is_recording)
}

/// The recording that text at `path` lies beside, by their names: what the text holds does not tell it from others.
fn trace_of_companion(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let folder = path.parent()?;
    let stems = [".linux_ref.csv", ".summary.txt"].map(|ending| name.strip_suffix(ending));
    let beside = stems.into_iter().flatten().map(|stem| folder.join(stem));
    let of_state = || {
        let state = folder.parent()?;
        let is_state = state.file_name()? == "state";
        let is_moment = name.starts_with("before.") || name.starts_with("after.");
        (is_state && is_moment).then_some(state.parent()?.join(folder.file_name()?))
    };
    let mut traces = beside.chain(of_state()).flat_map(|stem| {
        // One in text has no ending of its own.
        [".pft.zst", ".pft", ""].map(|ending| {
            let mut trace = stem.clone().into_os_string();
            trace.push(ending);
            PathBuf::from(trace)
        })
    });
    traces.find(|trace| is_there(trace))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn refused(path: &Path) -> Option<String> {
        let claimed = claim_output(&mut FileClaims::default(), "--html", path);
        claimed.err().map(|error| match error {
            CommandError::Input(says) => says,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn of1_no_recording_and_nothing_beside_one_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("state/a")).unwrap();
        let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
        fs::write(at("a.pft.zst"), zstd(b"PFT1\0\0\0\0")).unwrap();
        fs::write(at("a.pfn.zst"), zstd(b"\x7fPFN1\0\0\0\0")).unwrap();
        fs::write(at("renamed"), b"PFT3\0\0\0\0").unwrap();
        fs::write(at("stream"), b"#framewright stream 1\n").unwrap();
        let ftrace = b"   cc1-42 [001] d..1. 12.345678: mm_page_free: page=0 pfn=0x1000 order=3\n";
        let perf = b"cc1 42 [001] 12.345678: kmem:mm_page_free: pfn=0x1000 order=3\n";
        let gzip = |bytes: &[u8]| {
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            packed.write_all(bytes).unwrap();
            packed.finish().unwrap()
        };
        fs::write(at("trace.txt"), ftrace).unwrap();
        fs::write(at("trace.gz"), gzip(ftrace)).unwrap();
        fs::write(at("trace.zst"), zstd(ftrace)).unwrap();
        fs::write(at("heading"), b"\n# tracer: nop\n#\n").unwrap();
        fs::write(at("lost"), b"CPU:1 [LOST 7 EVENTS]\n").unwrap();
        fs::write(
            at("perf.txt"),
            [b"# captured on: today\n#\n\n", &perf[..]].concat(),
        )
        .unwrap();
        fs::write(at("perf.data"), b"PERFILE2\0\0\0\0\0\0\0\0\0\0\0\0").unwrap();
        fs::write(at("trace.dat"), b"\x17\x08\x44tracing6\0\0\0\0\0\0\0\0").unwrap();
        let texts = [
            "trace.txt",
            "trace.gz",
            "trace.zst",
            "heading",
            "lost",
            "perf.txt",
        ];
        let packed = [
            "a.pft.zst",
            "a.pfn.zst",
            "renamed",
            "stream",
            "perf.data",
            "trace.dat",
        ];
        for name in packed.into_iter().chain(texts) {
            let said = refused(&at(name)).unwrap();
            assert!(
                said.contains("--html would replace a recording, expected another name"),
                "{said}"
            );
        }
        for name in [
            "a.summary.txt",
            "a.linux_ref.csv",
            "state/a/before.zoneinfo",
        ] {
            fs::write(at(name), b"text").unwrap();
            let said = refused(&at(name)).unwrap();
            assert!(
                said.contains("would replace what belongs to the recording "),
                "{said}"
            );
            assert!(said.contains("a.pft.zst"), "{said}");
        }
        fs::write(at("trace.txt.summary.txt"), b"text").unwrap();
        let said = refused(&at("trace.txt.summary.txt")).unwrap();
        assert!(said.contains("what belongs to the recording "), "{said}");
        // What commands themselves write is replaced: a page, rows, a series, stacks, a table; and other text.
        for (name, holds) in [
            ("page.html", "<!DOCTYPE html>\n<html>\n"),
            ("rows.jsonl", "{\"experiment\":\"replay\"}\n"),
            ("series.csv", "case,policy,ms\nt,linux-4.4,1000\n"),
            ("stacks", "cc1;alloc_pages 12\n"),
            ("comments", "# of a machine\n\n# and no event\n"),
            ("blank", "\n\n"),
            ("notes", "12.345678 seconds [001] it took\n"),
        ] {
            fs::write(at(name), holds).unwrap();
            assert_eq!(refused(&at(name)), None, "{name}");
        }
        for name in ["old.html", "b.summary.txt", "PFT", "empty"] {
            fs::write(at(name), &b"PFT is no magic"[..name.len() % 5 * 3]).unwrap();
            assert_eq!(refused(&at(name)), None, "{name}");
        }
        assert_eq!(refused(&at("new.html")), None);
        assert_eq!(refused("-".as_ref()), None);
    }
}
