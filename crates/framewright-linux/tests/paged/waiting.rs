//! A caller that wants a frame waits for the page in it.

use crate::machine::{host, load, served, store};
use framewright::reclaim::{Ask, Shrink};
use framewright::{Context, Frame, Order};
use framewright_linux::paged::Paged;
use framewright_linux::swap::{Frontswap, SwapDevice, Zram};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// A device with writes that wait until they are let through.
struct HeldWrites<'d> {
    device: &'d dyn SwapDevice,
    is_open: Mutex<bool>,
    opened: Condvar,
    writes: AtomicU64,
}

impl SwapDevice for HeldWrites<'_> {
    fn slots(&self) -> u64 {
        self.device.slots()
    }

    fn write(&self, slot: u64, page: &[u64; 512]) -> io::Result<()> {
        self.writes.fetch_add(1, Relaxed);
        let is_open = self.is_open.lock().unwrap();
        drop(
            self.opened
                .wait_while(is_open, |is_open| !*is_open)
                .unwrap(),
        );
        self.device.write(slot, page)
    }

    fn read(&self, slot: u64, page: &mut [u64; 512]) -> io::Result<()> {
        self.device.read(slot, page)
    }

    fn discard(&self, slot: u64) {
        self.device.discard(slot);
    }

    fn sync(&self) -> io::Result<()> {
        self.device.sync()
    }

    fn bytes_written(&self) -> u64 {
        self.device.bytes_written()
    }

    fn in_use(&self) -> &AtomicBool {
        self.device.in_use()
    }
}

#[test]
fn who_wants_a_frame_empty_waits_until_its_page_is_swapped_out() {
    let host = host();
    let zram = Zram::new(64, 1 << 20);
    let device = HeldWrites {
        device: &zram,
        is_open: Mutex::new(false),
        opened: Condvar::new(),
        writes: AtomicU64::new(0),
    };
    let swap = Frontswap::new(&device, 16);
    let paged = Paged::new(Arc::clone(host.ram_shared()), swap, 16).unwrap();
    served(&host, &paged, || {
        store(&paged, 0, 0, 42);
        let frame = paged.frame_of(0).unwrap();
        assert!(!paged.await_frame(frame), "it is not on its way");
        assert!(!paged.await_frame(Frame(1 << 40)));
        let (is_free, is_waiting) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            let sync = scope.spawn(|| paged.sync().unwrap());
            while device.writes.load(Relaxed) == 0 {
                thread::yield_now();
            }
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
            *device.is_open.lock().unwrap() = true;
            device.opened.notify_all();
            waiter.join().unwrap();
            sync.join().unwrap();
        });
        assert_eq!(load(&paged, 0, 0), 42);
    });
}

#[test]
fn who_asks_for_all_pages_waits_for_the_thread_that_evicts_and_others_do_not() {
    let host = host();
    let zram = Zram::new(256, 1 << 20);
    let device = HeldWrites {
        device: &zram,
        is_open: Mutex::new(false),
        opened: Condvar::new(),
        writes: AtomicU64::new(0),
    };
    let swap = Frontswap::new(&device, 128);
    let paged = Paged::new(Arc::clone(host.ram_shared()), swap, 128).unwrap();
    served(&host, &paged, || {
        (0..128).for_each(|page| store(&paged, page, 0, page + 1));
        let freed = |scan, context| {
            let ask = Ask {
                wanted: 4,
                scan,
                order: Order::ZERO,
                context,
            };
            paged.shrink(&mut host.seat().unwrap(), &ask).freed
        };
        let is_waiting = AtomicBool::new(false);
        thread::scope(|scope| {
            let first = scope.spawn(|| freed(128, Context::ANY));
            while device.writes.load(Relaxed) == 0 {
                thread::yield_now();
            }
            // The first one evicts, and waits for the device.
            assert_eq!(freed(128, Context::NOIO), 0);
            assert_eq!(freed(128, Context::NOWAIT), 0);
            assert_eq!(freed(16, Context::ANY), 0, "others are to be asked first");
            let second = scope.spawn(|| {
                is_waiting.store(true, Relaxed);
                freed(128, Context::ANY)
            });
            while !is_waiting.load(Relaxed) {
                thread::yield_now();
            }
            thread::sleep(Duration::from_millis(20));
            *device.is_open.lock().unwrap() = true;
            device.opened.notify_all();
            assert!(first.join().unwrap() >= 4);
            assert!(second.join().unwrap() >= 4, "pages stand, and none went");
        });
        (0..128).for_each(|page| assert_eq!(load(&paged, page, 0), page + 1));
    });
}
