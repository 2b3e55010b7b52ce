//! The main job's text and its page say the same, on a trace that is small enough for an unoptimised build.

use super::outputs::JobPage;
use super::*;
use crate::cmd::input::{load, sample as carried};
use crate::report::html::tests::{check, has_rows};
use crate::report::{Item, Tabled};
use crate::trace::OpKind;

fn tables(section: &Section) -> Vec<&Tabled> {
    fn table(item: &Item) -> Option<&Tabled> {
        match item {
            Item::Table(tabled) => Some(tabled),
            _ => None,
        }
    }
    section.items.iter().filter_map(table).collect()
}

/// The page of these sections, which has every row that their text has.
fn page(sections: Vec<Section>) -> String {
    let page = HtmlPage {
        title: "t".into(),
        lead: LEAD.into(),
        info: info(Size::Quick),
        sections,
    };
    let text = page.render().unwrap();
    let parsed = check(&text);
    for tabled in page.sections.iter().flat_map(tables) {
        has_rows(&parsed, &tabled.grid);
    }
    text
}

#[test]
fn the_introduction_says_what_the_sample_is() {
    let trace = carried().unwrap().trace;
    let free = trace.nframes - trace.init.len() as u64;
    let squeeze = sample::SQUEEZE;
    assert!(
        squeeze < free / 4 && squeeze > free / 6,
        "a fifth of {free}"
    );
    let ticks = trace.ops.iter().filter(|op| op.kind() == OpKind::Tick);
    let ms: u64 = ticks.map(|op| u64::from(op.value)).sum();
    assert_eq!(ms / 100, 14, "1.4 seconds");
    assert_eq!(
        trace.nframes >> 18,
        5,
        "6 GiB, rounded: {} frames",
        trace.nframes
    );
}

/// On a small trace: the sample takes seconds even when optimised.
#[test]
fn every_policy_is_shown_from_three_starts_and_a_map_of_the_last() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../traces/fork-storm.ftrace.gz"
    );
    let loaded = load(path.as_ref(), None, crate::trace::MemoryLimit::default()).unwrap();
    let part = sample::part(&loaded, 2).unwrap();
    let records = String::from_utf8(part.records).unwrap();
    assert!(records.starts_with(r#"{"experiment":"replay","version""#));
    assert!(
        records.contains(r#""case":"fork-storm.ftrace.gz/fresh/b40000","variant":"concentrated""#)
    );
    let mut section = part.section;
    let text = section.text();
    for case in ["imposed/b0", "fresh/b0", "fresh/b40000"] {
        assert!(
            text.contains(&format!("\nfork-storm.ftrace.gz/{case}: 15175 operations")),
            "{case}"
        );
    }
    assert_eq!(
        text.matches("concentrated against the best of 5 others")
            .count(),
        3
    );
    assert_eq!(text.matches("model error: ").count(), 3);
    assert_eq!(text.matches("For\nyour own machine: ").count(), 1);
    let maps = |item: &&Item| matches!(item, Item::Map(_));
    assert_eq!(section.items.iter().filter(maps).count(), 1);
    // Its page, but for the wall time that a replay took, is the same each time.
    let replay_ns = |tabled: &mut Tabled| tabled.grid.rows.retain(|row| row.unit != "ns");
    let without_times = |section: &mut Section| {
        for item in &mut section.items {
            if let Item::Table(tabled) = item {
                replay_ns(tabled);
            }
        }
    };
    let mut again = sample::part(&loaded, 1).unwrap().section;
    without_times(&mut section);
    without_times(&mut again);
    assert_eq!(page(vec![section]), page(vec![again]));
}

#[cfg(all(target_os = "linux", feature = "experiments"))]
mod of_experiments {
    use super::*;
    use crate::cmd::runner::section_of;
    use crate::experiment::fallback::{FallbackExperiment, LifeSpan};
    use crate::experiment::gcma::{BesideRequests, GcmaExperiment};
    use crate::experiment::kvmalloc::{Kvmalloc, ObjectSize};
    use crate::experiment::va_fit::{FitCase, VaFit};
    use crate::experiment::vmap_blocks::{Scenario, VmapBlocks};
    use crate::experiment::{Detail, Experiment, Mapper};

    /// The quick form of the plans, as little of it as there can be.
    fn tiny<E: Experiment>(change: impl Fn(&mut E)) -> JobPart {
        let mut plans = E::sized(Size::Quick);
        plans.iter_mut().for_each(change);
        let (section, records) = section_of(&plans, Detail::Short).unwrap();
        JobPart { section, records }
    }

    /// Its records are as many runs of its experiment, each with what it was run with and figures behind it.
    fn has_records(part: &JobPart, runs: usize) {
        let text = std::str::from_utf8(&part.records).unwrap();
        let records = text.lines().map(|line| serde_json::from_str(line).unwrap());
        let records: Vec<serde_json::Value> = records.collect();
        assert!(records.iter().all(|r| r["experiment"] == part.section.id));
        let heads = records.iter().filter(|r| r["options"].is_object());
        assert_eq!(heads.count(), runs);
        assert!(records[0]["machine"].is_object());
        let is_figure = |r: &serde_json::Value| r["value"].is_number() && r["metric"].is_string();
        assert!(is_figure(&records[1]) && is_figure(records.last().unwrap()));
    }

    fn has(section: Section, rows: &[&str], plots: usize) {
        let text = section.text();
        for row in rows {
            assert!(text.contains(row), "{row} is missing:\n{text}");
        }
        assert!(!section.summary.is_empty());
        // Its card says one of its sentences, with a plot of its own.
        let [card] = &section.cards[..] else {
            panic!("{}: {} cards", section.id, section.cards.len());
        };
        assert!(section.summary.contains(&card.verdict), "{card:?}");
        assert!(card.plot.as_ref().is_some_and(Item::is_plot), "{card:?}");
        let is_plot = |item: &&Item| matches!(item, Item::Latency(_) | Item::OverTime(_));
        let drawn = section.items.iter().filter(is_plot).count();
        assert_eq!(drawn, plots, "{} has other plots", section.id);
        page(vec![section]);
    }

    #[test]
    fn virtual_ranges_are_shown_with_their_latencies() {
        let rows = ["exhaust", "va_span_bytes"];
        let part = tiny(|plan: &mut VmapBlocks| {
            plan.scenarios = vec![Scenario::Exhaust];
            plan.options.mapper = Mapper::Null;
        });
        // The quick form has two plans.
        has_records(&part, 2);
        let section = part.section;
        let told = section.summary[0].clone();
        assert!(
            told.starts_with(
                "Reproduced: of the document's 4 counts of blocks (exhaust) 4 come out"
            ),
            "{told}"
        );
        let last = section.summary.last().unwrap();
        assert!(
            last.contains("cuts 10 blocks where the proposal cuts 993"),
            "{last}"
        );
        has(section, &rows, 2);
        let part = tiny(|plan: &mut VaFit| {
            plan.cases = vec![
                FitCase::FullFit,
                FitCase::LongBusyList,
                FitCase::AlignedHoles,
            ];
            (plan.options.loops, plan.options.repeat) = (Some(100), 1);
        });
        has_records(&part, 2);
        let section = part.section;
        assert!(
            !section.text().contains("alloc_ns_p50"),
            "the quick form is short"
        );
        assert!(
            section.summary[0].contains("eproduced: long_busy_list, the search alone: "),
            "{:?}",
            section.summary
        );
        assert!(
            section.summary[0].contains("0.27 (i5-3320M) and 0.08 (HiKey960)"),
            "{:?}",
            section.summary
        );
        has(
            section,
            &["mapper null", "mapper host", "full_fit", "served"],
            4,
        );
    }

    #[test]
    fn kvmalloc_is_shown_with_both_mappers() {
        let part = tiny(|plan: &mut Kvmalloc| {
            plan.options.seconds = 0.02;
            plan.options.memory_bytes = 32 << 20;
            plan.objects = vec![ObjectSize::Bytes(16 << 10)];
        });
        has_records(&part, 2);
        let section = part.section;
        assert!(
            !section.text().contains("kvmalloc_ns_p50"),
            "the quick form is short"
        );
        for line in [
            "eproduced: threads/2/object/16384, mapper null: a call of the proposal takes",
            "framewright, unmapping",
        ] {
            let said = section.summary.iter().filter(|said| said.contains(line));
            assert!(said.count() > 0, "{line}: {:?}", section.summary);
        }
        let rows = [
            "mapper null",
            "mapper host",
            "commits_per_s",
            "kvmalloc_share",
            "allocstall",
        ];
        has(section, &rows, 2);
    }

    #[test]
    fn contiguous_memory_is_shown_by_size() {
        let part = tiny(|GcmaExperiment(options)| {
            options.requests = 3;
            (options.ram_bytes, options.reserve_bytes) = (40 << 20, 16 << 20);
            // The build is tested with the command; here it would take most of the time.
            options.background = BesideRequests::Guest;
        });
        has_records(&part, 1);
        let section = part.section;
        let text = section.text();
        for column in [
            "published",
            "before",
            "proposed",
            "(cma)",
            "(gcma)",
            "gcma.zram",
        ] {
            assert!(text.contains(column), "{column} is missing:\n{text}");
        }
        assert!(
            text.contains("4 of the document's 8 sizes are not shown"),
            "{text}"
        );
        assert!(!text.contains("original"), "there is no build:\n{text}");
        // The longest and the mean by size, and the distribution of each size.
        has(section, &["latency_us_max", "failures", "2048"], 2 + 4);
    }

    #[test]
    fn the_phone_is_shown_on_every_kernel() {
        let part = tiny(|plan: &mut FallbackExperiment| {
            plan.span = LifeSpan {
                days_milli: 1,
                every_s: Some(10),
            };
            plan.threads = 2;
        });
        has_records(&part, 1);
        let section = part.section;
        let text = section.text();
        for row in [
            "blocks_movable",
            "mixed_pageblocks_mean",
            "allocstall_order_2",
        ] {
            let line = text.lines().find(|line| line.contains(row)).unwrap();
            assert!(
                !line.trim_end().ends_with('-'),
                "{row} of framewright: {line}"
            );
        }
        assert!(
            !text.contains("compact_isolated"),
            "the quick form is short"
        );
        has(section, &["published: counts of 2.5 days"], 3);
    }

    #[test]
    fn the_full_size_is_the_documents() {
        let lives = FallbackExperiment::sized(Size::Full);
        assert!(lives.iter().all(|plan| plan.span.days_milli == 2500));
        let fits = VaFit::sized(Size::Full);
        assert!(fits.iter().all(|plan| plan.options.loops.is_none()));
        for size in [Size::Full, Size::Quick] {
            let blocks = VmapBlocks::sized(size);
            let has_loops = blocks.iter().any(|plan| plan.options.loops.is_some());
            assert!(!has_loops, "its counts depend on it");
        }
    }
}

#[test]
fn a_page_goes_where_it_is_wanted_or_into_a_folder_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let in_temporary = folder.path();
    let said = |args: &JobOutputs, temporary: &std::path::Path| match args.places_in(temporary) {
        Err(CommandError::Input(said) | CommandError::Assertion(said)) => said,
        Ok(places) => panic!("{places:?}"),
    };
    let default = JobOutputs::default();
    let (page, json) = default.places_in(in_temporary).unwrap();
    let page = page.unwrap();
    assert_eq!(
        (&page, json),
        (&JobPage::Temporary(in_temporary.to_owned()), None)
    );
    assert_eq!(
        std::fs::read_dir(in_temporary).unwrap().count(),
        0,
        "not before the end"
    );
    let (first, second) = (page.path().unwrap(), page.path().unwrap());
    assert!(first != second && first.starts_with(in_temporary));
    assert!(first.parent().unwrap().is_dir());
    let nowhere = folder.path().join("none");
    assert!(said(&default, &nowhere).contains("--no-html writes none"));
    let path = folder.path().join("mine.html");
    let named = JobOutputs::of(Some(&path), None);
    let (page, _) = named.places_in(&nowhere).unwrap();
    assert_eq!(page, Some(JobPage::Named(path.clone())));
    let lost = JobOutputs::of(Some(&nowhere.join("a.html")), None);
    assert!(said(&lost, in_temporary).contains("a.html: cannot write: "));
    let stdout = JobOutputs::of(Some("-".as_ref()), None);
    assert!(said(&stdout, in_temporary).contains("expected a file's name"));
    // Figures and page have a place each.
    let both = JobOutputs::of(Some(&path), Some(&path));
    let error = said(&both, in_temporary);
    assert!(
        error.contains("mine.html: --json and --html want the same file"),
        "{error}"
    );
    let lost = JobOutputs::of(None, Some(&nowhere.join("a")));
    assert!(said(&lost, in_temporary).contains("cannot write: "));
}
