//! What `/proc` is read for besides the state: a file's text, and the flags of all frames.

use crate::record::RecordError;
use crate::trace::Snapshot;
use std::fs::{self, File};
use std::io;
use std::path::Path;

pub(crate) fn proc_text(name: &str) -> Result<String, RecordError> {
    let path = Path::new("/proc").join(name);
    fs::read_to_string(&path).map_err(|e| RecordError::file(&path, &e))
}

pub(crate) fn open_page_flags() -> Result<File, RecordError> {
    let path = Path::new("/proc/kpageflags");
    File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => RecordError::Missing(
            "this kernel has no /proc/kpageflags; it must be built with CONFIG_PROC_PAGE_MONITOR"
                .into(),
        ),
        io::ErrorKind::PermissionDenied => RecordError::Missing(
            "reading /proc/kpageflags needs root (CAP_SYS_ADMIN): run it with sudo".into(),
        ),
        _ => RecordError::file(path, &error),
    })
}

/// What all frames are now, in the memory of an earlier snapshot.
///
/// A snapshot takes a frame for each 4,096 that it reads of. Those that it takes while it reads count as free where it has
/// read of them before, and the recorder keeps them until the recording ends: the trace would have more memory than the machine
/// had.
pub(crate) fn snapshot(earlier: Snapshot) -> Result<Snapshot, RecordError> {
    let read = earlier.read_again(open_page_flags()?);
    read.map_err(|e| RecordError::file(Path::new("/proc/kpageflags"), &e))
}
