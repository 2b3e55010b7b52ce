// UNSAFETY: the space borrows its metadata from a mapping that lies beside it in one value, as the
// zone does in a `Host`.

use crate::host::{Host, HostError, Options, SlotError};
use crate::mapping::Mapping;
use crate::platform::{Linux, Membarrier, Paged};
use crate::window::Window;
use framewright::frame::Seat;
use framewright::platform::{Barrier, Fenced};
use framewright::policy::RangeConfig;
use framewright::vrange::{RangeSeat, RangeSetupError, Space, SpaceLayout};
use std::sync::Arc;

/// The specification of the space of a [`HostSpace`].
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
        }
    }
}

/// A thread's seat in a [`HostSpace`]: its areas' frames come from its seat in the zone.
pub type HostRangeSeat<'h, B> = RangeSeat<'h, 'h, Paged<B>, Seat<'h, 'h, Linux<B>>>;

/// A [`Host`] with virtual ranges: frames, a window in which they appear, and the space that hands
/// out the window.
///
/// A forked process gets no seat, and has no access to the window or the [`Host`]; only a child
/// that clone(2) makes without fork(3) shares with its parent what the window shows.
///
/// The space's metadata is memory of its own, and only used parts cost memory: less than 1 % of the
/// mapped memory, once that is more than a few MiB, however long the window.
///
/// ```
/// use framewright::Frame;
/// use framewright::frame::ZoneLayout;
/// use framewright::vrange::AreaRequest;
/// use framewright_linux::{HostSpace, Options, RangeOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let options = Options::new(ZoneLayout::new(Frame(0), 4096).with_cpus(2));
/// // HostSpace::fenced(..) where there is no membarrier
/// let host = HostSpace::new(&options, &RangeOptions::new(1 << 20))?;
/// let mut seat = host.range_seat()?;
/// let area = seat.vmalloc(&AreaRequest::new(3).zeroed())?;
/// host.window().write(area, 4094, b"over two pages")?;
/// let mut bytes = [0; 8];
/// host.window().read(area, 4090, &mut bytes)?;
/// assert_eq!(&bytes, b"\0\0\0\0over");
/// assert_eq!(seat.vfree(area)?, 3);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct HostSpace<B = Membarrier> {
    // INVARIANT: the space's 'static is a lie that stays in this file: its memory is `metadata`,
    // which is dropped after it, and it is handed out with the lifetime of a borrow of this value.
    space: Space<'static, Paged<B>>,
    host: Host<B>,
    window: Arc<Window>,
    _metadata: Mapping,
}

impl HostSpace<Membarrier> {
    /// A host with all frames free, and a window that is all free.
    ///
    /// # Errors
    /// The part that could not be made.
    pub fn new(options: &Options, ranges: &RangeOptions) -> Result<Self, HostError> {
        Self::over(Host::new(options)?, ranges)
    }
}

impl HostSpace<Fenced> {
    /// The same without membarrier: each operation costs about 10 ns more.
    ///
    /// # Errors
    /// The part that could not be made.
    pub fn fenced(options: &Options, ranges: &RangeOptions) -> Result<Self, HostError> {
        Self::over(Host::fenced(options)?, ranges)
    }
}

impl<B: Barrier + Clone> HostSpace<B> {
    /// A window and a space for the frames of `host`.
    ///
    /// # Errors
    /// The part that could not be made; the host is dropped then.
    pub fn over(host: Host<B>, ranges: &RangeOptions) -> Result<Self, HostError> {
        let ram = Arc::clone(host.ram_shared());
        let window = match ranges.mappings_max {
            None => Window::new(ram, ranges.pages),
            Some(max) => Window::with_mappings_max(ram, ranges.pages, max),
        };
        let window = Arc::new(window.map_err(HostError::Window)?);
        let cpus = host.platform().slots().count();
        let layout = SpaceLayout::new(window.range().start(), ranges.pages)
            .with_cpus(cpus)
            .with_span_pages(ranges.span_pages);
        let words = layout.words_needed().map_err(HostError::Ranges)?;
        let metadata = Mapping::anonymous(words * 8)
            .map_err(|errno| HostError::Metadata(errno.raw_os_error()))?;
        // Only a hint: if the host gave huge pages unasked, little use would cost many of them.
        let _ = metadata.advise_small();
        // SAFETY: used after the mapping is dropped: no, it moves beside the space, which is
        // dropped first. Accessed in another way, or called again: no, the mapping is private and
        // has no other use.
        let memory: &'static mut [u64] = unsafe { metadata.words_for_ever() };
        let config = ranges.config.unwrap_or(RangeConfig::for_cpus(cpus));
        let platform = Paged::new(host.platform().clone(), Arc::clone(&window));
        // Fresh from the kernel: zeroes.
        let space = Space::in_zeroed(&layout, &config, memory, platform);
        let space = space.map_err(HostError::Ranges)?;
        let space = if host.zone().accounts_locks() {
            space.with_lock_accounts()
        } else {
            space
        };
        Ok(Self {
            space,
            host,
            window,
            _metadata: metadata,
        })
    }

    /// The calling thread's seat in the space, until it is dropped, with its seat in the zone,
    /// which [`frames`](RangeSeat::frames) shows. Blocks that both have cached stay there.
    ///
    /// # Errors
    /// If there are more threads than slots, or the thread has one of its seats already. Nothing
    /// has changed then.
    pub fn range_seat(&self) -> Result<HostRangeSeat<'_, B>, SlotError> {
        let frames = self.host.seat()?;
        let cpu = frames.cpu();
        self.space().seat(cpu, frames).map_err(|error| match error {
            RangeSetupError::SeatTaken(cpu) | RangeSetupError::UnknownCpu(cpu) => {
                SlotError::SeatTaken(cpu)
            }
            // A seat is refused only because of its CPU; there are as many as the zone has.
            _ => SlotError::SeatTaken(cpu),
        })
    }

    /// The platform of the space, once more.
    pub(crate) fn platform(&self) -> Paged<B> {
        Paged::new(self.host.platform().clone(), Arc::clone(&self.window))
    }

    /// The space.
    #[must_use]
    pub fn space(&self) -> &Space<'_, Paged<B>> {
        // As the zone in a host: the lifetime parameter shrinks to that of the borrow.
        &self.space
    }

    /// The frames, and their zone.
    #[must_use]
    pub const fn host(&self) -> &Host<B> {
        &self.host
    }

    /// The window, and its bytes.
    #[must_use]
    pub fn window(&self) -> &Window {
        &self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use framewright::Frame;
    use framewright::frame::ZoneLayout;
    use framewright::vrange::AreaRequest;

    fn host(cpus: u16, ranges: &RangeOptions) -> Result<HostSpace<Fenced>, HostError> {
        let layout = ZoneLayout::new(Frame(0), 2048).with_cpus(cpus);
        HostSpace::fenced(&Options::new(layout), ranges)
    }

    #[test]
    fn a_thread_has_one_range_seat_and_its_seat_in_the_zone_goes_with_it() {
        let host = host(2, &RangeOptions::new(4096)).unwrap();
        let seat = host.range_seat().unwrap();
        let cpu = seat.cpu();
        assert_eq!(host.range_seat().unwrap_err(), SlotError::SeatTaken(cpu));
        assert_eq!(host.host().seat().unwrap_err(), SlotError::SeatTaken(cpu));
        drop(seat);
        let frames = host.host().seat().unwrap();
        assert_eq!(host.range_seat().unwrap_err(), SlotError::SeatTaken(cpu));
        drop(frames);
        let other = std::thread::scope(|scope| {
            let _mine = host.range_seat().unwrap();
            scope.spawn(|| host.range_seat().unwrap().cpu()).join()
        });
        assert_ne!(other.unwrap(), cpu);
    }

    #[test]
    fn the_space_is_that_of_the_window_with_as_many_cpus_as_the_zone() {
        let host = host(3, &RangeOptions::new(5000)).unwrap();
        let (space, window) = (host.space(), host.window().range());
        assert_eq!((space.start(), space.pages()), (window.start(), 5000));
        assert_eq!(space.cpus(), 3);
        assert_eq!(*space.config(), RangeConfig::for_cpus(3));
        space.verify().unwrap();
        assert_eq!(host.window().ram().frames(), host.host().ram().frames());
    }

    /// Bytes of the metadata that have memory of their own, by /proc/self/smaps: parts that were
    /// only read are the kernel's one page of zeroes.
    fn metadata_bytes(host: &HostSpace<Fenced>) -> usize {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let start = format!("{:x}-", host._metadata.start().addr());
        let entry = smaps.lines().skip_while(|line| !line.starts_with(&start));
        let sizes = entry.skip(1).take_while(|line| !line.contains('-'));
        let kib = |line: &str| line.split_whitespace().nth(1)?.parse::<usize>().ok();
        let sizes: Vec<usize> = sizes
            .filter(|line| line.starts_with("Private_Dirty:") || line.starts_with("Swap:"))
            .filter_map(kib)
            .collect();
        assert_eq!(sizes.len(), 2, "no entry for {start}");
        sizes.iter().sum::<usize>() * 1024
    }

    #[test]
    fn what_is_not_used_of_a_large_window_costs_nothing() {
        // 64 GiB of window over 16 MiB of frames.
        const FRAMES: u64 = 4096;
        let layout = ZoneLayout::new(Frame(0), FRAMES);
        let host = HostSpace::fenced(&Options::new(layout), &RangeOptions::new(1 << 24)).unwrap();
        let all = host._metadata.len_bytes();
        assert!(all > 1 << 28);
        let empty = metadata_bytes(&host);
        let mut seat = host.range_seat().unwrap();
        let mut areas = Vec::new();
        let (mut mapped, mut length) = (0, 1);
        while mapped + length <= FRAMES {
            areas.push(seat.vmalloc(&AreaRequest::new(length)).unwrap());
            mapped += length;
            length = length % 90 + 7;
        }
        let full = metadata_bytes(&host);
        let mapped_bytes = (mapped * 4096) as usize;
        println!("{all} bytes: {empty} at first, {full} with {mapped_bytes} mapped");
        assert!(empty <= 6 * 4096, "{empty} bytes of an empty space");
        assert!(mapped > FRAMES - 100);
        assert!(
            full * 100 <= mapped_bytes,
            "{full} bytes for {mapped_bytes}"
        );
        for at in areas {
            seat.vfree(at).unwrap();
        }
        seat.drain();
        let after = metadata_bytes(&host);
        assert!(
            after <= full + 2 * 4096,
            "{full} bytes, {after} after all frees"
        );
    }

    #[test]
    fn what_cannot_be_had_is_said() {
        let refused = |ranges: &RangeOptions| host(1, ranges).unwrap_err();
        let error = refused(&RangeOptions::new(0));
        assert_eq!(
            error.to_string(),
            "a window of 0 pages is not between 1 and 2^30"
        );
        let mut ranges = RangeOptions::new(4096);
        ranges.span_pages = 3;
        assert_eq!(
            refused(&ranges),
            HostError::Ranges(RangeSetupError::SpanPages(3))
        );
    }
}
