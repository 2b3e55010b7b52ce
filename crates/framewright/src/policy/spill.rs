//! What a request for an object does next: look, collect, compact, map, reclaim, or fail.
//!
//! [`next_step`] has the table. It is a pure function of what the request asks for and of its last
//! step's result; `kv` carries the steps out. The effort says how much work a request may cause, the
//! context what its caller may do meanwhile, and neither widens the other (K7, K8 of `kv`). Each
//! repetition needs a reclaim that gave frames.

use crate::units::Context;

/// How hard a request for an object tries to get contiguous memory, and to get any at all.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Effort {
    /// Contiguous if such memory is there now, in this CPU's caches or by one look at the zone;
    /// else mapped pages. For neither does it have memory reclaimed or compacted. The attempt to be
    /// contiguous never waits, and a request that must be contiguous fails at once. A request for
    /// mapped pages may wait, if the context lets the caller wait: when it lacks frames or pages of
    /// the space, it collects what CPUs keep, and has freed pages unmapped and flushed. A caller
    /// that wants an error at once instead asks within a context that may not wait.
    #[default]
    FailFast,
    /// Before it spills, it has memory compacted once, if its context allows that; for mapped
    /// pages, reclaimed once. A request that must be contiguous searches all CPUs' caches too.
    MayCompact,
    /// As fail-fast for contiguous memory. But for mapped pages it has memory reclaimed as long as
    /// clients give any, and for a request that must be contiguous it has memory compacted, too. It ends
    /// when more frames came than there are: others take them, or clients make numbers up.
    /// Its caller must be allowed to wait and to reclaim.
    MustSucceed,
}

impl Effort {
    /// Whether a request that found no contiguous block has memory compacted before it spills.
    #[must_use]
    pub const fn compacts(self, context: Context) -> bool {
        matches!(self, Self::MayCompact) && context.may_block && context.may_reclaim
    }

    /// Whether a request that found no frames has memory reclaimed, the `tries`th time, from 0.
    #[must_use]
    pub const fn reclaims(self, context: Context, tries: u32) -> bool {
        let may = context.may_block && context.may_reclaim;
        match self {
            Self::FailFast => false,
            Self::MayCompact => may && tries == 0,
            Self::MustSucceed => may,
        }
    }

    /// Whether a request may be made within that context at all.
    #[must_use]
    pub const fn is_allowed(self, context: Context) -> bool {
        !matches!(self, Self::MustSucceed) || context.may_block && context.may_reclaim
    }
}

/// What is known of a request for an object when its next step is decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SpillFacts {
    /// How hard it tries.
    pub effort: Effort,
    /// What its caller may do.
    pub context: Context,
    /// Whether contiguous memory will do: a block of that length and alignment can exist.
    pub may_be_block: bool,
    /// Whether the block is longer than a frame, so that fragmentation can matter.
    pub can_fragment: bool,
    /// Whether mapped pages will do: not for `kmalloc`, nor after mapping has failed for another
    /// reason than memory.
    pub may_be_mapped: bool,
    /// How often memory was compacted for it.
    pub compactions: u32,
    /// How often memory was reclaimed for it.
    pub reclaims: u32,
    /// The last step, and its result.
    pub last: Tried,
}

/// A step that was taken and did not bring the object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tried {
    /// No step.
    Nothing,
    /// A look: no block was there at once.
    Look,
    /// A look after everything was collected: no block was there.
    Collect,
    /// Memory was compacted; with whether another look is worth it.
    Compact(bool),
    /// It was not mapped.
    Map {
        /// Frames or the platform's memory were missing, not space or something else.
        for_memory: bool,
    },
    /// That many frames were reclaimed.
    Reclaim(u64),
}

/// What to do next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum SpillStep {
    /// Look for a block that is there at once.
    Look,
    /// Collect what all CPUs keep unused, and then look for a block.
    Collect,
    /// Have memory compacted.
    Compact,
    /// Take mapped pages.
    Map,
    /// Have memory reclaimed.
    Reclaim,
    /// Give up.
    Fail,
}

/// The next step for a request for an object.
///
/// ```text
///              mapped pages will do                         they will not
///   FailFast   Look Map                                     Look
///   MayCompact Look Compact Look Map Reclaim Map            Look Collect Compact Collect
///                                                           Reclaim Collect
///   MustSucceed Look Map (Reclaim Look Map)*                Look Collect (Compact Collect
///                                                           Reclaim Collect)*
/// ```
///
/// Each row ends when the object is there; a repetition ends when a reclaim gives nothing. Without
/// the context to wait there is no Collect, and without that to wait and to reclaim no Compact and
/// no Reclaim. A single frame is not compacted for. A request ends when one reclaim gives nothing. The caller sees
/// to it that a reclaim which follows many others gives nothing.
#[must_use]
pub(crate) const fn next_step(facts: &SpillFacts) -> SpillStep {
    match facts.last {
        Tried::Nothing if facts.may_be_block => SpillStep::Look,
        Tried::Nothing => facts.map_or_fail(),
        Tried::Look if facts.may_be_mapped => {
            let compacts = facts.effort.compacts(facts.context) && facts.compactions == 0;
            if compacts && facts.can_fragment {
                SpillStep::Compact
            } else {
                SpillStep::Map
            }
        }
        Tried::Look => facts.collect_or_fail(),
        Tried::Collect => facts.relieve_for_block(),
        Tried::Compact(true) if facts.may_be_mapped => SpillStep::Look,
        Tried::Compact(true) => SpillStep::Collect,
        Tried::Compact(false) if facts.may_be_mapped => SpillStep::Map,
        Tried::Compact(false) => facts.reclaim_or_fail(),
        Tried::Map { for_memory: true } => facts.reclaim_or_fail(),
        // An object that could not be mapped may still be contiguous.
        Tried::Map { for_memory: false } => facts.collect_or_fail(),
        Tried::Reclaim(0) => SpillStep::Fail,
        Tried::Reclaim(_) if !facts.may_be_mapped => SpillStep::Collect,
        Tried::Reclaim(_) if facts.may_be_block && facts.is_last_resort() => SpillStep::Look,
        Tried::Reclaim(_) => SpillStep::Map,
    }
}

impl SpillFacts {
    const fn is_last_resort(&self) -> bool {
        matches!(self.effort, Effort::MustSucceed)
    }

    const fn map_or_fail(&self) -> SpillStep {
        if self.may_be_mapped {
            SpillStep::Map
        } else {
            SpillStep::Fail
        }
    }

    const fn collect_or_fail(&self) -> SpillStep {
        let is_fast = matches!(self.effort, Effort::FailFast);
        if self.may_be_block && self.context.may_block && !is_fast {
            SpillStep::Collect
        } else {
            SpillStep::Fail
        }
    }

    /// There is no block anywhere, and mapped pages will not do: tries the cheaper kind of relief
    /// first.
    const fn relieve_for_block(&self) -> SpillStep {
        let may = self.context.may_block && self.context.may_reclaim;
        let compacts = match self.effort {
            Effort::FailFast => false,
            Effort::MayCompact => may && self.compactions == 0,
            // Once before the first reclaim, and once after each that brought something.
            Effort::MustSucceed => may && self.compactions <= self.reclaims,
        };
        if compacts && self.can_fragment {
            SpillStep::Compact
        } else {
            self.reclaim_or_fail()
        }
    }

    const fn reclaim_or_fail(&self) -> SpillStep {
        if self.effort.reclaims(self.context, self.reclaims) {
            SpillStep::Reclaim
        } else {
            SpillStep::Fail
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec;
    use std::vec::Vec;

    const ALL: [Effort; 3] = [Effort::FailFast, Effort::MayCompact, Effort::MustSucceed];

    fn facts(effort: Effort, context: Context) -> SpillFacts {
        SpillFacts {
            effort,
            context,
            may_be_block: true,
            can_fragment: true,
            may_be_mapped: true,
            compactions: 0,
            reclaims: 0,
            last: Tried::Nothing,
        }
    }

    /// The steps of a request that never gets its object, where reclaim gives something `gifts`
    /// times.
    fn steps(mut facts: SpillFacts, mut gifts: u32, for_memory: bool) -> Vec<SpillStep> {
        let mut steps = vec![];
        loop {
            let step = next_step(&facts);
            steps.push(step);
            facts.last = match step {
                SpillStep::Look => Tried::Look,
                SpillStep::Collect => Tried::Collect,
                SpillStep::Compact => {
                    facts.compactions += 1;
                    Tried::Compact(true)
                }
                SpillStep::Map => {
                    facts.may_be_mapped = for_memory;
                    Tried::Map { for_memory }
                }
                SpillStep::Reclaim => {
                    facts.reclaims += 1;
                    let given = gifts.min(1);
                    gifts -= given;
                    Tried::Reclaim(u64::from(given))
                }
                SpillStep::Fail => return steps,
            };
            assert!(steps.len() < 100, "it ends: {steps:?}");
        }
    }

    #[test]
    fn the_table_of_steps_is_as_it_is_written() {
        use SpillStep::{Collect, Compact, Fail, Look, Map, Reclaim};
        let spilling = |effort| steps(facts(effort, Context::ANY), 2, true);
        assert_eq!(spilling(Effort::FailFast), [Look, Map, Fail]);
        let compacting = [Look, Compact, Look, Map, Reclaim, Map, Fail];
        assert_eq!(spilling(Effort::MayCompact), compacting);
        let trying = [Look, Map, Reclaim, Look, Map, Reclaim, Look, Map, Reclaim];
        assert_eq!(spilling(Effort::MustSucceed)[..9], trying);
        assert_eq!(spilling(Effort::MustSucceed)[9..], [Fail]);
        let block = |effort| {
            let facts = SpillFacts {
                may_be_mapped: false,
                ..facts(effort, Context::ANY)
            };
            steps(facts, 1, true)
        };
        assert_eq!(block(Effort::FailFast), [Look, Fail]);
        let once = [Look, Collect, Compact, Collect, Reclaim, Collect, Fail];
        assert_eq!(block(Effort::MayCompact), once);
        let again = [Compact, Collect, Reclaim, Fail];
        assert_eq!(block(Effort::MustSucceed)[..6], once[..6]);
        assert_eq!(block(Effort::MustSucceed)[6..], again);
    }

    #[test]
    fn k7_no_effort_asks_for_more_than_it_says() {
        let contexts = [Context::ANY, Context::NOFS, Context::NOIO, Context::NOWAIT];
        let careful = Context {
            may_reclaim: false,
            ..Context::ANY
        };
        for effort in ALL {
            for context in contexts.into_iter().chain([careful]) {
                for shape in 0..8 {
                    for for_memory in [false, true] {
                        let facts = SpillFacts {
                            may_be_block: shape & 1 != 0,
                            can_fragment: shape & 2 != 0,
                            may_be_mapped: shape & 4 != 0,
                            ..facts(effort, context)
                        };
                        let steps = steps(facts, 5, for_memory);
                        let count =
                            |step| steps.iter().filter(|taken| **taken == step).count() as u32;
                        let relieved = (count(SpillStep::Compact), count(SpillStep::Reclaim));
                        let may = context.may_block && context.may_reclaim;
                        match effort {
                            Effort::FailFast => assert_eq!(relieved, (0, 0)),
                            Effort::MayCompact => assert!(relieved.0 <= 1 && relieved.1 <= 1),
                            Effort::MustSucceed => assert!(relieved.1 <= 6),
                        }
                        assert!(may || relieved == (0, 0));
                        assert!(context.may_block || count(SpillStep::Collect) == 0);
                        assert!(facts.may_be_mapped || count(SpillStep::Map) == 0);
                        let looks = count(SpillStep::Look) + count(SpillStep::Collect);
                        assert!(facts.may_be_block || looks + count(SpillStep::Compact) == 0);
                        assert!(facts.can_fragment || relieved.0 == 0);
                        if effort == Effort::MustSucceed && may && for_memory {
                            let possible = facts.may_be_block || facts.may_be_mapped;
                            assert_eq!(relieved.1 == 6, possible, "{facts:?}: {steps:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_must_succeed_must_be_allowed_to_wait() {
        for effort in ALL {
            assert!(effort.is_allowed(Context::NOIO));
            let may_wait = effort.is_allowed(Context::NOWAIT);
            assert_eq!(may_wait, effort != Effort::MustSucceed);
        }
    }
}
