//! A zone, and the model of page frames, in step. The zone stands alone: see [`drive`](crate::drive).

mod compare;
mod runs;
mod zone;

use super::{FrameCase, FrameModel, FrameOp, ModelFrame};
use crate::difference::{Difference, Finding, RunSummary, differ};
use crate::drive::{self, CpuSeats, in_step};
use crate::{Injected, Machine, MachineCall};
use framewright::frame::{AllocError, Seat, Zone};
use framewright::stats::FrameStats;
use framewright::{CpuId, Frame, Mobility, Order, Run};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Engine and model, in step.
struct FramePair<'z, 'm> {
    case: FrameCase,
    machine: &'z Machine,
    zone: &'z Zone<'m, &'z Machine>,
    seats: CpuSeats<Seat<'z, 'm, &'z Machine>>,
    model: FrameModel,
    expected: FrameStats,
    summary: RunSummary,
}

/// Runs a sequence on engine and model. Each operation's result, the counters and the engine's own
/// `verify` are compared as often as `case` says. At the end everything is freed, and each
/// pageblock must be one block again.
///
/// A panic of the engine is a difference too. After a platform call that `machine` makes fail,
/// everything must be as it was before the operation.
///
/// # Errors
/// The first difference.
///
/// # Panics
/// If no zone can have the layout or the configuration of the case.
pub fn run(
    case: &FrameCase,
    machine: &Machine,
    ops: impl IntoIterator<Item = FrameOp>,
) -> Result<RunSummary, Finding> {
    let words = case
        .layout
        .words_needed()
        .expect("a layout a zone can have");
    let mut memory = vec![0xa5a5_a5a5_a5a5_a5a5; words];
    let zone = Zone::new(&case.layout, &case.config, &mut memory, machine)
        .expect("enough metadata and a good configuration");
    let mut pair = FramePair {
        case: *case,
        machine,
        zone: &zone,
        seats: CpuSeats::new(case.layout.cpus),
        model: FrameModel::new(&case.layout),
        expected: FrameStats::default(),
        summary: RunSummary::default(),
    };
    for cpu in 0..case.layout.cpus {
        let seat = zone.seat(CpuId(cpu));
        pair.seats
            .put(cpu, seat.expect("a new zone's seats are free"));
    }
    in_step(&mut pair, case.cadence, ops)
}

fn order_of(order: u8) -> Order {
    Order::new(order).unwrap_or(Order::MAX)
}

impl drive::InStep for FramePair<'_, '_> {
    type Op = FrameOp;

    fn machine(&self) -> &Machine {
        self.machine
    }

    fn summary(&mut self) -> &mut RunSummary {
        &mut self.summary
    }

    /// All of the zone's frames exist.
    fn begin(&mut self) -> Result<(), Difference> {
        let layout = &self.case.layout;
        let offset = layout.start.0 % layout.pageblock_order.frames();
        self.step(FrameOp::Add {
            at: offset as u32,
            frames: layout.frames as u32,
        })
    }

    fn step(&mut self, op: FrameOp) -> Result<(), Difference> {
        match op {
            FrameOp::Alloc {
                cpu,
                order,
                mobility,
            } => {
                let order = order_of(order);
                let got = self.seat(cpu).alloc(order, mobility);
                self.judge(order, mobility, got)
            }
            FrameOp::AllocAtOnce {
                cpu,
                order,
                mobility,
            } => self.alloc_at_once(cpu, order_of(order), mobility),
            FrameOp::Free { cpu, pick } => match self.model.pick(pick) {
                Some((at, order, _)) => self.free(cpu, at, order),
                None => Ok(()),
            },
            FrameOp::FreeTwice { cpu, pick } => match self.model.pick(pick) {
                Some((at, order, _)) => {
                    self.free(cpu, at, order)?;
                    self.free(cpu, at, order)
                }
                None => Ok(()),
            },
            FrameOp::FreeAny { cpu, at, order } => self.free(cpu, at as usize, order_of(order)),
            FrameOp::FreePart {
                cpu,
                pick,
                order,
                part,
            } => match self.model.pick(pick) {
                Some((at, whole, _)) => {
                    let order = order_of(order).min(whole);
                    let parts = whole.frames() / order.frames();
                    let nth = u64::from(part) % parts * order.frames();
                    self.free_part(cpu, at + nth as usize, order)
                }
                None => Ok(()),
            },
            FrameOp::Split {
                cpu,
                pick,
                into,
                off,
            } => match self.model.pick(pick) {
                Some((at, order, _)) => {
                    self.split(cpu, at + usize::from(off), order, order_of(into))
                }
                None => Ok(()),
            },
            FrameOp::FreePartAny { cpu, at, order } => {
                self.free_part(cpu, at as usize, order_of(order))
            }
            FrameOp::Singles {
                cpu,
                frames,
                align,
                mobility,
            } => self.singles(cpu, u64::from(frames), 1 << align, mobility),
            FrameOp::AllocBulk {
                cpu,
                order,
                mobility,
                count,
            } => self.alloc_bulk(cpu, order_of(order), mobility, usize::from(count)),
            FrameOp::FreeBulk {
                cpu,
                pick,
                count,
                twice,
            } => self.free_bulk(cpu, pick, usize::from(count), twice),
            FrameOp::FreeRange { cpu, pick, count } => match self.model.pick(pick) {
                Some((at, ..)) => {
                    let mut end = at;
                    for _ in 0..count {
                        if let ModelFrame::First(order, _) = self.model.state(end) {
                            end += order.frames() as usize;
                        }
                    }
                    self.free_range(cpu, at as u32, (end - at) as u32)
                }
                None => Ok(()),
            },
            FrameOp::FreeRangeAny { cpu, at, frames } => self.free_range(cpu, at, frames),
            FrameOp::TakeRun { cpu, frames } => self.take_run(cpu, u64::from(frames)),
            FrameOp::FreeFrames {
                cpu,
                pick,
                count,
                cut,
            } => self.free_frames_from(cpu, pick, count, usize::from(cut)),
            FrameOp::FreeFramesAny { cpu, at, frames } => {
                self.free_frames(cpu, at as usize, frames as usize)
            }
            FrameOp::Reseat { cpu } => {
                self.machine.run_on(CpuId(cpu));
                if self.zone.seat(CpuId(cpu)).is_ok() {
                    return differ!("a seat was given out twice");
                }
                self.seats.give_back(cpu);
                match self.zone.seat(CpuId(cpu)) {
                    Ok(seat) => self.seats.put(cpu, seat),
                    Err(_) => return differ!("a seat that was given back is still taken"),
                }
                Ok(())
            }
            _ => self.step_zone(op),
        }
    }

    fn step_or_fault(&mut self, op: FrameOp) -> Result<(), Difference> {
        if !self.machine.has_fault() {
            return self.step(op);
        }
        // A bulk's first blocks would be the caller's when a later one fails, but the caller is
        // unwound; single operations show all there is to see.
        if matches!(op, FrameOp::AllocBulk { .. }) {
            return Ok(());
        }
        match catch_unwind(AssertUnwindSafe(|| self.step(op))) {
            Ok(result) => result,
            Err(payload) if payload.is::<Injected>() => {
                // As if the operation had not happened: the model has not seen it, and later
                // operations show whether the engine agrees.
                self.summary.faults += 1;
                Ok(())
            }
            Err(payload) => resume_unwind(payload),
        }
    }

    fn compare_counters(&mut self) -> Result<(), Difference> {
        self.compare_stats()
    }

    fn verify(&mut self) -> Result<(), Difference> {
        self.verify_all()
    }

    /// The law of every allocator: when all is freed, all is as at first.
    fn free_everything(&mut self) -> Result<(), Difference> {
        let cpus = usize::from(self.seats.cpus());
        while let Some((at, order, _)) = self.model.pick(0) {
            self.free((at % cpus) as u16, at, order)?;
        }
        self.step(FrameOp::Drain)?;
        self.verify()?;
        self.compare_counters()?;
        if self.machine.calls(MachineCall::Relax) > 0 && self.summary.faults == 0 {
            return differ!("the engine waited, although one CPU runs at a time");
        }
        Ok(())
    }
}

impl<'z, 'm> FramePair<'z, 'm> {
    fn seat(&mut self, cpu: u16) -> &mut Seat<'z, 'm, &'z Machine> {
        self.seats.run_on(self.machine, cpu)
    }

    fn frame(&self, at: u32) -> Frame {
        self.model.frame(at as usize)
    }

    fn run_of(&self, at: u32, frames: u32) -> Run {
        Run::new(self.frame(at), u64::from(frames)).expect("small numbers")
    }

    /// The engine refuses if and only if the model does.
    fn agree<T: fmt::Debug, E: fmt::Debug>(
        &self,
        got: Result<T, E>,
        can: bool,
    ) -> Result<(), Difference> {
        if got.is_ok() == can {
            Ok(())
        } else {
            differ!("the engine says {got:?}, the model says that it can: {can}")
        }
    }

    /// Judges the result of a request for one block, and updates the model.
    fn judge(
        &mut self,
        order: Order,
        mobility: Mobility,
        got: Result<Frame, AllocError>,
    ) -> Result<(), Difference> {
        match got {
            Ok(frame) => {
                let at = self.model.offset(frame);
                if !self.model.could_hand_out(at, order, mobility) {
                    return differ!(
                        "{order} for {mobility}: {frame} was handed out, which is {:?}",
                        self.model.state(at)
                    );
                }
                self.model.alloc(at, order, mobility);
                self.expected.pgalloc[mobility.index()] += order.frames();
                self.summary.served += 1;
                Ok(())
            }
            Err(error) => {
                let must = self.model.must_alloc(order, mobility);
                let is_exact = self.is_exact(order);
                if is_exact && must != Err(error) {
                    return differ!(
                        "F8: {order} for {mobility}: the engine says {error:?}, the model {must:?}"
                    );
                }
                if error == AllocError::WouldWait {
                    return differ!("{order} for {mobility}: it may wait, and is told {error:?}");
                }
                self.count_refused(order, error);
                if is_exact || must.is_err() {
                    return Ok(());
                }
                self.summary.missed += 1;
                if self.zone.recount().cached == 0 {
                    return differ!("F8: {order} for {mobility}: {error:?}, and nothing is cached");
                }
                let got = self.seat(0).alloc_hard(order, mobility);
                if got.is_err() {
                    return differ!(
                        "F8: {order} for {mobility}: {got:?} for a request that tries hard, the model {must:?}"
                    );
                }
                self.judge(order, mobility, got)
            }
        }
    }

    /// A request that must not wait stops no CPU. It may miss a block that could be made of frames that other
    /// CPUs have cached, and then it says so.
    fn alloc_at_once(
        &mut self,
        cpu: u16,
        order: Order,
        mobility: Mobility,
    ) -> Result<(), Difference> {
        let drains = self.zone.stats().drains;
        let got = self.seat(cpu).alloc_at_once(order, mobility);
        let drained = self.zone.stats().drains - drains;
        if drained != 0 {
            return differ!("{order} for {mobility}: {got:?}, and all CPUs were stopped for it");
        }
        let Err(error) = got else {
            return self.judge(order, mobility, got);
        };
        let must = self.model.must_alloc(order, mobility);
        let is_right = match must {
            // It leaves no doubt, and so it is exact.
            _ if error != AllocError::WouldWait => must == Err(error),
            _ if self.case.layout.cpus == 1 || order.frames() > self.model.free_frames() => false,
            Ok(()) => self.zone.recount().cached != 0,
            Err(must) => matches!(must, AllocError::Exhausted | AllocError::Fragmented),
        };
        if !is_right {
            return differ!("{order} for {mobility} at once: {got:?}, the model {must:?}");
        }
        self.summary.missed += u64::from(must.is_ok());
        self.count_refused(order, error);
        Ok(())
    }

    fn count_refused(&mut self, order: Order, error: AllocError) {
        self.summary.refused += 1;
        match error {
            AllocError::Exhausted => self.expected.exhausted[order.index()] += 1,
            AllocError::Fragmented | AllocError::WouldWait => {
                self.expected.fragmented[order.index()] += 1;
            }
            AllocError::TooLarge { .. } | AllocError::Impossible => {}
        }
    }

    /// Whether the engine stops all CPUs before it refuses that order. If not, it may refuse a
    /// block that could be made of frames that other CPUs have cached.
    fn is_exact(&self, order: Order) -> bool {
        self.case.layout.cpus == 1 || order <= self.case.config.stop_order_max
    }

    fn free(&mut self, cpu: u16, at: usize, order: Order) -> Result<(), Difference> {
        let frame = self.model.frame(at);
        let got = self.seat(cpu).free(frame, order);
        let must = self.model.free(at, order);
        if got != must {
            return differ!("free: the engine says {got:?}, the model {must:?}");
        }
        self.expected.pgfree += if must.is_ok() { order.frames() } else { 0 };
        Ok(())
    }

    fn free_part(&mut self, cpu: u16, at: usize, order: Order) -> Result<(), Difference> {
        let frame = self.model.frame(at);
        let got = self.seat(cpu).free_part(frame, order);
        let can = self.model.free_part(at, order);
        self.expected.pgfree += if can { order.frames() } else { 0 };
        self.agree(got, can)
    }

    fn split(&mut self, cpu: u16, at: usize, order: Order, into: Order) -> Result<(), Difference> {
        let frame = self.model.frame(at);
        let got = self.seat(cpu).split(frame, order, into);
        let can = self.model.split(at, order, into);
        self.agree(got, can)
    }

    fn alloc_bulk(
        &mut self,
        cpu: u16,
        order: Order,
        mobility: Mobility,
        count: usize,
    ) -> Result<(), Difference> {
        let mut frames = [Frame(u64::MAX); 256];
        let got = self
            .seat(cpu)
            .alloc_bulk(order, mobility, &mut frames[..count]);
        let (taken, error) = match got {
            Ok(taken) => (taken, None),
            Err(error) => (0, Some(error)),
        };
        for &frame in &frames[..taken] {
            self.judge(order, mobility, Ok(frame))?;
        }
        if taken < count {
            let must = self.model.must_alloc(order, mobility);
            let mut error = error.or(must.err());
            if !self.is_exact(order) {
                // Only the counters tell why it ended.
                let (got, sofar) = (self.zone.stats(), &self.expected);
                let is_exhausted = got.exhausted[order.index()] > sofar.exhausted[order.index()];
                error = Some(match error {
                    Some(error @ AllocError::TooLarge { .. }) => error,
                    _ if is_exhausted => AllocError::Exhausted,
                    _ => AllocError::Fragmented,
                });
            }
            match error {
                Some(error) => self.judge(order, mobility, Err(error))?,
                None => return differ!("a bulk ended early although a block was free"),
            }
        }
        Ok(())
    }

    fn free_bulk(
        &mut self,
        cpu: u16,
        pick: u32,
        count: usize,
        twice: bool,
    ) -> Result<(), Difference> {
        let Some((_, order, _)) = self.model.pick(pick) else {
            return Ok(());
        };
        let mut places: Vec<usize> = (pick..pick.saturating_add(count as u32))
            .filter_map(|pick| self.model.pick(pick))
            .filter(|&(_, other, _)| other == order)
            .map(|(at, ..)| at)
            .collect();
        places.sort_unstable();
        places.dedup();
        if twice && !places.is_empty() {
            places.push(places[0]);
        }
        let frames: Vec<Frame> = places.iter().map(|&at| self.model.frame(at)).collect();
        let got = self.seat(cpu).free_bulk(order, &frames);
        let mut must = Ok(());
        for (nth, &at) in places.iter().enumerate() {
            match self.model.free(at, order) {
                Ok(()) => self.expected.pgfree += order.frames(),
                Err(error) => {
                    must = Err((nth, error));
                    break;
                }
            }
        }
        if got != must {
            return differ!("free_bulk: the engine says {got:?}, the model {must:?}");
        }
        Ok(())
    }

    fn free_range(&mut self, cpu: u16, at: u32, frames: u32) -> Result<(), Difference> {
        let run = self.run_of(at, frames);
        let got = self.seat(cpu).free_range(run);
        let covering = self.model.covering(at as usize, frames as usize);
        self.agree(got, covering.is_some())?;
        for (at, order) in covering.into_iter().flatten() {
            let freed = self.model.free(at, order);
            debug_assert!(freed.is_ok(), "the blocks over a run are allocated");
            self.expected.pgfree += order.frames();
        }
        Ok(())
    }
}
