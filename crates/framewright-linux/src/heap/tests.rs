//! Tests of the heap beside the system's allocator: threads without a seat, threads that end, heaps that go while
//! seats are kept.

// UNSAFETY: the tests call an allocator, and use the memory that it hands out.

use super::*;
use framewright::kv::{KVBox, KVVec, KvError};
use framewright::policy::Effort;
use framewright::{Context, kv};
use std::alloc::{GlobalAlloc, Layout};
use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::{Barrier, Weak, mpsc};
use std::thread;

/// A heap of `frames` frames; `None`, with a line that says so, where there is no membarrier.
fn heap(frames: u64, threads: u16) -> Option<Heap> {
    match Heap::try_new(HeapOptions::new(frames * 4096).with_threads(threads)) {
        Ok(heap) => Some(heap),
        Err(error @ HostError::NoMembarrier) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn layout(bytes: usize, align: usize) -> Layout {
    Layout::from_size_align(bytes, align).unwrap()
}

/// Fills an object that is this test's.
fn fill(at: *mut u8, bytes: usize, value: u8) {
    assert!(!at.is_null());
    // SAFETY: as long as that, and the test's own.
    unsafe { at.write_bytes(value, bytes) };
}

fn is_filled(at: *const u8, bytes: usize, value: u8) -> bool {
    // SAFETY: as long as that, filled before, and the test's own.
    let bytes = unsafe { std::slice::from_raw_parts(at, bytes) };
    bytes.iter().all(|byte| *byte == value)
}

/// The objects handed out and not given back.
fn objects(heap: &Heap) -> i64 {
    let stats = heap.stats().unwrap().objects;
    let areas = heap.made().unwrap().kv().space().stats();
    let allocs = stats.slab_allocs + stats.run_allocs + areas.area_allocs;
    let frees = stats.slab_frees + stats.run_frees + areas.area_frees;
    allocs as i64 - frees as i64
}

#[test]
fn objects_of_all_sizes_keep_their_bytes_and_are_aligned() {
    let Some(heap) = heap(4096, 2) else { return };
    let mut live = Vec::new();
    let sizes = [1, 8, 63, 64, 65, 1000, 4096, 4097, 65536, 5 << 20];
    for (nth, bytes) in sizes.into_iter().enumerate() {
        for align in [1, 16, 64, 4096, 65536] {
            let layout = layout(bytes, align);
            // SAFETY: more than 0 bytes.
            let at = unsafe { heap.alloc(layout) };
            assert!(at.addr().is_multiple_of(align), "{layout:?} at {at:p}");
            assert!(heap.contains(at) || bytes > 4 << 20);
            fill(at, bytes, nth as u8 + 1);
            live.push((at, layout, nth as u8 + 1));
        }
    }
    // 4 to 5 MiB of these five were more than there is: those are the system's.
    let stats = heap.stats().unwrap();
    assert!(
        stats.system_allocs > 0 && stats.system_allocs < 5,
        "{stats:?}"
    );
    for (at, layout, value) in live {
        assert!(is_filled(at, layout.size(), value), "{layout:?}");
        // SAFETY: allocated above with this layout.
        unsafe { heap.dealloc(at, layout) };
    }
    assert_eq!(objects(&heap), 0);
    assert_eq!(heap.stats().unwrap().lost_frees, 0);
}

#[test]
fn zeroed_memory_is_zero_and_a_change_of_length_keeps_the_bytes() {
    let Some(heap) = heap(4096, 1) else { return };
    for round in 0..3 {
        let mut bytes = 10;
        // SAFETY: more than 0 bytes.
        let mut at = unsafe { heap.alloc_zeroed(layout(bytes, 8)) };
        assert!(is_filled(at, bytes, 0), "round {round}");
        for new in [100, 5000, 70_000, 6 << 20, 70_000, 300, 3] {
            fill(at, bytes, 7);
            // SAFETY: allocated with this layout, and the new length is not 0.
            at = unsafe { heap.realloc(at, layout(bytes, 8), new) };
            assert!(is_filled(at, bytes.min(new), 7), "{bytes} to {new}");
            bytes = new;
        }
        // SAFETY: allocated with this layout.
        unsafe { heap.dealloc(at, layout(bytes, 8)) };
        // SAFETY: more than 0 bytes; and it was allocated with this layout.
        unsafe {
            let at = heap.alloc(layout(50_000, 8));
            fill(at, 50_000, 0xee);
            heap.dealloc(at, layout(50_000, 8));
            let at = heap.alloc_zeroed(layout(50_000, 8));
            assert!(is_filled(at, 50_000, 0));
            heap.dealloc(at, layout(50_000, 8));
        }
    }
    assert_eq!(objects(&heap), 0);
    assert_eq!(heap.stats().unwrap().system_allocs, 0);
}

#[test]
fn what_the_engine_has_no_memory_for_is_the_systems() {
    let Some(heap) = heap(1024, 1) else { return };
    let all = layout(1 << 20, 4096);
    let mut live = Vec::new();
    for value in 0..8 {
        // SAFETY: more than 0 bytes.
        let at = unsafe { heap.alloc(all) };
        fill(at, all.size(), value);
        live.push(at);
    }
    let ours = live.iter().filter(|at| heap.contains(**at)).count();
    assert!((1..=4).contains(&ours), "{ours} MiB of 4");
    let stats = heap.stats().unwrap();
    assert_eq!(stats.system_allocs, 8 - ours as u64);
    // An object that grows and finds no memory goes there too, with its bytes; an object that is
    // there stays there.
    for (value, at) in live.iter_mut().enumerate() {
        // SAFETY: allocated above with this layout.
        *at = unsafe { heap.realloc(*at, all, 8 << 20) };
        assert!(!heap.contains(*at));
        assert!(is_filled(*at, all.size(), value as u8));
        // SAFETY: as above.
        unsafe { heap.dealloc(*at, layout(8 << 20, 4096)) };
    }
    assert_eq!(objects(&heap), 0);
}

#[test]
fn where_there_can_be_no_heap_the_system_serves_and_owners_get_the_reason() {
    let heap = Heap::new(HeapOptions {
        frames: 0,
        ..HeapOptions::new(0)
    });
    assert_eq!(heap.stats(), None);
    // SAFETY: more than 0 bytes; then allocated with this layout.
    unsafe {
        let at = heap.alloc_zeroed(layout(100, 8));
        assert!(!heap.contains(at) && is_filled(at, 100, 0));
        let at = heap.realloc(at, layout(100, 8), 200);
        assert!(is_filled(at, 100, 0));
        heap.dealloc(at, layout(200, 8));
        let at = heap.alloc(layout(100, 8));
        heap.dealloc(at, layout(100, 8));
    }
    let error = heap.set_up().unwrap_err();
    let refused = KVBox::try_new(5, heap.contiguous()).unwrap_err();
    assert_eq!((refused.value, refused.error), (5, HeapError::Host(error)));
    assert_eq!(refused.to_string(), format!("there is no heap: {error}"));
}

#[test]
fn a_heap_has_a_frame_for_each_thread_and_one_more_and_says_so() {
    let message = |frames: u64, threads| {
        let options = HeapOptions::new(frames * 4096).with_threads(threads);
        Heap::try_new(options).unwrap_err().to_string()
    };
    for threads in [0, 1023, u16::MAX] {
        let expected = format!("a heap for {threads} threads: 1 to 1022 are possible");
        assert_eq!(message(4096, threads), expected);
    }
    assert_eq!(
        message(63, 63),
        "a heap of 63 frames is too small for 63 threads: at least 64 are needed"
    );
    let Some(small) = heap(64, 63) else { return };
    assert_eq!(*KVBox::try_new(5, small.contiguous()).unwrap(), 5);
}

#[test]
fn a_wrong_free_is_refused_or_ends_the_program_with_its_reason() {
    const CHILD: &str = "FRAMEWRIGHT_TEST_WRONG_FREE";
    if let Ok(what) = std::env::var(CHILD) {
        let heap = heap(1024, 1).unwrap();
        // SAFETY: more than 0 bytes; then requests that the heap refuses, which are the subject of
        // this test.
        unsafe {
            let at = heap.alloc(layout(100, 8));
            heap.dealloc(at, layout(100, 8));
            match what.as_str() {
                "free" => heap.dealloc(at, layout(100, 8)),
                _ => _ = heap.realloc(at, layout(100, 8), 5000),
            }
        }
        assert!(heap.stats().unwrap().objects.bad_frees >= 1);
        return;
    }
    if heap(1024, 1).is_none() {
        return;
    }
    for what in ["free", "realloc"] {
        let name = "heap::tests::a_wrong_free_is_refused_or_ends_the_program_with_its_reason";
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, what)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stderr);
        assert_eq!(child.status.success(), !cfg!(debug_assertions), "{said}");
        if cfg!(debug_assertions) {
            assert!(said.contains(&format!("a wrong {what}: ")), "{said}");
            assert!(said.contains("is free already"), "{said}");
        }
    }
}

#[test]
fn mapped_pages_get_what_others_keep_in_slabs() {
    const THREADS: u16 = 20;
    let Some(heap) = heap(1024, THREADS + 1) else {
        return;
    };
    let (heap, all_are_there) = (&heap, &Barrier::new(usize::from(THREADS)));
    thread::scope(|scope| {
        // Each thread keeps an empty slab of each length that it used.
        let worker = || {
            scope.spawn(|| {
                all_are_there.wait();
                for bytes in (100..=2000).step_by(100) {
                    let one = KVVec::<u8, _>::try_with_capacity(bytes, heap).unwrap();
                    drop(one);
                }
                all_are_there.wait();
            })
        };
        let workers = [(); THREADS as usize].map(|()| worker());
        for worker in workers {
            worker.join().unwrap();
        }
    });
    let stats = heap.stats().unwrap();
    assert!(stats.objects.slab_frames > 200, "{stats:?}");
    let frames = stats.free_frames + stats.objects.slab_frames / 2;
    let long = layout(frames as usize * 4096, 4096);
    let hurried = heap.with(Effort::FailFast, Context::NOWAIT);
    let alloc = |heap: &dyn kv::Memory<Error = HeapError>| heap.alloc(long, false);
    let error = alloc(&hurried.mapped()).unwrap_err();
    assert!(matches!(error, HeapError::Objects(KvError::Ranges(_))));
    let at = alloc(&heap.mapped()).unwrap();
    // SAFETY: allocated with this layout.
    unsafe { kv::Memory::free(heap, at, long) };
    assert_eq!(objects(heap), 0);
    // It is longer than the bound on lazy pages, so its free has purged it.
    assert!(heap.stats().unwrap().free_frames >= frames);
    mine::in_seat(heap.made().unwrap(), true, |seat| seat.ranges().drain()).unwrap();
    assert_eq!(heap.stats().unwrap().free_frames, 1024);
}

#[test]
fn threads_without_a_seat_share_one() {
    let Some(heap) = heap(2048, 2) else { return };
    const THREADS: usize = 5;
    let all_are_there = Barrier::new(THREADS);
    thread::scope(|scope| {
        let worker = |value| {
            let (heap, all_are_there) = (&heap, &all_are_there);
            scope.spawn(move || {
                let mut kept: KVVec<KVBox<[u8; 100], _>, _> = KVVec::new(heap);
                kept.try_push(KVBox::try_new([value; 100], heap.contiguous()).unwrap())
                    .unwrap();
                all_are_there.wait();
                for _ in 0..2000 {
                    kept.try_push(KVBox::try_new([value; 100], heap.contiguous()).unwrap())
                        .unwrap();
                    if kept.len() > 50 {
                        kept.truncate(10);
                    }
                    assert!(kept.iter().all(|bytes| **bytes == [value; 100]));
                }
                all_are_there.wait();
            })
        };
        let workers: [_; THREADS] = std::array::from_fn(|nth| worker(nth as u8));
        // A scope's end does not wait for the destructors of its threads' locals, a join does.
        for worker in workers {
            worker.join().unwrap();
        }
    });
    let stats = heap.stats().unwrap();
    assert!(stats.shared_seat >= 3 * 2000, "{stats:?}");
    assert_eq!((objects(&heap), stats.lost_frees), (0, 0));
    // Their seats are free again.
    thread::scope(|scope| {
        scope
            .spawn(|| drop(KVBox::try_new(1, heap.contiguous()).unwrap()))
            .join()
            .unwrap()
    });
    assert_eq!(heap.stats().unwrap().shared_seat, stats.shared_seat);
}

#[test]
fn a_heap_without_a_seat_for_a_thread_takes_it_none_in_others() {
    let (Some(full), Some(other), Some(third)) = (heap(1024, 1), heap(1024, 1), heap(1024, 1))
    else {
        return;
    };
    let shared = |heap: &Heap| heap.stats().unwrap().shared_seat;
    let (has_seat, taken) = mpsc::channel();
    let (go, may_go) = mpsc::channel();
    thread::scope(|scope| {
        let full = &full;
        let owner = scope.spawn(move || {
            drop(KVBox::try_new(1, full.contiguous()).unwrap());
            has_seat.send(()).unwrap();
            may_go.recv().unwrap();
        });
        taken.recv().unwrap();
        for _ in 0..10 {
            drop(KVBox::try_new(1, full.contiguous()).unwrap());
            for _ in 0..5 {
                drop(KVBox::try_new(1, other.contiguous()).unwrap());
            }
        }
        drop(KVBox::try_new(1, third.contiguous()).unwrap());
        assert_eq!((shared(full), shared(&other), shared(&third)), (20, 0, 0));
        go.send(()).unwrap();
        owner.join().unwrap();
    });
    // The seat is free now, and is looked for again after a thousand operations without one.
    for _ in 0..1000 {
        drop(KVBox::try_new(1, full.contiguous()).unwrap());
        drop(KVBox::try_new(1, other.contiguous()).unwrap());
    }
    assert!((20..=1001).contains(&shared(&full)), "{}", shared(&full));
    assert_eq!(shared(&other), 0);
}

#[test]
fn a_request_that_may_not_wait_for_the_shared_seat_is_told() {
    let Some(heap) = heap(1024, 1) else { return };
    let heap = &heap;
    // The only other seat is this thread's.
    drop(KVBox::try_new(1, heap.contiguous()).unwrap());
    let inner = heap.made().unwrap();
    let kept = thread::scope(|scope| {
        let hurried = heap.with(Effort::FailFast, Context::NOWAIT);
        let one = scope.spawn(move || KVBox::try_new(5, hurried.contiguous()).unwrap());
        // The shared seat is free.
        let mut one = one.join().unwrap();
        *one += 1;
        let refused = inner.in_shared_seat(true, |_| {
            let ask = move || {
                let mut long = KVVec::new(hurried);
                (
                    KVBox::try_new(7, hurried.contiguous()).unwrap_err(),
                    long.try_push(1),
                )
            };
            // A thread of its own, because this one has a seat.
            scope.spawn(ask).join().unwrap()
        });
        let (value, grown) = refused.unwrap();
        assert_eq!((value.value, value.error), (7, HeapError::SeatInUse));
        assert_eq!(
            value.to_string(),
            "the thread has no seat of its own in the heap and may not wait for the shared one"
        );
        assert_eq!(grown.unwrap_err().value, 1);
        let patient = scope.spawn(|| KVBox::try_new(8, heap.contiguous()).unwrap());
        (one, patient.join().unwrap())
    });
    assert_eq!((*kept.0, *kept.1), (6, 8));
    drop(kept);
    assert_eq!((objects(heap), heap.stats().unwrap().lost_frees), (0, 0));
}

#[test]
fn a_thread_that_ends_is_served_and_can_free() {
    struct FreesAtTheEnd(&'static Heap, NonNull<u8>, mpsc::Sender<bool>);
    impl Drop for FreesAtTheEnd {
        fn drop(&mut self) {
            // SAFETY: allocated with this layout, and this value's.
            unsafe { self.0.dealloc(self.1.as_ptr(), layout(300, 8)) };
            let own = KVBox::try_new([3u8; 300], self.0.contiguous());
            self.2
                .send(own.is_ok_and(|bytes| *bytes == [3; 300]))
                .unwrap();
        }
    }
    thread_local! {
        static END: RefCell<Option<FreesAtTheEnd>> = const { RefCell::new(None) };
    }
    let Some(heap) = heap(1024, 1) else { return };
    let heap: &'static Heap = Box::leak(Box::new(heap));
    let (found, finds) = mpsc::channel();
    for _ in 0..2 {
        let found = found.clone();
        thread::spawn(move || {
            // Used first, so destroyed last, as std does it; it promises no order.
            END.with(|end| *end.borrow_mut() = None);
            // SAFETY: more than 0 bytes.
            let at = NonNull::new(unsafe { heap.alloc(layout(300, 8)) }).unwrap();
            END.with(|end| *end.borrow_mut() = Some(FreesAtTheEnd(heap, at, found)));
        })
        .join()
        .unwrap();
        assert!(finds.recv().unwrap());
    }
    assert_eq!((objects(heap), heap.stats().unwrap().lost_frees), (0, 0));
}

#[test]
fn what_is_asked_for_inside_the_heap_is_passed_on() {
    let Some(heap) = heap(1024, 1) else { return };
    let before = KVBox::try_new(1u64, heap.contiguous()).unwrap();
    mine::passing_on(|| {
        assert!(mine::is_passing_on());
        // SAFETY: more than 0 bytes; then allocated with this layout.
        unsafe {
            let at = heap.alloc(layout(100, 8));
            assert!(!at.is_null() && !heap.contains(at));
            heap.dealloc(at, layout(100, 8));
        }
        let refused = KVBox::try_new(2, heap.contiguous()).unwrap_err();
        assert_eq!(refused.error, HeapError::Inside);
        assert_eq!(refused.to_string(), "the thread is inside the heap already");
        drop(before);
    });
    assert!(!mine::is_passing_on());
    let stats = heap.stats().unwrap();
    assert_eq!((stats.system_allocs, stats.lost_frees), (1, 1));
    assert_eq!(objects(&heap), 1);
}

#[test]
fn two_heaps_live_side_by_side_and_what_is_dropped_goes() {
    let (Some(one), Some(other)) = (heap(1024, 1), heap(1024, 1)) else {
        return;
    };
    let mut both = (KVVec::new(&one), KVVec::new(&other));
    for number in 0..1000 {
        both.0.try_push(number).unwrap();
        both.1.try_push(number).unwrap();
    }
    assert_eq!(*both.0, *both.1);
    assert!(one.contains(both.0.as_ptr().cast()) && other.contains(both.1.as_ptr().cast()));
    assert!(!one.contains(both.1.as_ptr().cast()));
    drop(both);
    let gone = ram(&one);
    drop(one);
    // This thread still has a seat in it.
    assert!(gone.upgrade().is_none());
    drop(KVBox::try_new(1, other.contiguous()).unwrap());
    let third = heap(1024, 1).unwrap();
    drop(KVBox::try_new(1, third.contiguous()).unwrap());
    assert_eq!((objects(&other), objects(&third)), (0, 0));
}

/// A heap's memory, for as long as it is there.
fn ram(heap: &Heap) -> Weak<crate::Ram> {
    let host = heap.made().unwrap().kv();
    Arc::downgrade(host.ram_shared())
}

#[test]
fn a_heap_goes_at_once_whichever_threads_had_seats_in_it() {
    let Some(lasting) = heap(1024, 2) else { return };
    let (begin, begins) = mpsc::channel::<Arc<Heap>>();
    let (did, done) = mpsc::channel();
    thread::scope(|scope| {
        let lasting = &lasting;
        let worker = scope.spawn(move || {
            for heap in begins {
                // Its seat in `lasting` is the one that it used last.
                drop(KVBox::try_new([1; 50], heap.contiguous()).unwrap());
                drop(KVBox::try_new([1; 50], lasting.contiguous()).unwrap());
                drop(heap);
                did.send(()).unwrap();
            }
        });
        for _ in 0..20 {
            let short = Arc::new(heap(1024, 2).unwrap());
            drop(KVBox::try_new(1, short.contiguous()).unwrap());
            begin.send(Arc::clone(&short)).unwrap();
            done.recv().unwrap();
            let gone = ram(&short);
            assert_eq!(short.stats().unwrap().shared_seat, 0);
            drop(short);
            assert!(gone.upgrade().is_none());
        }
        drop(begin);
        worker.join().unwrap();
    });
    assert_eq!(objects(&lasting), 0);
}

#[test]
fn a_thread_may_end_while_a_heap_goes_in_which_it_had_a_seat() {
    let Some(first) = heap(64, 2) else { return };
    drop(first);
    for _ in 0..100 {
        let short = Arc::new(heap(64, 2).unwrap());
        let gone = ram(&short);
        let (did, done) = mpsc::channel();
        let its = Arc::clone(&short);
        let worker = thread::spawn(move || {
            drop(KVBox::try_new([1; 50], its.contiguous()).unwrap());
            did.send(()).unwrap();
            // The last of the two drops the heap; then the thread's seat goes.
            drop(its);
        });
        done.recv().unwrap();
        drop(short);
        worker.join().unwrap();
        assert!(gone.upgrade().is_none());
    }
}

#[test]
fn owners_lie_where_their_handles_say_and_stay_there() {
    let Some(heap) = heap(4096, 1) else { return };
    let inner = heap.made().unwrap();
    let is_direct = |at: *const u64| {
        assert!(heap.contains(at.cast()));
        inner.is_direct(at.cast())
    };
    let contiguous = KVBox::try_new([1u64; 100], heap.contiguous()).unwrap();
    let mapped = KVBox::try_new([2u64; 100], heap.mapped()).unwrap();
    assert!(is_direct(contiguous.as_ptr()) && !is_direct(mapped.as_ptr()));
    let numbers = 0..100_000u64;
    let mut some: KVVec<u64, _> = KVVec::new(heap.mapped());
    let mut either: KVVec<u64, _> = KVVec::new(&heap);
    for number in numbers.clone() {
        some.try_push(number).unwrap();
        either.try_push(number).unwrap();
        assert!(!is_direct(some.as_ptr()));
    }
    assert!(some.iter().copied().eq(numbers.clone()) && either.iter().copied().eq(numbers));
    let mut block = KVVec::new(heap.contiguous());
    let full = loop {
        if let Err(refused) = block.try_push(7u64) {
            break refused;
        }
        assert!(is_direct(block.as_ptr()));
    };
    assert_eq!(full.value, 7);
    // No block is longer than 1024 frames, and there is no other way for it.
    assert!(block.len() <= 1024 * 512 && block.iter().all(|number| *number == 7));
    drop((contiguous, mapped, some, either, block));
    let passed_on = heap.stats().unwrap().system_allocs;
    assert_eq!((objects(&heap), passed_on), (0, 0));
}

#[test]
fn effort_and_context_are_the_handles() {
    let Some(heap) = heap(1024, 1) else { return };
    let impossible = heap.with(Effort::MustSucceed, Context::NOWAIT);
    let refused = KVVec::<u8, _>::try_with_capacity(10, impossible).err();
    let error = HeapError::Objects(KvError::MustNotWait);
    assert_eq!(refused, Some(error));
    let refused = KVBox::try_new(5, impossible.mapped()).unwrap_err();
    assert_eq!(refused.error, error);
    let may = heap.with(Effort::MustSucceed, Context::NOIO);
    let mut some = KVVec::try_with_capacity(10, may).unwrap();
    some.try_extend_from_slice(&[1, 2, 3]).unwrap();
    assert_eq!(*some, [1, 2, 3]);
    let long = kv::Memory::alloc(&may.mapped(), layout(1 << 40, 8), false);
    let too_long = KvError::TooLong { bytes: 1 << 40 };
    assert_eq!(long.unwrap_err(), HeapError::Objects(too_long));
}

/// What the destructor of a pthread key is handed: an object of a heap's that is freed, and made anew, in each round.
struct Late {
    heap: std::sync::Arc<Heap>,
    key: libc::pthread_key_t,
    at: *mut u8,
    rounds: u32,
}

unsafe extern "C" fn late(value: *mut std::ffi::c_void) {
    // SAFETY: the value that the test below set for the key; no other code has it.
    let mut late = unsafe { Box::from_raw(value.cast::<Late>()) };
    // SAFETY: allocated with this layout, and freed once.
    unsafe { late.heap.dealloc(late.at, layout(100, 8)) };
    late.rounds += 1;
    // As often as a key's destructor is sure to be called.
    if late.rounds == 4 {
        return;
    }
    // SAFETY: not empty.
    late.at = unsafe { late.heap.alloc(layout(100, 8)) };
    assert!(late.heap.contains(late.at));
    // SAFETY: the key is the test's.
    unsafe { libc::pthread_setspecific(late.key, Box::into_raw(late).cast()) };
}

// The thread sanitizer crashes on calls in the last round.
#[cfg(not(tsan))]
#[test]
fn four_thousand_threads_use_the_heap_until_the_last_round_of_their_destructors() {
    let Some(heap) = heap(4096, 2) else { return };
    let heap = std::sync::Arc::new(heap);
    let mut key = 0;
    // SAFETY: `key` is written to; `late` is for this key's values.
    assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(late)) }, 0);
    for _ in 0..1000 {
        // More than it has seats.
        let threads = [(); 4].map(|()| {
            let heap = std::sync::Arc::clone(&heap);
            std::thread::spawn(move || {
                // SAFETY: not empty.
                let at = unsafe { heap.alloc(layout(100, 8)) };
                assert!(heap.contains(at));
                let late = Late {
                    heap,
                    key,
                    at,
                    rounds: 0,
                };
                // SAFETY: the key is this test's.
                unsafe { libc::pthread_setspecific(key, Box::into_raw(Box::new(late)).cast()) };
            })
        });
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    }
    // SAFETY: no thread has a value of it.
    unsafe { libc::pthread_key_delete(key) };
    assert_eq!(objects(&heap), 0);
    let stats = heap.stats().unwrap();
    assert_eq!((stats.lost_frees, stats.objects.bad_frees), (0, 0));
    assert!(stats.shared_seat > 0);
}
