//! What a request's flags say of its failure: whether the kernel would have told of it, whether it could have waited,
//! and whether its caller has something else to do.

use super::{OpKind, Trace};

// Linux 6.18's numbers, which the readers translate every name to.
const DIRECT_RECLAIM: u32 = 1 << 10;
const NOWARN: u32 = 1 << 13;
const NORETRY: u32 = 1 << 16;

/// What a request's flags say of its failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestTraits {
    /// The kernel prints `page allocation failure` if it fails (no `__GFP_NOWARN`).
    pub is_reported: bool,
    /// It may reclaim and compact, so it waits before it fails (`__GFP_DIRECT_RECLAIM`).
    pub may_reclaim: bool,
    /// Its caller wants the kernel to give up at once, because it can do with something else (`__GFP_NORETRY`).
    pub is_optional: bool,
}

impl RequestTraits {
    /// What these flags say.
    #[must_use]
    pub const fn of(flags: u32) -> Self {
        Self {
            is_reported: flags & NOWARN == 0,
            may_reclaim: flags & DIRECT_RECLAIM != 0,
            is_optional: flags & NORETRY != 0,
        }
    }
}

/// Orders that are told apart.
const ORDERS: usize = crate::measure::MAX_ORDER + 1;
/// The order of a huge page.
const HUGE_ORDER: usize = 9;

/// Requests by what their flags say, by order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// All of them.
    pub all: [u64; ORDERS],
    /// Those whose failure the kernel prints.
    pub reported: [u64; ORDERS],
    /// Those that may not reclaim.
    pub no_reclaim: [u64; ORDERS],
    /// Those whose callers can do with something else.
    pub optional: [u64; ORDERS],
    /// Those of which no event showed the flags. They are among none of the above but `all`.
    pub unseen: [u64; ORDERS],
}

impl RequestCounts {
    /// The requests of a trace, those that failed on the recording machine or the others.
    #[must_use]
    pub fn of_trace(trace: &Trace, kind: OpKind) -> Self {
        let mut counts = Self::default();
        for op in trace.ops.iter().filter(|op| op.kind() == kind) {
            counts.note(
                op.order().index(),
                trace.gfp.get(usize::from(op.gfp)).copied(),
            );
        }
        counts
    }

    /// Counts one. An order that no metric knows is counted nowhere.
    pub fn note(&mut self, order: usize, flags: Option<u32>) {
        let Some(all) = self.all.get_mut(order) else {
            return;
        };
        *all += 1;
        match flags.map(RequestTraits::of) {
            None => self.unseen[order] += 1,
            Some(of) => {
                self.reported[order] += u64::from(of.is_reported);
                self.no_reclaim[order] += u64::from(!of.may_reclaim);
                self.optional[order] += u64::from(of.is_optional);
            }
        }
    }

    /// Those that asked for a huge page. What has no flags was inferred, and is no program's request.
    #[must_use]
    pub fn huge_pages(&self) -> u64 {
        let of = |counts: &[u64; ORDERS]| counts[HUGE_ORDER..].iter().sum::<u64>();
        of(&self.all) - of(&self.unseen)
    }

    /// Both together.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        let pairs = [
            (&mut self.all, &other.all),
            (&mut self.reported, &other.reported),
            (&mut self.no_reclaim, &other.no_reclaim),
            (&mut self.optional, &other.optional),
            (&mut self.unseen, &other.unseen),
        ];
        for (mine, theirs) in pairs {
            for (mine, theirs) in mine.iter_mut().zip(theirs) {
                *mine += theirs;
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_say_what_becomes_of_a_failure() {
        // GFP_KERNEL, GFP_ATOMIC, GFP_NOWAIT, a socket's fragment, a file's large folio.
        let cases = [
            (0xcc0, (true, true, false)),
            (0x820, (true, false, false)),
            (0x2800, (false, false, false)),
            (0x52820, (false, false, true)),
            (0x152c4a, (false, true, true)),
        ];
        let mut counts = RequestCounts::default();
        for (flags, said) in cases {
            let of = RequestTraits::of(flags);
            assert_eq!(
                (of.is_reported, of.may_reclaim, of.is_optional),
                said,
                "{flags:#x}"
            );
            counts.note(3, Some(flags));
        }
        counts.note(3, None);
        counts.note(11, None);
        let of = |counts: [u64; ORDERS]| (counts[3], counts.iter().sum::<u64>());
        assert_eq!(of(counts.all), (6, 6));
        assert_eq!(of(counts.reported), (2, 2));
        assert_eq!(of(counts.no_reclaim), (3, 3));
        assert_eq!(of(counts.optional), (2, 2));
        assert_eq!(of(counts.unseen), (1, 1));
        assert_eq!(counts.and(&counts).all[3], 12);
    }
}
