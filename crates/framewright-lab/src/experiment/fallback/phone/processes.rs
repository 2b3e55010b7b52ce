//! Processes: applications that are started, used, left and killed, and the system that stays.

use super::super::params::{Applications, Params};
use super::Phone;
use super::life::{GROW_US, PhoneLife, between, stream};
use super::queue::PhoneEvent;
use super::store::BlockKind;
use framewright::Context;
use framewright_sim::Random;

/// Ranks, as Android gives them: the one on the screen, the one before it, one with a service, and
/// cached ones, the longer ago used the higher.
const FOREGROUND: u16 = 0;
const SERVICE: u16 = 294;
const PREVIOUS: u16 = 411;
const CACHED: u16 = 529;
/// From one cached rank to the next, two applications each.
const CACHED_STEP: u16 = 58;
const CACHED_MAX: u16 = 1000;

/// Pages of files that a start reads in a slice.
const START_READ_PAGES: u64 = 16;

/// Orders tried for surfaces: ion's system heap.
const SURFACE_ORDERS: [u8; 3] = [8, 4, 0];
/// And for textures: kgsl's.
const TEXTURE_ORDERS: [u8; 2] = [4, 0];

/// What an application is, whether it runs or not: drawn once, from the seed.
#[derive(Debug, Clone, Copy)]
struct App {
    anon: u64,
    anon_per_s: u64,
    threads: u64,
    slab: u64,
    textures: u64,
    /// Its first page and its pages among all files'.
    files: [u64; 2],
    weight: u64,
    has_service: bool,
}

/// The applications, and the place of all files' pages: the system's, the applications', the streams'.
#[derive(Debug)]
pub(super) struct PhoneLayout {
    apps: Vec<App>,
    /// The system's files, each application's, each stream's: first page and pages.
    pub(super) system_files: [u64; 2],
    pub(super) app_files: Vec<[u64; 2]>,
    pub(super) file_pages: u64,
    seed: u64,
}

impl PhoneLayout {
    pub(super) fn new(params: &Params, seed: u64) -> Self {
        let mut random = Random::new(stream(seed, 3));
        let a = &params.applications;
        let mut file_pages = params.system.file_frames;
        let mut draw = |span| between(&mut random, span);
        let apps: Vec<App> = (0..a.count)
            .map(|nth| {
                let files = [file_pages, draw(a.file_frames)];
                file_pages += files[1];
                App {
                    anon: draw(a.anon_frames),
                    anon_per_s: draw(a.anon_frames_per_s),
                    threads: draw(a.threads),
                    slab: draw(a.slab_frames),
                    textures: draw(a.texture_frames),
                    files,
                    weight: 1000 / (nth + a.popularity_shift),
                    // Services are among the less popular ones too.
                    has_service: nth * a.services / a.count != (nth + 1) * a.services / a.count,
                }
            })
            .collect();
        let app_files = apps.iter().map(|app| app.files).collect();
        let streams: u64 = params.reading.iter().map(|r| r.stream_pages).sum();
        Self {
            apps,
            system_files: [0, params.system.file_frames],
            app_files,
            file_pages: file_pages + streams,
            seed,
        }
    }

    /// The first page behind the applications' files: where the streams' begin.
    pub(super) fn first_stream_page(&self) -> u64 {
        let last = self.app_files.last();
        last.map_or(self.system_files[1], |files| files[0] + files[1])
    }
}

/// An application that runs, or does not.
#[derive(Debug, Clone, Copy)]
struct PhoneProcess {
    is_alive: bool,
    /// Its which life: a slice of an earlier one does nothing.
    run: u32,
    adj: u16,
    /// The switch at which it was used last.
    used: u64,
    anon: u32,
    stacks: u32,
    slab: u32,
    surfaces: u32,
    textures: u32,
    /// What its start still needs.
    anon_left: u64,
    read_at: u64,
}

impl PhoneProcess {
    const fn lists(&self) -> [u32; 5] {
        [
            self.anon,
            self.stacks,
            self.slab,
            self.surfaces,
            self.textures,
        ]
    }
}

/// All processes; the system is the last one, has no application and no rank.
#[derive(Debug)]
pub(super) struct PhoneProcesses {
    apps: Vec<App>,
    all: Vec<PhoneProcess>,
    foreground: Option<usize>,
    switches: u64,
    choices: Random,
    growth: Random,
    others: Random,
}

impl PhoneProcesses {
    pub(super) fn new(layout: PhoneLayout, phone: &Phone) -> Self {
        let store = &mut phone.held.borrow_mut().store;
        let mut process = || {
            let [anon, stacks, slab, surfaces, textures] = [(); 5].map(|()| store.new_list());
            PhoneProcess {
                is_alive: false,
                run: 0,
                adj: FOREGROUND,
                used: 0,
                anon,
                stacks,
                slab,
                surfaces,
                textures,
                anon_left: 0,
                read_at: 0,
            }
        };
        let all = (0..=layout.apps.len()).map(|_| process()).collect();
        let random = |source| Random::new(stream(layout.seed, source));
        Self {
            apps: layout.apps,
            all,
            foreground: None,
            switches: 0,
            choices: random(4),
            growth: random(5),
            others: random(6),
        }
    }

    /// The application on the screen.
    pub(super) const fn foreground(&self) -> Option<usize> {
        self.foreground
    }

    /// The next application: by popularity.
    fn choose(&mut self) -> usize {
        let all: u64 = self.apps.iter().map(|app| app.weight).sum();
        let mut left = self.choices.below(all.max(1));
        for (nth, app) in self.apps.iter().enumerate() {
            if left < app.weight {
                return nth;
            }
            left -= app.weight;
        }
        0
    }

    /// Gives ranks by last use.
    fn rank(&mut self) {
        let apps = &self.apps;
        let mut order: Vec<usize> = (0..apps.len()).filter(|&n| self.all[n].is_alive).collect();
        order.sort_by_key(|&nth| (u64::MAX - self.all[nth].used, nth));
        let mut cached = 0;
        for (place, nth) in order.into_iter().enumerate() {
            self.all[nth].adj = match place {
                _ if self.foreground == Some(nth) => FOREGROUND,
                0 | 1 => PREVIOUS,
                _ if apps[nth].has_service => SERVICE,
                _ => {
                    cached += 1;
                    (CACHED + (cached - 1) / 2 * CACHED_STEP).min(CACHED_MAX)
                }
            };
        }
    }

    /// The highest rank of the applications that are alive.
    fn highest(&self) -> Option<u16> {
        let alive = self.all[..self.apps.len()].iter().filter(|p| p.is_alive);
        alive.map(|process| process.adj).max()
    }
}

/// The order of the `part`-th of 100 blocks.
pub(super) fn order_at(percent: &[u64; 4], part: u64) -> u8 {
    let mut sum = 0;
    for (order, share) in (0..).zip(percent) {
        sum += share;
        if part < sum {
            return order;
        }
    }
    0
}

impl PhoneLife<'_> {
    /// What runs from the boot on: in slices, as a start.
    pub(super) fn start_system(&mut self) {
        let system = &self.params.system;
        let process = self.processes.all[self.processes.apps.len()];
        let mut left = [system.anon_frames, system.threads, system.slab_frames];
        let slices = system.anon_frames.div_ceil(START_READ_PAGES).max(1);
        let each = left.map(|all| all.div_ceil(slices));
        while left.iter().any(|&frames| frames > 0) {
            for _ in 0..each[0].min(left[0]) {
                self.alloc(BlockKind::Anon, 0, process.anon, Context::ANY);
            }
            for _ in 0..each[1].min(left[1]) {
                self.alloc(BlockKind::Stack, 2, process.stacks, Context::ANY);
            }
            self.alloc_slabs(process.slab, each[2].min(left[2]));
            for (left, each) in left.iter_mut().zip(each) {
                *left = left.saturating_sub(each);
            }
            self.work(self.params.time.slice_us);
        }
        let frames = system.graphics_frames;
        self.alloc_buffer(process.surfaces, frames, &SURFACE_ORDERS);
        self.processes.all[self.processes.apps.len()].is_alive = true;
    }

    /// Objects of this many frames.
    fn alloc_slabs(&mut self, list: u32, frames: u64) {
        let mut left = frames;
        while left > 0 {
            // The process's list and what is left are the whole seed, so earlier kills change no draw (Q1).
            let mut random = Random::new(stream(u64::from(list), left));
            let a = &self.params.applications;
            let order = order_at(&a.slab_order_percent, random.below(100));
            let waits = random.chance(a.slab_waits_percent);
            if !self.alloc_slab(BlockKind::Slab, order, list, Context::ANY, waits) {
                break;
            }
            left = left.saturating_sub(1 << order);
        }
    }

    /// The first switch, when the device is taken.
    pub(super) fn first_switch(&mut self) {
        self.later(0, PhoneEvent::Switch);
    }

    fn applications(&self) -> &Applications {
        &self.params.applications
    }

    /// The user goes to another application: it is on the screen now, and the one before is not.
    pub(super) fn switch(&mut self) {
        let span = self.applications().switch_s;
        let seconds = between(&mut self.processes.choices, span);
        let nth = self.processes.choose();
        self.later(seconds * 1_000_000, PhoneEvent::Switch);
        if !self.in_use || self.processes.foreground == Some(nth) {
            return;
        }
        if let Some(before) = self.processes.foreground.replace(nth) {
            self.leave(before);
        }
        self.processes.switches += 1;
        let switches = self.processes.switches;
        let process = &mut self.processes.all[nth];
        process.used = switches;
        if !process.is_alive {
            process.is_alive = true;
            process.run += 1;
            process.anon_left = self.processes.apps[nth].anon;
            process.read_at = 0;
            let run = process.run;
            self.lived.starts += 1;
            self.later(
                self.params.time.slice_us,
                PhoneEvent::Start {
                    nth: nth as u32,
                    run,
                },
            );
        }
        self.ranked();
        self.show(nth);
    }

    /// Ranks the applications anew and tells the killer.
    fn ranked(&mut self) {
        self.processes.rank();
        self.phone.killer.set_highest(self.processes.highest());
    }

    /// Surfaces and textures of what is on the screen.
    fn show(&mut self, nth: usize) {
        let process = self.processes.all[nth];
        let surfaces = self.applications().surface_frames;
        self.alloc_buffer(process.surfaces, surfaces, &SURFACE_ORDERS);
        let textures = self.processes.apps[nth].textures;
        let missing = textures.saturating_sub(self.frames_on(process.textures));
        if self.is_running(nth, process.run) {
            self.alloc_buffer(process.textures, missing, &TEXTURE_ORDERS);
        }
    }

    /// An application leaves the screen: it frees its surfaces and a part of its textures.
    fn leave(&mut self, nth: usize) {
        let process = self.processes.all[nth];
        self.free_all(process.surfaces);
        let textures = self.frames_on(process.textures);
        let mut left = textures * self.applications().texture_trimmed_percent / 100;
        while left > 0 {
            let Some(freed) = self.free_oldest(process.textures) else {
                break;
            };
            left = left.saturating_sub(freed);
        }
    }

    fn is_running(&self, nth: usize, run: u32) -> bool {
        let process = &self.processes.all[nth];
        process.is_alive && process.run == run
    }

    /// A slice of a start: memory, files, and in proportion threads and objects.
    pub(super) fn start_slice(&mut self, nth: usize, run: u32) {
        if !self.is_running(nth, run) {
            return;
        }
        let app = self.processes.apps[nth];
        let (slice, read_percent) = {
            let a = self.applications();
            (a.start_frames_per_slice, a.start_read_percent)
        };
        let process = self.processes.all[nth];
        let frames = process.anon_left.min(slice);
        let done = app.anon - process.anon_left;
        let part = |all: u64| all * (done + frames) / app.anon - all * done / app.anon;
        for _ in 0..frames {
            self.alloc(BlockKind::Anon, 0, process.anon, Context::ANY);
            if !self.is_running(nth, run) {
                return;
            }
        }
        for _ in 0..part(app.threads) {
            self.alloc(BlockKind::Stack, 2, process.stacks, Context::ANY);
        }
        self.alloc_slabs(process.slab, part(app.slab));
        let reads = app.files[1] * read_percent / 100;
        let until = (process.read_at + START_READ_PAGES).min(reads);
        for page in process.read_at..until {
            self.use_page((app.files[0] + page) as u32);
        }
        if !self.is_running(nth, run) {
            return;
        }
        let process = &mut self.processes.all[nth];
        process.anon_left -= frames;
        process.read_at = until;
        if process.anon_left > 0 || until < reads {
            let event = PhoneEvent::Start {
                nth: nth as u32,
                run,
            };
            self.later(self.params.time.slice_us, event);
        }
    }

    /// The application on the screen asks for memory; grown, it frees as much.
    pub(super) fn grow(&mut self) {
        self.later(GROW_US, PhoneEvent::Grow);
        let draw = self.processes.growth.below(200);
        let Some(nth) = self.processes.foreground.filter(|_| self.in_use) else {
            return;
        };
        let app = self.processes.apps[nth];
        let frames = app.anon_per_s * GROW_US * draw / 100 / 1_000_000;
        let most = app.anon * self.applications().anon_grown_percent / 100;
        let process = self.processes.all[nth];
        if process.is_alive {
            self.replace(nth, frames, most);
        }
    }

    /// One of the others frees memory and asks for as much.
    pub(super) fn churn(&mut self) {
        self.later(GROW_US, PhoneEvent::Churn);
        let all = self.processes.all.len() as u64;
        let nth = self.processes.others.below(all) as usize;
        let draw = self.processes.others.below(200);
        let per_s = self.applications().others_frames_per_s;
        let frames = per_s * GROW_US * draw / 100 / 1_000_000;
        let process = self.processes.all[nth];
        if process.is_alive {
            self.replace(nth, frames, self.frames_on(process.anon));
        }
    }

    fn replace(&mut self, nth: usize, frames: u64, most: u64) {
        let PhoneProcess { anon, run, .. } = self.processes.all[nth];
        for _ in 0..frames {
            if self.frames_on(anon) >= most {
                self.free_oldest(anon);
            }
            self.alloc(BlockKind::Anon, 0, anon, Context::ANY);
            if !self.is_running(nth, run) {
                return;
            }
        }
    }

    /// The process of the highest rank, from `adj` on, and of those the one with most memory, dies.
    pub(super) fn kill(&mut self, adj: u16) -> bool {
        let apps = self.processes.apps.len();
        let alive = (0..apps).filter(|&nth| self.processes.all[nth].is_alive);
        let ranked = alive.filter(|&nth| self.processes.all[nth].adj >= adj);
        let chosen = ranked.max_by_key(|&nth| {
            let process = &self.processes.all[nth];
            (process.adj, self.frames_on(process.anon), apps - nth)
        });
        let Some(nth) = chosen else {
            return false;
        };
        for list in self.processes.all[nth].lists() {
            self.free_all(list);
        }
        self.processes.all[nth].is_alive = false;
        if self.processes.foreground == Some(nth) {
            self.processes.foreground = None;
        }
        self.ranked();
        true
    }
}
