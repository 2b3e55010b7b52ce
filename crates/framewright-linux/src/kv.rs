// UNSAFETY: the object allocator borrows its metadata from a mapping that lies beside it in one
// value, as the zone does in a `Host`.

use crate::host::{Host, HostError, Options, SlotError};
use crate::mapping::Mapping;
use crate::platform::{Linux, Membarrier, Paged};
use crate::space::{HostSpace, RangeOptions};
use crate::window::Window;
use framewright::CpuId;
use framewright::frame::Seat;
use framewright::kv::{Kv, KvLayout, KvSeat};
use framewright::platform::{Barrier, Fenced};

/// A thread's seat in a [`HostKv`]: objects, and by [`ranges`](KvSeat::ranges) areas and frames.
pub type HostKvSeat<'h, B = Membarrier> = KvSeat<'h, 'h, 'h, Paged<B>, Seat<'h, 'h, Linux<B>>>;

/// A [`HostSpace`] with objects: kmalloc and kvmalloc in its frames and in its window.
///
/// In a forked process it is like a [`HostSpace`] there: seats are refused, and objects cannot be
/// touched.
///
/// Objects are known by real addresses of this process. A caller that has an object may use its
/// bytes by them, through [`Ram::bytes_mut`](crate::Ram::bytes_mut) and [`Window::bytes_mut`], and
/// must then keep the promises of these.
///
/// ```
/// use framewright::Frame;
/// use framewright::frame::ZoneLayout;
/// use framewright::kv::{KvRequest, ObjectKind};
/// use framewright_linux::{HostKv, Options, RangeOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let options = Options::new(ZoneLayout::new(Frame(0), 4096).with_cpus(2));
/// // HostKv::fenced(..) where there is no membarrier
/// let host = HostKv::new(&options, &RangeOptions::new(1 << 20))?;
/// let mut seat = host.seat()?;
/// let small = seat.kmalloc(&KvRequest::new(64))?;
/// let large = seat.kvmalloc(&KvRequest::new(8 << 20).zeroed())?; // no block is so large
/// assert_eq!(host.kv().kind(large), ObjectKind::Mapped);
/// let mut bytes = [1; 100];
/// host.window().read(large.page(), 5 << 20, &mut bytes)?;
/// assert_eq!(bytes, [0; 100]);
/// seat.kfree(small)?;
/// seat.kvfree(large)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct HostKv<B = Membarrier> {
    // INVARIANT: the allocator's 'static is a lie that stays in this file: its memory is
    // `metadata`, which is dropped after it, and it is handed out with the lifetime of a borrow of
    // this value.
    kv: Kv<'static, Paged<B>>,
    space: HostSpace<B>,
    _metadata: Mapping,
}

impl HostKv<Membarrier> {
    /// A host with nothing allocated.
    ///
    /// # Errors
    /// The part that could not be made.
    pub fn new(options: &Options, ranges: &RangeOptions) -> Result<Self, HostError> {
        Self::over(HostSpace::new(options, ranges)?)
    }
}

impl HostKv<Fenced> {
    /// The same without membarrier: each operation costs about 10 ns more.
    ///
    /// # Errors
    /// The part that could not be made.
    pub fn fenced(options: &Options, ranges: &RangeOptions) -> Result<Self, HostError> {
        Self::over(HostSpace::fenced(options, ranges)?)
    }
}

impl<B: Barrier + Clone> HostKv<B> {
    /// Objects in the frames and the window of `space`, with a layout of default size.
    ///
    /// # Errors
    /// The part that could not be made; the space is dropped then.
    pub fn over(space: HostSpace<B>) -> Result<Self, HostError> {
        let frames = space.window().ram().frames();
        let layout = KvLayout::new(frames.start(), frames.frames());
        Self::with_layout(space, &layout)
    }

    /// The same with a layout of the caller's, except for its number of CPUs, which is that of the
    /// space.
    ///
    /// # Errors
    /// As [`over`](Self::over).
    pub fn with_layout(space: HostSpace<B>, layout: &KvLayout) -> Result<Self, HostError> {
        let layout = &layout.with_cpus(space.space().cpus());
        let words = layout.words_needed().map_err(HostError::Objects)?;
        let metadata = Mapping::anonymous(words * 8)
            .map_err(|errno| HostError::Metadata(errno.raw_os_error()))?;
        // Only a hint: each free looks its frame up, and those of many objects lie far apart.
        let _ = metadata.advise_huge();
        // SAFETY: used after the mapping is dropped: no, it moves beside the allocator, which is
        // dropped first. Accessed in another way, or called again: no, the mapping is private and
        // has no other use.
        let memory: &'static mut [u64] = unsafe { metadata.words_for_ever() };
        let platform = space.platform();
        // Fresh from the kernel: zeroes.
        let kv = Kv::in_zeroed(layout, memory, platform).map_err(HostError::Objects)?;
        let kv = if space.host().zone().accounts_locks() {
            kv.with_lock_accounts()
        } else {
            kv
        };
        Ok(Self {
            kv,
            space,
            _metadata: metadata,
        })
    }

    /// The calling thread's seat, until it is dropped, with its seats in the space and the zone.
    /// Their cached memory stays there.
    ///
    /// # Errors
    /// If there are more threads than slots, or the thread has one of its seats already. Nothing
    /// has changed then.
    pub fn seat(&self) -> Result<HostKvSeat<'_, B>, SlotError> {
        let ranges = self.space.range_seat()?;
        let cpu = ranges.cpu();
        // A seat is refused only because of its CPU; there are as many as the space has.
        self.kv()
            .seat(ranges)
            .map_err(|_| SlotError::SeatTaken(cpu))
    }

    /// The seat of a CPU, for any thread; `None` if one of its parts is taken.
    pub(crate) fn seat_of(&self, cpu: CpuId) -> Option<HostKvSeat<'_, B>> {
        let frames = self.host().zone().seat(cpu).ok()?;
        let ranges = self.space.space().seat(cpu, frames).ok()?;
        self.kv().seat(ranges).ok()
    }

    /// The object allocator.
    #[must_use]
    pub fn kv(&self) -> &Kv<'_, Paged<B>> {
        // As the zone in a host: the lifetime parameter shrinks to that of the borrow.
        &self.kv
    }

    /// Window, space, frames and zone.
    #[must_use]
    pub const fn space(&self) -> &HostSpace<B> {
        &self.space
    }

    /// The frames, and their zone.
    #[must_use]
    pub const fn host(&self) -> &Host<B> {
        self.space.host()
    }

    /// The window, and its bytes.
    #[must_use]
    pub fn window(&self) -> &Window {
        self.space.window()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use framewright::frame::ZoneLayout;
    use framewright::kv::{KvRequest, ObjectKind};
    use framewright::{Addr, Frame};

    const FIRST: u64 = 512;

    fn host(frames: u64, cpus: u16) -> HostKv<Fenced> {
        let layout = ZoneLayout::new(Frame(FIRST), frames).with_cpus(cpus);
        HostKv::fenced(&Options::new(layout), &RangeOptions::new(8192)).unwrap()
    }

    /// The bytes of an object, wherever it lies.
    fn bytes(host: &HostKv<Fenced>, at: Addr, len: usize) -> Vec<u8> {
        let mut bytes = vec![0xee; len];
        if host.kv().kind(at) == ObjectKind::Mapped {
            host.window().read(at.page(), 0, &mut bytes).unwrap();
            return bytes;
        }
        for (nth, piece) in bytes.chunks_mut(4096).enumerate() {
            let frame = host.host().ram().frame_at(at.0 as usize as *const u8);
            let mut whole = [0; 4096];
            let frame = Frame(frame.unwrap().0 + nth as u64);
            host.host().ram().read(frame, &mut whole).unwrap();
            piece.copy_from_slice(&whole[..piece.len()]);
        }
        bytes
    }

    #[test]
    fn a_thread_has_one_seat_and_all_others_go_with_it() {
        let host = host(2048, 2);
        let mut seat = host.seat().unwrap();
        let cpu = seat.cpu();
        assert_eq!(host.seat().unwrap_err(), SlotError::SeatTaken(cpu));
        assert_eq!(
            host.space().range_seat().unwrap_err(),
            SlotError::SeatTaken(cpu)
        );
        let other = std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    let mut seat = host.seat().unwrap();
                    (seat.cpu(), seat.kmalloc(&KvRequest::new(4096)).unwrap())
                })
                .join()
                .unwrap()
        });
        assert_ne!(other.0, cpu);
        assert_eq!(seat.kfree(other.1), Ok(4096));
        drop(seat);
        assert_eq!(host.seat().unwrap().cpu(), cpu);
    }

    #[test]
    fn objects_keep_their_bytes_from_the_direct_map_into_the_window_and_back() {
        let host = host(4096, 1);
        let mut seat = host.seat().unwrap();
        let small = seat.kvmalloc(&KvRequest::new(64 << 10).zeroed()).unwrap();
        assert_ne!(host.kv().kind(small), ObjectKind::Mapped);
        assert_eq!(bytes(&host, small, 64 << 10), vec![0; 64 << 10]);
        let frame = host.host().ram().frame_at(small.0 as usize as *const u8);
        let last = Frame(frame.unwrap().0 + 15);
        host.host().ram().write(last, &[9; 4096]).unwrap();
        // Longer than the longest block.
        let large = seat.kvrealloc(small, &KvRequest::new(6 << 20)).unwrap();
        assert_eq!(host.kv().kind(large), ObjectKind::Mapped);
        let mut expected = vec![0; 15 * 4096];
        expected.extend([9; 4096]);
        assert_eq!(bytes(&host, large, 64 << 10), expected);
        let again = seat.kvrealloc(large, &KvRequest::new(64 << 10)).unwrap();
        assert_eq!(bytes(&host, again, 64 << 10), expected);
        seat.kvfree(again).unwrap();
        seat.ranges().drain();
        drop(seat);
        host.space().space().verify().unwrap();
        host.host().zone().drain();
        host.host().zone().verify().unwrap();
        assert_eq!(host.host().zone().recount().free, 4096);
    }
}
