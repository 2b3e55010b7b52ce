//! A recording, replayed on real frames: the laboratory's replay of the engine, with memory in place of numbers.
//!
//! The host makes a stream of the recording, and the loader puts it beside the kernel
//! (`crates/framewright-lab/src/replay/flat.rs` has its form). The kernel takes as many frames in one run of its own engine as
//! the recording's machine has. Over these stands a second engine, of the layout that the laboratory replays in, but for where
//! its first frame lies; its metadata are an object of the kernel's. It is asked for the same, in the same order, with a seat
//! for each CPU of the recording.
//!
//! The feature `replay` has it compiled: beside it the compiler would inline other functions of the engine, and the figures and
//! stacks of the other tests would change.
//!
//! # What must hold
//! - **Decisions.** The counts and the digest of all answers are those of the laboratory: `cargo xtask kernel` compares each
//!   line that begins with `replayed`.
//! - **Frames.** A frame has one owner at a time, which a table of the kernel's says: no block is handed out twice, and what is
//!   freed is its owner's.
//! - **Bytes.** The first and the last word of each frame that is handed out during the recording are written, and checked when it
//!   is freed, or at the end; with `whole=1` every word. What was in use before the recording began holds no pattern, and what
//!   is held back neither: these are most of a machine's frames, and the host would need memory for each of them.

mod stream;

use crate::arch::cpu::instructions::time_stamp;
use crate::counts::COUNTS;
use crate::memory::{BarePc, DIRECT, ZoneSeat, with};
use crate::serial::{Exit, exit};
use crate::{boot, say};
use alloc::vec;
use alloc::vec::Vec;
use framewright::engine::{Engine, EngineLayout};
use framewright::frame::Zone;
use framewright::policy::{Config, Label};
use framewright::{Context, CpuId, Frame, Mobility, Order, Run};
use stream::{
    ALLOC, FAILED, FREE, FREE_PART, Operation, ReplayStream, StreamDigest, TICK, packed, unpacked,
};

/// Orders that a recording has.
const ORDERS: usize = 11;
const BLOCK_FRAMES: u64 = 512;
/// Recorded milliseconds between two samples.
const SAMPLE_MS: u64 = 1000;
/// An object that is nowhere, and the owner of a frame that has none.
const NONE: u32 = u32::MAX;
/// The owner of frames that are held back.
const HELD: u32 = NONE - 1;
/// The owner of a block that is tried and freed at once.
const TRIED: u32 = NONE - 2;
/// Frames in use in a pageblock: those that cannot be moved, and those that can.
type BlockUse = [u16; 2];

/// What pageblocks hold at a moment.
#[derive(Clone, Copy, Default)]
struct MixedCounts {
    contaminated: u64,
    mixed: u64,
    movable_in_mixed: u64,
}

impl MixedCounts {
    fn of(blocks: &[BlockUse]) -> Self {
        let mut counts = Self::default();
        for [fixed, movable] in blocks {
            if *fixed > 0 {
                counts.contaminated += 1;
                if *movable > 0 {
                    counts.mixed += 1;
                    counts.movable_in_mixed += u64::from(*movable);
                }
            }
        }
        counts
    }

    fn add(&mut self, other: Self) {
        self.contaminated += other.contaminated;
        self.mixed += other.mixed;
        self.movable_in_mixed += other.movable_in_mixed;
    }
}

/// A replay under way.
struct KernelReplay<'z> {
    zone: &'z Zone<'static, BarePc>,
    seats: Vec<ZoneSeat>,
    /// The real number of the recording's first frame.
    base: u64,
    /// Where each object lies.
    objects: Vec<u32>,
    /// Whose each frame is.
    owners: Vec<u32>,
    blocks: Vec<BlockUse>,
    /// The recording's first object.
    first_written: u32,
    /// Words between two that are written.
    stride: usize,
    answers: StreamDigest,
    failures: [u64; ORDERS],
    retries: [[u64; 2]; ORDERS],
    frees_of_failed: u64,
    samples: u64,
    sampled: MixedCounts,
    words_checked: u64,
    calls: [u64; 2],
    ticks: [u64; 2],
}

/// The recording, from its beginning to its end.
pub fn run() {
    let stream = ReplayStream::read();
    say!(
        "a stream of {} operations and {} initial objects on {} frames",
        stream.ops.len(),
        stream.init_count,
        stream.frames
    );
    // Whole pageblocks, as the laboratory has them; where the last one ends is never added.
    let frames = stream.frames.next_multiple_of(BLOCK_FRAMES);
    let align = 1 << (ORDERS - 1);
    let run = with(|cpu| cpu.alloc_run(frames, align, Mobility::Unmovable, Context::ANY));
    let run = run.expect("as many frames side by side as the recording's machine has");
    let config = Config {
        fallback: stream.fallback,
        ..Config::default()
    };
    let layout = EngineLayout::new(run.start(), frames)
        .with_cpus(stream.cpus)
        .with_config(config);
    let words = layout.words_needed().expect("the layout is possible");
    // For ever, because seats last as long as the kernel.
    let words = vec![0; words].leak();
    let engine: Engine<'static, BarePc, ()> =
        Engine::new(&layout, words, BarePc).expect("the layout is possible");
    let engine = alloc::boxed::Box::leak(alloc::boxed::Box::new(engine));
    let base = run.start().0;
    for part in stream.present.chunks_exact(2) {
        let part = Run::new(Frame(base + part[0]), part[1]).expect("a run");
        engine.add(part).expect("each run is there once");
    }
    let zone = &engine.zones()[0];
    let seat = |cpu| zone.seat(CpuId(cpu)).expect("a seat for each CPU");
    let stride = match boot::number("whole") {
        Some(1) => 1,
        _ => 511,
    };
    let mut replay = KernelReplay {
        zone,
        seats: (0..stream.cpus).map(seat).collect(),
        base,
        objects: vec![NONE; (stream.init_count + stream.allocs) as usize],
        owners: vec![NONE; frames as usize],
        blocks: vec![[0; 2]; (frames / BLOCK_FRAMES) as usize],
        first_written: stream.init_count as u32,
        stride,
        answers: StreamDigest::new(),
        failures: [0; ORDERS],
        retries: [[0; 2]; ORDERS],
        frees_of_failed: 0,
        samples: 0,
        sampled: MixedCounts::default(),
        words_checked: 0,
        calls: [0; 2],
        ticks: [0; 2],
    };
    let unplaced = replay.begin(&stream);
    let fallbacks_before = replay.fallbacks();
    (replay.calls, replay.ticks) = ([0; 2], [0; 2]);
    let barriers = COUNTS.barriers.get();
    replay.follow(&stream);
    let barriers = COUNTS.barriers.get() - barriers;
    replay.say_counts(unplaced, fallbacks_before);
    replay.check_live();
    let [allocs, frees] = replay.calls;
    let hundredths = |nth: usize| replay.ticks[nth] * 100 / replay.calls[nth].max(1);
    say!(
        "{allocs} requests of {} hundredths of an instruction, {frees} frees of {}; {} words checked",
        hundredths(0),
        hundredths(1),
        replay.words_checked
    );
    let failed: u64 = replay.failures.iter().sum();
    say!("{failed} requests failed, {barriers} barriers");
    let all = (replay.ticks[0] + replay.ticks[1]) * 100 / (allocs + frees).max(1);
    say!("figure replay {all} {all} loops {} maps 0", allocs + frees);
    zone.verify().expect("the invariants hold");
    drop(replay);
    with(|cpu| cpu.free_run(run)).expect("the run is whole");
}

impl KernelReplay<'_> {
    /// Puts what was in use before the recording in its place, and holds frames back; how many found none.
    fn begin(&mut self, stream: &ReplayStream) -> u64 {
        let mut unplaced = 0;
        if stream.labels.is_some() {
            for (block, label) in (0..).zip(stream.labels()) {
                let start = Frame(self.base + block * BLOCK_FRAMES);
                let run = Run::new(start, BLOCK_FRAMES).expect("a pageblock");
                // As the laboratory does: one outside the zone has no label to set.
                let _ = self.zone.set_label(run, Label::Of(label));
            }
        }
        for (id, (frame, mobility)) in (0..).zip(stream.init()) {
            if stream.labels.is_some() {
                let real = Frame(self.base + frame);
                let placed = self.zone.alloc_at(real, Order::ZERO, mobility);
                placed.unwrap_or_else(|error| panic!("object {id} at {frame}: {error}"));
                self.take(id, frame, Order::ZERO, mobility);
            } else {
                match self.request(0, Order::ZERO, mobility) {
                    Some(frame) => self.take(id, frame, Order::ZERO, mobility),
                    None => unplaced += 1,
                }
            }
        }
        for taken in 0..stream.squeeze {
            let Some(frame) = self.request(0, Order::ZERO, Mobility::Movable) else {
                // Nothing is freed in between, so no later one would find a frame either.
                unplaced += stream.squeeze - taken;
                break;
            };
            // They are no objects of the recording's, and stay to the end.
            self.own(HELD, frame, Order::ZERO, Mobility::Movable);
        }
        self.zone.drain();
        unplaced
    }

    fn follow(&mut self, stream: &ReplayStream) {
        let (mut next, mut now, mut next_sample) = (stream.init_count as u32, 0, 0);
        for operation in stream.ops.iter().map(|&word| Operation::of(word)) {
            let Operation {
                order,
                mobility,
                cpu,
                ..
            } = operation;
            match operation.kind {
                ALLOC => {
                    match self.request(cpu, order, mobility) {
                        Some(frame) => self.take(next, frame, order, mobility),
                        None => self.failures[order.index()] += 1,
                    }
                    next += 1;
                }
                FREE | FREE_PART => {
                    let object = operation.value;
                    let place = self.objects[object as usize];
                    if place == NONE {
                        self.frees_of_failed += 1;
                        continue;
                    }
                    if operation.kind == FREE {
                        self.objects[object as usize] = NONE;
                    }
                    let (frame, mobility) = unpacked(place);
                    self.give(cpu, object, frame + operation.offset, order, mobility);
                }
                TICK => {
                    now += u64::from(operation.value);
                    if now >= next_sample {
                        next_sample = now + SAMPLE_MS;
                        self.samples += 1;
                        self.sampled.add(MixedCounts::of(&self.blocks));
                    }
                }
                FAILED => {
                    let served = self.request(cpu, order, mobility);
                    let [tried, had] = &mut self.retries[order.index()];
                    (*tried, *had) = (*tried + 1, *had + u64::from(served.is_some()));
                    if let Some(frame) = served {
                        self.own(TRIED, frame, order, mobility);
                        self.give(cpu, TRIED, frame, order, mobility);
                    }
                }
                kind => panic!("an operation of the kind {kind}"),
            }
        }
    }

    /// Asks the engine for a block. Its first frame, by the recording's numbers.
    fn request(&mut self, cpu: u16, order: Order, mobility: Mobility) -> Option<u64> {
        let seats = self.seats.len();
        let seat = &mut self.seats[usize::from(cpu) % seats];
        let start = time_stamp();
        let answer = seat.alloc_hard(order, mobility);
        self.ticks[0] += time_stamp() - start;
        self.calls[0] += 1;
        let frame = answer.ok().map(|frame| frame.0 - self.base);
        self.answers.add(frame.unwrap_or(u64::MAX));
        frame
    }

    /// An object has a block from now on.
    fn take(&mut self, object: u32, frame: u64, order: Order, mobility: Mobility) {
        self.objects[object as usize] = packed(frame, mobility);
        self.own(object, frame, order, mobility);
    }

    /// Notes whose these frames are, and writes their patterns.
    fn own(&mut self, owner: u32, frame: u64, order: Order, mobility: Mobility) {
        for frame in frame..frame + order.frames() {
            let before = core::mem::replace(&mut self.owners[frame as usize], owner);
            assert_eq!(
                before, NONE,
                "frame {frame} is handed out twice, to {owner}"
            );
            self.blocks[(frame / BLOCK_FRAMES) as usize][usize::from(mobility.is_movable())] += 1;
            if self.is_written(owner) {
                self.write(owner, frame);
            }
        }
    }

    /// Checks the patterns of these frames, and frees them.
    fn give(&mut self, cpu: u16, owner: u32, frame: u64, order: Order, mobility: Mobility) {
        for frame in frame..frame + order.frames() {
            let before = core::mem::replace(&mut self.owners[frame as usize], NONE);
            assert_eq!(before, owner, "frame {frame} is another's");
            self.blocks[(frame / BLOCK_FRAMES) as usize][usize::from(mobility.is_movable())] -= 1;
            if self.is_written(owner) {
                self.check(owner, frame);
            }
        }
        let seats = self.seats.len();
        let seat = &mut self.seats[usize::from(cpu) % seats];
        let real = Frame(self.base + frame);
        let start = time_stamp();
        // Parts are rare, so the whole is tried first; a refused free changes nothing.
        let freed = seat
            .free(real, order)
            .or_else(|_| seat.free_part(real, order));
        self.ticks[1] += time_stamp() - start;
        self.calls[1] += 1;
        freed.unwrap_or_else(|error| panic!("frame {frame} of {owner}: {error}"));
    }

    /// Whether this owner's frames have a pattern.
    fn is_written(&self, owner: u32) -> bool {
        owner >= self.first_written && owner != HELD
    }

    fn words(&self, frame: u64) -> impl Iterator<Item = *mut u64> + use<> {
        let at = DIRECT.addr(Frame(self.base + frame)).0;
        (0..512)
            .step_by(self.stride)
            .map(move |word| (at as *mut u64).wrapping_add(word))
    }

    fn write(&self, owner: u32, frame: u64) {
        for word in self.words(frame) {
            // SAFETY: the direct map has the frame, which is the caller's.
            unsafe { word.write_volatile(mark(owner, word)) };
        }
    }

    fn check(&mut self, owner: u32, frame: u64) {
        for word in self.words(frame) {
            // SAFETY: as above.
            let found = unsafe { word.read_volatile() };
            self.words_checked += 1;
            if found != mark(owner, word) {
                say!("WRONG: {found:#x} at {word:p}, of object {owner}");
                exit(Exit::WrongBytes);
            }
        }
    }

    /// Checks what is still in use.
    fn check_live(&mut self) {
        for frame in 0..self.owners.len() {
            let owner = self.owners[frame];
            if owner != NONE && self.is_written(owner) {
                self.check(owner, frame as u64);
            }
        }
    }

    /// How often requests for one mobility had another's pageblocks.
    fn fallbacks(&self) -> [[u64; 3]; 3] {
        let stats = self.zone.stats();
        Mobility::ALL.map(|wanted| Mobility::ALL.map(|taken| stats.fallbacks(wanted, taken)))
    }

    /// Says what the laboratory says of its own replay.
    fn say_counts(&self, unplaced: u64, before: [[u64; 3]; 3]) {
        say!("replayed answers {}", self.answers.0);
        for order in 0..ORDERS {
            say!("replayed failures_order{order} {}", self.failures[order]);
            let [tried, served] = self.retries[order];
            say!("replayed retried_order{order} {tried}");
            say!("replayed retries_served_order{order} {served}");
        }
        say!("replayed unplaced_frames {unplaced}");
        say!(
            "replayed anomalies_frees_of_failed {}",
            self.frees_of_failed
        );
        let after = self.fallbacks();
        for wanted in Mobility::ALL {
            for taken in Mobility::ALL.into_iter().filter(|taken| *taken != wanted) {
                let (of, to) = (wanted.index(), taken.index());
                say!(
                    "replayed fallbacks_{wanted}_{taken} {}",
                    after[of][to] - before[of][to]
                );
            }
        }
        let end = MixedCounts::of(&self.blocks);
        for (when, counts) in [("sampled", self.sampled), ("end", end)] {
            say!(
                "replayed contaminated_blocks_{when} {}",
                counts.contaminated
            );
            say!("replayed mixed_blocks_{when} {}", counts.mixed);
            say!(
                "replayed movable_frames_in_mixed_{when} {}",
                counts.movable_in_mixed
            );
        }
        say!("replayed samples {}", self.samples);
        let (labels, free) = (self.zone.pageblocks_by_label(), self.zone.free_blocks());
        for label in Mobility::ALL {
            let at = Label::Of(label).index();
            say!("replayed pageblocks_{label}_end {}", labels[at]);
            for (order, count) in free[at].iter().take(ORDERS).enumerate() {
                say!("replayed free_blocks_{label}_order{order}_end {count}");
            }
        }
    }
}

/// The word that belongs at an address of an object.
fn mark(owner: u32, at: *mut u64) -> u64 {
    (u64::from(owner) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ at as u64
}
