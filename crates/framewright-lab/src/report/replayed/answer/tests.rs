//! The answer, by tables of cases: what goes in, and the sentences that come out.

mod settings;

use super::tried::ORDERS;
use super::*;
use crate::replay::{FailureCause, FailureLog, FirstFailure, ModelledSetting};
use crate::report::{Deviation, WhoHolds};
use crate::trace::{RequestCounts, RequestWaits, WaitSum};

const KERNEL: u32 = 0xcc0;
const ATOMIC: u32 = 0x820;
const SOCKET: u32 = 0x52820;

/// Requests of those orders and flags, this many times each.
fn counts(all: &[(usize, Option<u32>, u64)]) -> RequestCounts {
    let mut counts = RequestCounts::default();
    for &(order, flags, n) in all {
        for _ in 0..n {
            counts.note(order, flags);
        }
    }
    counts
}

fn log(all: &[(usize, Option<u32>, u64)], cause: FailureCause) -> FailureLog {
    let counts = counts(all);
    let mut log = FailureLog {
        counts,
        ..FailureLog::default()
    };
    for order in 0..ORDERS {
        log.causes[order][cause as usize] = counts.all[order];
    }
    log.first = all.first().map(|&(order, ..)| FirstFailure {
        order,
        cause,
        ms: 1_250,
        free_frames: 2_560,
        largest: Some(2),
        is_inferred: false,
    });
    log
}

fn policy(name: &str) -> ReplayPolicy {
    name.parse().unwrap()
}

/// Failures of order 3 in pieces, at each squeeze.
fn tried(name: &str, at: &[u64]) -> TriedPolicy {
    tried_beside(name, &[0; 9][..at.len()], at)
}

/// Failures of order 3 in pieces, at each squeeze, and so many at a watermark `beside` them.
fn tried_beside(name: &str, beside: &[u64], at: &[u64]) -> TriedPolicy {
    let of = |count: u64| {
        let mut failures = [0; ORDERS];
        failures[3] = count;
        failures
    };
    TriedPolicy {
        policy: policy(name),
        counts: TriedCounts {
            failures: (beside.iter().zip(at))
                .map(|(beside, at)| of(beside + at))
                .collect(),
            in_pieces: at.iter().map(|&at| of(at)).collect(),
            ..TriedCounts::default()
        },
    }
}

pub(super) fn figures() -> AnswerFigures {
    AnswerFigures {
        kernel: RecordedKernel::default(),
        nothing: None,
        is_invented: false,
        zones: AnswerZones::None,
        squeeze: 0,
        is_as_recorded: true,
        served: counts(&[(0, Some(KERNEL), 900), (3, Some(ATOMIC), 100)]),
        refused: FailureLog::default(),
        refused_served: 0,
        stalls: None,
        waits: RequestWaits::default(),
        base: policy("linux-6.12"),
        failed: FailureLog::default(),
        replayed_stalls: None,
        tried: vec![tried("linux-6.12", &[0])],
        settings: None,
        settings_asked: SettingsAsked::Few,
        errors: None,
        proposed: None,
        holds: None,
        owner: None,
    }
}

/// Policies, and what they fail at each squeeze.
type Others<'a> = &'a [(&'a str, &'a [u64])];

/// In less memory, where 50 requests of order 3 fail under the recording kernel's rules.
fn squeezed(cause: FailureCause, others: &[(&str, &[u64])], error: Option<f64>) -> AnswerFigures {
    let mut all = vec![tried("linux-6.12", &[50, 45, 60])];
    all.extend(others.iter().map(|(name, at)| tried(name, at)));
    let deviation = |error| Deviation {
        linux: 1.0,
        model: 1.0 + error,
        error,
    };
    AnswerFigures {
        squeeze: 40_000,
        is_as_recorded: false,
        failed: log(&[(3, Some(ATOMIC), 50)], cause),
        tried: all,
        errors: error.map(|error| vec![Some(deviation(error)); ORDERS]),
        ..figures()
    }
}

fn said(figures: &AnswerFigures) -> String {
    let answer = answer(figures);
    assert!(
        (1..=SENTENCES_MAX).contains(&answer.sentences.len()),
        "{answer:?}"
    );
    for sentence in &answer.sentences {
        assert!(
            sentence.ends_with('.') && !sentence.contains(".."),
            "{sentence}"
        );
    }
    answer.sentences.join("\n")
}

#[test]
fn a_recording_that_cannot_answer_says_why_and_nothing_else() {
    let hollow = AnswerFigures {
        nothing: Some("there is no allocation and no free in it".into()),
        ..squeezed(FailureCause::Fragmented, &[], None)
    };
    assert_eq!(
        said(&hollow),
        "This recording cannot say, because there is no allocation and no free in it."
    );
}

#[test]
fn what_a_machine_suffered_is_told_with_denominators() {
    let cases = [
        (vec![], "None of 1 000 requests failed on this machine."),
        (
            vec![(3, Some(SOCKET), 4), (9, Some(SOCKET), 2)],
            "6 of 1 006 requests failed on this machine (4 of order 3, 2 of order 9), and none of them could have printed \
             `page allocation failure`, because all carry __GFP_NOWARN; 2 of 2 requests for a huge page failed.",
        ),
        (
            vec![(3, Some(ATOMIC), 4), (0, Some(SOCKET), 1)],
            "5 of 1 005 requests failed on this machine (1 of order 0, 4 of order 3), and 4 of them could have printed \
             `page allocation failure`.",
        ),
        (
            vec![(3, Some(SOCKET), 4), (2, None, 1), (9, None, 3)],
            "8 of 1 008 requests failed on this machine (1 of order 2, 4 of order 3, 3 of order 9), and none of them is known \
             to be one that could have printed `page allocation failure` (4 have no flags).",
        ),
    ];
    for (refused, says) in cases {
        let figures = AnswerFigures {
            refused: log(&refused, FailureCause::Watermark),
            ..figures()
        };
        assert_eq!(said(&figures).lines().next().unwrap(), says);
    }
    let squeezed = said(&squeezed(FailureCause::Fragmented, &[], None));
    let first = squeezed.lines().next().unwrap();
    assert!(
        first.contains(" with 40 000 frames (156.2 MiB) less, under the rules of linux-6.12 "),
        "{first}"
    );
    let spared = AnswerFigures {
        served: counts(&[(0, Some(KERNEL), 900), (9, Some(SOCKET), 13)]),
        refused: log(&[(3, Some(SOCKET), 4)], FailureCause::Watermark),
        ..figures()
    };
    let spared = said(&spared);
    let first = spared.lines().next().unwrap();
    assert!(
        first.ends_with("; none of 13 requests for a huge page failed."),
        "{first}"
    );
    let figures = AnswerFigures {
        stalls: Some(MachineStalls {
            reclaimed: 2_886,
            compacted: 1,
        }),
        ..figures()
    };
    let says = "None of 1 000 requests failed on this machine; requests reclaimed 2 886 times and compacted once first.";
    assert_eq!(said(&figures).lines().next().unwrap(), says);
}

#[test]
fn what_requests_waited_for_is_told_by_order_where_events_show_it() {
    let wait = |requests, ms: u64| WaitSum {
        requests,
        times: 2 * requests,
        ns: ms * 1_000_000,
    };
    let none = [WaitSum::default(); ORDERS];
    let (mut reclaim, mut compaction) = (none, none);
    (reclaim[0], reclaim[3], compaction[9]) = (wait(1_000, 1_500), wait(2, 1), wait(7, 20));
    let with = |reclaim, compaction| AnswerFigures {
        waits: RequestWaits {
            reclaim,
            compaction,
        },
        // What files count is not needed then.
        stalls: Some(MachineStalls {
            reclaimed: 9,
            compacted: 9,
        }),
        ..figures()
    };
    let first = |figures: &AnswerFigures| said(figures).lines().next().unwrap().to_owned();
    assert_eq!(
        first(&with(Some(reclaim), Some(compaction))),
        "None of 1 000 requests failed on this machine; of all requests 1 002 reclaimed for 1.501 s in all (1 000 of order \
         0, 2 of order 3) and 7 compacted for 0.020 s in all (7 of order 9) first."
    );
    assert!(
        first(&with(Some(none), Some(none))).ends_with("; none had to reclaim or compact first.")
    );
    // Half of it is not all of it.
    assert!(
        first(&with(Some(reclaim), None))
            .ends_with("requests reclaimed 9 times and compacted 9 times first.")
    );
    let squeezed = AnswerFigures {
        is_as_recorded: false,
        ..with(Some(reclaim), Some(compaction))
    };
    assert!(
        !first(&squeezed).contains("1 002"),
        "the machine had more memory"
    );
}

#[test]
fn a_machine_that_never_waited_is_told_so() {
    let figures = AnswerFigures {
        stalls: Some(MachineStalls::default()),
        ..figures()
    };
    let says =
        "None of 1 000 requests failed on this machine; none had to reclaim or compact first.";
    assert_eq!(said(&figures).lines().next().unwrap(), says);
}

#[test]
fn where_nothing_fails_no_rule_is_needed_and_a_squeeze_is_proposed() {
    let says = "None of 1 000 requests failed on this machine.\n\
                No other rules are needed: those of linux-6.12 serve every request";
    assert_eq!(said(&figures()), format!("{says}."));
    let proposed = AnswerFigures {
        proposed: Some(256),
        ..figures()
    };
    assert_eq!(
        said(&proposed),
        format!("{says}; --squeeze 256 (1.0 MiB) makes some fail.")
    );
}

#[test]
fn what_the_machine_refused_and_a_replay_serves_is_not_judged() {
    let figures = AnswerFigures {
        refused: log(&[(3, Some(SOCKET), 7)], FailureCause::Watermark),
        refused_served: 7,
        ..figures()
    };
    let said = said(&figures);
    assert!(
        said.contains(
            "This recording cannot say which rules would have helped, because a replay of the machine's own rules \
             (linux-6.12) serves 7 of these 7"
        ),
        "{said}"
    );
    assert!(said.contains("For the log nothing has to change"), "{said}");
    assert!(said.contains("vm.min_free_kbytes"), "{said}");
}

#[test]
fn a_replay_is_said_to_have_zones_where_it_has_them() {
    let with = |zones| {
        said(&AnswerFigures {
            refused: log(&[(3, Some(SOCKET), 7)], FailureCause::Watermark),
            refused_served: 7,
            zones,
            ..figures()
        })
    };
    let without = with(AnswerZones::None);
    for says in [
        "a replay does not have, watermarks and zones above all.",
        "this replay has no zones and cannot say how much that helps.",
    ] {
        assert!(without.contains(says), "{says}\nis not in\n{without}");
    }
    let zoned = with(AnswerZones::Recorded);
    for says in [
        "admits requests by the watermarks of the machine's zones, as the machine did;",
        "so that reclaim begins earlier; this replay cannot say how much that helps.",
    ] {
        assert!(zoned.contains(says), "{says}\nis not in\n{zoned}");
    }
    assert!(!zoned.contains("no zones") && !zoned.contains("zones above all"));
    let computed = with(AnswerZones::Computed);
    assert!(
        computed.contains("worked out from how much memory there was"),
        "{computed}"
    );
    assert!(!computed.contains("as the machine did"), "{computed}");
}

#[test]
fn invented_memory_says_nothing_of_causes_and_rules() {
    let figures = AnswerFigures {
        is_invented: true,
        ..squeezed(
            FailureCause::Fragmented,
            &[("concentrated", &[0, 0, 0])],
            None,
        )
    };
    let said = said(&figures);
    assert!(
        said.contains("cannot say what they failed for, because its free memory is invented"),
        "{said}"
    );
    assert!(
        said.contains("cannot say which rules would have helped, because text"),
        "{said}"
    );
    assert!(!said.contains("would have helped: order"), "{said}");
}

#[test]
fn the_moment_and_the_three_causes_are_told() {
    for (cause, says) in [
        (
            FailureCause::Exhausted,
            "50 failed for want of any memory, 0 at a watermark, and 0 because",
        ),
        (
            FailureCause::Watermark,
            "0 failed for want of any memory, 50 at a watermark, and 0 because",
        ),
        (
            FailureCause::Fragmented,
            "0 failed for want of any memory, 0 at a watermark, and 50 because",
        ),
    ] {
        let said = said(&squeezed(cause, &[], None));
        let when = "tipped over at 1.2 s with a request of order 3, when 10.0 MiB were free, in blocks up to order 2: of \
                    the 50, ";
        assert!(said.contains(&format!("{when}{says}")), "{said}");
    }
}

#[test]
fn rules_have_helped_only_as_far_as_the_figures_tell() {
    let none = "None of these rules would have helped: order 3 fails 50 times (45 to 60 over 3 nearby replays) under \
                those of linux-6.12, and no fewer under any other.";
    let cases: [(Others<'_>, Option<f64>, &str); 8] = [
        (&[], None, none),
        (&[("linux-4.4", &[50, 10, 10])], None, none),
        (
            &[("linux-4.4", &[10, 10, 44])],
            None,
            "The rules of linux-4.4 would have helped: order 3 fails 50 times (45 to 60 over 3 nearby replays) under those \
             of linux-6.12, and 10 times (10 to 44 over 3 nearby replays) under these (how far the model is off there is \
             not known).",
        ),
        (
            &[("linux-4.4", &[10, 10, 44])],
            Some(39.0),
            "under these (more than the model's error of 39).",
        ),
        (
            &[("linux-4.4", &[10, 10, 44])],
            Some(40.0),
            "None of these rules would surely have helped: order 3 fails 50 times (45 to 60 over 3 nearby replays) under \
             those of linux-6.12 and 10 times (10 to 44 over 3 nearby replays) under those of linux-4.4, which is within the \
             model's error of 40.",
        ),
        (
            &[("linux-4.4", &[10, 10, 45])],
            None,
            "but the two ranges overlap.",
        ),
        // An error of 0 of what never happened is not known.
        (
            &[
                ("linux-4.4", &[30, 30, 30]),
                ("concentrated", &[1, 0, 2]),
                ("proposal", &[1, 1, 1]),
            ],
            None,
            "The rules of concentrated would have helped: order 3 fails 50 times",
        ),
        (
            &[("linux-4.4", &[30, 30, 30]), ("concentrated", &[1, 0, 2])],
            None,
            "; fewer fail under linux-4.4 too.",
        ),
    ];
    for (others, error, says) in cases {
        let said = said(&squeezed(FailureCause::Fragmented, others, error));
        assert!(said.contains(says), "{says}\nis not in\n{said}");
    }
}

#[test]
fn an_error_of_what_never_happened_is_not_known() {
    let mut figures = squeezed(
        FailureCause::Fragmented,
        &[("linux-4.4", &[10, 10, 10])],
        None,
    );
    let empty = Deviation {
        linux: 0.0,
        model: 0.0,
        error: 0.0,
    };
    figures.errors = Some(vec![Some(empty); ORDERS]);
    assert!(said(&figures).contains("how far the model is off there is not known"));
}

#[test]
fn no_rule_makes_memory() {
    let figures = squeezed(
        FailureCause::Exhausted,
        &[("concentrated", &[0, 0, 0])],
        None,
    );
    let said = said(&figures);
    assert!(said.contains(
        "None of these rules would have helped: most requests failed because memory was used up"
    ));
    assert!(
        said.contains("To change: give the machine more memory"),
        "{said}"
    );
    assert!(!said.contains("concentrated"), "{said}");
}

/// What is said of rules where so many requests of order 3 failed at a watermark and in pieces, under each policy.
fn judged(of: &[(&str, u64, u64)], error: Option<f64>) -> String {
    let mut figures = squeezed(FailureCause::Watermark, &[], error);
    let (_, marks, pieces) = of[0];
    let mut failed = FailureLog {
        first: figures.failed.first,
        ..FailureLog::default()
    };
    failed.counts.all[3] = marks + pieces;
    failed.counts.unseen[3] = marks + pieces;
    failed.causes[3][FailureCause::Watermark as usize] = marks;
    failed.causes[3][FailureCause::Fragmented as usize] = pieces;
    figures.failed = failed;
    figures.tried = (of.iter())
        .map(|&(name, marks, pieces)| tried_beside(name, &[marks; 3], &[pieces; 3]))
        .collect();
    let said = said(&figures);
    let says = |line: &&str| line.contains("rules") && line.contains("helped:");
    said.lines().find(says).unwrap().to_owned()
}

#[test]
fn rules_are_judged_only_by_what_failed_in_pieces() {
    // One request less at a watermark is no merit of rules.
    let marks = judged(&[("linux-6.12", 37, 0), ("linux-4.4", 36, 0)], None);
    assert_eq!(
        marks,
        "None of these rules would have helped: no request failed because what was free lay in pieces, and rules mend \
         nothing else."
    );
    // Nor are thousands, beside five in pieces.
    let five = judged(
        &[("linux-6.12", 33_007, 5), ("largest-first", 25_542, 0)],
        None,
    );
    assert_eq!(
        five,
        "None of these rules would surely have helped: order 3 fails 5 times (5 to 5 over 3 nearby replays) because memory \
         lay in pieces under those of linux-6.12 and 0 times (0 to 0 over 3 nearby replays) under those of largest-first, \
         which is too few to tell, because how far the model is off there is not known."
    );
    let none = judged(
        &[("linux-6.12", 33_000, 90), ("largest-first", 25_542, 90)],
        None,
    );
    assert!(
        none.starts_with("None of these rules would have helped: order 3 fails 90 times"),
        "{none}"
    );
    // What fails in pieces no more but at a watermark instead has failed.
    let instead = judged(&[("linux-6.12", 10, 90), ("largest-first", 100, 0)], None);
    assert!(
        instead.ends_with("and no fewer under any other."),
        "{instead}"
    );
    let helped = judged(&[("linux-6.12", 10, 90), ("largest-first", 10, 4)], None);
    assert!(
        helped.starts_with(
            "The rules of largest-first would have helped: order 3 fails 90 times (90 to 90 over 3 nearby replays) because \
             memory lay in pieces under those of linux-6.12, and 4 times"
        ),
        "{helped}"
    );
}

#[test]
fn a_handful_is_no_reason_where_the_error_is_not_known() {
    let of =
        |before, after, error| judged(&[("linux-6.12", 0, before), ("linux-4.4", 0, after)], error);
    assert!(of(20, 10, None).ends_with(
        "which is too few to tell, because how far the model is off there is not known."
    ));
    assert!(of(20, 9, None).starts_with("The rules of linux-4.4 would have helped"));
    assert!(of(20, 18, Some(1.0)).starts_with("The rules of linux-4.4 would have helped"));
    assert!(of(20, 19, Some(0.5)).ends_with("which is too few to tell."));
}

#[test]
fn what_to_change_follows_from_the_cause_and_from_the_rules_that_helped() {
    use FailureCause::{Exhausted, Fragmented, Watermark};
    let cases: [(FailureCause, Option<&str>, &str); 7] = [
        (Exhausted, None, "more memory"),
        (Watermark, None, "vm.min_free_kbytes"),
        (
            Fragmented,
            None,
            "vm.compaction_proactiveness higher (if this kernel has it)",
        ),
        (
            Fragmented,
            Some("concentrated"),
            "in no kernel: it wants a patch",
        ),
        (
            Fragmented,
            Some("linux-6.12-nofragment"),
            "vm.defrag_mode=1",
        ),
        (
            Fragmented,
            Some("linux-4.4"),
            "no setting brings the rules of linux-4.4 back",
        ),
        (Fragmented, Some("proposal"), "never merged"),
    ];
    for (cause, helper, says) in cases {
        let others: Vec<(&str, &[u64])> = helper
            .iter()
            .map(|name| (*name, &[0u64, 0, 0][..]))
            .collect();
        let said = said(&squeezed(cause, &others, None));
        assert!(
            said.contains("To change: ") && said.contains(says),
            "{says}\nis not in\n{said}"
        );
    }
}

#[test]
fn requests_that_would_have_waited_are_told_unless_the_replay_let_them() {
    let mut figures = squeezed(FailureCause::Fragmented, &[], None);
    figures.failed = log(
        &[(3, Some(KERNEL), 20), (3, Some(ATOMIC), 30)],
        FailureCause::Fragmented,
    );
    let waits =
        "A replay neither reclaims nor compacts: 20 of the 50 requests that fail in it may do so";
    assert!(said(&figures).contains(waits));
    figures.replayed_stalls = Some(12);
    let said = said(&figures);
    assert!(
        !said.contains(waits) && said.contains("; requests reclaimed 12 times first."),
        "{said}"
    );
}

#[test]
fn reported_failures_decide_by_which_order_rules_are_judged() {
    let mut figures = squeezed(FailureCause::Fragmented, &[], None);
    let of = |all: &[(usize, Option<u32>, u64)]| log(all, FailureCause::Fragmented);
    for (all, order) in [
        (vec![(4, Some(SOCKET), 90), (2, Some(ATOMIC), 3)], Some(2)),
        (vec![(4, Some(SOCKET), 90), (2, Some(SOCKET), 3)], Some(4)),
        (vec![(4, Some(SOCKET), 9), (2, Some(SOCKET), 9)], Some(2)),
        (vec![(0, Some(ATOMIC), 90), (1, Some(SOCKET), 1)], Some(1)),
        (vec![(0, Some(ATOMIC), 90)], Some(0)),
        (vec![], None),
    ] {
        figures.failed = of(&all);
        assert_eq!(figures.judged_order(), order, "{all:?}");
    }
}

#[test]
fn what_fails_in_a_replay_alone_is_the_model_s_error() {
    let figures = AnswerFigures {
        is_as_recorded: true,
        squeeze: 0,
        ..squeezed(
            FailureCause::Fragmented,
            &[("concentrated", &[0, 0, 0])],
            None,
        )
    };
    assert_eq!(
        said(&figures),
        "None of 1 000 requests failed on this machine.\nThis recording cannot say which rules are better, because the \
         machine served all that it was asked for: the 50 requests that fail in a replay of its own rules (linux-6.12) are \
         the model's error."
    );
}

#[test]
fn rules_are_judged_by_what_an_event_showed() {
    let mut figures = squeezed(FailureCause::Fragmented, &[], None);
    let of = |all: &[(usize, Option<u32>, u64)]| log(all, FailureCause::Fragmented);
    figures.failed = of(&[(9, None, 30), (4, Some(SOCKET), 2)]);
    assert_eq!(figures.judged_order(), Some(4));
    figures.failed = of(&[(9, None, 30)]);
    assert_eq!(figures.judged_order(), Some(9));
}

#[test]
fn who_is_in_the_way_stands_in_the_answer_and_leaves_it_at_five_sentences() {
    let most = WhoHolds::Most {
        who: "cc1".into(),
        frames: 1_234,
        of: 5_000,
        before: 3_000,
    };
    let said = |figures: AnswerFigures| answer(&figures).sentences;
    let says = "t the end 5 000 frames that cannot move share pageblocks with movable ones: 3 000 of them were held \
                before the recording, and of those whose asker has a name cc1 holds the most: 1 234 frames.";
    let served = AnswerFigures {
        holds: Some(most.clone()),
        ..figures()
    };
    assert_eq!(said(served)[1], format!("A{says}"));
    let mut short = squeezed(
        FailureCause::Fragmented,
        &[("concentrated", &[5, 4, 6])],
        None,
    );
    let before = said(short.clone());
    short.holds = Some(most);
    let with = said(short.clone());
    assert_eq!(with.len(), before.len());
    assert_eq!(
        with[1],
        format!("{}; a{says}", before[1].trim_end_matches('.'))
    );
    short.holds = Some(WhoHolds::NoNames);
    assert!(said(short.clone())[1].ends_with(
        "; the recording does not say who holds the frames in the way, because it has no names."
    ));
    short.holds = Some(WhoHolds::Nothing);
    assert!(said(short)[1].contains("; nothing that was asked for while it was recorded"));
}

#[test]
fn a_dump_of_page_owner_says_who_holds_what_no_recording_names() {
    let figures = AnswerFigures {
        holds: Some(WhoHolds::NoNames),
        owner: Some(("__alloc_skb".into(), 1_234, 5_000)),
        ..squeezed(FailureCause::Fragmented, &[], None)
    };
    let says = "because it has no names; by page_owner __alloc_skb is the caller that holds the most of what is in the way in mixed pageblocks: \
                1 234 of 5 000 frames.";
    assert!(said(&figures).lines().nth(1).unwrap().ends_with(says));
    let alone = AnswerFigures {
        holds: None,
        ..figures
    };
    assert!(said(&alone).contains("lay in pieces; by page_owner __alloc_skb"));
}

#[test]
fn the_first_sentences_come_to_a_number_each() {
    let told = |figures: &AnswerFigures| -> Vec<(AnswerPart, String, String)> {
        let answer = answer(figures);
        let place = |one: &Headline| assert!(one.sentence < answer.sentences.len());
        answer.headlines.iter().for_each(place);
        let told = answer.headlines.into_iter();
        told.map(|one| (one.part, one.figure.value, one.figure.what))
            .collect()
    };
    let card = |part, value: &str, what: &str| (part, value.to_owned(), what.to_owned());
    let suffered = card(AnswerPart::Suffered, "50", "of 1 000 requests failed");
    let tipped = card(
        AnswerPart::Tipped,
        "1.2 s",
        "until an order-3 request failed, because free memory lay in pieces",
    );
    let short = |others| squeezed(FailureCause::Fragmented, others, None);
    let helped = card(
        AnswerPart::Helped,
        "50 → 5",
        "failures of order 3, from linux-6.12 to concentrated",
    );
    let found = told(&short(&[("concentrated", &[5, 4, 6])]));
    assert_eq!(found, [suffered, tipped, helped]);
    // Within chance nothing has helped, and a replay that cannot say does not say 0.
    let within = &told(&short(&[("concentrated", &[40, 30, 55])]))[2];
    assert_eq!(within.1, "0 of 1");
    assert_eq!(within.2, "other rules would surely have helped");
    let alone = &told(&short(&[]))[2];
    assert_eq!(alone.1, "?");
    assert_eq!(alone.2, "no other rules were tried");
    let mut invented = short(&[]);
    invented.is_invented = true;
    let parts: Vec<_> = told(&invented)
        .into_iter()
        .map(|one| (one.0, one.1))
        .collect();
    assert_eq!(
        parts,
        [
            (AnswerPart::Suffered, "50".into()),
            (AnswerPart::Helped, "?".into())
        ]
    );
    // Nor does one where a replay of the machine's rules serves what the machine did not, or fails what it served.
    let unsaid = "this recording cannot say which rules would have helped";
    let served_in_replay = AnswerFigures {
        refused: log(&[(3, Some(SOCKET), 7)], FailureCause::Watermark),
        refused_served: 7,
        ..figures()
    };
    let failed_in_replay = AnswerFigures {
        is_as_recorded: true,
        squeeze: 0,
        ..short(&[("concentrated", &[0, 0, 0])])
    };
    for figures in [served_in_replay, failed_in_replay] {
        let last = told(&figures).pop().unwrap();
        assert_eq!(last, card(AnswerPart::Helped, "?", unsaid));
    }
    // Where nothing failed there is no moment at which it tipped over.
    let served = told(&figures());
    assert_eq!(served.len(), 2);
    assert_eq!(served[1].2, "requests fail under linux-6.12");
    let nothing = AnswerFigures {
        nothing: Some("nothing was asked for".into()),
        ..figures()
    };
    assert!(told(&nothing).is_empty());
}
