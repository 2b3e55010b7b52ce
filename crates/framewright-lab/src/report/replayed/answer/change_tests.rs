//! What to change, of kernels that have this or that.

use super::super::kernel::*;
use super::super::tests;
use super::*;
use crate::replay::FailureLog;
use crate::trace::state::{VM_SETTINGS, read_settings};

const ALL: &str = "vm.min_free_kbytes 67584\nvm.watermark_scale_factor 10\nvm.watermark_boost_factor 15000\n\
                   vm.compaction_proactiveness 20\nvm.extfrag_threshold 500\nvm.defrag_mode 0\n";

fn set(text: &str) -> RecordedKernel {
    RecordedKernel {
        settings: Some(read_settings("s", text).unwrap()),
        ..RecordedKernel::default()
    }
}

fn release(version: (u32, u32)) -> RecordedKernel {
    RecordedKernel {
        version: Some(version),
        ..RecordedKernel::default()
    }
}

/// What is said of these failures under the rules of 6.12 in less memory.
fn changed(log: FailureLog, best: Option<ReplayPolicy>, kernel: &RecordedKernel) -> String {
    let figures = AnswerFigures {
        is_as_recorded: false,
        failed: log,
        kernel: kernel.clone(),
        ..tests::figures()
    };
    change(&figures, best, None).unwrap()
}

fn policy(name: &str) -> ReplayPolicy {
    name.parse().unwrap()
}

#[test]
fn aw4_a_setting_is_named_with_its_value_and_not_where_the_kernel_lacks_it() {
    let all = [MIN_FREE, SCALE, BOOST, PROACTIVENESS, EXTFRAG, DEFRAG];
    // A recording keeps all of them, by these names.
    assert_eq!(all.each_ref().map(|one| one.name), VM_SETTINGS);
    let tried = |kernel: &RecordedKernel| {
        let each: Vec<String> = all.iter().filter_map(|one| kernel.tried(one)).collect();
        each.join(", ")
    };
    assert_eq!(
        tried(&set(ALL)),
        "vm.min_free_kbytes from 67584 to 135168, vm.watermark_scale_factor from 10 to 20, vm.watermark_boost_factor from \
         15000 to 30000, vm.compaction_proactiveness from 20 to 40, vm.extfrag_threshold from 500 to 250, vm.defrag_mode \
         from 0 to 1"
    );
    // What is at its end is not named, and what is off begins with the kernel's own value.
    let ends = "vm.watermark_scale_factor 1000\nvm.watermark_boost_factor 0\nvm.compaction_proactiveness 100\n\
                vm.extfrag_threshold 0\nvm.defrag_mode 1\n";
    assert_eq!(
        tried(&set(ends)),
        "vm.watermark_boost_factor from 0 to 15000"
    );
    let near = "vm.watermark_scale_factor 700\nvm.watermark_boost_factor 90000\nvm.compaction_proactiveness 60\n";
    assert_eq!(
        tried(&set(near)),
        "vm.watermark_scale_factor from 700 to 1000, vm.watermark_boost_factor from 90000 to 100000, \
         vm.compaction_proactiveness from 60 to 100"
    );
    assert_eq!(
        tried(&set("vm.compaction_proactiveness 0\n")),
        "vm.compaction_proactiveness from 0 to 20"
    );
    // Without values the release tells.
    for (version, named) in [
        (
            (3, 10),
            "vm.min_free_kbytes higher, vm.extfrag_threshold lower",
        ),
        (
            (5, 4),
            "vm.min_free_kbytes higher, vm.watermark_scale_factor higher, vm.watermark_boost_factor higher, \
             vm.extfrag_threshold lower",
        ),
        (
            (6, 12),
            "vm.min_free_kbytes higher, vm.watermark_scale_factor higher, vm.watermark_boost_factor higher, \
             vm.compaction_proactiveness higher, vm.extfrag_threshold lower",
        ),
    ] {
        assert_eq!(tried(&release(version)), named);
    }
    assert!(tried(&release((6, 18))).ends_with(", vm.defrag_mode on"));
    // Where nothing tells, each is named with that.
    let unknown = RecordedKernel::default();
    for setting in &all {
        let says = unknown.tried(setting).unwrap();
        assert!(says.ends_with(" (if this kernel has it)"), "{says}");
    }
}

#[test]
fn aw4_of_a_kernel_that_is_not_known_each_setting_is_named_with_a_doubt() {
    let says = |cause, best| changed(failures(cause, 4), best, &RecordedKernel::default());
    assert_eq!(
        says(FailureCause::Watermark, None),
        "To change: try vm.min_free_kbytes higher (if this kernel has it) or vm.watermark_scale_factor higher (if this \
         kernel has it), so that reclaim begins earlier; this replay has no zones and cannot say how much that helps."
    );
    let pieces = "To change: try what no replay of this recording can: vm.compaction_proactiveness higher (if this kernel has it), \
                  vm.watermark_boost_factor higher (if this kernel has it), vm.extfrag_threshold lower (if this kernel has \
                  it) for requests above order 3 that may compact; ";
    let said = says(FailureCause::Fragmented, None);
    assert!(said.starts_with(pieces), "{said}");
    let nearest = "To change: vm.defrag_mode=1 (Linux 6.15 and later) is the setting nearest to these rules, and \
                   vm.watermark_boost_factor higher (if this kernel has it) goes with it; ";
    let said = says(
        FailureCause::Fragmented,
        Some(policy("linux-6.12-nofragment")),
    );
    assert!(said.starts_with(nearest), "{said}");
}

#[test]
fn aw4_rules_are_had_by_a_setting_only_where_the_kernel_has_it() {
    let says = |wanted: &str, base: &str, kernel: &RecordedKernel| {
        rules_to_have(policy(wanted), policy(base), kernel, None).unwrap()
    };
    let nofragment = "linux-6.12-nofragment";
    for (kernel, begins, boost) in [
        (
            RecordedKernel::default(),
            "vm.defrag_mode=1 (Linux 6.15 and later) is the setting nearest",
            "and vm.watermark_boost_factor higher (if this kernel has it) goes with it",
        ),
        (
            release((6, 18)),
            "vm.defrag_mode=1 is the setting nearest",
            "and vm.watermark_boost_factor higher goes with it",
        ),
        (
            set(ALL),
            "vm.defrag_mode from 0 to 1 is the setting nearest",
            "and vm.watermark_boost_factor from 15000 to 30000 goes with it",
        ),
        // It has no boost, or as much as there is.
        (
            set("vm.defrag_mode 1\n"),
            "vm.defrag_mode, which is on, is the setting nearest",
            "",
        ),
        (
            set("vm.defrag_mode 0\nvm.watermark_boost_factor 100000\n"),
            "vm.defrag_mode from 0 to 1 is the setting nearest",
            "",
        ),
    ] {
        let says = says(nofragment, "linux-6.12", &kernel);
        assert!(says.starts_with(begins), "{says}");
        assert!(
            !says.contains("factor") || says.contains(boost),
            "{says}\nhas not {boost}"
        );
        assert_eq!(says.contains("factor"), !boost.is_empty(), "{says}");
    }
    for kernel in [release((5, 15)), set("vm.extfrag_threshold 500\n")] {
        let says = says(nofragment, "linux-4.13", &kernel);
        assert!(says.starts_with("no setting of this kernel"), "{says}");
        assert!(!says.contains("vm."), "{says}");
    }
    let defrag = |wanted| says(wanted, "linux-6.18-defrag", &set("vm.defrag_mode 1\n"));
    assert!(defrag("linux-6.12").starts_with("vm.defrag_mode from 1 to 0"));
    assert!(defrag(nofragment).contains("no setting brings that part alone"));
    assert!(defrag("linux-4.4").starts_with("no setting brings the rules of linux-4.4 back"));
    let newer = says("linux-6.12", "linux-4.13", &RecordedKernel::default());
    assert_eq!(newer, "these are the rules of a newer kernel, linux-6.12");
    assert!(defrag("no-grouping").contains("no kernel has it"));
}

/// What a change says of failures in pieces or at a watermark, where settings were asked for but not tried.
fn offered(cause: FailureCause, zones: AnswerZones, asked: SettingsAsked) -> String {
    let figures = AnswerFigures {
        is_as_recorded: false,
        failed: failures(cause, 3),
        kernel: kernel_of_all(),
        zones,
        settings_asked: asked,
        ..tests::figures()
    };
    change(&figures, None, None).unwrap()
}

#[test]
fn aw5_what_a_replay_would_try_is_told_with_its_options_and_only_where_it_would() {
    use AnswerZones::{None as NoZones, Recorded};
    use FailureCause::{Fragmented, Watermark};
    let proactiveness = "vm.compaction_proactiveness from 20 to 40";
    let boost = "vm.watermark_boost_factor from 15000 to 30000";
    let defrag = "vm.defrag_mode from 0 to 1";
    let unmodelled = format!("try what no replay of this recording can: {proactiveness}");
    let scale = "vm.watermark_scale_factor from 10 to 20";
    let min = "vm.min_free_kbytes from 67584 to 135168";
    for (cause, zones, asked, says) in [
        (
            Fragmented,
            NoZones,
            SettingsAsked::Few,
            format!(
                "{unmodelled}; with --watermarks on a replay tries {defrag}; with --watermarks on --settings all a replay tries {boost}"
            ),
        ),
        (
            Fragmented,
            NoZones,
            SettingsAsked::All,
            format!("{unmodelled}; with --watermarks on a replay tries {defrag} and {boost}"),
        ),
        (
            Fragmented,
            Recorded,
            SettingsAsked::None,
            format!("{unmodelled}; with --settings all a replay tries {defrag} and {boost}"),
        ),
        (
            Fragmented,
            NoZones,
            SettingsAsked::Never,
            format!("try what this replay cannot: {proactiveness}, {boost}"),
        ),
        (
            Watermark,
            Recorded,
            SettingsAsked::None,
            format!("with --settings all a replay tries {min} and {scale}"),
        ),
        (
            Watermark,
            NoZones,
            SettingsAsked::Few,
            format!("with --watermarks on --settings all a replay tries {min} and {scale}"),
        ),
        (
            Watermark,
            Recorded,
            SettingsAsked::Never,
            format!(
                "try {min} or {scale}, so that reclaim begins earlier; this replay cannot say how much that helps"
            ),
        ),
    ] {
        assert_eq!(
            offered(cause, zones, asked),
            format!("To change: {says}."),
            "{cause:?} {zones:?} {asked:?}"
        );
    }
}

#[test]
fn options_to_boot_and_build_with_are_named_where_they_bear_on_what_failed() {
    let failed = |all: &[(usize, u32, u64)]| {
        let mut log = FailureLog::default();
        for &(order, flags, times) in all {
            for _ in 0..times {
                log.counts.note(order, Some(flags));
            }
            log.causes[order][FailureCause::Fragmented as usize] += times;
        }
        log
    };
    const ATOMIC: u32 = 0x820;
    const HUGE: u32 = 0x52820;
    let huge = failed(&[(9, HUGE, 3), (3, ATOMIC, 1)]);
    let enabled = |word: &str| {
        set(&format!(
            "transparent_hugepage.enabled {word}\nboot cma=64M\n"
        ))
    };
    let options = |kernel: &RecordedKernel, log: &FailureLog| kernel.options(log).join("; ");
    assert!(options(&enabled("always"), &huge).starts_with("transparent_hugepage=madvise at boot"));
    assert_eq!(options(&enabled("madvise"), &huge), "");
    assert_eq!(options(&RecordedKernel::default(), &huge), "");
    let few = failed(&[(9, HUGE, 3), (3, ATOMIC, 7)]);
    assert_eq!(options(&enabled("always"), &few), "");
    // What could have been reported and is larger than order 3 is a driver's.
    let large = failed(&[(4, ATOMIC, 1), (6, ATOMIC, 1)]);
    let area = |now: &str| {
        format!(
            "a driver that needs blocks of order 6 for sure wants a contiguous area (cma= at boot{now})"
        )
    };
    assert_eq!(options(&enabled("always"), &large), area(", 64M now"));
    assert_eq!(options(&RecordedKernel::default(), &large), area(""));
    for (version, name) in [
        ((6, 12), None),
        ((6, 16), Some("CONFIG_PAGE_BLOCK_ORDER")),
        ((6, 18), Some("CONFIG_PAGE_BLOCK_MAX_ORDER")),
    ] {
        for (block_order, is_large) in [(9, false), (13, true)] {
            let kernel = RecordedKernel {
                block_order: Some(block_order),
                ..release(version)
            };
            let says = options(&kernel, &few);
            let named = name.filter(|_| is_large).map_or_else(String::new, |name| {
                format!("a kernel built with {name} below the 13 of this one mixes less memory at a time")
            });
            assert_eq!(says, named);
        }
    }
}

/// Failures of one cause.
fn failures(cause: FailureCause, order: usize) -> FailureLog {
    let mut log = FailureLog::default();
    log.counts.note(order, Some(0x820));
    log.causes[order][cause as usize] = 1;
    log
}

#[test]
fn each_cause_has_a_whole_sentence_also_where_nothing_is_left_to_try() {
    let ends = "vm.min_free_kbytes 52428\nvm.watermark_scale_factor 1000\nvm.watermark_boost_factor 100000\n\
                vm.compaction_proactiveness 100\nvm.extfrag_threshold 0\n";
    let kernel = RecordedKernel {
        memory_kib: Some(1 << 20),
        ..set(ends)
    };
    let says = |cause, order| changed(failures(cause, order), None, &kernel);
    let memory = "give the machine more memory, or let it use less.";
    for (cause, expected) in [
        (FailureCause::Exhausted, format!("To change: {memory}")),
        (
            FailureCause::Watermark,
            format!("To change: this kernel has no setting left to try: {memory}"),
        ),
        (
            FailureCause::Fragmented,
            "To change: this kernel has no setting left to try.".to_owned(),
        ),
    ] {
        assert_eq!(says(cause, 3), expected);
    }
}

#[test]
fn min_free_grows_to_a_twentieth_of_memory() {
    let tried = |now: u64| {
        let kernel = RecordedKernel {
            memory_kib: Some(1 << 20),
            ..set(&format!("vm.min_free_kbytes {now}\n"))
        };
        kernel.tried(&MIN_FREE)
    };
    let names = |to| Some(format!("vm.min_free_kbytes from {to}"));
    assert_eq!(tried(4096), names("4096 to 8192"));
    assert_eq!(tried(40_000), names("40000 to 52428"));
    assert_eq!(tried(52_428), None);
    assert_eq!(tried(u64::MAX), None);
}

#[test]
fn the_scale_factor_grows_as_far_as_the_release_takes_it() {
    let tried = |version, now: u64| {
        let kernel = RecordedKernel {
            version,
            ..set(&format!("vm.watermark_scale_factor {now}\n"))
        };
        kernel.tried(&SCALE)
    };
    let names = |to| Some(format!("vm.watermark_scale_factor from {to}"));
    for version in [None, Some((4, 6)), Some((5, 16))] {
        assert_eq!(tried(version, 700), names("700 to 1000"), "{version:?}");
        assert_eq!(tried(version, 1000), None, "{version:?}");
    }
    for version in [Some((5, 17)), Some((6, 1))] {
        assert_eq!(tried(version, 700), names("700 to 1400"), "{version:?}");
        assert_eq!(tried(version, 2000), names("2000 to 3000"), "{version:?}");
        assert_eq!(tried(version, 3000), None, "{version:?}");
    }
    // What a kernel has it takes.
    assert_eq!(tried(None, 1200), names("1200 to 2400"));
    assert_eq!(tried(None, u64::MAX), None);
}

#[test]
fn the_scale_factor_is_doubled_from_the_least_that_moves_a_mark() {
    let tried = |min_free: u64, now: u64| {
        let text = format!("vm.min_free_kbytes {min_free}\nvm.watermark_scale_factor {now}\n");
        let kernel = RecordedKernel {
            memory_kib: Some(1 << 20),
            ..set(&text)
        };
        kernel.tried(&SCALE)
    };
    let names = |to| Some(format!("vm.watermark_scale_factor from {to}"));
    // A quarter of min is 108 ten-thousandths of memory, so that no factor up to that brings more.
    assert_eq!(tried(45_056, 10), names("10 to 216"));
    assert_eq!(tried(45_056, 108), names("108 to 216"));
    assert_eq!(tried(45_056, 200), names("200 to 400"));
    assert_eq!(tried(1024, 10), names("10 to 20"));
    assert_eq!(tried(u64::MAX, 10), names("10 to 1000"));
}

#[test]
fn the_threshold_is_named_where_the_kernel_asks_it() {
    let says = |version, order| {
        let kernel = RecordedKernel {
            version,
            ..set("vm.extfrag_threshold 500\n")
        };
        kernel.extfrag(&failures(FailureCause::Fragmented, order))
    };
    assert_eq!(says(Some((6, 18)), 3), None);
    assert_eq!(says(None, 3), None);
    let names = |who| Some(format!("vm.extfrag_threshold from 500 to 250 for {who}"));
    assert_eq!(says(Some((4, 8)), 3), names("requests that may compact"));
    assert_eq!(
        says(Some((4, 9)), 4),
        names("requests above order 3 that may compact")
    );
}

#[test]
fn what_its_release_has_and_the_recording_lacks_is_not_known() {
    let kernel = |version| RecordedKernel {
        version: Some(version),
        ..set("vm.min_free_kbytes 67584\n")
    };
    assert_eq!(
        kernel((6, 12)).tried(&PROACTIVENESS).unwrap(),
        "vm.compaction_proactiveness higher (if this kernel has it)"
    );
    assert_eq!(kernel((5, 4)).tried(&PROACTIVENESS), None);
}

#[test]
fn aw4_what_is_tried_is_what_the_kernel_has_for_certain_and_a_replay_a_model_of() {
    let tried = |kernel: &RecordedKernel, base: &str, is_all| {
        let trials = kernel.trials(policy(base), is_all).into_iter();
        let each = trials.map(|one| format!("{one}{}", if one.is_less { " (less)" } else { "" }));
        each.collect::<Vec<_>>().join(", ")
    };
    let few = "vm.defrag_mode from 0 to 1, vm.watermark_boost_factor from 15000 to 0 (less)";
    assert_eq!(tried(&set(ALL), "linux-6.12", false), few);
    assert_eq!(
        tried(&set(ALL), "linux-6.12", true),
        format!(
            "{few}, vm.watermark_boost_factor from 15000 to 30000, vm.min_free_kbytes from 67584 to 135168, \
             vm.watermark_scale_factor from 10 to 20"
        )
    );
    let on = set("vm.defrag_mode 1\nvm.watermark_boost_factor 0\n");
    assert_eq!(
        tried(&on, "linux-6.18-defrag", true),
        "vm.defrag_mode from 1 to 0 (less), vm.watermark_boost_factor from 0 to 15000"
    );
    // Without values the release tells, and a kernel boots with the values that are known.
    assert_eq!(
        tried(&release((6, 18)), "linux-6.12", true),
        "vm.defrag_mode=1, vm.watermark_boost_factor=0 (less), vm.watermark_boost_factor=30000, vm.watermark_scale_factor=20"
    );
    assert_eq!(
        tried(&release((6, 14)), "linux-6.12", false),
        "vm.watermark_boost_factor=0 (less)"
    );
    // The model of an older kernel raises no watermark.
    assert_eq!(tried(&release((5, 15)), "linux-4.13", false), "");
    assert_eq!(
        tried(&release((5, 15)), "linux-4.13", true),
        "vm.watermark_scale_factor=20"
    );
    assert_eq!(tried(&release((4, 5)), "linux-4.4", true), "");
    assert_eq!(
        tried(&set(ALL), "framewright", false),
        "vm.defrag_mode from 0 to 1"
    );
    // What is not known to be there is not tried.
    assert_eq!(tried(&RecordedKernel::default(), "linux-6.12", true), "");
    let unread = RecordedKernel {
        version: Some((6, 18)),
        ..set("vm.min_free_kbytes 67584\n")
    };
    assert_eq!(
        tried(&unread, "linux-6.12", true),
        "vm.min_free_kbytes from 67584 to 135168"
    );
    // Nor what a replay would take for frames of another size.
    for (kib, is_tried) in [(4, true), (16, false)] {
        let kernel = RecordedKernel {
            page_kib: Some(kib),
            ..set(ALL)
        };
        let says = tried(&kernel, "linux-6.12", true);
        assert_eq!(says.contains("vm.min_free_kbytes"), is_tried, "{kib}");
    }
    let all = kernel_of_all().trials(policy("linux-6.12"), true);
    assert!(all.len() <= 5, "{all:?}");
}

fn kernel_of_all() -> RecordedKernel {
    RecordedKernel {
        version: Some((6, 18)),
        ..set(ALL)
    }
}
