//! The reader of `/proc/zoneinfo`: where zones lie and what they keep back, as admission needs it.

use super::words::ProcLine;
use crate::trace::TraceError;
use framewright::{Frame, Run};

/// One CPU's lists in front of a zone, from `/proc/zoneinfo`. All in frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ZoneInfoCpu {
    /// Frames on them.
    pub count: u64,
    /// Frames above which some go back; it moves between the next two.
    pub high: u64,
    /// Frames that move at once.
    pub batch: u64,
    /// The lowest `high`; a kernel before 6.7 has only one.
    pub high_min: u64,
    /// The highest.
    pub high_max: u64,
}

/// One zone's place and watermarks, from `/proc/zoneinfo`. All in frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneInfo {
    /// The node.
    pub node: u64,
    /// The zone's name.
    pub zone: String,
    /// Its place among the node's zones, those without frames counted: what `protection` is indexed by.
    pub nth: usize,
    /// Frames that are free, those on CPUs' lists not among them.
    pub free: u64,
    /// From its first frame to its last, holes included.
    pub span: Run,
    /// Frames that exist.
    pub present: u64,
    /// Frames that the allocator was given.
    pub managed: u64,
    /// The watermarks min, low and high, without the boost, which the file counts in.
    pub watermarks: [u64; 3],
    /// What came on top of them at that moment; 0 where the kernel does not say.
    pub boost: u64,
    /// What it keeps back besides from requests that a zone further on could serve, by that zone's place; empty where
    /// the kernel does not say.
    pub protection: Vec<u64>,
    /// Its per-CPU lists, by CPU; empty where the kernel does not say.
    pub cpus: Vec<ZoneInfoCpu>,
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
            let before = open.as_ref().map(|open| (open.node, open.nth));
            zones.extend(open.take().map(Open::close).transpose()?.flatten());
            let (node, zone, _) = line.zone()?;
            let nth = before.filter(|&(of, _)| of == node);
            open = Some(Open {
                line,
                node,
                zone,
                nth: nth.map_or(0, |(_, nth)| nth + 1),
                values: [None; KEYS.len()],
                protection: Vec::new(),
                cpus: Vec::new(),
            });
            continue;
        }
        let Some(open) = &mut open else {
            return Err(line.error("a value before the first zone, expected 'Node N, zone NAME'"));
        };
        let mut words = line.text.split_whitespace();
        let key = words.next().unwrap_or_default();
        if key == "protection:" {
            let marks = |c: char| matches!(c, '(' | ')' | ',');
            let words = words.map(|word| word.trim_matches(marks));
            let numbers = words.filter(|word| !word.is_empty());
            open.protection = numbers
                .map(|word| line.number(word))
                .collect::<Result<_, _>>()?;
        } else if key == "cpu:" {
            open.cpus.push([None; CPU_KEYS.len()]);
        } else if let (Some(cpu), Some(key)) = (
            open.cpus.last_mut(),
            CPU_KEYS.iter().position(|&wanted| wanted == key),
        ) {
            cpu[key].get_or_insert(line.number(words.next().unwrap_or_default())?);
        } else if let Some(key) = KEYS.iter().position(|&wanted| wanted == key) {
            let word = words.next().unwrap_or_default();
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

/// What is read of a zone; per-CPU lists have other words, with a colon.
const KEYS: [&str; 9] = [
    "spanned",
    "present",
    "managed",
    "min",
    "low",
    "high",
    "start_pfn:",
    "nr_free_pages",
    "boost",
];

const CPU_KEYS: [&str; 5] = ["count:", "high:", "batch:", "high_min:", "high_max:"];

/// A zone whose lines are being read.
struct Open<'a> {
    line: ProcLine<'a>,
    node: u64,
    zone: &'a str,
    nth: usize,
    values: [Option<u64>; KEYS.len()],
    protection: Vec<u64>,
    cpus: Vec<[Option<u64>; CPU_KEYS.len()]>,
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
        let cpu = |[count, high, batch, least, most]: [Option<u64>; CPU_KEYS.len()]| ZoneInfoCpu {
            count: count.unwrap_or(0),
            high: high.unwrap_or(0),
            batch: batch.unwrap_or(0),
            high_min: least.or(high).unwrap_or(0),
            high_max: most.or(high).unwrap_or(0),
        };
        let boost = self.values[8].unwrap_or(0);
        let mark = |key: usize| Ok::<_, TraceError>(value(key)?.saturating_sub(boost));
        Ok(Some(ZoneInfo {
            node: self.node,
            zone: self.zone.to_owned(),
            nth: self.nth,
            free: self.values[7].unwrap_or(0),
            span,
            present: value(1)?,
            managed: value(2)?,
            watermarks: [mark(3)?, mark(4)?, mark(5)?],
            boost,
            cpus: self.cpus.iter().copied().map(cpu).collect(),
            protection: self.protection,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Node 0, zone      DMA
  pages free     0
        spanned  0
        present  0
        managed  0
Node 0, zone    DMA32
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
              count: 5
              high:  14
              batch: 3
    cpu: 1
              count: 6
              high:  15
              batch: 4
              high_min: 7
              high_max: 99
  vm stats threshold: 24
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
                nth: 1,
                free: 785_164,
                span: Run::new(Frame(4096), 1_044_480).unwrap(),
                present: 782_288,
                managed: 765_904,
                watermarks: [2026, 2806, 3586],
                boost: 0,
                protection: vec![0, 0, 21_064],
                cpus: vec![
                    ZoneInfoCpu {
                        count: 5,
                        high: 14,
                        batch: 3,
                        high_min: 14,
                        high_max: 14,
                    },
                    ZoneInfoCpu {
                        count: 6,
                        high: 15,
                        batch: 4,
                        high_min: 7,
                        high_max: 99,
                    },
                ],
            }]
        );
    }

    #[test]
    fn a_boost_is_told_from_the_marks_that_count_it_in() {
        let text = TEXT.replace("boost    0", "boost    1024");
        let zones = read_zoneinfo("z", &text).unwrap();
        assert_eq!(
            (zones[0].watermarks, zones[0].boost),
            ([1002, 1782, 2562], 1024)
        );
        // A kernel that boosts nothing has no such line.
        let text = TEXT.replace("        boost    0\n", "");
        let zones = read_zoneinfo("z", &text).unwrap();
        assert_eq!(
            (zones[0].watermarks, zones[0].boost),
            ([2026, 2806, 3586], 0)
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
            "z:6: the zone has no 'start_pfn:'"
        );
        assert_eq!(
            error("present  782288", "present many"),
            "z:15: 'many' is not a whole number"
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
