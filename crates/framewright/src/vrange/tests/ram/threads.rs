//! `map_ram` and `unmap_ram` on several threads at once, with every page's mapping checked.

extern crate std;

use super::*;
use crate::platform::{FramePlatform, MapError, RangePlatform, TableSource};
use crate::units::{Context, CpuId, Page, PageAccess, PageRange, Run};
use std::vec;
use std::vec::Vec;

/// A platform for several threads that only checks which pages are mapped.
struct Shared {
    start: u64,
    mapped: Vec<std::sync::atomic::AtomicU8>,
}

impl FramePlatform for Shared {
    const ASYMMETRIC: bool = false;

    fn relax(&self, _attempt: u32) {
        std::thread::yield_now();
    }

    fn barrier_all(&self) {
        crate::sync::fence(crate::sync::Ordering::SeqCst);
    }
}

impl RangePlatform for Shared {
    fn map(
        &self,
        at: Page,
        frames: Run,
        _access: PageAccess,
        _tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        let start = (at.0 - self.start) as usize;
        for page in &self.mapped[start..start + frames.frames() as usize] {
            let before = page.swap(1, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(before, 0, "V5: mapped before it was unmapped");
        }
        Ok(())
    }

    fn unmap(&self, range: PageRange) -> Result<(), MapError> {
        let start = (range.start().0 - self.start) as usize;
        for page in &self.mapped[start..start + range.pages() as usize] {
            page.store(0, std::sync::atomic::Ordering::Relaxed);
        }
        Ok(())
    }

    fn flush_all(&self) {}

    fn zero(&self, _frames: Run) {}
}

#[test]
fn what_one_cpu_maps_others_unmap_at_the_same_time() {
    for recycle in [true, false] {
        let layout = SpaceLayout::new(Page(1 << 20), 32 * BLOCK).with_cpus(3);
        let platform = Shared {
            start: layout.start.0,
            mapped: (0..layout.pages).map(|_| 0.into()).collect(),
        };
        let mut memory = vec![0; layout.words_needed().unwrap()];
        let config = config(TAIL, recycle);
        let space = Space::new(&layout, &config, &mut memory, &platform).unwrap();
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..3).map(|_| std::sync::mpsc::sync_channel(64)).unzip();
        std::thread::scope(|scope| {
            for (cpu, received) in receivers.into_iter().enumerate() {
                let next = senders[(cpu + 1) % 3].clone();
                let space = &space;
                scope.spawn(move || {
                    let mut seat = space.seat(CpuId(cpu as u16), ()).unwrap();
                    let mut random = Random::new(cpu as u64);
                    let all = frames(0, 80);
                    let unmap = |seat: &mut RangeSeat<'_, '_, &Shared, ()>, area| {
                        let (page, pages): (Page, u64) = area;
                        assert_eq!(seat.unmap_ram(page, pages), Ok(pages));
                    };
                    for op in 0..20_000 {
                        // With all CPUs stopped: so the bound of lazy pages is exact here, as in no count of theirs.
                        if op % 1000 == 999 {
                            space.verify().unwrap();
                        }
                        let longest = [4, 64, 80][random.index(3)];
                        let pages = 1 + random.remainder(longest);
                        if let Ok(page) = seat.map_ram(&all[..pages as usize], Context::ANY) {
                            // To the next CPU, or to itself where that one has enough.
                            if let Err(area) = next.try_send((page, pages)) {
                                let (std::sync::mpsc::TrySendError::Full(area)
                                | std::sync::mpsc::TrySendError::Disconnected(area)) = area;
                                unmap(&mut seat, area);
                            }
                        }
                        if random.remainder(3) != 0 {
                            received
                                .try_iter()
                                .take(2)
                                .for_each(|area| unmap(&mut seat, area));
                        }
                    }
                    drop(next);
                    received.iter().for_each(|area| unmap(&mut seat, area));
                });
            }
            drop(senders);
        });
        space.verify().unwrap();
        let stats = space.stats();
        assert_eq!(
            (stats.live_pages, stats.vm_map_ram),
            (0, stats.vm_unmap_ram)
        );
        assert!(stats.remote_frees > 0);
        space.seat(CpuId(0), ()).unwrap().drain();
        space.verify().unwrap();
        assert_eq!(space.stats().vmap_lazy_nr, 0);
    }
}
