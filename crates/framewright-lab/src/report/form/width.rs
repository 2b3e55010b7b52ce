//! How wide a table may be.

use std::io::IsTerminal;
use std::sync::OnceLock;

/// Columns where no terminal says otherwise, as terminals have had them since there were any.
const USUAL: usize = 80;

static WIDTH: OnceLock<usize> = OnceLock::new();

/// Lets tables be as wide as the terminal on standard output, or 80 columns where there is none; `is_wide` lets them be
/// as wide as they are, and so does a program that does not call this.
pub fn fit_terminal(is_wide: bool) {
    let terminal = || {
        let size = std::io::stdout()
            .is_terminal()
            .then(terminal_size::terminal_size);
        size.flatten().map(|(width, _)| usize::from(width.0))
    };
    let width = match is_wide {
        true => usize::MAX,
        false => terminal().filter(|&width| width > 0).unwrap_or(USUAL),
    };
    // The first answer stands.
    let _ = WIDTH.set(width);
}

/// How wide a table may be.
pub(crate) fn width() -> usize {
    *WIDTH.get().unwrap_or(&usize::MAX)
}
