//! The policies that a replay compares, by name: Linux's of some years, and the engine's.

use super::ReplaySubject;
use super::engine::{with_engine, with_engines};
use crate::before::buddy::{
    BuddyMarks, LinuxBuddy, LinuxBuddyConfig, LinuxBuddyError, LinuxPolicy,
};
use crate::replay::admission::{MachineZone, Zoned};
use crate::replay::{MachineZones, TraceMemory};
use crate::trace::state::kernel_version;
use framewright::policy::Fallback;
use std::fmt;
use std::str::FromStr;

use Fallback::{Concentrated, LargestFirst, SmallestWhenCostly};
use LinuxPolicy::{
    Linux44, Linux413, Linux612, Linux612NoFragment, Linux618Defrag, NoGrouping, Proposal,
};

/// An allocator with a fallback policy, by its name on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayPolicy {
    /// The lab's Linux buddy system under the rules of a year, with its per-CPU lists.
    Linux(LinuxPolicy),
    /// The engine with one of its fallbacks.
    Engine(Fallback),
}

impl ReplayPolicy {
    /// The policies of history.
    pub const HISTORICAL: [Self; 5] = [
        Self::Linux(Linux44),
        Self::Linux(Proposal),
        Self::Linux(Linux413),
        Self::Linux(Linux612),
        Self::Linux(Linux612NoFragment),
    ];

    /// All of them: the historical ones, the engine's, and last two that are not among those compared unless they are
    /// named: a setting whose price, waiting, a replay only counts, and the pole. A new one goes before these.
    pub const ALL: [Self; 10] = [
        Self::HISTORICAL[0],
        Self::HISTORICAL[1],
        Self::HISTORICAL[2],
        Self::HISTORICAL[3],
        Self::HISTORICAL[4],
        Self::Engine(LargestFirst),
        Self::Engine(SmallestWhenCostly),
        Self::OURS,
        Self::Linux(Linux618Defrag),
        Self::Linux(NoGrouping),
    ];

    /// Those compared unless others are named.
    pub const COMPARED: &'static [Self] = Self::ALL.split_at(Self::ALL.len() - 2).0;

    /// The engine's default, which the others are held against.
    pub const OURS: Self = Self::Engine(Concentrated);

    /// The rules that stand for a kernel of which nothing says which it is.
    pub const ASSUMED_KERNEL: Self = Self::Linux(Linux612);

    /// Other names: the three columns of every experiment.
    pub const ALIASES: [(&'static str, &'static str); 3] = [
        ("before", "linux-4.4"),
        ("proposed", "proposal"),
        ("framewright", "concentrated"),
    ];

    /// The rules of a kernel of that release, as `uname -r` has it, and whether it has exactly these; `None` of what is no
    /// release.
    ///
    /// A kernel between two of those modelled has those that it shares more with: 4.12 has the first part of 4.13's; from
    /// 6.10 to 6.14, and in the series of 6.12 before 6.12.117, there are the strict lists of `linux-6.12` and not yet its
    /// fallback. What is older than 4.0 differs from `linux-4.4` by how unmovable requests fall back.
    #[must_use]
    pub fn of_release(release: &str) -> Option<(Self, bool)> {
        let (rules, is_exact) = match kernel_version(release)? {
            (..4, ..) => (Linux44, false),
            (4, ..12, _) => (Linux44, true),
            (4, 12, _) => (Linux413, false),
            (4 | 5, ..) | (6, ..10, _) => (Linux413, true),
            (6, 10 | 11 | 13 | 14, _) | (6, 12, ..117) => (Linux612, false),
            _ => (Linux612, true),
        };
        Some((Self::Linux(rules), is_exact))
    }

    /// The name on the command line and in figures.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Linux(policy) => policy.name(),
            Self::Engine(fallback) => fallback.name(),
        }
    }

    /// Runs `work` on the allocator, built over the whole of `memory`, all of it free.
    ///
    /// # Errors
    /// If the allocator cannot manage such a memory; what it says of that.
    pub fn with<R>(
        self,
        memory: &TraceMemory<'_>,
        work: impl FnOnce(&mut dyn ReplaySubject) -> R,
    ) -> Result<R, String> {
        match (self, &memory.zones) {
            (Self::Linux(policy), None) => {
                let config = LinuxBuddyConfig {
                    absent: &memory.trace.absent,
                    cpus: memory.cpus,
                    ..LinuxBuddyConfig::new(policy, memory.trace.nframes)
                };
                let mut buddy = LinuxBuddy::new(&config).map_err(|e| e.to_string())?;
                Ok(work(&mut buddy))
            }
            (Self::Linux(policy), Some(machine)) => {
                let of = |zone| buddy(policy, memory, machine, zone);
                let buddies: Result<Vec<_>, _> = machine.zones.iter().map(of).collect();
                let buddies = buddies.map_err(|e| e.to_string())?;
                Ok(work(&mut Zoned::new(policy.name(), machine, buddies)))
            }
            (Self::Engine(fallback), None) => with_engine(fallback, memory, work),
            (Self::Engine(fallback), Some(machine)) => {
                with_engines(fallback, memory, machine, |engines| {
                    work(&mut Zoned::new(fallback.name(), machine, engines))
                })
            }
        }
    }
}

/// One zone of the machine under the rules of a year.
fn buddy(
    policy: LinuxPolicy,
    memory: &TraceMemory<'_>,
    machine: &MachineZones,
    zone: &MachineZone,
) -> Result<LinuxBuddy, LinuxBuddyError> {
    let percpu = zone
        .percpu_high
        .map(|high| u32::try_from(high).unwrap_or(u32::MAX / 2));
    let first: Vec<u32> = (zone.percpu_first.iter())
        .map(|&high| u32::try_from(high).unwrap_or(u32::MAX / 2))
        .collect();
    let config = LinuxBuddyConfig {
        percpu_first: &first,
        absent: &zone.absent(&memory.trace.absent),
        cpus: memory.cpus,
        marks: Some(BuddyMarks {
            managed: zone.managed,
            high: zone.marks[2] + zone.protects_from(machine.zones.len() - 1),
            boost_max: zone.boost_max(),
            boost_first: zone.boost,
            batch: u32::try_from(zone.batch).unwrap_or(1),
            high_min: percpu[0],
            high_max: percpu[1],
        }),
        ..LinuxBuddyConfig::new(policy, zone.frames)
    };
    LinuxBuddy::new(&config)
}

impl fmt::Display for ReplayPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no policy has; the message lists those there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownPolicy(String);

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no policy '{}', expected one of", self.0)?;
        for policy in ReplayPolicy::ALL {
            write!(f, " {policy},")?;
        }
        write!(f, " or")?;
        for (alias, name) in ReplayPolicy::ALIASES {
            write!(f, " {alias} (= {name})")?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownPolicy {}

impl FromStr for ReplayPolicy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        let meant = Self::ALIASES.iter().find(|(alias, _)| *alias == name);
        let meant = meant.map_or(name, |&(_, name)| name);
        Self::ALL
            .into_iter()
            .find(|policy| policy.name() == meant)
            .ok_or_else(|| UnknownPolicy(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_has_the_rules_of_its_years() {
        for (release, expected) in [
            ("2.6.39", Some(("linux-4.4", false))),
            ("3.10.0-1160.el7.x86_64", Some(("linux-4.4", false))),
            ("4.0", Some(("linux-4.4", true))),
            ("4.4.302", Some(("linux-4.4", true))),
            ("4.11.12", Some(("linux-4.4", true))),
            ("4.12.0", Some(("linux-4.13", false))),
            ("4.13", Some(("linux-4.13", true))),
            ("5.15.0-91-generic\n", Some(("linux-4.13", true))),
            ("6.9.7", Some(("linux-4.13", true))),
            ("6.10-rc1", Some(("linux-6.12", false))),
            ("6.11.0-29-generic", Some(("linux-6.12", false))),
            ("6.12", Some(("linux-6.12", false))),
            ("6.12.116", Some(("linux-6.12", false))),
            ("6.12.117+deb13-amd64", Some(("linux-6.12", true))),
            ("6.14.300", Some(("linux-6.12", false))),
            ("6.15.0", Some(("linux-6.12", true))),
            ("6.18.44", Some(("linux-6.12", true))),
            ("7.0", Some(("linux-6.12", true))),
            ("", None),
            ("6", None),
            ("6.", None),
            ("-1.2", None),
            ("Linux 6.12", None),
            ("99999999999.1", None),
        ] {
            let policy = ReplayPolicy::of_release(release);
            let named = policy.map(|(policy, is_exact)| (policy.name(), is_exact));
            assert_eq!(named, expected, "{release}");
        }
    }
}
