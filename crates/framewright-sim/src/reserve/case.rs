//! The reserves that the model is run over, and how operations on them are drawn. Ages are operations too, because no
//! run is long enough for a generation to come round.

use super::{Ground, POOLS, run};
use crate::drive::{Cadence, DrivenCase, draw};
use crate::{Finding, Machine, Random, RunSummary};

/// By how much frames age: so that the next page's generation has the lower half of the last one's,
/// or nearly, and so that the whole comes round.
const AGES: [u64; 5] = [
    (1 << 32) - 2,
    (1 << 32) - 3,
    (1 << 33) - 4,
    (1 << 52) - 2,
    (1 << 51) - 1,
];

/// One operation on a reserve, as plain data. A pool is one of [`POOLS`]; `pick` is a run or a reservation, by its
/// number modulo how many there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(
    missing_docs,
    reason = "the fields are the arguments of the engine's calls"
)]
pub enum ReserveOp {
    /// `Guest::put`, or `put_dirty`; a page of one repeated word where `value`.
    Put {
        cpu: u16,
        pool: u8,
        object: u8,
        index: u8,
        dirty: bool,
        value: bool,
    },
    /// `Guest::get`.
    Get {
        cpu: u16,
        pool: u8,
        object: u8,
        index: u8,
    },
    /// `Guest::invalidate_page`.
    InvalidatePage {
        cpu: u16,
        pool: u8,
        object: u8,
        index: u8,
    },
    /// `Guest::invalidate_object`.
    InvalidateObject { cpu: u16, pool: u8, object: u8 },
    /// `Guest::invalidate_pool`, and `Reserve::open_pool` of the same.
    InvalidatePool { cpu: u16, pool: u8 },
    /// `Guest::clean` of this many pages, of which each `fail_each`-th cannot be written; with 0 all
    /// can.
    Clean { cpu: u16, pages: u8, fail_each: u8 },
    /// `Reserve::alloc_contig`, or where `put_back` `alloc_contig_with`. Its supply of ordinary frames
    /// invalidates a dirty page each time that it is asked, for this many asks.
    Alloc {
        frames: u16,
        align_log: u8,
        put_back: bool,
        meddles: u8,
    },
    /// `Reserve::release`.
    Release { pick: u32 },
    /// The same with any run, wherever it lies: an owner's, a part of one, or a free one.
    ReleaseAny { at: u16, frames: u16 },
    /// `Reserve::reserve`.
    Reserve { frames: u16, align_log: u8 },
    /// `Reserve::take`.
    Take { pick: u32 },
    /// `Reserve::unreserve`.
    Unreserve { pick: u32 },
    /// `Reserve::collect`.
    Collect,
    /// From now on the supply has this many ordinary frames.
    Stock { frames: u8 },
    /// `run_of`, `take` and `unreserve` with a reservation of another reserve.
    Cross { pick: u32 },
    /// `Reserve::for_each_reservation`, with a callback that asks the reserve.
    List,
    /// Free frames have counted this many generations more.
    AgeFrames { generations: u64 },
    /// Every object was invalidated so often, and every pool closed and opened.
    AgePools { times: u64 },
}

/// Instead of the logarithm of an alignment: an alignment that is none.
pub(super) const NO_POWER: u8 = u8::MAX;

/// What a run is made of: a reserve, and the mixture of operations.
#[derive(Clone, Copy, Debug)]
pub struct ReserveCase {
    /// The name, for the command that repeats a run.
    pub name: &'static str,
    /// Its frames.
    pub frames: u64,
    /// Pages that may be without a frame.
    pub values: u32,
    /// Pages that may be in ordinary frames; there are as many such frames.
    pub ordinary: u32,
    /// Pages in an object, of which each pool has four.
    pub pages: u8,
    /// How often puts are of dirty pages, in a hundred.
    pub dirty: u64,
    /// How often an owner's request is a release, in a hundred.
    pub release: u64,
    /// The fewest frames of an owner's usual request.
    pub least_frames: u64,
    /// How often the supply meddles while an owner puts pages back, in a hundred.
    pub meddling: u64,
    /// Neither objects nor pools are invalidated as a whole, and hardly any page is written, so that the
    /// reserve fills.
    pub lasts: bool,
    /// This many operations each many small reservations are made, and then given up; 0: none.
    pub reserving_ops: u64,
    /// The fault that must be found.
    pub lie: ReserveLie,
    /// How often engine and model are compared.
    pub cadence: Cadence,
}

/// A planted fault, which must be found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReserveLie {
    /// No fault.
    Nothing,
    /// An object is not invalidated.
    KeepObject,
    /// A put that is refused leaves the older version.
    KeepRefused,
    /// A dirty page is dropped.
    DropDirty,
    /// A page is stored, and another one is in its place.
    StoreAnother,
    /// A page that was got away is put again.
    KeepGot,
    /// An owner's run goes to a second one.
    OwnTwice,
    /// A page is written twice.
    WriteTwice,
    /// An ordinary frame is not given back.
    KeepFrame,
}

impl DrivenCase for ReserveCase {
    type Op = ReserveOp;
    type Platform = Ground;

    const OPTION: Option<&'static str> = Some("--reserve");

    fn all() -> Vec<Self> {
        let case = |name, frames, values, ordinary, pages| Self {
            name,
            frames,
            values,
            ordinary,
            pages,
            dirty: 25,
            release: 45,
            least_frames: 1,
            meddling: 25,
            lasts: false,
            reserving_ops: 0,
            lie: ReserveLie::Nothing,
            cadence: Cadence::EACH,
        };
        vec![
            case("four", 4, 1, 2, 2),
            case("sixteen", 16, 4, 8, 4),
            case("no-ordinary", 24, 0, 0, 6),
            case("blocks", 1100, 300, 600, 80),
            // Nearly all frames have pages, and many keys share a bucket of the index: few are dirty, or nearly all.
            Self {
                release: 97,
                lasts: true,
                ..case("collisions", 1024, 0, 0, 250)
            },
            Self {
                dirty: 100,
                release: 97,
                lasts: true,
                ..case("dirty-collisions", 1024, 0, 0, 250)
            },
            // Nearly every ordinary frame that there may be has a page.
            Self {
                dirty: 80,
                least_frames: 3,
                meddling: 100,
                lasts: true,
                ..case("put-back", 6, 1, 1, 2)
            },
            // More reservations are asked for than there can be.
            Self {
                reserving_ops: 2000,
                ..case("reservations", 200, 10, 20, 20)
            },
        ]
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn cadence(&mut self) -> &mut Cadence {
        &mut self.cadence
    }

    fn sparse(mut self) -> Self {
        self.cadence = Cadence::sparse(self.frames);
        self
    }

    fn op(&self, random: &mut Random, nth: u64) -> ReserveOp {
        let cpu = draw::cpu(random, 2);
        // Where all puts are of dirty pages, to pools that may have any number of them.
        let pool = match self.dirty {
            100 => 3 + random.below(2) as u8,
            _ => random.below(POOLS.len() as u64) as u8,
        };
        let object = random.below(4) as u8;
        let index = random.below(u64::from(self.pages)) as u8;
        let pick = random.bits() as u32;
        let frames = 1 + match random.below(8) {
            0 => random.below(self.frames),
            1..4 => random.below(self.frames.div_ceil(4)),
            _ => random.below(self.frames.div_ceil(16)),
        };
        let frames = frames.max(self.least_frames);
        let (mut frames, mut align_log) = (frames as u16, random.below(4) as u8);
        // What can never be is asked for, too.
        match random.below(48) {
            0 => frames = 0,
            1 => frames = self.frames as u16 + random.below(3) as u16,
            2 => align_log = NO_POWER,
            _ => {}
        }
        let phase = nth.checked_div(self.reserving_ops);
        if let Some(phase) = phase.filter(|_| random.chance(30)) {
            return match phase % 2 {
                0 => ReserveOp::Reserve {
                    frames: 1 + random.below(2) as u16,
                    align_log: 0,
                },
                _ => ReserveOp::Unreserve { pick },
            };
        }
        let what = random.below(1000);
        let is_dropped = matches!(what, 757..760 | 820..864);
        match what {
            n if n < 420 || self.lasts && is_dropped => ReserveOp::Put {
                cpu,
                pool,
                object,
                index,
                dirty: random.chance(self.dirty),
                value: random.chance(12),
            },
            n if n < 745 => ReserveOp::Get {
                cpu,
                pool,
                object,
                index,
            },
            n if n < 749 => ReserveOp::Cross { pick },
            n if n < 751 => ReserveOp::List,
            n if n < 757 => ReserveOp::AgeFrames {
                generations: AGES[random.below(AGES.len() as u64) as usize],
            },
            n if n < 760 => ReserveOp::AgePools {
                times: 1 << (31 + random.below(3)),
            },
            n if n < 820 => ReserveOp::InvalidatePage {
                cpu,
                pool,
                object,
                index,
            },
            n if n < 835 => ReserveOp::InvalidateObject { cpu, pool, object },
            n if n < 840 => ReserveOp::InvalidatePool { cpu, pool },
            n if n < 865 => ReserveOp::Clean {
                cpu,
                pages: random.below(12) as u8,
                fail_each: random.below(4) as u8,
            },
            n if n < 870 => ReserveOp::ReleaseAny {
                at: random.below(self.frames + 3) as u16,
                frames: random.below(5) as u16,
            },
            n if n < 965 && random.chance(self.release) => ReserveOp::Release { pick },
            n if n < 965 => ReserveOp::Alloc {
                frames,
                align_log,
                put_back: random.chance(60),
                meddles: if random.chance(self.meddling) {
                    1 + random.below(3) as u8
                } else {
                    0
                },
            },
            n if n < 970 => ReserveOp::Reserve { frames, align_log },
            n if n < 980 => ReserveOp::Take { pick },
            n if n < 984 => ReserveOp::Unreserve { pick },
            n if n < 992 => ReserveOp::Collect,
            _ => ReserveOp::Stock {
                frames: [0, 1, 3, 255][random.below(4) as usize],
            },
        }
    }

    fn platform(&self) -> Ground {
        // More than may have pages: it is not always the supply that has none.
        let ordinary = self.ordinary + self.ordinary.div_ceil(2);
        Ground::new(2, self.frames, ordinary.into())
    }

    fn machine(platform: &Ground) -> &Machine {
        platform.machine()
    }

    fn run(
        &self,
        platform: &Ground,
        ops: impl IntoIterator<Item = ReserveOp>,
    ) -> Result<RunSummary, Finding> {
        run(self, platform, ops)
    }
}
