//! The patterns: what the threads do, and how long it took them.

use crate::subject::{KvSubject, KvWorker};
use crate::threads::{in_threads, summary, timed};
use framewright_sim::Random;
use std::hint::black_box;
use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// Nanoseconds for an allocation and a free together, the mean over the threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KvTiming {
    pub(crate) ns: f64,
    /// The part of the time in which all threads were at work, 0 to 1.
    pub(crate) overlap: f64,
}

/// What the threads do.
#[derive(Clone, Copy)]
pub(crate) enum KvPattern {
    /// An object is allocated and freed.
    Pair,
    /// This many are allocated, then freed in a random order.
    Batch(usize),
    /// This many are live; one after another is freed and another one allocated, of random length
    /// from 16 bytes to the case's, all powers of two between equally often.
    Mixed(usize),
    /// This many are live; all of the case's length.
    Churn(usize),
    /// One thread allocates, another frees.
    HandOver,
}

#[derive(Clone, Copy)]
pub(crate) struct KvLoad {
    pub(crate) kind: KvPattern,
    pub(crate) bytes: usize,
    pub(crate) any: bool,
    pub(crate) threads: usize,
    pub(crate) pairs: usize,
}

/// Writes an object's first word, as a user would.
#[inline]
fn write(at: usize) {
    // SAFETY: an object of at least 16 bytes, aligned to 8, which is the calling pattern's.
    unsafe { std::ptr::with_exposed_provenance_mut::<usize>(at).write(at) };
}

#[inline]
fn is_written(at: usize) -> bool {
    // SAFETY: as above; it was written when it was allocated.
    unsafe { std::ptr::with_exposed_provenance::<usize>(at).read() == at }
}

pub(crate) fn run<S: KvSubject>(subject: &S, load: KvLoad) -> KvTiming {
    match load.kind {
        KvPattern::Pair => pair(subject, load),
        KvPattern::Batch(len) => batch(subject, load, len),
        KvPattern::Mixed(live) => churn(subject, load, live, true),
        KvPattern::Churn(live) => churn(subject, load, live, false),
        KvPattern::HandOver => hand_over(subject, load),
    }
}

fn pair<S: KvSubject>(subject: &S, load: KvLoad) -> KvTiming {
    let KvLoad { bytes, any, .. } = load;
    let spans = in_threads(load.threads, |_, gate| {
        let mut worker = subject.worker();
        let mut pairs = |count| {
            for _ in 0..count {
                let at = black_box(worker.alloc(bytes, any));
                write(at);
                worker.free(at, bytes, any);
            }
        };
        pairs(100);
        gate.wait();
        vec![timed(load.pairs, || pairs(load.pairs))]
    });
    let (ns, overlap) = summary(&spans);
    KvTiming { ns, overlap }
}

fn batch<S: KvSubject>(subject: &S, load: KvLoad, len: usize) -> KvTiming {
    let KvLoad { bytes, any, .. } = load;
    let spans = in_threads(load.threads, |nth, gate| {
        let mut worker = subject.worker();
        let mut order: Vec<u64> = (0..len as u64).collect();
        Random::new(nth as u64).shuffle(&mut order);
        let mut live = vec![0; len];
        let mut batches = |count: usize| {
            for _ in 0..count {
                for at in &mut live {
                    *at = worker.alloc(bytes, any);
                    write(*at);
                }
                for place in &order {
                    worker.free(live[*place as usize], bytes, any);
                }
            }
        };
        let count = load.pairs.div_ceil(len);
        batches(1);
        gate.wait();
        vec![timed(count * len, || batches(count))]
    });
    let (ns, overlap) = summary(&spans);
    KvTiming { ns, overlap }
}

fn churn<S: KvSubject>(subject: &S, load: KvLoad, live: usize, mixed: bool) -> KvTiming {
    let any = load.any;
    let spans = in_threads(load.threads, |nth, gate| {
        let mut worker = subject.worker();
        // Places and lengths beforehand: the generator is not what is measured.
        let mut random = Random::new(nth as u64);
        let octaves = (load.bytes / 16).ilog2() as usize;
        let mut step = |place| {
            let bytes = if mixed {
                let least = 16 << random.below(octaves as u64);
                least + random.below(least as u64 + 1) as usize
            } else {
                load.bytes
            };
            (place, bytes)
        };
        let first: Vec<(usize, usize)> = (0..live).map(&mut step).collect();
        let mut places = Random::new(!(nth as u64));
        let steps: Vec<(usize, usize)> = (0..load.pairs)
            .map(|_| step(places.below(live as u64) as usize))
            .collect();
        let mut alloc = |bytes| {
            let at = worker.alloc(bytes, any);
            write(at);
            (at, bytes)
        };
        let mut objects: Vec<(usize, usize)> =
            first.iter().map(|(_, bytes)| alloc(*bytes)).collect();
        gate.wait();
        let span = timed(load.pairs, || {
            for (place, bytes) in &steps {
                let (at, had) = objects[*place];
                worker.free(at, had, any);
                let at = worker.alloc(*bytes, any);
                write(at);
                objects[*place] = (at, *bytes);
            }
        });
        for (at, bytes) in objects {
            assert!(is_written(at), "an object was handed out twice");
            worker.free(at, bytes, any);
        }
        vec![span]
    });
    let (ns, overlap) = summary(&spans);
    KvTiming { ns, overlap }
}

/// Objects that one thread has allocated and another one has not yet freed.
struct ObjectRing([AtomicUsize; 256]);

impl ObjectRing {
    /// Waits until `take` of what is in the slot returns something.
    fn wait<T>(&self, nth: usize, take: impl Fn(&AtomicUsize) -> Option<T>) -> T {
        let slot = &self.0[nth % self.0.len()];
        let mut spins = 0u32;
        loop {
            if let Some(taken) = take(slot) {
                return taken;
            }
            spins += 1;
            match spins.is_multiple_of(1024) {
                true => std::thread::yield_now(),
                false => std::hint::spin_loop(),
            }
        }
    }
}

fn hand_over<S: KvSubject>(subject: &S, load: KvLoad) -> KvTiming {
    let KvLoad { bytes, any, .. } = load;
    let ring = ObjectRing([const { AtomicUsize::new(0) }; 256]);
    let spans = in_threads(2, |nth, gate| {
        let mut worker = subject.worker();
        gate.wait();
        vec![timed(load.pairs, || {
            for number in 0..load.pairs {
                if nth == 0 {
                    let at = worker.alloc(bytes, any);
                    write(at);
                    ring.wait(number, |slot| {
                        let is_free = slot.load(Relaxed) == 0;
                        is_free.then(|| slot.store(at, Release))
                    });
                } else {
                    let at = ring.wait(number, |slot| {
                        let at = slot.load(Acquire);
                        (at != 0).then(|| {
                            slot.store(0, Release);
                            at
                        })
                    });
                    assert!(is_written(at), "an object was handed out twice");
                    worker.free(at, bytes, any);
                }
            }
        })]
    });
    let (ns, overlap) = summary(&spans);
    KvTiming { ns, overlap }
}

/// Fills the memory with objects of a frame each, as far as they are the subject's own, and frees
/// them; or every second by address, and the others stay. All memory has been touched then.
pub(crate) fn fill<S: KvSubject>(
    subject: &S,
    is_own: impl Fn(usize) -> bool + Sync,
    fragmented: bool,
) {
    // In a thread that ends, so that its seat is another's.
    in_threads(1, |_, _| {
        let mut worker = subject.worker();
        let mut objects = Vec::new();
        while let Some(at) = worker.try_alloc(4096, false) {
            if !is_own(at) {
                worker.free(at, 4096, false);
                break;
            }
            write(at);
            objects.push(at);
        }
        objects.sort_unstable();
        for at in objects.into_iter().step_by(if fragmented { 2 } else { 1 }) {
            worker.free(at, 4096, false);
        }
    });
}
