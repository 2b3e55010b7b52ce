//! The order of one run: clear the folder, lock memory, drop the caches, count, run the load, count again. Measured
//! runs and recorded ones differ only between the two counts, so that what was predicted from one holds for the
//! other.

use super::figures::{counted, failures_of};
use super::hog::Hog;
use super::load::{run_words, work_of};
use super::machine::{MachineBlocks, available_mib, counters, load_average};
use super::plan::FREE_MIB_MIN;
use super::{
    AbError, AbLoad, AbPlan, AbPrediction, AbRun, AbRuns, HeldSettings, RunFigures, SettingsRoot,
    now_s,
};
use crate::record::{
    Instance, RecordOptions, RecordingEnded, RecordingMoment, Tracefs, record_around,
};
use crate::trace::{EventKind, Input, TextReader};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// What a reduction takes beside the recording's buffers, in MiB: the process beside the load makes room for it.
const REDUCTION_MIB: u64 = 6144;

/// Makes the runs of a folder's plan.
#[derive(Debug)]
pub struct AbRunner<'f> {
    folder: &'f Path,
    plan: AbPlan,
    digest: String,
    root: SettingsRoot,
    interrupted: &'f AtomicBool,
}

/// What is read before a load and after it.
struct RunReading<'t> {
    counters: BTreeMap<String, u64>,
    blocks: MachineBlocks,
    fallbacks: Instance<'t>,
    failures: Instance<'t>,
}

impl<'t> RunReading<'t> {
    fn begin(tracefs: &'t Tracefs) -> Result<Self, AbError> {
        let fallbacks = Instance::make_for_fallbacks(tracefs).map_err(AbError::new)?;
        let failures = Instance::make_for_all_failures(tracefs).map_err(AbError::new)?;
        let blocks = MachineBlocks::now()?;
        fallbacks.set_tracing(true).map_err(AbError::new)?;
        failures.set_tracing(true).map_err(AbError::new)?;
        let counters = counters()?;
        Ok(Self {
            counters,
            blocks,
            fallbacks,
            failures,
        })
    }

    /// The figures since then, but for the load's own.
    fn end(&self, notes: &mut Vec<String>) -> Result<RunFigures, AbError> {
        self.fallbacks.set_tracing(false).map_err(AbError::new)?;
        self.failures.set_tracing(false).map_err(AbError::new)?;
        let mut figures = counted(&self.counters, &counters()?);
        let blocks = MachineBlocks::now()?;
        let added = |after: u64, before: u64| after as f64 - before as f64;
        figures.insert(
            "mixed_blocks_added".into(),
            added(blocks.mixed, self.blocks.mixed),
        );
        figures.insert(
            "contaminated_blocks_added".into(),
            added(blocks.contaminated, self.blocks.contaminated),
        );
        let fill = self.fallbacks.fill().map_err(AbError::new)?;
        let fallbacks = fill.events + fill.overwritten + fill.lost;
        figures.insert("external_fallbacks".into(), fallbacks as f64);
        for order in 0..=10 {
            figures.insert(failures_of(order).into(), 0.0);
        }
        let fill = self.failures.fill().map_err(AbError::new)?;
        let text = self.failures.text().map_err(AbError::new)?;
        let text = Input::from_reader("the kernel's failures", text).map_err(AbError::new)?;
        // No line at all is no text of a trace.
        let mut seen = 0_u64;
        if fill.events > 0 {
            let mut reader = TextReader::new(text);
            while let Some(event) = reader.next_event().map_err(AbError::new)? {
                if let EventKind::Alloc {
                    frame: None, order, ..
                } = event.kind
                {
                    seen += 1;
                    *figures
                        .entry(failures_of(order.index()).into())
                        .or_default() += 1.0;
                }
            }
        }
        let all = fill.events + fill.overwritten + fill.lost;
        if all > seen && seen > 0 {
            notes.push(format!(
                "{all} requests failed, and the orders of {seen} are known; failures by order are scaled"
            ));
            for order in [0, 1, 4, 9] {
                if let Some(value) = figures.get_mut(failures_of(order)) {
                    *value *= all as f64 / seen as f64;
                }
            }
        }
        Ok(figures)
    }
}

impl<'f> AbRunner<'f> {
    /// For the plan in a folder.
    ///
    /// # Errors
    /// If there is none.
    pub fn new(
        folder: &'f Path,
        root: SettingsRoot,
        interrupted: &'f AtomicBool,
    ) -> Result<Self, AbError> {
        let (plan, digest) = AbPlan::read(folder)?;
        Ok(Self {
            folder,
            plan,
            digest,
            root,
            interrupted,
        })
    }

    /// The plan.
    #[must_use]
    pub const fn plan(&self) -> &AbPlan {
        &self.plan
    }

    /// The plan's digest.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The file of recorded runs.
    #[must_use]
    pub fn recorded_path(&self) -> PathBuf {
        self.folder.join("recorded.jsonl")
    }

    /// The file of runs by turns.
    #[must_use]
    pub fn runs_path(&self) -> PathBuf {
        self.folder.join("runs.jsonl")
    }

    /// The recording of a round.
    #[must_use]
    pub fn recording(&self, round: u64) -> PathBuf {
        self.folder
            .join("recordings")
            .join(format!("a-{round}.pft.zst"))
    }

    /// Makes the recorded runs that are not there.
    ///
    /// # Errors
    /// What is missing, went wrong, or that it was interrupted. Settings are as before, and what was done stays.
    pub fn record(&self, mut say: impl FnMut(&str)) -> Result<(), AbError> {
        let mut done = AbRuns::open(&self.recorded_path(), &self.digest)?;
        let missing: Vec<u64> = (0..self.plan.record)
            .filter(|&round| !done.has("A", round))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let tracefs = Tracefs::open().map_err(AbError::new)?;
        self.plan.check_machine()?;
        let held = HeldSettings::take(self.root.clone(), self.folder, &mut say)?;
        held.apply(&self.plan.arms[0].settings)?;
        let mut hog = Hog::start()?;
        for round in missing {
            let run = self.recorded_run(round, &tracefs, &mut hog, &mut say)?;
            say(&shown(&run));
            done.add(run)?;
        }
        Ok(())
    }

    /// Makes the runs by turns that are not there. No prediction, no run.
    ///
    /// # Errors
    /// As [`record`](Self::record), and if no prediction of this plan stands.
    pub fn run(&self, mut say: impl FnMut(&str)) -> Result<(), AbError> {
        let (_, prediction) = AbPrediction::read(self.folder, &self.digest)?;
        let mut done = AbRuns::open(&self.runs_path(), &self.digest)?;
        let missing: Vec<(usize, u64)> = (self.plan.turns().into_iter())
            .filter(|&(arm, round)| !done.has(&self.plan.arms[arm].name, round))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        say(&format!("a prediction stands, sha256 {prediction}"));
        let tracefs = Tracefs::open().map_err(AbError::new)?;
        self.plan.check_machine()?;
        let held = HeldSettings::take(self.root.clone(), self.folder, &mut say)?;
        let mut hog = Hog::start()?;
        for (arm, round) in missing {
            held.apply(&self.plan.arms[arm].settings)?;
            let mut run = self.measured_run(arm, round, &tracefs, &mut hog)?;
            run.prediction = Some(prediction.clone());
            say(&shown(&run));
            done.add(run)?;
        }
        Ok(())
    }

    /// What a run begins with: memory left as planned, and an empty folder for its files.
    fn prepare(&self, hog: &mut Hog, beside_mib: u64) -> Result<(u64, PathBuf), AbError> {
        let work = self.folder.join("work");
        self.clear(&work)?;
        hog.leave(self.plan.free_mib + beside_mib)?;
        // What others have read counts as available, and so do the kernel's own objects for it. Every run begins without
        // both, and with as much that is free.
        let drop_caches = self.root.drop_caches();
        fs::write(&drop_caches, "3\n").map_err(|e| AbError::file(&drop_caches, e))?;
        let available = available_mib()?;
        let free_mib = available.saturating_sub(beside_mib);
        // Pieces of the process beside are 64 MiB, and others take memory meanwhile.
        if free_mib + 256 < FREE_MIB_MIN {
            return Err(AbError::new(format!(
                "{free_mib} MiB are available beside the load, expected at least {FREE_MIB_MIN}"
            )));
        }
        Ok((free_mib, work))
    }

    fn clear(&self, work: &Path) -> Result<(), AbError> {
        match fs::remove_dir_all(work) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(AbError::file(work, error))
            }
            _ => fs::create_dir_all(work).map_err(|e| AbError::file(work, e)),
        }
    }

    fn words(&self, round: u64, work: &Path) -> Result<Vec<std::ffi::OsString>, AbError> {
        AbLoad::named(&self.plan.load)?.command(
            &self.folder.join("loads"),
            self.plan.seed_of(round),
            self.plan.seconds,
            work,
            self.plan.free_mib,
        )
    }

    /// A row without its figures.
    fn row(&self, arm: usize, round: u64, free_mib: u64, hog: &Hog) -> AbRun {
        AbRun {
            arm: self.plan.arms[arm].name.clone(),
            round,
            seed: self.plan.seed_of(round),
            plan: self.digest.clone(),
            prediction: None,
            began: now_s(),
            seconds: 0.0,
            load_before: load_average(),
            load_after: 0.0,
            free_mib,
            held_mib: hog.held_mib(),
            notes: Vec::new(),
            figures: RunFigures::new(),
        }
    }

    fn measured_run(
        &self,
        arm: usize,
        round: u64,
        tracefs: &Tracefs,
        hog: &mut Hog,
    ) -> Result<AbRun, AbError> {
        let (free_mib, work) = self.prepare(hog, 0)?;
        let words = self.words(round, &work)?;
        let mut run = self.row(arm, round, free_mib, hog);
        let reading = RunReading::begin(tracefs)?;
        let begun = Instant::now();
        let printed = run_words(
            &words,
            &self.folder.join("printed"),
            self.plan.seconds,
            self.interrupted,
        )?;
        run.seconds = begun.elapsed().as_secs_f64();
        run.figures = reading.end(&mut run.notes)?;
        self.end(run, &printed, hog, &work)
    }

    fn recorded_run(
        &self,
        round: u64,
        tracefs: &Tracefs,
        hog: &mut Hog,
        say: &mut impl FnMut(&str),
    ) -> Result<AbRun, AbError> {
        let output = self.recording(round);
        let (free_mib, work) = self.prepare(hog, self.plan.buffer_mib)?;
        if let Some(folder) = output.parent() {
            fs::create_dir_all(folder).map_err(|e| AbError::file(folder, e))?;
        }
        let printed = self.folder.join("printed");
        // What the recorder runs prints where the recorder does.
        let mut command = [
            "sh",
            "-c",
            "printed=$1; shift; exec \"$@\" > \"$printed\"",
            "sh",
        ]
        .map(std::ffi::OsString::from)
        .to_vec();
        command.push(printed.clone().into_os_string());
        command.extend(self.words(round, &work)?);
        let options = RecordOptions {
            output,
            command,
            buffer_mib: Some(self.plan.buffer_mib),
            replace: true,
            freed_mib: REDUCTION_MIB.min(hog.held_mib()),
            ..RecordOptions::default()
        };
        let mut run = self.row(0, round, free_mib, hog);
        let mut reading = None;
        let mut begun = Instant::now();
        let mut ended = Ok(());
        let report = record_around(&options, self.interrupted, &mut *say, |moment| {
            match (moment, &reading) {
                // Behind the recorder's buffers, which are a load of their own.
                (RecordingMoment::Begins, _) => {
                    reading = Some(RunReading::begin(tracefs));
                    begun = Instant::now();
                }
                (RecordingMoment::Ended, Some(Ok(reading))) => {
                    run.seconds = begun.elapsed().as_secs_f64();
                    ended = reading.end(&mut run.notes).and_then(|figures| {
                        run.figures = figures;
                        // The reduction needs memory, and the load is over.
                        hog.give_up(REDUCTION_MIB)
                    });
                }
                (RecordingMoment::Ended, _) => {}
            }
        })
        .map_err(AbError::new)?;
        reading.transpose()?;
        ended?;
        match report.ended {
            RecordingEnded::Command(status) if status.success() => {}
            RecordingEnded::Full => run.notes.push(
                "the buffers were full before the load ended; its beginning is recorded".into(),
            ),
            RecordingEnded::Interrupted => {
                return Err(AbError::new("interrupted; the settings are put back"));
            }
            RecordingEnded::Command(status) => {
                return Err(AbError::new(format!("the load failed: {status}")));
            }
            other => return Err(AbError::new(format!("the recording ended by {other:?}"))),
        }
        let printed = fs::read_to_string(&printed).map_err(|e| AbError::file(&printed, e))?;
        self.end(run, &printed, hog, &work)
    }

    fn end(
        &self,
        mut run: AbRun,
        printed: &str,
        hog: &mut Hog,
        work: &Path,
    ) -> Result<AbRun, AbError> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(AbError::new("interrupted; the settings are put back"));
        }
        if !hog.is_alive() {
            return Err(AbError::new(
                "the process that holds memory was killed while the load worked: memory ran out; expected more with --free",
            ));
        }
        run.load_after = load_average();
        run.figures.insert("work".into(), work_of(printed)?);
        self.clear(work)?;
        Ok(run)
    }
}

/// A line about a run, for the terminal.
fn shown(run: &AbRun) -> String {
    let of = |name: &str| run.figures.get(name).copied().unwrap_or(f64::NAN);
    format!(
        "{} round {}: {:.0} fallbacks, {:+.0} mixed blocks, {:.0} stalls for reclaim, {:.0} for compaction, work {:.0}; load {:.2} to {:.2}",
        run.arm,
        run.round,
        of("external_fallbacks"),
        of("mixed_blocks_added"),
        of("allocstall"),
        of("compact_stall"),
        of("work"),
        run.load_before,
        run.load_after
    )
}
