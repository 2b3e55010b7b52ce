//! A live view: which order fails next, and because of what.
//!
//! ```text
//!   two tracing instances ─▶ events ─┐
//!   /proc/buddyinfo, zoneinfo, vmstat ├─▶ TopState, pure ─▶ verdict, rows ─▶ screen │ text │ JSON
//!   page flags, pagetypeinfo: seldom ─┘
//! ```
//!
//! The recorder's instances trace for it, with buffers of their own: one what goes wrong, one requests of order 1 and above,
//! so that a flood of those overwrites no failure. Requests of one frame are most of all; the kernel drops them in its filter,
//! and `/proc/vmstat` counts them.
//!
//! # Invariants
//! - **TP1** No look waits for the kernel, and each takes a bounded piece of what is there. What comes faster is overwritten,
//!   and the view says how many events that were.
//! - **TP2** The terminal is given back and the instances are removed however a view ends, but for SIGKILL; then the next one
//!   or the next recording removes them.
//! - **TP3** What a state shows depends on the events and readings that it took, and on nothing else.
//! - **TP4** What a name says is shown, not obeyed.
//!
//! # Sources
//! As of [`record`](crate::record); `Documentation/admin-guide/sysctl/vm.rst` for the watermarks.

mod error;
mod events;
mod layout;
mod outlook;
mod sources;
mod state;
#[cfg(test)]
mod tests;
mod verdict;
mod view;

pub use error::TopError;
pub(in crate::top) use error::what;
use sources::{TopSources, open_tracefs};
use state::TopState;
use std::fs;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use view::{Screen, Shown, Wish, json_line, plain_text};

/// How often events are taken out of the buffers.
const LOOK: Duration = Duration::from_millis(100);

/// In which form a view comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopForm {
    /// On the terminal, until the user ends it.
    Screen,
    /// As plain text of that many columns, once.
    Text(u16),
    /// As JSON, an object an interval, so often or until it is interrupted.
    Json(Option<u64>),
}

/// What to show, and how.
#[derive(Debug, Clone)]
pub struct TopOptions {
    /// How it is shown.
    pub form: TopForm,
    /// The interval.
    pub every: Duration,
    /// The order that is asked about.
    pub order: usize,
    /// The size of the buffers of all CPUs together, in MiB.
    pub buffer_mib: u64,
    /// Whether only `/proc` is read.
    pub no_events: bool,
}

/// Shows the view until it has ended. `interrupted` is what signals set; `say` is told what happened before it began.
///
/// # Errors
/// [`TopError`]. The terminal is given back and no instance is left by then.
pub fn top(
    options: &TopOptions,
    interrupted: &AtomicBool,
    mut say: impl FnMut(&str),
) -> Result<(), TopError> {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel = crate::printable::text(kernel.trim());
    let mut missing = Vec::new();
    let tracefs = open_tracefs(options.no_events, &mut missing, &mut say)?;
    let sources = TopSources::open(tracefs.as_ref(), options.buffer_mib, &mut missing)?;
    // A screen shows the rest meanwhile.
    let waits = options.form != TopForm::Screen;
    let first = sources.read(waits)?;
    let state = TopState::new(options.order, tracefs.is_some(), missing, first);
    sources.start()?;
    let view = RunningView {
        sources,
        state,
        kernel,
        every: options.every,
        next: Instant::now() + options.every,
    };
    match options.form {
        TopForm::Screen => view.on_screen(interrupted),
        TopForm::Text(width) => view.once(interrupted, width),
        TopForm::Json(count) => view.print_objects(interrupted, count),
    }
}

/// A view that goes on.
struct RunningView<'t> {
    sources: TopSources<'t>,
    state: TopState,
    kernel: String,
    every: Duration,
    /// When the interval ends.
    next: Instant,
}

impl RunningView<'_> {
    /// Whether the interval has ended; then the state has a reading.
    fn look(&mut self) -> Result<bool, TopError> {
        self.sources.pump(&mut self.state)?;
        if Instant::now() < self.next {
            return Ok(false);
        }
        self.end_interval()?;
        // From the reading on, so that no interval is shorter than was asked for: one that came late is not made up for.
        self.next = Instant::now() + self.every;
        Ok(true)
    }

    fn end_interval(&mut self) -> Result<(), TopError> {
        self.state.read(self.sources.read(false)?);
        Ok(())
    }

    fn wait(&self) -> Duration {
        LOOK.min(self.next.saturating_duration_since(Instant::now()))
    }

    /// Waits for the end of the interval. Whether it has come to that.
    fn interval(&mut self, interrupted: &AtomicBool) -> Result<bool, TopError> {
        loop {
            if interrupted.load(Ordering::Relaxed) {
                return Ok(false);
            }
            if self.look()? {
                return Ok(true);
            }
            std::thread::sleep(self.wait());
        }
    }

    fn once(mut self, interrupted: &AtomicBool, width: u16) -> Result<(), TopError> {
        if !self.interval(interrupted)? {
            self.end_interval()?;
        }
        print(&plain_text(&self.state, &self.kernel, width)).map(drop)
    }

    fn print_objects(
        mut self,
        interrupted: &AtomicBool,
        count: Option<u64>,
    ) -> Result<(), TopError> {
        let mut left = count;
        while left != Some(0) {
            if !self.interval(interrupted)? || !print(&json_line(&self.state, &self.kernel))? {
                return Ok(());
            }
            left = left.map(|left| left - 1);
        }
        Ok(())
    }

    fn on_screen(mut self, interrupted: &AtomicBool) -> Result<(), TopError> {
        let mut screen = Screen::open()?;
        // What stands still while the rest goes on.
        let mut paused: Option<TopState> = None;
        let mut is_help = false;
        let mut is_new = true;
        loop {
            if is_new {
                let shown = Shown {
                    kernel: &self.kernel,
                    is_paused: paused.is_some(),
                    is_help,
                };
                screen.draw(paused.as_ref().unwrap_or(&self.state), shown)?;
            }
            let wish = screen.wish(self.wait())?;
            if interrupted.load(Ordering::Relaxed) {
                return Ok(());
            }
            is_new = wish.is_some();
            let chosen = paused.as_ref().unwrap_or(&self.state).chosen;
            let order = match wish {
                Some(Wish::Quit) => return Ok(()),
                Some(Wish::Pause) => {
                    paused = match paused {
                        Some(_) => None,
                        None => Some(self.state.clone()),
                    };
                    chosen
                }
                Some(Wish::Help) => {
                    is_help = !is_help;
                    chosen
                }
                Some(Wish::Order(order)) => order,
                Some(Wish::NextOrder) => (chosen + 1).min(outlook::ORDERS - 1),
                Some(Wish::LastOrder) => chosen.saturating_sub(1),
                Some(Wish::Redraw) | None => chosen,
            };
            for state in [Some(&mut self.state), paused.as_mut()]
                .into_iter()
                .flatten()
            {
                state.chosen = order;
            }
            is_new |= self.look()? && paused.is_none();
        }
    }
}

/// Prints text; whether its reader is still there.
fn print(text: &str) -> Result<bool, TopError> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(TopError::new(format!("standard output: {error}"))),
    }
}
