//! Figures of lives: as they are, in the middle of several seeds, and the document's beside them.

use super::metrics as m;
use super::{LifeJob, LifeOutcome, LifePoint, published};
use crate::measure::Metric;
use crate::measure::metric::{all_metrics, metric_named};
use crate::pressure::{LIST_NAMES, LISTS};
use crate::report::{Figure, FigureSource};
use framewright::Frame;
use std::fmt::Write;

/// KiB of a frame.
const FRAME_KIB: u64 = Frame::BYTES / 1024;

impl LifeOutcome {
    /// Frames on free lists.
    #[must_use]
    pub fn free_frames(&self) -> u64 {
        frames(&self.free_blocks)
    }

    /// Every metric's value.
    #[must_use]
    pub fn values(&self) -> Vec<(Metric, u64)> {
        let lived = &self.lived;
        let mut values: Vec<_> = indexed(m::BLOCKS, self.labels).collect();
        values.extend([
            (m::MIXED_PAGEBLOCKS, lived.mixed_pageblocks),
            (m::MIXED_PAGEBLOCKS_MEAN, lived.mixed_pageblocks_mean()),
            (m::MIXED_PAGEBLOCKS_MAX, lived.mixed_pageblocks_max()),
            (m::CONTAMINATED_PAGEBLOCKS, lived.contaminated_pageblocks),
            (
                m::CONTAMINATED_PAGEBLOCKS_MEAN,
                lived.contaminated_pageblocks_mean(),
            ),
        ]);
        for (list, free) in self.free_blocks.into_iter().enumerate() {
            let free = free.into_iter().enumerate();
            values.extend(free.map(|(order, free)| (m::FREE.of_two(list, order), free)));
        }
        values.extend([
            (m::MEM_FREE_KB, self.free_frames() * FRAME_KIB),
            (m::FILE_KB, lived.file_frames * FRAME_KIB),
            (m::ALLOCSTALL, self.stats.allocstalls()),
        ]);
        values.extend(indexed(m::ALLOCSTALL_ORDER, self.stats.allocstall));
        let counters = self.stats.named().into_iter();
        values.extend(
            counters.filter_map(|(name, count)| Some((metric_named(m::TABLE, name)?, count))),
        );
        values.extend([
            (m::KILLS, lived.kills),
            (m::OOM_KILLS, lived.oom_kills),
            (m::STARTS, lived.starts),
            (m::PAGES_MISSED, lived.pages_missed),
            (m::REQUESTS, lived.requests),
            (m::REFUSED, lived.refused),
            (m::FAILED, lived.failed),
        ]);
        values
    }
}

/// Each member of a family with its value.
fn indexed<const N: usize>(
    family: Metric,
    values: [u64; N],
) -> impl Iterator<Item = (Metric, u64)> {
    family.members().into_iter().zip(values)
}

fn frames(free_blocks: &[[u64; 11]; LISTS]) -> u64 {
    let of = |list: &[u64; 11]| -> u64 { (0..).zip(list).map(|(k, n): (u32, _)| n << k).sum() };
    free_blocks.iter().map(of).sum()
}

/// The case of a seed.
#[must_use]
pub fn case(seed: u64) -> String {
    format!("seed/{seed}")
}

/// The figures of each seed, behind the document's; in the order of the jobs.
#[must_use]
pub fn figures(jobs: &[LifeJob], outcomes: &[LifeOutcome]) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut seed = None;
    for (job, outcome) in jobs.iter().zip(outcomes) {
        if seed.replace(job.seed) != Some(job.seed) {
            figures.extend(published::figures(&case(job.seed)));
        }
        let name = job.policy.name();
        figures.extend(outcome.values().into_iter().map(|(metric, value)| Figure {
            case: case(job.seed),
            variant: name,
            metric,
            value: value as f64,
            source: FigureSource::Simulated,
        }));
    }
    figures
}

/// Of all seeds the middle value of each metric; of two in the middle the lower one.
#[must_use]
pub fn middles(figures: &[Figure], seeds: usize) -> Vec<Figure> {
    let case = format!("middle of {seeds}");
    let mut middles = published::figures(&case);
    let mut variants: Vec<&'static str> = Vec::new();
    let own = || {
        figures
            .iter()
            .filter(|f| f.source != FigureSource::Published)
    };
    for figure in own() {
        if !variants.contains(&figure.variant) {
            variants.push(figure.variant);
        }
    }
    for variant in variants {
        for metric in all_metrics(m::TABLE) {
            let of = |f: &&Figure| f.variant == variant && f.metric == metric;
            let mut values: Vec<f64> = own().filter(of).map(|f| f.value).collect();
            values.sort_by(f64::total_cmp);
            let Some(&value) = values.get(values.len().saturating_sub(1) / 2) else {
                continue;
            };
            middles.push(Figure {
                case: case.clone(),
                variant,
                metric,
                value,
                source: FigureSource::Simulated,
            });
        }
    }
    middles
}

/// The lives over virtual time, one row a point.
#[must_use]
pub fn series(jobs: &[LifeJob], outcomes: &[LifeOutcome]) -> String {
    let mut text = String::from("case,variant,awake_s");
    for list in LIST_NAMES {
        let _ = write!(text, ",blocks_{}", list.to_lowercase());
    }
    text += ",mixed_pageblocks,free_frames,file_frames,anon_frames,unmovable_frames,allocstall";
    for order in 0..4 {
        let _ = write!(text, ",allocstall_order_{order}");
    }
    text.push('\n');
    for (job, outcome) in jobs.iter().zip(outcomes) {
        for point in &outcome.points {
            let _ = write!(
                text,
                "{},{},{}",
                case(job.seed),
                job.policy.name(),
                point.awake_s
            );
            for value in values(point) {
                let _ = write!(text, ",{value}");
            }
            text.push('\n');
        }
    }
    text
}

/// What of a life is looked at over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    /// Free memory, in MiB.
    FreeMib,
    /// Pageblocks that hold movable frames and others.
    MixedPageblocks,
    /// Requests so far that reclaimed.
    Stalls,
}

impl LifeOutcome {
    /// Hours awake and values, where the life has points.
    #[must_use]
    pub fn course(&self, of: Course) -> Vec<(f64, f64)> {
        let value = |point: &LifePoint| match of {
            Course::FreeMib => frames(&point.free_blocks) * FRAME_KIB / 1024,
            Course::MixedPageblocks => point.lived.mixed_pageblocks,
            Course::Stalls => point.stalls.iter().sum(),
        };
        let point = |point: &LifePoint| (point.awake_s as f64 / 3600.0, value(point) as f64);
        self.points.iter().map(point).collect()
    }
}

fn values(point: &LifePoint) -> impl Iterator<Item = u64> {
    let LifePoint {
        labels,
        free_blocks,
        lived,
        stalls,
        ..
    } = *point;
    let more = [
        lived.mixed_pageblocks,
        frames(&free_blocks),
        lived.file_frames,
        lived.anon_frames,
        lived.unmovable_frames,
        stalls.iter().sum(),
    ];
    let by_order = stalls.into_iter().take(4);
    labels.into_iter().chain(more).chain(by_order)
}
