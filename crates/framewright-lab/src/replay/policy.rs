use super::{Memory, NoGrouping, Subject};
use std::fmt;
use std::str::FromStr;

/// An allocator with a fallback policy, by its name on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Policy {
    /// A buddy system without any grouping by mobility: a pole, not in the default list.
    NoGrouping,
}

impl Policy {
    /// All of them, in the order in which they are listed.
    pub const ALL: [Self; 1] = [Self::NoGrouping];

    /// Other names: the three columns of every experiment.
    pub const ALIASES: [(&'static str, &'static str); 3] = [
        ("before", "linux-4.4"),
        ("proposed", "proposal"),
        ("framewright", "concentrated"),
    ];

    /// The name on the command line and in figures.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoGrouping => "no-grouping",
        }
    }

    /// Builds the allocator over the whole of `memory`, all of it free.
    #[must_use]
    pub fn build(self, memory: &Memory<'_>) -> Box<dyn Subject> {
        match self {
            Self::NoGrouping => Box::new(NoGrouping::new(memory)),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no policy has; the message lists those there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownPolicy(String);

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no policy '{}', expected one of:", self.0)?;
        for policy in Policy::ALL {
            write!(f, " {policy}")?;
        }
        for (alias, name) in Policy::ALIASES {
            write!(f, ", {alias} (= {name})")?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownPolicy {}

impl FromStr for Policy {
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
