//! Which allocator it is: all that differs between the two kernels.

#[cfg(not(feature = "stock"))]
mod chosen {
    use framewright_ostd::{engine, stats};
    use ostd::mm::frame::GlobalFrameAllocator;

    /// Its name.
    pub(crate) const NAME: &str = "framewright";

    // These lines are the program in the README of `framewright-ostd`.
    #[ostd::global_frame_allocator]
    static FRAMES: framewright_ostd::Frames = framewright_ostd::Frames;

    fn start() -> Result<(), framewright_ostd::AsideError> {
        framewright_ostd::set_aside(&[1024])?; // pages; guests have the frames meanwhile
        let stats = framewright_ostd::stats(); // what the engine counts, and what was refused
        assert_eq!(stats.refused, 0);
        Ok(())
    }

    /// The allocator.
    pub(crate) fn frames() -> &'static dyn GlobalFrameAllocator {
        &FRAMES
    }

    /// How many frames are free.
    pub(crate) fn free_frames() -> usize {
        stats().frames.nr_free_pages as usize
    }

    /// Whether it can set a driver's 4 MiB aside, and has done so.
    pub(crate) fn set_aside() -> bool {
        start().expect("memory is still whole");
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
    use ostd::mm::frame::GlobalFrameAllocator;

    pub(crate) const NAME: &str = "ostd";

    #[ostd::global_frame_allocator]
    static FRAMES: osdk_frame_allocator::FrameAllocator = osdk_frame_allocator::FrameAllocator;

    pub(crate) fn frames() -> &'static dyn GlobalFrameAllocator {
        &FRAMES
    }

    pub(crate) fn free_frames() -> usize {
        osdk_frame_allocator::load_total_free_size() / ostd::mm::PAGE_SIZE
    }

    pub(crate) fn set_aside() -> bool {
        false
    }

    pub(crate) fn lend(_round: u64) -> (u64, u64) {
        (0, 0)
    }

    /// It has no check of its own.
    pub(crate) fn check() {}
}

pub(crate) use chosen::*;
