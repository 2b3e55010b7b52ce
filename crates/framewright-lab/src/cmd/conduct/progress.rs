//! Progress on standard error, drawn by a thread that only reads a counter. The work is the same with and without
//! it, so its figures are not disturbed.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Thread;
use std::time::Duration;

/// How often the bar is redrawn.
const REDRAW: Duration = Duration::from_millis(100);

/// Runs `work` and shows on standard error how many of `total` operations it has counted, if
/// standard error is a terminal; otherwise just runs it.
pub(in crate::cmd) fn with_progress<T>(
    what: &str,
    total: u64,
    work: impl FnOnce(&AtomicU64) -> T,
) -> T {
    let done = AtomicU64::new(0);
    if !std::io::stderr().is_terminal() {
        return work(&done);
    }
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    // A template that indicatif does not know would be a fault here; its own default serves then.
    let style = ProgressStyle::with_template("{msg} {bar:40} {percent:>3} % {eta}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message(what.to_owned());
    let result = watched(&done, |done| bar.set_position(done), work);
    bar.finish_and_clear();
    result
}

/// Runs `work`, and meanwhile has another thread show how far it is.
fn watched<T>(
    done: &AtomicU64,
    show: impl Fn(u64) + Sync,
    work: impl FnOnce(&AtomicU64) -> T,
) -> T {
    /// The watcher ends with the work, also where that panics: else the scope would wait for it for ever.
    struct TellsAtEnd<'a>(&'a AtomicBool, Thread);
    impl Drop for TellsAtEnd<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
            self.1.unpark();
        }
    }
    let finished = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !finished.load(Ordering::Relaxed) {
                show(done.load(Ordering::Relaxed));
                std::thread::park_timeout(REDRAW);
            }
        });
        let _watched = TellsAtEnd(&finished, watcher.thread().clone());
        work(done)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn work_that_panics_ends_with_its_watcher() {
        let (ended, has_ended) = mpsc::channel();
        std::thread::spawn(move || {
            let work = || {
                watched(
                    &AtomicU64::new(0),
                    |_| (),
                    |_| panic!("a fault of the work's"),
                )
            };
            let caught: std::thread::Result<()> =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            ended.send(caught.is_err()).unwrap();
        });
        assert_eq!(has_ended.recv_timeout(Duration::from_secs(60)), Ok(true));
    }
}
