//! What a sweep came to, as a reader sees it: for each recording and memory a table with the front marked, and on a page a
//! plot of each pair of costs.

use super::row::{CombinationKey, CombinationRow, CostRange};
use crate::measure::{Metric, replay as m};
use crate::report::html::HtmlPage;
use crate::report::{
    Grid, GridRow, Heading, Item, OverTime, PlotLine, PlotMark, RunInfo, Scale, Section, Tabled,
    accent, pareto_front,
};
use crate::size::shown_frames;

/// The costs of [`CombinationRow::costs`]: as headings, the metrics that they are shown as, and as axes.
const COSTS: [(&str, Metric, &str); 3] = [
    (
        "failures_\norder2+3",
        m::FAILURES.of(3),
        "failures of orders 2 and 3, above the least",
    ),
    (
        "contaminated_\nblocks",
        m::CONTAMINATED_BLOCKS,
        "contaminated blocks, above the least",
    ),
    (
        "unusable_\nindex_order9",
        m::UNUSABLE_INDEX.of(9),
        "unusable index of order 9, above the least",
    ),
];

/// The pairs of costs that are plotted.
const PAIRS: [[usize; 2]; 3] = [[0, 1], [0, 2], [1, 2]];

/// What a reader must know of a plot.
const READING: &str = "Each cross is a choice. Its middle is the median, and its arms reach from the least to the most that \
                       its replays came to, but are never too short to be seen. The choices on the front have their names \
                       beside them. The further left and down, the better. In these two costs no choice lies left of \
                       the steps or below them.";

/// A policy and settings, replayed in some orders.
struct SweepChoice {
    policy: String,
    /// With the settings in which the choices of a sweep differ.
    name: String,
    costs: Option<CostRange>,
    /// Whether no other choice has less of one cost and no more of the rest.
    is_on_front: bool,
}

/// The choices for one recording and memory.
pub(super) struct SweepGroup {
    title: String,
    choices: Vec<SweepChoice>,
}

impl SweepGroup {
    /// A group for each recording and memory, from rows in their order.
    pub(super) fn all(rows: &[&CombinationRow]) -> Vec<Self> {
        let place = |row: &CombinationRow| {
            let CombinationKey {
                trace,
                beside,
                squeeze,
                ..
            } = row.key.clone();
            (row.case.clone(), trace, beside, squeeze)
        };
        let has_several = |of: fn(&CombinationKey) -> &String| {
            rows.iter().any(|row| of(&row.key) != of(&rows[0].key))
        };
        let (starts, marks) = (
            has_several(|key| &key.start),
            has_several(|key| &key.watermarks),
        );
        let name = |key: &CombinationKey| {
            let mut name = key.variant.clone();
            if starts {
                name += &format!(", {}", key.start);
            }
            if marks {
                name += &format!(", watermarks {}", key.watermarks);
            }
            name
        };
        let groups = rows.chunk_by(|a, b| place(a) == place(b));
        let group = |rows: &[&CombinationRow]| {
            let choices = rows.chunk_by(|a, b| a.key.is_reordered(&b.key));
            let choice = |rows: &[&CombinationRow]| SweepChoice {
                policy: rows[0].key.variant.clone(),
                name: name(&rows[0].key),
                costs: CostRange::of(rows),
                is_on_front: false,
            };
            let mut choices: Vec<SweepChoice> = choices.map(choice).collect();
            let medians = choices.iter().map(|one| Some(one.costs.as_ref()?.median));
            let front = pareto_front(&medians.collect::<Vec<_>>());
            for (one, is_on_front) in choices.iter_mut().zip(front) {
                one.is_on_front = is_on_front;
            }
            Self {
                title: format!(
                    "{}, --squeeze {}",
                    rows[0].case,
                    shown_frames(rows[0].key.squeeze)
                ),
                choices,
            }
        };
        groups.map(group).collect()
    }

    /// A row a choice, with the median, and the least to the most where there are several orders; * for those on the front.
    pub(super) fn tabled(&self) -> Tabled {
        let row = |one: &SweepChoice| {
            let shown = |nth: usize| match &one.costs {
                None => "-".into(),
                Some(range) => range.shown(COSTS[nth].1, nth),
            };
            let mut cells: Vec<String> = (0..COSTS.len()).map(shown).collect();
            cells.push(if one.is_on_front { "*" } else { "" }.into());
            GridRow {
                labels: vec![one.name.clone()],
                unit: String::new(),
                cells,
            }
        };
        let titles = COSTS.iter().map(|(title, ..)| *title).chain(["front"]);
        let heading = |title: &str| Heading {
            title: title.into(),
            accent: None,
            is_published: false,
            is_base: false,
        };
        Tabled {
            caption: self.title.clone(),
            grid: Grid {
                labels: 1,
                headings: titles.map(heading).collect(),
                rows: self.choices.iter().map(row).collect(),
            },
            notes: Vec::new(),
        }
    }

    /// The choices by two costs, with the front that they have in these.
    fn plot(&self, pair: [usize; 2]) -> Option<OverTime> {
        let known = || {
            let choices = self.choices.iter();
            choices.filter_map(|one| Some((one, one.costs.as_ref()?)))
        };
        let least = |of: usize| known().map(move |(_, range)| range.least[of]);
        let low = pair.map(|of| least(of).fold(f64::INFINITY, f64::min));
        let most = |of: usize| known().map(move |(_, range)| range.most[of]);
        let high = pair.map(|of| most(of).fold(f64::NEG_INFINITY, f64::max));
        known().next()?;
        // Where all are alike, the axis has a length all the same.
        let span = [0, 1].map(|at: usize| match high[at] - low[at] {
            0.0 => 1.0,
            span => span,
        });
        let line = |name: String, accent, points, mark| PlotLine {
            name,
            accent,
            is_published: false,
            points,
            mark,
        };
        let crosses = known().map(|(one, range)| {
            let [x, y] = [0, 1].map(|at: usize| {
                let [median, least, most] =
                    [range.median, range.least, range.most].map(|costs| costs[pair[at]] - low[at]);
                let arm = span[at] * ARM_PART;
                [
                    median,
                    least.min(median - arm).max(0.0),
                    most.max(median + arm),
                ]
            });
            let cross = [
                (x[1], y[0]),
                (x[2], y[0]),
                (x[0], y[0]),
                (x[0], y[1]),
                (x[0], y[2]),
                (x[0], y[0]),
            ];
            let mark = PlotMark {
                at: (x[0], y[0]),
                is_named: one.is_on_front,
            };
            line(
                one.name.clone(),
                accent(&one.policy),
                cross.to_vec(),
                Some(mark),
            )
        });
        let medians: Vec<[f64; 2]> = known()
            .map(|(_, range)| [0, 1].map(|at: usize| range.median[pair[at]] - low[at]))
            .collect();
        let mut lines = vec![line("the front".into(), None, steps(&medians, span), None)];
        lines.extend(crosses);
        let [x, y] = pair.map(|of| COSTS[of].2);
        let [from_x, from_y] = [0, 1].map(|at: usize| COSTS[pair[at]].1.shown(low[at]));
        Some(OverTime {
            title: format!(
                "{}: {} against {}",
                self.title,
                plain(pair[0]),
                plain(pair[1])
            ),
            across: x,
            scale: Scale::Linear,
            value: y,
            lines,
            note: format!("{READING} The least are {from_x} and {from_y}."),
        })
    }

    fn section(&self, nth: usize) -> Section {
        let mut items = vec![Item::Table(self.tabled())];
        items.extend(
            PAIRS
                .into_iter()
                .filter_map(|pair| self.plot(pair))
                .map(Item::OverTime),
        );
        let on = self.choices.iter().filter(|one| one.is_on_front);
        let on: Vec<&str> = on.map(|one| one.name.as_str()).collect();
        Section {
            id: format!("choices-{nth}"),
            title: self.title.clone(),
            introduction: String::new(),
            cards: Vec::new(),
            items,
            method: METHOD,
            summary: vec![format!(
                "{}: {} of {} choices are on the front, where no other choice is better: {}.",
                self.title,
                on.len(),
                self.choices.len(),
                on.join("; ")
            )],
        }
    }
}

/// An arm of a cross is this part of its axis at least.
const ARM_PART: f64 = 1.0 / 80.0;

/// A cost's name in a title.
fn plain(of: usize) -> &'static str {
    ["failures", "contaminated blocks", "unusable index"][of]
}

/// The steps behind which there is no choice, from the top of the plot to its right edge.
fn steps(medians: &[[f64; 2]], top: [f64; 2]) -> Vec<(f64, f64)> {
    let costs: Vec<Option<[f64; 2]>> = medians.iter().copied().map(Some).collect();
    let on = medians.iter().zip(pareto_front(&costs));
    let mut front: Vec<[f64; 2]> = on
        .filter(|(_, is_on)| *is_on)
        .map(|(one, _)| *one)
        .collect();
    front.sort_by(|a, b| a[0].total_cmp(&b[0]));
    let mut points: Vec<(f64, f64)> = Vec::new();
    for [x, y] in front {
        let before = points.last().map_or(top[1], |last| last.1);
        points.extend([(x, before), (x, y)]);
    }
    let last = points.last().map(|last| (top[0], last.1));
    points.extend(last);
    points
}

/// How the figures of a page were taken.
const METHOD: &str = "\
Each choice is a policy with the settings named behind it, replayed on the recording as framewright replay does, once or in \
several orders of the same operations. Failures are those of requests that the recording machine served. A choice is on the \
front if no other one has less of one cost and no more of the rest.

docs/metrics.md in the repository has each formula.";

/// The page of a sweep.
pub(super) fn page(info: RunInfo, groups: &[SweepGroup]) -> HtmlPage {
    HtmlPage {
        title: "Which policy and setting no other one beats".into(),
        lead: "Recordings of what a kernel's page allocator was asked for, replayed under combinations of policies, memory \
               and settings, and held against each other by what they cost."
            .into(),
        info,
        sections: (1..)
            .zip(groups)
            .map(|(nth, group)| group.section(nth))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_go_from_the_top_along_the_front_to_the_right() {
        let top = [10.0, 8.0];
        // The last two are beaten; the front is taken from left to right.
        let medians = [[4.0, 1.0], [0.0, 6.0], [4.0, 2.0], [9.0, 7.0]];
        let expected = [(0.0, 8.0), (0.0, 6.0), (4.0, 6.0), (4.0, 1.0), (10.0, 1.0)];
        assert_eq!(steps(&medians, top), expected);
        assert!(steps(&[], top).is_empty());
    }

    #[test]
    fn a_cross_has_its_median_in_the_middle_and_its_range_in_its_arms() {
        let choice = |name: &str, all: &[[f64; 3]]| SweepChoice {
            policy: name.into(),
            name: name.into(),
            costs: CostRange::of_costs(all.to_vec()),
            is_on_front: false,
        };
        let group = SweepGroup {
            title: "t".into(),
            choices: vec![
                choice(
                    "linux-4.4",
                    &[[10.0, 5.0, 0.5], [12.0, 5.0, 0.5], [20.0, 9.0, 0.5]],
                ),
                choice("other", &[[30.0, 5.0, 0.5]]),
                choice("none", &[]),
            ],
        };
        let plot = group.plot([0, 1]).unwrap();
        let names: Vec<&str> = plot.lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["the front", "linux-4.4", "other"]);
        let marks = plot.lines.iter().map(|line| line.mark.map(|mark| mark.at));
        assert_eq!(
            marks.collect::<Vec<_>>(),
            [None, Some((2.0, 0.0)), Some((20.0, 0.0))]
        );
        assert!(
            plot.note.ends_with("The least are 10 and 5.0."),
            "{}",
            plot.note
        );
        // Of 20 failures a quarter is the least arm, and of 4 blocks a twentieth.
        let cross = &plot.lines[1].points;
        assert_eq!(cross[..2], [(0.0, 0.0), (10.0, 0.0)]);
        assert_eq!(cross[2..], [(2.0, 0.0), (2.0, 0.0), (2.0, 4.0), (2.0, 0.0)]);
        let cross = &plot.lines[2].points;
        assert_eq!(cross[..2], [(19.75, 0.0), (20.25, 0.0)]);
        assert_eq!(cross[4], (20.0, 0.05));
        // All alike in the last cost.
        assert!(
            group.plot([1, 2]).unwrap().lines[1]
                .points
                .iter()
                .all(|at| at.1 <= ARM_PART)
        );
        let empty = SweepGroup {
            title: "t".into(),
            choices: vec![choice("none", &[])],
        };
        assert!(empty.plot([0, 1]).is_none());
        assert_eq!(empty.section(1).items.len(), 1);
    }
}
