//! The files of a recording, their names beside the trace, and how they are written: packed, staged, and kept
//! together or not at all (W1).

use super::kernel::{ProcFiles, STATE};
use super::outlet::folder_of;
use super::{RecordError, RecordOptions, RecordReport, check};
use crate::files::{FileClaims, Stage};
use crate::printable;
use crate::report::create_beside;
use crate::trace::reduce::{Reduction, ReferenceRow};
use crate::trace::state::lead_line;
use crate::trace::{TraceDigest, trace_stem, write_frames, write_frames_digest, write_pft5};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// zstd's level for the files: level 12 packs 10 MB a second and is within 5 % of level 19.
const ZSTD_LEVEL: i32 = 12;

/// The names of a recording's files.
#[derive(Debug)]
pub(super) struct RecordingNames {
    pub(super) trace: PathBuf,
    frames: PathBuf,
    reference: PathBuf,
    summary: PathBuf,
    state: PathBuf,
}

impl RecordingNames {
    pub(super) fn of(options: &RecordOptions) -> Result<Self, RecordError> {
        let path = &options.output;
        let bad = |what: &str| {
            Err(RecordError::Options(format!(
                "{}: {what}",
                printable::path(path)
            )))
        };
        if path.as_os_str() == "-" {
            return bad("a recording is several files, expected a file's name, as run.pft.zst");
        }
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            return bad("not a file's name, expected one as run.pft.zst");
        };
        let here = folder_of(path);
        if !here.is_dir() {
            return bad(&format!("there is no folder {}", printable::path(here)));
        }
        let names = Self::beside(path, name);
        let states = ["before", "after"]
            .map(|when| STATE.map(|name| names.state.join(format!("{when}.{name}"))));
        let files = [
            &names.trace,
            &names.frames,
            &names.reference,
            &names.summary,
        ];
        for file in files.into_iter().chain(states.iter().flatten()) {
            // A link that leads nowhere is there, too.
            if fs::symlink_metadata(file).is_ok() && !(options.replace && file.is_file()) {
                return Err(RecordError::Options(format!(
                    "{}: is there already, expected a new name or --force",
                    printable::path(file)
                )));
            }
        }
        let mut claims = FileClaims::new();
        let claimed = files.into_iter().chain(states.iter().flatten());
        for file in claimed {
            let claim = claims.writes("a file of the recording", file);
            claim.map_err(|e| RecordError::Options(e.to_string()))?;
        }
        let above = names.state.ancestors().take(2);
        if above.into_iter().any(|folder| folder == names.trace) {
            return bad("the folder of the state files has this name, expected another");
        }
        names.try_place()?;
        Ok(names)
    }

    /// Makes a file where the recording is to be and removes it: what took days is not to fail then.
    fn try_place(&self) -> Result<(), RecordError> {
        // The folder of all recordings' states may be there, and another user's.
        let states = Some(&self.state).filter(|state| folder_of(state).is_dir());
        for path in [&self.trace].into_iter().chain(states) {
            let failed = |e| RecordError::file(path, &e);
            let (file, made) = create_beside(path).map_err(failed)?;
            drop(file);
            fs::remove_file(made).map_err(failed)?;
        }
        Ok(())
    }

    fn beside(trace: &Path, name: &str) -> Self {
        let stem = trace_stem(name);
        let folder = trace.parent().unwrap_or(Path::new(""));
        Self {
            trace: trace.to_owned(),
            frames: folder.join(format!("{stem}.pfn.zst")),
            reference: folder.join(format!("{stem}.linux_ref.csv")),
            summary: folder.join(format!("{stem}.summary.txt")),
            state: folder.join("state").join(stem),
        }
    }

    /// The same names in another folder.
    pub(super) fn moved_to(&self, folder: &Path) -> Self {
        let name = self.trace.file_name().unwrap_or_default().to_string_lossy();
        Self::beside(&folder.join(&*name), &name)
    }

    pub(super) fn write(
        &self,
        reduction: &Reduction,
        report: &RecordReport,
        states: [(&str, Option<Duration>, &ProcFiles); 2],
        interrupted: &AtomicBool,
    ) -> Result<(), RecordError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error: io::Error| RecordError::file(&path, &error)
        };
        let mut stage = Stage::new();
        let mut columns = Vec::new();
        write_pft5(&reduction.trace, &mut columns).map_err(failed(&self.trace))?;
        let digest = TraceDigest::of(&columns);
        let packed = self.trace.extension().is_some_and(|ending| ending == "zst");
        if packed {
            columns = pack(&columns).map_err(failed(&self.trace))?;
        }
        stage.write(&self.trace, &columns)?;
        drop(columns);
        check(interrupted)?;
        let mut frames = Vec::new();
        write_frames_digest(digest, &mut frames).map_err(failed(&self.frames))?;
        write_frames(&reduction.chosen, &mut frames).map_err(failed(&self.frames))?;
        let frames = pack(&frames).map_err(failed(&self.frames))?;
        stage.write(&self.frames, &frames)?;
        check(interrupted)?;
        let mut rows = digest.line().into_bytes();
        ReferenceRow::write_csv(&reduction.reference, &mut rows)
            .map_err(failed(&self.reference))?;
        stage.write(&self.reference, &rows)?;
        stage.write(
            &self.summary,
            format!("{report}{}", digest.line()).as_bytes(),
        )?;
        stage.folder(&self.state)?;
        for (when, lead, files) in states {
            let marks = digest.line() + &lead.map(lead_line).unwrap_or_default();
            for (name, bytes) in files {
                let bytes = [marks.as_bytes(), bytes].concat();
                stage.write(&self.state.join(format!("{when}.{name}")), &bytes)?;
            }
        }
        check(interrupted)?;
        Ok(stage.keep()?)
    }
}

fn pack(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = zstd::Encoder::new(Vec::new(), ZSTD_LEVEL)?;
    encoder.long_distance_matching(true)?;
    encoder.window_log(27)?;
    encoder.include_checksum(true)?;
    encoder.write_all(bytes)?;
    encoder.finish()
}
