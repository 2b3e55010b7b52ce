//! The specification of a host, and the parts that it asks for.

use super::HostError;
use crate::platform::{Linux, NoMembarrier, Slots};
use crate::ram::{Ram, RamPages};
use crate::window::Window;
use framewright::Run;
use framewright::engine::{EngineLayout, WithRanges};
use framewright::frame::ZoneLayout;
use framewright::platform::Fenced;
use framewright::policy::{Config, RangeConfig};
use std::sync::Arc;

/// The specification of a [`Host`](super::Host), and of the frames of the others.
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
}

impl Options {
    /// The zone `layout` with default policies, in base pages.
    #[must_use]
    pub fn new(layout: ZoneLayout) -> Self {
        Self {
            layout,
            config: Config::default(),
            pages: RamPages::Base,
            accounts_locks: false,
        }
    }

    pub(super) fn engine(&self) -> EngineLayout {
        EngineLayout::of_zones([self.layout]).with_config(self.config)
    }

    pub(super) fn ram(&self) -> Result<Arc<Ram>, HostError> {
        self.engine().words_needed()?;
        let frames = Run::new(self.layout.start, self.layout.frames);
        let frames = frames.expect("the layout was checked");
        let ram = Ram::new(frames, self.pages).map_err(HostError::Ram)?;
        Ok(Arc::new(ram))
    }

    pub(super) fn linux(&self) -> Result<Linux, HostError> {
        let platform = Linux::new(Slots::new(self.layout.cpus));
        platform.map_err(|NoMembarrier| HostError::NoMembarrier)
    }

    pub(super) fn linux_fenced(&self) -> Linux<Fenced> {
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

    pub(super) fn engine(&self, options: &Options, window: &Window) -> EngineLayout<WithRanges> {
        let layout = options.engine();
        let layout = layout.with_window(window.range().start(), self.pages);
        let layout = layout.with_span_pages(self.span_pages);
        match self.config {
            Some(config) => layout.with_range_config(config),
            None => layout,
        }
    }
}
