//! Memory in use for long: requests of mixed sizes come and go, and now and then a driver asks for 4 MiB.

use crate::choice::{free_frames, lend, set_aside};
use alloc::vec::Vec;
use ostd::arch::read_tsc;
use ostd::mm::{FrameAllocOptions, HasSize, PAGE_SIZE, Segment};

/// A driver's request: 4 MiB.
const LARGE: usize = 1024;
/// This many replacements are a churn, and one request of 4 MiB comes among this many.
const REPLACED: usize = 20_000;
const LARGE_EVERY: usize = 500;
/// A request that fails when memory is nearly full.
const FAILING: usize = 64;
/// The most requests that live at a time.
const LIVE_MAX: usize = 1 << 15;

/// What lives.
pub(crate) struct LiveSegments {
    segments: Vec<Segment<()>>,
    pages: usize,
    random: ChurnRandom,
}

/// What a churn came to.
#[derive(Default)]
struct ChurnResult {
    /// Replacements, and instructions of those, requests that failed aside.
    replaced: u64,
    spent: u64,
    asked: u64,
    failed: u64,
    spent_failed: u64,
    large_failed: u64,
    put: u64,
    got: u64,
}

/// Numbers that look random (xorshift), and not by the simulator's generator: the figures in
/// `docs/results/ostd.jsonl` were measured with this sequence of requests.
struct ChurnRandom(u64);

impl ChurnRandom {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * end as u64) >> 32) as usize
    }

    /// A request's pages: most are one page, few are many.
    fn size(&mut self) -> usize {
        match self.below(100) {
            0..70 => 1,
            70..80 => 2,
            80..90 => 1 + self.below(8),
            90..99 => 1 + self.below(64),
            _ => 1 + self.below(256),
        }
    }
}

fn get(pages: usize) -> Option<Segment<()>> {
    FrameAllocOptions::new()
        .zeroed(false)
        .alloc_segment(pages)
        .ok()
}

impl LiveSegments {
    pub(crate) fn new() -> Self {
        Self {
            segments: Vec::with_capacity(LIVE_MAX),
            pages: 0,
            random: ChurnRandom::new(1),
        }
    }

    fn push(&mut self, segment: Segment<()>) {
        self.pages += segment.size() / PAGE_SIZE;
        self.segments.push(segment);
    }

    fn drop_one(&mut self) {
        let nth = self.random.below(self.segments.len());
        let gone = self.segments.swap_remove(nth);
        self.pages -= gone.size() / PAGE_SIZE;
    }

    fn clear(&mut self) {
        self.segments.clear();
        self.pages = 0;
    }

    /// Fills up to `target` pages. False if a request fails before.
    fn fill(&mut self, target: usize) -> bool {
        while self.pages < target && self.segments.len() < LIVE_MAX {
            let pages = self.random.size();
            let Some(segment) = get(pages) else {
                say!("{pages} pages refused with {} frames free", free_frames());
                return false;
            };
            self.push(segment);
        }
        true
    }

    /// A churn at `target` pages, and what it came to.
    fn churn(&mut self, case: &str, target: usize) {
        let is_full = self.fill(target);
        say!(
            "figure {case}, filled, {}",
            self.pages.min(target) * 1000 / target
        );
        if !is_full {
            return;
        }
        let mut result = ChurnResult::default();
        self.replace(target, &mut result);
        say!(
            "figure {case}, replacement, {}",
            result.spent / result.replaced.max(1)
        );
        say!("figure {case}, failed, {}", result.failed);
        say!("figure {case}, asked, {}", result.asked);
        say!("figure {case}, large_failed, {}", result.large_failed);
        say!("figure {case}, lent, {}", result.put);
        say!("figure {case}, lent_back, {}", result.got);
    }

    /// Replaces random requests by others, at `target` pages.
    fn replace(&mut self, target: usize, result: &mut ChurnResult) {
        for nth in 1..=REPLACED {
            let start = read_tsc();
            let failed_before = result.spent_failed;
            self.drop_one();
            while self.pages < target && self.segments.len() < LIVE_MAX {
                result.asked += 1;
                let pages = self.random.size();
                let before = read_tsc();
                match get(pages) {
                    Some(segment) => self.push(segment),
                    None => {
                        result.failed += 1;
                        result.spent_failed += read_tsc() - before;
                        break;
                    }
                }
            }
            result.replaced += 1;
            result.spent += read_tsc() - start - (result.spent_failed - failed_before);
            if nth % LARGE_EVERY == 0 {
                result.large_failed += u64::from(get(LARGE).is_none());
                let (put, got) = lend((nth / LARGE_EVERY) as u64);
                result.put += put;
                result.got += got;
            }
            if self.segments.is_empty() {
                return;
            }
        }
    }
}

/// How many requests of this many pages can be served at once.
fn how_many(pages: usize) -> usize {
    let mut all = Vec::with_capacity(256);
    while let Some(segment) = get(pages) {
        all.push(segment);
    }
    all.len()
}

/// Half of memory in use, three times, each from empty memory on.
pub(crate) fn run() {
    let mut live = LiveSegments::new();
    let total = free_frames();
    say!("figure empty, large, {}", how_many(LARGE));
    for seed in 1..=3 {
        live.random = ChurnRandom::new(seed);
        let case = ["churn 1", "churn 2", "churn 3"][seed as usize - 1];
        live.churn(case, total / 2);
        let kept = live.segments.len() / 50;
        while live.segments.len() > kept {
            live.drop_one();
        }
        say!("figure {case}, large_of_98, {}", how_many(LARGE));
        live.clear();
        say!("figure {case}, large_of_all, {}", how_many(LARGE));
    }
}

/// 85 % of memory in use, with 4 MiB set aside or not; then nearly all.
pub(crate) fn run_heavy(is_aside: bool) {
    let mut live = LiveSegments::new();
    if is_aside && !set_aside() {
        say!("nothing can be set aside");
        return;
    }
    live.churn("heavy", free_frames() / 100 * 85);
    live.fill(usize::MAX);
    let (mut failed, mut spent) = (0, 0);
    for _ in 0..200 {
        let start = read_tsc();
        let is_there = get(FAILING).is_some();
        if !is_there {
            failed += 1;
            spent += read_tsc() - start;
        }
    }
    say!("figure heavy, failing, {}", spent / failed.max(1));
}

/// A churn in which two CPUs compete.
pub(crate) fn compete(live: &mut LiveSegments, seed: u64, target: usize) {
    live.random = ChurnRandom::new(seed);
    if live.fill(target) {
        live.replace(target, &mut ChurnResult::default());
    }
    live.clear();
}
