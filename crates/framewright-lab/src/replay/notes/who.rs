//! The askers: what each task and each caller asked for, which blocks that made mixed, and what each holds in mixed
//! blocks at the end; and the same by what was asked for.
//!
//! Where a kernel moves a block, its holder goes with it, and what that mixes counts for no asker.
//!
//! # Invariants
//! - **WH1** A frame's holder is the asker of the request that it was handed out for, wherever it was moved since; a free
//!   frame has none.
//!
//! A chain of calls becomes its *caller*: the innermost function that is no part of the allocator, nor of the tracing
//! that recorded it.

use crate::measure::{BLOCK_ORDER, Observer};
use crate::trace::{Askers, OpKind, RequestTraits, Trace, TraceOp};
use framewright::{Frame, Mobility, Order};
use std::collections::{BTreeMap, HashMap};

/// The maker of a request, or the holder of a frame, as far as a recording says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Asker {
    /// Held before the first operation: no recording says by which task.
    Before,
    /// An allocation that the recording inferred, because no event showed it.
    Unseen,
    /// A task, its call chain, and the caller in that.
    Named {
        /// The small number of a task of that name; the first one.
        task: u16,
        /// The caller's place among the functions, or [`Asker::NO_CALLER`].
        caller: u32,
        /// The call chain's place, or [`Askers::NO_CHAIN`].
        chain: u32,
    },
}

impl Asker {
    /// No call chain is known.
    pub const NO_CALLER: u32 = u32::MAX;
}

/// What one of them asked for and holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WhoCounts {
    /// Requests, those that failed on the recording machine included.
    pub requests: u64,
    /// Those that failed there and could have been reported.
    pub refused: u64,
    /// Those that fail in the replay and could be reported.
    pub failed: u64,
    /// Times that what it was given made a block mixed.
    pub blocks_mixed: u64,
    /// Times that it took memory from a pageblock of another mobility, as the policy itself counts.
    pub fallbacks: u64,
    /// Non-movable frames that it holds in mixed blocks at the end.
    pub fixed_frames: u64,
    /// Movable ones.
    pub movable_frames: u64,
}

impl WhoCounts {
    /// Adds another's.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.refused += other.refused;
        self.failed += other.failed;
        self.blocks_mixed += other.blocks_mixed;
        self.fallbacks += other.fallbacks;
        self.fixed_frames += other.fixed_frames;
        self.movable_frames += other.movable_frames;
    }
}

/// A kind of requests, of all askers together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskedKind {
    /// The order.
    pub order: Order,
    /// Whether such a request may reclaim, and whether its failure would be reported; `None` where the recording has no
    /// flags of it.
    pub flags: Option<[bool; 2]>,
}

/// What each asked for and holds, in the order of first requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WhoTally {
    /// Each once.
    pub askers: Vec<(Asker, WhoCounts)>,
    /// The same of those with a name by what they asked for, each kind once, ascending.
    pub kinds: Vec<(AskedKind, WhoCounts)>,
    /// Whether the layout's policy says when it falls back.
    pub has_fallbacks: bool,
}

impl WhoTally {
    /// These, in a layout whose policy does not say when it falls back.
    #[must_use]
    pub const fn of(askers: Vec<(Asker, WhoCounts)>) -> Self {
        Self {
            askers,
            kinds: Vec::new(),
            has_fallbacks: false,
        }
    }
}

/// The asker and the kind of requests, and their counts; the first two have no kind.
type AskerPlace = (Asker, Option<AskedKind>, WhoCounts);

/// The first two places are of those without a name.
const BEFORE: u32 = 0;
const UNSEEN: u32 = 1;

/// Follows requests and frees, and knows the holder of each frame. Memory: four bytes a frame.
#[derive(Debug)]
pub(crate) struct WhoFollower<'a> {
    trace: &'a Trace,
    /// The first small number of the same name, by small number.
    task_of: Vec<u16>,
    /// By call chain.
    caller_of: Vec<u32>,
    places: HashMap<(Asker, AskedKind), u32>,
    tally: Vec<AskerPlace>,
    /// By frame: 0, or twice a place and 2, and 1 where the frame is movable.
    holders: Vec<u32>,
    requests: usize,
    has_fallbacks: bool,
}

impl<'a> WhoFollower<'a> {
    /// Before the first request, and every frame is free. `None` where the recording does not name the askers.
    pub(crate) fn new(trace: &'a Trace) -> Option<Self> {
        let askers = &trace.askers;
        if !askers.is_known() {
            return None;
        }
        let mut first: HashMap<&[u8], u16> = HashMap::new();
        let numbered = (0..=u16::MAX).zip(askers.comms.iter());
        let task_of = numbered.map(|(number, name)| *first.entry(name).or_insert(number));
        // Once a function, however many chains it stands in.
        let functions = askers.chains.functions.iter();
        let is_passed: Vec<bool> = functions.map(is_of_allocator).collect();
        let chains = 0..askers.chains.len();
        let nothing = |asker| (asker, None, WhoCounts::default());
        Some(Self {
            trace,
            task_of: task_of.collect(),
            caller_of: chains
                .map(|chain| caller(askers, chain, &is_passed))
                .collect(),
            places: HashMap::new(),
            tally: [Asker::Before, Asker::Unseen].map(nothing).to_vec(),
            holders: vec![0; trace.nframes as usize],
            requests: 0,
            has_fallbacks: false,
        })
    }

    /// An initial object lies there.
    pub(crate) fn begin(&mut self, frame: Frame, mobility: Mobility) {
        self.hold(BEFORE, frame, Order::ZERO, mobility);
    }

    /// Takes the next request of the trace, and says whose it is.
    pub(crate) fn ask(&mut self, op: &TraceOp) -> u32 {
        let chain = self.trace.askers.chain_of.get(self.requests);
        self.requests += 1;
        let place = match op.is_synthetic() {
            true => UNSEEN,
            false => {
                let chain = chain.copied().unwrap_or(Askers::NO_CHAIN);
                let caller = self.caller_of.get(chain as usize);
                let asker = Asker::Named {
                    task: self
                        .task_of
                        .get(usize::from(op.pid))
                        .copied()
                        .unwrap_or(op.pid),
                    caller: caller.copied().unwrap_or(Asker::NO_CALLER),
                    chain,
                };
                let kind = AskedKind {
                    order: op.order(),
                    flags: (self.traits(op)).map(|of| [of.may_reclaim, of.is_reported]),
                };
                let next = self.tally.len() as u32;
                let place = *self.places.entry((asker, kind)).or_insert(next);
                if place == next {
                    self.tally.push((asker, Some(kind), WhoCounts::default()));
                }
                place
            }
        };
        let is_refused = op.kind() == OpKind::Failed && self.is_reported(op);
        let counts = self.counts(place);
        counts.requests += 1;
        counts.refused += u64::from(is_refused);
        place
    }

    /// The request was served there, as the observer has noted.
    pub(crate) fn serve(&mut self, place: u32, op: &TraceOp, frame: Frame, observer: &Observer) {
        let (order, mobility) = (op.order(), op.mobility());
        // A whole block mixes nothing.
        if order.get() < BLOCK_ORDER {
            let [fixed, movable] = observer.block_use(frame);
            let (own, other) = match mobility.is_movable() {
                true => (movable, fixed),
                false => (fixed, movable),
            };
            let is_first = other > 0 && u64::from(own) == order.frames();
            self.counts(place).blocks_mixed += u64::from(is_first);
        }
        self.hold(place, frame, order, mobility);
    }

    /// The request took memory from pageblocks of another mobility this many times. Counted for one, it is for all.
    pub(crate) fn fall_back(&mut self, place: u32, times: u64) {
        self.has_fallbacks = true;
        self.counts(place).fallbacks += times;
    }

    /// The request failed in the replay.
    pub(crate) fn fail(&mut self, place: u32, op: &TraceOp) {
        let is_reported = self.is_reported(op);
        self.counts(place).failed += u64::from(is_reported);
    }

    /// The frames are free.
    pub(crate) fn free(&mut self, frame: Frame, order: Order) {
        self.fill(frame, order, 0);
    }

    /// What lies in one block lies in another now, which is no request's doing.
    pub(crate) fn relocate(&mut self, from: Frame, to: Frame, order: Order) {
        for nth in 0..order.frames() {
            let at = |frame: Frame| (frame.0 + nth) as usize;
            let holder = self.holders.get_mut(at(from)).map(std::mem::take);
            if let (Some(holder), Some(now)) = (holder, self.holders.get_mut(at(to))) {
                *now = holder;
            }
        }
    }

    /// What each has come to.
    pub(crate) fn finish(mut self, observer: &Observer) -> WhoTally {
        for (frame, holder) in (0..).zip(std::mem::take(&mut self.holders)) {
            let Some(holder) = holder.checked_sub(2) else {
                continue;
            };
            let [fixed, movable] = observer.block_use(Frame(frame));
            if fixed > 0 && movable > 0 {
                let counts = self.counts(holder >> 1);
                match holder & 1 {
                    0 => counts.fixed_frames += 1,
                    _ => counts.movable_frames += 1,
                }
            }
        }
        let is_there = |(_, _, counts): &AskerPlace| *counts != WhoCounts::default();
        self.tally.retain(is_there);
        let mut tally = WhoTally {
            has_fallbacks: self.has_fallbacks,
            ..WhoTally::default()
        };
        let mut places: HashMap<Asker, usize> = HashMap::new();
        let mut kinds: BTreeMap<AskedKind, WhoCounts> = BTreeMap::new();
        for (asker, kind, counts) in &self.tally {
            let place = *places.entry(*asker).or_insert(tally.askers.len());
            if place == tally.askers.len() {
                tally.askers.push((*asker, WhoCounts::default()));
            }
            tally.askers[place].1.add(counts);
            if let Some(kind) = kind {
                kinds.entry(*kind).or_default().add(counts);
            }
        }
        tally.kinds = kinds.into_iter().collect();
        tally
    }

    fn traits(&self, op: &TraceOp) -> Option<RequestTraits> {
        let flags = self.trace.gfp.get(usize::from(op.gfp));
        flags.map(|&flags| RequestTraits::of(flags))
    }

    fn is_reported(&self, op: &TraceOp) -> bool {
        self.traits(op).is_some_and(|of| of.is_reported)
    }

    fn counts(&mut self, place: u32) -> &mut WhoCounts {
        &mut self.tally[place as usize].2
    }

    fn hold(&mut self, place: u32, frame: Frame, order: Order, mobility: Mobility) {
        let movable = u32::from(mobility.is_movable());
        self.fill(frame, order, (place << 1 | movable) + 2);
    }

    fn fill(&mut self, frame: Frame, order: Order, holder: u32) {
        let start = frame.0 as usize;
        if let Some(frames) = self.holders.get_mut(start..start + order.frames() as usize) {
            frames.fill(holder);
        }
    }
}

/// The caller of that chain; `is_passed` says of each function whether it is one of the allocator's.
fn caller(askers: &Askers, chain: usize, is_passed: &[bool]) -> u32 {
    let chain = askers.chains.get(chain).unwrap_or_default();
    let is_passed = |place: u32| is_passed.get(place as usize) == Some(&true);
    let mut own = chain.iter().copied().skip_while(|&place| is_passed(place));
    own.next()
        .or(chain.last().copied())
        .unwrap_or(Asker::NO_CALLER)
}

/// A function's name without what compilers and allocation profiles put behind it.
#[must_use]
pub fn plain_function(name: &[u8]) -> &[u8] {
    let end = name.iter().position(|&b| b == b'.').filter(|&at| at > 0);
    let name = &name[..end.unwrap_or(name.len())];
    let short = name.strip_suffix(b"_noprof");
    short.filter(|short| !short.is_empty()).unwrap_or(name)
}

/// Of a call chain, the innermost function first, the one that is no part of an allocator; where all are, the outermost.
pub fn caller_of<'a>(chain: impl Iterator<Item = &'a [u8]> + Clone) -> Option<&'a [u8]> {
    let mut own = chain.clone().filter(|name| !is_of_allocator(name));
    own.next().or(chain.last())
}

/// Whether the function is the page allocator's, a cache's in front of it, or of what records.
fn is_of_allocator(name: &[u8]) -> bool {
    const WHOLE: [&[u8]; 11] = [
        b"alloc_page",
        // What a frame passes on its way out, where page_owner takes its chain.
        b"post_alloc_hook",
        b"prep_new_page",
        b"set_page_owner",
        b"save_stack",
        b"compaction_alloc",
        b"folio_alloc",
        b"rmqueue",
        b"stack_trace_save",
        b"refill_objects",
        b"refill_sheaf",
    ];
    const BEGINNINGS: [&[u8]; 35] = [
        // The page allocator.
        b"alloc_pages",
        b"alloc_frozen_pages",
        b"alloc_contig",
        b"folio_alloc_mpol",
        b"get_free_pages",
        b"get_zeroed_page",
        b"get_page_from_freelist",
        b"rmqueue_",
        b"vma_alloc",
        // Fragments of pages.
        b"page_frag_alloc",
        b"page_frag_cache",
        // Caches of objects.
        b"new_slab",
        b"allocate_slab",
        b"alloc_slab",
        b"slab_alloc",
        b"cache_alloc",
        b"cache_grow",
        b"kmem_cache_alloc",
        b"kmem_getpages",
        b"alloc_from_pcs",
        b"kmalloc",
        b"do_kmalloc",
        b"kzalloc",
        b"kcalloc",
        b"krealloc",
        b"kmemdup",
        b"kvmalloc",
        b"kvrealloc",
        b"vmalloc",
        b"vm_area_alloc_pages",
        // What records.
        b"trace_event",
        b"traceiter_",
        b"perf_",
        b"event_trigger",
        b"ftrace_",
    ];
    let name = plain_function(name);
    let name = &name[name.iter().take_while(|&&b| b == b'_').count()..];
    WHOLE.contains(&name)
        || BEGINNINGS
            .iter()
            .any(|beginning| name.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{ReplayOptions, ReplayPolicy, Start, TraceMemory, placement, replay};
    use crate::trace::{InitClass, InitObject};
    use std::sync::atomic::AtomicU64;

    fn order(n: u8) -> Order {
        Order::new(n).unwrap()
    }

    #[test]
    fn a_caller_is_the_innermost_function_that_is_no_allocators() {
        let of = |names: &[&str]| {
            let mut askers = Askers::default();
            for name in names {
                askers.chains.functions.push(name.as_bytes());
            }
            let places: Vec<u32> = (0..names.len() as u32).collect();
            askers.chains.push(&places);
            let functions = askers.chains.functions.iter();
            let is_passed: Vec<bool> = functions.map(is_of_allocator).collect();
            let place = caller(&askers, 0, &is_passed) as usize;
            let name = plain_function(askers.chains.functions.get(place).unwrap_or_default());
            String::from_utf8(name.to_vec()).unwrap()
        };
        let frag = [
            "__alloc_frozen_pages_noprof",
            "alloc_pages_mpol",
            "alloc_pages_noprof",
            "skb_page_frag_refill",
            "sk_page_frag_refill",
            "tcp_sendmsg_locked",
        ];
        assert_eq!(of(&frag), "skb_page_frag_refill");
        let slab = [
            "__traceiter_mm_page_alloc",
            "__alloc_pages",
            "allocate_slab",
            "___slab_alloc.isra.0",
            "kmem_cache_alloc_node_noprof",
            "__alloc_skb",
        ];
        assert_eq!(of(&slab), "__alloc_skb");
        // As page_owner keeps them, of this kernel and of older ones.
        for hooks in [
            &["post_alloc_hook", "get_page_from_freelist"][..],
            &["prep_new_page", "get_page_from_freelist"],
            &["save_stack", "__set_page_owner", "post_alloc_hook"],
            &["post_alloc_hook", "compaction_alloc"],
        ] {
            let rest = ["__alloc_pages_noprof", "allocate_slab", "new_inode"];
            assert_eq!(of(&[hooks, &rest].concat()), "new_inode");
        }
        assert_eq!(
            of(&[
                "__alloc_pages",
                "vma_alloc_folio_noprof",
                "do_anonymous_page.part.0"
            ]),
            "do_anonymous_page"
        );
        // Beginnings alone do not tell: this one makes buffers for a page.
        assert_eq!(of(&["alloc_page_buffers", "x"]), "alloc_page_buffers");
        assert_eq!(
            of(&["alloc_pages_noprof"]),
            "alloc_pages",
            "nothing else is there"
        );
        assert_eq!(of(&[]), "");
        // What is behind a name is cut off, but never all of it.
        assert_eq!(of(&["_noprof.x"]), "_noprof");
        assert_eq!(of(&[".part.0"]), ".part.0");
    }

    /// Two blocks of 512 frames and what is asked of them, so that all can be counted by hand. Tasks: 0 and 2 are `cc1`,
    /// 1 is `make`.
    fn trace() -> Trace {
        let (movable, fixed) = (Mobility::Movable, Mobility::Unmovable);
        let alloc =
            |failed, n, mobility, pid| TraceOp::alloc(failed, order(n), mobility, 0, 0, pid);
        let mut trace = Trace {
            nframes: 1024,
            init: vec![InitObject {
                frame: Frame(0),
                class: InitClass::Movable,
            }],
            gfp: vec![0xcc0],
            ops: vec![
                alloc(false, 1, fixed, 0),   // object 1, cc1, at 2: mixes block 0
                alloc(false, 0, movable, 1), // object 2, make, at 1
                alloc(false, 2, fixed, 2),   // object 3, cc1, at 4
                alloc(true, 3, fixed, 1),    // make: failed
                alloc(false, 0, movable, 1), // object 4, make, at 600: block 1 is not mixed
                TraceOp::alloc(false, order(0), fixed, TraceOp::SYNTHETIC, 255, 1), // object 5 at 8: no event
                TraceOp::free_part(3, 2, order(1), 0), // two frames of cc1's four
                TraceOp::free(5, order(0), 0),
                alloc(false, 0, fixed, 1), // object 6, make, at 601: mixes block 1
                TraceOp::free(6, order(0), 0), // and it is mixed no longer
                TraceOp::tick(5),
            ],
            ..Trace::default()
        };
        for name in ["cc1", "make", "cc1"] {
            trace.askers.comms.push(name.as_bytes());
        }
        trace
    }

    #[test]
    fn who_is_counted_in_the_recording_kernels_own_layout_as_by_hand() {
        let trace = trace();
        let memory = TraceMemory::new(&trace).unwrap();
        let tally = placement(&memory, &[2, 1, 4, 600, 8, 601], 0)
            .unwrap()
            .who
            .unwrap();
        let named = |task| Asker::Named {
            task,
            caller: Asker::NO_CALLER,
            chain: Askers::NO_CHAIN,
        };
        let of = |asker| {
            tally
                .askers
                .iter()
                .find(|(who, _)| *who == asker)
                .unwrap()
                .1
        };
        let cc1 = WhoCounts {
            requests: 2,
            blocks_mixed: 1,
            fixed_frames: 2 + 2,
            ..WhoCounts::default()
        };
        assert_eq!(of(named(0)), cc1);
        let make = WhoCounts {
            requests: 4,
            refused: 1,
            blocks_mixed: 1,
            movable_frames: 1,
            ..WhoCounts::default()
        };
        assert_eq!(of(named(1)), make);
        let before = WhoCounts {
            movable_frames: 1,
            ..WhoCounts::default()
        };
        assert_eq!(of(Asker::Before), before);
        let unseen = WhoCounts {
            requests: 1,
            ..WhoCounts::default()
        };
        assert_eq!(of(Asker::Unseen), unseen);
        assert_eq!(tally.askers.len(), 4);
        // The same requests by order: 0xcc0 may reclaim, and its failure is reported.
        let kinds: Vec<_> = (tally.kinds.iter())
            .map(|(kind, counts)| {
                assert_eq!(kind.flags, Some([true, true]));
                let held = [counts.fixed_frames, counts.movable_frames];
                (
                    kind.order.get(),
                    counts.requests,
                    counts.refused,
                    counts.blocks_mixed,
                    held,
                )
            })
            .collect();
        assert_eq!(
            kinds,
            [
                (0, 3, 0, 1, [0, 1]),
                (1, 1, 0, 1, [2, 0]),
                (2, 1, 0, 0, [2, 0]),
                (3, 1, 1, 0, [0, 0]),
            ]
        );
    }

    #[test]
    fn under_each_policy_the_frames_in_mixed_blocks_are_those_of_the_observer() {
        let mut trace = trace();
        // Larger than the memory: it fails, and could be reported.
        trace.ops.push(TraceOp::alloc(
            false,
            order(10),
            Mobility::Unmovable,
            0,
            0,
            0,
        ));
        let memory = TraceMemory::new(&trace).unwrap();
        for policy in ReplayPolicy::ALL {
            let options = ReplayOptions {
                who: true,
                ..ReplayOptions::new(Start::Imposed)
            };
            let done = AtomicU64::new(0);
            let outcome = policy.with(&memory, |subject| replay(subject, &memory, options, &done));
            let outcome = outcome.unwrap().unwrap();
            let tally = outcome.who.unwrap();
            let mut all = WhoCounts::default();
            tally.askers.iter().for_each(|(_, counts)| all.add(counts));
            assert_eq!(
                all.movable_frames, outcome.end.movable_frames_in_mixed,
                "{policy}"
            );
            assert_eq!(
                all.fixed_frames > 0,
                outcome.end.mixed_blocks > 0,
                "{policy}"
            );
            assert_eq!(
                (all.requests, all.refused, all.failed),
                (8, 1, 1),
                "{policy}"
            );
        }
        trace.askers = Askers::default();
        assert!(WhoFollower::new(&trace).is_none());
    }
}
