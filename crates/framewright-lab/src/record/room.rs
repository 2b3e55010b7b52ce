//! Whether there is room for a recording: memory for its buffers, disk for its files.

use super::outlet::{TakesStream, folder_of};
use super::{BufferKeeps, RecordError};
use crate::printable;
use std::path::Path;

/// What a recording leaves alone of the memory that is available: 2 GiB.
const LEFT_ALONE_MIB: u64 = 2048;

/// The default size of the buffers, at most: about 23 million events of 45 bytes.
const DEFAULT_MIB: u64 = 1024;

/// No buffer is of use below this.
const LEAST_MIB: u64 = 1;

/// The available memory in MiB, from the text of `/proc/meminfo`.
pub(super) fn available_mib(meminfo: &str) -> Option<u64> {
    let value = |name| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    // Kernels before 3.14 do not say what is available.
    value("MemAvailable:")
        .or_else(|| value("MemFree:"))
        .map(|kib| kib >> 10)
}

/// The size of all buffers together, in MiB: what was asked for, or an eighth of the available
/// memory but not more than 1 GiB.
///
/// The reduction of a full buffer needs as much memory again (45 bytes of buffer become at most
/// 40 of operations, objects and names), and 2 GiB stay for the machine; where there is less
/// than 2.3 GiB, an eighth may be used.
pub(super) fn buffer_mib(
    keeps: BufferKeeps,
    asked: Option<u64>,
    available: u64,
) -> Result<u64, RecordError> {
    let option = match keeps {
        BufferKeeps::Oldest => "--buffer",
        BufferKeeps::Newest => "--ring",
    };
    let most = (available.saturating_sub(LEFT_ALONE_MIB) / 2).max(available / 8);
    match asked {
        Some(asked) if asked > most || asked < LEAST_MIB => Err(RecordError::Options(format!(
            "{option} {asked}: expected {LEAST_MIB} to {most} MiB; {available} MiB of memory are available, of which {LEFT_ALONE_MIB} are left alone, and the reduction needs as much as the buffer"
        ))),
        Some(asked) => Ok(asked),
        None => Ok((available / 8).min(DEFAULT_MIB).min(most).max(LEAST_MIB)),
    }
}

/// The default size of a stream's buffers, at most: what is recorded passes through, so it is what may come while the
/// recorder gets no CPU, or its reader takes nothing. That is some seven million events.
const STREAM_MIB: u64 = 256;

/// The size of a stream's buffers, in MiB.
pub(super) fn stream_buffer_mib(asked: Option<u64>, available: u64) -> Result<u64, RecordError> {
    let usual = (available / 8).clamp(LEAST_MIB, STREAM_MIB);
    buffer_mib(BufferKeeps::Oldest, Some(asked.unwrap_or(usual)), available)
}

/// What a disk must have free so that a stream can begin, in bytes: page flags at the beginning and at the end, eight
/// bytes a frame, of which at most a twelfth is left where they are packed, at the level of either form, and the files of `/proc`.
fn stream_ends_bytes(meminfo: &str, is_packed: bool) -> u64 {
    let kib = meminfo.lines().find_map(|line| {
        let value = line.strip_prefix("MemTotal:")?.trim();
        value.strip_suffix("kB")?.trim().parse::<u64>().ok()
    });
    let flags = kib.unwrap_or(1 << 20) / 4 * 8;
    (2 << 20) + flags / if is_packed { 8 } else { 1 }
}

/// Refuses a disk on which a stream could hardly begin. Returns what must stay free while it grows, so that it can be
/// ended.
pub(super) fn check_stream_disk(
    outlet: &impl TakesStream,
    output: &Path,
    meminfo: &str,
    is_packed: bool,
    buffer_mib: u64,
) -> Result<u64, RecordError> {
    let ends = stream_ends_bytes(meminfo, is_packed);
    // What the buffers hold when the recording ends. As pages it is no more than they are, and packed a sixth; an event's
    // 45 bytes are 150 where it is text, of which a tenth is left.
    let buffers = (buffer_mib << 20) * 4 / if is_packed { 8 } else { 1 };
    let kept = ends + buffers;
    let Some(room) = outlet.room_bytes() else {
        return Ok(0);
    };
    // The beginning, and as much for events.
    let needed = kept + 2 * ends;
    if room < needed {
        return Err(RecordError::Options(format!(
            "{}: {} MiB are free, and a stream needs {} MiB to begin and to end: expected a file on another disk, or `-` and another machine",
            printable::path(output),
            room >> 20,
            needed.div_ceil(1 << 20)
        )));
    }
    Ok(kept)
}

/// Refuses a disk that has no room for the files of full buffers.
pub(super) fn check_disk(output: &Path, buffer_mib: u64) -> Result<(), RecordError> {
    let folder = folder_of(output);
    let disk = rustix::fs::statvfs(folder).map_err(|e| RecordError::file(folder, &e.into()))?;
    let free_mib = disk.f_bavail.saturating_mul(disk.f_frsize) >> 20;
    let is_packed = output.extension().is_some_and(|ending| ending == "zst");
    let needed_mib = disk_mib(buffer_mib, is_packed);
    if free_mib < needed_mib {
        return Err(RecordError::Options(format!(
            "{}: {free_mib} MiB are free, and a recording of {buffer_mib} MiB of buffers may take {needed_mib} MiB: expected a smaller size, or a file on another disk",
            printable::path(folder)
        )));
    }
    Ok(())
}

/// What a recording's files may take: of an event's 45 bytes 1.3 are left in packed files and 8 in others; twice that,
/// and the objects of the start.
const fn disk_mib(buffer_mib: u64, is_packed: bool) -> u64 {
    16 + buffer_mib / if is_packed { 16 } else { 3 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_needs_room_to_begin_and_to_end_and_small_buffers() {
        struct DiskWithRoom(Option<u64>);
        impl TakesStream for DiskWithRoom {
            fn take(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                Ok(bytes.len())
            }

            fn room_bytes(&self) -> Option<u64> {
                self.0
            }
        }
        // 1 GiB are 262,144 frames.
        let meminfo = "MemTotal:       1048576 kB\n";
        let check = |room, is_packed| {
            check_stream_disk(
                &DiskWithRoom(room),
                Path::new("run.zst"),
                meminfo,
                is_packed,
                8,
            )
        };
        let ends = (2 << 20) + (2 << 20) / 8;
        let kept = ends + (4 << 20);
        assert_eq!(check(Some(kept + 2 * ends), true).unwrap(), kept);
        assert_eq!(check(None, true).unwrap(), 0, "a pipe has no room to know");
        assert_eq!(check(Some(1 << 40), false).unwrap(), 36 << 20);
        let error = check(Some(kept + 2 * ends - 1), true)
            .unwrap_err()
            .to_string();
        let says = "run.zst: 10 MiB are free, and a stream needs 11 MiB to begin and to end: ";
        assert!(error.starts_with(says), "{error}");
        assert_eq!(stream_buffer_mib(None, 23_000).unwrap(), 256);
        assert_eq!(stream_buffer_mib(None, 100).unwrap(), 12);
        assert_eq!(stream_buffer_mib(Some(4), 23_000).unwrap(), 4);
        assert!(stream_buffer_mib(Some(20_000), 23_000).is_err());
    }

    /// As without `--ring`.
    fn buffer_mib(asked: Option<u64>, available: u64) -> Result<u64, RecordError> {
        super::buffer_mib(BufferKeeps::Oldest, asked, available)
    }

    #[test]
    fn a_disk_without_room_is_refused_before_anything_is_recorded() {
        assert_eq!((disk_mib(1024, true), disk_mib(1024, false)), (80, 357));
        check_disk(Path::new("run.pft.zst"), 1).unwrap();
        let error = check_disk(Path::new("run.pft"), 1 << 50)
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with(".: ") && error.contains(" MiB are free, and "),
            "{error}"
        );
    }

    #[test]
    fn the_buffer_and_its_reduction_leave_two_gibibytes_alone() {
        assert_eq!(buffer_mib(None, 23_000).unwrap(), 1024);
        assert_eq!(buffer_mib(None, 4096).unwrap(), 512);
        assert_eq!(buffer_mib(Some(10_476), 23_000).unwrap(), 10_476);
        let error = buffer_mib(Some(10_477), 23_000).unwrap_err().to_string();
        assert!(
            error.starts_with("--buffer 10477: expected 1 to 10476 MiB; "),
            "{error}"
        );
        // A board with little memory can still record a little.
        assert_eq!(buffer_mib(None, 512).unwrap(), 64);
        let error = super::buffer_mib(BufferKeeps::Newest, Some(0), 512).unwrap_err();
        assert!(error.to_string().starts_with("--ring 0: "), "{error}");
        assert!(buffer_mib(Some(65), 512).is_err());
        assert!(buffer_mib(Some(0), 512).is_err());
    }

    #[test]
    fn what_is_available_is_read_from_meminfo() {
        let text = "MemTotal:       24684112 kB\nMemFree:  2048 kB\nMemAvailable:   23084820 kB\n";
        assert_eq!(available_mib(text), Some(22_543));
        assert_eq!(available_mib("MemFree:  2048 kB\n"), Some(2));
        assert_eq!(available_mib("MemFree:  two\n"), None);
    }
}
