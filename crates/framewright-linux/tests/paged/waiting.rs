//! A caller that wants a frame waits for the page in it.

use crate::machine::{host, load, served, store, with_reserve};
use crate::told::ToldDevice;
use framewright::reclaim::{Ask, Shrink};
use framewright::{Context, Frame, Order};
use framewright_linux::Host;
use framewright_linux::paged::Paged;
use framewright_linux::swap::{Frontswap, SwapOp, SwapPolicy, Zram};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// Where the writes of a device wait until they are let through.
#[derive(Default)]
struct WriteGate {
    is_open: Mutex<bool>,
    opened: Condvar,
    writes: AtomicU64,
}

impl WriteGate {
    fn before(&self, op: SwapOp) {
        if op == SwapOp::Write {
            self.writes.fetch_add(1, Relaxed);
            let is_open = self.is_open.lock().unwrap();
            let opened = self.opened.wait_while(is_open, |is_open| !*is_open);
            drop(opened.unwrap());
        }
    }

    /// Until a thread writes, which waits then.
    fn await_write(&self) {
        while self.writes.load(Relaxed) == 0 {
            thread::yield_now();
        }
    }

    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

/// A region of this many pages, all of which have frames at a time, and whose writes wait.
fn held_writes(pages: u64, work: impl FnOnce(&Host<()>, &Paged<'_>, &WriteGate)) {
    let (host, gate) = (host(), &WriteGate::default());
    let device = ToldDevice {
        device: Zram::new(2 * pages, 1 << 20),
        before: |op| gate.before(op),
    };
    let swap = Frontswap::new(&device, pages);
    let paged = Paged::new(Arc::clone(host.ram_shared()), swap, pages).unwrap();
    served(&host, &paged, || work(&host, &paged, gate));
}

#[test]
fn a_thread_that_wants_a_frame_empty_waits_until_its_page_is_swapped_out() {
    held_writes(16, |_, paged, gate| {
        store(paged, 0, 0, 42);
        let frame = paged.frame_of(0).unwrap();
        assert!(!paged.await_frame(frame), "it is not on its way");
        assert!(!paged.await_frame(Frame(1 << 40)));
        let (is_free, is_waiting) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            let sync = scope.spawn(|| paged.sync().unwrap());
            gate.await_write();
            let waiter = scope.spawn(|| {
                is_waiting.store(true, Relaxed);
                assert!(paged.await_frame(frame), "there was something to wait for");
                assert!(is_free.load(Relaxed), "it was still being written");
            });
            while !is_waiting.load(Relaxed) {
                thread::yield_now();
            }
            // A thread that does not wait is done by then; one that comes later finds it written,
            // and reports that.
            thread::sleep(Duration::from_millis(20));
            is_free.store(true, Relaxed);
            gate.open();
            waiter.join().unwrap();
            sync.join().unwrap();
        });
        assert_eq!(load(paged, 0, 0), 42);
    });
}

/// How many pages go for a request.
fn freed(host: &Host<()>, paged: &Paged<'_>, wanted: u64, scan: u64, context: Context) -> u64 {
    let ask = Ask {
        wanted,
        scan,
        order: Order::ZERO,
        context,
    };
    paged.shrink(&mut host.seat().unwrap(), &ask).freed
}

#[test]
fn a_request_that_may_look_at_half_of_the_pages_waits_for_the_thread_that_evicts_and_others_do_not()
{
    held_writes(128, |host, paged, gate| {
        (0..128).for_each(|page| store(paged, page, 0, page + 1));
        let freed = &|scan, context| freed(host, paged, 4, scan, context);
        thread::scope(|scope| {
            let first = scope.spawn(|| freed(128, Context::ANY));
            gate.await_write();
            // The first one evicts, and waits for the device.
            assert_eq!(freed(128, Context::NOIO), 0);
            assert_eq!(freed(128, Context::NOWAIT), 0);
            assert_eq!(freed(63, Context::ANY), 0, "others are to be asked first");
            assert_eq!(paged.stats().evict_waits, 0);
            let others = [64, 128].map(|scan| scope.spawn(move || freed(scan, Context::ANY)));
            while paged.stats().evict_waits < 2 {
                thread::yield_now();
            }
            gate.open();
            assert_eq!(first.join().unwrap(), 4);
            // What came meanwhile is theirs, too: they evict no pages of their own.
            assert_eq!(others.map(|other| other.join().unwrap()), [4; 2]);
            assert_eq!(paged.stats().evicted, 4);
        });
        (0..128).for_each(|page| assert_eq!(load(paged, page, 0), page + 1));
    });
}

#[test]
fn of_a_single_page_half_is_that_page_and_a_request_that_may_look_at_none_does_not_wait() {
    held_writes(16, |host, paged, gate| {
        store(paged, 0, 0, 42);
        let freed = &|scan| freed(host, paged, 1, scan, Context::ANY);
        thread::scope(|scope| {
            let first = scope.spawn(|| freed(1));
            gate.await_write();
            assert_eq!(freed(0), 0);
            assert_eq!(paged.stats().evict_waits, 0);
            let second = scope.spawn(|| freed(1));
            while paged.stats().evict_waits == 0 {
                thread::yield_now();
            }
            gate.open();
            assert_eq!([first, second].map(|one| one.join().unwrap()), [1; 2]);
        });
        assert_eq!(load(paged, 0, 0), 42);
    });
}

#[test]
fn a_sync_waits_for_another_thread_that_cleans() {
    with_reserve(512, |_, guests, pool| {
        let gate = &WriteGate::default();
        let device = ToldDevice {
            device: Zram::new(64, 1 << 20),
            before: |op| gate.before(op),
        };
        let policy = SwapPolicy::WriteBack { dirty_max: 16 };
        let swap = Frontswap::new(&device, 16).with_store(guests, pool, 0, policy);
        swap.store(&[1, 2, 3], &[[7; 512]; 3]).unwrap();
        thread::scope(|scope| {
            let cleaner = scope.spawn(|| swap.clean(1));
            gate.await_write();
            // While that one is at work, no other thread can clean.
            let sync = scope.spawn(|| swap.sync());
            thread::sleep(Duration::from_millis(100));
            assert!(!sync.is_finished());
            gate.open();
            assert_eq!(cleaner.join().unwrap(), 1);
            assert_eq!(sync.join().unwrap(), Ok(0));
        });
        assert_eq!(swap.dirty_pages(), 0);
    });
}
