//! The sources that ask for memory all the time: readers of files, kernel objects, buffers.

use super::super::params::{KernelKind, Params, When, Whose};
use super::life::{PhoneLife, between, doubling, stream};
use super::processes::{PhoneLayout, order_at};
use super::queue::PhoneEvent;
use super::store::BlockKind;
use framewright::Context;
use framewright_sim::Random;

/// The largest order for which a buffer's request waits (`PAGE_ALLOC_COSTLY_ORDER`).
const COSTLY: u8 = 3;

/// How the phone asks for a block when a smaller one would do. The document's kernel reclaims nothing
/// for it, and keeps the watermarks as for an ordinary request. ion and kgsl ask so: without
/// `__GFP_WAIT`, with `__GFP_NO_KSWAPD`.
const FAIL_SOFT: Context = Context {
    may_block: true,
    ..Context::NOWAIT
};

/// What a frame of a buffer takes: to be had, cleared, and flushed from the caches, in microseconds.
const FRAME_US: u64 = 3;

/// After this many frames of a buffer the background has had its time.
const BUFFER_SLICE: u64 = 64;

/// The random numbers of each source, and the place of every file.
#[derive(Debug)]
pub(super) struct Sources {
    readers: Vec<Reader>,
    kernel: Vec<Random>,
    buffers: Vec<Random>,
    system_files: [u64; 2],
    app_files: Vec<[u64; 2]>,
}

#[derive(Debug)]
struct Reader {
    random: Random,
    /// A stream's files, and the next page of them.
    files: [u64; 2],
    at: u64,
}

impl Sources {
    pub(super) fn new(params: &Params, layout: &PhoneLayout, seed: u64) -> Self {
        let random = |kind: u64, nth: usize| Random::new(stream(seed, kind + nth as u64));
        let mut first = layout.first_stream_page();
        let readers = params.reading.iter().enumerate().map(|(nth, reading)| {
            let files = [first, reading.stream_pages];
            first += reading.stream_pages;
            Reader {
                random: random(1000, nth),
                files,
                at: 0,
            }
        });
        Self {
            readers: readers.collect(),
            kernel: (0..params.kernel.len()).map(|n| random(2000, n)).collect(),
            buffers: (0..params.buffers.len()).map(|n| random(3000, n)).collect(),
            system_files: layout.system_files,
            app_files: layout.app_files.clone(),
        }
    }
}

impl PhoneLife<'_> {
    /// Every reader and every source has its first turn at once.
    pub(super) fn first_sources(&mut self) {
        for nth in 0..self.params.reading.len() as u32 {
            self.later(0, PhoneEvent::Read { nth });
        }
        for nth in 0..self.params.kernel.len() as u32 {
            self.later(0, PhoneEvent::Kernel { nth });
        }
        for nth in 0..self.params.buffers.len() as u32 {
            self.later(0, PhoneEvent::Buffers { nth });
        }
    }

    const fn is_time(&self, when: When) -> bool {
        match when {
            When::Use => self.in_use,
            When::Awake => true,
        }
    }

    /// A reader reads a run of pages.
    pub(super) fn read(&mut self, nth: usize) {
        let reading = &self.params.reading[nth];
        let foreground = self.processes.foreground();
        let sources = &mut self.sources;
        let reader = &mut sources.readers[nth];
        let every = between(&mut reader.random, reading.every_us);
        let pages = between(&mut reader.random, reading.run_pages);
        let any = reader.random.below(sources.app_files.len() as u64) as usize;
        let is_hot = reader.random.chance(reading.hot_percent);
        let place = reader.random.bits();
        let files = match reading.whose {
            Whose::Foreground => foreground.map(|nth| sources.app_files[nth]),
            Whose::System => Some(sources.system_files),
            Whose::Any => Some(sources.app_files[any]),
            Whose::Stream => Some(reader.files),
        };
        let run = files.map(|[first, len]| {
            if reading.whose == Whose::Stream {
                let at = reader.at;
                reader.at = (at + pages) % len;
                return [first + at, (first + at + pages).min(first + len)];
            }
            let hot = (len * reading.hot_pages_percent / 100).max(1);
            let part = if is_hot { hot } else { len };
            let at = first + place % part;
            [at, (at + pages).min(first + len)]
        });
        self.later(every, PhoneEvent::Read { nth: nth as u32 });
        if let Some([start, end]) = run.filter(|_| self.is_time(reading.when)) {
            for page in start..end {
                self.use_page(page as u32);
            }
        }
    }

    /// A source asks for kernel memory, which lives for a while.
    pub(super) fn kernel_memory(&mut self, nth: usize) {
        let source = &self.params.kernel[nth];
        let mut random = self.sources.kernel[nth].clone();
        let every = between(&mut random, source.every_us);
        let blocks = between(&mut random, source.blocks);
        let life_ms = doubling(&mut random, source.life_ms);
        self.later(every, PhoneEvent::Kernel { nth: nth as u32 });
        let is_time = self.is_time(source.when);
        let context = if source.atomic {
            Context::NOWAIT
        } else {
            Context::ANY
        };
        let (kind, list) = match source.kind {
            KernelKind::Stack => (BlockKind::Stack, self.new_list()),
            KernelKind::Slab => (BlockKind::Slab, self.new_list()),
            KernelKind::Cached => (BlockKind::Cached, self.phone.held.borrow().slabs.list),
        };
        for _ in 0..blocks {
            let order = order_at(&source.order_percent, random.below(100));
            let waits = random.chance(source.waits_percent);
            if is_time {
                self.alloc_slab(kind, order, list, context, waits);
            }
        }
        self.sources.kernel[nth] = random;
        // Those that a shrinker frees are on its own list, and stay until it does.
        if kind != BlockKind::Cached {
            self.later(life_ms * 1000, PhoneEvent::End { list });
        }
    }

    /// Kernel memory: as SLUB asks for it, a block if it is there, and a frame if not; or the block
    /// at any price.
    pub(super) fn alloc_slab(
        &mut self,
        kind: BlockKind,
        order: u8,
        list: u32,
        context: Context,
        waits: bool,
    ) -> bool {
        let soft = if waits || order == 0 || !context.may_reclaim {
            context
        } else {
            FAIL_SOFT
        };
        self.alloc(kind, order, list, soft)
            || (order > 0 && !waits && self.alloc(kind, 0, list, context))
    }

    /// A source asks for buffers, which live for a while.
    pub(super) fn buffers(&mut self, nth: usize) {
        let source = &self.params.buffers[nth];
        let mut random = self.sources.buffers[nth].clone();
        let every = between(&mut random, source.every_us);
        let buffers = between(&mut random, source.buffers);
        self.later(every, PhoneEvent::Buffers { nth: nth as u32 });
        let is_time = self.is_time(source.when);
        for _ in 0..buffers {
            let frames = between(&mut random, source.frames);
            let life_ms = doubling(&mut random, source.life_ms);
            if is_time {
                let list = self.new_list();
                self.alloc_buffer(list, frames, &source.orders);
                self.later(life_ms * 1000, PhoneEvent::End { list });
            }
        }
        self.sources.buffers[nth] = random;
    }

    /// A buffer of this many frames, in blocks as large as there are.
    pub(super) fn alloc_buffer(&mut self, list: u32, frames: u64, orders: &[u8]) {
        let (mut left, mut worked) = (frames, frames);
        for &order in orders {
            let context = if order > COSTLY {
                FAIL_SOFT
            } else {
                Context::ANY
            };
            while left >= 1 << order && self.alloc(BlockKind::Graphics, order, list, context) {
                left -= 1 << order;
                if worked - left >= BUFFER_SLICE {
                    self.work((worked - left) * FRAME_US);
                    worked = left;
                }
            }
        }
    }
}
