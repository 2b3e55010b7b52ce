//! The reader of `/proc/meminfo`, of which one line tells what no other file does: beside the frames that `/proc/zoneinfo`
//! counts, the size of a page.

use super::words::ProcLine;
use super::zoneinfo::ZoneInfo;
use crate::trace::TraceError;

/// The sizes of a page that Linux has on some machine, in KiB.
const PAGES_KIB: [u64; 5] = [4, 8, 16, 32, 64];

/// Reads `MemTotal` of `/proc/meminfo`, in KiB; `name` stands in errors.
///
/// # Errors
/// `NAME:LINE`, with what is wrong and what was expected.
pub fn read_mem_total(name: &str, text: &str) -> Result<u64, TraceError> {
    for line in ProcLine::all(name, text) {
        if let Some(total) = line.text.strip_prefix("MemTotal:") {
            let total = total.trim();
            return line.number(total.strip_suffix("kB").unwrap_or(total).trim_end());
        }
    }
    Err(TraceError::new(
        name,
        "no 'MemTotal:', expected /proc/meminfo",
    ))
}

/// The size of a page, in KiB, on a machine with so many KiB in these zones; `None` where the two do not go together.
#[must_use]
pub fn page_kib(total_kib: u64, zones: &[ZoneInfo]) -> Option<u64> {
    let managed = zones.iter().map(|zone| zone.managed);
    let managed = managed.fold(0, u64::saturating_add);
    let is_it = |kib: &u64| {
        let expected = managed.saturating_mul(*kib);
        // What a kernel frees late is in one of them and not in the other.
        managed > 0 && expected.abs_diff(total_kib) <= expected / 8
    };
    PAGES_KIB.into_iter().find(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::state::read_zoneinfo;

    #[test]
    fn the_size_of_a_page_follows_from_memory_and_frames() {
        let zones = "Node 0, zone Normal\n min 1\n low 2\n high 3\n spanned 65536\n present 65536\n managed 60000\n \
                     start_pfn: 0\n";
        let zones = read_zoneinfo("z", zones).unwrap();
        for (total, kib) in [
            (240_000, Some(4)),
            (239_000, Some(4)),
            (960_000, Some(16)),
            (3_840_000, Some(64)),
            (360_000, None),
            (0, None),
            (u64::MAX, None),
        ] {
            assert_eq!(page_kib(total, &zones), kib, "{total}");
        }
        assert_eq!(page_kib(0, &[]), None);
    }

    #[test]
    fn the_total_is_read_and_what_is_no_meminfo_is_named_by_line() {
        assert_eq!(
            read_mem_total("m", "MemTotal:       24646196 kB\nMemFree: x\n"),
            Ok(24_646_196)
        );
        let error = |text| read_mem_total("m", text).unwrap_err().to_string();
        assert_eq!(
            error("MemFree: 1 kB\n"),
            "m: no 'MemTotal:', expected /proc/meminfo"
        );
        assert_eq!(
            error("\nMemTotal: many kB\n"),
            "m:2: 'many' is not a whole number"
        );
    }
}
