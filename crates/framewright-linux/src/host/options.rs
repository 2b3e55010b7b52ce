//! The specification of a host, and the parts that it asks for.

use super::HostError;
use crate::platform::{Linux, NoMembarrier, Slots};
use crate::ram::{Ram, RamPages};
use crate::window::Window;
use framewright::engine::EngineLayout;
use framewright::frame::ZoneLayout;
use framewright::policy::{Config, RangeConfig};
use framewright::reserve::ReserveLayout;
use framewright::vrange::SpaceLayout;
use framewright::{Frame, Run};
use std::sync::Arc;

/// The specification of a host: of [`Host`](super::Host) its frames, of [`HostSpace`](super::HostSpace) and
/// [`HostKv`](super::HostKv) the window and the reserve, too.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Which frames exist, and for how many threads at a time.
    pub layout: ZoneLayout,
    /// The zone's policies.
    pub config: Config,
    /// Which pages the frames lie in.
    pub pages: RamPages,
    /// Whether locks are [accounted](framewright::engine::Engine::with_lock_accounts), for the statistics.
    pub accounts_locks: bool,
    /// The window of a [`HostSpace`](super::HostSpace) or [`HostKv`](super::HostKv), and what lies in it.
    pub ranges: RangeOptions,
    /// How many frames their reserve has, behind those of the zone; 0 for no reserve.
    pub reserve_frames: u64,
}

/// A window has fewer pages than this.
const WINDOW_PAGES_MAX: u64 = (1 << 30) - 1;

impl Options {
    /// The zone `layout` with default policies, in base pages; a window of four times as many pages, and no
    /// reserve.
    #[must_use]
    pub fn new(layout: ZoneLayout) -> Self {
        let pages = layout.frames.saturating_mul(4);
        Self {
            layout,
            config: Config::default(),
            pages: RamPages::Base,
            accounts_locks: false,
            ranges: RangeOptions::new(pages.clamp(1, WINDOW_PAGES_MAX)),
            reserve_frames: 0,
        }
    }

    /// The same for a zone of `frames` frames, from 0 on, and one thread.
    #[must_use]
    pub fn of_frames(frames: u64) -> Self {
        Self::new(ZoneLayout::new(Frame(0), frames))
    }

    /// The same for `threads` threads at a time, 1 to 1023.
    #[must_use]
    pub fn with_threads(mut self, threads: u16) -> Self {
        self.layout = self.layout.with_cpus(threads);
        self
    }

    /// The same with a window of `pages` pages.
    #[must_use]
    pub const fn with_window(self, pages: u64) -> Self {
        self.with_ranges(RangeOptions::new(pages))
    }

    /// The same with such a window.
    #[must_use]
    pub const fn with_ranges(mut self, ranges: RangeOptions) -> Self {
        self.ranges = ranges;
        self
    }

    /// The same with a reserve of `frames` frames behind those of the zone, for guests until their owner
    /// takes them.
    #[must_use]
    pub const fn with_reserve(mut self, frames: u64) -> Self {
        self.reserve_frames = frames;
        self
    }

    pub(super) fn engine(&self) -> EngineLayout {
        EngineLayout::of_zones([self.layout]).with_config(self.config)
    }

    /// The frames of the zone.
    ///
    /// # Panics
    /// If the layout is none; [`ram`](Self::ram) looks.
    pub(super) fn zone_run(&self) -> Run {
        let frames = Run::new(self.layout.start, self.layout.frames);
        frames.expect("the layout was checked")
    }

    /// The reserve, if there is to be one.
    pub(super) fn reserve(&self) -> Option<ReserveLayout> {
        let run = Run::new(self.zone_run().end(), self.reserve_frames);
        let run = run.filter(|run| !run.is_empty());
        run.map(ReserveLayout::new)
    }

    /// RAM for the frames of zone and reserve.
    pub(super) fn ram(&self) -> Result<Arc<Ram>, HostError> {
        self.engine().words_needed()?;
        let frames = self.layout.frames.checked_add(self.reserve_frames);
        let frames = frames.and_then(|frames| Run::new(self.layout.start, frames));
        let frames = frames.ok_or(HostError::Reserve {
            frames: self.reserve_frames,
        })?;
        let ram = Ram::new(frames, self.pages).map_err(HostError::Ram)?;
        Ok(Arc::new(ram))
    }

    pub(super) fn linux(&self) -> Result<Linux, HostError> {
        let platform = Linux::new(Slots::new(self.layout.cpus));
        platform.map_err(|NoMembarrier| HostError::NoMembarrier)
    }

    pub(super) fn linux_fenced(&self) -> Linux<()> {
        Linux::fenced(Slots::new(self.layout.cpus))
    }
}

/// The specification of the window of a [`HostSpace`](super::HostSpace) or [`HostKv`](super::HostKv), and of what lies in it.
#[derive(Clone, Copy, Debug)]
pub struct RangeOptions {
    /// The window's length in pages, 1 to 2^30 - 1.
    pub pages: u64,
    /// The length of a span in pages: a power of two from 4 to 1024.
    pub span_pages: u32,
    /// The space's policies; `None` for the default for as many CPUs as the zone has.
    pub config: Option<RangeConfig>,
    /// The most mappings of the kernel's that the window may have; `None` for as many as
    /// vm.max_map_count leaves.
    pub mappings_max: Option<u64>,
    /// The most slabs of objects in a [`HostKv`](super::HostKv); `None` for [`KvLayout`](framewright::kv::KvLayout)'s default.
    pub slabs_max: Option<u64>,
}

impl RangeOptions {
    /// A window of `pages` pages with default policies.
    #[must_use]
    pub const fn new(pages: u64) -> Self {
        Self {
            pages,
            span_pages: 1024,
            config: None,
            mappings_max: None,
            slabs_max: None,
        }
    }

    pub(super) fn window(&self, ram: &Arc<Ram>) -> Result<Arc<Window>, HostError> {
        let ram = Arc::clone(ram);
        let window = match self.mappings_max {
            None => Window::new(ram, self.pages),
            Some(max) => Window::with_mappings_max(ram, self.pages, max),
        };
        Ok(Arc::new(window.map_err(HostError::Window)?))
    }

    pub(super) fn engine(&self, options: &Options, window: &Window) -> EngineLayout<SpaceLayout> {
        let layout = options.engine();
        let layout = layout.with_window(window.range().start(), self.pages);
        let layout = layout.with_span_pages(self.span_pages);
        match self.config {
            Some(config) => layout.with_range_config(config),
            None => layout,
        }
    }
}
