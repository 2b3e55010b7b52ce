//! Which allocator it is: all that differs between the two kernels.

#[cfg(not(feature = "stock"))]
mod chosen {
    use framewright_ostd::{engine, stats};

    /// Its name.
    pub(crate) const NAME: &str = "framewright";

    /// The allocator.
    #[ostd::global_frame_allocator]
    pub(crate) static FRAMES: framewright_ostd::Frames = framewright_ostd::Frames;

    /// How many frames are free.
    pub(crate) fn free_frames() -> usize {
        stats().frames.nr_free_pages as usize
    }

    /// Whether it can set a request of this many pages aside, and has done so.
    pub(crate) fn set_aside(pages: usize) -> bool {
        framewright_ostd::set_aside(&[pages]).expect("memory is still whole");
        true
    }

    /// Lends the frames that are set aside to pages; how many of these came back whole.
    pub(crate) fn lend(round: u64) -> (u64, u64) {
        let page_of = |nth: u64| [nth ^ 0x5555_aaaa; 512];
        let (mut asked, mut back) = (0, 0);
        let mut page = [0; 512];
        for nth in round * 16..round * 16 + 16 {
            framewright_ostd::put(1, nth, &page_of(nth));
            // From this round, or from the one before, if no request took the frames meanwhile.
            let earlier = nth - 12;
            asked += 1;
            if framewright_ostd::get(1, earlier, &mut page) {
                assert!(
                    page == page_of(earlier),
                    "page {earlier} is not what it was"
                );
                back += 1;
            }
        }
        (asked, back)
    }

    /// Checks its invariants.
    pub(crate) fn check() {
        let stats = stats();
        say!(
            "late {}, refused {}, {:?}",
            stats.late,
            stats.refused,
            stats.frames
        );
        assert_eq!(stats.refused, 0, "no free was wrong");
        let engine = engine().expect("frames were asked for");
        let _guard = ostd::irq::disable_local();
        engine.verify().expect("the invariants hold");
        say!("verified");
    }
}

#[cfg(feature = "stock")]
mod chosen {
    pub(crate) const NAME: &str = "ostd";

    #[ostd::global_frame_allocator]
    pub(crate) static FRAMES: osdk_frame_allocator::FrameAllocator =
        osdk_frame_allocator::FrameAllocator;

    pub(crate) fn free_frames() -> usize {
        osdk_frame_allocator::load_total_free_size() / ostd::mm::PAGE_SIZE
    }

    pub(crate) fn set_aside(_pages: usize) -> bool {
        false
    }

    pub(crate) fn lend(_round: u64) -> (u64, u64) {
        (0, 0)
    }

    /// It has no check of its own.
    pub(crate) fn check() {}
}

pub(crate) use chosen::*;
