//! What happens next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that happens at a moment; `nth` and `run` name the application, reader or source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PhoneEvent {
    /// The user takes the device, or puts it away.
    Session,
    /// The user goes to another application.
    Switch,
    /// A process that starts has its next slice.
    Start {
        /// Which application.
        nth: u32,
        /// Which of its lives: the killer ends one, the next start begins another.
        run: u32,
    },
    /// The application on the screen asks for memory.
    Grow,
    /// A process, on the screen or not, frees memory and asks for as much.
    Churn,
    /// A reader reads.
    Read {
        /// Which reader.
        nth: u32,
    },
    /// A source asks for kernel memory.
    Kernel {
        /// Which source.
        nth: u32,
    },
    /// A source asks for buffers.
    Buffers {
        /// Which source.
        nth: u32,
    },
    /// The blocks on a list have reached the end of their life.
    End {
        /// Which list.
        list: u32,
    },
}

/// Events by time; those of one time in the order in which they came (Q2).
#[derive(Debug, Default)]
pub(super) struct EventQueue {
    events: BinaryHeap<Reverse<(u64, u64, PhoneEvent)>>,
    nth: u64,
}

impl EventQueue {
    /// Something will happen.
    pub(super) fn push(&mut self, at_us: u64, event: PhoneEvent) {
        self.nth += 1;
        self.events.push(Reverse((at_us, self.nth, event)));
    }

    /// What happens next, if it does before `end_us`.
    pub(super) fn pop(&mut self, end_us: u64) -> Option<(u64, PhoneEvent)> {
        let Reverse((at, _, event)) = *self.events.peek()?;
        if at >= end_us {
            return None;
        }
        self.events.pop();
        Some((at, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_at_one_time_in_the_order_they_were_made() {
        let mut queue = EventQueue::default();
        queue.push(5, PhoneEvent::Switch);
        queue.push(3, PhoneEvent::Session);
        queue.push(3, PhoneEvent::Grow);
        queue.push(9, PhoneEvent::Churn);
        let all: Vec<_> = std::iter::from_fn(|| queue.pop(9)).collect();
        let expected = [
            (3, PhoneEvent::Session),
            (3, PhoneEvent::Grow),
            (5, PhoneEvent::Switch),
        ];
        assert_eq!(all, expected);
    }
}
