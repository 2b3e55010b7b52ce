use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How often the bar is redrawn.
const REDRAW: Duration = Duration::from_millis(100);

/// Runs `work` and shows on standard error how many of `total` operations it has counted, if
/// standard error is a terminal; otherwise just runs it.
pub(super) fn with_progress<T>(what: &str, total: u64, work: impl FnOnce(&AtomicU64) -> T) -> T {
    let done = AtomicU64::new(0);
    if !std::io::stderr().is_terminal() {
        return work(&done);
    }
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    // A template that indicatif does not know would be a fault here; its own default serves then.
    let style = ProgressStyle::with_template("{msg} {bar:40} {percent:>3} % {eta}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message(what.to_owned());
    let finished = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !finished.load(Ordering::Relaxed) {
                bar.set_position(done.load(Ordering::Relaxed));
                std::thread::park_timeout(REDRAW);
            }
        });
        let result = work(&done);
        finished.store(true, Ordering::Relaxed);
        watcher.thread().unpark();
        result
    });
    bar.finish_and_clear();
    result
}
