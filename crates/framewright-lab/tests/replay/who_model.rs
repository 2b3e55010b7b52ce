//! The askers by a slow count of the raw events, beside what the command says.

use crate::support::{as_str, run, tight};
use framewright::{CpuId, Frame, Mobility, Order};
use framewright_lab::replay::{
    Asker, FreeRefused, ReclaimOptions, ReplayJob, ReplayOptions, ReplayPolicy, ReplaySubject,
    Start, TraceMemory, WhoCounts, replay, replay_all,
};
use framewright_lab::trace::{OpKind, Trace};
use framewright_sim::Random;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::atomic::AtomicU64;

/// Requests, failures that could be printed, blocks made mixed, fixed and movable frames in mixed blocks.
type Five = [u64; 5];

const BLOCK: usize = 512;

/// Memory frame by frame: by which asker a frame is held, and whether it can move.
struct SlowMemory {
    frames: Vec<Option<(usize, bool)>>,
    counts: Vec<Five>,
}

impl SlowMemory {
    fn new(frames: usize) -> Self {
        Self {
            frames: vec![None; frames],
            counts: Vec::new(),
        }
    }

    fn of(&mut self, asker: usize) -> &mut Five {
        if self.counts.len() <= asker {
            self.counts.resize(asker + 1, [0; 5]);
        }
        &mut self.counts[asker]
    }

    /// How many frames of the block hold what can move, or cannot.
    fn held(&self, frame: usize, movable: bool) -> usize {
        let start = frame / BLOCK * BLOCK;
        let end = (start + BLOCK).min(self.frames.len());
        let block = self.frames[start..end].iter().flatten();
        block.filter(|(_, moves)| *moves == movable).count()
    }

    fn take(&mut self, asker: usize, frame: usize, frames: usize, movable: bool) {
        let mixes = self.held(frame, movable) == 0 && self.held(frame, !movable) > 0;
        self.of(asker)[2] += u64::from(mixes && frames < BLOCK);
        for held in &mut self.frames[frame..frame + frames] {
            assert!(held.is_none(), "{frame}");
            *held = Some((asker, movable));
        }
    }

    fn give(&mut self, frame: usize, frames: usize) {
        self.frames[frame..frame + frames].fill(None);
    }

    fn finish(mut self) -> Vec<Five> {
        for frame in 0..self.frames.len() {
            let Some((asker, movable)) = self.frames[frame] else {
                continue;
            };
            if self.held(frame, true) > 0 && self.held(frame, false) > 0 {
                self.of(asker)[3 + usize::from(movable)] += 1;
            }
        }
        self.counts
    }
}

/// A machine that writes ftrace text, and counts as it goes.
struct SlowMachine {
    random: Random,
    text: String,
    time_us: u64,
    /// By number: the name under which the task runs, and whether an event has said so.
    tasks: Vec<(&'static str, bool)>,
    memory: SlowMemory,
    live: Vec<(usize, u8)>,
    /// By command, by caller, and by what was asked for.
    names: [Vec<String>; 3],
    by: [SlowMemory; 3],
}

struct Request {
    task: usize,
    frame: Option<usize>,
    order: u8,
    movable: bool,
    may_reclaim: bool,
    is_reported: bool,
    caller: Option<&'static str>,
}

const NAMES: [&str; 6] = ["cc1", "a b", "x-1 [000]", "(no name)", "c;c", "make"];
const CHAINS: [(&str, &[&str]); 3] = [
    (
        "skb_page_frag_refill",
        &[
            "__alloc_pages_noprof",
            "skb_page_frag_refill",
            "tcp_sendmsg",
        ],
    ),
    ("do_fault", &["vma_alloc_folio_noprof", "do_fault.part.0"]),
    (
        "__alloc_skb",
        &[
            "allocate_slab",
            "___slab_alloc",
            "kmem_cache_alloc_node_noprof",
            "__alloc_skb",
        ],
    ),
];
const FRAMES: usize = 8192;

impl SlowMachine {
    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    fn line(&mut self, task: usize, cpu: usize, event: &str) {
        self.time_us += 1 + self.random.below(900);
        let (name, is_said) = self.tasks[task];
        // What the kernel prints where it looks the name up late.
        let name = match is_said && self.random.below(3) == 0 {
            true => ["<...>", "late"][self.random.below(2) as usize],
            false => name,
        };
        let (s, us) = (self.time_us / 1_000_000, self.time_us % 1_000_000);
        let pid = 100 + task;
        writeln!(
            self.text,
            "{name:>16}-{pid:<7} [00{cpu}] ..... {s}.{us:06}: {event}"
        )
        .unwrap();
    }

    fn place(&mut self, of: usize, name: &str) -> usize {
        match self.names[of].iter().position(|known| known == name) {
            Some(place) => place,
            None => {
                self.names[of].push(name.to_owned());
                self.names[of].len() - 1
            }
        }
    }

    fn count(&mut self, request: Request) {
        let told = match request.is_reported {
            true => "reported",
            false => "silent",
        };
        let waits = match request.may_reclaim {
            true => "may",
            false => "may not",
        };
        let who = [
            self.tasks[request.task].0.to_owned(),
            request.caller.unwrap_or("(no call chain)").to_owned(),
            format!("order {}, {waits} reclaim, {told}", request.order),
        ];
        for (of, name) in who.into_iter().enumerate() {
            let asker = self.place(of, &name);
            let memory = &mut self.by[of];
            let counts = memory.of(asker);
            counts[0] += 1;
            match request.frame {
                Some(frame) => memory.take(asker, frame, 1 << request.order, request.movable),
                None => counts[1] += u64::from(request.is_reported),
            }
        }
    }

    fn ask(&mut self) {
        let (task, cpu) = (self.below(self.tasks.len()), self.below(2));
        let order = [0, 0, 0, 1, 2, 3, 9][self.below(7)];
        let (migratetype, flags, movable, may_reclaim) = [
            (0, "GFP_KERNEL", false, true),
            (0, "GFP_ATOMIC", false, false),
            (1, "GFP_HIGHUSER_MOVABLE", true, true),
            (2, "GFP_KERNEL|__GFP_RECLAIMABLE", false, true),
        ][self.below(4)];
        let nowarn = self.below(2) == 0;
        let flags = flags.to_owned() + if nowarn { "|__GFP_NOWARN" } else { "" };
        let size = 1 << order;
        // Scattered, as no kernel would, so that blocks are mixed and cleared all the time.
        let at = (0..20).map(|_| self.below(FRAMES) / size * size);
        let at: Vec<usize> = at.collect();
        let is_free = |&at: &usize| {
            self.memory.frames[at..at + size]
                .iter()
                .all(Option::is_none)
        };
        let frame = at.into_iter().find(is_free);
        let page = match frame {
            Some(frame) => format!("page=00000000aa pfn=0x{frame:x}"),
            None => "page=(null) pfn=0x0".to_owned(),
        };
        let event = format!(
            "mm_page_alloc: {page} order={order} migratetype={migratetype} gfp_flags={flags}"
        );
        self.line(task, cpu, &event);
        if let Some(frame) = frame {
            self.memory.take(0, frame, size, movable);
            self.live.push((frame, order));
        }
        let mut request = Request {
            task,
            frame,
            order,
            movable,
            may_reclaim,
            is_reported: !nowarn,
            caller: None,
        };
        // An event of the other CPU may stand between a request and its chain.
        let chain = self.below(4);
        if let Some((caller, functions)) = CHAINS.get(chain) {
            if self.below(3) == 0 {
                self.line(self.tasks.len() - 1, 1 - cpu, "sched_wakeup: comm=x pid=1");
            }
            self.line(task, cpu, "<stack trace>");
            for function in *functions {
                writeln!(self.text, " => {function}").unwrap();
            }
            request.caller = Some(caller);
        }
        self.count(request);
    }

    fn free(&mut self) {
        if self.live.is_empty() {
            return;
        }
        let nth = self.below(self.live.len());
        let (frame, order) = self.live.swap_remove(nth);
        let (task, cpu) = (self.below(self.tasks.len()), self.below(2));
        let event = format!("mm_page_free: page=00000000aa pfn=0x{frame:x} order={order}");
        self.line(task, cpu, &event);
        for memory in [&mut self.memory].into_iter().chain(&mut self.by) {
            memory.give(frame, 1 << order);
        }
        // A stack of an event that asks for nothing is no request's.
        if self.below(4) == 0 {
            self.line(task, cpu, "<stack trace>");
            self.text += " => free_unref_page\n";
        }
    }

    /// A task ends and another one has its number, or it takes another name.
    fn rename(&mut self) {
        let (task, by, cpu) = (self.below(5), 5, self.below(2));
        let name = NAMES[self.below(NAMES.len())];
        let (pid, old) = (100 + task, self.tasks[task].0);
        match self.below(2) {
            0 => {
                let event = format!(
                    "task_newtask: pid={pid} comm={name} clone_flags=1200000 oom_score_adj=0"
                );
                self.line(by, cpu, &event);
            }
            _ => {
                let event =
                    format!("task_rename: pid={pid} oldcomm={old} newcomm={name} oom_score_adj=0");
                self.line(task, cpu, &event);
            }
        }
        self.tasks[task] = (name, true);
    }

    fn run(seed: u64, steps: usize) -> Self {
        let mut machine = Self {
            random: Random::new(seed),
            text: "# tracer: nop\n".to_owned(),
            time_us: 1_000_000,
            tasks: vec![("cc1", false); 6],
            memory: SlowMemory::new(FRAMES),
            live: Vec::new(),
            names: Default::default(),
            by: [(); 3].map(|()| SlowMemory::new(FRAMES)),
        };
        for _ in 0..steps {
            match machine.below(20) {
                0 => machine.rename(),
                1..=11 => machine.ask(),
                _ => machine.free(),
            }
        }
        machine
    }
}

/// The counts as the command has room for them: the last row sums up those that it does not name.
fn folded(
    counted: BTreeMap<(String, String), Five>,
    said: &BTreeMap<(String, String), Five>,
) -> BTreeMap<(String, String), Five> {
    let (mut folded, mut rest) = (BTreeMap::new(), BTreeMap::<String, (usize, Five)>::new());
    for (key, counts) in counted {
        if said.contains_key(&key) {
            folded.insert(key, counts);
            continue;
        }
        // The command names those that hold the most.
        let size = |counts: &Five| (counts[3], counts[2]);
        let is_above = |(named, more): (&(String, String), &Five)| {
            named.0 != key.0 || named.1.contains('(') || size(more) >= size(&counts)
        };
        assert!(said.iter().all(is_above), "{key:?} has {counts:?}");
        let (rows, sums) = rest.entry(key.0).or_default();
        *rows += 1;
        for (sum, count) in sums.iter_mut().zip(counts) {
            *sum += count;
        }
    }
    for (by, (rows, sums)) in rest {
        // As many as the command names at least.
        let named = folded.keys().filter(|key| key.0 == by).count();
        assert!(named >= 10, "{by}: {named} are named, {rows} are not");
        folded.insert((by, format!("({rows} more)")), sums);
    }
    folded
}

#[test]
fn wh1_the_askers_have_what_a_slow_count_of_the_events_says() {
    let folder = tempfile::tempdir().unwrap();
    for seed in 1..=6 {
        let machine = SlowMachine::run(seed, 1500);
        let path = folder.path().join("t.txt");
        std::fs::write(&path, &machine.text).unwrap();
        let args = [
            "replay",
            as_str(&path),
            "--policy",
            "linux-6.12",
            "--json",
            "-",
        ];
        let (code, out, error) = run(&args);
        assert_eq!(code, Some(0), "{seed}: {error}");
        let mut said: BTreeMap<(String, String), Five> = BTreeMap::new();
        for line in out.lines() {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            let Some(who) = record["who"].as_str() else {
                continue;
            };
            assert_eq!(record["variant"], "linux");
            let metrics = [
                "who_requests",
                "who_failures_reported",
                "who_blocks_made_mixed",
                "who_fixed_frames_in_mixed",
                "who_movable_frames_in_mixed",
            ];
            let metric = metrics.iter().position(|name| record["metric"] == *name);
            let key = (record["by"].as_str().unwrap().to_owned(), who.to_owned());
            let Some(metric) = metric else { continue };
            said.entry(key).or_default()[metric] = record["value"].as_u64().unwrap();
        }
        let mut counted: BTreeMap<(String, String), Five> = BTreeMap::new();
        for ((by, names), memory) in ["command", "caller", "request"]
            .into_iter()
            .zip(machine.names)
            .zip(machine.by)
        {
            for (name, counts) in names.into_iter().zip(memory.finish()) {
                let name = match (by, &*name) {
                    ("command", "(no name)") => "\"(no name)\"".to_owned(),
                    _ => name,
                };
                counted.insert((by.to_owned(), name), counts);
            }
        }
        if seed == 1 {
            let (_, out, _) = run(&args[..4]);
            let says =
                "text does not say what was held before it began, so a pageblock counts as mixed";
            assert!(out.contains(says), "{out}");
        }
        let sum: u64 = counted.values().map(|counts| counts[2] + counts[3]).sum();
        assert!(sum > 300, "{seed}: blocks are mixed: {sum}");
        assert_eq!(said, folded(counted, &said), "{seed}");
    }
}

/// A policy whose answers are noted, and how often it fell back for each.
struct NotedSubject<'a> {
    subject: &'a mut dyn ReplaySubject,
    answers: Vec<(Option<Frame>, u64)>,
}

impl NotedSubject<'_> {
    fn fallen_back(&self) -> u64 {
        let pairs = self.subject.fallbacks();
        let all: u64 = pairs.iter().flatten().sum();
        all - (0..3).map(|same| pairs[same][same]).sum::<u64>()
    }
}

impl ReplaySubject for NotedSubject<'_> {
    fn name(&self) -> &'static str {
        self.subject.name()
    }
    fn set_label(&mut self, pageblock: u64, label: Mobility) {
        self.subject.set_label(pageblock, label);
    }
    fn alloc_at(&mut self, frame: Frame, order: Order, mobility: Mobility) -> bool {
        self.subject.alloc_at(frame, order, mobility)
    }
    fn alloc(&mut self, cpu: CpuId, order: Order, mobility: Mobility) -> Option<Frame> {
        let before = self.fallen_back();
        let answer = self.subject.alloc(cpu, order, mobility);
        self.answers.push((answer, self.fallen_back() - before));
        answer
    }
    fn free(&mut self, cpu: CpuId, frame: Frame, order: Order) -> Result<(), FreeRefused> {
        self.subject.free(cpu, frame, order)
    }
    fn drain(&mut self) {
        self.subject.drain();
    }
    fn free_blocks(&self) -> [[u64; 11]; 3] {
        self.subject.free_blocks()
    }
    fn labels(&self) -> [u64; 3] {
        self.subject.labels()
    }
    fn fallbacks(&self) -> [[u64; 3]; 3] {
        self.subject.fallbacks()
    }
}

/// The same by hand, from where the policy put each request.
fn slowly(
    trace: &Trace,
    answers: &[(Option<Frame>, u64)],
) -> HashMap<Option<u16>, (Five, [u64; 2])> {
    let askers = trace.askers.comms.len();
    let (before, mut failed) = (askers, vec![[0; 2]; askers + 1]);
    let mut memory = SlowMemory::new(trace.nframes as usize);
    let mut objects: Vec<Option<usize>> = Vec::new();
    for object in &trace.init {
        let movable = object.class.mobility().is_movable();
        memory.frames[object.frame.0 as usize] = Some((before, movable));
        objects.push(Some(object.frame.0 as usize));
    }
    let mut answers = answers.iter();
    for op in &trace.ops {
        let frames = 1 << op.order().get();
        match op.kind() {
            OpKind::Alloc => {
                let asker = usize::from(op.pid);
                memory.of(asker)[0] += 1;
                let &(frame, fallen_back) = answers.next().unwrap();
                let frame = frame.map(|frame| frame.0 as usize);
                failed[asker][1] += fallen_back;
                match frame {
                    Some(frame) => memory.take(asker, frame, frames, op.mobility().is_movable()),
                    None => failed[asker][0] += 1,
                }
                objects.push(frame);
            }
            OpKind::Free | OpKind::FreePart => {
                if let Some(frame) = objects[op.value as usize] {
                    memory.give(frame + op.offset as usize, frames);
                }
            }
            OpKind::Failed => {
                // Tried, and freed at once.
                answers.next().unwrap();
                let counts = memory.of(usize::from(op.pid));
                counts[0] += 1;
                counts[1] += 1;
            }
            OpKind::Tick => {}
        }
    }
    assert!(answers.next().is_none());
    let mut counts = memory.finish();
    counts.resize(askers + 1, [0; 5]);
    let name = |at: usize| (at < askers).then_some(at as u16);
    let rows = counts.into_iter().zip(failed).enumerate();
    rows.map(|(at, (five, failed))| (name(at), (five, failed)))
        .filter(|(_, (five, _))| *five != [0; 5])
        .collect()
}

/// Gives the requests to four tasks.
fn name_four(trace: &mut Trace) {
    for (nth, op) in trace.ops.iter_mut().enumerate() {
        if matches!(op.kind(), OpKind::Alloc | OpKind::Failed) {
            op.pid = [0, 3, 1, 2][nth * nth % 11 % 4];
        }
    }
    for name in ["a", "b", "c", "d"] {
        trace.askers.comms.push(name.as_bytes());
    }
}

#[test]
fn wh1_under_each_policy_the_askers_have_what_a_slow_count_of_its_answers_says() {
    let mut trace = tight(9_000, 7);
    name_four(&mut trace);
    let memory = TraceMemory::new(&trace).unwrap();
    for policy in ReplayPolicy::ALL {
        let options = ReplayOptions {
            who: true,
            ..ReplayOptions::new(Start::Imposed)
        };
        let done = AtomicU64::new(0);
        let (outcome, answers) = policy
            .with(&memory, |subject| {
                let mut noted = NotedSubject {
                    subject,
                    answers: Vec::new(),
                };
                let outcome = replay(&mut noted, &memory, options, &done).unwrap();
                (outcome, noted.answers)
            })
            .unwrap();
        let tally = outcome.who.unwrap().askers.into_iter();
        let said: HashMap<Option<u16>, (Five, [u64; 2])> = tally
            .map(|(asker, counts)| {
                let task = match asker {
                    Asker::Named { task, .. } => Some(task),
                    _ => None,
                };
                let WhoCounts {
                    requests,
                    refused,
                    failed,
                    blocks_mixed,
                    fixed_frames,
                    movable_frames,
                    fallbacks,
                } = counts;
                let five = [
                    requests,
                    refused,
                    blocks_mixed,
                    fixed_frames,
                    movable_frames,
                ];
                (task, (five, [failed, fallbacks]))
            })
            .collect();
        let counted = slowly(&trace, &answers);
        // The pole has one kind of pageblocks, and so never falls back.
        let falls_back = policy.name() != "no-grouping";
        let both = |&(five, [failed, fallen_back]): &(Five, [u64; 2])| {
            five[2] > 0 && failed > 0 && (fallen_back > 0) == falls_back
        };
        assert!(counted.values().any(both), "{policy}");
        assert_eq!(said, counted, "{policy}");
    }
}

#[test]
fn wh1_what_a_kernel_that_reclaims_moves_and_takes_back_keeps_its_holder_or_has_none() {
    let mut trace = tight(9_000, 7);
    name_four(&mut trace);
    // Copies of files, which reclaim takes back.
    trace.gfp = vec![0x0010_0cca];
    let memory = TraceMemory::new(&trace).unwrap();
    let policies = [
        ReplayPolicy::HISTORICAL[0],
        ReplayPolicy::HISTORICAL[1],
        ReplayPolicy::OURS,
    ];
    let job = |&policy: &ReplayPolicy| ReplayJob {
        policy,
        memory: &memory,
        options: ReplayOptions {
            who: true,
            reclaim: Some(ReclaimOptions { huge_probes: 20 }),
            ..ReplayOptions::new(Start::Imposed)
        },
    };
    let jobs: Vec<ReplayJob<'_>> = policies.iter().map(job).collect();
    let outcomes = replay_all(&jobs, 2, &AtomicU64::new(0)).unwrap();
    for outcome in outcomes {
        let policy = outcome.policy;
        let stats = outcome.stalls.unwrap();
        assert!(stats.stats.pgmigrate_success > 0, "{policy}");
        assert!(stats.reclaimed_objects > 0, "{policy}");
        let tally = outcome.who.unwrap();
        assert!(!tally.has_fallbacks, "{policy}");
        let mut all = WhoCounts::default();
        tally.askers.iter().for_each(|(_, counts)| all.add(counts));
        // A frame without its holder, or with one that is gone, would be one too few or too many.
        assert_eq!(
            all.movable_frames, outcome.end.movable_frames_in_mixed,
            "{policy}"
        );
        let refused = trace
            .ops
            .iter()
            .filter(|op| op.kind() == OpKind::Failed)
            .count() as u64;
        let asked = trace
            .ops
            .iter()
            .filter(|op| op.kind() == OpKind::Alloc)
            .count() as u64;
        assert_eq!(
            (all.requests, all.refused),
            (asked + refused, refused),
            "{policy}"
        );
        assert_eq!(all.failed, outcome.failures.iter().sum::<u64>(), "{policy}");
        assert!(all.fixed_frames > 0 && all.blocks_mixed > 0, "{policy}");
    }
}
