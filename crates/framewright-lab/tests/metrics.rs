//! Every metric has a name of its own, and `docs/metrics.md` shows its row as the tables have it.
#![cfg(target_os = "linux")]

use framewright::stats::ReclaimStats;
use framewright_lab::experiment::fallback;
use framewright_lab::measure::metric::{all_metrics, metric_named};
use framewright_lab::measure::replay;
use framewright_lab::report::{metric_tables, metrics_page};
use std::collections::BTreeSet;

#[test]
fn every_metric_has_a_name_of_its_own() {
    for table in metric_tables() {
        let names: BTreeSet<String> = all_metrics(table).map(|metric| metric.name()).collect();
        assert_eq!(names.len(), all_metrics(table).count(), "{}", table.0);
        for metric in all_metrics(table) {
            assert_eq!(metric_named(table, &metric.name()), Some(metric));
        }
    }
}

#[test]
fn every_counter_of_reclaim_is_a_metric() {
    for table in [replay::TABLE, fallback::metrics::TABLE] {
        for (name, _) in ReclaimStats::default().named() {
            assert!(metric_named(table, name).is_some(), "{}: {name}", table.0);
        }
    }
}

#[test]
fn the_document_has_every_row_as_the_tables_have_it() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let page = std::fs::read_to_string(path).unwrap();
    let made = metrics_page(&page).unwrap();
    let hint = "`cargo run -p framewright-lab --example metrics_page` makes the tables anew";
    assert!(page == made, "{hint}");
}

#[test]
fn a_marker_that_names_nothing_and_a_part_without_one_are_errors() {
    let error = metrics_page("<!-- metrics: replay, noise -->\n<!-- end -->\n").unwrap_err();
    assert!(error.contains("names no part"), "{error}");
    let error = metrics_page("<!-- metrics: replay, memory -->\n").unwrap_err();
    assert!(error.contains("has no end"), "{error}");
    let error = metrics_page("no marker\n").unwrap_err();
    assert_eq!(error, "nothing shows replay, memory");
}
