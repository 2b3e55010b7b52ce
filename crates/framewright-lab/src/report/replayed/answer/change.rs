//! What to change, of what the recorded kernel has.
//!
//! # Invariants
//! - **AW4** No setting is named that the recorded kernel lacks, as far as the recording says which it has; where that is not
//!   known, it is said. None is tried that it may lack.

use super::figures::AnswerFigures;
use super::judged::JudgedSettings;
use super::kernel::{
    AnswerZones, BOOST, DEFRAG, KernelSetting, MIN_FREE, PROACTIVENESS, RecordedKernel, SCALE,
    SettingTrial,
};
use super::said;
use super::tried::SettingsAsked;
use crate::before::buddy::LinuxPolicy;
use crate::replay::{FailureCause, ReplayPolicy};

const MORE_MEMORY: &str = "give the machine more memory, or let it use less";

/// What is said where each setting is at its end.
const NOTHING_LEFT: &str = "this kernel has no setting left to try";

/// What to change so that fewer of the failures happen that the answer is about, in a sentence; `None` where there are none.
/// `best` are the best rules that helped.
pub(super) fn change(
    figures: &AnswerFigures,
    best: Option<ReplayPolicy>,
    settings: Option<&JudgedSettings<'_>>,
) -> Option<String> {
    let (log, kernel) = (figures.subject(), &figures.kernel);
    if log.total() == 0 {
        return None;
    }
    let cause = FailureCause::ALL
        .into_iter()
        .max_by_key(|&cause| log.of_cause(cause))?;
    let first = match log.counts.reported.iter().sum::<u64>() {
        0 => {
            "For the log nothing has to change, since callers that pass __GFP_NOWARN count on failures; for speed, "
        }
        _ => "To change: ",
    };
    let rules = best.filter(|_| cause == FailureCause::Fragmented);
    let rules = rules.and_then(|policy| rules_to_have(policy, figures.base, kernel, settings));
    // What goes with the rules is named with them, and not again.
    let unnamed = |all: [KernelSetting; 2]| -> Vec<KernelSetting> {
        let says = rules.as_deref().unwrap_or("");
        let left = all.into_iter().filter(|one| !says.contains(one.name));
        left.collect()
    };
    let mut parts = Vec::new();
    parts.extend(rules.clone());
    if cause == FailureCause::Exhausted {
        parts.push(MORE_MEMORY.to_owned());
    }
    let offers = SettingOffers::new(figures, settings);
    parts.extend(settings.map(said::settings));
    match cause {
        FailureCause::Exhausted => {}
        FailureCause::Watermark => {
            let marks = [MIN_FREE, SCALE];
            let tried = offers.untried(&marks);
            let others = offers.shown(&marks);
            parts.extend(match (tried.is_empty(), settings) {
                (true, Some(_)) => None,
                (true, None) => {
                    let is_end = others.is_empty();
                    is_end.then(|| format!("{NOTHING_LEFT}: {MORE_MEMORY}"))
                }
                (false, _) => Some(format!(
                    "try {}, so that reclaim begins earlier; this replay {} how much that helps",
                    tried.join(" or "),
                    match figures.zones {
                        AnswerZones::None => "has no zones and cannot say",
                        _ => "cannot say",
                    }
                )),
            });
            parts.extend(others);
        }
        FailureCause::Fragmented => {
            let by_hand = unnamed([PROACTIVENESS, BOOST]);
            let mut tried = offers.untried(&by_hand);
            tried.extend(kernel.extfrag(log));
            let others = offers.shown(&unnamed([BOOST, DEFRAG]));
            let is_modelled =
                |one: &KernelSetting| offers.has_model(one) && !offers.is_offered(one);
            let cannot = match by_hand.iter().any(is_modelled) {
                true => "this replay cannot",
                false => "no replay of this recording can",
            };
            parts.extend(match (tried.is_empty(), settings) {
                (true, Some(_)) => None,
                (true, None) => {
                    let is_end = others.is_empty() && rules.is_none();
                    is_end.then(|| NOTHING_LEFT.to_owned())
                }
                (false, Some(_)) => Some(format!("not tried: {}", tried.join(", "))),
                (false, None) => Some(format!("try what {cannot}: {}", tried.join(", "))),
            });
            parts.extend(others);
        }
    }
    if cause == FailureCause::Fragmented {
        parts.extend(kernel.options(log));
    }
    Some(format!("{first}{}.", parts.join("; ")))
}

/// Settings with more work for the kernel: what was not tried of them, and by which options a replay of the same recording would.
struct SettingOffers<'a> {
    kernel: &'a RecordedKernel,
    judged: Option<&'a JudgedSettings<'a>>,
    /// What a replay has a model of, and was not tried.
    trials: Vec<SettingTrial>,
    /// Those of them that this command would have tried with watermarks.
    asked: Vec<SettingTrial>,
    has_zones: bool,
    /// Whether options make a replay try them.
    is_open: bool,
}

impl<'a> SettingOffers<'a> {
    fn new(figures: &'a AnswerFigures, judged: Option<&'a JudgedSettings<'a>>) -> Self {
        let (kernel, base) = (&figures.kernel, figures.base);
        let is_open =
            |trial: &SettingTrial| !trial.is_less && !is_told(judged, trial.setting.name());
        let of = |is_all| -> Vec<SettingTrial> {
            let trials = kernel.trials(base, is_all).into_iter();
            trials.filter(is_open).collect()
        };
        let has_zones = figures.zones != AnswerZones::None;
        // With zones something else is in the way where none was tried, or nothing fails in the kernel as it was set.
        let is_meant = !has_zones
            || judged.is_some()
            || (figures.settings.is_none() && !figures.is_only_the_machine_s());
        Self {
            kernel,
            judged,
            trials: of(true),
            asked: match figures.settings_asked {
                SettingsAsked::Never | SettingsAsked::None => Vec::new(),
                SettingsAsked::Few => of(false),
                SettingsAsked::All => of(true),
            },
            has_zones,
            is_open: is_meant && figures.settings_asked != SettingsAsked::Never,
        }
    }

    /// Whether a replay of this recording has a model of it, which was not tried.
    fn has_model(&self, setting: &KernelSetting) -> bool {
        let mut names = self.trials.iter().map(|trial| trial.setting.name());
        names.any(|name| name == setting.name)
    }

    /// Whether some options make a replay try it.
    fn is_offered(&self, setting: &KernelSetting) -> bool {
        let is_meant = |trial: &&SettingTrial| trial.setting.name() == setting.name;
        let mut meant = self.trials.iter().filter(is_meant);
        self.is_open && meant.any(|trial| !self.options(trial).is_empty())
    }

    /// The options with which a replay tries it.
    fn options(&self, trial: &SettingTrial) -> Vec<&'static str> {
        let marks = (!self.has_zones).then_some("--watermarks on");
        let all = (!self.asked.contains(trial)).then_some("--settings all");
        marks.into_iter().chain(all).collect()
    }

    /// What to try of these settings by hand.
    fn untried(&self, settings: &[KernelSetting]) -> Vec<String> {
        let by_hand = settings
            .iter()
            .filter(|setting| !is_told(self.judged, setting.name) && !self.is_offered(setting));
        by_hand.filter_map(|one| self.kernel.tried(one)).collect()
    }

    /// What a replay would try of these settings, by its options.
    fn shown(&self, settings: &[KernelSetting]) -> Vec<String> {
        let is_meant = |trial: &&SettingTrial| {
            let mut names = settings.iter().map(|setting| setting.name);
            self.is_open && names.any(|name| name == trial.setting.name())
        };
        let mut by_options: Vec<(String, Vec<String>)> = Vec::new();
        for trial in self.trials.iter().filter(is_meant) {
            let options = self.options(trial).join(" ");
            match by_options.iter_mut().find(|(other, _)| *other == options) {
                _ if options.is_empty() => {}
                Some((_, trials)) => trials.push(trial.to_string()),
                None => by_options.push((options, vec![trial.to_string()])),
            }
        }
        let each = by_options.into_iter();
        each.map(|(options, trials)| {
            format!("with {options} a replay tries {}", trials.join(" and "))
        })
        .collect()
    }
}

/// Whether no more of that setting is left to name: more of it was tried, or another value of it is what helped best.
fn is_told(judged: Option<&JudgedSettings<'_>>, name: &str) -> bool {
    judged.is_some_and(|judged| {
        let best = judged.best();
        judged.has_more_of(name)
            || best.is_some_and(|(tried, _)| tried.trial.setting.name() == name)
    })
}

/// How to come by a policy's rules; `None` where the setting that brings them was tried and helped, which is told of the
/// settings.
fn rules_to_have(
    policy: ReplayPolicy,
    base: ReplayPolicy,
    kernel: &RecordedKernel,
    settings: Option<&JudgedSettings<'_>>,
) -> Option<String> {
    let has_tried =
        |setting: &KernelSetting| settings.is_some_and(|all| all.has_tried(setting.name));
    let boost = kernel.tried(&BOOST).filter(|_| !has_tried(&BOOST));
    let (says, is_defrag) = rules_by_setting(policy, base, kernel, boost);
    match is_defrag && has_tried(&DEFRAG) {
        false => Some(says),
        true => {
            let has_helped = settings.is_some_and(|all| all.has_helped(DEFRAG.name));
            (!has_helped).then(|| format!("{} is nearest to these rules", DEFRAG.name))
        }
    }
}

/// How to come by a policy's rules, and whether that is by `vm.defrag_mode`; `boost` is what of it goes with that.
fn rules_by_setting(
    policy: ReplayPolicy,
    base: ReplayPolicy,
    kernel: &RecordedKernel,
    boost: Option<String>,
) -> (String, bool) {
    use LinuxPolicy::{Linux612, Linux612NoFragment, Linux618Defrag, NoGrouping, Proposal};
    use ReplayPolicy::{Engine, Linux};
    let says = match (policy, base) {
        (Engine(_), _) => {
            format!("{policy} is a policy of this engine and in no kernel: it wants a patch")
        }
        (Linux(NoGrouping), _) => {
            format!("{policy} is a pole to learn from, and no kernel has it")
        }
        (Linux(Linux612), Linux(Linux618Defrag)) => {
            let says = "vm.defrag_mode from 1 to 0 brings these rules back";
            return (says.into(), true);
        }
        (Linux(Linux612NoFragment), Linux(Linux618Defrag)) => {
            "these rules are a part of vm.defrag_mode=1, and no setting brings that part alone"
                .into()
        }
        (Linux(Linux612NoFragment | Linux618Defrag), _) => {
            let nearest = match (kernel.has(&DEFRAG), &kernel.settings) {
                (Some(false), _) => {
                    let says = "no setting of this kernel comes near these rules: a newer one has one (Linux 6.15 and later)";
                    return (says.into(), false);
                }
                (Some(true), Some(now)) => match now.number(DEFRAG.name) {
                    Some(0) => "vm.defrag_mode from 0 to 1",
                    _ => "vm.defrag_mode, which is on,",
                },
                (Some(true), None) => "vm.defrag_mode=1",
                (None, _) => "vm.defrag_mode=1 (Linux 6.15 and later)",
            };
            let boost = boost.map_or_else(String::new, |one| format!(", and {one} goes with it"));
            let says = format!("{nearest} is the setting nearest to these rules{boost}");
            return (says, true);
        }
        (Linux(Proposal), _) => {
            "these rules were proposed in 2016 and never merged: they want a patch".into()
        }
        (Linux(older), Linux(base)) if older < base => {
            format!(
                "no setting brings the rules of {policy} back: they want a patch, or that kernel"
            )
        }
        _ => format!("these are the rules of a newer kernel, {policy}"),
    };
    (says, false)
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
