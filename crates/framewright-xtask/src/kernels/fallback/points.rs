//! What a boot says of its memory, at each point of the load: Linux's own files, as they are, between marks.

use crate::kernels::linux::{is_complaint, without_time};
use std::collections::BTreeMap;

/// What Linux said at one point.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct MemoryPoint {
    /// `/proc/vmstat`, and what the load counts itself.
    pub(super) counters: BTreeMap<String, u64>,
    /// `/proc/meminfo`, in KiB.
    pub(super) memory: BTreeMap<String, u64>,
    /// Free blocks by Linux's name of the type, and order.
    pub(super) free: BTreeMap<String, Vec<u64>>,
    /// Pageblocks by Linux's name of the type.
    pub(super) pageblocks: BTreeMap<String, u64>,
    /// Events by the order asked for.
    pub(super) reclaims: BTreeMap<u64, u64>,
    pub(super) compactions: BTreeMap<u64, u64>,
    pub(super) fallbacks: Vec<FallbackEvents>,
}

/// Fallbacks of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FallbackEvents {
    /// Of the request.
    pub(super) order: u64,
    /// Of the block from which it took.
    pub(super) taken: u64,
    /// Linux's number of the request's type: 0 is unmovable, 1 movable, 2 reclaimable.
    pub(super) mobility: u64,
    pub(super) count: u64,
}

/// All points of a boot that came to its end.
pub(super) fn points(console: &str) -> Result<Vec<MemoryPoint>, String> {
    let mut all: Vec<MemoryPoint> = Vec::new();
    let mut file = None;
    let mut types = Vec::new();
    let mut is_passed = false;
    for line in console.lines() {
        let bare = without_time(line);
        if is_complaint(bare) {
            return Err(format!("Linux says: {bare}"));
        }
        if let Some(said) = line.strip_prefix("phone: ") {
            is_passed = said == "passed";
            if !is_passed {
                return Err(format!("the load says: {said}"));
            }
        }
        if let Some(mark) = line.strip_prefix("== ") {
            let words: Vec<&str> = mark.split(' ').collect();
            let number = |text: &str| text.parse::<usize>().ok();
            file = match words[..] {
                ["point", nth] if number(nth) == Some(all.len()) => {
                    all.push(MemoryPoint::default());
                    None
                }
                ["file", path] if !all.is_empty() => Some(path),
                ["end", nth] if number(nth).map(|nth| nth + 1) == Some(all.len()) => None,
                _ => return Err(format!("`{line}` is out of turn")),
            };
            types.clear();
            continue;
        }
        let (Some(path), Some(point)) = (file, all.last_mut()) else {
            continue;
        };
        // What the kernel says meanwhile is no line of a file.
        if bare.len() < line.len() {
            continue;
        }
        point
            .read(path, line, &mut types)
            .ok_or_else(|| format!("{path}: `{line}` was not understood"))?;
    }
    if !is_passed {
        return Err("it did not come to its end".to_owned());
    }
    match all.iter().position(|point| !point.is_whole()) {
        Some(nth) => Err(format!("point {nth} is not whole")),
        None => Ok(all),
    }
}

impl MemoryPoint {
    fn is_whole(&self) -> bool {
        self.counters.contains_key("compact_stall")
            && self.counters.contains_key("buffers_refused")
            && self.memory.contains_key("MemFree")
            && ["Unmovable", "Movable", "Reclaimable"]
                .iter()
                .all(|name| self.free.contains_key(*name) && self.pageblocks.contains_key(*name))
    }

    /// Reads a line of a file; `types` are the columns of a table within it.
    fn read(&mut self, path: &str, line: &str, types: &mut Vec<String>) -> Option<()> {
        if path == "/proc/pagetypeinfo" {
            return self.read_types(line, types);
        }
        if path == "/proc/meminfo" {
            let (name, rest) = line.split_once(':')?;
            let value = rest.split_whitespace().next()?.parse().ok()?;
            self.memory.insert(name.to_owned(), value);
            return Some(());
        }
        let Some(events) = path.strip_suffix("/hist") else {
            let (name, value) = line.split_once(' ')?;
            self.counters.insert(name.to_owned(), value.parse().ok()?);
            return Some(());
        };
        if !line.starts_with('{') {
            return Some(());
        }
        let (keys, count) = line.strip_prefix('{')?.split_once('}')?;
        let count = count
            .trim()
            .strip_prefix("hitcount:")?
            .trim()
            .parse()
            .ok()?;
        let key = |name: &str| -> Option<u64> {
            let mut pairs = keys.split(',').filter_map(|pair| pair.split_once(':'));
            let (_, value) = pairs.find(|(key, _)| key.trim() == name)?;
            value.trim().parse().ok()
        };
        if events.ends_with("mm_page_alloc_extfrag") {
            self.fallbacks.push(FallbackEvents {
                order: key("alloc_order")?,
                taken: key("fallback_order")?,
                mobility: key("alloc_migratetype")?,
                count,
            });
            return Some(());
        }
        let of = match events.ends_with("mm_vmscan_direct_reclaim_begin") {
            true => &mut self.reclaims,
            false => &mut self.compactions,
        };
        *of.entry(key("order")?).or_default() += count;
        Some(())
    }

    /// A line of `/proc/pagetypeinfo`; zones are added.
    fn read_types(&mut self, line: &str, types: &mut Vec<String>) -> Option<()> {
        if let Some(names) = line.strip_prefix("Number of blocks type") {
            *types = names.split_whitespace().map(str::to_owned).collect();
            return Some(());
        }
        let Some(rest) = line.strip_prefix("Node") else {
            return Some(());
        };
        let numbers = |text: &str| -> Option<Vec<u64>> {
            // Linux stops to count at so many.
            let number = |word: &str| word.trim_start_matches('>').parse().ok();
            text.split_whitespace().map(number).collect()
        };
        if let Some((_, of_type)) = rest.split_once(", type") {
            let (name, counts) = of_type.trim_start().split_once(' ')?;
            let counts = numbers(counts)?;
            let sums = self.free.entry(name.to_owned()).or_default();
            sums.resize(counts.len().max(sums.len()), 0);
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum += count;
            }
            return Some(());
        }
        let (_, of_zone) = rest.split_once("zone")?;
        let (_, counts) = of_zone.trim_start().split_once(' ')?;
        let counts = numbers(counts)?;
        if counts.len() != types.len() {
            return None;
        }
        for (name, count) in types.iter().zip(counts) {
            *self.pageblocks.entry(name.clone()).or_default() += count;
        }
        Some(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A console of two rounds, shortened: of each file the lines that are read.
    pub(in super::super) const CONSOLE: &str =
        include_str!("../../../linux/fallback/phone.console");

    #[test]
    fn a_recorded_console_is_read() {
        let points = points(CONSOLE).unwrap();
        assert_eq!(points.len(), 3);
        for point in &points {
            let free: Vec<&String> = point.free.keys().collect();
            assert_eq!(free, ["HighAtomic", "Movable", "Reclaimable", "Unmovable"]);
            assert!(point.free.values().all(|counts| counts.len() == 11));
            // 400 MiB in pageblocks of 4 MiB.
            assert_eq!(point.pageblocks.values().sum::<u64>(), 100);
        }
        let last = &points[2];
        // The histogram counts what the counter counts.
        let counted: u64 = last
            .counters
            .iter()
            .filter(|(name, _)| name.starts_with("allocstall_"))
            .map(|(_, count)| count)
            .sum();
        assert_eq!(last.reclaims.values().sum::<u64>(), counted);
        assert!(counted > 0 && last.compactions.values().sum::<u64>() > 0);
        assert!(
            last.fallbacks
                .iter()
                .all(|events| events.taken >= events.order)
        );
        assert!(last.memory["MemFree"] < last.memory["MemTotal"]);
    }

    /// Wherever a console is cut off, it is no outcome; only the last line may lack its end.
    #[test]
    fn a_console_that_is_cut_off_is_refused() {
        let end = CONSOLE.find("phone: passed").unwrap() + "phone: passed".len();
        let cuts = CONSOLE.match_indices('\n').map(|(at, _)| at);
        for cut in cuts.filter(|cut| *cut < end).chain([end - 1]) {
            assert!(points(&CONSOLE[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn what_does_not_belong_there_is_refused() {
        let refused = |from: &str, to: &str| {
            assert!(CONSOLE.contains(from), "{from}");
            points(&CONSOLE.replacen(from, to, 1)).unwrap_err()
        };
        assert_eq!(refused("== end 1", "== end 2"), "`== end 2` is out of turn");
        assert_eq!(
            refused("== point 1", "== point 2"),
            "`== point 2` is out of turn"
        );
        assert!(refused("compact_stall ", "compact_stal ").contains("is not whole"));
        assert!(refused("compact_stall ", "compact_stall x").contains("was not understood"));
        assert!(refused("type    Unmovable", "type    Other").contains("is not whole"));
        assert!(refused("} hitcount:", "} hits:").contains("was not understood"));
        let said = refused(
            "== point 1",
            "[    9.5] Kernel panic - not syncing: no memory\n== point 1",
        );
        assert_eq!(said, "Linux says: Kernel panic - not syncing: no memory");
        let said = refused("== point 1", "phone: fork: no memory\n== point 1");
        assert_eq!(said, "the load says: fork: no memory");
    }

    /// What Linux says between two lines of a file is no line of it.
    #[test]
    fn a_line_of_linuxs_within_a_file_changes_nothing() {
        let with = CONSOLE.replacen("compact_stall ", "[    9.5] something 7\ncompact_stall ", 1);
        assert_eq!(points(&with), points(CONSOLE));
    }
}
