//! What the answer says of settings of the recorded kernel that were tried.

use super::*;

/// Failures of order 3 under a setting at each squeeze, with what it costs.
fn tried_setting(trial: SettingTrial, at: &[u64], stalled: u64, fallbacks: u64) -> TriedSetting {
    TriedSetting {
        trial,
        counts: TriedCounts {
            stalled: vec![stalled],
            fallbacks: vec![fallbacks],
            ..tried_beside("linux-6.12", &vec![0; at.len()], at).counts
        },
    }
}

fn trial(setting: ModelledSetting, from: u64, to: u64) -> SettingTrial {
    SettingTrial {
        setting,
        from: Some(from),
        to,
        is_less: to < from,
    }
}

/// In less memory, where 50 requests of order 3 fail as the kernel was set, with what was tried of its settings.
fn with_settings(cause: FailureCause, tried: Vec<TriedSetting>) -> AnswerFigures {
    let mut figures = AnswerFigures {
        zones: AnswerZones::Recorded,
        ..squeezed(cause, &[], None)
    };
    let as_set = trial(ModelledSetting::DefragMode, 0, 0);
    figures.settings = Some(TriedSettings {
        base: tried_setting(as_set, &[50, 45, 60], 7, 900).counts,
        tried,
        is_remodelled: false,
        is_calibrated: true,
    });
    figures
}

#[test]
fn aw5_a_setting_that_helped_is_told_with_its_price() {
    let defrag = trial(ModelledSetting::DefragMode, 0, 1);
    let boost = trial(ModelledSetting::BoostFactor, 15_000, 0);
    let both = |of_defrag: &[u64], of_boost: &[u64]| {
        let each = vec![
            tried_setting(defrag, of_defrag, 312, 40),
            tried_setting(boost, of_boost, 1, 1_200),
        ];
        let said = said(&with_settings(FailureCause::Fragmented, each));
        let is_change = |line: &&str| line.starts_with("To change: ");
        said.lines().find(is_change).unwrap().to_owned()
    };
    let now = "order 3 fails 50 times (45 to 60 over 3 nearby replays) as it was set";
    let said = both(&[3, 2, 4], &[60, 60, 60]);
    assert!(
        said.starts_with(&format!(
            "To change: vm.defrag_mode from 0 to 1 would have helped: {now}, and 3 times (2 to 4 over 3 nearby replays) with \
             that (how far the model is off there is not known); its price: of 1 000 requests, 312 would have waited (7 as it was \
             set), 40 would have been served from pageblocks of other mobilities (900), and 0 of other orders would have failed \
             (0); what reclaim costs is not counted; not tried: vm.compaction_proactiveness"
        )),
        "{said}"
    );
    // What a kernel reclaimed under the old value a replay keeps.
    let said = both(&[50, 50, 50], &[3, 2, 4]);
    assert!(
        said.starts_with(&format!(
            "To change: vm.watermark_boost_factor from 15000 to 0 may have helped: {now}"
        )),
        "{said}"
    );
    assert!(
        said.contains("so that this is the most it can do; its price: "),
        "{said}"
    );
    // Nor is it said of one without that beside another that has helped.
    let less = both(&[3, 2, 4], &[5, 5, 5]);
    assert!(!less.contains("15000 to 0"), "{less}");
    let min = trial(ModelledSetting::MinFree, 400, 800);
    let each = vec![
        tried_setting(defrag, &[3, 2, 4], 1, 1),
        tried_setting(min, &[5, 5, 5], 1, 1),
    ];
    let more = answer(&with_settings(FailureCause::Fragmented, each));
    let more = more.sentences.join("\n");
    assert!(
        more.contains("; fewer fail with vm.min_free_kbytes from 400 to 800 too; its price: "),
        "{more}"
    );
}

#[test]
fn aw5_settings_are_told_where_memory_was_used_up_for_the_most_and_not_for_more_than_half() {
    let defrag = trial(ModelledSetting::DefragMode, 0, 1);
    let each = vec![tried_setting(defrag, &[3, 2, 4], 1, 1)];
    let mut figures = with_settings(FailureCause::Fragmented, each);
    figures.failed.causes[3] = [0; 3];
    for (cause, times) in [
        (FailureCause::Exhausted, 22),
        (FailureCause::Watermark, 14),
        (FailureCause::Fragmented, 14),
    ] {
        figures.failed.causes[3][cause as usize] = times;
    }
    let said = said(&figures);
    assert!(
        said.contains(
            "To change: give the machine more memory, or let it use less; vm.defrag_mode from 0 to 1 would have helped: "
        ),
        "{said}"
    );
}

#[test]
fn aw5_a_setting_that_makes_the_kernel_work_more_is_never_ruled_out() {
    let of = |trial, at: &[u64]| {
        let each = vec![tried_setting(trial, at, 312, 40)];
        said(&with_settings(FailureCause::Fragmented, each))
    };
    let defrag = trial(ModelledSetting::DefragMode, 0, 1);
    let open = "; that does not rule out vm.defrag_mode, because what a kernel reclaims and compacts for it is in no replay";
    for (at, surely) in [
        ([70, 70, 70], ""),
        ([50, 50, 50], ""),
        ([10, 50, 10], "surely "),
        ([42, 42, 42], "surely "),
    ] {
        let said = of(defrag, &at);
        let begins = format!(
            "To change: none of the recorded kernel's settings that were tried {surely}lets fewer requests of order 3 fail: 50 times"
        );
        assert!(said.contains(&begins), "{begins}\nis not in\n{said}");
        assert!(said.contains(open), "{said}");
    }
    // One that makes it work less errs to its own advantage.
    let less = of(trial(ModelledSetting::DefragMode, 1, 0), &[70, 70, 70]);
    assert!(
        less.contains("none of the recorded kernel's settings that were tried lets"),
        "{less}"
    );
    assert!(!less.contains("rule out"), "{less}");
}

#[test]
fn aw5_a_setting_that_moves_failures_to_other_orders_has_not_helped() {
    let boost = trial(ModelledSetting::BoostFactor, 15_000, 0);
    let of = |elsewhere: [u64; 3]| {
        let mut setting = tried_setting(boost, &[3, 2, 4], 1, 1);
        for (orders, count) in setting.counts.failures.iter_mut().zip(elsewhere) {
            orders[9] = count;
        }
        said(&with_settings(FailureCause::Fragmented, vec![setting]))
    };
    // Fewer of all orders fail: the others' failures are a part of the price.
    let said = of([20, 10, 30]);
    assert!(
        said.contains("15000 to 0 may have helped: order 3 fails"),
        "{said}"
    );
    assert!(
        said.contains(", and 20 of other orders would have failed (0); "),
        "{said}"
    );
    // The replay is told by which it has not.
    for (elsewhere, moved) in [
        ([70, 10, 10], "73 fail and not 50"),
        ([10, 10, 70], "74 fail and not 60 in a nearby replay"),
    ] {
        let said = of(elsewhere);
        assert!(!said.contains("may have helped"), "{said}");
        let begins = "none of the recorded kernel's settings that were tried would surely have helped: order 3 fails 50 times";
        assert!(said.contains(begins), "{said}");
        let moved = format!("15000 to 0 but of all orders {moved}");
        assert!(said.contains(&moved), "{said}");
    }
}

#[test]
fn aw5_the_model_s_error_is_that_of_the_background_it_was_found_with() {
    let defrag = trial(ModelledSetting::DefragMode, 0, 1);
    let with = |is_remodelled, is_calibrated, at: &[u64]| {
        let mut figures = AnswerFigures {
            errors: squeezed(FailureCause::Fragmented, &[], Some(20.0)).errors,
            ..with_settings(
                FailureCause::Fragmented,
                vec![tried_setting(defrag, at, 1, 1)],
            )
        };
        let settings = figures.settings.as_mut().unwrap();
        (settings.is_remodelled, settings.is_calibrated) = (is_remodelled, is_calibrated);
        said(&figures)
    };
    let said = with(false, true, &[3, 2, 4]);
    assert!(
        said.contains("with that (more than the model's error of 20)"),
        "{said}"
    );
    assert!(!said.contains("model of kswapd"), "{said}");
    let within = with(false, true, &[35, 35, 35]);
    assert!(
        within.contains("none of the recorded kernel's settings that were tried surely lets"),
        "{within}"
    );
    let said = with(true, false, &[3, 2, 4]);
    assert!(
        said.contains("as it was set and with a model of kswapd, and 3 times"),
        "{said}"
    );
    assert!(
        said.contains("with that (how far the model is off there is not known)"),
        "{said}"
    );
}

#[test]
fn aw5_settings_are_not_judged_where_nothing_fails_in_the_kernel_as_it_was_set() {
    let defrag = trial(ModelledSetting::DefragMode, 0, 1);
    let each = vec![tried_setting(defrag, &[0, 0, 0], 1, 1)];
    let mut figures = with_settings(FailureCause::Fragmented, each);
    let settings = figures.settings.as_mut().unwrap();
    settings.base = tried_setting(defrag, &[0, 5, 5], 1, 1).counts;
    let said = said(&figures);
    assert!(
        !said.contains("that were tried") && !said.contains("defrag_mode"),
        "{said}"
    );
}

#[test]
fn aw5_rules_are_not_had_by_a_setting_that_was_tried() {
    let text = "vm.watermark_boost_factor 15000\nvm.defrag_mode 0\n";
    let kernel = RecordedKernel {
        settings: Some(crate::trace::state::read_settings("s", text).unwrap()),
        ..RecordedKernel::default()
    };
    let boost = || {
        tried_setting(
            trial(ModelledSetting::BoostFactor, 15_000, 0),
            &[3, 2, 4],
            1,
            1,
        )
    };
    let defrag = || {
        tried_setting(
            trial(ModelledSetting::DefragMode, 0, 1),
            &[70, 70, 70],
            1,
            1,
        )
    };
    let said = |each: Vec<TriedSetting>| {
        let with = with_settings(FailureCause::Fragmented, each);
        said(&AnswerFigures {
            kernel: kernel.clone(),
            tried: squeezed(
                FailureCause::Fragmented,
                &[("linux-6.12-nofragment", &[1, 1, 1])],
                None,
            )
            .tried,
            ..with
        })
    };
    let alone = said(Vec::new());
    assert!(
        alone.contains("vm.defrag_mode from 0 to 1 is the setting nearest to these rules, and vm.watermark_boost_factor from \
                        15000 to 30000 goes with it"),
        "{alone}"
    );
    let with_boost = said(vec![boost()]);
    assert!(
        with_boost.contains("vm.defrag_mode from 0 to 1 is the setting nearest to these rules; vm.watermark_boost_factor from 15000 to 0"),
        "{with_boost}"
    );
    assert!(!with_boost.contains("30000"), "{with_boost}");
    // Of one that has not helped is said that it is the nearest, and of one that has what it does.
    let both = said(vec![defrag(), boost()]);
    assert!(
        both.contains(
            "To change: vm.defrag_mode is nearest to these rules; vm.watermark_boost_factor from 15000 to 0 may have helped"
        ),
        "{both}"
    );
    assert!(!both.contains("30000"), "{both}");
    let helps = TriedSetting {
        counts: boost().counts,
        ..defrag()
    };
    let helped = said(vec![helps]);
    assert!(
        !helped.contains("nearest")
            && helped.contains("vm.defrag_mode from 0 to 1 would have helped"),
        "{helped}"
    );
}

#[test]
fn aw5_what_no_replay_has_tried_is_named_also_where_rules_have_helped() {
    let text =
        "vm.compaction_proactiveness 20\nvm.watermark_boost_factor 15000\nvm.defrag_mode 0\n";
    let said = |helper: &str, each: Vec<TriedSetting>| {
        said(&AnswerFigures {
            kernel: RecordedKernel {
                settings: Some(crate::trace::state::read_settings("s", text).unwrap()),
                ..RecordedKernel::default()
            },
            tried: squeezed(FailureCause::Fragmented, &[(helper, &[1, 1, 1])], None).tried,
            ..with_settings(FailureCause::Fragmented, each)
        })
    };
    let defrag = trial(ModelledSetting::DefragMode, 0, 1);
    let worse = || vec![tried_setting(defrag, &[70, 70, 70], 1, 1)];
    let proactiveness = "; not tried: vm.compaction_proactiveness from 20 to 40";
    let boost =
        "; with --settings all a replay tries vm.watermark_boost_factor from 15000 to 30000.";
    let other = said("concentrated", worse());
    assert!(other.contains("it wants a patch; none of"), "{other}");
    assert!(
        other.contains(&format!("{proactiveness}{boost}")),
        "{other}"
    );
    // What goes with the rules is not named again.
    let nearest = said("linux-6.12-nofragment", Vec::new());
    assert!(
        nearest.contains(
            "from 15000 to 30000 goes with it; try what no replay of this recording can: vm.compaction_proactiveness from 20 \
             to 40."
        ),
        "{nearest}"
    );
    let named = said("linux-6.12-nofragment", worse());
    assert!(
        named.contains("To change: vm.defrag_mode is nearest to these rules; none of"),
        "{named}"
    );
    assert!(
        named.contains(&format!("{proactiveness}{boost}")),
        "{named}"
    );
}

#[test]
fn aw5_settings_are_judged_by_what_fails_most_in_pieces_or_not() {
    let mut figures = with_settings(FailureCause::Watermark, Vec::new());
    figures.failed.counts.all[9] += 3;
    figures.failed.counts.unseen[9] += 3;
    figures.failed.causes[9][FailureCause::Fragmented as usize] += 3;
    assert_eq!(
        (figures.judged_order(), figures.settings_order()),
        (Some(9), Some(3))
    );
}

#[test]
fn aw5_zones_that_are_not_the_machine_s_are_told() {
    let defrag = trial(ModelledSetting::DefragMode, 0, 1);
    for (at, says) in [
        (
            [3, 2, 4],
            "with that, in zones that are worked out from how much memory there was (how far",
        ),
        (
            [70, 70, 70],
            "from 0 to 1, in zones that are worked out from how much memory there was; that",
        ),
    ] {
        let figures = AnswerFigures {
            zones: AnswerZones::Computed,
            ..with_settings(
                FailureCause::Fragmented,
                vec![tried_setting(defrag, &at, 1, 1)],
            )
        };
        let said = said(&figures);
        assert!(said.contains(says), "{says}\nis not in\n{said}");
    }
}

#[test]
fn aw5_settings_say_nothing_where_rules_say_nothing() {
    let each = || {
        let defrag = trial(ModelledSetting::DefragMode, 0, 1);
        vec![tried_setting(defrag, &[0, 0, 0], 1, 1)]
    };
    for cause in [FailureCause::Fragmented, FailureCause::Watermark] {
        let said = said(&with_settings(cause, each()));
        assert!(
            said.contains("vm.defrag_mode from 0 to 1 would have helped"),
            "{said}"
        );
    }
    let used_up = said(&with_settings(FailureCause::Exhausted, each()));
    assert!(!used_up.contains("defrag_mode"), "{used_up}");
    let alone = AnswerFigures {
        is_as_recorded: true,
        squeeze: 0,
        ..with_settings(FailureCause::Fragmented, each())
    };
    assert!(!said(&alone).contains("defrag_mode"));
    let invented = AnswerFigures {
        is_invented: true,
        ..with_settings(FailureCause::Fragmented, each())
    };
    assert!(!said(&invented).contains("defrag_mode"));
    let none = said(&with_settings(FailureCause::Fragmented, Vec::new()));
    assert!(
        none.contains("try what no replay of this recording can: "),
        "{none}"
    );
}
