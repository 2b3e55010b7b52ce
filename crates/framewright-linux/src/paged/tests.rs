//! The test of PG7, which needs the counting allocator of the unit tests.

use super::*;
use crate::gate::allocs_with_a_gate_shut;
use crate::swap::Zram;
use crate::{Host, Options};
use framewright::Context;
use framewright::Order;
use framewright::frame::{FrameSource, ZoneLayout};
use framewright::reclaim::{Ask, Shrink};

#[test]
fn pg7_no_call_allocates_with_the_gate_shut() {
    let layout = ZoneLayout::new(Frame(0), 4096).with_cpus(3);
    let host = Host::fenced(&Options::new(layout)).unwrap();
    let device = Zram::new(2048, 8 << 20);
    let swap = Frontswap::new(&device, 1024);
    let paged = Paged::new(Arc::clone(host.ram_shared()), swap, 300).unwrap();
    std::thread::scope(|scope| {
        let pager = scope.spawn(|| {
            paged.serve(&mut host.seat().unwrap()).unwrap();
            allocs_with_a_gate_shut()
        });
        paged.await_pager().unwrap();
        let mut seat = host.seat().unwrap();
        // Frames as calls leave them that have unwound.
        let leave_frames = |seat: &mut framewright::frame::Seat<'_, '_, _>| {
            for _ in 0..3 {
                let frame = seat.alloc_frame().unwrap();
                paged.spare().push(frame);
                let frame = seat.alloc_frame().unwrap();
                paged.evictor().frames.push(frame);
            }
        };
        for round in 0..3 {
            for page in 0..1024 {
                paged.write(page * 4096, &[round; 8]).unwrap();
            }
            leave_frames(&mut seat);
            let ask = Ask {
                wanted: 100,
                scan: 1000,
                order: Order::ZERO,
                context: Context::ANY,
            };
            assert!(paged.shrink(&mut seat, &ask).freed >= 100);
            for page in 0..200 {
                paged.write(page * 4096, &[round; 8]).unwrap();
            }
            drop(paged.pin(0..100, true).unwrap());
            paged.sync().unwrap();
            leave_frames(&mut seat);
            paged.discard(0..400, &mut seat).unwrap();
        }
        paged.verify().unwrap();
        paged.stop();
        assert_eq!(pager.join().unwrap(), 0, "PG7: of the pager");
        paged.discard(0..1024, &mut seat).unwrap();
    });
    assert_eq!(allocs_with_a_gate_shut(), 0, "PG7");
    assert_eq!(host.zone().recount().allocated.iter().sum::<u64>(), 0);
}
