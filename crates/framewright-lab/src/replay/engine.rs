//! The engine as a subject of a replay.

use super::{FreeRefused, ReplaySubject, TraceMemory};
use crate::measure::BLOCK_FRAMES;
use crate::steps;
use framewright::engine::{Engine, EngineLayout};
use framewright::frame::{Seat, Zone};
use framewright::platform::SingleThread;
use framewright::policy::{Config, Fallback, Label};
use framewright::{CpuId, Frame, Mobility, Order, Run};

/// Runs `work` on the engine's own page-frame allocator over the whole of `memory`, all of it
/// free, with a seat for each CPU of the trace.
///
/// What the lab measures is the engine itself: nothing of its policy is repeated here.
///
/// # Errors
/// If the engine cannot manage such a memory; what it says of that.
pub(super) fn with_engine<R>(
    fallback: Fallback,
    memory: &TraceMemory<'_>,
    work: impl FnOnce(&mut dyn ReplaySubject) -> R,
) -> Result<R, String> {
    // Whole pageblocks, so that the last one can be labelled too; its frames past the end are
    // never added.
    let frames = memory.trace.nframes.next_multiple_of(BLOCK_FRAMES);
    let config = Config {
        fallback,
        ..Config::default()
    };
    let layout = EngineLayout::new(Frame(0), frames)
        .with_cpus(memory.cpus)
        .with_config(config);
    let words = layout.words_needed().map_err(|e| e.to_string())?;
    let mut words = vec![0; words];
    let engine = Engine::new(&layout, &mut words, SingleThread::new());
    let engine = engine.map_err(|e| e.to_string())?;
    for run in present(memory) {
        engine.add(run).map_err(|e| e.to_string())?;
    }
    let zone = &engine.zones()[0];
    let seats: Result<Vec<_>, _> = (0..memory.cpus).map(|cpu| zone.seat(CpuId(cpu))).collect();
    let seats = seats.map_err(|e| e.to_string())?;
    Ok(work(&mut ReplayEngine {
        name: fallback.name(),
        zone,
        seats,
    }))
}

/// The runs of frames that exist, ascending.
fn present(memory: &TraceMemory<'_>) -> Vec<Run> {
    let end = memory.trace.nframes;
    let mut absent: Vec<Run> = memory.trace.absent.clone();
    absent.sort_by_key(|run| run.start());
    absent.extend(Run::new(Frame(end), 0));
    let mut runs = Vec::new();
    let mut at = 0;
    for run in absent {
        let start = run.start().0.min(end);
        runs.extend(Run::new(Frame(at), start.saturating_sub(at)).filter(|run| !run.is_empty()));
        at = at.max(run.end().0);
    }
    runs
}

struct ReplayEngine<'z, 'm> {
    name: &'static str,
    zone: &'z Zone<'m, SingleThread>,
    seats: Vec<Seat<'z, 'm, SingleThread>>,
}

impl ReplayEngine<'_, '_> {
    #[inline(always)]
    fn seat(&self, cpu: CpuId) -> usize {
        // Nearly always it is one of them; a division takes as long as an allocation.
        if cpu.index() < self.seats.len() {
            cpu.index()
        } else {
            cpu.index() % self.seats.len()
        }
    }
}

impl ReplaySubject for ReplayEngine<'_, '_> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn set_label(&mut self, pageblock: u64, label: Mobility) {
        let order = self.zone.pageblock_order();
        let run = Run::new(Frame(pageblock << order.get()), order.frames());
        // A pageblock outside the zone has no label to set.
        let _ = run.map(|run| self.zone.set_label(run, Label::Of(label)));
    }

    fn alloc_at(&mut self, frame: Frame, order: Order, mobility: Mobility) -> bool {
        self.zone.alloc_at(frame, order, mobility).is_ok()
    }

    fn alloc(&mut self, cpu: CpuId, order: Order, mobility: Mobility) -> Option<Frame> {
        let seat = self.seat(cpu);
        // Hard, whatever the order: what is compared is where policies place blocks, and a block that
        // another CPU's cache hides is free.
        self.seats[seat].alloc_hard(order, mobility).ok()
    }

    fn free(&mut self, cpu: CpuId, frame: Frame, order: Order) -> Result<(), FreeRefused> {
        let seat = self.seat(cpu);
        let seat = &mut self.seats[seat];
        // Parts are rare, so the whole is tried first; a refused free changes nothing.
        let freed = seat
            .free(frame, order)
            .or_else(|_| seat.free_part(frame, order));
        freed.map_err(|_| FreeRefused)
    }

    fn drain(&mut self) {
        self.zone.drain();
    }

    // A sample costs two looks at each pageblock, here and in `labels`, and at nothing else (P5): the two
    // take some 7 ns together, so 16,000 pageblocks (31 GiB) 0.1 ms, and 8,000 trace seconds of that 0.9 s.
    // To keep count of what changed, the engine's own paths would have to write it down.
    fn free_blocks(&self) -> [[u64; 11]; 3] {
        steps::add(self.zone.pageblocks() as u64);
        let blocks = self.zone.free_blocks();
        Mobility::ALL.map(|label| {
            let of_label = &blocks[Label::Of(label).index()];
            std::array::from_fn(|order| of_label[order])
        })
    }

    fn labels(&self) -> [u64; 3] {
        steps::add(self.zone.pageblocks() as u64);
        let labels = self.zone.pageblocks_by_label();
        Mobility::ALL.map(|label| labels[Label::Of(label).index()])
    }

    fn fallbacks(&self) -> [[u64; 3]; 3] {
        let stats = self.zone.stats();
        Mobility::ALL.map(|wanted| Mobility::ALL.map(|taken| stats.fallbacks(wanted, taken)))
    }
}
