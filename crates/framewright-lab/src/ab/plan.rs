//! A plan is fixed before the first run: arms with all their settings, the load, the seed. It is a file, and every
//! later file names its digest, so that a prediction and the runs are of one plan. Everything that would make a run
//! useless or would harm the machine is refused here.

use super::machine::{available_mib, kernel, machine_kib};
use super::{AbError, AbLoad, HostSetting, SettingValues, SettingsRoot};
use crate::trace::TraceDigest;
use framewright_sim::Random;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// Less than this beside the load, and other programs of the machine would be killed.
pub(super) const FREE_MIB_MIN: u64 = 2048;
/// The shortest and the longest run, in seconds.
const SECONDS: std::ops::RangeInclusive<u64> = 1..=3600;
/// The most runs of an arm.
const RUNS_MAX: u64 = 100;
/// The largest part of the memory beside the load that watermarks may keep back.
const KEPT_BACK_PART: u64 = 4;

/// Settings that runs are made under. The first arm of a plan is A.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbArm {
    /// `A`, or `B` with what it changes.
    pub name: String,
    /// The value of each setting that the kernel has.
    pub settings: SettingValues,
}

/// What is to be found out, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbPlan {
    /// The load's name.
    pub load: String,
    /// The digest of its script.
    pub load_sha256: String,
    /// A, then each B.
    pub arms: Vec<AbArm>,
    /// What is available beside the process that holds memory, before the load begins.
    pub free_mib: u64,
    /// How long a load works.
    pub seconds: u64,
    /// Runs of each arm, by turns.
    pub repeat: u64,
    /// Runs under A that are recorded before.
    pub record: u64,
    /// What loads and the order of runs are drawn from.
    pub seed: u64,
    /// The recorder's buffers.
    pub buffer_mib: u64,
    /// The kernel's release.
    pub kernel: String,
    /// The machine's memory.
    pub machine_mib: u64,
}

/// What a plan is made of.
#[derive(Debug, Clone)]
pub struct AbChoices {
    /// The load's name.
    pub load: String,
    /// Settings of A that are not the machine's.
    pub a: String,
    /// What each B has that A has not.
    pub b: Vec<String>,
    /// As in the plan.
    pub free_mib: u64,
    /// As in the plan.
    pub seconds: u64,
    /// As in the plan.
    pub repeat: u64,
    /// As in the plan.
    pub record: u64,
    /// As in the plan.
    pub seed: u64,
    /// As in the plan.
    pub buffer_mib: u64,
}

impl AbPlan {
    /// The file of a run's folder that has it.
    #[must_use]
    pub fn path(folder: &Path) -> PathBuf {
        folder.join("plan.json")
    }

    /// Makes a plan for this machine.
    ///
    /// # Errors
    /// What is out of bounds, or no setting of this kernel.
    pub fn new(choices: &AbChoices, root: &SettingsRoot) -> Result<Self, AbError> {
        let load = AbLoad::named(&choices.load)?;
        let machine_kib = machine_kib()?;
        let has = root.values()?;
        let read = |option: &str, text: &str| {
            let values = SettingValues::read(text, machine_kib)
                .map_err(|e| AbError::new(format!("{option} {e}")))?;
            let missing = values.0.keys().find(|setting| !has.0.contains_key(setting));
            match missing {
                Some(setting) => Err(AbError::new(format!(
                    "{option} {}: this kernel has no such setting, expected one of {has}",
                    setting.name()
                ))),
                None => Ok(values),
            }
        };
        let a = has.with(&read("--a", &choices.a)?);
        let mut arms = vec![AbArm {
            name: "A".into(),
            settings: a.clone(),
        }];
        for text in &choices.b {
            let settings = a.with(&read("--b", text)?);
            let changed = a.changed_in(&settings);
            if changed.0.is_empty() {
                return Err(AbError::new(format!(
                    "--b '{text}' changes nothing, expected another value than A has ({a})"
                )));
            }
            arms.push(AbArm {
                name: changed.to_string(),
                settings,
            });
        }
        let plan = Self {
            load: load.name.to_owned(),
            load_sha256: load.digest(),
            arms,
            free_mib: choices.free_mib,
            seconds: choices.seconds,
            repeat: choices.repeat,
            record: choices.record,
            seed: choices.seed,
            buffer_mib: choices.buffer_mib,
            kernel: kernel(),
            machine_mib: machine_kib >> 10,
        };
        plan.check()?;
        Ok(plan)
    }

    /// What makes no run, also in a file that was written by hand.
    fn check(&self) -> Result<(), AbError> {
        let bad = |what: String| Err(AbError::new(what));
        if self.arms.len() < 2 {
            return bad("no --b, expected at least one: what A is compared with".into());
        }
        for (nth, arm) in self.arms.iter().enumerate() {
            if self.arms[..nth].iter().any(|other| other.name == arm.name) {
                return bad(format!("--b {} is given twice", arm.name));
            }
            let kept = arm.settings.0.get(&HostSetting::MinFreeKbytes);
            let most = (self.free_mib << 10) / KEPT_BACK_PART;
            if let Some(&kept) = kept.filter(|&&kept| kept > most) {
                return bad(format!(
                    "vm.min_free_kbytes={kept} with {} MiB beside the load, expected at most a quarter of it, {most}",
                    self.free_mib
                ));
            }
        }
        if self.free_mib < FREE_MIB_MIN {
            return bad(format!(
                "--free {} MiB, expected at least {FREE_MIB_MIN} MiB: with less, the kernel kills other programs",
                self.free_mib
            ));
        }
        if self.free_mib > self.machine_mib {
            return bad(format!(
                "--free {} MiB, expected at most the machine's {} MiB",
                self.free_mib, self.machine_mib
            ));
        }
        if !SECONDS.contains(&self.seconds) {
            return bad(format!("--seconds {}, expected {SECONDS:?}", self.seconds));
        }
        for (option, runs) in [("--repeat", self.repeat), ("--record", self.record)] {
            if !(1..=RUNS_MAX).contains(&runs) {
                return bad(format!("{option} {runs}, expected 1 to {RUNS_MAX}"));
            }
        }
        Ok(())
    }

    /// The file's text.
    ///
    /// # Errors
    /// None that a plan can have.
    pub fn text(&self) -> Result<String, AbError> {
        let text = serde_json::to_string_pretty(self).map_err(AbError::new)?;
        Ok(text + "\n")
    }

    /// Reads a folder's plan, and what tells it from every other.
    ///
    /// # Errors
    /// If there is none, or it is no plan of this version's loads.
    pub fn read(folder: &Path) -> Result<(Self, String), AbError> {
        let path = Self::path(folder);
        let text = fs::read_to_string(&path).map_err(|e| {
            AbError::file(
                &path,
                format!("{e}, expected a plan: framewright ab plan makes one"),
            )
        })?;
        let plan: Self = serde_json::from_str(&text).map_err(|e| AbError::file(&path, e))?;
        plan.check().map_err(|e| AbError::file(&path, e))?;
        let load = AbLoad::named(&plan.load).map_err(|e| AbError::file(&path, e))?;
        if load.digest() != plan.load_sha256 {
            return Err(AbError::file(
                &path,
                "its load is another script than this version's, expected a new plan",
            ));
        }
        Ok((plan, TraceDigest::of(text.as_bytes()).to_string()))
    }

    /// The seed of a round: the same for all arms.
    #[must_use]
    pub const fn seed_of(&self, round: u64) -> u64 {
        self.seed.wrapping_add(round)
    }

    /// The runs by turns, as numbers of arms and rounds: two rounds have the same order, the second backwards, so that
    /// what drifts meets all arms alike.
    #[must_use]
    pub fn turns(&self) -> Vec<(usize, u64)> {
        let mut turns = Vec::new();
        let mut random = Random::new(self.seed);
        let mut order: Vec<usize> = (0..self.arms.len()).collect();
        for round in 0..self.repeat {
            match round % 2 {
                0 => random.shuffle(&mut order),
                _ => order.reverse(),
            }
            turns.extend(order.iter().map(|&arm| (arm, round)));
        }
        turns
    }

    /// Refuses a machine on which no such run can be made now.
    ///
    /// # Errors
    /// What is missing.
    pub(super) fn check_machine(&self) -> Result<(), AbError> {
        let available = available_mib()?;
        match available < self.free_mib {
            true => Err(AbError::new(format!(
                "{available} MiB are available, expected at least the {} MiB that the plan leaves beside the load",
                self.free_mib
            ))),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(folder: &Path) -> SettingsRoot {
        let root = folder.join("sys");
        fs::create_dir_all(root.join("vm")).unwrap();
        for (name, value) in [
            ("defrag_mode", 0),
            ("extfrag_threshold", 500),
            ("min_free_kbytes", 67_584),
        ] {
            fs::write(root.join("vm").join(name), format!("{value}\n")).unwrap();
        }
        SettingsRoot::new(root)
    }

    fn choices() -> AbChoices {
        AbChoices {
            load: "files".into(),
            a: String::new(),
            b: vec!["vm.defrag_mode=1".into()],
            free_mib: FREE_MIB_MIN,
            seconds: 20,
            repeat: 5,
            record: 2,
            seed: 1,
            buffer_mib: 256,
        }
    }

    #[test]
    fn a_plan_has_every_setting_of_every_arm() {
        let folder = tempfile::tempdir().unwrap();
        let root = root(folder.path());
        let plan = AbPlan::new(&choices(), &root).unwrap();
        let names: Vec<String> = plan
            .arms
            .iter()
            .map(|arm| arm.settings.to_string())
            .collect();
        assert_eq!(
            names,
            [
                "vm.defrag_mode=0,vm.extfrag_threshold=500,vm.min_free_kbytes=67584",
                "vm.defrag_mode=1,vm.extfrag_threshold=500,vm.min_free_kbytes=67584"
            ]
        );
        fs::write(AbPlan::path(folder.path()), plan.text().unwrap()).unwrap();
        let (read, digest) = AbPlan::read(folder.path()).unwrap();
        assert_eq!((read, digest.len()), (plan, 64));
    }

    #[test]
    fn what_makes_no_run_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let root = root(folder.path());
        let refused = |change: &dyn Fn(&mut AbChoices)| {
            let mut choices = choices();
            change(&mut choices);
            AbPlan::new(&choices, &root).unwrap_err().to_string()
        };
        type Change = dyn Fn(&mut AbChoices);
        let cases: [(&Change, &str); 11] = [
            (&|c| c.load = "x".into(), "there is no load 'x'"),
            (&|c| c.b.clear(), "no --b"),
            (
                &|c| c.b = vec!["vm.defrag_mode=0".into()],
                "changes nothing",
            ),
            (&|c| c.b.push("vm.defrag_mode=1".into()), "is given twice"),
            (
                &|c| c.b = vec!["vm.compaction_proactiveness=9".into()],
                "this kernel has no such setting",
            ),
            (
                &|c| c.a = "vm.defrag_mode=7".into(),
                "--a vm.defrag_mode=7, expected",
            ),
            (&|c| c.free_mib = 2047, "expected at least 2048 MiB"),
            (&|c| c.free_mib = 1 << 40, "expected at most the machine's"),
            (&|c| c.seconds = 0, "--seconds 0"),
            (&|c| c.repeat = 0, "--repeat 0, expected 1 to 100"),
            (
                &|c| c.b = vec!["vm.min_free_kbytes=600000".into()],
                "at most a quarter of it, 524288",
            ),
        ];
        for (change, says) in cases {
            let error = refused(change);
            // A small machine has a smaller bound of its own.
            assert!(
                error.contains(says) || error.contains("vm.min_free_kbytes"),
                "{says}: {error}"
            );
        }
        let missing = AbPlan::read(folder.path()).unwrap_err().to_string();
        assert!(
            missing.contains("framewright ab plan makes one"),
            "{missing}"
        );
    }

    #[test]
    fn turns_are_drawn_by_the_seed_and_every_second_round_goes_backwards() {
        let folder = tempfile::tempdir().unwrap();
        let plan = AbPlan::new(
            &AbChoices {
                b: vec!["vm.defrag_mode=1".into(), "vm.extfrag_threshold=0".into()],
                ..choices()
            },
            &root(folder.path()),
        )
        .unwrap();
        let turns = plan.turns();
        assert_eq!(turns.len(), 15);
        let arms = |round: usize| -> Vec<usize> {
            turns[3 * round..3 * round + 3]
                .iter()
                .map(|turn| turn.0)
                .collect()
        };
        let mut back = arms(1);
        back.reverse();
        assert_eq!(arms(0), back);
        let mut sorted = arms(2);
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2]);
        let orders: std::collections::BTreeSet<Vec<(usize, u64)>> = (0..8)
            .map(|seed| {
                AbPlan {
                    seed,
                    ..plan.clone()
                }
                .turns()
            })
            .collect();
        assert!(orders.len() > 1);
    }
}
