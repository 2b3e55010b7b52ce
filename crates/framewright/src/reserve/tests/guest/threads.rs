//! Guests and owners at the same time.

use super::*;
use crate::random::Random;
use std::sync::atomic::AtomicBool;

struct EndOfThread<'a>(&'a AtomicBool);

impl Drop for EndOfThread<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// The poison test: the owner fills what it took, while guests look at every page that they get.
#[test]
fn c4_no_guest_ever_gets_what_an_owner_wrote() {
    let (reserve, toy) = reserve(1024, 3);
    let pools = [PoolConfig::CLEAN, PoolConfig::SWAP].map(|c| reserve.open_pool(&c).unwrap());
    let reservation = reserve.reserve("poison", 700, 1).unwrap();
    let done = AtomicBool::new(false);
    let (reserve, toy, done) = (&reserve, &toy, &done);
    std::thread::scope(|scope| {
        let guests: Vec<_> = (0..2u16)
            .map(|cpu| {
                scope.spawn(move || {
                    let mut guest = guest(reserve, cpu);
                    let mut out = [0; 512];
                    let mut hits = 0u64;
                    let mut random = Random::new(u64::from(cpu));
                    while !done.load(Relaxed) {
                        // Each guest has keys of its own: calls with one key are serialised.
                        let index = random.below(600);
                        let key = Key {
                            pool: pools[random.index(2)],
                            object: u64::from(cpu),
                            index,
                        };
                        if guest.get(key, &mut out) {
                            hits += 1;
                            assert_eq!(stamp(&out), index);
                        } else {
                            let _ = guest.put(key, &page(index));
                        }
                    }
                    hits
                })
            })
            .collect();
        // Also if this thread panics: the guests end, and the panic is seen.
        let _end = EndOfThread(done);
        for round in 0..300 {
            let taken = reserve.take(reservation).expect("C3");
            let other = reserve.alloc_contig(1 + round % 90, 1);
            toy.fill(taken, 0xdead_beef_dead_beef);
            if let Ok(run) = other {
                toy.fill(run, 0xdead_beef_dead_beef);
                reserve.release(run).unwrap();
            }
            reserve.release(taken).unwrap();
            std::thread::yield_now();
        }
        done.store(true, Relaxed);
        let hits: u64 = guests.into_iter().map(|guest| guest.join().unwrap()).sum();
        assert!(hits > 1000, "{hits} hits");
    });
    reserve.verify().unwrap();
}
