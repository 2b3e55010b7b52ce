//! The zones, watermarks and clients that reclaim is run under, and faults that are planted, each of which a run must
//! find.

use super::client::MOODS;
use super::{CLIENTS, ReclaimOp, run};
use crate::drive::{Cadence, DrivenCase, draw};
use crate::{Finding, Machine, Random, RunSummary};
use framewright::frame::ZoneLayout;
use framewright::policy::{Config, Fallback, Label, ReclaimConfig};
use framewright::{Frame, Mobility, Order};

/// What a run is made of: a zone, its policies, reclaim's configuration, and the mixture of
/// operations.
#[derive(Clone, Copy, Debug)]
pub struct ReclaimCase {
    /// The name, for the command that repeats a run.
    pub name: &'static str,
    /// The zone. Its last CPU is the one that clients use on the side.
    pub layout: ZoneLayout,
    /// Its policies.
    pub config: Config,
    /// How it reclaims.
    pub reclaim: ReclaimConfig,
    /// Free memory goes below a watermark only by right: there are only requests that may reclaim,
    /// clients without side effects, and no caches of CPUs. Then watermarks hold, on one CPU
    /// exactly.
    pub is_calm: bool,
    /// Pageblocks are labelled for contiguous areas and for high orders.
    pub has_labels: bool,
    /// The fault that must be found.
    pub lie: ReclaimLie,
    /// How often engine and model are compared.
    pub cadence: Cadence,
}

/// A planted fault, which must be found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReclaimLie {
    /// No fault.
    Nothing,
    /// A client says that contents have moved, and did not copy them.
    MoveWithoutContents,
    /// A client says that contents have moved, and goes on using the old block.
    SayMovedAndStay,
    /// A client moves pinned contents.
    MovePinned,
    /// The engine takes moved contents for busy.
    HearBusy,
    /// The engine takes busy contents for moved.
    HearMoved,
    /// A cache says that it gave back frames that it still has.
    Overstate,
    /// A pageblock stays isolated after compaction.
    LeaveIsolated,
    /// A frame is taken, and has no owner.
    LoseFrame,
}

impl ReclaimCase {
    /// Whether CPUs cache no frames, so that all free frames are in the pageblocks.
    #[must_use]
    pub const fn is_uncached(&self) -> bool {
        self.config.cache_permille == 0
    }

    /// CPUs that operations run on.
    pub(super) const fn cpus(&self) -> u16 {
        self.layout.cpus - 1
    }
}

impl DrivenCase for ReclaimCase {
    type Op = ReclaimOp;
    type Platform = Machine;

    const OPTION: Option<&'static str> = Some("--reclaim");

    /// The cases that every check runs: from four pageblocks to some more, with and without caches,
    /// under each fallback; and one in which only watermarks decide.
    fn all() -> Vec<Self> {
        let order = |order| Order::new(order).expect("a small order");
        let case = |name, start, frames, (pageblock, max), fallback, cache_permille| Self {
            name,
            layout: ZoneLayout::new(Frame(start), frames)
                .with_orders(order(pageblock), order(max))
                .with_cpus(3),
            config: Config {
                fallback,
                cache_permille,
                ..Config::default()
            },
            reclaim: ReclaimConfig::default(),
            is_calm: false,
            has_labels: false,
            lie: ReclaimLie::Nothing,
            cadence: Cadence::EACH,
        };
        let quick = ReclaimConfig {
            priority_first: 2,
            rounds_max: 4,
            batch_frames: 4,
            quota_frames: 8,
            compactions_max: 1,
            defer_shift_max: 0,
            ..ReclaimConfig::default()
        };
        let frames_only = ReclaimConfig {
            pageblocks_percent: 0,
            empties_for_nonmovable: false,
            batch_frames: 8,
            ..ReclaimConfig::default()
        };
        use Fallback::{Concentrated, LargestFirst, SmallestWhenCostly};
        vec![
            Self {
                reclaim: quick,
                ..case("tiny", 0, 32, (3, 4), Concentrated, 0)
            },
            case("small", 0, 128, (4, 6), Concentrated, 0),
            Self {
                is_calm: true,
                layout: ZoneLayout::new(Frame(0), 256)
                    .with_orders(order(4), order(6))
                    .with_cpus(2),
                reclaim: ReclaimConfig {
                    quota_frames: 16,
                    ..ReclaimConfig::default()
                },
                ..case("calm", 0, 256, (4, 6), Concentrated, 0)
            },
            Self {
                is_calm: true,
                reclaim: frames_only,
                ..case("frames", 0, 192, (5, 6), LargestFirst, 0)
            },
            case("cached", 16, 256, (4, 6), Concentrated, 100),
            {
                // Much is cached, even if little is free, and a request that must not wait misses
                // it: all orders but one are costly.
                let mut hoarded = case("hoarded", 0, 1024, (6, 8), Concentrated, 100);
                hoarded.config.stop_order_max = Order::ZERO;
                hoarded
            },
            Self {
                has_labels: true,
                ..case("labels", 0, 256, (4, 5), SmallestWhenCostly, 100)
            },
            Self {
                has_labels: true,
                reclaim: quick,
                ..case("odd", 5, 250, (4, 6), LargestFirst, 0)
            },
            case("words", 128, 1024, (7, 8), Concentrated, 0),
            case("usual", 0, 4096, (9, 10), Concentrated, 20),
        ]
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn cadence(&mut self) -> &mut Cadence {
        &mut self.cadence
    }

    fn sparse(mut self) -> Self {
        self.cadence = Cadence::sparse(self.layout.frames);
        self
    }

    fn op(&self, random: &mut Random, nth: u64) -> ReclaimOp {
        match random.below(1000) {
            n if n < 40 => self.of_client(random),
            n if n < 120 => self.of_reclaim(random),
            n if n < 130 && !self.is_calm => self.of_zone(random),
            n if n < 150 && !self.is_calm => self.of_owner(random),
            _ => self.plain(random, nth),
        }
    }

    fn simpler(&self, op: ReclaimOp) -> Vec<ReclaimOp> {
        let least = |order: u8| order.checked_sub(1).into_iter();
        match op {
            ReclaimOp::Alloc {
                cpu,
                order,
                mobility,
                owner,
                nowait,
            } => least(order)
                .map(|order| ReclaimOp::Alloc {
                    cpu,
                    order,
                    mobility,
                    owner,
                    nowait,
                })
                .chain((cpu > 0).then_some(ReclaimOp::Alloc {
                    cpu: 0,
                    order,
                    mobility,
                    owner,
                    nowait,
                }))
                .collect(),
            ReclaimOp::Free { cpu, pick } if cpu > 0 => vec![ReclaimOp::Free { cpu: 0, pick }],
            _ => vec![],
        }
    }

    fn platform(&self) -> Machine {
        Machine::new(self.layout.cpus)
    }

    fn machine(platform: &Machine) -> &Machine {
        platform
    }

    fn run(
        &self,
        platform: &Machine,
        ops: impl IntoIterator<Item = ReclaimOp>,
    ) -> Result<RunSummary, Finding> {
        run(self, platform, ops)
    }
}

impl ReclaimCase {
    /// A request or a free.
    fn plain(&self, random: &mut Random, nth: u64) -> ReclaimOp {
        let phase_ops = self.layout.frames + 40;
        let cpu = draw::cpu(random, self.cpus());
        if !draw::is_request(random, nth, phase_ops) {
            let pick = random.bits() as u32;
            return ReclaimOp::Free { cpu, pick };
        }
        let order = self.order(random);
        let owner = random.below(CLIENTS as u64 + 1) as u8;
        // Frames that clients hold mostly move; those that users hold mostly do not.
        let mobility = if random.chance(if usize::from(owner) < CLIENTS { 85 } else { 20 }) {
            Mobility::Movable
        } else {
            mobility(random)
        };
        if !self.is_calm && random.chance(10) {
            return ReclaimOp::Raw {
                cpu,
                order,
                mobility,
                owner,
            };
        }
        ReclaimOp::Alloc {
            cpu,
            order,
            mobility,
            owner,
            nowait: !self.is_calm && random.chance(15),
        }
    }

    /// An operation on the holders of memory.
    fn of_client(&self, random: &mut Random) -> ReclaimOp {
        let pick = random.bits() as u32;
        match random.below(8) {
            0..3 => ReclaimOp::Hold {
                pick,
                held: random.chance(55),
            },
            3..5 => ReclaimOp::Pin {
                pick,
                pinned: random.chance(55),
            },
            5 => ReclaimOp::PinBlock {
                at: random.below(self.layout.frames) as u32,
                pinned: random.chance(35),
            },
            _ => ReclaimOp::Mood {
                client: random.below(CLIENTS as u64) as u8,
                mood: if self.is_calm {
                    0
                } else {
                    MOODS[random.below(MOODS.len() as u64) as usize]
                },
                calls: 1 + random.below(6) as u8,
            },
        }
    }

    fn of_reclaim(&self, random: &mut Random) -> ReclaimOp {
        let cpu = draw::cpu(random, self.cpus());
        let budget = 1 << random.below(10);
        match random.below(12) {
            0..5 if !self.is_calm => ReclaimOp::Compact {
                cpu,
                order: 1 + random.below(u64::from(self.layout.max_order.get())) as u8,
                mobility: mobility(random),
                direct: random.chance(50),
            },
            0..8 => ReclaimOp::Background { cpu, budget },
            8 => ReclaimOp::Rest { cpu, budget },
            9 => ReclaimOp::Relieve {
                cpu,
                frames: 1 + random.below(40) as u32,
            },
            _ => ReclaimOp::Drain,
        }
    }

    fn of_zone(&self, random: &mut Random) -> ReclaimOp {
        let pageblocks = self.layout.frames >> self.layout.pageblock_order.get();
        let block = random.below(pageblocks + 1) as u32;
        match random.below(8) {
            0..2 => ReclaimOp::Evacuate {
                cpu: draw::cpu(random, self.cpus()),
                block,
                blocks: 1 + random.below(2) as u32,
            },
            2 => self.of_owner(random),
            3 if self.has_labels => ReclaimOp::SetLabel {
                block,
                label: Label::from_index(random.below(5) as usize).expect("there are five"),
            },
            3 => ReclaimOp::Isolate {
                block,
                isolated: true,
            },
            _ => ReclaimOp::Isolate {
                block,
                isolated: false,
            },
        }
    }

    /// A run, mostly of a few frames.
    fn of_owner(&self, random: &mut Random) -> ReclaimOp {
        let most = if random.chance(70) {
            8
        } else {
            2 << self.layout.pageblock_order.get()
        };
        ReclaimOp::TakeRun {
            cpu: draw::cpu(random, self.cpus()),
            at: random.below(self.layout.frames) as u32,
            frames: 1 + random.below(most) as u32,
            linux: random.chance(50),
        }
    }

    /// Mostly small, sometimes any, seldom above the maximum.
    fn order(&self, random: &mut Random) -> u8 {
        let max = self.layout.max_order.get();
        let bound = match random.below(40) {
            0 => max + 2,
            1..4 => max + 1,
            4..18 => 4.min(max + 1),
            _ => 1,
        };
        random.below(u64::from(bound)) as u8
    }
}

fn mobility(random: &mut Random) -> Mobility {
    Mobility::ALL[random.below(3) as usize]
}
