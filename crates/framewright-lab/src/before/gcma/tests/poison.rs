//! Guests beside owners that poison the frames they take. Mended, no guest reads a wrong page; as
//! published, the test finds one.
//!
//! `FRAMEWRIGHT_POISON_OPS=4000000 cargo test --release -p framewright-lab --lib gcma::tests::poison`

use super::*;
use framewright_sim::contract::poison::{self, PoisonOwner, PoisonPlan, PoisonSite, PoolPlan};

const KINDS: [GcmaKind; 2] = [GcmaKind::Cleancache, GcmaKind::Frontswap];

impl PoisonSite for Gcma<GcmaMemory> {
    fn frames(&self) -> Run {
        self.run()
    }

    /// In either a get leaves the page where it is, and every page is on its device; swapped-out pages have no object.
    fn pools(&self) -> Vec<PoolPlan> {
        let plan = |kind| PoolPlan {
            exclusive: false,
            may_be_dirty: false,
            has_objects: kind == GcmaKind::Cleancache,
        };
        KINDS.map(plan).to_vec()
    }

    fn open_pool(&self, nth: usize) -> Option<PoolId> {
        Gcma::open_pool(self, KINDS[nth])
    }

    fn guest(&self, _nth: u16) -> Box<dyn Store + '_> {
        Box::new(self)
    }

    fn owner(&self, _nth: u16) -> Box<dyn PoisonOwner + '_> {
        Box::new(GcmaOwner(self))
    }

    fn fill(&self, frame: Frame, word: u64) {
        let words = &self.platform.0[frame.0 as usize];
        words.iter().for_each(|to| to.store(word, Relaxed));
    }

    fn is_filled(&self, frame: Frame, word: u64) -> bool {
        let words = &self.platform.0[frame.0 as usize];
        words.iter().all(|is| is.load(Relaxed) == word)
    }
}

/// An owner; without reservations.
struct GcmaOwner<'g>(&'g Gcma<GcmaMemory>);

impl PoisonOwner for GcmaOwner<'_> {
    fn take(&mut self, frames: u64, align: u64) -> Option<Run> {
        self.0.take(frames, align)
    }

    fn release(&mut self, run: Run) -> bool {
        self.0.give_back(run)
    }
}

/// Guests' operations, as the environment says, or few.
fn plan() -> PoisonPlan {
    let ops = std::env::var("FRAMEWRIGHT_POISON_OPS").ok();
    PoisonPlan {
        seed: 1,
        ops: ops.map_or(40_000, |ops| ops.parse().expect("a number of operations")),
        guests: 2,
        owners: 2,
        pages: 300,
    }
}

#[test]
fn mended_no_page_is_wrong_beside_owners_who_poison_what_they_take() {
    let gcma = area(512, Conduct::Mended);
    let report = poison::run(&gcma, &plan()).unwrap_or_else(|wrong| panic!("{wrong}"));
    println!("{} operations, none wrong: {report:?}", report.ops());
    assert!(report.hits > report.ops() / 50, "{report:?}");
    assert!(report.takes > 100, "{report:?}");
    let held: usize = gcma.pools.iter().map(|pool| pool.len()).sum();
    assert_eq!(gcma.free_frames() + held as u64, 512, "no frame is lost");
}

#[test]
fn as_published_the_poison_test_finds_an_object_that_outlives_its_invalidation() {
    // Without owners, so that it is this fault, each time.
    let plan = PoisonPlan {
        owners: 0,
        ..plan()
    };
    let wrong = poison::run(&area(512, Conduct::AsPublished), &plan).unwrap_err();
    assert!(wrong.to_string().contains("C6"), "fault 1: {wrong}");
    poison::run(&area(512, Conduct::Mended), &plan).unwrap();
}
