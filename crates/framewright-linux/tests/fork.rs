//! A forked process can do nothing to its parent's memory: its calls return errors, and touching
//! the memory ends it.

// A child faults on purpose, which the thread sanitizer reports as its own end.
#![cfg(not(tsan))]

mod told;

use framewright::frame::ZoneLayout;
use framewright::kv::{KvRequest, Memory};
use framewright::platform::{MapError, RangePlatform};
use framewright::vrange::AreaRequest;
use framewright::{Frame, Mobility, Order, PageAccess, PageRange};
use framewright_linux::file_cache::{FileCache, FileError, FileOptions};
use framewright_linux::paged::Paged;
use framewright_linux::swap::{Frontswap, SwapDevice, SwapOp, Zram};
use framewright_linux::{
    Anon, Heap, HeapError, HeapOptions, Host, HostError, HostKv, HostSpace, Options, SlotError,
    SwapFile,
};
use std::alloc::{GlobalAlloc, Layout};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use told::ToldDevice;

/// How a child ended.
#[derive(PartialEq, Eq, Debug)]
enum ChildEnd {
    Said(i32),
    Signal(i32),
}

/// Runs `work` in a child: it says a number, or ends by a signal. A panic is 99.
fn in_child(work: impl FnOnce() -> i32) -> ChildEnd {
    // SAFETY: the child does what each test says, and ends without returning.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork: {}", std::io::Error::last_os_error());
    if child == 0 {
        // What ends it is not written down anywhere.
        let none = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: of the child alone.
        unsafe {
            libc::setrlimit(libc::RLIMIT_CORE, &none);
            libc::alarm(20);
        }
        let said = catch_unwind(AssertUnwindSafe(work)).unwrap_or(99);
        // SAFETY: the child's end; no destructor runs.
        unsafe { libc::_exit(said) };
    }
    let mut status = 0;
    // SAFETY: the child of this thread, and `status` is written to.
    let waited = unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(waited, child);
    if libc::WIFSIGNALED(status) {
        ChildEnd::Signal(libc::WTERMSIG(status))
    } else {
        ChildEnd::Said(libc::WEXITSTATUS(status))
    }
}

const FAULT: ChildEnd = ChildEnd::Signal(libc::SIGSEGV);

fn options() -> Options {
    Options::new(ZoneLayout::new(Frame(0), 4096).with_cpus(4))
}

#[test]
fn a_child_gets_no_seat_of_its_parents_host_and_makes_one_of_its_own() {
    let host = HostKv::fenced(&options().with_window(4096)).unwrap();
    drop(host.cpu().unwrap());
    let said = in_child(|| {
        let refused = [
            host.cpu().map(drop).unwrap_err(),
            host.seat().map(drop).unwrap_err(),
        ];
        assert_eq!(refused, [SlotError::Forked; 2]);
        let own = HostKv::fenced(&options().with_window(4096)).unwrap();
        let mut seat = own.cpu().unwrap();
        let object = seat.kmalloc(&KvRequest::new(64)).unwrap();
        seat.kvfree(object).unwrap();
        // A child of the child's.
        assert_eq!(
            in_child(|| i32::from(own.cpu().is_err())),
            ChildEnd::Said(1)
        );
        drop(seat);
        drop(own);
        7
    });
    assert_eq!(said, ChildEnd::Said(7));
    assert_eq!(
        SlotError::Forked.to_string(),
        "the host is the parent's: this process was forked off from it"
    );
    let mut seat = host.cpu().unwrap();
    let object = seat.kmalloc(&KvRequest::new(64)).unwrap();
    seat.kvfree(object).unwrap();
    drop(seat);
    host.zone().verify().unwrap();
}

#[test]
fn a_child_that_uses_a_seat_or_touches_memory_of_its_parents_ends_and_the_parent_keeps_its_contents()
 {
    let host = HostSpace::fenced(&options().with_window(4096)).unwrap();
    let mut seat = host.cpu().unwrap();
    let area = seat.vmalloc(&AreaRequest::new(16).zeroed()).unwrap();
    let frame = seat
        .frames()
        .alloc(0, Order::ZERO, Mobility::Movable)
        .unwrap();
    let bytes: Vec<u8> = (0..65_536u32)
        .map(|nth| nth as u8 ^ (nth >> 8) as u8)
        .collect();
    host.window().write(area, 0, &bytes).unwrap();
    host.ram().write(frame, &[5; 4096]).unwrap();
    let address = host.window().address(area).unwrap();
    let window = host.window();
    // A seat that it had, by each of its layers.
    assert_eq!(
        in_child(|| seat.vmalloc(&AreaRequest::new(16)).is_ok().into()),
        FAULT
    );
    assert_eq!(in_child(|| seat.vfree(area).is_ok().into()), FAULT);
    let mut alloc = || seat.frames().alloc(0, Order::ZERO, Mobility::Movable);
    assert_eq!(in_child(|| alloc().is_ok().into()), FAULT);
    // Memory.
    assert_eq!(
        in_child(|| host.ram().write(frame, &[6; 4096]).is_ok().into()),
        FAULT
    );
    for (nth, is_write) in [(0, true), (15, true), (7, false)] {
        let touched = in_child(|| {
            let at = address.wrapping_add(nth * 4096);
            // SAFETY: not mapped, as is to be seen.
            unsafe {
                if is_write {
                    at.write_volatile(0xee);
                }
                at.read_volatile().into()
            }
        });
        assert_eq!(touched, FAULT);
    }
    // Calls of the kernel's.
    let said = in_child(|| {
        let mut read = [0; 16];
        assert!(window.read(area, 0, &mut read).is_err());
        assert!(window.write(area, 0, &[1; 16]).is_err());
        let pages = PageRange::new(area, 1).unwrap();
        let refused = Err(MapError::Refused(libc::EPERM));
        assert_eq!(window.unmap(pages), refused);
        let run = framewright::Run::new(frame, 1).unwrap();
        assert_eq!(window.map(area, run, PageAccess::DATA, &mut ()), refused);
        3
    });
    assert_eq!(said, ChildEnd::Said(3));
    let mut now = vec![0; bytes.len()];
    host.window().read(area, 0, &mut now).unwrap();
    assert_eq!(now, bytes, "all 65,536 bytes are the parent's");
    let mut words = [0; 4096];
    host.ram().read(frame, &mut words).unwrap();
    assert_eq!(words, [5; 4096]);
    assert_eq!(seat.vfree(area), Ok(16));
    seat.frames().free(frame, Order::ZERO).unwrap();
    drop(seat);
    host.space().verify().unwrap();
    host.zone().verify().unwrap();
}

#[test]
fn a_child_that_touches_a_region_ends_and_does_not_wait() {
    let host = Host::fenced(&options()).unwrap();
    let mut seat = host.seat().unwrap();
    let anon = Anon::new(Arc::clone(host.ram_shared()), 1024).unwrap();
    let page = anon.range().start();
    let one = PageRange::new(page, 1).unwrap();
    anon.populate(&mut seat, one, Order::ZERO).unwrap();
    let word = anon.address(page).unwrap().cast::<u64>();
    // SAFETY: populated, and no other thread uses it.
    unsafe { word.write(42) };
    let touched = in_child(|| {
        // SAFETY: not mapped, as is to be seen.
        unsafe { word.write_volatile(43) };
        0
    });
    assert_eq!(touched, FAULT);
    // SAFETY: as above.
    assert_eq!(unsafe { word.read_volatile() }, 42);
    anon.discard(&mut seat, one).unwrap();
}

#[test]
fn a_child_writes_nothing_to_its_parents_swap_file() {
    let folder = std::env::temp_dir().join(format!("framewright-fork-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let device = SwapFile::create(&folder.join("swap"), 64).unwrap();
    let swap = Frontswap::new(&device, 10);
    swap.store(&[1], &[[1; 512]]).unwrap();
    let said = in_child(|| {
        let (_, error) = swap.store(&[1], &[[2; 512]]).unwrap_err();
        let what = "page 1: the swap file is the parent's: this process was forked off from it";
        i32::from(error.to_string() == what)
    });
    assert_eq!(said, ChildEnd::Said(1));
    let mut page = [0; 512];
    device.read(0, &mut page).unwrap();
    assert_eq!(page, [1; 512]);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_child_reads_its_parents_heap_and_changes_nothing_there() {
    let heap = match Heap::try_new(HeapOptions::new(64 << 20)) {
        // No membarrier: no heap.
        Err(HostError::NoMembarrier) => return,
        made => made.unwrap(),
    };
    let layouts = [64, 2 << 20].map(|bytes| Layout::from_size_align(bytes, 16).unwrap());
    // SAFETY: neither layout is empty.
    let objects = layouts.map(|layout| unsafe { GlobalAlloc::alloc(&heap, layout) });
    for at in objects {
        assert!(heap.contains(at));
        // SAFETY: as long as that at least.
        unsafe { at.cast::<u64>().write(0x5a5a) };
    }
    let word = |nth: usize| objects[nth].cast::<u64>();
    let said = in_child(|| {
        for nth in 0..2 {
            // SAFETY: the heap's memory can be read.
            assert_eq!(unsafe { word(nth).read_volatile() }, 0x5a5a);
        }
        let refused = Memory::alloc(&heap, layouts[0], false).unwrap_err();
        assert_eq!(refused, HeapError::Forked);
        assert!(heap.stats().is_none());
        for layout in layouts {
            // SAFETY: not empty; the object is the system's, and freed once.
            unsafe {
                let at = GlobalAlloc::alloc(&heap, layout);
                assert!(!at.is_null() && !heap.contains(at));
                at.write(1);
                heap.dealloc(at, layout);
            }
        }
        // SAFETY: an object of the heap's, which is left alone; the new one is the system's.
        let moved = unsafe { heap.realloc(objects[0], layouts[0], 128) };
        // SAFETY: as long as that.
        assert_eq!(unsafe { moved.cast::<u64>().read() }, 0x5a5a);
        4
    });
    assert_eq!(said, ChildEnd::Said(4));
    for nth in 0..2 {
        let touched = in_child(|| {
            // SAFETY: not to be written to, as is to be seen.
            unsafe { word(nth).write_volatile(1) };
            0
        });
        assert_eq!(touched, FAULT);
        // SAFETY: the test's own.
        assert_eq!(unsafe { word(nth).read_volatile() }, 0x5a5a);
    }
    for (at, layout) in objects.into_iter().zip(layouts) {
        // SAFETY: allocated above, and freed once.
        unsafe { heap.dealloc(at, layout) };
    }
    let stats = heap.stats().unwrap();
    assert_eq!((stats.lost_frees, stats.objects.bad_frees), (0, 0));
}

/// A thread that makes a heap is not in the child, so a child must not wait for it.
#[test]
fn a_child_forked_while_another_thread_makes_a_heap_does_not_wait_for_it() {
    for round in 0..100u32 {
        let heap = Heap::new(HeapOptions::new(64 << 20).with_threads(64));
        let ready = std::sync::Barrier::new(2);
        let end = std::thread::scope(|scope| {
            scope.spawn(|| {
                ready.wait();
                heap.set_up().unwrap();
            });
            ready.wait();
            for _ in 0..round * 50 {
                std::hint::spin_loop();
            }
            in_child(|| {
                let layout = Layout::new::<[u64; 8]>();
                // SAFETY: the layout is not empty, and the object is freed once.
                let at = unsafe { GlobalAlloc::alloc(&heap, layout) };
                i32::from(at.is_null())
            })
        });
        assert_eq!(end, ChildEnd::Said(0), "round {round}");
    }
}

#[test]
fn y2_a_child_drops_a_region_in_whose_handler_a_thread_of_its_parents_was() {
    let host = Host::fenced(&options()).unwrap();
    let (reads, may_read) = (AtomicU64::new(0), AtomicBool::new(false));
    let device = ToldDevice {
        device: Zram::new(64, 1 << 20),
        before: |op| {
            let is_read = op == SwapOp::Read;
            reads.fetch_add(is_read.into(), SeqCst);
            while is_read && !may_read.load(SeqCst) {
                std::thread::yield_now();
            }
        },
    };
    let swap = Frontswap::new(&device, 16);
    swap.store(&[5], &[[3; 512]]).unwrap();
    let paged = Paged::new(Arc::clone(host.ram_shared()), swap, 8).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| paged.serve(&mut host.seat().unwrap()));
        paged.await_pager().unwrap();
        let page = paged.address(5).unwrap().addr();
        // SAFETY: in the region, which lives, and which no other thread uses.
        let touching = scope.spawn(move || unsafe { (page as *const u64).read_volatile() });
        while reads.load(SeqCst) == 0 {
            std::thread::yield_now();
        }
        // The thread is in the handler, and stays there. A child has no such thread.
        let said = in_child(|| {
            // SAFETY: the child's copy; it never comes to the parent's drop, because it ends without returning.
            drop(unsafe { std::ptr::read(&paged) });
            let own = Host::fenced(&options()).unwrap();
            let anon = Anon::new(Arc::clone(own.ram_shared()), 16).unwrap();
            drop(anon);
            7
        });
        may_read.store(true, SeqCst);
        assert_eq!(touching.join().unwrap(), 3);
        paged.stop();
        assert_eq!(said, ChildEnd::Said(7));
    });
    let mut seat = host.seat().unwrap();
    paged.discard(0..16, &mut seat).unwrap();
}

#[test]
fn y2_a_child_neither_reads_nor_writes_nor_drops_its_parents_files() {
    let path = std::env::temp_dir().join(format!("framewright-fork-files-{}", std::process::id()));
    std::fs::write(&path, vec![1; 8192]).unwrap();
    let host = Host::fenced(&options()).unwrap();
    let mut seat = host.seat().unwrap();
    let cache = FileCache::new(Arc::clone(host.ram_shared()), None, FileOptions::default());
    let file = cache.create(&path).unwrap();
    cache.write(&mut seat, &file, 100, &[2; 300]).unwrap();
    let said = in_child(|| {
        let mut bytes = [0; 10];
        let refused = [
            cache.read(&mut seat, &file, 0, &mut bytes).map(drop),
            cache.write(&mut seat, &file, 0, &bytes).map(drop),
            cache.truncate(&file, 1),
            cache.refresh(&file),
            cache.sync(&file),
            cache.pin(&mut seat, &file, 0).map(drop),
        ];
        assert_eq!(refused, [Err(FileError::Forked); 6]);
        assert!(cache.create(&path).is_err());
        assert!(!cache.write_behind(0, 0));
        assert_eq!(cache.clear(&mut seat), 1);
        // SAFETY: the child's copies; it never comes to the parent's drops, because it ends without returning.
        unsafe {
            drop(std::ptr::read(&file));
            drop(std::ptr::read(&cache));
        }
        7
    });
    assert_eq!(said, ChildEnd::Said(7));
    assert_eq!(
        std::fs::read(&path).unwrap(),
        [1; 8192],
        "nothing was written"
    );
    cache.sync(&file).unwrap();
    assert_eq!(std::fs::read(&path).unwrap()[100..400], [2; 300]);
    assert_eq!(cache.clear(&mut seat), 0);
    std::fs::remove_file(&path).unwrap();
}
