use crate::support::{alloc, assert_every_line_is_counted, at, error, events, free, order};
use framewright::{Frame, Mobility, Order};
use framewright_lab::trace::{Dialect, EventKind};

const HEADER: &str = "\
# tracer: nop
#
# entries-in-buffer/entries-written: 4/4   #P:2
#
#                                _-----=> irqs-off/BH-disabled
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
";

/// One request as a current kernel prints it, with `rest` behind the name of the event.
fn line(event: &str) -> String {
    format!("            bash-21807   [001] .....  1781.547355: {event}\n")
}

fn one(text: impl Into<Vec<u8>>) -> framewright_lab::trace::TraceEvent {
    let (events, _) = events(text);
    assert_eq!(events.len(), 1);
    events[0]
}

#[test]
fn a_current_kernels_text_is_read_with_five_flag_columns() {
    let text = format!(
        "{HEADER}\
            bash-21807   [000] .....  1781.547355: mm_page_alloc: page=00000000b89009e2 pfn=0x5a2fd6 order=1 migratetype=2 gfp_flags=__GFP_RECLAIMABLE|__GFP_IO|__GFP_FS|__GFP_NOWARN|__GFP_NORETRY|__GFP_COMP|__GFP_NOMEMALLOC
         python3-21809   [001] ...2.  1781.547572: mm_page_free: page=00000000f71b0a58 pfn=0x15969d order=0
         python3-21809   [001] dNh2.  1781.547572: mm_page_free_batched: page=00000000f71b0a58 pfn=0x15969d order=0
          <idle>-0       [001] d.s2.  1781.547580: mm_page_alloc: page=0000000003c4d29b pfn=0x15a001 order=0 migratetype=1 gfp_flags=GFP_HIGHUSER_MOVABLE|__GFP_COMP
"
    );
    let (events, counts) = events(text);
    assert_eq!(
        events,
        [
            at(
                1_781_547_355_000,
                0,
                21807,
                alloc(0x5a_2fd6, 1, Mobility::Reclaimable, 0xd_20d0)
            ),
            at(1_781_547_572_000, 1, 21809, free(0x15_969d, 0)),
            at(1_781_547_572_000, 1, 21809, EventKind::FreeBatched),
            at(
                1_781_547_580_000,
                1,
                0,
                alloc(0x15_a001, 0, Mobility::Movable, 0x14_0cca)
            ),
        ]
    );
    assert_eq!((counts.lines, counts.comments), (11, 7));
    assert_eq!(
        (counts.allocs, counts.frees, counts.frees_batched),
        (2, 1, 1)
    );
    assert_eq!(counts.anomalies(), []);
    assert_every_line_is_counted(&counts);
}

#[test]
fn an_old_kernels_text_is_read_with_four_flag_columns_and_decimal_frames() {
    let text = "\
# tracer: nop
            Xorg-1204  [006] d.s.  1110.217281: mm_page_alloc: page=ffffea0064142000 pfn=26235008 order=3 migratetype=0 gfp_flags=GFP_KERNEL|GFP_NOWARN|GFP_COMP
            Xorg-1204  [006] ....  1110.217290: mm_page_free: page=ffffea0064142000 pfn=26235008 order=3
";
    let (events, counts) = events(text);
    assert_eq!(events[0].cpu, 6);
    assert_eq!(
        events[0].kind,
        alloc(26_235_008, 3, Mobility::Unmovable, 0x4_2cc0)
    );
    assert_eq!(events[1].kind, free(26_235_008, 3));
    assert_eq!(counts.anomalies(), []);
}

#[test]
fn the_flag_column_and_the_thread_group_may_be_missing_or_there() {
    let body = "mm_page_free: page=00000000f71b0a58 pfn=0x15969d order=0";
    for columns in [
        "[001]   1781.547572",
        "[001] .... 1781.547572",
        "[001] ...2.  1781.547572",
        "[001] d..h2..  1781.547572",
        "(  13442) [001] ...1.  1781.547572",
        "(-------) [001] ...1.  1781.547572",
        "(-------) [001]   1781.547572",
    ] {
        let event = one(format!("            bash-13442   {columns}: {body}\n"));
        let expected = at(1_781_547_572_000, 1, 13442, free(0x15_969d, 0));
        assert_eq!(event, expected, "{columns}");
    }
}

#[test]
fn the_task_may_be_named_anything() {
    for task in [
        "bash",
        "kworker/u8:2",
        "Web Content",
        "a-1 [000] b",
        "x-12",
        "-",
        "--7 [001]",
        "] [002] -3",
        "<...>",
        "#!/bin",
        "-1 [000] 1.5: ",
        "mm_page_free: x",
    ] {
        assert!(task.len() < 16);
        let event = one(format!(
            "{task:>16}-77      [003] .....    12.000001: mm_page_free: pfn=0x10 order=0\n"
        ));
        assert_eq!(event, at(12_000_001_000, 3, 77, free(0x10, 0)), "{task}");
    }
    let mut text = b"   \xff\xfe\x80 \xc3-77      [003] .....    12.000001: ".to_vec();
    text.extend_from_slice(b"mm_page_free: pfn=0x10 order=0\n");
    assert_eq!(one(text).pid, 77);
}

#[test]
fn blanks_cut_from_the_front_do_not_matter() {
    let event = one(
        "<idle>-0     [006] d.s.  1110.217281: mm_page_alloc_extfrag: page=ffffea0064142000 \
         pfn=26235008 alloc_order=3 fallback_order=3 pageblock_order=9 alloc_migratetype=0 \
         fallback_migratetype=0 fragmenting=1 change_ownership=1\n",
    );
    let kind = EventKind::Extfrag {
        wanted: Mobility::Unmovable,
        taken: Mobility::Unmovable,
    };
    assert_eq!(event, at(1_110_217_281_000, 6, 0, kind));
    let event = one("Web Content-9 [000] 5.5: mm_page_free: pfn=4 order=2\n");
    assert_eq!(event, at(5_500_000_000, 0, 9, free(4, 2)));
}

#[test]
fn times_are_micro_or_nanoseconds_or_bare_numbers() {
    for (time, time_ns, without_unit) in [
        ("1781.547355", 1_781_547_355_000, 0),
        ("1781.547355123", 1_781_547_355_123, 0),
        ("3532202176001", 3_532_202_176_001, 1),
        ("340", 340, 1),
    ] {
        let text = format!("  bash-1 [001] ..... {time}: mm_page_free: pfn=0x10 order=0\n");
        let (events, counts) = events(text);
        assert_eq!(events[0].time_ns, time_ns);
        assert_eq!(counts.times_without_unit, without_unit);
    }
}

#[test]
fn an_allocation_without_a_page_has_failed() {
    for page in [
        "page=0000000000000000 pfn=0x0",
        "page=          (null) pfn=0",
        "page=(null) pfn=0",
        "page=(nil) pfn=0x0",
        "page=0x0 pfn=0",
        "pfn=0xffffffffffffffff (18446744073709551615)",
    ] {
        let text = line(&format!(
            "mm_page_alloc: {page} order=9 migratetype=1 gfp_flags=GFP_TRANSHUGE_LIGHT"
        ));
        let (events, counts) = events(text);
        let expected = EventKind::Alloc {
            frame: None,
            order: order(9),
            mobility: Mobility::Movable,
            gfp: 0x1c_20ca,
        };
        assert_eq!(events[0].kind, expected, "{page}");
        assert_eq!((counts.allocs, counts.allocs_failed), (0, 1));
    }
    // Readers that cannot print the page's address print null for each of them.
    let text = line("mm_page_alloc: page=(nil) pfn=512 order=9 migratetype=1 gfp_flags=none");
    assert_eq!(one(text).kind, alloc(512, 9, Mobility::Movable, 0));
}

#[test]
fn a_records_own_fields_are_read_where_the_trace_prints_those() {
    let text = line(
        "mm_page_alloc: pfn=0x1b6990 (1796496) order=0x1 (1) gfp_flags=0xd20d0 (860368) \
         migratetype=0x2 (2)",
    ) + &line("mm_migrate_pages: succeeded=0x20 (32) failed=0x1 (1) mode=0x0 (0)");
    let (events, counts) = events(text);
    assert_eq!(
        events[0].kind,
        alloc(0x1b_6990, 1, Mobility::Reclaimable, 0xd_20d0)
    );
    let moved = EventKind::MigrateEnd {
        succeeded: 32,
        failed: 1,
    };
    assert_eq!(events[1].kind, moved);
    // No name has shown what 2 means.
    assert_eq!(counts.anomalies(), [("migratetypes_assumed", 1)]);
}

#[test]
fn the_kernels_numbers_for_migratetypes_are_learnt_from_the_flags() {
    let new =
        line("mm_page_alloc: page=a pfn=1 order=0 migratetype=1 gfp_flags=GFP_HIGHUSER_MOVABLE")
            + &line("mm_page_alloc: page=a pfn=1 order=0 migratetype=2 gfp_flags=0x10");
    let old =
        line("mm_page_alloc: page=a pfn=1 order=0 migratetype=2 gfp_flags=GFP_HIGHUSER_MOVABLE")
            + &line("mm_page_alloc: page=a pfn=1 order=0 migratetype=1 gfp_flags=0x10");
    let extfrag = line(
        "mm_page_alloc_extfrag: page=a pfn=1 alloc_order=0 fallback_order=9 pageblock_order=9 \
         alloc_migratetype=1 fallback_migratetype=2 fragmenting=0 change_ownership=1",
    );
    for (text, wanted, taken) in [
        (new, Mobility::Movable, Mobility::Reclaimable),
        (old, Mobility::Reclaimable, Mobility::Movable),
    ] {
        let (events, counts) = events(text + &extfrag);
        let mobility = |i: usize| match events[i].kind {
            EventKind::Alloc { mobility, .. } => mobility,
            _ => panic!("no allocation"),
        };
        assert_eq!(
            (mobility(0), mobility(1)),
            (Mobility::Movable, Mobility::Reclaimable)
        );
        assert_eq!(events[2].kind, EventKind::Extfrag { wanted, taken });
        assert_eq!(counts.anomalies(), []);
    }
}

#[test]
fn migratetypes_that_are_no_mobility_are_counted() {
    let text =
        line("mm_page_alloc: page=a pfn=1 order=0 migratetype=4 gfp_flags=GFP_HIGHUSER_MOVABLE")
            + &line(
                "mm_page_alloc: page=a pfn=1 order=0 migratetype=1 gfp_flags=GFP_HIGHUSER_MOVABLE",
            )
            + &line(
                "mm_page_alloc: page=a pfn=1 order=0 migratetype=0 gfp_flags=GFP_HIGHUSER_MOVABLE",
            )
            + &line("mm_page_alloc_extfrag: pfn=1 alloc_migratetype=1 fallback_migratetype=5")
            + &line("mm_page_alloc: page=a pfn=1 order=0 migratetype=0 gfp_flags=__GFP_BRAND_NEW");
    let (events, counts) = events(text);
    assert_eq!(events[0].kind, alloc(1, 0, Mobility::Movable, 0x10_0cca));
    assert_eq!(events[2].kind, alloc(1, 0, Mobility::Unmovable, 0x10_0cca));
    assert_eq!(events[3].kind, EventKind::Other);
    assert_eq!(
        counts.anomalies(),
        [
            ("unknown_flag_names", 1),
            ("migratetypes_unlike_flags", 1),
            ("migratetypes_elsewhere", 1),
            ("extfrags_elsewhere", 1),
        ]
    );
    assert_every_line_is_counted(&counts);
}

#[test]
fn the_events_beside_the_allocators_are_read_and_others_counted_by_name() {
    let text = [
        "mm_migrate_pages_start: mode=MIGRATE_ASYNC reason=compaction",
        "mm_migrate_pages: nr_succeeded=32 nr_failed=1 nr_thp_succeeded=0 nr_thp_failed=0 nr_thp_split=0 nr_split=0 mode=MIGRATE_ASYNC reason=compaction",
        "mm_compaction_try_to_compact_pages: order=9 gfp_mask=GFP_TRANSHUGE priority=1",
        "mm_compaction_begin: zone_start=0x100000 migrate_pfn=0x100000 free_pfn=0x643e00 zone_end=0x644000, mode=async",
        "mm_compaction_end: zone_start=0x100000 migrate_pfn=0x100200 free_pfn=0x643e00 zone_end=0x644000, mode=async status=contended",
        "mm_vmscan_direct_reclaim_begin: order=0 gfp_flags=GFP_HIGHUSER_MOVABLE",
        "mm_page_alloc_zone_locked: page=00000000b89009e2 pfn=0x5a2fd6 order=0 migratetype=1 percpu_refill=1",
        "mm_page_pcpu_drain: page=00000000b89009e2 pfn=0x5a2fd6 order=0 migratetype=1",
        "mm_page_pcpu_drain: page=00000000b89009e2 pfn=0x5a2fd7 order=0 migratetype=1",
        "tracing_mark_write: step 3: done",
        "bprint: x",
        "do_fork+0x1a/0x30 [ext4]: x",
        "0xffffffff81234567: text",
        "schedule <-do_exit",
        "<stack trace>",
    ]
    .map(line)
    .concat()
        + " => free_unref_folios\n => exit_mmap\n\n";
    let (events, counts) = events(text);
    let kinds: Vec<EventKind> = events.iter().map(|e| e.kind).collect();
    assert_eq!(
        kinds[..6],
        [
            EventKind::MigrateStart,
            EventKind::MigrateEnd {
                succeeded: 32,
                failed: 1
            },
            EventKind::DirectCompaction { order: order(9) },
            EventKind::CompactionBegin,
            EventKind::CompactionEnd,
            EventKind::DirectReclaim { order: order(0) },
        ]
    );
    assert!(kinds[6..].iter().all(|k| *k == EventKind::Other));
    assert_eq!(counts.others["mm_page_pcpu_drain"], 2);
    assert_eq!(counts.others["tracing_mark_write"], 1);
    assert_eq!(counts.others["<-"], 1);
    assert_eq!(counts.others.values().sum::<u64>(), 9);
    assert_eq!((counts.continuations, counts.blank), (2, 1));
    assert_every_line_is_counted(&counts);
}

#[test]
fn lost_and_overwritten_events_are_said() {
    let text = format!(
        "# tracer: nop\n# entries-in-buffer/entries-written: 90/100   #P:2\n{}{}{}{}{}##### CPU 1 buffer started ####\n",
        line("mm_page_free: pfn=1 order=0"),
        "CPU:1 [LOST 1234 EVENTS]\n",
        "CPU:0 [LOST EVENTS]\n",
        "CPU:0 [7 EVENTS DROPPED]\n",
        "CPU:3 [EVENTS DROPPED]\n",
    );
    let (events, counts) = events(text);
    let time_ns = 1_781_547_355_000;
    assert_eq!(
        events[1..],
        [
            at(time_ns, 1, 0, EventKind::Lost(1234)),
            at(time_ns, 0, 0, EventKind::Lost(0)),
            at(time_ns, 0, 0, EventKind::Lost(7)),
            at(time_ns, 3, 0, EventKind::Lost(0)),
        ]
    );
    assert_eq!(
        counts.anomalies(),
        [("lost_unknown", 2), ("overwritten_events", 10)]
    );
    assert_eq!(counts.lost_events, 1241);
    assert_every_line_is_counted(&counts);
}

#[test]
fn what_trace_cmd_prints_is_read() {
    let text = "\
version = 6
CPU 1 is empty
cpus=2
            bash-21807 [000]  1781.547355: mm_page_alloc:        page=0xffffea0016a8bf580 pfn=0x5a2fd6 order=0 migratetype=0 gfp_flags=GFP_KERNEL
            bash-21807 [000] ...1.  1781.547356: mm_page_free:         page=0xffffea0016a8bf580 pfn=0x5a2fd6 order=0
";
    let (events, counts) = events(text);
    assert_eq!(
        events[0].kind,
        alloc(0x5a_2fd6, 0, Mobility::Unmovable, 0xcc0)
    );
    assert_eq!(events[1].kind, free(0x5a_2fd6, 0));
    assert_eq!(counts.comments, 3);
}

#[test]
fn a_last_line_cut_off_is_counted_and_not_refused() {
    let whole = line("mm_page_free: page=00000000f71b0a58 pfn=0x15969d order=0");
    let text = whole.clone() + whole.trim_end();
    for cut in whole.len() + 1..text.len() {
        let (events, counts) = events(&text[..cut]);
        assert_eq!(
            (events.len(), counts.cut_last_line),
            (1, 1),
            "{}",
            &text[..cut]
        );
        assert_every_line_is_counted(&counts);
    }
    // With its last field there it is an event, though its end is not.
    let (events, counts) = events(text);
    assert_eq!((events.len(), counts.cut_last_line), (2, 0));
}

#[test]
fn a_bad_line_names_its_place_what_is_wrong_and_what_was_expected() {
    let good = line("mm_page_free: pfn=1 order=0");
    for (bad, message) in [
        (
            line("mm_page_free: page=a order=0"),
            "no pfn=, expected mm_page_free with page= pfn= order=",
        ),
        (
            line("mm_page_alloc: page=a pfn=0x5a2 order=1 migratetype=2"),
            "no gfp_flags=, expected mm_page_alloc with page= pfn= order= migratetype= gfp_flags=",
        ),
        (
            line("mm_page_alloc_extfrag: pfn=0x5a2"),
            "no alloc_migratetype=, expected mm_page_alloc_extfrag with alloc_migratetype= and fallback_migratetype=",
        ),
        (
            line("mm_migrate_pages: nr_succeeded=1"),
            "no nr_failed=, expected mm_migrate_pages with nr_succeeded= and nr_failed=",
        ),
        (
            line("mm_page_free: pfn=zero order=0"),
            "pfn=`zero` is not a decimal or 0x number",
        ),
        (
            line("mm_page_free: pfn=0x11112222333344445 order=0"),
            "pfn=`0x11112222333344445` is above 2^64 - 1",
        ),
        (
            line("mm_page_free: pfn=0x10000000000000 order=0"),
            "pfn 4503599627370496 is above the maximum 4503599627370495",
        ),
        (
            line("mm_page_free: pfn=0 order=21"),
            "order 21 is above the maximum 20",
        ),
        (
            line("mm_page_free: pfn=4503599627370494 order=2"),
            "pfn 4503599627370494 with order 2 reaches past the last frame, expected an end of at most 2^52",
        ),
        (
            line("mm_page_free: pfn=1 order=0 pfn=1"),
            "pfn= stands twice, expected it once in a line",
        ),
        (
            line("mm_page_alloc: pfn=1 order=0 migratetype=9 gfp_flags=none"),
            "migratetype 9 is above the maximum 7",
        ),
        (
            line("mm_page_alloc: pfn=1 order=0 migratetype=0 gfp_flags=GFP_KERNEL|"),
            "gfp_flags=`GFP_KERNEL|` is no list of flags, expected NAME|NAME",
        ),
        (
            line("mm_page_alloc: pfn=1 order=0 migratetype=0 gfp_flags=none gfp_flags=none"),
            "gfp_flags= stands twice, expected it once in a line",
        ),
        (
            "hello\n".into(),
            "no TASK-PID in `hello`, expected TASK-PID [CPU] FLAGS TIME: EVENT: FIELDS",
        ),
        (
            "bash-1 (1 [001] 1.5: x: y\n".into(),
            "no CPU in brackets after TASK-PID in `bash-1 (1 [001] 1.5: x: y`, expected TASK-PID [CPU] FLAGS TIME: EVENT: FIELDS",
        ),
        (
            "bash-1 [99999] 1.5: x: y\n".into(),
            "no CPU in brackets after TASK-PID in `bash-1 [99999] 1.5: x: y`, expected TASK-PID [CPU] FLAGS TIME: EVENT: FIELDS",
        ),
        (
            "bash-1 [001] ..... mm_page_free: pfn=1\n".into(),
            "no TIME with a colon after the CPU in `bash-1 [001] ..... mm_page_free: pfn=1`, expected TASK-PID [CPU] FLAGS TIME: EVENT: FIELDS",
        ),
        (
            "bash-1 [001] 1.5: mm_page_f\n".into(),
            "no event name with a colon after the TIME in `bash-1 [001] 1.5: mm_page_f`, expected TASK-PID [CPU] FLAGS TIME: EVENT: FIELDS",
        ),
        (
            "            true 13087 [001]  1477.870693: kmem:mm_page_free: pfn=1 order=0\n".into(),
            "no TASK-PID in `            true 13087 [001]  1477.870693: kmem:mm_page_free: pfn=1 order=0`, expected TASK-PID [CPU] FLAGS TIME: EVENT: FIELDS",
        ),
        (
            "CPU:x [LOST 1 EVENTS]\n".into(),
            "no TASK-PID in `CPU:x [LOST 1 EVENTS]`, expected TASK-PID [CPU] FLAGS TIME: EVENT: FIELDS",
        ),
    ] {
        assert_eq!(
            error(good.clone() + &bad + &good),
            format!("t:2: {message}")
        );
    }
}

#[test]
fn reading_goes_on_behind_a_bad_line() {
    let good = line("mm_page_free: pfn=1 order=0");
    let mut reader = crate::support::reader(format!("{good}bad\n\n{good}"));
    assert!(reader.next_event().unwrap().is_some());
    assert_eq!(reader.next_event().unwrap_err().line(), Some(2));
    assert!(reader.next_event().unwrap().is_some());
    assert_eq!(reader.line_number(), 4);
    assert!(reader.next_event().unwrap().is_none());
    assert_eq!(reader.counts().refused_lines, 1);
    assert_eq!(reader.dialect(), Some(Dialect::Ftrace));
    assert_every_line_is_counted(reader.counts());
}

#[test]
fn a_text_that_is_no_trace_is_refused_with_its_first_line() {
    let expected = "expected ftrace text (TASK-PID [CPU] FLAGS TIME: EVENT: FIELDS), perf script \
                    text (COMM PID [CPU] TIME: SYSTEM:EVENT: FIELDS) or PFT";
    assert_eq!(
        error("\n\nname,size\n1,2\n"),
        format!("t:3: `name,size` is no line of a trace, {expected}")
    );
    // Without its end too: nothing has shown yet that this is a trace.
    assert_eq!(
        error(b"\x7fELF\x02\x01".to_vec()),
        format!("t:1: `\\u{{7f}}ELF\\u{{2}}\\u{{1}}` is no line of a trace, {expected}")
    );
    assert_eq!(
        error(""),
        "t: the input is empty, expected ftrace text, perf script text or PFT"
    );
    // A header alone is a trace without events.
    let (none, counts) = events("# tracer: nop\n#\n");
    assert!(none.is_empty() && counts.comments == 2);
}

#[test]
fn the_largest_numbers_are_read_and_never_wrap() {
    let frame = (1u64 << 52) - (1 << 20);
    let event = one(format!(
        "x-4294967295 [65535] 18446744073.709551615: mm_page_free: pfn={frame} order=20\n"
    ));
    let kind = EventKind::Free {
        frame: Frame(frame),
        order: Order::MAX,
    };
    assert_eq!(event, at(u64::MAX, 65535, u32::MAX, kind));
}

#[test]
fn p6_what_was_overwritten_saturates() {
    let head = format!(
        "# entries-in-buffer/entries-written: 0/{}   #P:2\n",
        u64::MAX
    );
    let text = format!("# tracer: nop\n{head}{head}");
    assert_eq!(events(text).1.overwritten_events, u64::MAX);
}

#[test]
fn a_line_of_dashes_is_refused() {
    // Each of them could be the one in front of the PID, and be followed by a whole line.
    let line = "-1 [0] 1: ".repeat(25_000);
    let text = format!("# tracer: nop\n{}\n", vec![line; 8].join("\n"));
    assert!(error(text).contains("no event name with a colon after the TIME"));
}
