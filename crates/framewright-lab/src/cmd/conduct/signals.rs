//! What a signal leaves: nothing.

/// On SIGINT, SIGQUIT, SIGTERM and SIGHUP: removes this process's temporary folders and half-written outputs, then ends it as the
/// signal would have.
#[cfg(target_os = "linux")]
pub(in crate::cmd) fn clean_up_on_signals() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    use signal_hook::iterator::Signals;
    // Where signals cannot be taken they end the process at once, as they always did.
    let Ok(mut signals) = Signals::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP]) else {
        return;
    };
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            crate::files::remove_all();
            let _ = signal_hook::low_level::emulate_default_handler(signal);
            std::process::exit(128 + signal);
        }
    });
}

#[cfg(not(target_os = "linux"))]
pub(in crate::cmd) fn clean_up_on_signals() {}
