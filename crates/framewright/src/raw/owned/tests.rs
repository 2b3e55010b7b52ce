//! Owners over a heap that remembers each object, and that can refuse.

extern crate std;

mod heap;

use super::into_iter::IntoIter;
use super::*;
use crate::random::Random;
use core::cell::RefCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use heap::{NoMemory, ObjectPlace, ToyHeap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::string::{String, ToString};
use std::vec::Vec;
use std::{format, vec};

type Log = RefCell<Vec<u32>>;

/// Writes its number into a log when it is dropped, and panics there if it is `bad`.
#[derive(Debug)]
struct Noted<'l> {
    number: u32,
    bad: bool,
    log: &'l Log,
}

impl<'l> Noted<'l> {
    fn new(number: u32, log: &'l Log) -> Self {
        Self {
            number,
            bad: false,
            log,
        }
    }

    fn bad(number: u32, log: &'l Log) -> Self {
        Self {
            number,
            bad: true,
            log,
        }
    }

    /// 1 to 3, of which 2 drops badly.
    fn three(log: &'l Log) -> [Self; 3] {
        [Self::new(1, log), Self::bad(2, log), Self::new(3, log)]
    }
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        self.log.borrow_mut().push(self.number);
        if self.bad && !std::thread::panicking() {
            panic!("number {} drops badly", self.number);
        }
    }
}

fn panics(f: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(f)).is_err()
}

fn vector<T>(heap: &ToyHeap, values: impl IntoIterator<Item = T>) -> KVVec<T, &ToyHeap> {
    let mut vector = KVVec::new(heap);
    for value in values {
        assert!(vector.try_push(value).is_ok());
    }
    vector
}

#[test]
fn a_box_moves_its_value_in_and_drops_it_with_its_memory() {
    let (heap, log) = (ToyHeap::default(), Log::default());
    let mut kept = KVBox::try_new(Noted::new(7, &log), heap.contiguous()).unwrap();
    kept.number += 1;
    assert_eq!((kept.number, heap.live()), (8, 1));
    let moved = kept;
    assert_eq!(heap.places(), [ObjectPlace::Contiguous]);
    assert!(core::ptr::eq(moved.heap().0, &heap));
    drop(moved);
    assert_eq!((log.borrow().as_slice(), heap.live()), (&[8][..], 0));
    let other = KVBox::try_new(String::from("text"), heap.mapped()).unwrap();
    assert_eq!(heap.places(), [ObjectPlace::Mapped]);
    assert_eq!(format!("{other} {other:?}"), "text \"text\"");
    assert_eq!(other.into_inner(), "text");
    assert_eq!(heap.live(), 0);
    let either = KVBox::try_new(Aligned(3), &heap).unwrap();
    assert_eq!(heap.places(), [ObjectPlace::Either]);
    assert!(core::ptr::from_ref(&*either).addr().is_multiple_of(256));
    assert_eq!(either.0, 3);
}

#[repr(align(256))]
struct Aligned(u8);

#[test]
fn a_value_for_which_there_is_no_memory_comes_back() {
    let (heap, log) = (ToyHeap::up_to(8), Log::default());
    let refused = KVBox::try_new(Noted::new(7, &log), heap.contiguous()).unwrap_err();
    assert_eq!(refused.to_string(), "no memory");
    assert_eq!(format!("{refused:?}"), "Refused { error: Full, .. }");
    assert_eq!((refused.value.number, refused.error), (7, NoMemory::Full));
    assert!(log.borrow().is_empty());
    assert_eq!(heap.live(), 0);
}

#[test]
fn a_value_without_bytes_takes_no_memory() {
    struct Nothing<'a>(core::marker::PhantomData<&'a ()>);
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    impl Drop for Nothing<'_> {
        fn drop(&mut self) {
            DROPPED.fetch_add(1, Relaxed);
        }
    }
    let nothing = || Nothing(core::marker::PhantomData);
    let heap = ToyHeap::default();
    drop(KVBox::try_new(nothing(), &heap).ok().unwrap());
    assert_eq!(DROPPED.load(Relaxed), 1);
    let mut vector = vector(&heap, [nothing(), nothing(), nothing()]);
    assert_eq!((vector.len(), vector.capacity()), (3, usize::MAX));
    drop(vector.pop());
    assert_eq!(DROPPED.load(Relaxed), 2);
    let mut left = vector.into_iter();
    drop(left.next_back());
    assert_eq!((DROPPED.load(Relaxed), left.len()), (3, 1));
    drop(left);
    assert_eq!(DROPPED.load(Relaxed), 4);
    assert_eq!(heap.asked(), 0);
    // More of them than can be counted are an error nevertheless.
    let mut most: KVVec<(), _> = KVVec::new(&heap);
    most.try_push(()).unwrap();
    let refused = most.try_reserve(usize::MAX).unwrap_err();
    let elements = usize::MAX;
    assert_eq!(refused, NoMemory::TooLong(elements));
    most.try_reserve(usize::MAX - 1).unwrap();
}

#[test]
fn memory_comes_before_its_value_and_zeroed_if_asked_for() {
    let heap = ToyHeap::default();
    let place = KVBox::<MaybeUninit<[u64; 4]>, _>::try_uninit(&heap).unwrap();
    let value = place.write([1, 2, 3, 4]);
    assert_eq!(*value, [1, 2, 3, 4]);
    let zeroes = KVBox::<MaybeUninit<[u64; 4]>, _>::try_zeroed(&heap).unwrap();
    // SAFETY: zeroes are numbers.
    assert_eq!(*unsafe { zeroes.assume_init() }, [0; 4]);
    drop(value);
    assert_eq!(heap.live(), 0);
}

#[test]
fn a_box_is_taken_apart_and_put_together_as_a_trait_object() {
    let heap = ToyHeap::default();
    let (value, at) = KVBox::try_new(42u32, heap.contiguous()).unwrap().into_raw();
    assert_eq!(heap.live(), 1);
    let value: NonNull<dyn ToString> = value;
    // SAFETY: both came from `into_raw`, and the value is the same, seen as a trait object.
    let value: KVBox<dyn ToString, _> = unsafe { KVBox::from_raw(value, at) };
    assert_eq!((*value).to_string(), "42");
    drop(value);
    assert_eq!(heap.live(), 0);
    let leaked = KVBox::try_new(5, heap.contiguous()).unwrap().leak();
    *leaked += 1;
    assert_eq!((*leaked, heap.live()), (6, 1));
    // SAFETY: the value came from an owner at this place in this heap, which was leaked.
    drop(unsafe { KVBox::<i32, _>::from_raw(NonNull::from(leaked), &heap) });
    assert_eq!(heap.live(), 0);
}

#[test]
fn a_pinned_value_does_not_move_with_its_owner() {
    static HEAP: ToyHeap = ToyHeap::up_to(0);
    let pinned = KVBox::try_new(9u8, HEAP.contiguous()).unwrap().into_pin();
    let at = core::ptr::from_ref(&*pinned);
    let moved = vec![pinned];
    assert!(core::ptr::eq(at, &*moved[0]));
    drop(moved);
    assert_eq!(HEAP.live(), 0);
}

#[test]
fn memory_goes_back_though_a_value_panics_when_it_is_dropped() {
    let (heap, log) = (ToyHeap::default(), Log::default());
    let bad = KVBox::try_new(Noted::bad(1, &log), heap.contiguous()).unwrap();
    assert!(panics(|| drop(bad)));
    assert_eq!((log.borrow().as_slice(), heap.live()), (&[1][..], 0));
    log.borrow_mut().clear();

    let some = vector(&heap, Noted::three(&log));
    assert!(panics(|| drop(some)));
    assert_eq!((log.borrow().as_slice(), heap.live()), (&[1, 2, 3][..], 0));
    log.borrow_mut().clear();

    let mut left = vector(&heap, Noted::three(&log)).into_iter();
    assert_eq!(left.next().unwrap().number, 1);
    assert!(panics(|| drop(left)));
    assert_eq!((log.borrow().as_slice(), heap.live()), (&[1, 2, 3][..], 0));
    log.borrow_mut().clear();

    let mut some = vector(&heap, Noted::three(&log));
    assert!(panics(|| some.truncate(1)));
    assert_eq!((log.borrow().as_slice(), some.len()), (&[2, 3][..], 1));
    drop(some);
    assert_eq!((log.borrow().as_slice(), heap.live()), (&[2, 3, 1][..], 0));
}

#[test]
fn a_vector_does_what_the_standard_library_s_does() {
    let heap = ToyHeap::default();
    let (mut ours, mut theirs) = (KVVec::new(&heap), Vec::new());
    let mut random = Random::new(1);
    for round in 0..400 {
        match random.below(10) {
            0..4 => {
                let text = format!("element {round}");
                ours.try_push(text.clone()).unwrap();
                theirs.push(text);
            }
            4..6 => assert_eq!(ours.pop(), theirs.pop()),
            6..8 => {
                let more = vec![format!("of {round}"); random.index(7)];
                ours.try_extend_from_slice(&more).unwrap();
                theirs.extend_from_slice(&more);
            }
            8 => {
                let more = random.index(20);
                ours.try_reserve(more).unwrap();
                assert!(ours.capacity() >= ours.len() + more);
            }
            _ => {
                let len = random.index(20);
                ours.truncate(len);
                theirs.truncate(len);
            }
        }
        assert_eq!(*ours, *theirs);
        assert!(ours.capacity() >= ours.len());
        assert_eq!(heap.live(), usize::from(ours.capacity() > 0));
    }
    for text in &mut ours {
        text.push('!');
    }
    assert_eq!((&ours).into_iter().count(), theirs.len());
    assert_eq!(
        ours.iter().filter(|text| text.ends_with('!')).count(),
        theirs.len()
    );
    let mut left = ours.into_iter();
    let (first, last) = (left.next(), left.next_back());
    assert_eq!(first.as_deref(), Some(&*format!("{}!", theirs[0])));
    assert_eq!(
        last.as_deref(),
        Some(&*format!("{}!", theirs[theirs.len() - 1]))
    );
    assert_eq!(left.as_slice().len(), theirs.len() - 2);
    assert_eq!(format!("{left:?}"), format!("{:?}", left.as_slice()));
    drop(left);
    assert_eq!(heap.live(), 0);
}

#[test]
fn elements_are_dropped_in_their_order_and_what_is_left_at_the_end() {
    let (heap, log) = (ToyHeap::default(), Log::default());
    let mut some = vector(&heap, (0..6).map(|number| Noted::new(number, &log)));
    some.truncate(9);
    some.truncate(4);
    assert_eq!(*log.borrow(), [4, 5]);
    drop(some.pop());
    drop(some);
    assert_eq!(*log.borrow(), [4, 5, 3, 0, 1, 2]);
    let mut some = vector(&heap, (0..3).map(|number| Noted::new(number, &log)));
    log.borrow_mut().clear();
    some.clear();
    assert_eq!((log.borrow().len(), some.capacity() >= 3), (3, true));
    assert_eq!(heap.live(), 1);
}

#[test]
fn a_vector_that_gets_no_memory_is_as_it_was() {
    let heap = ToyHeap::up_to(64);
    let mut some: KVVec<u64, _> = KVVec::try_with_capacity(5, &heap).unwrap();
    assert_eq!((some.capacity(), heap.asked()), (5, 1));
    for number in 0..8 {
        some.try_push(number).unwrap();
    }
    // Ten would have been twice as many; the heap gave six, then seven and eight.
    assert_eq!((some.capacity(), heap.asked()), (8, 7));
    let refused = some.try_push(8).unwrap_err();
    assert_eq!((refused.value, refused.error), (8, NoMemory::Full));
    assert_eq!(refused.to_string(), "no memory");
    let refused = some.try_extend_from_slice(&[1, 2]).unwrap_err();
    assert_eq!(refused, NoMemory::Full);
    assert_eq!(*some, [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(heap.places(), [ObjectPlace::Either]);
    assert_eq!(*vector(&heap, some), [0, 1, 2, 3, 4, 5, 6, 7]);
    let refused = KVVec::<u64, _>::try_with_capacity(9, &heap).err().unwrap();
    assert_eq!(refused, NoMemory::Full);
    let mut empty: KVVec<u64, _> = KVVec::new(heap.contiguous());
    empty.try_push(1).unwrap();
    assert_eq!(empty.capacity(), 4);
    assert_eq!(heap.places(), [ObjectPlace::Contiguous]);
}

#[test]
fn lengths_that_no_object_can_have_are_errors() {
    let heap = ToyHeap::default();
    let most = isize::MAX as usize / 8;
    let refused = |elements| KVVec::<u64, _>::try_with_capacity(elements, &heap).err();
    for elements in [most + 1, usize::MAX / 8 + 1, usize::MAX] {
        assert_eq!(refused(elements), Some(NoMemory::TooLong(elements)));
    }
    let mut some = vector(&heap, [1u64]);
    let error = some.try_reserve(usize::MAX).unwrap_err();
    let all = usize::MAX;
    let expected = format!("{all} elements are more than a vector can have");
    assert_eq!(error.to_string(), expected);
    let error = some.try_reserve(most).unwrap_err();
    let elements = most + 1;
    assert_eq!(error, NoMemory::TooLong(elements));
    assert_eq!(*some, [1]);
}

#[test]
fn a_clone_that_panics_leaves_those_made_before_it() {
    struct Clones<'l>(u32, &'l Log);
    impl Clone for Clones<'_> {
        fn clone(&self) -> Self {
            assert!(self.0 != 3, "number 3 has no clone");
            Clones(self.0 + 10, self.1)
        }
    }
    impl Drop for Clones<'_> {
        fn drop(&mut self) {
            self.1.borrow_mut().push(self.0);
        }
    }
    let (heap, log) = (ToyHeap::default(), Log::default());
    let from = [1, 2, 3, 4].map(|number| Clones(number, &log));
    let mut some = vector(&heap, [Clones(0, &log)]);
    assert!(panics(|| some.try_extend_from_slice(&from).unwrap()));
    assert_eq!(some.len(), 3);
    drop(some);
    assert_eq!(*log.borrow(), [0, 11, 12]);
    assert_eq!(heap.live(), 0);
}

#[test]
fn spare_memory_is_filled_from_outside() {
    let heap = ToyHeap::default();
    let mut some: KVVec<u8, _> = KVVec::try_with_capacity(8, heap.mapped()).unwrap();
    for (place, value) in some.spare_capacity_mut().iter_mut().zip(1..=3) {
        place.write(value);
    }
    // SAFETY: three were written.
    unsafe { some.set_len(3) };
    assert_eq!(
        (some.to_vec(), some.spare_capacity_mut().len()),
        (vec![1, 2, 3], 5)
    );
    assert_eq!(heap.places(), [ObjectPlace::Mapped]);
    assert!(core::ptr::eq(some.heap().0, &heap));
}

#[test]
fn owners_go_to_other_threads_if_their_values_and_their_heap_may() {
    let heap = ToyHeap::default();
    let value = KVBox::try_new(String::from("there"), &heap).unwrap();
    let some = vector(&heap, ["a".to_string(), "b".to_string()]);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut some = some;
            some.try_push(value.into_inner()).unwrap();
            assert_eq!(*some, ["a", "b", "there"]);
        });
    });
    assert_eq!(heap.live(), 0);

    // The types that must not be: two candidates for `_` if the type is Send or Sync, so no code
    // compiles.
    trait NotSend<Marker> {
        fn check() {}
    }
    struct IfSend;
    impl<T: ?Sized> NotSend<()> for T {}
    impl<T: ?Sized + Send> NotSend<IfSend> for T {}
    trait NotSync<Marker> {
        fn check() {}
    }
    impl<T: ?Sized> NotSync<()> for T {}
    impl<T: ?Sized + Sync> NotSync<IfSend> for T {}
    <KVBox<Rc<u8>, &ToyHeap> as NotSend<_>>::check();
    <KVVec<Rc<u8>, &ToyHeap> as NotSend<_>>::check();
    <IntoIter<Rc<u8>, &ToyHeap> as NotSend<_>>::check();
    <KVBox<RefCell<u8>, &ToyHeap> as NotSync<_>>::check();
    <KVVec<RefCell<u8>, &ToyHeap> as NotSync<_>>::check();
    fn both<T: Send + Sync>() {}
    both::<KVBox<u8, &ToyHeap>>();
    both::<KVVec<u8, &ToyHeap>>();
    both::<IntoIter<u8, &ToyHeap>>();
}
