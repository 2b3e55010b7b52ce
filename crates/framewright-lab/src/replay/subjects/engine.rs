//! The engine as a subject of a replay.

use super::{FreeRefused, ReplaySubject};
use crate::measure::BLOCK_FRAMES;
use crate::replay::{MachineZones, TraceMemory, ZoneAllocator, ZonePass};
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
pub(crate) fn with_engine<R>(
    fallback: Fallback,
    memory: &TraceMemory<'_>,
    work: impl FnOnce(&mut dyn ReplaySubject) -> R,
) -> Result<R, String> {
    let trace = memory.trace;
    let layout = layout(fallback, memory.cpus, trace.nframes);
    let mut words = vec![0; layout.words_needed().map_err(|e| e.to_string())?];
    let engine = engine(&layout, &mut words, trace.nframes, &trace.absent)?;
    Ok(work(&mut replayed(fallback, memory.cpus, &engine)?))
}

/// The same with a zone of the engine for each of the machine's, their frames numbered from 0.
///
/// # Errors
/// As [`with_engine`].
pub(crate) fn with_engines<R>(
    fallback: Fallback,
    memory: &TraceMemory<'_>,
    machine: &MachineZones,
    work: impl FnOnce(Vec<ReplayEngine<'_, '_>>) -> R,
) -> Result<R, String> {
    let zones = &machine.zones;
    let layouts: Vec<_> = zones
        .iter()
        .map(|zone| layout(fallback, memory.cpus, zone.frames))
        .collect();
    let words = |layout: &EngineLayout| layout.words_needed().map(|words| vec![0; words]);
    let words: Result<Vec<Vec<u64>>, _> = layouts.iter().map(words).collect();
    let mut words = words.map_err(|e| e.to_string())?;
    let engines: Result<Vec<_>, String> = zones
        .iter()
        .zip(layouts.iter().zip(&mut words))
        .map(|(zone, (layout, words))| {
            let absent = zone.absent(&memory.trace.absent);
            engine(layout, words, zone.frames, &absent)
        })
        .collect();
    let engines = engines?;
    let replayed: Result<Vec<_>, String> = engines
        .iter()
        .map(|engine| replayed(fallback, memory.cpus, engine))
        .collect();
    Ok(work(replayed?))
}

fn layout(fallback: Fallback, cpus: u16, frames: u64) -> EngineLayout {
    // Whole pageblocks, so that the last one can be labelled too; its frames past the end are
    // never added.
    let frames = frames.next_multiple_of(BLOCK_FRAMES);
    let config = Config {
        fallback,
        ..Config::default()
    };
    EngineLayout::new(Frame(0), frames)
        .with_cpus(cpus)
        .with_config(config)
}

fn engine<'m>(
    layout: &EngineLayout,
    words: &'m mut [u64],
    frames: u64,
    absent: &[Run],
) -> Result<Engine<'m, SingleThread, ()>, String> {
    let engine = Engine::new(layout, words, SingleThread::new());
    let engine = engine.map_err(|e| e.to_string())?;
    for run in present(frames, absent) {
        engine.add(run).map_err(|e| e.to_string())?;
    }
    Ok(engine)
}

fn replayed<'z, 'm>(
    fallback: Fallback,
    cpus: u16,
    engine: &'z Engine<'m, SingleThread, ()>,
) -> Result<ReplayEngine<'z, 'm>, String> {
    let zone = &engine.zones()[0];
    let seats: Result<Vec<_>, _> = (0..cpus).map(|cpu| zone.seat(CpuId(cpu))).collect();
    Ok(ReplayEngine {
        name: fallback.name(),
        zone,
        seats: seats.map_err(|e| e.to_string())?,
    })
}

/// The runs of frames that exist, ascending.
pub(in crate::replay) fn present(end: u64, absent: &[Run]) -> Vec<Run> {
    let mut absent: Vec<Run> = absent.to_vec();
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

pub(crate) struct ReplayEngine<'z, 'm> {
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

impl ZoneAllocator for ReplayEngine<'_, '_> {
    #[inline]
    fn listed_free(&self) -> u64 {
        self.zone.free_in_pageblocks()
    }

    fn has_listed(&self, _order: Order) -> bool {
        // Only a search of the pageblocks tells.
        true
    }

    fn serve(
        &mut self,
        cpu: CpuId,
        order: Order,
        mobility: Mobility,
        pass: ZonePass,
    ) -> Option<Frame> {
        let seat = self.seat(cpu);
        let seat = &mut self.seats[seat];
        match pass {
            ZonePass::Drained => seat.alloc_hard(order, mobility),
            ZonePass::WholeOnly | ZonePass::AtOnce => seat.alloc_at_once(order, mobility),
        }
        .ok()
    }
}
