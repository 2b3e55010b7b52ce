//! The machine: CPUs with clocks, the cache lines of the engine's metadata, and what their time went into.
//!
//! Each CPU is a coroutine, so the engine's calls are interrupted where CPUs meet. The CPU with the lowest clock runs; of
//! equal ones that with the lowest number. It stops before each access of a line that another CPU has had, unless its clock
//! is still the lowest: so the accesses of such lines happen in the order of the clocks, and so do locks, waits and stops.
//! The first access of a line by a second CPU is the only one that may come early or late.
//!
//! # What costs time
//! - An access of an atomic: the work around it. A load's work is its counted instructions, spread over its accesses.
//! - A line that another CPU has: one price to get it, to read it while another one has written it, and to write it while
//!   others have it. A line serves one CPU after the other: the next one waits until it has come.
//! - A poll of a CPU that waits.
//! - A barrier or a flush on all CPUs: to its sender, to each other CPU, and to the sender for the answer of each CPU after
//!   the first one.
//!
//! # What counts
//! The CPUs warm up one after the other. Then each begins at a time that is drawn, a window opens when all have begun, and it
//! closes once all together have ended the operations that count. The CPUs go on until then, so that none has the machine to
//! itself. What passes an edge of the window counts up to that edge, so work and losses add up to the window of all CPUs.
//!
//! # Lines
//! ```text
//!   no CPU has it ── first access, free ──▶ CPUs that have it: one that wrote, or some that read
//!        read by one that lacks it: the price, it has it too      write by one that has it not alone: the price, it alone has it
//! ```

use crate::Prices;
use framewright_lines::Access;
use framewright_sim::Random;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::panic::Location;

/// The most CPUs that a line's holders have bits for.
pub(crate) const CPUS_MAX: usize = 256;

/// After so many looks a CPU that waits looks less often.
const POLLS: u32 = 100;

/// After so many looks in a row no CPU will end the wait.
const POLLS_MAX: u32 = 10_000_000;

/// The part of a path in front of the engine's own files.
const ENGINE: &str = "framewright/src/";

/// What stands for a file where a load waits without the engine.
const LOAD: &str = "the load";

/// Tools of the engine: an access there is named by what else the line is for.
const TOOLS: [&str; 4] = ["sync/", "raw/", "platform/", "seats/accounts.rs"];

/// Lines that are recorded together: most of the metadata is never touched.
const CHUNK: usize = 64;

/// Why a CPU's time passed without work for its own operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Loss {
    /// A line came from another CPU.
    Line,
    /// It waited: for a lock, or for the end of a stop, or as a stopper.
    Wait,
    /// It sent a barrier.
    Barrier,
    /// It sent a flush.
    Flush,
    /// It answered either.
    Answer,
}

impl Loss {
    pub(crate) const ALL: [Self; 5] = [
        Self::Line,
        Self::Wait,
        Self::Barrier,
        Self::Flush,
        Self::Answer,
    ];

    /// As the result file names it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Wait => "wait",
            Self::Barrier => "barrier",
            Self::Flush => "flush",
            Self::Answer => "answer",
        }
    }
}

/// What all CPUs together did in the window that counts; times in picoseconds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct SpentTime {
    /// How long the window was.
    pub(crate) window: u64,
    pub(crate) operations: u64,
    /// Operations of the CPU that ended the fewest.
    pub(crate) slowest: u64,
    pub(crate) accesses: u64,
    pub(crate) work: u64,
    /// By why, and by the file of the engine that it happened in.
    pub(crate) lost: BTreeMap<(Loss, &'static str), Lost>,
}

/// How often, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Lost {
    pub(crate) times: u64,
    pub(crate) ps: u64,
}

impl SpentTime {
    /// For this reason in all files.
    pub(crate) fn of(&self, loss: Loss) -> Lost {
        let of = self.lost.iter().filter(|((why, _), _)| *why == loss);
        of.fold(Lost::default(), |sum, (_, lost)| Lost {
            times: sum.times + lost.times,
            ps: sum.ps + lost.ps,
        })
    }
}

/// CPUs, a bit each.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct CpuBits([u64; CPUS_MAX / 64]);

impl CpuBits {
    fn one(cpu: usize) -> Self {
        let mut bits = Self::default();
        bits.add(cpu);
        bits
    }

    fn add(&mut self, cpu: usize) {
        self.0[cpu / 64] |= 1 << (cpu % 64);
    }

    fn has(&self, cpu: usize) -> bool {
        self.0[cpu / 64] & 1 << (cpu % 64) != 0
    }
}

#[derive(Clone, Copy, Default)]
struct CacheLine {
    holders: CpuBits,
    /// When the last CPU that asked for it has it.
    free_at: u64,
    /// Whether a second CPU has touched it.
    is_shared: bool,
    /// The file that uses it, other than tools.
    name: FileId,
}

struct CpuState {
    clock: u64,
    /// Steps of the warming up.
    steps: u64,
    /// It has warmed up, and waits for the others.
    is_parked: bool,
    /// It waits: the next access is its look at what it waits for.
    is_polling: bool,
    /// Where its last access was made, and the file of that line.
    last: (Option<&'static Location<'static>>, FileId),
    /// Operations in the window.
    counted: u64,
}

/// One machine.
pub(crate) struct ManyCpus {
    prices: Prices,
    /// The work around one access.
    work_ps: u64,
    /// The number of the first line of the metadata, and its lines.
    first: usize,
    lines: Vec<Option<Box<[CacheLine; CHUNK]>>>,
    files: FileNames,
    lost: Vec<[Lost; Loss::ALL.len()]>,
    cpus: Vec<CpuState>,
    running: usize,
    /// CPUs that do not run, by clocks that may be too low: an interrupt moves a clock on.
    queue: BinaryHeap<Reverse<(u64, usize)>>,
    plan: Plan,
    /// CPUs that have not warmed up.
    cold: usize,
    /// The time that counts.
    window: (u64, u64),
    spent: SpentTime,
}

/// How long a machine runs, in operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    /// Steps of each CPU, before any of them counts. With none, all begin cold and at once.
    pub(crate) warm: u64,
    /// After the last of these the CPUs begin within so many picoseconds.
    pub(crate) spread: u64,
    /// That count, of each CPU in the mean.
    pub(crate) counted: u64,
}

thread_local! {
    static MACHINE: RefCell<Option<ManyCpus>> = const { RefCell::new(None) };
}

/// A file of the engine; 0 is the load itself.
type FileId = u16;

/// The files that accesses were made in.
#[derive(Default)]
struct FileNames {
    of_place: HashMap<*const Location<'static>, FileId>,
    names: Vec<&'static str>,
}

impl FileNames {
    /// The file of the engine that a place is in.
    fn of(&mut self, place: &'static Location<'static>) -> FileId {
        let names = &mut self.names;
        *self.of_place.entry(place).or_insert_with(|| {
            let file = place.file();
            let file = file.split_once(ENGINE).map_or(file, |(_, within)| within);
            let known = names.iter().position(|name| *name == file);
            let nth = known.unwrap_or_else(|| {
                names.push(file);
                names.len() - 1
            });
            nth as FileId + 1
        })
    }

    fn name(&self, file: FileId) -> &'static str {
        let nth = usize::from(file).checked_sub(1);
        nth.map_or(LOAD, |nth| self.names[nth])
    }

    fn is_tool(&self, file: FileId) -> bool {
        TOOLS.iter().any(|tool| self.name(file).starts_with(tool))
    }
}

impl ManyCpus {
    /// A machine with that many CPUs, all at time 0, over metadata from `start` on.
    pub(crate) fn new(
        cpus: usize,
        prices: Prices,
        work_ps: u64,
        (start, bytes): (usize, usize),
        plan: Plan,
    ) -> Self {
        assert!((1..=CPUS_MAX).contains(&cpus), "{cpus} CPUs");
        let (cold, from) = match plan.warm {
            0 => (0, 0),
            _ => (cpus, u64::MAX),
        };
        let idle = |_| CpuState {
            clock: 0,
            steps: 0,
            is_parked: false,
            is_polling: false,
            last: (None, FileId::default()),
            counted: 0,
        };
        Self {
            prices,
            work_ps,
            first: start / 64,
            lines: (0..bytes / 64 / CHUNK + 2).map(|_| None).collect(),
            files: FileNames::default(),
            lost: Vec::new(),
            cpus: (0..cpus).map(idle).collect(),
            running: 0,
            queue: (0..cpus).map(|cpu| Reverse((0, cpu))).collect(),
            plan,
            cold,
            window: (from, u64::MAX),
            spent: SpentTime::default(),
        }
    }

    /// Moves the clock of a CPU on. Returns whether the time begins in the window, and how much of it lies there.
    fn pass(&mut self, cpu: usize, ps: u64) -> (bool, u64) {
        let clock = &mut self.cpus[cpu].clock;
        let (from, until) = self.window;
        let start = *clock;
        *clock += ps;
        let within = (*clock).min(until).saturating_sub(start.max(from));
        ((from..until).contains(&start), within)
    }

    fn lose(&mut self, cpu: usize, loss: Loss, file: FileId, ps: u64) {
        let (begins, within) = self.pass(cpu, ps);
        if within == 0 {
            return;
        }
        let file = usize::from(file);
        if self.lost.len() <= file {
            self.lost.resize(file + 1, Default::default());
        }
        let lost = &mut self.lost[file][loss as usize];
        lost.times += u64::from(begins);
        lost.ps += within;
    }

    /// What came of it.
    fn end(mut self) -> SpentTime {
        self.spent.slowest = self.cpus.iter().map(|cpu| cpu.counted).min().unwrap_or(0);
        for (file, of) in self.lost.iter().enumerate() {
            let name = self.files.name(file as FileId);
            for (loss, lost) in Loss::ALL.into_iter().zip(of) {
                if lost.ps > 0 {
                    self.spent.lost.insert((loss, name), *lost);
                }
            }
        }
        self.spent
    }

    /// The CPU that runs has taken a step, which ended so many operations. Returns whether it goes on.
    fn ended(&mut self, operations: u64) -> bool {
        if self.cold > 0 {
            let cpu = &mut self.cpus[self.running];
            cpu.steps += 1;
            if cpu.steps == self.plan.warm {
                cpu.is_parked = true;
                self.cold -= 1;
                if self.cold == 0 {
                    self.begin();
                }
            }
            return true;
        }
        let (from, until) = self.window;
        let cpu = &mut self.cpus[self.running];
        if (from..until).contains(&cpu.clock) {
            self.spent.operations += operations;
            cpu.counted += operations;
            let all = self.plan.counted * self.cpus.len() as u64;
            if until == u64::MAX && self.spent.operations >= all {
                self.window.1 = self.last();
                self.spent.window = self.window.1 - from;
            }
        }
        self.cpus[self.running].clock < self.window.1
    }

    /// The highest clock.
    fn last(&self) -> u64 {
        let clocks = self.cpus.iter().map(|cpu| cpu.clock);
        clocks.max().unwrap_or(0)
    }

    /// All CPUs have warmed up.
    fn begin(&mut self) {
        let (last, spread) = (self.last(), self.plan.spread);
        let mut random = Random::new(self.cpus.len() as u64);
        self.queue.clear();
        for (nth, cpu) in self.cpus.iter_mut().enumerate() {
            cpu.is_parked = false;
            cpu.clock = last + random.below(spread + 1);
            if nth != self.running {
                self.queue.push(Reverse((cpu.clock, nth)));
            }
        }
        self.window.0 = last + spread;
    }

    /// Whether another CPU may be behind the one that runs.
    fn is_ahead(&self) -> bool {
        let me = (self.cpus[self.running].clock, self.running);
        self.cold == 0 && self.queue.peek().is_some_and(|&Reverse(next)| next < me)
    }

    /// The work before an access. Returns whether another CPU is to run before the access itself.
    fn work(&mut self, access: Access) -> bool {
        let me = self.running;
        if self.cpus[me].is_polling {
            self.cpus[me].is_polling = false;
            let (file, ps) = (self.waits_for(), self.work_ps);
            self.lose(me, Loss::Wait, file, ps);
        } else {
            let (begins, within) = self.pass(me, self.work_ps);
            self.spent.work += within;
            self.spent.accesses += u64::from(begins);
        }
        let Some(line) = self.line(access) else {
            return false;
        };
        line.is_shared |= line.holders != CpuBits::default() && line.holders != CpuBits::one(me);
        line.is_shared && self.is_ahead()
    }

    /// The file that the last access was for. A tool stands for itself where nothing else has used the line.
    fn waits_for(&mut self) -> FileId {
        let (place, line) = self.cpus[self.running].last;
        place.map_or(FileId::default(), |place| {
            let file = self.files.of(place);
            let is_named = line != FileId::default() && self.files.is_tool(file);
            if is_named { line } else { file }
        })
    }

    fn line(&mut self, access: Access) -> Option<&mut CacheLine> {
        let nth = access.line().checked_sub(self.first)?;
        let chunk = self.lines.get_mut(nth / CHUNK)?;
        let chunk = chunk.get_or_insert_with(|| Box::new([CacheLine::default(); CHUNK]));
        Some(&mut chunk[nth % CHUNK])
    }

    /// The access itself: the line comes from another CPU where this one lacks it.
    fn access(&mut self, access: Access, place: &'static Location<'static>) {
        let me = self.running;
        let Some(line) = self.line(access) else {
            return;
        };
        let mine = CpuBits::one(me);
        let is_new = line.holders == CpuBits::default();
        let has_it = match access.is_write {
            true => line.holders == mine,
            false => line.holders.has(me),
        };
        match access.is_write {
            true => line.holders = mine,
            false => line.holders.add(me),
        }
        let named = line.name;
        if named == FileId::default() {
            let file = self.files.of(place);
            if !self.files.is_tool(file)
                && let Some(line) = self.line(access)
            {
                line.name = file;
            }
        }
        self.cpus[me].last = (Some(place), named);
        if is_new || has_it {
            return;
        }
        let (clock, price) = (self.cpus[me].clock, self.prices.line_ps);
        let Some(line) = self.line(access) else {
            return;
        };
        line.free_at = line.free_at.max(clock) + price;
        let wait = line.free_at - clock;
        let file = self.waits_for();
        self.lose(me, Loss::Line, file, wait);
    }

    /// The CPU that runs waits for another one, in the engine or in the load itself.
    fn wait(&mut self, attempt: u32, is_load: bool) {
        assert!(attempt < POLLS_MAX, "deadlock: no CPU ends the wait");
        let me = self.running;
        if is_load {
            self.cpus[me].last = (None, FileId::default());
        }
        let file = self.waits_for();
        let poll_ps = match attempt < POLLS {
            true => self.prices.poll_ps,
            false => self.prices.late_poll_ps,
        };
        self.lose(me, Loss::Wait, file, poll_ps);
        self.cpus[me].is_polling = true;
    }

    /// The CPU that runs interrupts all others, and waits for their answers.
    fn interrupt(&mut self, loss: Loss) {
        let me = self.running;
        let others = self.cpus.len() - 1;
        if others == 0 {
            return;
        }
        let answers = (others as u64 - 1) * self.prices.line_ps;
        let file = self.waits_for();
        let answer_ps = self.prices.answer_ps;
        for other in (0..=others).filter(|other| *other != me) {
            self.lose(other, Loss::Answer, file, answer_ps);
        }
        self.lose(me, loss, file, self.prices.interrupt_ps + answers);
    }
}

/// Does something with the machine of this thread.
fn with<T>(act: impl FnOnce(&mut ManyCpus) -> T) -> T {
    MACHINE.with_borrow_mut(|machine| act(machine.as_mut().expect("a machine runs")))
}

/// Lets another CPU run.
#[expect(
    deprecated,
    reason = "the scope that replaces it cannot be reached from within an atomic"
)]
fn give_way() {
    generator::yield_with(());
}

/// What the engine's atomics tell.
fn told(access: Access, place: &'static Location<'static>) {
    let must_wait = with(|machine| {
        let must_wait = machine.work(access);
        if !must_wait {
            machine.access(access, place);
        }
        must_wait
    });
    if must_wait {
        give_way();
        with(|machine| machine.access(access, place));
    }
}

/// [`FramePlatform::relax`](framewright::platform::FramePlatform::relax) of this machine.
pub(crate) fn wait(attempt: u32) {
    with(|machine| machine.wait(attempt, false));
    give_way();
}

/// A load waits for another CPU, outside the engine.
pub(crate) fn wait_in_load(attempt: u32) {
    with(|machine| machine.wait(attempt, true));
    give_way();
}

/// A barrier or a flush on all CPUs. Where no machine runs, the engine is made or looked at, and no other CPU is there.
pub(crate) fn interrupt(loss: Loss) {
    let is_running = MACHINE.with_borrow_mut(|machine| {
        let machine = machine.as_mut();
        machine.map(|machine| machine.interrupt(loss)).is_some()
    });
    if is_running {
        give_way();
    }
}

/// The clock of the CPU that runs, in picoseconds.
pub(crate) fn now_ps() -> u64 {
    MACHINE.with_borrow(|machine| {
        let machine = machine.as_ref();
        machine.map_or(0, |machine| machine.cpus[machine.running].clock)
    })
}

/// The CPU that runs has taken a step, which ended so many operations. Returns whether it goes on.
pub(crate) fn ended(operations: u64) -> bool {
    let (goes_on, gives_way) = with(|machine| {
        let goes_on = machine.ended(operations);
        let is_parked = machine.cpus[machine.running].is_parked;
        (goes_on, is_parked || machine.is_ahead())
    });
    if gives_way {
        give_way();
    }
    goes_on
}

/// What a CPU does.
pub(crate) type CpuWork<'a> = Box<dyn FnOnce() + Send + 'a>;

/// The words of a stack: the engine needs some kilobytes, and a panic more.
const STACK_WORDS: usize = 0x1_0000;

/// Runs the CPUs, each with its work, on that machine until all works have ended. The engine's atomics must be
/// those that tell.
pub(crate) fn run<'a>(machine: ManyCpus, works: Vec<CpuWork<'a>>) -> SpentTime {
    assert_eq!(works.len(), machine.cpus.len());
    let old = MACHINE.replace(Some(machine));
    assert!(old.is_none(), "one machine runs at a time");
    framewright_lines::watch(Some(told));
    let coroutine = |work: CpuWork<'a>| generator::Gn::<()>::new_opt(STACK_WORDS, work);
    let mut coroutines: Vec<_> = works.into_iter().map(coroutine).collect();
    while let Some(Reverse((clock, cpu))) = with(|machine| machine.queue.pop()) {
        let is_late = with(|machine| {
            let now = machine.cpus[cpu].clock;
            let is_late = now > clock;
            if is_late {
                machine.queue.push(Reverse((now, cpu)));
            }
            machine.running = cpu;
            is_late
        });
        if is_late {
            continue;
        }
        coroutines[cpu].resume();
        let is_done = coroutines[cpu].is_done();
        with(|machine| {
            let CpuState {
                clock, is_parked, ..
            } = machine.cpus[cpu];
            if !is_done && !is_parked {
                machine.queue.push(Reverse((clock, cpu)));
            }
        });
    }
    framewright_lines::watch(None);
    let machine = MACHINE.take();
    machine.map(ManyCpus::end).expect("it ran")
}
