//! What was reproduced, by how much it differs from the publication, and why: a line each.

use crate::cmd::fallback::PUBLISHED_DAYS_MILLI;
use crate::experiment::fallback::Span;
use crate::experiment::range_metrics as m;
use crate::experiment::{BEFORE, FRAMEWRIGHT, Mapper, PROPOSED};
use crate::experiment::{fallback::metrics as phone, kvmalloc::metrics as kv};
use crate::measure::Metric;
use crate::report::{Figure, Source};

/// A figure's value: the document's or ours.
pub(super) fn value(
    figures: &[Figure],
    case: &str,
    variant: &str,
    metric: Metric,
    is_published: bool,
) -> Option<f64> {
    let found = figures.iter().find(|figure| {
        figure.case == case
            && figure.variant == variant
            && figure.metric == metric
            && (figure.source == Source::Published) == is_published
    });
    found.map(|figure| figure.value)
}

/// The cases, in their order.
pub(super) fn cases(figures: &[Figure]) -> Vec<&str> {
    let mut cases: Vec<&str> = Vec::new();
    for figure in figures {
        if !cases.contains(&figure.case.as_str()) {
            cases.push(&figure.case);
        }
    }
    cases
}

/// `vmap-blocks`: counts, which must come out.
pub(super) fn blocks(figures: &[Figure]) -> Vec<String> {
    let (mut same, mut all, mut off) = (0, 0, 0.0_f64);
    let mut ours = Vec::new();
    for case in cases(figures) {
        for variant in [BEFORE, PROPOSED] {
            for metric in [m::AREA_ALLOCS, m::BLOCK_FREES] {
                let of = |published| value(figures, case, variant, metric, published);
                let (Some(theirs), Some(own)) = (of(true), of(false)) else {
                    continue;
                };
                all += 1;
                if theirs == own {
                    same += 1;
                } else {
                    off = off.max((own - theirs).abs() / theirs.max(1.0));
                }
            }
        }
        let of = |variant| value(figures, case, variant, m::AREA_ALLOCS, false);
        if let (Some(proposed), Some(own)) = (of(PROPOSED), of(FRAMEWRIGHT)) {
            ours.push(format!("{case} {own} instead of {proposed}"));
        }
    }
    vec![format!(
        "reproduced: {same} of {all} published counts come out exactly, the others within {:.0} % (the document does not \
         give its random sequence); its times have the probes of ftrace in them and are not compared. framewright cuts \
         fewer areas than the proposal: {}.",
        (off * 100.0).ceil(),
        ours.join(", ")
    )]
}

/// `va-fit`: how much of `before`'s time is left.
pub(super) fn fits(figures: &[Figure], mapper: Mapper) -> Vec<String> {
    let left = |case: &str, variant: &str, published| {
        value(figures, case, variant, m::TIME_VS_BEFORE, published)
    };
    let mut compared = Vec::new();
    let mut ours = Vec::new();
    for case in cases(figures) {
        let (Some(theirs), Some(own)) = (left(case, PROPOSED, true), left(case, PROPOSED, false))
        else {
            continue;
        };
        compared.push(format!(
            "{case} {} ({theirs:.2})",
            m::TIME_VS_BEFORE.shown(own)
        ));
        if let Some(own) = left(case, FRAMEWRIGHT, false) {
            ours.push(format!("{case} {}", m::TIME_VS_BEFORE.shown(own)));
        }
    }
    if compared.is_empty() {
        return Vec::new();
    }
    let why = match mapper {
        Mapper::Null => {
            "its tests have frames and page tables in their times, here is the search alone, so the long list \
             weighs more"
        }
        Mapper::Host => "mapping, by mmap, costs both the same and hides what a search costs",
    };
    let how = match mapper {
        Mapper::Null => "",
        Mapper::Host => ", which keeps areas as they stand for the next of their length",
    };
    vec![format!(
        "mapper {}: of before's time the proposal takes, beside the published share: {}; {why}. framewright{how}: {}.",
        mapper.name(),
        compared.join(", "),
        ours.join(", ")
    )]
}

/// `kvmalloc`: CPU time of a call, and commits.
pub(super) fn kv(figures: &[Figure], mapper: Mapper) -> Vec<String> {
    let line = |case| {
        let of = |variant, metric, published| value(figures, case, variant, metric, published);
        let own = |variant| {
            Some((
                of(variant, kv::KVMALLOC_CPU_VS_BEFORE, false)?,
                of(variant, kv::COMMITS_VS_BEFORE, false)?,
            ))
        };
        let (cpu, commits) = own(PROPOSED)?;
        let (our_cpu, our_commits) = own(FRAMEWRIGHT)?;
        let their_cpu = of(PROPOSED, kv::KVMALLOC_CPU_VS_BEFORE, true)?;
        let their_commits = of(PROPOSED, kv::COMMITS_VS_BEFORE, true)?;
        let why = match mapper {
            Mapper::Null => {
                "an attempt to compact looks at more pageblocks here than in the document's kernel, and two \
                 threads share their CPUs with other work"
            }
            Mapper::Host => {
                "mmap takes some twenty times what a kernel takes to map, and hides most of what compaction costs"
            }
        };
        Some(format!(
            "mapper {}: a call of the proposal takes {cpu:.2} of before's CPU time (published {their_cpu:.2}), commits \
             are {commits:.2} times before's (published: more than {their_commits:.0}); {why}. framewright: \
             {our_cpu:.3} and {our_commits:.2}.",
            mapper.name()
        ))
    };
    cases(figures).into_iter().filter_map(line).collect()
}

/// `fallback`: stalls of orders 2 and 3.
pub(super) fn pressure(figures: &[Figure], span: Span) -> Vec<String> {
    let line = |case| {
        let stalls = |variant, published| {
            let of = |order| {
                value(
                    figures,
                    case,
                    variant,
                    phone::ALLOCSTALL_ORDER.of(order),
                    published,
                )
            };
            Some(of(2)? + of(3)?)
        };
        let fewer = |before: f64, after: f64| match after {
            none if none < 1.0 => "none left".into(),
            some => format!("{:.0} times fewer", before / some),
        };
        let (before, proposed) = (stalls(BEFORE, false)?, stalls(PROPOSED, false)?);
        let ours = stalls(FRAMEWRIGHT, false)?;
        let published = fewer(stalls(BEFORE, true)?, stalls(PROPOSED, true)?);
        let why = if span.days_milli == PUBLISHED_DAYS_MILLI {
            "before was fitted to the document's column, the factor was not"
        } else {
            "this is an hour, not two and a half days: `framewright lab all --full` lives those"
        };
        Some(format!(
            "stalls of orders 2 and 3: {before:.0} before, {proposed:.0} proposed, {} (published: {published}); {why}. framewright: {ours:.0}.",
            fewer(before, proposed)
        ))
    };
    cases(figures).into_iter().filter_map(line).collect()
}
