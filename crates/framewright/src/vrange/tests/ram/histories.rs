//! `map_ram` beside a sorted list of what is live, through random histories.

use super::*;

/// What a history knows: the live mappings, by their first page.
struct Live {
    areas: BTreeMap<u64, Vec<Frame>>,
}

impl Live {
    /// Checks that every page of every mapping reaches its frame, and that no two overlap.
    fn check(&self, space: &Space<'_, &PageTable>) {
        let mut end = 0;
        for (&start, frames) in &self.areas {
            assert!(start >= end, "V1: {start:#x} overlaps");
            end = start + frames.len() as u64;
            for (page, &frame) in (start..).zip(frames) {
                assert_eq!(
                    space.platform().at(Page(page)),
                    Pte::Mapped(frame),
                    "{page:#x}"
                );
            }
            let found = space.find(Page(end - 1)).unwrap();
            let area = (found.start, found.pages, found.guard, found.kind);
            assert_eq!(area, (Page(start), frames.len() as u64, 0, AreaKind::Ram));
        }
    }
}

/// Frames for a request of some pages: mostly in a few runs.
fn some_frames(random: &mut Random, pages: u64) -> Vec<Frame> {
    let mut frame = random.remainder(1 << 20);
    (0..pages)
        .map(|_| {
            frame = if random.remainder(4) == 0 {
                random.remainder(1 << 20)
            } else {
                frame + 1
            };
            Frame(frame)
        })
        .collect()
}

/// A random history on `cpus` CPUs' seats, with a look at everything now and then.
fn history(seed: u64, layout: &SpaceLayout, config: &RangeConfig, ops: u64, fail: u64) {
    let mut random = Random::new(seed);
    let table = PageTable::of(layout);
    let mut memory = vec![0x1999_9999_9999_9999; layout.words_needed().unwrap()];
    let space = Space::new(layout, config, &mut memory, &table).unwrap();
    let mut seats: Vec<_> = (0..layout.cpus)
        .map(|cpu| space.seat(CpuId(cpu), ()).unwrap())
        .collect();
    let mut live = Live {
        areas: BTreeMap::new(),
    };
    let mut plain = Vec::new();
    for op in 0..ops {
        let seat = random.remainder(seats.len() as u64) as usize;
        let seat = &mut seats[seat];
        if fail != 0 && random.remainder(fail) == 0 {
            let left = Some(random.remainder(4));
            match random.remainder(2) {
                0 => table.maps_until_failure.set(left),
                _ => table.unmaps_until_failure.set(left),
            }
        }
        let fills = if op / 500 % 2 == 0 { 60 } else { 45 };
        match random.remainder(100) {
            0..=2 => plain.extend(
                seat.alloc_area(&AreaRequest::new(1 + random.remainder(9)))
                    .ok(),
            ),
            3..=5 if !plain.is_empty() => {
                let page = plain.swap_remove(random.remainder(plain.len() as u64) as usize);
                seat.free_area(page).unwrap();
            }
            6 => seat.purge(),
            7 if random.remainder(20) == 0 => seat.drain(),
            draw if draw < fills || live.areas.is_empty() => {
                let most = [4, 64, 80][random.remainder(3) as usize];
                let pages = 1 + random.remainder(most);
                let frames = some_frames(&mut random, pages);
                let context =
                    [Context::ANY, Context::NOWAIT][usize::from(random.remainder(8) == 0)];
                let (maps, before) = (table.maps.get(), space.stats().vm_map_ram);
                match seat.map_ram(&frames, context) {
                    Ok(page) => {
                        let runs = frames.windows(2).filter(|two| two[0].0 + 1 != two[1].0);
                        let made = table.maps.get() - maps;
                        let runs = runs.count() as u64 + 1;
                        assert!(made == runs || fail != 0 && made >= runs, "one call a run");
                        assert!(live.areas.insert(page.0, frames).is_none());
                    }
                    Err(RangeError::NoSpace { .. }) => {}
                    Err(RangeError::WouldWait) => assert!(!context.may_block, "seed {seed}"),
                    Err(error) => assert!(fail != 0, "seed {seed}: {error}"),
                }
                let counted = space.stats().vm_map_ram - before;
                assert!(counted <= 1 && space.stats().vm_map_ram >= live.areas.len() as u64);
            }
            _ => {
                let nth = random.remainder(live.areas.len() as u64) as usize;
                let (&start, frames) = live.areas.iter().nth(nth).unwrap();
                let pages = frames.len() as u64;
                let wrong = seat.unmap_ram(Page(start), pages + 1);
                let expected = RangeFreeError::WrongLength {
                    page: Page(start),
                    pages: pages + 1,
                    mapped: pages,
                };
                assert_eq!(wrong, Err(expected));
                assert_eq!(seat.unmap_ram(Page(start), pages), Ok(pages), "seed {seed}");
                live.areas.remove(&start);
                assert!(seat.unmap_ram(Page(start), pages).is_err());
            }
        }
        if op % 16 == 0 {
            live.check(&space);
            space
                .verify()
                .unwrap_or_else(|error| panic!("seed {seed}, operation {op}: {error}"));
        }
    }
    table.maps_until_failure.set(None);
    table.unmaps_until_failure.set(None);
    for (start, frames) in core::mem::take(&mut live.areas) {
        seats[0]
            .unmap_ram(Page(start), frames.len() as u64)
            .unwrap();
    }
    for page in plain {
        seats[0].free_area(page).unwrap();
    }
    seats[0].drain();
    space.verify().unwrap();
    let stats = space.stats();
    assert_eq!(
        (stats.live_pages, stats.vmap_lazy_nr),
        (0, 0),
        "seed {seed}"
    );
    assert_eq!(stats.vm_map_ram, stats.vm_unmap_ram, "seed {seed}");
    assert!(table.pages.borrow().iter().all(|&pte| pte == Pte::Clean));
    // One request can have all of the window in one piece.
    let all = frames(0, layout.pages);
    let page = seats[0].map_ram(&all, Context::ANY).unwrap();
    assert_eq!(page, layout.start);
}

#[test]
fn histories_end_as_they_began_whatever_the_policy() {
    for seed in 0..24 {
        let cpus = [1, 2, 3][seed as usize % 3];
        let span_pages = [64, 128, 1024, 16][seed as usize % 4];
        let layout = SpaceLayout::new(Page(1 << 20), 4096)
            .with_cpus(cpus)
            .with_span_pages(span_pages);
        let insert = [TAIL, HEAD][seed as usize / 3 % 2];
        let config = RangeConfig {
            lazy_pages_max: [40, 400, 4000][seed as usize % 3],
            ..config(insert, seed % 5 != 0)
        };
        history(seed, &layout, &config, 3000, 0);
        history(seed, &layout, &config, 1500, 20);
    }
}
