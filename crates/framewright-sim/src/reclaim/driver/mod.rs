//! A zone's reclaim with simulated clients, and its model, in step. Both stand alone, without the engine's front
//! door: see [`drive`](crate::drive).

mod laws;
mod requests;
mod runs;

use super::client::with_clients;
use super::world::{OperationCalls, World};
use super::{ReclaimCase, ReclaimLie, ReclaimOp};
use crate::difference::{Difference, Finding, RunSummary, differ};
use crate::drive::{self, CpuSeats, in_step};
use crate::{Machine, MachineCall};
use framewright::RunError;
use framewright::frame::Zone;
use framewright::policy::ContigConfig;
use framewright::reclaim::{Background, Compaction, Reclaim, ReclaimSeat};
use framewright::{Context, CpuId, Mobility, Order, Run};
use laws::Before;

/// Engine and model, in step.
struct ReclaimPair<'w, 'r, 'z, 'm> {
    world: &'w World<'z, 'm>,
    reclaim: &'r Reclaim<'z, 'm, &'z Machine>,
    seats: CpuSeats<ReclaimSeat<'r, 'z, 'm, &'z Machine>>,
    summary: RunSummary,
}

/// Runs a sequence on engine and model. Each operation's result and counts and what clients see
/// meanwhile are checked, and everything else as often as `case` says. At the end everything is
/// freed.
///
/// A panic of the engine is a difference too. After a client's call that `machine` makes fail,
/// everything must be as it was, except for what the call did not do.
///
/// # Errors
/// The first difference.
///
/// # Panics
/// If the layout or a configuration of the case is not one a zone can have.
pub fn run(
    case: &ReclaimCase,
    machine: &Machine,
    ops: impl IntoIterator<Item = ReclaimOp>,
) -> Result<RunSummary, Finding> {
    const NOISE: u64 = 0xa5a5_a5a5_a5a5_a5a5;
    let words = case
        .layout
        .words_needed()
        .expect("a layout a zone can have");
    let mut memory = vec![NOISE; words];
    let zone = Zone::new(&case.layout, &case.config, &mut memory, machine)
        .expect("enough metadata and a good configuration");
    let mut memory = vec![NOISE; Reclaim::words_needed(&zone)];
    let reclaim =
        Reclaim::new(&zone, &case.reclaim, &mut memory).expect("a good configuration of reclaim");
    let seat = |cpu| zone.seat(CpuId(cpu)).expect("a new zone's seats are free");
    let world = World::new(case, machine, &zone, seat(case.cpus()));
    let mut pair = ReclaimPair {
        world: &world,
        reclaim: &reclaim,
        seats: CpuSeats::new(case.cpus()),
        summary: RunSummary::default(),
    };
    for cpu in 0..case.cpus() {
        pair.seats.put(cpu, reclaim.seat(seat(cpu)));
    }
    in_step(&mut pair, case.cadence, ops)
}

fn order_of(order: u8) -> Order {
    Order::new(order).unwrap_or(Order::MAX)
}

impl drive::InStep for ReclaimPair<'_, '_, '_, '_> {
    type Op = ReclaimOp;

    fn machine(&self) -> &Machine {
        self.world.machine
    }

    fn summary(&mut self) -> &mut RunSummary {
        &mut self.summary
    }

    /// All of the zone's frames exist.
    fn begin(&mut self) -> Result<(), Difference> {
        let layout = self.world.case.layout;
        let run = Run::new(layout.start, layout.frames).expect("small numbers");
        if let Err(error) = self.world.zone.add(run) {
            return differ!("memory cannot be added: {error}");
        }
        let mut model = self.world.model();
        let at = model.frames.offset(layout.start);
        model.frames.add(at, layout.frames as usize);
        Ok(())
    }

    fn step(&mut self, op: ReclaimOp) -> Result<(), Difference> {
        match op {
            ReclaimOp::Alloc {
                cpu,
                order,
                mobility,
                owner,
                nowait,
            } => {
                let context = if nowait {
                    Context::NOWAIT
                } else {
                    Context::ANY
                };
                self.alloc(cpu, (order_of(order), mobility), owner, context)
            }
            ReclaimOp::Raw {
                cpu,
                order,
                mobility,
                owner,
            } => {
                let seat = self.seats.run_on(self.world.machine, cpu).frames();
                let what = (order_of(order), mobility);
                let got = self.world.alloc_from(seat, what, owner, true)?;
                self.count(got.is_some());
                Ok(())
            }
            ReclaimOp::Free { cpu, pick } => {
                let picked = self.world.model().frames.pick(pick);
                match picked {
                    Some((at, ..)) => self.free(cpu, at),
                    None => Ok(()),
                }
            }
            ReclaimOp::Hold { pick, held } => {
                let mut model = self.world.model();
                if let Some((at, ..)) = model.frames.pick(pick)
                    && let Some(object) = model.objects.get_mut(&at)
                {
                    object.held = held;
                }
                Ok(())
            }
            ReclaimOp::Pin { pick, pinned } => {
                let mut model = self.world.model();
                if let Some((at, ..)) = model.frames.pick(pick)
                    && let Some(object) = model.objects.get_mut(&at)
                {
                    object.pinned = pinned.then_some(at);
                }
                Ok(())
            }
            ReclaimOp::Mood {
                client,
                mood,
                calls,
            } => {
                self.world.model().moods[usize::from(client)] = (mood, calls);
                Ok(())
            }
            ReclaimOp::PinBlock { at, pinned } => self.pin_block(at as usize, pinned),
            ReclaimOp::Compact {
                cpu,
                order,
                mobility,
                direct,
            } => self.compact(cpu, (order_of(order), mobility), direct),
            ReclaimOp::Evacuate { cpu, block, blocks } => {
                self.evacuate(cpu, block as usize, blocks as usize)
            }
            ReclaimOp::TakeRun {
                cpu,
                at,
                frames,
                linux,
            } => {
                let config = if linux {
                    ContigConfig::LINUX
                } else {
                    ContigConfig::default()
                };
                self.take_run(cpu, (at as usize, frames as usize), &config)
            }
            ReclaimOp::Isolate { block, isolated } => self.isolate(block as usize, isolated),
            ReclaimOp::SetLabel { block, label } => {
                let got = self
                    .world
                    .zone
                    .set_label(self.pageblocks(block as usize, 1), label);
                let can = self
                    .world
                    .model()
                    .frames
                    .set_label(block as usize, 1, label);
                if got.is_ok() == can {
                    Ok(())
                } else {
                    differ!("label: the engine says {got:?}, the model {can}")
                }
            }
            ReclaimOp::Background { cpu, budget } => {
                self.background(cpu, u64::from(budget)).map(|_| ())
            }
            ReclaimOp::Rest { cpu, budget } => self.rest(cpu, u64::from(budget)),
            ReclaimOp::Relieve { cpu, frames } => self.relieve(cpu, u64::from(frames)),
            ReclaimOp::Drain => {
                self.world.zone.drain();
                self.compare_pageblocks()
            }
        }
    }

    fn compare_counters(&mut self) -> Result<(), Difference> {
        let got = self.world.zone.stats();
        let must = self.world.model().frames.free_frames();
        if got.nr_free_pages != must || got.bad_frees != 0 {
            let (free, bad) = (got.nr_free_pages, got.bad_frees);
            return differ!("{free} frames are free, {must} must be; {bad} wrong frees");
        }
        Ok(())
    }

    fn verify(&mut self) -> Result<(), Difference> {
        self.verify_all()
    }

    /// The law of every allocator: when all is freed, all is as at first.
    fn free_everything(&mut self) -> Result<(), Difference> {
        for block in 0..self.world.zone.pageblocks() {
            if self.world.model().frames.is_isolated(block) {
                self.isolate(block, false)?;
            }
        }
        let cpus = usize::from(self.seats.cpus());
        loop {
            let picked = self.world.model().frames.pick(0);
            let Some((at, ..)) = picked else { break };
            self.free((at % cpus) as u16, at)?;
        }
        self.step(ReclaimOp::Drain)?;
        self.verify()?;
        self.compare_counters()?;
        if self.world.machine.calls(MachineCall::Relax) > 0 {
            return differ!("R5: the engine waited, although one CPU runs at a time");
        }
        Ok(())
    }
}

impl ReclaimPair<'_, '_, '_, '_> {
    const fn count(&mut self, is_served: bool) {
        if is_served {
            self.summary.served += 1;
        } else {
            self.summary.refused += 1;
        }
    }

    fn free(&mut self, cpu: u16, at: usize) -> Result<(), Difference> {
        let seat = self.seats.run_on(self.world.machine, cpu).frames();
        self.world.free_to(seat, at)
    }

    fn pageblocks(&self, block: usize, blocks: usize) -> Run {
        let shift = self.world.zone.pageblock_order().get();
        let first = self.world.model().frames.frame(block << shift);
        Run::new(first, (blocks as u64) << shift).expect("small numbers")
    }

    fn pin_block(&mut self, at: usize, pinned: bool) -> Result<(), Difference> {
        let frame = self.world.model().frames.frame(at);
        let zone = self.world.zone;
        let got = if pinned {
            zone.pin(frame)
        } else {
            zone.unpin(frame)
        };
        let must = self.world.model().frames.set_pinned(at, pinned);
        if got.ok() == must {
            Ok(())
        } else {
            differ!("pins: the engine says {got:?}, the model {must:?}")
        }
    }

    fn isolate(&mut self, block: usize, isolated: bool) -> Result<(), Difference> {
        let run = self.pageblocks(block, 1);
        let got = if isolated {
            self.world.zone.isolate(run)
        } else {
            self.world.zone.unisolate(run)
        };
        let is_there = block < self.world.zone.pageblocks();
        let mut model = self.world.model();
        let must = is_there
            .then(|| model.frames.set_isolated(block, 1, isolated))
            .flatten();
        if got.ok() == must {
            Ok(())
        } else {
            differ!("isolation: the engine says {got:?}, the model {must:?}")
        }
    }

    /// After compaction, plants the fault of a run that has one.
    fn plant(&mut self, cpu: u16) {
        match self.world.case.lie {
            ReclaimLie::LeaveIsolated => {
                let run = self.pageblocks(1, 1);
                // If it is isolated already, another time.
                let _ = self.world.zone.isolate(run);
            }
            ReclaimLie::LoseFrame => {
                let seat = self.seats.run_on(self.world.machine, cpu).frames();
                // If there is none, another time.
                let _ = seat.alloc(Order::ZERO, Mobility::Movable);
            }
            _ => {}
        }
    }

    fn compact(
        &mut self,
        cpu: u16,
        (order, mobility): (Order, Mobility),
        direct: bool,
    ) -> Result<(), Difference> {
        let before = self.before();
        self.world.begin(OperationCalls {
            made: Some(order),
            ..OperationCalls::default()
        });
        let (world, reclaim) = (self.world, self.reclaim);
        let seat = self.seats.run_on(world.machine, cpu).frames();
        let got = with_clients(world, |clients| {
            if direct {
                reclaim.compact(seat, order, mobility, clients.migrate)
            } else {
                reclaim.compact_ahead(seat, order, mobility, clients.migrate)
            }
        });
        world.end()?;
        if let Compaction::Captured(frame) = got {
            world.take(frame, (order, mobility), super::USER)?;
        }
        self.plant(cpu);
        let stats = self.reclaim.stats();
        let counted = [
            stats.compact_stall - before.reclaim.compact_stall,
            stats.compact_success - before.reclaim.compact_success,
            stats.compact_fail - before.reclaim.compact_fail,
        ];
        let must = match got {
            Compaction::Captured(_) if direct => [1, 1, 0],
            Compaction::Partial | Compaction::Complete if direct => [1, 0, 1],
            _ => [0; 3],
        };
        if counted != must {
            return differ!("{got:?}: compact_stall, success and fail grew by {counted:?}");
        }
        let batches = world.model().calls.batches;
        let is_idle = matches!(got, Compaction::Deferred | Compaction::Skipped);
        if got == Compaction::Deferred && !direct || is_idle && batches > 0 {
            return differ!("{got:?}, direct: {direct}, after {batches} calls");
        }
        self.check_counts(&before, None)?;
        self.check_bounds(1)
    }

    fn evacuate(&mut self, cpu: u16, block: usize, blocks: usize) -> Result<(), Difference> {
        let before = self.before();
        self.world.begin(OperationCalls {
            evacuates: true,
            ..OperationCalls::default()
        });
        let run = self.pageblocks(block, blocks);
        let (world, reclaim) = (self.world, self.reclaim);
        let can = self.can_evacuate(block, blocks);
        let seat = self.seats.run_on(world.machine, cpu).frames();
        let got = with_clients(world, |clients| {
            reclaim.evacuate(seat, run, clients.migrate)
        });
        world.end()?;
        let mut model = world.model();
        match got {
            Ok(moved_now) => {
                if moved_now != model.calls.moved {
                    let moved = model.calls.moved;
                    return differ!("{moved_now} frames are said to have moved, but {moved} have");
                }
                let left = model.frames.set_isolated(block, blocks, true);
                if left != Some(0) {
                    return differ!("evacuated, but {left:?} frames are allocated there");
                }
            }
            Err(
                error @ (RunError::Pinned(frame)
                | RunError::Busy(frame)
                | RunError::Unmovable(frame)
                | RunError::NoMemory(frame)),
            ) => {
                if !run.contains(frame) && model.frames.offset(frame) >= block << 4 {
                    let shift = world.zone.pageblock_order().get();
                    if model.frames.offset(frame) >= (block + blocks) << shift {
                        return differ!("{frame} is in the way of {run:?}");
                    }
                }
                if can && !model.calls.meddled {
                    return differ!("nothing is in the way of {run:?}, but {error}");
                }
                if matches!(error, RunError::Pinned(_)) {
                    model.check_pinned(frame)?;
                }
            }
            Err(_) => {
                let may = block + blocks <= model.frames.pageblocks();
                let mut copy = model.frames.clone();
                if may && copy.set_isolated(block, blocks, true).is_some() {
                    return differ!("evacuate: {got:?}, but the run is good");
                }
            }
        }
        drop(model);
        self.check_counts(&before, None)?;
        self.check_bounds(1)
    }

    /// One step of the background.
    fn background(&mut self, cpu: u16, budget: u64) -> Result<Background, Difference> {
        let before = self.before();
        let was_wanted = self.reclaim.is_wanted();
        self.world.begin(OperationCalls {
            context: Some(Context::ANY),
            made: Some(self.world.zone.pageblock_order()),
            is_background: true,
            ..OperationCalls::default()
        });
        let (world, reclaim) = (self.world, self.reclaim);
        let seat = self.seats.run_on(world.machine, cpu).frames();
        let got = with_clients(world, |clients| reclaim.background(seat, clients, budget));
        world.end()?;
        self.check_background(&before, got, budget, was_wanted)?;
        Ok(got)
    }

    /// The background until it rests; it must.
    fn rest(&mut self, cpu: u16, budget: u64) -> Result<(), Difference> {
        let steps_max = 4 * self.world.case.layout.frames + 2000;
        for _ in 0..steps_max {
            if self.background(cpu, budget)? != Background::Works {
                return Ok(());
            }
        }
        differ!("R3: the background works on after {steps_max} steps with budget {budget}")
    }
}

impl Before {
    /// The frames that were free in pageblocks.
    const fn free(&self) -> u64 {
        self.free
    }
}
