//! A request for a run whose wait unwinds.

use super::*;
use crate::reclaim::Clients;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The wait unwinds out of each of several requests for a run: the next one gives the loose block of the last back, before
/// it has one itself.
#[test]
fn f1_no_request_for_a_run_forgets_the_loose_block_of_the_last_one() {
    let order = Order::new(3).unwrap();
    let config = Config {
        cache_permille: 100,
        ..Config::default()
    };
    let layout = EngineLayout::new(Frame(0), 4096)
        .with_cpus(2)
        .with_config(config);
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let engine = Engine::new(&layout, &mut memory, TestBoard::default()).unwrap();
    engine.add(run(0, 4096)).unwrap();
    let [zone] = engine.zones();
    // A CPU with clients looks at the watermarks first, and leaves its seat in between.
    let mut cpu = engine.cpu(CpuId(0)).unwrap().with_clients([Clients::NONE]);
    let blocks = [0; 3].map(|_| cpu.alloc(order, Mobility::Unmovable, Context::ANY).unwrap());
    blocks
        .iter()
        .for_each(|&block| cpu.free(block, order).unwrap());
    // Another CPU works in the pageblock of the cached blocks, and each request waits for it to cut one.
    zone.while_locked(blocks[0], || {
        for nth in 0..3 {
            let asked = || cpu.alloc_run(5, 1, Mobility::Unmovable, Context::NOWAIT);
            let unwound = catch_unwind(AssertUnwindSafe(asked));
            assert!(unwound.is_err(), "request {nth} cuts no cached block");
        }
    });
    drop(cpu);
    zone.drain();
    zone.verify().unwrap();
    assert_eq!(zone.recount().free, 4096);
}
