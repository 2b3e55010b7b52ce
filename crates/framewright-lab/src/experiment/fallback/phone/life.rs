//! The phone's life: what happens by virtual time, and every request that it makes.

use super::super::params::Params;
use super::super::{LifePoint, LifeSpan, labels};
use super::processes::{PhoneLayout, PhoneProcesses};
use super::queue::{EventQueue, PhoneEvent};
use super::sources::Sources;
use super::store::{BlockKind, NONE, PhoneStore, StoreEntry};
use super::{Holders, Phone, Shrinkers};
use crate::experiment::Progress;
use crate::pressure::{Kernel, PressureRequest};
use framewright::{Context, CpuId, Frame, Mobility, Order};
use framewright_sim::Random;

/// How often the phone repeats a request when memory is out. Before each repetition a process dies or
/// the background has its turn.
const TRIES: u32 = 8;

/// How long a request waits before it is repeated, in microseconds: Linux's congestion_wait, a tenth.
const WAIT_US: u64 = 10_000;

/// From one look at what the application on the screen has grown to the next, in microseconds.
pub(super) const GROW_US: u64 = 100_000;

/// Simulated time of a step of the progress bar.
const STEP_US: u64 = 1_000_000;

/// From one look at what lies in pageblocks to the next, in microseconds awake: how many are mixed
/// swings by a half within minutes, with bursts that last some ten seconds.
const LOOK_US: u64 = 10_000_000;

/// What a life came to, as the phone itself counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in super::super) struct Lived {
    /// Blocks asked for.
    pub(in super::super) requests: u64,
    /// Requests that may not wait, and were not served.
    pub(in super::super) refused: u64,
    /// Requests that may wait, and failed all the same.
    pub(in super::super) failed: u64,
    /// Times that such a request waited for a process to die or for the background.
    pub(in super::super) waits: u64,
    /// Processes that the killer chose.
    pub(in super::super) kills: u64,
    /// Processes that died because memory was out.
    pub(in super::super) oom_kills: u64,
    /// Applications started anew.
    pub(in super::super) starts: u64,
    /// Pages of files used.
    pub(in super::super) pages_read: u64,
    /// Of these, those that were not in memory.
    pub(in super::super) pages_missed: u64,
    /// Frames held at the end.
    pub(in super::super) frames_held: u64,
    /// Of these, those of files.
    pub(in super::super) file_frames: u64,
    /// Anonymous ones.
    pub(in super::super) anon_frames: u64,
    /// Those that can neither be moved nor reclaimed.
    pub(in super::super) unmovable_frames: u64,
    /// Those of objects that can be reclaimed.
    pub(in super::super) reclaimable_frames: u64,
    /// Pageblocks that hold movable and other frames.
    pub(in super::super) mixed_pageblocks: u64,
    /// Pageblocks that hold a frame which cannot be moved.
    pub(in super::super) contaminated_pageblocks: u64,
    /// Looks at what lies in pageblocks, each as long after the one before.
    looks: u64,
    /// Mixed pageblocks that they saw, added up.
    mixed_sum: u64,
    /// The most that one of them saw.
    mixed_max: u64,
    /// Contaminated pageblocks that they saw, added up.
    contaminated_sum: u64,
}

impl Lived {
    fn look(&mut self, store: &PhoneStore) {
        let mixed = store.mixed_pageblocks();
        self.looks += 1;
        self.mixed_sum += mixed;
        self.mixed_max = self.mixed_max.max(mixed);
        self.contaminated_sum += store.contaminated_pageblocks();
    }

    /// Mixed pageblocks on average of all looks and the end.
    pub(in super::super) const fn mixed_pageblocks_mean(&self) -> u64 {
        (self.mixed_sum + self.mixed_pageblocks) / (self.looks + 1)
    }

    /// Contaminated pageblocks on average of all looks and the end.
    pub(in super::super) const fn contaminated_pageblocks_mean(&self) -> u64 {
        (self.contaminated_sum + self.contaminated_pageblocks) / (self.looks + 1)
    }

    /// The most mixed pageblocks of all looks and the end.
    pub(in super::super) fn mixed_pageblocks_max(&self) -> u64 {
        self.mixed_max.max(self.mixed_pageblocks)
    }
}

/// A phone that lives on a kernel.
pub(in super::super) struct PhoneLife<'a> {
    pub(super) params: &'a Params,
    pub(super) phone: &'a Phone,
    holders: Holders<'a>,
    kernel: &'a mut dyn Kernel,
    pub(super) queue: EventQueue,
    /// Virtual time awake, in microseconds.
    pub(super) now_us: u64,
    /// Until when the background has had its time.
    background_us: u64,
    /// Events so far: which CPU one is on.
    events: u64,
    /// Whether the device is in use.
    pub(super) in_use: bool,
    pub(super) processes: PhoneProcesses,
    pub(super) sources: Sources,
    sessions: Random,
    pins: Random,
    pub(super) lived: Lived,
}

impl PhoneLife<'_> {
    /// Lives for so much of virtual time awake.
    pub(in super::super) fn run(
        params: &Params,
        kernel: &mut dyn Kernel,
        seed: u64,
        span: LifeSpan,
        progress: Progress<'_>,
    ) -> (Lived, Vec<LifePoint>) {
        let layout = PhoneLayout::new(params, seed);
        let phone = Phone::new(params, layout.file_pages);
        let shrinkers = Shrinkers::of(&phone);
        let holders = Holders {
            phone: &phone,
            shrinkers: [&shrinkers.files, &shrinkers.objects, &shrinkers.processes],
        };
        let mut life = PhoneLife {
            params,
            phone: &phone,
            holders,
            kernel,
            queue: EventQueue::default(),
            now_us: 0,
            background_us: 0,
            events: 0,
            in_use: false,
            sources: Sources::new(params, &layout, seed),
            processes: PhoneProcesses::new(layout, &phone),
            sessions: Random::new(stream(seed, 1)),
            pins: Random::new(stream(seed, 2)),
            lived: Lived::default(),
        };
        life.boot();
        let awake_us = span.awake_us(params);
        let every_us = span.every_s.map(|every_s| every_s * 1_000_000);
        let (mut shown_us, mut points) = (0, Vec::new());
        let (mut next_us, mut look_us) = (every_us, LOOK_US);
        while let Some((at, event)) = life.queue.pop(awake_us) {
            while look_us <= at {
                life.lived.look(&life.phone.held.borrow().store);
                look_us += LOOK_US;
            }
            while let Some(due_us) = next_us.filter(|&due_us| due_us <= at) {
                points.push(life.point(due_us));
                next_us = every_us.map(|every_us| due_us + every_us);
            }
            life.pass(at);
            life.events += 1;
            life.happen(event);
            while shown_us + STEP_US <= at {
                shown_us += STEP_US;
                progress.step();
            }
        }
        while shown_us + STEP_US <= awake_us {
            shown_us += STEP_US;
            progress.step();
        }
        (life.lived_so_far(), points)
    }

    fn point(&self, at_us: u64) -> LifePoint {
        LifePoint {
            awake_s: at_us / 1_000_000,
            labels: labels(self.params, self.kernel),
            free_blocks: self.kernel.free_blocks(),
            stalls: self.kernel.stats().allocstall,
            lived: self.lived_so_far(),
        }
    }

    fn boot(&mut self) {
        self.start_system();
        self.queue.push(0, PhoneEvent::Session);
        self.queue.push(0, PhoneEvent::Grow);
        self.queue.push(0, PhoneEvent::Churn);
        self.first_sources();
        self.first_switch();
    }

    fn happen(&mut self, event: PhoneEvent) {
        match event {
            PhoneEvent::Session => self.session(),
            PhoneEvent::Switch => self.switch(),
            PhoneEvent::Start { nth, run } => self.start_slice(nth as usize, run),
            PhoneEvent::Grow => self.grow(),
            PhoneEvent::Churn => self.churn(),
            PhoneEvent::Read { nth } => self.read(nth as usize),
            PhoneEvent::Kernel { nth } => self.kernel_memory(nth as usize),
            PhoneEvent::Buffers { nth } => self.buffers(nth as usize),
            PhoneEvent::End { list } => self.end(list),
        }
    }

    fn session(&mut self) {
        self.in_use = !self.in_use;
        let time = &self.params.time;
        let span = if self.in_use {
            time.use_s
        } else {
            time.pause_s
        };
        let seconds = between(&mut self.sessions, span);
        self.later(seconds * 1_000_000, PhoneEvent::Session);
    }

    /// Something will happen after that time.
    pub(super) fn later(&mut self, after_us: u64, event: PhoneEvent) {
        self.queue.push(self.now_us + after_us, event);
    }

    /// Time passes: the background has it, if it is awake.
    fn pass(&mut self, at_us: u64) {
        self.now_us = at_us;
        if let Some(us) = at_us.checked_sub(self.background_us) {
            self.work(us);
        }
    }

    /// The phone works or waits for so long. The background has a CPU of its own and works meanwhile.
    pub(super) fn work(&mut self, us: u64) {
        let per_ms = self.params.time.background_frames_per_ms;
        let frames = us * per_ms / 1000;
        if frames == 0 {
            return;
        }
        // What is left of a frame stays for the next time.
        self.background_us += frames * 1000 / per_ms;
        if self.kernel.background_is_awake() {
            self.kernel.background(&self.holders, frames);
        }
    }

    fn cpu(&self) -> CpuId {
        CpuId((self.events % u64::from(self.params.machine.cpus)) as u16)
    }

    /// A block for the head of a list; `false` if there is none.
    pub(super) fn alloc(
        &mut self,
        kind: BlockKind,
        order: u8,
        list: u32,
        context: Context,
    ) -> bool {
        let pinned = kind.is_movable() && self.draws_pin();
        let Some(frame) = self.ask(kind, order, context) else {
            return false;
        };
        let entry = StoreEntry {
            kind,
            order,
            list,
            owner: NONE,
            pinned,
        };
        self.phone.held.borrow_mut().store.insert(frame, entry);
        self.kill_if_wanted();
        true
    }

    /// A page of a file is used: from memory, or read into it.
    pub(super) fn use_page(&mut self, page: u32) {
        self.lived.pages_read += 1;
        let is_there = {
            let held = &mut *self.phone.held.borrow_mut();
            held.cache.touch(&mut held.store, page)
        };
        if !is_there {
            self.read_page(page);
        }
    }

    fn read_page(&mut self, page: u32) {
        self.lived.pages_missed += 1;
        let pinned = self.draws_pin();
        let Some(frame) = self.ask(BlockKind::File, 0, Context::ANY) else {
            return;
        };
        {
            let held = &mut *self.phone.held.borrow_mut();
            held.cache.insert(&mut held.store, page, frame, pinned);
        }
        self.kill_if_wanted();
    }

    fn draws_pin(&mut self) -> bool {
        self.pins.below(1_000_000) < self.params.applications.pinned_per_million
    }

    fn ask(&mut self, kind: BlockKind, order: u8, context: Context) -> Option<u32> {
        let mobility = match kind {
            BlockKind::Anon | BlockKind::File => Mobility::Movable,
            BlockKind::Cached => Mobility::Reclaimable,
            BlockKind::Nothing | BlockKind::Stack | BlockKind::Slab | BlockKind::Graphics => {
                Mobility::Unmovable
            }
        };
        let request = PressureRequest {
            cpu: self.cpu(),
            order: Order::new(order)?,
            mobility,
            context,
        };
        self.lived.requests += 1;
        for tried in 0..TRIES {
            if let Some(frame) = self.kernel.alloc(&self.holders, request) {
                return u32::try_from(frame.0).ok();
            }
            if !context.may_reclaim {
                self.lived.refused += 1;
                return None;
            }
            self.lived.waits += 1;
            if !self.kill_if_wanted() && tried >= TRIES / 2 {
                self.lived.oom_kills += u64::from(self.kill(0));
            }
            self.work(WAIT_US);
        }
        self.lived.failed += 1;
        None
    }

    /// Ends a process of the rank that the killer has named, if it has. Returns whether one died.
    fn kill_if_wanted(&mut self) -> bool {
        let Some(adj) = self.phone.killer.take_wanted() else {
            return false;
        };
        let killed = self.kill(adj);
        self.lived.kills += u64::from(killed);
        killed
    }

    /// Frees the oldest block of a list; its frames.
    pub(super) fn free_oldest(&mut self, list: u32) -> Option<u64> {
        let frame = self.phone.held.borrow().store.list(list).tail;
        if frame == NONE {
            return None;
        }
        let order = self.phone.held.borrow_mut().store.remove(frame);
        let order = Order::new(order)?;
        let cpu = self.cpu();
        self.kernel.free(cpu, Frame(u64::from(frame)), order);
        Some(order.frames())
    }

    /// Frees everything on a list.
    pub(super) fn free_all(&mut self, list: u32) {
        while self.free_oldest(list).is_some() {}
    }

    /// A list for what lives for a while.
    pub(super) fn new_list(&self) -> u32 {
        self.phone.held.borrow_mut().store.new_list()
    }

    /// Frees what has reached its end.
    pub(super) fn end(&mut self, list: u32) {
        self.free_all(list);
        self.phone.held.borrow_mut().store.drop_list(list);
    }

    /// Frames on a list.
    pub(super) fn frames_on(&self, list: u32) -> u64 {
        u64::from(self.phone.held.borrow().store.list(list).frames)
    }

    fn lived_so_far(&self) -> Lived {
        let held = self.phone.held.borrow();
        let of = |kind| held.store.frames_of(kind);
        Lived {
            frames_held: held.store.frames_held(),
            file_frames: of(BlockKind::File),
            anon_frames: of(BlockKind::Anon),
            unmovable_frames: of(BlockKind::Stack) + of(BlockKind::Slab) + of(BlockKind::Graphics),
            reclaimable_frames: of(BlockKind::Cached),
            mixed_pageblocks: held.store.mixed_pageblocks(),
            contaminated_pageblocks: held.store.contaminated_pageblocks(),
            ..self.lived
        }
    }
}

/// The seed of one source's random numbers (Q1).
pub(super) fn stream(seed: u64, source: u64) -> u64 {
    Random::new(seed ^ source.wrapping_mul(0xd134_2543_de82_ef95)).bits()
}

/// A number of the range, both ends included.
pub(super) fn between(random: &mut Random, [low, high]: [u64; 2]) -> u64 {
    low + random.below(high - low + 1)
}

/// A number of the range; each doubling is as likely as the others.
pub(super) fn doubling(random: &mut Random, [low, high]: [u64; 2]) -> u64 {
    let (low, high) = (low.max(1), high.max(1));
    let doublings = u64::from((high / low).ilog2()) + 1;
    let base = low << random.below(doublings);
    (base + random.below(base)).min(high)
}
