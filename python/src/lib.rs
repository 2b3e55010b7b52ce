//! The native half of the Python module `framewright`: the laboratory's recordings, replays and tables as plain values. Names,
//! checks of types and tables of rows stand in Python beside it.

use framewright::Order;
use framewright_lab::cmd::library::{
    CallError, LoadedRecording, RecordingFacts, ReplaySettings, names_of,
};
use framewright_lab::cmd::replay::{SettingsArg, WatermarksArg};
use framewright_lab::measure::metric::all_metrics;
use framewright_lab::measure::{Better, Metric, replay as m};
use framewright_lab::replay::{ReplayPolicy, Start};
use framewright_lab::report::{FigureSource, ReportColumn};
use framewright_lab::size::{SqueezeSize, read_frames_len, read_squeeze};
use framewright_lab::trace::MemoryLimit;
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How often Python is asked whether a signal has come.
const SIGNALS: Duration = Duration::from_millis(50);

pyo3::create_exception!(
    _framewright,
    InputError,
    PyValueError,
    "What is wrong with a file: its arguments are the file, the line or None, and what is wrong and was expected."
);

/// A value as JSON has it: a count without a fraction.
fn number<'py>(py: Python<'py>, metric: Metric, value: f64) -> PyResult<Bound<'py, PyAny>> {
    match metric.is_count() {
        true => Ok((value as u64).into_pyobject(py)?.into_any()),
        false => Ok(value.into_pyobject(py)?.into_any()),
    }
}

fn raised(error: CallError) -> PyErr {
    match error {
        CallError::Input(fault) => InputError::new_err((fault.file, fault.line, fault.message)),
        CallError::Usage(message) => PyValueError::new_err(message),
        // Nothing stops a replay but an interrupt, whose own exception is raised before this.
        stopped @ CallError::Stopped => PyKeyboardInterrupt::new_err(stopped.to_string()),
    }
}

/// Runs `work` on another thread without the interpreter's lock. Meanwhile this thread lets Python handle its signals, and sets
/// the flag once a handler raises: that is the error then, as soon as `work` has come to its end.
fn interruptible<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&AtomicBool) -> Result<T, CallError> + Send,
) -> PyResult<T> {
    type Slot<T> = Option<Result<T, Box<dyn Any + Send>>>;
    let (stop, ended) = (AtomicBool::new(false), Condvar::new());
    let slot: Mutex<Slot<Result<T, CallError>>> = Mutex::new(None);
    let locked = || slot.lock().unwrap_or_else(PoisonError::into_inner);
    let mut interrupt = None;
    let result = thread::scope(|scope| {
        scope.spawn(|| {
            let result = catch_unwind(AssertUnwindSafe(|| work(&stop)));
            *locked() = Some(result);
            ended.notify_one();
        });
        loop {
            let result = py.detach(|| {
                let waited = ended.wait_timeout_while(locked(), SIGNALS, |slot| slot.is_none());
                waited.unwrap_or_else(PoisonError::into_inner).0.take()
            });
            if let Some(result) = result {
                return result;
            }
            if let Err(raised) = py.check_signals() {
                stop.store(true, Ordering::Relaxed);
                interrupt.get_or_insert(raised);
            }
        }
    });
    match (interrupt, result) {
        (Some(raised), _) => Err(raised),
        (None, Ok(result)) => result.map_err(raised),
        (None, Err(panic)) => resume_unwind(panic),
    }
}

/// A recording with what lies beside it.
#[pyclass(frozen, module = "framewright._framewright")]
struct NativeRecording(LoadedRecording);

#[allow(clippy::too_many_arguments)]
fn settings(
    start: &str,
    squeeze: u64,
    watermarks: &str,
    tried: &str,
    probe: Option<u8>,
    reclaim: bool,
    probe_huge: u64,
) -> PyResult<ReplaySettings> {
    let bad = |what: &str, value: &str, expected: &str| {
        PyValueError::new_err(format!("there is no {what} '{value}', expected {expected}"))
    };
    let start = match start {
        "imposed" => Start::Imposed,
        "fresh" => Start::Fresh,
        other => return Err(bad("start", other, "'imposed' or 'fresh'")),
    };
    let watermarks = match watermarks {
        "auto" => WatermarksArg::Auto,
        "on" => WatermarksArg::On,
        "off" => WatermarksArg::Off,
        other => return Err(bad("watermarks", other, "'auto', 'on' or 'off'")),
    };
    let tried = match tried {
        "none" => SettingsArg::None,
        "few" => SettingsArg::Few,
        "all" => SettingsArg::All,
        other => return Err(bad("settings", other, "'none', 'few' or 'all'")),
    };
    let of = |order: u8| {
        let order = Some(order)
            .filter(|&order| order <= 10)
            .and_then(Order::new);
        order.ok_or_else(|| PyValueError::new_err("probe: expected an order from 0 to 10"))
    };
    Ok(ReplaySettings {
        start,
        squeeze,
        watermarks,
        settings: tried,
        probe: probe.map(of).transpose()?,
        reclaim: reclaim.then_some(probe_huge),
    })
}

fn policies_of(names: &[String]) -> PyResult<Vec<ReplayPolicy>> {
    let mut all = Vec::new();
    for name in names {
        let policy: ReplayPolicy = name
            .parse()
            .map_err(|e| PyValueError::new_err(format!("{e}")))?;
        if !all.contains(&policy) {
            all.push(policy);
        }
    }
    Ok(all)
}

/// The figures of a column, as tuples of variant, metric, value, unit and source.
fn figures<'py>(py: Python<'py>, column: &ReportColumn, into: &Bound<'py, PyList>) -> PyResult<()> {
    let source = match column.source {
        FigureSource::Measured => "measured",
        FigureSource::Simulated => "simulated",
        FigureSource::Published => "published",
    };
    for (&metric, &value) in &column.values {
        let value = number(py, metric, value)?;
        into.append((&column.variant, metric.name(), value, metric.unit(), source))?;
    }
    Ok(())
}

#[pymethods]
impl NativeRecording {
    /// What it holds, by name.
    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let RecordingFacts {
            name,
            digest,
            kernel,
            cpus,
            frames,
            free_frames,
            block_order,
            zones,
            events,
            milliseconds,
            failures,
            is_text,
            anomalies,
            hollow,
            notes,
        } = self.0.facts();
        let all = PyDict::new(py);
        all.set_item("name", name)?;
        all.set_item("digest", digest.to_string())?;
        all.set_item("kernel", kernel)?;
        all.set_item("cpus", cpus)?;
        all.set_item("frames", frames)?;
        all.set_item("free_frames", free_frames)?;
        all.set_item("block_order", block_order)?;
        let list = PyList::empty(py);
        for zone in zones {
            let [min, low, high] = zone.watermarks;
            let one = PyDict::new(py);
            one.set_item("node", zone.node)?;
            one.set_item("name", &zone.zone)?;
            one.set_item("present", zone.present)?;
            one.set_item("managed", zone.managed)?;
            one.set_item("free", zone.free)?;
            one.set_item("min", min)?;
            one.set_item("low", low)?;
            one.set_item("high", high)?;
            list.append(one)?;
        }
        all.set_item("zones", list)?;
        all.set_item("events", events)?;
        all.set_item("milliseconds", milliseconds)?;
        let by_order = PyDict::new(py);
        for (order, &count) in failures.iter().enumerate().filter(|(_, count)| **count > 0) {
            by_order.set_item(order, count)?;
        }
        all.set_item("failures", by_order)?;
        all.set_item("is_text", is_text)?;
        let counts = PyDict::new(py);
        for (kind, count) in anomalies {
            counts.set_item(kind, count)?;
        }
        all.set_item("anomalies", counts)?;
        all.set_item("hollow", hollow.clone())?;
        all.set_item("notes", notes)?;
        Ok(all)
    }

    /// How many replays at once the limit of memory has room for.
    fn at_once(&self) -> u64 {
        self.0.at_once()
    }

    /// Frames: so many thousandths of those that are free at every moment.
    fn share(&self, py: Python<'_>, thousandths: u64) -> PyResult<u64> {
        interruptible(py, |_| self.0.held_back(SqueezeSize::OfFree(thousandths)))
    }

    /// All figures of a case: those of `framewright replay --json`.
    #[pyo3(signature = (policies, start, squeeze, watermarks, tried, probe, reclaim, probe_huge, jobs))]
    #[allow(clippy::too_many_arguments)]
    fn replay<'py>(
        &self,
        py: Python<'py>,
        policies: Vec<String>,
        start: &str,
        squeeze: u64,
        watermarks: &str,
        tried: &str,
        probe: Option<u8>,
        reclaim: bool,
        probe_huge: u64,
        jobs: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        let settings = settings(
            start, squeeze, watermarks, tried, probe, reclaim, probe_huge,
        )?;
        let policies = policies_of(&policies)?;
        let case = interruptible(py, |stop| self.0.replay(&policies, settings, jobs, stop))?;
        let all = PyDict::new(py);
        all.set_item("case", &case.name)?;
        let rows = PyList::empty(py);
        for column in case.all_columns() {
            figures(py, &column, &rows)?;
        }
        all.set_item("rows", rows)?;
        let errors = PyDict::new(py);
        for (metric, deviation) in case.calibration.iter().flat_map(|c| &c.deviations) {
            errors.set_item(metric.name(), deviation.error)?;
        }
        all.set_item("errors", errors)?;
        let hollow = case.hollow.iter().map(|one| (one.kind, &one.says));
        all.set_item("hollow", hollow.collect::<Vec<_>>())?;
        all.set_item("notes", &case.notes)?;
        Ok(all)
    }

    /// The figures of one policy: those of a row of `framewright sweep`.
    fn figures<'py>(
        &self,
        py: Python<'py>,
        policy: String,
        start: &str,
        squeeze: u64,
        watermarks: &str,
    ) -> PyResult<Bound<'py, PyList>> {
        let settings = settings(start, squeeze, watermarks, "none", None, false, 0)?;
        let policy = policies_of(&[policy])?[0];
        let column = interruptible(py, |stop| self.0.figures(policy, settings, stop))?;
        let rows = PyList::empty(py);
        figures(py, &column, &rows)?;
        Ok(rows)
    }
}

/// Reads a recording. `memory_limit` is in bytes.
#[pyfunction]
#[pyo3(signature = (path, state, memory_limit))]
fn load(
    py: Python<'_>,
    path: PathBuf,
    state: Option<PathBuf>,
    memory_limit: Option<u64>,
) -> PyResult<NativeRecording> {
    let limit = memory_limit.map_or(MemoryLimit::default(), MemoryLimit::bytes);
    let loaded = interruptible(py, |_| {
        LoadedRecording::open(&path, state.as_deref(), limit)
    })?;
    Ok(NativeRecording(loaded))
}

/// Names of the policies, with their other names, and whether they are compared unless others are named.
#[pyfunction]
fn policies() -> Vec<(&'static str, Vec<&'static str>, bool, bool)> {
    let one = |policy: ReplayPolicy| {
        let aliases = ReplayPolicy::ALIASES
            .iter()
            .filter(|(_, name)| *name == policy.name());
        (
            policy.name(),
            aliases.map(|&(alias, _)| alias).collect(),
            ReplayPolicy::COMPARED.contains(&policy),
            matches!(policy, ReplayPolicy::Engine(_)),
        )
    };
    ReplayPolicy::ALL.into_iter().map(one).collect()
}

/// The names that these stand for, each once.
#[pyfunction]
fn policy_names(names: Vec<String>) -> PyResult<Vec<&'static str>> {
    Ok(policies_of(&names)?
        .into_iter()
        .map(ReplayPolicy::name)
        .collect())
}

/// The metrics of a replay: name, unit, which value is better, definition, and the row of the table.
#[pyfunction]
fn metrics() -> Vec<(
    String,
    &'static str,
    Option<&'static str>,
    &'static str,
    &'static str,
    bool,
)> {
    let one = |metric: Metric| {
        let better = match metric.better() {
            Better::Lower => Some("lower"),
            Better::Higher => Some("higher"),
            Better::Neither => None,
        };
        let row = metric.row();
        (
            metric.name(),
            metric.unit(),
            better,
            row.definition,
            row.name,
            metric.is_count(),
        )
    };
    all_metrics(m::TABLE).map(one).collect()
}

/// A size as frames.
#[pyfunction]
fn frames_of(size: &str) -> PyResult<u64> {
    read_frames_len(size).map_err(PyValueError::new_err)
}

/// A share of what is free at every moment, as thousandths; it ends in `%`.
#[pyfunction]
fn share_of(size: &str) -> PyResult<u64> {
    match read_squeeze(size).map_err(PyValueError::new_err)? {
        SqueezeSize::OfFree(thousandths) => Ok(thousandths),
        SqueezeSize::Frames(_) => Err(PyValueError::new_err("expected a share as 97.5%")),
    }
}

/// A name for each recording.
#[pyfunction]
fn case_names(paths: Vec<PathBuf>) -> PyResult<Vec<String>> {
    names_of(&paths).map_err(raised)
}

#[pymodule]
fn _framewright(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("InputError", module.py().get_type::<InputError>())?;
    module.add_class::<NativeRecording>()?;
    module.add_function(wrap_pyfunction!(load, module)?)?;
    module.add_function(wrap_pyfunction!(policies, module)?)?;
    module.add_function(wrap_pyfunction!(policy_names, module)?)?;
    module.add_function(wrap_pyfunction!(metrics, module)?)?;
    module.add_function(wrap_pyfunction!(frames_of, module)?)?;
    module.add_function(wrap_pyfunction!(share_of, module)?)?;
    module.add_function(wrap_pyfunction!(case_names, module)?)
}
