//! A state fed from recorded text, and what is shown of it.

use super::events::EventPipe;
use super::layout::{PageblockContents, TopLayout};
use super::state::{TopReading, TopState, VmCounter};
use super::verdict::{TopStanding, TopVerdict};
use super::view::{Shown, draw, json_line, plain_text};
use crate::replay::FailureCause;
use crate::trace::state::{read_buddyinfo, read_vmstat, read_zoneinfo};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::Value;
use std::io::Cursor;

const S: u64 = 1_000_000_000;

/// A machine of two zones: `Normal` has those free blocks, and `DMA` is kept for others.
fn reading(seconds: u64, normal: &[u64], vmstat: &str) -> TopReading {
    let mut blocks = [0; 11];
    blocks[..normal.len()].copy_from_slice(normal);
    let free: u64 = blocks
        .iter()
        .enumerate()
        .map(|(order, blocks)| blocks << order)
        .sum();
    let words: Vec<String> = blocks.iter().map(u64::to_string).collect();
    let buddyinfo = format!(
        "Node 0, zone DMA 0 0 0 0 0 0 0 0 0 0 3\nNode 0, zone Normal {}\n",
        words.join(" ")
    );
    let zone = |name: &str, free: u64, protection: &str| {
        format!(
            "Node 0, zone {name}\n  pages free {free}\n boost 0\n min 1000\n low 1250\n high 1500\n spanned 262144\n \
             present 262144\n managed 262144\n protection: ({protection})\n nr_free_pages {free}\n start_pfn: 0\n"
        )
    };
    let zoneinfo = zone("DMA", 3072, "0, 9000") + &zone("Normal", free, "0, 0");
    TopReading {
        now_ns: (100 + seconds) * S,
        zones: read_buddyinfo("buddyinfo", &buddyinfo).unwrap(),
        infos: read_zoneinfo("zoneinfo", &zoneinfo).unwrap(),
        vmstat: read_vmstat("vmstat", vmstat).unwrap(),
        layout: None,
        lost: 0,
        own_cpu_ns: seconds * S / 50,
    }
}

const VMSTAT: &str = "pgalloc_dma 5\npgalloc_normal 1000\nallocstall_normal 7\nallocstall_movable 1\ncompact_stall 4\n\
                      compact_success 1\ncompact_fail 3\n";
const VMSTAT_LATER: &str = "pgalloc_dma 5\npgalloc_normal 1300\nallocstall_normal 9\nallocstall_movable 2\n\
                            compact_stall 6\ncompact_success 1\ncompact_fail 5\n";

/// Events of the second second, as the kernel prints them.
const EVENTS: &str = "\
             cc1-7       [001] .....   100.100000: mm_page_alloc: page=00000000aa pfn=0x80 order=2 migratetype=0 gfp_flags=GFP_KERNEL|__GFP_COMP
             cc1-7       [001] .....   100.100001: mm_page_alloc: page=00000000ab pfn=0x90 order=2 migratetype=0 gfp_flags=GFP_KERNEL|__GFP_COMP
             cc1-7       [001] .....   100.200000: mm_page_alloc_extfrag: page=00000000aa pfn=0x80 alloc_order=0 fallback_order=9 pageblock_order=9 alloc_migratetype=0 fallback_migratetype=1 fragmenting=1 change_ownership=0
             cc1-7       [001] .....   100.200001: mm_page_alloc_extfrag: page=00000000aa pfn=0x80 alloc_order=0 fallback_order=9 pageblock_order=9 alloc_migratetype=0 fallback_migratetype=1 fragmenting=1 change_ownership=0
       kcompactd0-40     [000] .....   100.300000: mm_compaction_begin: zone_start=0x1 migrate_pfn=0x1 free_pfn=0x2 zone_end=0x3, mode=async
         kswapd0-41      [000] .....   100.350000: mm_vmscan_kswapd_wake: nid=0 order=3
 \u{1b}[2Jevil-9       [001] ..s..   100.400000: mm_page_alloc: page=(null) pfn=0xffffffffffffffff order=3 migratetype=0 gfp_flags=GFP_ATOMIC|__GFP_COMP
             git-8       [001] .....   100.500000: mm_page_alloc: page=(null) pfn=0xffffffffffffffff order=3 migratetype=0 gfp_flags=GFP_ATOMIC|__GFP_NOWARN|__GFP_NORETRY|__GFP_COMP
           <...>-8       [001] .....   100.600000: mm_page_alloc: page=(null) pfn=0xffffffffffffffff order=9 migratetype=1 gfp_flags=GFP_TRANSHUGE_LIGHT
";

fn feed(state: &mut TopState, events: &str) {
    let mut pipe = EventPipe::new(Cursor::new(events.as_bytes().to_vec()));
    pipe.look(|event, name| state.event(event, name)).unwrap();
    assert_eq!(pipe.unread(), 0);
}

fn layout() -> TopLayout {
    TopLayout {
        at_ns: 100 * S,
        labels: vec![
            ("Unmovable".into(), 12),
            ("Movable".into(), 500),
            ("Isolate".into(), 0),
        ],
        contents: Some(PageblockContents {
            free: 5,
            movable: 300,
            unmovable: 7,
            mixed: 200,
        }),
        missing: Vec::new(),
    }
}

/// In pieces of order 2 and less, after a second in which requests of orders 3 and 9 have failed.
fn failed() -> TopState {
    let first = TopReading {
        layout: Some(layout()),
        ..reading(0, &[4000, 2000, 500, 10], VMSTAT)
    };
    let mut state = TopState::new(3, true, Vec::new(), first);
    feed(&mut state, EVENTS);
    state.read(TopReading {
        lost: 12,
        ..reading(1, &[4000, 2000, 500], VMSTAT_LATER)
    });
    state
}

#[test]
fn tp3_events_and_counters_are_counted_by_interval_and_since_the_start() {
    let mut state = failed();
    assert_eq!(state.counts.requests[2], 2);
    assert_eq!((state.counts.failures[3], state.counts.failures[9]), (2, 1));
    assert_eq!((state.counts.reported[3], state.counts.reported[9]), (1, 0));
    let rate = state.requests(2).unwrap();
    assert_eq!((rate.a_second, rate.total), (2.0, 2));
    // 300 frames were handed out, 8 of them in the two requests of order 2.
    let frames = state.requests(0).unwrap();
    assert_eq!((frames.a_second, frames.total), (292.0, 292));
    let stalls = state.vm_rate(VmCounter::ReclaimStalls).unwrap();
    assert_eq!((stalls.a_second, stalls.total), (3.0, 3));
    assert_eq!(state.rate(|counts| counts.all_fallbacks()).total, 2);
    assert_eq!(state.own_percent(), (2.0, 2.0));
    // An interval without events, of two seconds.
    state.read(reading(3, &[4000, 2000, 500], VMSTAT_LATER));
    let rate = state.requests(2).unwrap();
    assert_eq!((rate.a_second, rate.total), (0.0, 2));
    assert_eq!(state.vm_rate(VmCounter::ReclaimStalls).unwrap().total, 3);
    assert_eq!(state.interval(), 2.0);
    // A kernel that counts none of these.
    let mut old = TopState::new(3, true, Vec::new(), reading(0, &[1], "nr_free_pages 1\n"));
    old.read(reading(1, &[1], "nr_free_pages 1\n"));
    assert_eq!(old.vm_rate(VmCounter::CompactionStalls), None);
    assert_eq!(old.requests(0), None);
}

#[test]
fn the_verdict_names_the_order_that_fails_before_one_that_would() {
    let mut state = failed();
    let verdict = TopVerdict::of(&state);
    assert_eq!(
        (verdict.order, verdict.standing, verdict.cause),
        (3, TopStanding::Fails, FailureCause::Fragmented)
    );
    assert_eq!(
        verdict.text,
        "Order 3 fails: 2 in the last 1 s (the kernel prints 1 of them), because memory is fragmented: 39.1 MiB are \
         free for it, in blocks up to order 2."
    );
    // Ten seconds later they are no longer of now, and the order still has no block.
    for second in [8, 12, 16] {
        state.read(reading(second, &[4000, 2000, 500], VMSTAT_LATER));
    }
    let verdict = TopVerdict::of(&state);
    assert_eq!(
        (verdict.order, verdict.standing),
        (3, TopStanding::WouldFail)
    );
    assert!(
        verdict.text.starts_with(
            "Order 3 fails next: one that may not wait would fail now, because memory is fragmented: "
        ),
        "{}",
        verdict.text
    );
}

#[test]
fn a_failure_in_an_interval_of_half_a_minute_is_of_now_until_the_next_one_ends() {
    let mut state = TopState::new(3, true, Vec::new(), reading(0, &[4000], VMSTAT));
    feed(&mut state, EVENTS);
    state.read(reading(30, &[4000], VMSTAT));
    let verdict = TopVerdict::of(&state);
    assert_eq!((verdict.order, verdict.standing), (3, TopStanding::Fails));
    assert!(
        verdict.text.contains("2 in the last 30 s"),
        "{}",
        verdict.text
    );
    state.read(reading(60, &[4000], VMSTAT));
    assert_ne!(TopVerdict::of(&state).standing, TopStanding::Fails);
}

#[test]
fn the_three_causes_are_told_apart() {
    let verdict = |normal: &[u64]| {
        let state = TopState::new(3, true, Vec::new(), reading(0, normal, VMSTAT));
        TopVerdict::of(&state)
    };
    let of = |normal: &[u64]| (verdict(normal).order, verdict(normal).cause);
    assert_eq!(of(&[4000, 0, 0, 0]), (3, FailureCause::Fragmented));
    // Below min: no frame may be had, although there are blocks.
    assert_eq!(of(&[0, 0, 0, 100]), (0, FailureCause::Watermark));
    let nothing = |zones: &str| {
        let mut reading = reading(0, &[0], VMSTAT);
        reading.zones = read_buddyinfo("b", zones).unwrap();
        let state = TopState::new(3, true, Vec::new(), reading);
        TopVerdict::of(&state)
    };
    let exhausted = nothing("Node 0, zone Normal 0 0 0 0 0 0 0 0 0 0 0\n");
    assert_eq!(exhausted.cause, FailureCause::Exhausted);
    assert!(
        exhausted
            .text
            .ends_with("memory is exhausted: nothing is free for it.")
    );
}

#[test]
fn a_trend_says_how_long_what_is_left_lasts() {
    let mut state = TopState::new(3, true, Vec::new(), reading(0, &[9000, 0, 0, 1000], VMSTAT));
    for second in 1..=10 {
        let left = 1000 - 50 * second;
        state.read(reading(second, &[9000, 0, 0, left], VMSTAT));
    }
    let verdict = TopVerdict::of(&state);
    assert_eq!(
        (verdict.order, verdict.standing, verdict.left),
        (3, TopStanding::Served, 500)
    );
    assert_eq!(verdict.seconds_left, Some(10.0));
    assert_eq!(
        verdict.text,
        "No order fails; of those asked for, order 3 would be the next, once memory is fragmented: 500 more can be \
         served now, which lasts 10 s at the rate of the last minute if nothing is reclaimed."
    );
    // What stands still lasts.
    for second in 11..=90 {
        state.read(reading(second, &[9000, 0, 0, 500], VMSTAT));
    }
    assert_eq!(TopVerdict::of(&state).seconds_left, None);
}

#[test]
fn an_order_that_is_not_asked_for_is_no_verdict_unless_nothing_is_known_of_that() {
    // Orders 4 and up have no block.
    let normal = [9000, 100, 100, 100];
    let state = TopState::new(3, true, Vec::new(), reading(0, &normal, VMSTAT));
    assert_eq!(TopVerdict::of(&state).standing, TopStanding::Served);
    let state = TopState::new(3, false, Vec::new(), reading(0, &normal, VMSTAT));
    let verdict = TopVerdict::of(&state);
    assert_eq!(
        (verdict.order, verdict.standing),
        (4, TopStanding::WouldFail)
    );
    // The user asks about it.
    let state = TopState::new(9, true, Vec::new(), reading(0, &normal, VMSTAT));
    assert_eq!(TopVerdict::of(&state).order, 9);
}

#[test]
fn tp4_plain_text_says_the_verdict_first_and_obeys_no_name() {
    let text = plain_text(&failed(), "6.18", 80);
    assert!(
        text.starts_with("Order 3 fails: 2 in the last 1 s"),
        "{text}"
    );
    for words in [
        "0.4 s ! order 3 failed for \\u{1b}[2Jevil, reported, fragmented: GFP_ATOMIC|__GFP_COMP\n",
        "0.5 s ! order 3 failed for git, not reported, fragmented: GFP_ATOMIC|__GFP_NOWARN|__GFP_NORETRY|__GFP_COMP\n",
        "! order 9 failed for task 8, not reported, fragmented: GFP_TRANSHUGE_LIGHT\n",
        "0.2 s   fallback: unmovable from a pageblock labelled movable, 2 times (cc1)\n",
        "compaction of a zone (kcompactd0)\n",
        "kswapd of node 0 begins to reclaim, for order 3 (kswapd0)\n",
        " unmovable 7 mixed 200, 1 s old\n",
        "pageblocks by label: Unmovable 12, Movable 500\n",
        "12 events lost",
        "Normal    39.1M   3.9M   4.9M   5.9M above high\n",
        "reclaim stalls      3.0/s        3\n",
    ] {
        assert!(text.contains(words), "{words} in\n{text}");
    }
    let table = text
        .lines()
        .filter(|line| line.starts_with([' ', '>']) && line.contains("0."));
    assert!(table.clone().count() >= 11);
    assert!(
        table.take(11).all(|line| line.chars().count() <= 80),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'));
}

#[test]
fn json_is_one_object_in_one_line() {
    let line = json_line(&failed(), "6.18");
    assert_eq!(line.matches('\n').count(), 1);
    let object: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(object["verdict"]["order"], 3);
    assert_eq!(object["verdict"]["standing"], "fails");
    assert_eq!(object["orders"].as_array().unwrap().len(), 11);
    assert_eq!(object["orders"][3]["failures"], 2);
    assert_eq!(object["orders"][2]["requests"]["per_second"], 2.0);
    assert_eq!(object["failures"][0]["command"], "\\u{1b}[2Jevil");
    assert_eq!(object["failures"][0]["cause"], "fragmented");
    assert_eq!(object["failures"].as_array().unwrap().len(), 3);
    assert_eq!(object["fallbacks"]["pairs"][0]["taken"], "Movable");
    assert_eq!(object["pageblocks"]["contents"]["mixed"], 200);
    assert_eq!(object["events_lost"], 12);
    // What the next interval has is its own.
    let mut state = failed();
    state.read(reading(2, &[1], VMSTAT_LATER));
    let object: Value = serde_json::from_str(&json_line(&state, "6.18")).unwrap();
    assert_eq!(object["failures"].as_array().unwrap().len(), 0);
    // Without events nothing of them is claimed.
    let state = TopState::new(
        3,
        false,
        vec!["failures (no tracefs)".into()],
        reading(0, &[1], VMSTAT),
    );
    let object: Value = serde_json::from_str(&json_line(&state, "6.18")).unwrap();
    assert!(object["failures"].is_null() && object["orders"][3]["failures"].is_null());
    assert_eq!(object["missing"][0], "failures (no tracefs)");
}

/// The screen's rows.
fn screen(state: &TopState, width: u16, height: u16, is_help: bool) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let shown = Shown {
        kernel: "6.18",
        is_paused: false,
        is_help,
    };
    terminal
        .draw(|picture| draw(picture, state, shown))
        .unwrap();
    let buffer = terminal.backend().buffer();
    let rows = (0..height).map(|y| {
        let cells = (0..width).map(|x| buffer[(x, y)].symbol());
        cells.collect::<String>().trim_end().to_owned()
    });
    rows.collect()
}

#[test]
fn a_screen_of_80_by_24_has_all_parts() {
    let rows = screen(&failed(), 80, 24, false);
    let all = rows.join("\n");
    assert!(rows[0].starts_with("framewright top  0:00:01"), "{all}");
    assert!(
        rows[1].starts_with("Order 3 fails: 2 in the last 1 s"),
        "{all}"
    );
    for words in [
        "order     free    left  failed unusable",
        ">3!          0       0       2    0.765",
        " 0        4000    9000",
        " 10!",
        "Normal    39.1M   3.9M   4.9M   5.9M",
        "unmovable 7 mixed 200, 1 s old",
        "reclaim stalls",
        "kswapd woken",
        "12 events lost",
        "! order 9 failed",
        "q quit  p pause",
    ] {
        assert!(all.contains(words), "{words} in\n{all}");
    }
}

#[test]
fn a_large_screen_has_all_columns_and_more_lines() {
    let all = screen(&failed(), 120, 40, false).join("\n");
    for words in [
        "then",
        "below watermark",
        "reported",
        "above high",
        "pageblocks by label: Unmovable 12, Movable 500",
        "fallback: unmovable from a pageblock labelled movable, 2 times (cc1)",
        "kswapd of node 0 begins to reclaim",
    ] {
        assert!(all.contains(words), "{words} in\n{all}");
    }
}

#[test]
fn a_small_screen_has_the_verdict_and_the_orders_around_the_chosen_one() {
    let mut state = failed();
    let all = screen(&state, 40, 15, false).join("\n");
    for words in ["Order 3 fails", "order     free    left  failed", ">3!"] {
        assert!(all.contains(words), "{words} in\n{all}");
    }
    assert!(!all.contains("unusable 1"), "{all}");
    state.chosen = 10;
    let all = screen(&state, 40, 15, false).join("\n");
    assert!(all.contains(">10!"), "{all}");
}

#[test]
fn a_screen_of_any_size_is_drawn_and_help_fits_80_by_24() {
    let state = failed();
    for width in [0, 1, 7, 20, 39, 75, 76, 77, 90, 300] {
        for height in [0, 1, 2, 5, 9, 24, 60] {
            for is_help in [false, true] {
                screen(&state, width, height, is_help);
            }
        }
    }
    let all = screen(&state, 80, 24, true).join("\n");
    for words in [
        "q, Esc, Ctrl-C  end",
        "below watermark  frames are free",
        "first.",
    ] {
        assert!(all.contains(words), "{words} in\n{all}");
    }
}

#[test]
fn lines_and_readings_are_bounded() {
    let mut state = TopState::new(3, true, Vec::new(), reading(0, &[100], VMSTAT));
    let failure = |n: u32| {
        format!(
            "             git-{n}       [001] .....   100.500000: mm_page_alloc: page=(null) pfn=0xffffffffffffffff order=3 migratetype=0 gfp_flags=GFP_ATOMIC\n"
        )
    };
    let fallback = |n: u32| {
        format!(
            "             p{n}-8       [001] .....   100.500000: mm_page_alloc_extfrag: page=0 pfn=0x8 alloc_migratetype=0 fallback_migratetype=1\n"
        )
    };
    for n in 0..1000 {
        feed(&mut state, &(failure(n) + &fallback(n)));
    }
    assert_eq!((state.failures.len(), state.events.len()), (200, 200));
    assert_eq!(state.counts.failures[3], 1000);
    assert_eq!(state.failures.back().unwrap().task, 999);
    for second in 0..1000 {
        state.read(reading(second / 20, &[100], VMSTAT));
    }
    assert!(state.past.len() <= 701, "{}", state.past.len());
}
