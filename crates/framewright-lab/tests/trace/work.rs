//! PFT3: what the kernel did about memory, from text to the file and back.

use crate::support::{columns_file, error, events, input, order, reader};
use framewright::Mobility;
use framewright_lab::trace::reduce::{Reducer, Reduction};
use framewright_lab::trace::{
    EventKind, KernelWork, Recording, Trace, TraceOp, TracedWork, WorkEvent, WorkKind, read_pft,
    write_pft2, write_pft3,
};

const ALL: TracedWork = TracedWork {
    background: true,
    reclaim: true,
    compaction: true,
};

/// One of each kind, beside two requests.
fn small() -> Trace {
    let alloc = TraceOp::alloc(false, order(3), Mobility::Movable, 0, 255, 0);
    let kinds = [
        (
            0,
            WorkKind::Woke {
                node: 0,
                order: order(9),
            },
        ),
        (
            0,
            WorkKind::Reclaimed {
                order: order(3),
                ns: 1000,
                frames: 32,
                is_again: false,
            },
        ),
        (
            1,
            WorkKind::Compacted {
                order: order(3),
                ns: 5,
                is_again: true,
            },
        ),
        (2, WorkKind::BackgroundCompacted { ns: 7 }),
        (3, WorkKind::Slept { node: 300 }),
    ];
    Trace {
        nframes: 1024,
        ops: vec![alloc, TraceOp::tick(5), alloc],
        work: KernelWork {
            traced: ALL,
            events: kinds.map(|(at, kind)| WorkEvent { at, kind }).to_vec(),
        },
        ..Trace::default()
    }
}

const WORK: &[u8] = &[
    7, 0, 0x90, 0, 0, 0x32, 0xe8, 7, 32, 1, 0x3b, 5, 1, 4, 7, 1, 1, 0xac, 2,
];

fn by_hand(work: &[u8]) -> Vec<u8> {
    let columns: [(&[u8; 8], &[u8]); 14] = [
        (b"init\0\0\0\0", &[]),
        (b"absent\0\0", &[]),
        (b"gfptab\0\0", &[]),
        (b"ops\0\0\0\0\0", &[3 << 2 | 1 << 6, 0xff, 3 << 2 | 1 << 6]),
        (b"cpu\0\0\0\0\0", &[0; 2]),
        (b"free\0\0\0\0", &[]),
        (b"part\0\0\0\0", &[]),
        (b"gfp\0\0\0\0\0", &[255; 2]),
        (b"pid\0\0\0\0\0", &[0; 4]),
        (b"tick\0\0\0\0", &[5]),
        (b"comm\0\0\0\0", &[]),
        (b"stacks\0\0", &[]),
        (b"stack\0\0\0", &[]),
        (b"work\0\0\0\0", work),
    ];
    columns_file(b"PFT3", [1024, 0, 2, 3, 14], &columns)
}

fn written(trace: &Trace) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_pft3(trace, &mut bytes).unwrap();
    bytes
}

#[test]
fn the_kernel_s_work_is_written_as_the_form_says_and_read_as_it_was() {
    assert_eq!(written(&small()), by_hand(WORK));
    let found = Recording::from_input(input(by_hand(WORK)).unwrap()).unwrap();
    assert!(matches!(found, Recording::Columns(found) if *found == small()));
    // Nothing traced costs an empty column; traced and not happened is not the same.
    let nothing = Trace {
        work: KernelWork::default(),
        ..small()
    };
    assert_eq!(written(&nothing), by_hand(&[]));
    let mut quiet = small();
    quiet.work.events.clear();
    assert_eq!(written(&quiet), by_hand(&[7]));
    assert_eq!(read_pft(input(by_hand(&[7])).unwrap()).unwrap(), quiet);
    // The second version is read for ever, and has the same trace without that.
    let mut bytes = Vec::new();
    write_pft2(&small(), &mut bytes).unwrap();
    assert_eq!(read_pft(input(bytes).unwrap()).unwrap(), nothing);
}

#[test]
fn p1_work_that_cannot_be_is_refused_with_its_place() {
    let refused = |work: &[u8]| {
        let error = read_pft(input(by_hand(work)).unwrap()).unwrap_err();
        error.to_string()
    };
    for (work, says) in [
        (&[0][..], "says 0 of what was traced, expected 1 to 7"),
        (&[8], "says 8 of what was traced, expected 1 to 7"),
        (
            &[7, 4, 1, 0],
            "entry 0 of the column `work` is behind the last of 3 operations",
        ),
        (&[7, 0], "ends too early or is damaged at entry 0"),
        (
            &[7, 0, 1, 0, 0, 5, 0],
            "ends too early or is damaged at entry 1",
        ),
        // A node above 65,535; an order of what has none.
        (&[7, 0, 1, 0x80, 0x80, 4], "damaged at entry 0"),
        (&[7, 0, 0x11, 0], "damaged at entry 0"),
        (
            &[6, 0, 1, 0],
            "entry 0 of the column `work` is of a kind that was not traced",
        ),
    ] {
        assert!(refused(work).contains(says), "{}", refused(work));
    }
    let unwritable = |change: fn(&mut KernelWork)| {
        let mut trace = small();
        change(&mut trace.work);
        write_pft3(&trace, Vec::new()).unwrap_err().to_string()
    };
    let says = unwritable(|work| work.traced.reclaim = false);
    assert!(says.contains("entry 1 of the kernel's work"), "{says}");
    let says = unwritable(|work| work.events.reverse());
    assert!(says.contains("out of order"), "{says}");
    let says = unwritable(|work| work.events[4].at = 4);
    assert!(says.contains("behind the last operation"), "{says}");
    let says = unwritable(|work| work.events = vec![work.events[0]; 30_000]);
    assert!(
        says.contains("30000 pieces of the kernel's work beside 3 operations"),
        "{says}"
    );
}

#[test]
fn a_form_that_is_newer_is_refused_as_such() {
    let mut bytes = by_hand(WORK);
    bytes[3] = b'6';
    let says = Recording::from_input(input(bytes).unwrap())
        .unwrap_err()
        .to_string();
    assert!(
        says.contains("a newer form, expected PFT1 to PFT5"),
        "{says}"
    );
}

/// Task, microseconds and event.
fn line(task: u32, us: u64, event: &str) -> String {
    flagged(".....", task, us, event)
}

fn flagged(flags: &str, task: u32, us: u64, event: &str) -> String {
    format!(
        "    cat-{task} [000] {flags} {}.{:06}: {event}\n",
        us / 1_000_000,
        us % 1_000_000
    )
}

fn alloc(pfn: u64, order: u8) -> String {
    format!(
        "mm_page_alloc: page=00000000aa pfn={pfn:#x} order={order} migratetype=0 gfp_flags=GFP_KERNEL"
    )
}

fn reduced(text: &str, traced: Option<TracedWork>) -> Reduction {
    let mut reader = reader(text);
    let mut reducer = Reducer::new(None);
    if let Some(traced) = traced {
        reducer = reducer.traced(traced);
    }
    while let Some(event) = reader.next_event().unwrap() {
        reducer.push_asked(&event, reader.take_asked()).unwrap();
    }
    reducer.finish(None).unwrap()
}

/// A task reclaims, or compacts a zone, between two moments.
fn reclaims(task: u32, us: [u64; 2]) -> String {
    line(task, us[0], RECLAIM) + &line(task, us[1], RECLAIM_END)
}

fn compacts(task: u32, us: [u64; 2]) -> String {
    line(task, us[0], COMPACTION) + &line(task, us[1], COMPACTION_END)
}

const RECLAIM: &str = "mm_vmscan_direct_reclaim_begin: order=3 gfp_flags=GFP_KERNEL";
const RECLAIM_END: &str = "mm_vmscan_direct_reclaim_end: nr_reclaimed=32";
const COMPACT: &str = "mm_compaction_try_to_compact_pages: order=3 gfp_mask=GFP_KERNEL priority=1";
const COMPACTION: &str =
    "mm_compaction_begin: zone_start=0x1 migrate_pfn=0x1 free_pfn=0x2 zone_end=0x2, mode=async";
const COMPACTION_END: &str = "mm_compaction_end: zone_start=0x1 migrate_pfn=0x1 free_pfn=0x2 zone_end=0x2, mode=async status=success";
const WAKE: &str = "mm_vmscan_kswapd_wake: nid=0 order=3";
const SLEEP: &str = "mm_vmscan_kswapd_sleep: nid=0";

#[test]
fn a_request_waits_from_each_beginning_to_its_end_and_is_one_request() {
    let text = [
        line(9, 0, &alloc(8, 0)),
        line(7, 10, WAKE),
        line(1, 20, COMPACT),
        compacts(1, [21, 25]),
        compacts(1, [26, 28]),
        line(1, 30, RECLAIM),
        // What it takes while it reclaims, and for something else.
        line(1, 31, &alloc(32, 3)),
        line(1, 40, RECLAIM_END),
        line(1, 41, &alloc(16, 0)),
        reclaims(1, [42, 44]),
        line(1, 45, &alloc(24, 3)),
        reclaims(1, [50, 51]),
        // For no request.
        compacts(8, [60, 65]),
        line(7, 3000, SLEEP),
    ]
    .concat();
    let got = reduced(&text, None);
    let order = order(3);
    let reclaimed = |ns, is_again| WorkKind::Reclaimed {
        order,
        ns,
        frames: 32,
        is_again,
    };
    let compacted = |ns, is_again| WorkKind::Compacted {
        order,
        ns,
        is_again,
    };
    let expected = [
        (1, WorkKind::Woke { node: 0, order }),
        (1, compacted(4000, false)),
        (1, compacted(2000, true)),
        (2, reclaimed(10_000, false)),
        (3, reclaimed(2000, true)),
        (4, reclaimed(1000, false)),
        (4, WorkKind::BackgroundCompacted { ns: 5000 }),
        (5, WorkKind::Slept { node: 0 }),
    ];
    let of = |event: &WorkEvent| (event.at, event.kind);
    let events: Vec<_> = got.trace.work.events.iter().map(of).collect();
    assert_eq!(events, expected);
    assert_eq!(got.trace.work.traced, ALL);
    assert_eq!(
        read_pft(input(written(&got.trace)).unwrap()).unwrap(),
        got.trace
    );
}

#[test]
fn what_an_interrupt_takes_ends_no_request_of_the_task_that_it_stopped() {
    let is_again = |flags: &str| {
        let text = [
            reclaims(1, [10, 12]),
            flagged(flags, 1, 13, &alloc(32, 3)),
            reclaims(1, [14, 16]),
        ];
        let got = reduced(&text.concat(), None);
        let of =
            |event: &WorkEvent| matches!(event.kind, WorkKind::Reclaimed { is_again: true, .. });
        got.trace.work.events.iter().map(of).collect::<Vec<_>>()
    };
    // Hard, soft, the one in the other, and one that may not be masked; of old kernels and real-time ones, too.
    for flags in [
        "d.h1.", "..s2.", "d.H..", "d.z1.", "dNZ1.", "d.h1", "d..h3.1",
    ] {
        assert_eq!(is_again(flags), [false, true], "{flags}");
    }
    // The task's own, whatever else is off or due; and where nothing says.
    for flags in ["dNp1.", "bn.1a", "D..ff", "XL.b1", ""] {
        assert_eq!(is_again(flags), [false, false], "{flags}");
    }
}

#[test]
fn work_stands_behind_operations_that_were_put_in() {
    // The free of what nothing shows to have been allocated gets an allocation, half-way back.
    let free = |pfn: u64| format!("mm_page_free: page=00000000aa pfn={pfn:#x} order=0");
    let text = [
        line(1, 0, &alloc(8, 0)),
        line(1, 1, &free(8)),
        line(1, 2, &alloc(1, 0)),
        line(1, 3, &alloc(2, 0)),
        line(1, 4, WAKE),
        line(1, 5, &free(8)),
        line(1, 6, SLEEP),
    ]
    .concat();
    let got = reduced(&text, None);
    assert_eq!(
        (got.anomalies.frees_of_unknown, got.trace.ops.len()),
        (1, 6)
    );
    let places: Vec<u32> = got.trace.work.events.iter().map(|event| event.at).collect();
    assert_eq!(places, [5, 6]);
}

#[test]
fn what_was_lost_or_is_not_traced_makes_no_wait() {
    let lost = "CPU:0 [LOST 3 EVENTS]\n";
    let text = [
        line(1, 0, &alloc(8, 0)),
        line(1, 1, RECLAIM),
        lost.into(),
        line(1, 9, RECLAIM_END),
    ]
    .concat();
    let got = reduced(&text, None);
    assert!(got.trace.work.events.is_empty());
    assert_eq!(got.anomalies.ends_unpaired, 1);
    // A kernel that shows when kswapd wakes, but not when it sleeps.
    let text = [
        line(1, 0, &alloc(8, 0)),
        line(7, 1, WAKE),
        line(1, 2, RECLAIM),
        line(1, 3, RECLAIM_END),
    ]
    .concat();
    let reclaim = TracedWork {
        reclaim: true,
        ..TracedWork::default()
    };
    let got = reduced(&text, Some(reclaim));
    assert_eq!(
        (got.trace.work.events.len(), got.trace.work.traced),
        (1, reclaim)
    );
    // Of text nothing says that nothing happened.
    let got = reduced(&line(1, 0, &alloc(8, 0)), None);
    assert_eq!(got.trace.work, KernelWork::default());
    let got = reduced(&line(1, 0, &alloc(8, 0)), Some(ALL));
    assert_eq!(got.trace.work.traced, ALL);
}

#[test]
fn an_event_without_its_numbers_is_refused() {
    for (event, says) in [
        (
            "mm_vmscan_direct_reclaim_begin: gfp_flags=GFP_KERNEL",
            "no order=, expected mm_vmscan_direct_reclaim_begin with order=",
        ),
        (
            "mm_vmscan_direct_reclaim_end: x",
            "no nr_reclaimed=, expected mm_vmscan_direct_reclaim_end with nr_reclaimed=",
        ),
        (
            "mm_vmscan_kswapd_wake: nid=0",
            "no order=, expected mm_vmscan_kswapd_wake with nid= order=",
        ),
        (
            "mm_vmscan_kswapd_wake: nid=70000 order=0",
            "nid 70000 is above the maximum 65535",
        ),
        (
            "mm_vmscan_kswapd_sleep: ",
            "no nid=, expected mm_vmscan_kswapd_sleep with nid=",
        ),
        (
            "mm_compaction_try_to_compact_pages: order=99",
            "order 99 is above the maximum 20",
        ),
    ] {
        let says_it = error(line(1, 0, &alloc(8, 0)) + &line(1, 0, event));
        assert!(says_it.contains(says), "{says_it}");
    }
    let (events, _) = events(line(1, 0, &alloc(8, 0)) + &line(7, 1, WAKE));
    let node = 0;
    assert_eq!(
        events[1].kind,
        EventKind::BackgroundWakes {
            node,
            order: order(3)
        }
    );
}
