//! A replay's series over time as CSV. Its columns stand here and not in a table of metrics.

use crate::measure::MAX_ORDER;
use crate::printable::csv_field;
use crate::replay::ReplayOutcome;
use framewright::Mobility;
use framewright::stats::ReclaimStats;
use std::fmt::Write;

/// Series over trace time, one row a point: `(case, outcome)` after `(case, outcome)`.
///
/// Failures and fallbacks are those so far; so are the counters of reclaim and compaction, which are
/// there if one of the outcomes has them.
#[must_use]
pub fn series_csv(runs: &[(&str, &ReplayOutcome)]) -> String {
    let mut text = String::from("case,variant,ms,free_frames,free_2m_blocks");
    for k in 1..=MAX_ORDER {
        let _ = write!(text, ",unusable_index_order{k}");
    }
    text.push_str(",contaminated_blocks,contaminated_blocks_floor,mixed_blocks");
    text.push_str(",movable_frames_in_mixed");
    for k in 0..=MAX_ORDER {
        let _ = write!(text, ",failures_order{k}");
    }
    for (wanted, taken) in pairs() {
        let name = |m: Mobility| m.name().to_lowercase();
        let _ = write!(text, ",fallbacks_{}_{}", name(wanted), name(taken));
    }
    let reclaims = runs.iter().any(|(_, outcome)| outcome.stalls.is_some());
    if reclaims {
        for k in 0..=MAX_ORDER {
            let _ = write!(text, ",allocstall_order{k}");
        }
        for (name, _) in ReclaimStats::default().named() {
            let _ = write!(text, ",{name}");
        }
    }
    text.push('\n');
    for (case, outcome) in runs {
        let case = csv_field(case);
        for point in &outcome.series {
            let s = &point.sample;
            let (free, free_2m) = (s.free_frames(), s.free_2m_blocks());
            let _ = write!(text, "{case},{},{},{free},{free_2m}", outcome.policy, s.ms);
            for k in 1..=MAX_ORDER {
                let _ = write!(text, ",{:.6}", s.unusable_index(k));
            }
            let _ = write!(
                text,
                ",{},{},{},{}",
                s.contaminated_blocks,
                s.contaminated_blocks_floor(),
                s.mixed_blocks,
                s.movable_frames_in_mixed
            );
            for count in point.failures {
                let _ = write!(text, ",{count}");
            }
            for (wanted, taken) in pairs() {
                let _ = write!(text, ",{}", point.fallbacks[wanted.index()][taken.index()]);
            }
            if reclaims {
                let counted = point.reclaim.unwrap_or_default();
                for stalls in &counted.allocstall[..=MAX_ORDER] {
                    let _ = write!(text, ",{stalls}");
                }
                for (_, count) in counted.named() {
                    let _ = write!(text, ",{count}");
                }
            }
            text.push('\n');
        }
    }
    text
}

/// The six pairs of different mobilities.
fn pairs() -> impl Iterator<Item = (Mobility, Mobility)> {
    Mobility::ALL
        .into_iter()
        .flat_map(|wanted| Mobility::ALL.map(|taken| (wanted, taken)))
        .filter(|(wanted, taken)| wanted != taken)
}
