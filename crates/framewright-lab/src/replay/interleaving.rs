//! Other orders of a recording's operations: what other timing could have made of the same work.
//!
//! A recording is one run of many. Which of two CPUs comes first within a moment is chance, and so is the order in which a
//! CPU frees what it gives back at once. A figure that changes with such an order says nothing about a policy, so replays of
//! several orders tell how far a figure can be trusted.
//!
//! # Rules
//! - Operations change places within a window only. A window ends where time passes, a millisecond or more, and after
//!   [`WINDOW_MAX`] operations.
//! - What different CPUs did in a window comes in a drawn order. What one CPU did keeps its order, but for frees of whole
//!   objects that follow each other there: batches of [`BATCH`] of them change places. Inside a batch the order stays, because
//!   what is freed together often lies together, and that is no chance: with every free drawn, replays came out more
//!   fragmented than the machine was.
//! - No object is freed before it is allocated.
//!
//! What the background and compaction did keeps its place in the count of operations.

use crate::trace::{OpKind, Trace, TraceOp};
use framewright_sim::Random;
use std::ops::Range;

/// The most operations in a window.
const WINDOW_MAX: usize = 4096;
/// As many frees as the kernel hands over at once (`PAGEVEC_SIZE` is 31).
const BATCH: usize = 31;
/// In place of an object's number where an operation has no object.
const NO_OBJECT: u32 = u32::MAX;

/// One operation in its new place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PlacedOp {
    /// Its place in the recording.
    pub(super) index: u32,
    /// The object that it allocates, or frees in whole or in part.
    pub(super) object: u32,
}

/// The operations of a trace in the order that a seed draws.
pub(super) fn interleaved(trace: &Trace, seed: u32) -> Vec<PlacedOp> {
    let mut drawing = OrderDrawing {
        ops: &trace.ops,
        random: Random::new(u64::from(seed)),
        order: Vec::with_capacity(trace.ops.len()),
    };
    let mut next_object = trace.init.len() as u32;
    let mut window = Vec::new();
    let mut objects = next_object..next_object;
    for (index, op) in (0..).zip(&trace.ops) {
        let object = match op.kind() {
            OpKind::Alloc => {
                next_object += 1;
                next_object - 1
            }
            OpKind::Free | OpKind::FreePart => op.value,
            OpKind::Tick | OpKind::Failed => NO_OBJECT,
        };
        let placed = PlacedOp { index, object };
        let is_tick = op.kind() == OpKind::Tick;
        if !is_tick {
            window.push(placed);
        }
        if is_tick || window.len() == WINDOW_MAX {
            objects.end = next_object;
            drawing.close(&mut window, &objects);
            objects.start = next_object;
        }
        if is_tick {
            drawing.order.push(placed);
        }
    }
    objects.end = next_object;
    drawing.close(&mut window, &objects);
    drawing.order
}

struct OrderDrawing<'a> {
    ops: &'a [TraceOp],
    random: Random,
    order: Vec<PlacedOp>,
}

impl OrderDrawing<'_> {
    fn op(&self, placed: PlacedOp) -> &TraceOp {
        &self.ops[placed.index as usize]
    }

    /// Draws the order of a window, which allocates these objects, and leaves the window empty.
    fn close(&mut self, window: &mut Vec<PlacedOp>, objects: &Range<u32>) {
        let mut queues: Vec<(u16, Vec<PlacedOp>)> = Vec::new();
        for placed in window.drain(..) {
            let cpu = self.op(placed).cpu();
            match queues.iter_mut().find(|(of, _)| *of == cpu) {
                Some((_, queue)) => queue.push(placed),
                None => queues.push((cpu, vec![placed])),
            }
        }
        for (_, queue) in &mut queues {
            self.draw_frees(queue);
            // Taken from the end.
            queue.reverse();
        }
        let mut is_there = vec![false; objects.len()];
        let mut left: usize = queues.iter().map(|(_, queue)| queue.len()).sum();
        while left > 0 {
            let drawn = self.random.below(left as u64) as usize;
            let drawn = nth_queue(&queues, drawn);
            let waits = |queue: &[PlacedOp]| {
                queue.last().is_none_or(|&next| {
                    let place = next.object.checked_sub(objects.start);
                    let place = place.map(|place| place as usize);
                    let is_alloc = self.op(next).kind() == OpKind::Alloc;
                    let born = place.and_then(|place| is_there.get(place));
                    !is_alloc && born.is_some_and(|&is_there| !is_there)
                })
            };
            // One that waits for another CPU's allocation lets others pass. Not all can wait: the recorded order is one.
            let ready = (0..queues.len()).map(|nth| (drawn + nth) % queues.len());
            let ready = ready.into_iter().find(|&nth| !waits(&queues[nth].1));
            let Some(next) = queues[ready.unwrap_or(drawn)].1.pop() else {
                break;
            };
            if self.op(next).kind() == OpKind::Alloc {
                is_there[(next.object - objects.start) as usize] = true;
            }
            self.order.push(next);
            left -= 1;
        }
    }

    /// Draws the order of the batches of whole objects' frees that follow each other.
    fn draw_frees(&mut self, queue: &mut [PlacedOp]) {
        let ops = self.ops;
        let is_free = |placed: &PlacedOp| ops[placed.index as usize].kind() == OpKind::Free;
        for run in queue.chunk_by_mut(|a, b| is_free(a) && is_free(b)) {
            let mut batches: Vec<Vec<PlacedOp>> = run.chunks(BATCH).map(<[_]>::to_vec).collect();
            self.random.shuffle(&mut batches);
            for (to, from) in run.iter_mut().zip(batches.iter().flatten()) {
                *to = *from;
            }
        }
    }
}

/// The queue that has the `nth` of all operations that are left.
fn nth_queue(queues: &[(u16, Vec<PlacedOp>)], mut nth: usize) -> usize {
    for (at, (_, queue)) in queues.iter().enumerate() {
        match nth.checked_sub(queue.len()) {
            Some(behind) => nth = behind,
            None => return at,
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{InitClass, InitObject};
    use framewright::{Frame, Mobility, Order};

    const INIT: u32 = 40;

    /// Programs on some CPUs allocate, free each other's objects, in whole and in part, and fail.
    fn recording(seed: u64) -> Trace {
        let mut random = Random::new(seed);
        let mut living: Vec<u32> = (0..INIT).collect();
        let mut next = INIT;
        let ops = (0..3000).map(|_| {
            let cpu = random.below(3) as u8;
            let mobility = Mobility::Movable;
            match random.below(20) {
                0 => TraceOp::tick(1),
                1 => TraceOp::alloc(true, Order::ZERO, mobility, cpu, 0, 0),
                2..10 => {
                    living.push(next);
                    next += 1;
                    TraceOp::alloc(false, Order::ZERO, mobility, cpu, 0, 0)
                }
                _ if living.is_empty() => TraceOp::tick(2),
                10 => {
                    let object = living[random.index(living.len())];
                    TraceOp::free_part(object, 0, Order::ZERO, cpu)
                }
                _ => {
                    let object = living.swap_remove(random.index(living.len()));
                    TraceOp::free(object, Order::ZERO, cpu)
                }
            }
        });
        let ops = ops.collect();
        let object = |frame| InitObject {
            frame: Frame(frame),
            class: InitClass::Movable,
        };
        Trace {
            nframes: 1 << 16,
            init: (0..u64::from(INIT)).map(object).collect(),
            ops,
            ..Trace::default()
        }
    }

    #[test]
    fn an_order_has_each_operation_once_and_frees_nothing_before_it_is_there() {
        for seed in 0..20 {
            let trace = recording(seed);
            let order = interleaved(&trace, seed as u32 + 1);
            let mut places: Vec<u32> = order.iter().map(|placed| placed.index).collect();
            places.sort_unstable();
            let all: Vec<u32> = (0..trace.ops.len() as u32).collect();
            assert_eq!(places, all);
            let mut is_there: Vec<bool> = vec![false; trace.ops.len() + INIT as usize];
            is_there[..INIT as usize].fill(true);
            let recorded = trace.ops.iter().filter(|op| op.kind() == OpKind::Alloc);
            assert_eq!(
                recorded.count(),
                order
                    .iter()
                    .filter(|placed| trace.ops[placed.index as usize].kind() == OpKind::Alloc)
                    .count()
            );
            let mut numbers = Vec::new();
            for placed in &order {
                let op = &trace.ops[placed.index as usize];
                match op.kind() {
                    OpKind::Alloc => {
                        numbers.push((placed.index, placed.object));
                        is_there[placed.object as usize] = true;
                    }
                    OpKind::Free | OpKind::FreePart => {
                        assert_eq!(placed.object, op.value);
                        assert!(is_there[op.value as usize], "{placed:?} of seed {seed}");
                    }
                    OpKind::Tick | OpKind::Failed => {}
                }
            }
            // Objects have the numbers that the recording gives them.
            numbers.sort_unstable();
            let given: Vec<u32> = numbers.iter().map(|&(_, object)| object).collect();
            assert_eq!(given, (INIT..INIT + given.len() as u32).collect::<Vec<_>>());
        }
    }

    #[test]
    fn time_stays_where_it_was_and_a_cpu_keeps_its_order_but_for_frees_in_a_row() {
        let trace = recording(7);
        let order = interleaved(&trace, 3);
        let op = |place: usize| &trace.ops[order[place].index as usize];
        for (place, recorded) in trace.ops.iter().enumerate() {
            let is_tick = recorded.kind() == OpKind::Tick;
            assert_eq!(op(place).kind() == OpKind::Tick, is_tick, "place {place}");
        }
        for cpu in 0..3 {
            let of_cpu = |placed: &&PlacedOp| {
                let op = &trace.ops[placed.index as usize];
                op.cpu() == cpu && op.kind() != OpKind::Tick
            };
            let mine: Vec<&PlacedOp> = order.iter().filter(of_cpu).collect();
            let is_free =
                |placed: &PlacedOp| trace.ops[placed.index as usize].kind() == OpKind::Free;
            for two in mine.windows(2) {
                let both_free = is_free(two[0]) && is_free(two[1]);
                assert!(both_free || two[0].index < two[1].index, "{two:?}");
            }
        }
    }

    #[test]
    fn batches_of_frees_change_places_and_stay_as_they_are_inside() {
        const FREES: u32 = 100;
        let alloc = TraceOp::alloc(false, Order::ZERO, Mobility::Movable, 0, 0, 0);
        let mut ops = vec![alloc; FREES as usize];
        ops.push(TraceOp::tick(1));
        ops.extend((0..FREES).map(|object| TraceOp::free(object, Order::ZERO, 0)));
        let trace = Trace {
            nframes: 1 << 16,
            ops,
            ..Trace::default()
        };
        let freed = |seed| {
            let order = interleaved(&trace, seed);
            let frees = &order[FREES as usize + 1..];
            frees
                .iter()
                .map(|placed| placed.object)
                .collect::<Vec<u32>>()
        };
        let mut firsts = Vec::new();
        for seed in 1..20 {
            let freed = freed(seed);
            firsts.push(freed[0]);
            let is_next = |two: &&[u32]| two[1] == two[0] + 1;
            // Four batches, the last of seven.
            let breaks = freed.windows(2).filter(|two| !is_next(two));
            for two in breaks {
                assert_eq!(two[1] as usize % BATCH, 0, "seed {seed}: {freed:?}");
            }
        }
        firsts.sort_unstable();
        firsts.dedup();
        assert_eq!(firsts, [0, 31, 62, 93]);
    }

    #[test]
    fn a_seed_is_an_order_and_another_seed_another() {
        let trace = recording(1);
        let [one, again, other] = [1, 1, 2].map(|seed| interleaved(&trace, seed));
        assert!(one == again && one != other);
        let as_recorded = |order: &[PlacedOp]| (0..).zip(order).all(|(at, op)| op.index == at);
        assert!(!as_recorded(&one) && !as_recorded(&other));
    }

    #[test]
    fn a_long_window_is_drawn_in_parts() {
        let alloc = |nth| TraceOp::alloc(false, Order::ZERO, Mobility::Movable, nth % 2, 0, 0);
        let ops = (0..3 * WINDOW_MAX).map(|nth| alloc(nth as u8)).collect();
        let trace = Trace {
            nframes: 1 << 16,
            ops,
            ..Trace::default()
        };
        for (place, placed) in interleaved(&trace, 1).into_iter().enumerate() {
            assert_eq!(place / WINDOW_MAX, placed.index as usize / WINDOW_MAX);
        }
    }
}
