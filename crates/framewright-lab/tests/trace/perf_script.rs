use crate::support::{alloc, assert_every_line_is_counted, at, error, events, free, reader};
use framewright::Mobility;
use framewright_lab::trace::{Dialect, EventKind};

const ALLOC: &str = "kmem:mm_page_alloc: page=0x10be8b pfn=0x10be8b order=0 migratetype=0 gfp_flags=GFP_KERNEL_ACCOUNT|__GFP_ZERO|__GFP_COMP";

#[test]
fn the_columns_in_front_may_be_chosen() {
    let kind = alloc(0x10_be8b, 0, Mobility::Unmovable, 0x44_0dc0);
    for (columns, cpu, pid, time_ns) in [
        (
            "            true 13087 [001]  1477.870693: ",
            1,
            13087,
            1_477_870_693_000,
        ),
        (
            "            true 13087 [001]  1477.870693971: ",
            1,
            13087,
            1_477_870_693_971,
        ),
        (
            "            true 13087/13089 [001]  1477.870693: ",
            1,
            13089,
            1_477_870_693_000,
        ),
        (
            "            true 13087  1477.870693: ",
            0,
            13087,
            1_477_870_693_000,
        ),
        ("            true  1477.870693: ", 0, 0, 1_477_870_693_000),
        (" 1477.870693: ", 0, 0, 1_477_870_693_000),
        (
            "true 13087 [001]  1477.870693:          1 ",
            1,
            13087,
            1_477_870_693_000,
        ),
        ("swapper     0 [127]     0.000000: ", 127, 0, 0),
        (":-1    -1 [000]     1.000000: ", 0, 0, 1_000_000_000),
        ("Web Content 12 [000] 1.0: ", 0, 12, 1_000_000_000),
        ("a-1 [002] 3.5: b 12 [000] 1.0: ", 0, 12, 1_000_000_000),
    ] {
        let (events, counts) = events(format!("{columns}{ALLOC}\n"));
        assert_eq!(events, [at(time_ns, cpu, pid, kind)], "{columns}");
        assert_eq!(counts.anomalies(), []);
    }
    // Where the call's flags are asked for too, blanks stand in front of the words.
    let padded = ALLOC.replace(": page", ":                         page");
    assert_eq!(events(format!("x 1 [0] 1.0: {padded}\n")).0[0].kind, kind);
}

#[test]
fn frames_are_decimal_or_hexadecimal_as_the_kernel_printed_them() {
    let text = "perf  6429 [000]    22.498450:             kmem:mm_page_alloc: page=0x176a17 pfn=1534487 order=0 migratetype=0 gfp_flags=GFP_KERNEL
perf  6429 [000]    22.498451:             kmem:mm_page_free: page=0x176a17 pfn=0x176a17 order=0
";
    let (events, _) = events(text);
    assert_eq!(
        events[0].kind,
        alloc(1_534_487, 0, Mobility::Unmovable, 0xcc0)
    );
    assert_eq!(events[1].kind, free(1_534_487, 0));
}

#[test]
fn call_chains_headers_and_lost_records_are_counted_and_passed_over() {
    let text = format!(
        "\
# ========
# captured on    : Sat Nov 21 11:39:40 2026
#
true 13322 [000]  1509.199269: {ALLOC}
\tffffffff8161ea8b __alloc_frozen_pages_noprof+0x26b ([kernel.kallsyms])
    ffffffffbe23e32e __alloc_pages_nodemask+0x22e (/lib/modules/5.1.0/build/vmlinux)
\t    7f81528f2ad7 [unknown] ([unknown])

swapper     0 [001]  1509.200000: PERF_RECORD_LOST lost 35
swapper     0 [001]  1509.200001: PERF_RECORD_LOST_SAMPLES lost 5
true 13322 [000]  1509.201000: compaction:mm_compaction_begin: zone_start=0x1
true 13322 [000]  1509.201001: migrate:mm_migrate_pages: nr_succeeded=3 nr_failed=0
true 13322 [000]  1509.201002: vmscan:mm_vmscan_direct_reclaim_begin: order=0
true 13322 [000]  1509.201003:     250000 cpu-clock:u: 
true 13322 [000]  1509.201004: sched:sched_switch: prev_comm=true
"
    );
    let (events, counts) = events(text);
    let kinds: Vec<EventKind> = events.iter().map(|e| e.kind).collect();
    assert_eq!(
        kinds[1..],
        [
            EventKind::Lost(35),
            EventKind::Lost(5),
            EventKind::CompactionBegin,
            EventKind::MigrateEnd {
                succeeded: 3,
                failed: 0
            },
            EventKind::DirectReclaim {
                order: framewright::Order::ZERO
            },
            EventKind::Other,
            EventKind::Other,
        ]
    );
    assert_eq!(
        (counts.comments, counts.continuations, counts.blank),
        (3, 3, 1)
    );
    assert_eq!(counts.others["cpu-clock:u"], 1);
    assert_eq!(counts.others["sched:sched_switch"], 1);
    assert_eq!(counts.lost_events, 40);
    assert_eq!(counts.anomalies(), []);
    assert_every_line_is_counted(&counts);
}

#[test]
fn a_bad_line_names_its_place_and_the_dialects_do_not_mix() {
    let good = format!("true 1 [0] 1.0: {ALLOC}\n");
    for (bad, message) in [
        (
            "true 1 [0] 1.0: kmem:mm_page_free: pfn=1",
            "no order=, expected mm_page_free with page= pfn= order=",
        ),
        (
            "true 1 [0] kmem:mm_page_free: pfn=1",
            "no TIME: SYSTEM:EVENT: in `true 1 [0] kmem:mm_page_free: pfn=1`, expected COMM PID [CPU] TIME: SYSTEM:EVENT: FIELDS",
        ),
        (
            "bash-1 [001] 1.5: mm_page_free: pfn=1 order=0",
            "no TIME: SYSTEM:EVENT: in `bash-1 [001] 1.5: mm_page_free: pfn=1 order=0`, expected COMM PID [CPU] TIME: SYSTEM:EVENT: FIELDS",
        ),
    ] {
        assert_eq!(error(format!("{good}{bad}\n")), format!("t:2: {message}"));
    }
    let mut reader = reader(good);
    assert!(reader.next_event().unwrap().is_some());
    assert_eq!(reader.dialect(), Some(Dialect::PerfScript));
}
