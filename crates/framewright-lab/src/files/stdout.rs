//! The names by which a user means standard output. Every writer asks here, below the files that are staged and named.

use std::path::Path;

/// Whether an output of that name goes to standard output. `/dev/stdout` is a link, and a file that took its place
/// would be in every other program's way.
pub(crate) fn is_stdout(path: &Path) -> bool {
    ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"]
        .iter()
        .any(|name| path.as_os_str() == *name)
}
