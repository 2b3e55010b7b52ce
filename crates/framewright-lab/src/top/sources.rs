//! Where a view comes from: two tracing instances of its own, and `/proc`.

use super::TopError;
use super::events::EventPipe;
use super::layout::LayoutWatch;
use super::state::{TopReading, TopState};
use super::what;
use crate::record::{Instance, RecordError, Tracefs, monotonic_ns, task_name};
use crate::trace::TraceError;
use crate::trace::state::{read_buddyinfo, read_vmstat, read_zoneinfo};
use std::fs::{self, File};

/// An instance and what comes out of it.
#[derive(Debug)]
struct Traced<'t> {
    // Before the instance, which the kernel does not remove while its pipe is open.
    pipe: EventPipe<File>,
    instance: Instance<'t>,
}

impl<'t> Traced<'t> {
    fn new(instance: Instance<'t>) -> Result<Self, RecordError> {
        Ok(Self {
            pipe: EventPipe::new(instance.pipe()?),
            instance,
        })
    }
}

/// The machine's tracing, if it is used.
pub(super) fn open_tracefs(
    no_events: bool,
    missing: &mut Vec<String>,
    say: &mut impl FnMut(&str),
) -> Result<Option<Tracefs>, TopError> {
    if no_events {
        missing.push("failures, fallbacks and requests by order (--no-events)".into());
        return Ok(None);
    }
    let tracefs = match Tracefs::open() {
        Ok(tracefs) => tracefs,
        Err(RecordError::Missing(why)) => {
            missing.push(format!("failures, fallbacks and requests by order ({why})"));
            return Ok(None);
        }
        Err(error) => {
            return Err(TopError::new(format!(
                "cannot watch the page allocator: {}; --no-events shows what /proc says",
                what(&error)
            )));
        }
    };
    for stale in Instance::remove_stale(&tracefs) {
        say(&format!(
            "removed {stale}, the buffers of a recorder that was killed"
        ));
    }
    Ok(Some(tracefs))
}

/// All that is read.
#[derive(Debug)]
pub(super) struct TopSources<'t> {
    traced: Vec<Traced<'t>>,
    layouts: Option<LayoutWatch>,
}

impl<'t> TopSources<'t> {
    /// Opens what there is; the names of what is not go to `missing`.
    pub(super) fn open(
        tracefs: Option<&'t Tracefs>,
        buffer_mib: u64,
        missing: &mut Vec<String>,
    ) -> Result<Self, TopError> {
        let mut traced = Vec::new();
        if let Some(tracefs) = tracefs {
            let kib = buffer_mib << 10;
            let record = |error: RecordError| TopError::new(what(&error));
            let trouble = Instance::make_for_trouble(tracefs, kib / 4).map_err(record)?;
            if !trouble.missing().is_empty() {
                let events = trouble.missing().join(" ");
                missing.push(format!("{events} (not traced by this kernel)"));
            }
            let larger = Instance::make_for_larger_requests(tracefs, kib - kib / 4);
            traced.push(Traced::new(trouble).map_err(record)?);
            traced.push(Traced::new(larger.map_err(record)?).map_err(record)?);
        }
        let layouts = LayoutWatch::start();
        let layouts = layouts.map_err(|e| TopError::new(format!("no thread for /proc: {e}")))?;
        Ok(Self {
            traced,
            layouts: Some(layouts),
        })
    }

    /// Starts tracing. What came before a first reading belongs to no interval.
    pub(super) fn start(&self) -> Result<(), TopError> {
        for traced in &self.traced {
            let started = traced.instance.set_tracing(true);
            started.map_err(|e| TopError::new(what(&e)))?;
        }
        Ok(())
    }

    /// Gives the state the events that have come. Never waits.
    pub(super) fn pump(&mut self, state: &mut TopState) -> Result<(), TopError> {
        for traced in &mut self.traced {
            let looked = traced.pipe.look(|event, name| {
                let is_failure = matches!(
                    event.kind,
                    crate::trace::EventKind::Alloc { frame: None, .. }
                );
                // The kernel keeps the names of few tasks; that of one which has failed is worth a look.
                match name {
                    None if is_failure => state.event(event, task_name(event.pid).as_deref()),
                    name => state.event(event, name),
                }
            });
            looked.map_err(|e| TopError::new(what(&e)))?;
        }
        Ok(())
    }

    /// Reads `/proc` and what the buffers have lost. The first look at the pageblocks is waited for where that is said.
    pub(super) fn read(&self, waits: bool) -> Result<TopReading, TopError> {
        let layout = self.layouts.as_ref().and_then(|of| of.newest(waits));
        let zones = parsed("buddyinfo", read_buddyinfo)?;
        let mut lost = 0_u64;
        for traced in &self.traced {
            let fill = traced.instance.fill();
            let fill = fill.map_err(|e| TopError::new(what(&e)))?;
            lost += fill.lost + fill.overwritten + traced.pipe.unread();
        }
        let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Ok(TopReading {
            now_ns: monotonic_ns(),
            zones,
            infos: parsed("zoneinfo", read_zoneinfo)?,
            vmstat: parsed("vmstat", read_vmstat)?,
            layout,
            lost,
            own_cpu_ns: cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64,
        })
    }
}

fn parsed<T>(
    name: &str,
    read: impl FnOnce(&str, &str) -> Result<T, TraceError>,
) -> Result<T, TopError> {
    let path = format!("/proc/{name}");
    let text = fs::read_to_string(&path).map_err(|e| TopError::new(format!("{path}: {e}")))?;
    read(&path, &text).map_err(|e| TopError::new(e.to_string()))
}
