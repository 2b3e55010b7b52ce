//! What the recording kernel did about memory, as a trace keeps it: beside the operations and not among them, so
//! that a replay without interest in it reads nothing of it.

use framewright::Order;

/// What the recording kernel did about memory while it was recorded: when its background reclaimed, and what requests
/// waited for. Nothing in a recording of an earlier version, or by a kernel without the events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelWork {
    /// What would be here if it had happened.
    pub traced: TracedWork,
    /// What happened, in order.
    pub events: Vec<WorkEvent>,
}

/// Which of a kernel's work a recording shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TracedWork {
    /// When the background, kswapd, began and ended to reclaim.
    pub background: bool,
    /// Direct reclaim: requests that reclaimed.
    pub reclaim: bool,
    /// Compaction, for requests and in the background.
    pub compaction: bool,
}

impl TracedWork {
    /// The kinds in the order of their bits in a file.
    pub(crate) const fn bits(self) -> u8 {
        self.background as u8 | (self.reclaim as u8) << 1 | (self.compaction as u8) << 2
    }

    /// The same from a file; `None` for a bit that stands for nothing.
    pub(crate) const fn from_bits(bits: u8) -> Option<Self> {
        if bits > 7 {
            return None;
        }
        Some(Self {
            background: bits & 1 != 0,
            reclaim: bits & 2 != 0,
            compaction: bits & 4 != 0,
        })
    }

    /// Whether a recording with these shows such work.
    #[must_use]
    pub const fn has(self, kind: WorkKind) -> bool {
        match kind {
            WorkKind::Woke { .. } | WorkKind::Slept { .. } => self.background,
            WorkKind::Reclaimed { .. } => self.reclaim,
            WorkKind::Compacted { .. } | WorkKind::BackgroundCompacted { .. } => self.compaction,
        }
    }

    /// What either shows.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self {
            background: self.background || other.background,
            reclaim: self.reclaim || other.reclaim,
            compaction: self.compaction || other.compaction,
        }
    }

    /// As well such work.
    pub(crate) const fn add(&mut self, kind: WorkKind) {
        match kind {
            WorkKind::Woke { .. } | WorkKind::Slept { .. } => self.background = true,
            WorkKind::Reclaimed { .. } => self.reclaim = true,
            WorkKind::Compacted { .. } | WorkKind::BackgroundCompacted { .. } => {
                self.compaction = true;
            }
        }
    }
}

/// A piece of work of the recording kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkEvent {
    /// Before this operation of the trace it happened, or ended.
    pub at: u32,
    /// What it was.
    pub kind: WorkKind,
}

/// What the kernel did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkKind {
    /// The background of a node began to reclaim, for a request of this order.
    Woke {
        /// The node.
        node: u16,
        /// The order.
        order: Order,
    },
    /// The background of a node went to sleep.
    Slept {
        /// The node.
        node: u16,
    },
    /// A request reclaimed.
    Reclaimed {
        /// The request's order.
        order: Order,
        /// How long it took.
        ns: u64,
        /// What it gave back.
        frames: u64,
        /// The same request had reclaimed before.
        is_again: bool,
    },
    /// A request compacted a zone.
    Compacted {
        /// The request's order.
        order: Order,
        /// How long it took.
        ns: u64,
        /// The same request had compacted before, another zone or this one.
        is_again: bool,
    },
    /// A zone was compacted for no request.
    BackgroundCompacted {
        /// How long it took.
        ns: u64,
    },
}

/// Orders that are told apart.
const ORDERS: usize = crate::measure::MAX_ORDER + 1;

/// What requests of one order waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WaitSum {
    /// Requests that waited, each once.
    pub requests: u64,
    /// How often they began to.
    pub times: u64,
    /// How long.
    pub ns: u64,
}

impl WaitSum {
    fn note(&mut self, ns: u64, is_again: bool) {
        self.requests += u64::from(!is_again);
        self.times += 1;
        self.ns = self.ns.saturating_add(ns);
    }

    /// How long, in milliseconds.
    #[must_use]
    pub fn ms(self) -> f64 {
        self.ns as f64 / 1e6
    }

    fn and(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            times: self.times + other.times,
            ns: self.ns.saturating_add(other.ns),
        }
    }
}

/// What requests waited for, by order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestWaits {
    /// Direct reclaim, where the recording shows it.
    pub reclaim: Option<[WaitSum; ORDERS]>,
    /// Direct compaction, where the recording shows it.
    pub compaction: Option<[WaitSum; ORDERS]>,
}

impl RequestWaits {
    /// What a recording shows that requests waited for.
    #[must_use]
    pub fn of(work: &KernelWork) -> Self {
        let mut waits = Self::none(work.traced);
        work.events.iter().for_each(|event| waits.note(event.kind));
        waits
    }

    /// Nothing yet, of what is traced.
    #[must_use]
    pub fn none(traced: TracedWork) -> Self {
        let none = [WaitSum::default(); ORDERS];
        Self {
            reclaim: traced.reclaim.then_some(none),
            compaction: traced.compaction.then_some(none),
        }
    }

    /// Adds a piece of work, if a request waited for it.
    pub fn note(&mut self, kind: WorkKind) {
        let (sums, order, ns, is_again) = match kind {
            WorkKind::Reclaimed {
                order,
                ns,
                is_again,
                ..
            } => (&mut self.reclaim, order, ns, is_again),
            WorkKind::Compacted {
                order,
                ns,
                is_again,
            } => (&mut self.compaction, order, ns, is_again),
            _ => return,
        };
        if let Some(sum) = sums.as_mut().and_then(|sums| sums.get_mut(order.index())) {
            sum.note(ns, is_again);
        }
    }

    /// All orders together.
    #[must_use]
    pub fn sum(sums: &[WaitSum; ORDERS]) -> WaitSum {
        sums.iter()
            .fold(WaitSum::default(), |sum, &one| sum.and(one))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_waits_twice_is_one_request_and_two_times() {
        let order = Order::new(3).unwrap();
        let reclaimed = |ns, is_again| WorkEvent {
            at: 0,
            kind: WorkKind::Reclaimed {
                order,
                ns,
                frames: 32,
                is_again,
            },
        };
        let background = WorkKind::BackgroundCompacted { ns: 5 };
        let work = KernelWork {
            traced: TracedWork {
                background: false,
                reclaim: true,
                compaction: false,
            },
            events: vec![
                reclaimed(10, false),
                reclaimed(20, true),
                reclaimed(5, false),
                WorkEvent {
                    at: 0,
                    kind: background,
                },
            ],
        };
        let waits = RequestWaits::of(&work);
        let of = waits.reclaim.unwrap();
        let sum = WaitSum {
            requests: 2,
            times: 3,
            ns: 35,
        };
        assert_eq!(
            (of[3], RequestWaits::sum(&of), of[0]),
            (sum, sum, WaitSum::default())
        );
        // What is not traced is not known to be nothing.
        assert_eq!(waits.compaction, None);
        assert!(work.traced.has(reclaimed(1, false).kind) && !work.traced.has(background));
    }

    #[test]
    fn what_is_traced_keeps_its_bit() {
        for bits in 0..8 {
            assert_eq!(TracedWork::from_bits(bits).unwrap().bits(), bits);
        }
        assert_eq!(TracedWork::from_bits(8), None);
        let mut traced = TracedWork::default();
        traced.add(WorkKind::Slept { node: 0 });
        assert_eq!(traced.bits(), 1);
        traced.add(WorkKind::BackgroundCompacted { ns: 0 });
        assert_eq!(traced.bits(), 5);
    }
}
