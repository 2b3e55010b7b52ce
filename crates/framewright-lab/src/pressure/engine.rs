//! The engine as a kernel: its page frames, and its reclaim around them.

use super::{Frees, Gives, Impose, Kernel, LISTS, PressureRequest, Tenants};
use crate::before::kernel310::Layout310;
use framewright::engine::{Engine, EngineLayout};
use framewright::frame::{Seat as FrameSeat, Zone, ZoneLayout};
use framewright::platform::SingleThread;
use framewright::policy::{Config, Fallback, Label, ReclaimConfig};
use framewright::reclaim::{
    Ask, Background, Clients, Migrate, Reclaim, ReclaimSeat, Shrink, Shrunk,
};
use framewright::stats::ReclaimStats;
use framewright::{CpuId, Frame, Mobility, Order, Run};

/// The engine's zone in one thread.
type OneThreadSeat<'z, 'm> = FrameSeat<'z, 'm, SingleThread>;

/// Clients that give frames back, at most: what a simulated machine has, and room for as many again.
const GIVERS_MAX: usize = 8;

/// How the engine is to be: its policies, each as its configuration says.
#[derive(Debug, Clone, Copy, Default)]
pub struct EngineConfig {
    /// Of the page frames.
    pub frames: Config,
    /// Of reclaim and compaction.
    pub reclaim: ReclaimConfig,
}

impl EngineConfig {
    /// The engine's own reclaim around one of its fallbacks.
    #[must_use]
    pub fn with_fallback(fallback: Fallback) -> Self {
        let mut config = Self::default();
        config.frames.fallback = fallback;
        config
    }
}

/// Runs `work` on the engine over the memory that `layout` describes, all of it free: the same memory
/// as that of the document's kernel.
///
/// Of the layout the engine has no use for the watermarks' settings: its own are 3.10's for a zone of
/// that size without Android's additions, and targets in whole pageblocks beside them. The contiguous
/// area is lent to what moves.
///
/// # Errors
/// If the engine cannot manage such a memory; what it says of that.
pub fn with_engine<R>(
    layout: &Layout310<'_>,
    config: &EngineConfig,
    work: impl FnOnce(&mut EngineKernel<'_, '_, '_>) -> R,
) -> Result<R, String> {
    let pageblock = Order::new(layout.pageblock_order).unwrap_or(Order::MAX);
    let largest = Order::new(crate::before::buddy::MAX_ORDER).unwrap_or(Order::MAX);
    // Whole pageblocks, so that the last one can be labelled too; its frames past the end are
    // never added.
    let frames = layout.frames.next_multiple_of(pageblock.frames());
    // A CPU of its own for the background: one more.
    let background = CpuId(layout.cpus);
    let zone_layout = ZoneLayout::new(Frame(0), frames)
        .with_orders(pageblock, largest)
        .with_cpus(layout.cpus + 1);
    let engine_layout = EngineLayout::of_zones([zone_layout])
        .with_config(config.frames)
        .with_reclaim_config(config.reclaim);
    let words = engine_layout.words_needed().map_err(|e| e.to_string())?;
    let mut words = vec![0; words];
    let engine = Engine::new(&engine_layout, &mut words, SingleThread::new());
    let engine = engine.map_err(|e| e.to_string())?;
    for run in present(layout) {
        engine.add(run).map_err(|e| e.to_string())?;
    }
    let zone = &engine.zones()[0];
    for &run in layout.cma {
        zone.set_label(run, Label::Contiguous)
            .map_err(|e| e.to_string())?;
    }
    // Seats of the zone and not a `Cpu`, which has its clients for good: here each request brings its own.
    let reclaim = engine.reclaim(0);
    let seat = |cpu| zone.seat(cpu).map_err(|e| e.to_string());
    let seats: Result<Vec<_>, String> = (0..layout.cpus)
        .map(|cpu| Ok(reclaim.seat(seat(CpuId(cpu))?)))
        .collect();
    let mut kernel = EngineKernel {
        name: match config.frames.fallback {
            Fallback::Concentrated => "framewright",
            other => other.name(),
        },
        reclaim: &reclaim,
        seats: seats?,
        background: seat(background)?,
        clock: LooksClock {
            credit: 0,
            nap: layout.short_sleep,
            left: None,
        },
    };
    Ok(work(&mut kernel))
}

/// The runs of frames that exist, ascending.
fn present(layout: &Layout310<'_>) -> Vec<Run> {
    let end = layout.frames;
    let mut absent: Vec<(u64, u64)> = layout
        .absent
        .iter()
        .map(|run| (run.start().0.min(end), run.end().0.min(end)))
        .collect();
    absent.sort_unstable();
    absent.push((end, end));
    let mut runs = Vec::new();
    let mut at = 0;
    for (start, until) in absent {
        runs.extend(Run::new(Frame(at), start.saturating_sub(at)).filter(|run| !run.is_empty()));
        at = at.max(until);
    }
    runs
}

/// The background's time, in looks.
#[derive(Debug)]
struct LooksClock {
    /// What it has; below zero what it took in advance, as a step is not cut.
    credit: i64,
    /// How long a nap is.
    nap: u64,
    /// What is left of one, if it naps.
    left: Option<u64>,
}

/// The engine with its reclaim: [`with_engine`].
#[derive(Debug)]
pub struct EngineKernel<'r, 'z, 'm> {
    name: &'static str,
    reclaim: &'r Reclaim<'z, 'm, SingleThread>,
    seats: Vec<ReclaimSeat<'r, 'z, 'm, SingleThread>>,
    background: OneThreadSeat<'z, 'm>,
    clock: LooksClock,
}

impl<'z, 'm> EngineKernel<'_, 'z, 'm> {
    /// The zone.
    #[must_use]
    pub const fn zone(&self) -> &'z Zone<'m, SingleThread> {
        self.reclaim.zone()
    }

    #[inline(always)]
    fn slot(&self, cpu: CpuId) -> usize {
        cpu.index() % self.seats.len()
    }

    /// Looks of the background, and of compaction for the background and for requests. Between the two
    /// readings whose difference the clock takes, only the background works.
    fn looks(&self) -> u64 {
        let stats = self.reclaim.stats();
        stats.pgscan_kswapd + stats.compact_migrate_scanned + stats.compact_free_scanned
    }
}

/// A CPU's seat, as a client that gives frames back sees it.
struct Into<'s, 'z, 'm>(&'s mut OneThreadSeat<'z, 'm>);

impl Frees for Into<'_, '_, '_> {
    fn give(&mut self, _cpu: CpuId, frame: Frame, order: Order) {
        freed(self.0.free(frame, order), frame, order);
    }
}

/// # Panics
/// If the block was not allocated: [`Frees::give`] says so.
fn freed<E: std::fmt::Display>(result: Result<(), E>, frame: Frame, order: Order) {
    if let Err(error) = result {
        panic!("the free of {order} at {frame} was refused: {error}");
    }
}

/// A client that gives frames back, in the form in which the engine asks it.
#[derive(Clone, Copy)]
struct Giver<'t>(Option<&'t dyn Gives>);

impl<'z, 'm> Shrink<OneThreadSeat<'z, 'm>> for Giver<'_> {
    fn holding(&self) -> u64 {
        self.0.map_or(0, Shrink::holding)
    }

    fn heat(&self) -> u8 {
        self.0.map_or(0, Shrink::heat)
    }

    fn shrink(&self, frames: &mut OneThreadSeat<'z, 'm>, ask: &Ask) -> Shrunk {
        let mut into = Into(frames);
        self.0.map_or(Shrunk::default(), |giver| {
            giver.shrink(&mut into as &mut dyn Frees, ask)
        })
    }
}

/// Hands `work` the tenants as the engine's clients.
///
/// # Panics
/// If more than [`GIVERS_MAX`] clients give frames back.
fn with_clients<'z, 'm, R>(
    tenants: &dyn Tenants,
    work: impl FnOnce(&Clients<'_, OneThreadSeat<'z, 'm>>) -> R,
) -> R
where
    'm: 'z,
{
    let gives = tenants.shrinkers();
    assert!(
        gives.len() <= GIVERS_MAX,
        "{} givers are above the maximum {GIVERS_MAX}",
        gives.len()
    );
    let givers: [Giver<'_>; GIVERS_MAX] = std::array::from_fn(|nth| Giver(gives.get(nth).copied()));
    let shrink: [&dyn Shrink<OneThreadSeat<'z, 'm>>; GIVERS_MAX] =
        std::array::from_fn(|nth| &givers[nth] as &dyn Shrink<OneThreadSeat<'z, 'm>>);
    let movers = Movers(tenants);
    let migrate: [&dyn Migrate; 1] = [&movers];
    work(&Clients {
        shrink: &shrink[..gives.len()],
        migrate: &migrate,
    })
}

struct Movers<'t>(&'t dyn Tenants);

impl Migrate for Movers<'_> {
    fn migrate(&self, moves: &mut [framewright::reclaim::Move]) {
        self.0.migrate(moves);
    }
}

impl Kernel for EngineKernel<'_, '_, '_> {
    fn name(&self) -> &'static str {
        self.name
    }

    #[inline]
    fn alloc(&mut self, tenants: &dyn Tenants, request: PressureRequest) -> Option<Frame> {
        let slot = self.slot(request.cpu);
        let seat = &mut self.seats[slot];
        with_clients(tenants, |clients| {
            seat.alloc(request.order, request.mobility, request.context, clients)
                .ok()
        })
    }

    /// # Panics
    /// If no such block is allocated.
    #[inline]
    fn free(&mut self, cpu: CpuId, frame: Frame, order: Order) {
        let slot = self.slot(cpu);
        freed(self.seats[slot].free(frame, order), frame, order);
    }

    fn background_is_awake(&self) -> bool {
        self.clock.left.is_some() || self.reclaim.is_wanted()
    }

    fn background(&mut self, tenants: &dyn Tenants, frames: u64) {
        self.clock.credit = self.clock.credit.saturating_add_unsigned(frames);
        while self.clock.credit > 0 {
            if !self.reclaim.is_wanted() {
                // It naps or sleeps: time passes.
                let Some(left) = self.clock.left else {
                    self.clock.credit = 0;
                    return;
                };
                let now = left.min(self.clock.credit.unsigned_abs());
                self.clock.credit -= now as i64;
                self.clock.left = Some(left - now);
                if left > now {
                    return;
                }
            }
            let before = self.looks();
            let budget = self.clock.credit.max(1).unsigned_abs();
            let (reclaim, seat) = (self.reclaim, &mut self.background);
            let state = with_clients(tenants, |clients| reclaim.background(seat, clients, budget));
            self.clock.credit -= (self.looks() - before) as i64 + 1;
            self.clock.left = match state {
                Background::Works => Some(0),
                Background::Naps => Some(self.clock.nap),
                Background::Sleeps => None,
            };
        }
    }

    fn stats(&self) -> ReclaimStats {
        self.reclaim.stats()
    }

    /// Cached blocks are among them: the engine puts what is cached where it lies.
    fn free_blocks(&self) -> [[u64; 11]; LISTS] {
        let blocks = self.zone().free_blocks();
        by_list(|label| std::array::from_fn(|order| blocks[label.index()][order]))
    }

    fn labels(&self) -> [u64; LISTS] {
        let labels = self.zone().pageblocks_by_label();
        by_list(|label| labels[label.index()])
    }
}

/// The engine's labels in the order of the document's lists; what is kept for large orders stands
/// for the reserve.
fn by_list<T>(of: impl Fn(Label) -> T) -> [T; LISTS] {
    [
        Label::Of(Mobility::Unmovable),
        Label::Of(Mobility::Reclaimable),
        Label::Of(Mobility::Movable),
        Label::HighOrder,
        Label::Contiguous,
    ]
    .map(of)
}

impl Impose for EngineKernel<'_, '_, '_> {
    fn set_label(&mut self, pageblock: u64, label: Mobility) {
        let order = self.zone().pageblock_order();
        let run = Run::new(Frame(pageblock << order.get()), order.frames());
        // A pageblock outside the zone has no label to set.
        let _ = run.map(|run| self.zone().set_label(run, Label::Of(label)));
    }

    fn alloc_at(&mut self, frame: Frame, order: Order, mobility: Mobility) -> bool {
        self.zone().alloc_at(frame, order, mobility).is_ok()
    }

    fn free_part(&mut self, cpu: CpuId, frame: Frame, order: Order) {
        let slot = self.slot(cpu);
        let seat = self.seats[slot].frames();
        freed(seat.free_part(frame, order), frame, order);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::before::kernel310::{Kernel310, Variant310};
    use framewright::Context;
    use framewright::reclaim::{Move, MoveState};
    use std::cell::RefCell;

    const CPU: CpuId = CpuId(1);

    fn order(n: u8) -> Order {
        Order::new(n).unwrap()
    }

    fn request(n: u8, mobility: Mobility, context: Context) -> PressureRequest {
        PressureRequest {
            cpu: CPU,
            order: order(n),
            mobility,
            context,
        }
    }

    /// A cache of single frames, the oldest first.
    #[derive(Default)]
    struct PressureCache(RefCell<Vec<Frame>>);

    impl<'f> Shrink<dyn Frees + 'f> for PressureCache {
        fn holding(&self) -> u64 {
            self.0.borrow().len() as u64
        }

        fn shrink(&self, frames: &mut (dyn Frees + 'f), ask: &Ask) -> Shrunk {
            let mut held = self.0.borrow_mut();
            let freed = ask.wanted.min(ask.scan).min(held.len() as u64);
            for frame in held.drain(..freed as usize) {
                frames.give(CPU, frame, Order::ZERO);
            }
            Shrunk {
                scanned: freed,
                freed,
            }
        }
    }

    impl Migrate for PressureCache {
        fn migrate(&self, moves: &mut [Move]) {
            let mut held = self.0.borrow_mut();
            for step in moves {
                if let Some(frame) = held.iter_mut().find(|frame| **frame == step.from) {
                    *frame = step.to;
                    step.state = MoveState::Moved;
                }
            }
        }
    }

    struct Only<'c>(&'c PressureCache, [&'c dyn Gives; 1]);

    impl Migrate for Only<'_> {
        fn migrate(&self, moves: &mut [Move]) {
            self.0.migrate(moves);
        }
    }

    impl Tenants for Only<'_> {
        fn shrinkers(&self) -> &[&dyn Gives] {
            &self.1
        }
    }

    #[test]
    fn both_kernels_have_the_same_memory_of_the_same_layout() {
        let absent = [Run::new(Frame(100), 60).unwrap()];
        let cma = [Run::new(Frame(4096), 2048).unwrap()];
        let layout = Layout310 {
            absent: &absent,
            cma: &cma,
            ..Layout310::new(8 * 1024 + 40)
        };
        let of = |kernel: &dyn Kernel| {
            let blocks = kernel.free_blocks();
            let frames = |orders: &[u64; 11]| (0..).zip(orders).map(|(k, n)| n << k).sum::<u64>();
            let all: u64 = blocks.iter().map(frames).sum();
            (all, frames(&blocks[4]), kernel.labels()[4])
        };
        let theirs = of(&Kernel310::new(&layout, Variant310::Before).unwrap());
        let ours = with_engine(&layout, &EngineConfig::default(), |kernel| of(kernel)).unwrap();
        assert_eq!(ours, theirs);
        assert_eq!(ours, (8 * 1024 + 40 - 60, 2048, 2));
    }

    #[test]
    fn the_background_works_with_the_time_it_has_naps_and_sleeps() {
        let layout = Layout310::new(16 * 1024);
        let cache = PressureCache::default();
        let tenants = Only(&cache, [&cache]);
        let run = |kernel: &mut EngineKernel<'_, '_, '_>| {
            let single = request(0, Mobility::Movable, Context::NOWAIT);
            while let Some(frame) = kernel.alloc(&tenants, single) {
                cache.0.borrow_mut().push(frame);
            }
            assert!(kernel.background_is_awake());
            kernel.background(&tenants, 10);
            let first = kernel.stats().pgsteal_kswapd;
            assert!((1..=10).contains(&first), "{first}");
            for _ in 0..100 {
                kernel.background(&tenants, 1000);
            }
            let stats = kernel.stats();
            assert!(kernel.zone().stats().nr_free_pages >= kernel.zone().watermarks().high);
            assert!(stats.pgsteal_kswapd > first && stats.allocstalls() == 0);
            kernel.background(&tenants, 10 * layout.short_sleep);
            assert!(!kernel.background_is_awake());
            kernel.background(&tenants, 1_000_000);
            assert_eq!(kernel.stats().pgscan_kswapd, kernel.stats().pgsteal_kswapd);
            kernel.zone().verify().unwrap();
        };
        with_engine(&layout, &EngineConfig::default(), run).unwrap();
    }

    #[test]
    fn a_request_that_may_wait_is_served_by_what_clients_give_and_that_is_a_stall() {
        let cache = PressureCache::default();
        let tenants = Only(&cache, [&cache]);
        let run = |kernel: &mut EngineKernel<'_, '_, '_>| {
            let single = request(0, Mobility::Movable, Context::NOWAIT);
            while let Some(frame) = kernel.alloc(&tenants, single) {
                cache.0.borrow_mut().push(frame);
            }
            let large = request(5, Mobility::Unmovable, Context::NOWAIT);
            assert_eq!(kernel.alloc(&tenants, large), None);
            assert_eq!(kernel.stats().allocstalls(), 0);
            let waits = request(5, Mobility::Unmovable, Context::ANY);
            let frame = kernel.alloc(&tenants, waits).unwrap();
            let stats = kernel.stats();
            assert!(stats.allocstall[5] == 1 && stats.pgsteal_direct > 0);
            kernel.free_part(CPU, Frame(frame.0 + 16), order(4));
            kernel.free(CPU, frame, order(4));
            kernel.zone().verify().unwrap();
        };
        with_engine(&Layout310::new(8 * 1024), &EngineConfig::default(), run).unwrap();
    }

    #[test]
    #[should_panic(expected = "was refused")]
    fn a_client_that_frees_what_it_does_not_hold_is_not_survived() {
        let run = |kernel: &mut EngineKernel<'_, '_, '_>| kernel.free(CPU, Frame(7), order(0));
        with_engine(&Layout310::new(4096), &EngineConfig::default(), run).unwrap();
    }
}
