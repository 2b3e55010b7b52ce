use super::words::ProcLine;
use crate::trace::TraceError;
use framewright::{Frame, Run};

/// One zone's place and watermarks, from `/proc/zoneinfo`. All in frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneInfo {
    /// The node.
    pub node: u64,
    /// The zone's name.
    pub zone: String,
    /// From its first frame to its last, holes included.
    pub span: Run,
    /// Frames that exist.
    pub present: u64,
    /// Frames that the allocator was given.
    pub managed: u64,
    /// The watermarks min, low and high.
    pub watermarks: [u64; 3],
}

/// Reads `/proc/zoneinfo`; `name` stands in errors. Zones without frames are left out, as the
/// kernel says nothing of their place.
///
/// # Errors
/// `NAME:LINE`, with what is wrong and what was expected.
pub fn read_zoneinfo(name: &str, text: &str) -> Result<Vec<ZoneInfo>, TraceError> {
    let mut zones = Vec::new();
    let mut open: Option<Open<'_>> = None;
    for line in ProcLine::all(name, text) {
        if line.text.starts_with("Node") {
            zones.extend(open.take().map(Open::close).transpose()?.flatten());
            let (node, zone, _) = line.zone()?;
            open = Some(Open {
                line,
                node,
                zone,
                values: [None; KEYS.len()],
            });
            continue;
        }
        let Some(open) = &mut open else {
            return Err(line.error("a value before the first zone, expected 'Node N, zone NAME'"));
        };
        let mut words = line.text.split_whitespace();
        let key = words.next().unwrap_or_default();
        if let Some(key) = KEYS.iter().position(|&wanted| wanted == key) {
            let word = words.next().unwrap_or_default();
            // Per-CPU lists have a high mark, too; it comes after the zone's.
            open.values[key].get_or_insert(line.number(word)?);
        }
    }
    zones.extend(open.take().map(Open::close).transpose()?.flatten());
    if zones.is_empty() {
        return Err(TraceError::new(
            name,
            "no zone with frames, expected /proc/zoneinfo",
        ));
    }
    Ok(zones)
}

const KEYS: [&str; 7] = [
    "spanned",
    "present",
    "managed",
    "min",
    "low",
    "high",
    "start_pfn:",
];

/// A zone whose lines are being read.
struct Open<'a> {
    line: ProcLine<'a>,
    node: u64,
    zone: &'a str,
    values: [Option<u64>; KEYS.len()],
}

impl Open<'_> {
    fn close(self) -> Result<Option<ZoneInfo>, TraceError> {
        let value = |key: usize| {
            let missing = || self.line.error(format!("the zone has no '{}'", KEYS[key]));
            self.values[key].ok_or_else(missing)
        };
        if value(1)? == 0 {
            return Ok(None);
        }
        let (start, spanned) = (value(6)?, value(0)?);
        let span = Run::new(Frame(start), spanned).ok_or_else(|| {
            self.line.error(format!(
                "{spanned} frames from {start} pass the end of the numbers"
            ))
        })?;
        Ok(Some(ZoneInfo {
            node: self.node,
            zone: self.zone.to_owned(),
            span,
            present: value(1)?,
            managed: value(2)?,
            watermarks: [value(3)?, value(4)?, value(5)?],
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Node 0, zone    DMA32
  per-node stats
      nr_inactive_anon 196059
  pages free     785164
        boost    0
        min      2026
        low      2806
        high     3586
        spanned  1044480
        present  782288
        managed  765904
        protection: (0, 0, 21064)
      nr_free_pages 785164
  pagesets
    cpu: 0
              count: 0
              high:  14
  start_pfn:           4096
Node 0, zone  Movable
  pages free     0
        spanned  0
        present  0
        managed  0
";

    #[test]
    fn a_zones_place_and_watermarks_are_read() {
        let zones = read_zoneinfo("z", TEXT).unwrap();
        assert_eq!(
            zones,
            [ZoneInfo {
                node: 0,
                zone: "DMA32".into(),
                span: Run::new(Frame(4096), 1_044_480).unwrap(),
                present: 782_288,
                managed: 765_904,
                watermarks: [2026, 2806, 3586],
            }]
        );
    }

    #[test]
    fn what_is_no_zoneinfo_is_named_by_line() {
        let error = |from: &str, to: &str| {
            read_zoneinfo("z", &TEXT.replace(from, to))
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            error("  start_pfn:           4096\n", ""),
            "z:1: the zone has no 'start_pfn:'"
        );
        assert_eq!(
            error("present  782288", "present many"),
            "z:10: 'many' is not a whole number"
        );
        assert_eq!(
            error("present  782288", "present 0"),
            "z: no zone with frames, expected /proc/zoneinfo"
        );
        let end = format!("start_pfn: {}", u64::MAX);
        assert!(error("start_pfn:           4096", &end).contains("pass the end of the numbers"));
        let error = read_zoneinfo("z", "  pages free 1")
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("z:1: a value before the first zone"),
            "{error}"
        );
    }
}
