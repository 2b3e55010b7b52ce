//! A model in step with the buddy allocator: the owner of each frame, and nothing else.

use super::*;
use framewright::Run;
use framewright_sim::Random;

/// The obviously right twin: one owner a frame.
struct BuddyModel {
    owners: Vec<Option<u64>>,
    /// Live blocks: first frame, order, owner.
    live: Vec<(u64, u8, u64)>,
    next_owner: u64,
}

impl BuddyModel {
    fn new(config: &LinuxBuddyConfig<'_>) -> Self {
        let mut owners = vec![None; config.frames as usize];
        for run in config.absent {
            owners[run.start().0 as usize..run.end().0 as usize].fill(Some(0));
        }
        Self {
            owners,
            live: Vec::new(),
            next_owner: 1,
        }
    }

    fn frames_of(&mut self, frame: u64, order: u8) -> &mut [Option<u64>] {
        &mut self.owners[frame as usize..frame as usize + (1 << order)]
    }

    fn take(&mut self, frame: u64, order: u8) {
        assert_eq!(frame % (1 << order), 0);
        let owner = self.next_owner;
        self.next_owner += 1;
        for slot in self.frames_of(frame, order) {
            assert_eq!(*slot, None, "a frame of {frame} is handed out twice");
            *slot = Some(owner);
        }
        self.live.push((frame, order, owner));
    }

    fn release(&mut self, frame: u64, order: u8) {
        for slot in self.frames_of(frame, order) {
            assert!(slot.is_some());
            *slot = None;
        }
    }

    fn has_free_block(&self, order: u8) -> bool {
        self.owners
            .chunks_exact(1 << order)
            .any(|block| block.iter().all(Option::is_none))
    }
}

/// Random requests, whole and partial frees, drains and misuse, with the model in step; returns
/// what happened as one number, so that two runs can be compared.
fn run_random(config: &LinuxBuddyConfig<'_>, seed: u64, steps: u64) -> u64 {
    let mut zone = LinuxBuddy::new(config).unwrap();
    let mut model = BuddyModel::new(config);
    let fresh = zone.free_blocks();
    let mut random = Random::new(seed);
    let mut digest = 0u64;
    for step in 0..steps {
        let cpu = CpuId(random.remainder(3) as u16);
        // Two phases: filling up and running empty, so that both ends are met.
        let filling = step / 200 % 2 == 0;
        let what = random.remainder(100);
        if what < if filling { 65 } else { 35 } {
            let order_ = [0, 0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 9][random.remainder(12) as usize];
            let mobility = Mobility::ALL[random.remainder(3) as usize];
            match zone.alloc(cpu, order(order_), mobility) {
                Some(frame) => model.take(frame.0, order_),
                None => assert!(
                    !model.has_free_block(order_),
                    "order {order_} failed with a free block, seed {seed} step {step}"
                ),
            }
        } else if what < 97 && !model.live.is_empty() {
            let index = random.remainder(model.live.len() as u64) as usize;
            let (frame, order_, _) = model.live[index];
            if order_ > 0 && random.remainder(4) == 0 {
                // Half of it goes; the other half lives on.
                let half = order_ - 1;
                let gone = frame + (random.remainder(2) << half);
                let stays = frame + (1 << half) - (gone - frame);
                zone.free(cpu, Frame(gone), order(half)).unwrap();
                model.release(gone, half);
                model.live[index] = (stays, half, 0);
            } else {
                zone.free(cpu, Frame(frame), order(order_)).unwrap();
                model.release(frame, order_);
                model.live.swap_remove(index);
            }
        } else if what < 99 {
            let frame = random.remainder(config.frames + 8);
            let order_ = random.remainder(4) as u8;
            misuse_is_refused(&mut zone, &model, frame, order_);
        } else {
            zone.drain();
        }
        // A recount walks the zone: after every step of a small one, less often of a larger one.
        if step % (config.frames / 256) == 0 {
            zone.verify()
                .unwrap_or_else(|error| panic!("{error}, seed {seed} step {step}"));
        }
        let last = model.live.last().map_or(0, |&(frame, ..)| frame);
        digest = digest.rotate_left(7) ^ last ^ zone.free_blocks()[1][0] << 32;
    }
    for (frame, order_, _) in model.live {
        zone.free(CPU, Frame(frame), order(order_)).unwrap();
    }
    zone.drain();
    zone.verify().unwrap();
    let per_order = |blocks: [[u64; 11]; 3]| -> Vec<u64> {
        (0..11)
            .map(|o| blocks.iter().map(|mt| mt[o]).sum())
            .collect()
    };
    assert_eq!(per_order(zone.free_blocks()), per_order(fresh));
    digest
}

/// Tries a free that no owner of a block may do, and expects the refusal and no change.
fn misuse_is_refused(zone: &mut LinuxBuddy, model: &BuddyModel, frame: u64, order_: u8) {
    let valid = frame.is_multiple_of(1 << order_)
        && model
            .live
            .iter()
            .any(|&(start, o, _)| start <= frame && frame + (1 << order_) <= start + (1 << o));
    if !valid {
        let before = zone.free_blocks();
        assert!(zone.free(CPU, Frame(frame), order(order_)).is_err());
        assert_eq!(zone.free_blocks(), before);
    }
}

#[test]
fn nothing_is_lost_doubled_or_refused_under_random_use() {
    let hole = [Run::new(Frame(70), 9).unwrap()];
    for policy in LinuxPolicy::ALL {
        for per_cpu_lists in [false, true] {
            for (frames, pageblock_order) in [(300, 4), (1100, 9), (520, 10)] {
                let config = LinuxBuddyConfig {
                    absent: &hole,
                    pageblock_order,
                    per_cpu_lists,
                    ..LinuxBuddyConfig::new(policy, frames)
                };
                run_random(&config, frames, 1_600);
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for policy in LinuxPolicy::ALL {
        let config = LinuxBuddyConfig {
            pageblock_order: 4,
            ..LinuxBuddyConfig::new(policy, 300)
        };
        assert_eq!(run_random(&config, 7, 500), run_random(&config, 7, 500));
        assert_ne!(run_random(&config, 7, 500), run_random(&config, 8, 500));
    }
}

#[test]
fn what_was_not_allocated_cannot_be_freed() {
    for policy in LinuxPolicy::ALL {
        let mut zone = LinuxBuddy::new(&LinuxBuddyConfig::new(policy, 2048)).unwrap();
        let block = zone.alloc(CPU, order(3), Movable).unwrap();
        let mut refused = |frame, order_| zone.free(CPU, frame, order(order_)).is_err();
        assert!(refused(Frame(block.0 + 8), 0), "never allocated");
        assert!(refused(block, 4), "more than was allocated");
        assert!(refused(Frame(block.0 + 1), 1), "not aligned");
        assert!(refused(Frame(2048), 0), "past the end");
        assert!(refused(Frame(u64::MAX), 0), "far past the end");
        assert!(refused(Frame(0), 11), "no such order");
        assert!(!refused(block, 3));
        assert!(refused(block, 3), "twice");
        zone.verify().unwrap();
    }
}

#[test]
fn parts_of_a_block_are_freed_in_any_order() {
    for policy in LinuxPolicy::ALL {
        let mut zone = LinuxBuddy::new(&LinuxBuddyConfig::new(policy, 2048)).unwrap();
        let start = zone.alloc(CPU, order(9), Movable).unwrap().0;
        for offset in (0..512).step_by(2).chain((1..512).step_by(2)) {
            let part = Frame(start + (offset * 17) % 512);
            zone.free(CPU, part, Order::ZERO).unwrap();
            assert!(zone.free(CPU, part, Order::ZERO).is_err());
        }
        zone.verify().unwrap();
        zone.drain();
        assert_eq!(zone.free_blocks().iter().map(|mt| mt[10]).sum::<u64>(), 2);
    }
}

#[test]
fn a_block_is_taken_where_it_is_asked_for_if_it_is_free() {
    for policy in LinuxPolicy::ALL {
        let mut zone = LinuxBuddy::new(&LinuxBuddyConfig::new(policy, 2048)).unwrap();
        assert!(zone.alloc_at(Frame(1000), order(3), Unmovable));
        assert!(!zone.alloc_at(Frame(1007), order(0), Unmovable), "taken");
        assert!(
            !zone.alloc_at(Frame(992), order(4), Unmovable),
            "partly taken"
        );
        assert!(
            !zone.alloc_at(Frame(1001), order(1), Unmovable),
            "not aligned"
        );
        assert!(
            !zone.alloc_at(Frame(2048), order(0), Unmovable),
            "past the end"
        );
        assert!(zone.alloc_at(Frame(1008), order(4), Movable));
        assert!(zone.alloc_at(Frame(992), order(3), Reclaimable));
        zone.verify().unwrap();
        let free: u64 = zone.free_blocks().iter().map(|mt| mt[9]).sum();
        assert_eq!(free, 1, "the pageblock beside it is whole");
        // Also where the frames lie in a CPU's list.
        let frame = zone.alloc(CPU, Order::ZERO, Movable).unwrap();
        zone.free(CPU, frame, Order::ZERO).unwrap();
        assert!(zone.alloc_at(frame, Order::ZERO, Movable), "{policy}");
        zone.verify().unwrap();
    }
}
