//! The third document's own figures.

use super::metrics as m;
use crate::experiment::{BEFORE, PROPOSED};
use crate::measure::Metric;
use crate::report::{Figure, FigureSource};

/// D. Chinner's two profiles, in the commit that the message quotes: percent of all CPU time of a
/// machine under a file system's load, before and after, in the allocation of shadow buffers and in
/// copying. After, the allocation is a kmalloc and a vmalloc.
const KVMALLOC_PERCENT: [(&str, f64, f64); 2] =
    [(BEFORE, 31.62, 13.73), (PROPOSED, 8.45 + 5.72, 16.01)];

/// What else the profiles name: percent below the allocation in compaction and in reclaim (before), in spinlocks, and in
/// kvfree. The spinlocks are the sums of what stands below `kvmalloc_node`, and below `__kmalloc` and `vmalloc`.
const PARTS: [(&str, Metric, f64); 6] = [
    (BEFORE, m::COMPACT_SHARE, 18.35),
    (BEFORE, m::RECLAIM_SHARE, 3.24),
    (BEFORE, m::LOCK_WAIT_SHARE, 0.59 + 1.03 + 3.66 + 0.69),
    (PROPOSED, m::LOCK_WAIT_SHARE, 0.94 + 2.43 + 2.52 + 1.46),
    (BEFORE, m::KVFREE_SHARE, 2.22),
    (PROPOSED, m::KVFREE_SHARE, 4.66),
];

/// What the message says of both: CPU time of an allocation about a fifth, commits more than twice.
const KVMALLOC_STATED: [(Metric, f64); 2] = [
    (m::COMMITS_VS_BEFORE, 2.0),
    (m::KVMALLOC_CPU_VS_BEFORE, 0.2),
];

/// The third document's figures, as those of that case.
pub(super) fn figures(case: &str) -> Vec<Figure> {
    let figure = |variant, metric, value| Figure {
        case: case.to_owned(),
        variant,
        metric,
        value,
        source: FigureSource::Published,
    };
    let mut figures = Vec::new();
    for (variant, kvmalloc, copy) in KVMALLOC_PERCENT {
        figures.extend([
            figure(variant, m::KVMALLOC_SHARE, kvmalloc / 100.0),
            figure(variant, m::COPY_SHARE, copy / 100.0),
            figure(variant, m::KVMALLOC_VS_COPY, kvmalloc / copy),
        ]);
    }
    let parts = PARTS.map(|(variant, metric, percent)| figure(variant, metric, percent / 100.0));
    figures.extend(parts);
    let stated = KVMALLOC_STATED.map(|(metric, value)| figure(PROPOSED, metric, value));
    figures.extend(stated);
    figures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::published::{rows, shared};

    #[test]
    fn the_third_documents_figures_are_those_of_its_table() {
        let Some(text) = shared("kvmalloc.csv") else {
            return;
        };
        let percent = |function: &str, column: usize| -> f64 {
            let row = rows(&text).find(|row| row[0] == function).unwrap();
            row[column].parse().unwrap()
        };
        let [before, proposed] = KVMALLOC_PERCENT;
        assert_eq!(before.1, percent("kvmalloc_node", 1));
        assert_eq!(proposed.1, percent("kmalloc", 2) + percent("vmalloc", 2));
        assert_eq!(
            [before.2, proposed.2],
            [1, 2].map(|column| percent("memcpy", column))
        );
        assert_eq!(PARTS[0].2, percent("kmalloc_slowpath_compaction", 1));
    }
}
