//! The recorded background, as steps between operations. It is read from the trace once; `zoned` follows it where
//! it is there and guesses where it is not.

use crate::trace::{OpKind, Trace, WorkKind};

/// How long kswapd naps between a round and its sleep (`HZ / 10`): a round that ends in sleep was over by so much before.
const NAP_MS: u64 = 100;

/// What the recorded background does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordedStep {
    /// It begins a round; one that it was in is over.
    Begins,
    /// Its round is over.
    Ended,
}

/// When the background of the recording machine reclaimed.
///
/// A recording shows when kswapd begins a round and when it sleeps. Between its last round and its sleep it naps; a nap
/// that a request cuts short is followed by the next round at once. A sleep that no round precedes ends one from before
/// the recording, which found the boost of the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundRuns {
    /// Before which operation of the trace, and what.
    steps: Vec<(u32, RecordedStep)>,
}

impl BackgroundRuns {
    /// Those of a recording that shows them. `None` also where several nodes have one each, because a replay has one node.
    #[must_use]
    pub fn of(trace: &Trace) -> Option<Self> {
        if !trace.work.traced.background {
            return None;
        }
        let mut only = None;
        // The operation behind each tick, and the time from there on.
        let mut ticks = vec![(0, 0)];
        for (at, op) in (1..).zip(&trace.ops) {
            if op.kind() == OpKind::Tick {
                let (_, ms) = ticks[ticks.len() - 1];
                ticks.push((at, ms + u64::from(op.value)));
            }
        }
        let (mut steps, mut since) = (Vec::new(), None);
        // Before the first round that is seen to begin.
        let mut is_first = true;
        for event in &trace.work.events {
            let node = match event.kind {
                WorkKind::Woke { node, .. } | WorkKind::Slept { node } => node,
                _ => continue,
            };
            if *only.get_or_insert(node) != node {
                return None;
            }
            if let WorkKind::Woke { .. } = event.kind {
                is_first = false;
                since = Some(event.at);
                steps.push((event.at, RecordedStep::Begins));
                continue;
            }
            let now = ticks.partition_point(|&(at, _)| at <= event.at) - 1;
            if std::mem::take(&mut is_first) {
                // It was awake when the recording began: in a round, or in the nap behind it.
                if ticks[now].1 < NAP_MS {
                    continue;
                }
                steps.push((0, RecordedStep::Begins));
            }
            let over = ticks[now].1.saturating_sub(NAP_MS);
            let over = ticks.partition_point(|&(_, ms)| ms < over);
            // Of the operations of that millisecond the first.
            let over = ticks[over.min(now)].0.max(since.take().unwrap_or(0));
            steps.push((over, RecordedStep::Ended));
        }
        Some(Self { steps })
    }

    /// The steps in order, each with the operation that it stands before.
    #[must_use]
    pub fn steps(&self) -> &[(u32, RecordedStep)] {
        &self.steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{TraceOp, TracedWork, WorkEvent};
    use framewright::Order;

    fn trace(events: &[(u32, WorkKind)]) -> Trace {
        let of = |&(at, kind)| WorkEvent { at, kind };
        let mut trace = Trace {
            // At 10, 20, 100, 110 and 400 ms.
            ops: [10, 10, 80, 10, 290].map(TraceOp::tick).to_vec(),
            ..Trace::default()
        };
        trace.work.traced = TracedWork {
            background: true,
            ..TracedWork::default()
        };
        trace.work.events = events.iter().map(of).collect();
        trace
    }

    #[test]
    fn a_round_ends_a_nap_before_the_sleep_or_with_the_next_one() {
        use RecordedStep::{Begins, Ended};
        let woke = |node| WorkKind::Woke {
            node,
            order: Order::ZERO,
        };
        let slept = WorkKind::Slept { node: 0 };
        let runs = |events: &[(u32, WorkKind)]| {
            BackgroundRuns::of(&trace(events)).map(|runs| runs.steps().to_vec())
        };
        // It sleeps at 110 ms, so it was done at 10.
        let said = runs(&[(0, woke(0)), (4, slept), (4, woke(0)), (5, woke(0))]);
        let expected = [(0, Begins), (1, Ended), (4, Begins), (5, Begins)];
        assert_eq!(said.unwrap(), expected);
        // Not before it began.
        assert_eq!(runs(&[(3, woke(0)), (4, slept)]).unwrap()[1], (3, Ended));
        // One that ran already at the start, and one that was over by then.
        assert_eq!(runs(&[(4, slept)]).unwrap(), [(0, Begins), (1, Ended)]);
        assert_eq!(runs(&[(2, slept)]).unwrap(), []);
        // 300 ms pass in one step: it was over somewhere in it.
        let long = runs(&[(0, woke(0)), (5, slept)]).unwrap();
        assert_eq!(long, [(0, Begins), (5, Ended)]);
        assert_eq!(runs(&[(0, woke(0)), (1, woke(1))]), None, "two nodes");
        assert_eq!(runs(&[]).unwrap(), []);
        let mut unseen = trace(&[]);
        unseen.work.traced.background = false;
        assert_eq!(BackgroundRuns::of(&unseen), None);
    }
}
