//! A model in step with the kernel: the owner of each frame, and nothing else.

use super::*;
use framewright_sim::Random;

/// Random requests of all kinds under pressure, with a holder whose pages move and are given back.
/// After each request all held blocks are disjoint, and a frame that is neither held nor free is
/// cached. Returns what happened as one number, and the counters.
fn run_random(
    layout: &Layout310<'_>,
    variant: Variant310,
    seed: u64,
    steps: u64,
) -> (u64, ReclaimStats) {
    let mut kernel = Kernel310::new(layout, variant).unwrap();
    let total = kernel.free_frames();
    let holder = Holder310::new();
    let mut random = Random::new(seed);
    let mut kept: Vec<(u64, u8)> = Vec::new();
    let mut digest = 0u64;
    for step in 0..steps {
        let cpu = CpuId(random.remainder(3) as u16);
        let filling = step / 400 % 3 != 2;
        let what = random.remainder(100);
        if what < if filling { 55 } else { 25 } {
            let frame = holder.with(|tenants| {
                kernel.alloc(
                    tenants,
                    PressureRequest {
                        cpu,
                        ..request(0, Movable)
                    },
                )
            });
            if let Some(Frame(frame)) = frame {
                let list = if random.remainder(4) == 0 {
                    &holder.anon
                } else {
                    &holder.cache
                };
                list.borrow_mut().push(frame);
                if random.remainder(50) == 0 {
                    holder.pinned.borrow_mut().push(frame);
                }
            }
        } else if what < 70 {
            let order_ = [0, 0, 1, 2, 2, 3, 4, 6][random.remainder(8) as usize];
            let mobility = [Unmovable, Reclaimable, Movable][random.remainder(3) as usize];
            let mobility = if order_ == 0 { Unmovable } else { mobility };
            let context =
                [Context::ANY, Context::NOFS, Context::NOWAIT][random.remainder(3) as usize];
            let request = PressureRequest {
                cpu,
                order: order(order_),
                mobility,
                context,
            };
            let frame = holder.with(|tenants| kernel.alloc(tenants, request));
            kept.extend(frame.map(|frame| (frame.0, order_)));
        } else if what < 90 {
            let list = if random.remainder(3) == 0 {
                &holder.cache
            } else {
                &holder.anon
            };
            let mut list = list.borrow_mut();
            if random.remainder(2) == 0 && !list.is_empty() {
                let index = random.remainder(list.len() as u64) as usize;
                let frame = list.swap_remove(index);
                holder.pinned.borrow_mut().retain(|&pinned| pinned != frame);
                kernel.free(cpu, Frame(frame), Order::ZERO);
            } else if !kept.is_empty() {
                let index = random.remainder(kept.len() as u64) as usize;
                let (frame, order_) = kept.swap_remove(index);
                kernel.free(cpu, Frame(frame), order(order_));
            }
        } else {
            holder.busy.set(random.remainder(3) as u32);
            holder.with(|tenants| kernel.background(tenants, random.remainder(5_000)));
        }
        // A recount walks the zone.
        if step % (layout.frames / 64) == 0 {
            check(&kernel, &holder, &kept, total)
                .unwrap_or_else(|error| panic!("{error}, seed {seed} step {step}"));
        }
        digest = digest.rotate_left(7) ^ kernel.free_frames() ^ kept.len() as u64;
    }
    (digest, kernel.stats())
}

fn check(
    kernel: &Kernel310,
    holder: &Holder310,
    kept: &[(u64, u8)],
    total: u64,
) -> Result<(), String> {
    kernel.verify()?;
    let mut owned = vec![false; kernel.zone.count() as usize];
    let mut held = 0;
    let (anon, cache) = (holder.anon.borrow(), holder.cache.borrow());
    let pages = anon.iter().chain(cache.iter()).map(|&frame| (frame, 0));
    for (frame, order_) in pages.chain(kept.iter().copied()) {
        let tag = kernel.zone.tag(frame as u32);
        if !tag.is_allocated() || tag.order() != order_ {
            return Err(format!("{frame} is held, and {tag:?}"));
        }
        for frame in frame..frame + (1 << order_) {
            if core::mem::replace(&mut owned[frame as usize], true) {
                return Err(format!("{frame} is held twice"));
            }
            held += 1;
        }
    }
    let cached: u32 = kernel.cached.iter().sum();
    let sum = held + kernel.free_frames() + u64::from(cached);
    if sum == total {
        Ok(())
    } else {
        Err(format!("{sum} frames of {total}"))
    }
}

#[test]
fn under_random_pressure_no_frame_is_lost_or_held_twice() {
    let hole = [Run::new(Frame(70), 9).unwrap()];
    let cma = [Run::new(Frame(2048), 1024).unwrap()];
    let mut sum = ReclaimStats::default();
    for variant in [Variant310::Before, Variant310::Proposed] {
        for (frames, pageblock_order, cma) in [(900, 4, &[][..]), (4096, 10, &cma), (3300, 9, &[])]
        {
            let layout = Layout310 {
                absent: &hole,
                cma,
                pageblock_order,
                min_free_kbytes: Some(frames / 16),
                extra_free_kbytes: frames / 16,
                short_sleep: 500,
                cpus: 2,
                ..Layout310::new(frames)
            };
            let (_, stats) = run_random(&layout, variant, frames, 4_000);
            sum.add(&stats);
        }
    }
    // All of it was in use.
    for (name, count) in sum.named() {
        assert!(count > 0, "{name} is 0");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let layout = Layout310 {
        pageblock_order: 4,
        min_free_kbytes: Some(64),
        ..Layout310::new(900)
    };
    let run = |seed| run_random(&layout, Variant310::Before, seed, 1_500);
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}
