//! The holders in a dump of `page_owner`, as a reader sees them: a table by caller and one by command. It knows what was asked for
//! before the recording, too.

use super::who::{MORE, NO_CHAIN, NO_NAME, ROWS_MAX, shortened, shown_name};
use crate::measure::grouped;
use crate::replay::{caller_of, plain_function};
use crate::report::{Grid, GridRow, Heading, Note, Tabled};
use crate::trace::state::{OwnedFrames, OwnerStack, PageOwners};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A name, and what it holds.
type OwnerRow = (String, OwnedFrames);

/// The holders in a dump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnersReport {
    has_blocks: bool,
    stray_lines: u64,
    /// By caller and by command, the largest holder first.
    tables: [(&'static str, Vec<OwnerRow>); 2],
}

impl OwnersReport {
    /// Of a dump.
    #[must_use]
    pub fn new(owners: &PageOwners) -> Self {
        let caller = |(_, chain): &OwnerStack| {
            let names = chain.iter().map(|name| name.as_bytes());
            caller_of(names).map_or_else(
                || NO_CHAIN.to_owned(),
                |name| shown_name(plain_function(name)),
            )
        };
        let command = |(comm, _): &OwnerStack| match comm.as_str() {
            "" => NO_NAME.to_owned(),
            comm => shown_name(comm.as_bytes()),
        };
        let has_blocks = owners.has_blocks;
        Self {
            has_blocks,
            stray_lines: owners.stray_lines,
            tables: [
                ("caller", rows(owners, caller)),
                ("command", rows(owners, command)),
            ],
        }
    }

    /// The caller that holds the most of what is in the way, its frames and those of all; `None` where the dump has no
    /// pageblocks, or nothing that has a caller is in the way.
    #[must_use]
    pub fn most(&self) -> Option<(&str, u64, u64)> {
        let (_, rows) = &self.tables[0];
        let (who, most) = rows.iter().find(|(who, _)| who != NO_CHAIN)?;
        let all = rows.iter().map(|(_, frames)| frames.fixed_in_mixed).sum();
        (most.fixed_in_mixed > 0).then_some((who, most.fixed_in_mixed, all))
    }

    /// The rows of the tables: what they are by, a name, and its fixed frames in mixed pageblocks; none of a sorted dump.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, String, u64)> {
        let tables = self.tables.iter().filter(|_| self.has_blocks);
        tables.flat_map(|(by, rows)| {
            let shown = with_rest(rows).into_iter();
            shown.map(|(who, frames)| (*by, who, frames.fixed_in_mixed))
        })
    }

    /// As tables.
    #[must_use]
    pub fn tabled(&self, case: &str) -> Vec<Tabled> {
        let heading = |title: &str| Heading {
            title: title.to_owned(),
            accent: None,
            is_published: false,
            is_base: false,
        };
        let mixed = self.has_blocks.then_some("fixed in\nmixed");
        let headings: Vec<Heading> = mixed
            .into_iter()
            .chain(["fixed", "movable"])
            .map(heading)
            .collect();
        let cells = |frames: &OwnedFrames| -> Vec<String> {
            let mixed = self.has_blocks.then_some(frames.fixed_in_mixed);
            let all = mixed.into_iter().chain([frames.fixed, frames.movable]);
            all.map(|frames| grouped(frames as f64)).collect()
        };
        let table = |(by, rows): &(&str, Vec<OwnerRow>)| {
            let rows = with_rest(rows);
            let names = shortened(rows.iter().map(|(who, _)| who.as_str()));
            let row = |(name, (_, frames)): (String, &OwnerRow)| GridRow {
                labels: vec![name],
                unit: String::new(),
                cells: cells(frames),
            };
            Tabled {
                caption: format!("{case}: frames held, by {by}, as page_owner has them"),
                grid: Grid {
                    labels: 1,
                    headings: headings.clone(),
                    rows: names.into_iter().zip(&rows).map(row).collect(),
                },
                notes: Vec::new(),
            }
        };
        let mut tables: Vec<Tabled> = self.tables.iter().map(table).collect();
        if let Some(last) = tables.last_mut() {
            if !self.has_blocks {
                last.notes.push(Note::Text(
                    "a sorted dump has no pageblocks, so which frames are in the way is not known: give the dump itself".into(),
                ));
            }
            if self.stray_lines > 0 {
                last.notes.push(Note::Text(format!(
                    "{} of the dump belong to no block of frames and were passed over: a task's name may have a line's end",
                    match self.stray_lines {
                        1 => "one line".to_owned(),
                        lines => format!("{} lines", grouped(lines as f64)),
                    }
                )));
            }
        }
        tables
    }
}

/// The largest, and the sum of the others.
fn with_rest(rows: &[OwnerRow]) -> Vec<OwnerRow> {
    let (shown, rest) = rows.split_at(rows.len().min(ROWS_MAX));
    let mut shown = shown.to_vec();
    if !rest.is_empty() {
        let mut sum = OwnedFrames::default();
        rest.iter().for_each(|(_, frames)| sum.add(*frames));
        shown.push((format!("({}{MORE}", rest.len()), sum));
    }
    shown
}

fn rows(owners: &PageOwners, name: impl Fn(&OwnerStack) -> String) -> Vec<OwnerRow> {
    let mut named: BTreeMap<String, OwnedFrames> = BTreeMap::new();
    for (stack, frames) in &owners.stacks {
        named.entry(name(stack)).or_default().add(*frames);
    }
    let mut rows: Vec<OwnerRow> = named.into_iter().collect();
    // Stable: those alike stay in the order of their names.
    rows.sort_by_key(|(_, frames)| Reverse((frames.fixed_in_mixed, frames.fixed, frames.movable)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners(has_blocks: bool, all: &[(&str, &[&str], u64, u64)]) -> OwnersReport {
        let stacks = all.iter().map(|&(comm, chain, fixed, fixed_in_mixed)| {
            let chain = chain.iter().map(|&name| name.to_owned()).collect();
            let frames = OwnedFrames {
                fixed,
                fixed_in_mixed,
                movable: 1,
            };
            ((comm.to_owned(), chain), frames)
        });
        OwnersReport::new(&PageOwners {
            stacks: stacks.collect(),
            has_blocks,
            stray_lines: 3,
        })
    }

    #[test]
    fn chains_are_summed_by_the_function_that_is_no_allocators_and_named_safely() {
        let report = owners(
            true,
            &[
                (
                    "cc1",
                    &[
                        "post_alloc_hook",
                        "get_page_from_freelist",
                        "alloc_pages_noprof",
                        "__alloc_skb",
                        "a",
                    ],
                    8,
                    5,
                ),
                ("ld", &["alloc_pages_noprof", "__alloc_skb", "b"], 4, 2),
                ("\u{1b}[2J", &["new_inode"], 9, 6),
                ("", &[], 1, 0),
            ],
        );
        assert_eq!(report.most(), Some(("__alloc_skb", 7, 13)));
        // What has no call chain is no caller.
        let unnamed = owners(true, &[("a", &[], 9, 9), ("b", &["new_inode"], 2, 1)]);
        assert_eq!(unnamed.most(), Some(("new_inode", 1, 10)));
        assert_eq!(owners(true, &[("a", &[], 9, 9)]).most(), None);
        let [callers, commands] = [0, 1].map(|at| report.tabled("t")[at].text());
        let row = |text: &str, name: &str| -> Vec<String> {
            let line = text
                .lines()
                .find(|line| line.trim_start().starts_with(name));
            let cells = line
                .unwrap_or_else(|| panic!("{name} is not in\n{text}"))
                .trim_start()[name.len()..]
                .split_whitespace();
            cells.map(str::to_owned).collect()
        };
        assert!(
            callers.starts_with("t: frames held, by caller, as page_owner has them"),
            "{callers}"
        );
        assert_eq!(row(&callers, "__alloc_skb"), ["7", "12", "2"]);
        assert_eq!(row(&callers, "(no call chain)"), ["0", "1", "1"]);
        assert_eq!(row(&commands, "(no name)"), ["0", "1", "1"]);
        assert!(
            !commands.contains('\u{1b}') && commands.contains("\\u{1b}[2J"),
            "{commands}"
        );
        assert!(callers.lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn a_sorted_dump_says_what_it_lacks_and_the_rest_is_summed() {
        let names: Vec<String> = (0..13).map(|nth| format!("f{nth:02}")).collect();
        let chains: Vec<[&str; 1]> = names.iter().map(|name| [name.as_str()]).collect();
        let all: Vec<(&str, &[&str], u64, u64)> = chains
            .iter()
            .map(|chain| ("cc1", &chain[..], 3, 0))
            .collect();
        let report = owners(false, &all);
        assert_eq!(report.most(), None);
        let tables = report.tabled("t");
        let callers = tables[0].text();
        assert!(callers.contains("(3 more)"), "{callers}");
        assert!(!callers.contains("mixed"), "{callers}");
        let notes = tables[1].text();
        assert!(notes.contains("a sorted dump has no pageblocks"), "{notes}");
        assert!(
            notes.contains("3 lines of the dump belong to no block"),
            "{notes}"
        );
    }
}
