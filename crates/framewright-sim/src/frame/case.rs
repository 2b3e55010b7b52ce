//! The zones that the model is run over, and how operations on them are drawn. A seed and a case's name repeat a run.

use super::{FrameOp, run};
use crate::drive::{Cadence, DrivenCase, draw};
use crate::{Finding, Machine, Random, RunSummary};
use framewright::frame::ZoneLayout;
use framewright::policy::{Config, Fallback, Label};
use framewright::{Frame, Mobility, Order};

/// What a run is made of: a zone, its policies, and the mixture of operations.
#[derive(Clone, Copy, Debug)]
pub struct FrameCase {
    /// The name, for the command that repeats a run.
    pub name: &'static str,
    /// The zone; as many seats as it has CPUs are used in turn by one thread.
    pub layout: ZoneLayout,
    /// Its policies.
    pub config: Config,
    /// The mixture of operations.
    pub mixture: FrameMixture,
    /// How often engine and model are compared.
    pub cadence: Cadence,
}

/// How often each kind happens, in a thousand operations; the rest are allocations and frees.
#[derive(Clone, Copy, Debug)]
pub struct FrameMixture {
    /// Frees of frames that are not allocated, with a wrong order, or outside.
    pub misuse: u64,
    /// Partial, bulk and range operations.
    pub pieces: u64,
    /// Operations on the zone as a whole: memory that comes and goes, isolation, labels, drains.
    pub zone: u64,
    /// How many orders are asked for, from 0 on.
    pub orders: u8,
    /// Whether each of these is asked for as often as the others.
    pub evenly: bool,
}

impl DrivenCase for FrameCase {
    type Op = FrameOp;
    type Platform = Machine;

    const OPTION: Option<&'static str> = None;

    /// The cases that every check runs: small zones, where everything collides; zones that start
    /// at odd frames and have holes; pageblocks of the usual orders, and blocks above them.
    fn all() -> Vec<Self> {
        let everything = FrameMixture {
            misuse: 60,
            pieces: 120,
            zone: 40,
            orders: u8::MAX,
            evenly: false,
        };
        // Operations on a large zone as a whole cost as much as thousands of others.
        let mostly_plain = FrameMixture {
            misuse: 30,
            pieces: 60,
            zone: 1,
            orders: u8::MAX,
            evenly: false,
        };
        let frame_by_frame = FrameMixture {
            misuse: 5,
            pieces: 5,
            zone: 0,
            orders: 1,
            evenly: false,
        };
        let order_by_order = FrameMixture {
            orders: 9,
            evenly: true,
            ..frame_by_frame
        };
        let order = |order| Order::new(order).expect("a small order");
        let case =
            |name, start, frames, (pageblock, max), cpus, fallback, cache_permille, mixture| Self {
                name,
                layout: ZoneLayout::new(Frame(start), frames)
                    .with_orders(order(pageblock), order(max))
                    .with_cpus(cpus),
                config: Config {
                    fallback,
                    cache_permille,
                    ..Config::default()
                },
                mixture,
                cadence: Cadence::EACH,
            };
        use Fallback::{Concentrated, LargestFirst, SmallestWhenCostly};
        let mut cases = vec![
            case("eight", 0, 8, (1, 3), 2, Concentrated, 100, everything),
            case("one-block", 3, 5, (3, 3), 1, LargestFirst, 5, everything),
            case(
                "odd",
                5,
                120,
                (4, 6),
                3,
                SmallestWhenCostly,
                100,
                everything,
            ),
            case("crumbs", 6, 2000, (2, 5), 1, Concentrated, 100, everything),
            case(
                "holes",
                1537,
                1000,
                (6, 8),
                2,
                Concentrated,
                100,
                everything,
            ),
            case("words", 128, 1024, (8, 9), 2, LargestFirst, 100, everything),
            case(
                "usual",
                0,
                4096,
                (9, 10),
                2,
                Concentrated,
                100,
                mostly_plain,
            ),
            case(
                "large",
                512,
                16_384,
                (9, 11),
                4,
                Concentrated,
                5,
                mostly_plain,
            ),
            case(
                "document",
                0,
                16_384,
                (10, 10),
                2,
                SmallestWhenCostly,
                5,
                mostly_plain,
            ),
            // So large that its caches have stocks; and with so many CPUs that a look at the limits
            // is not due each time.
            case(
                "stock",
                0,
                65_536,
                (9, 10),
                2,
                Concentrated,
                100,
                mostly_plain,
            ),
            case("many", 64, 2048, (6, 8), 8, Concentrated, 100, everything),
            // Its stocks have several words, and are used up.
            case(
                "stocked",
                0,
                32_768,
                (9, 10),
                1,
                Concentrated,
                100,
                frame_by_frame,
            ),
            // A stock serves all orders below a pageblock's.
            case(
                "orders",
                0,
                131_072,
                (9, 10),
                1,
                Concentrated,
                100,
                order_by_order,
            ),
        ];
        // In one of them no word fits into the cache in front.
        for case in cases.iter_mut().filter(|case| case.name == "words") {
            case.config.cache_blocks_max = 24;
        }
        // Half of those with several CPUs refuse no order that could be made of cached frames.
        for case in &mut cases {
            if matches!(case.name, "eight" | "holes" | "usual") {
                case.config.stop_order_max = Order::MAX;
            }
        }
        cases
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

    fn op(&self, random: &mut Random, nth: u64) -> FrameOp {
        let FrameMixture {
            misuse,
            pieces,
            zone,
            ..
        } = self.mixture;
        match random.below(1000) {
            n if n < misuse => self.misuse(random),
            n if n < misuse + pieces => self.piece(random),
            n if n < misuse + pieces + zone => self.whole(random),
            _ => self.plain(random, nth),
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
        ops: impl IntoIterator<Item = FrameOp>,
    ) -> Result<RunSummary, Finding> {
        run(self, platform, ops)
    }
}

/// Of a hundred requests those that must not wait.
const AT_ONCE: u64 = 12;

impl FrameCase {
    /// A request or a free.
    fn plain(&self, random: &mut Random, nth: u64) -> FrameOp {
        // A phase of requests fills a part of memory: most requests are for one frame or a few, or a block of any order.
        let mean = match self.mixture.evenly {
            true => ((1 << self.mixture.orders) - 1) / u64::from(self.mixture.orders),
            false => 1,
        };
        let phase_ops = self.layout.frames / (2 * mean) + 20;
        let cpu = self.cpu(random);
        if draw::is_request(random, nth, phase_ops) {
            let (order, mobility) = (self.order(random), mobility(random));
            match random.chance(AT_ONCE) {
                true => FrameOp::AllocAtOnce {
                    cpu,
                    order,
                    mobility,
                },
                false => FrameOp::Alloc {
                    cpu,
                    order,
                    mobility,
                },
            }
        } else {
            FrameOp::Free {
                cpu,
                pick: random.bits() as u32,
            }
        }
    }

    fn misuse(&self, random: &mut Random) -> FrameOp {
        let (cpu, at, order) = (self.cpu(random), self.place(random), self.order(random));
        let pick = random.bits() as u32;
        match random.below(5) {
            0 => FrameOp::FreeTwice { cpu, pick },
            1 => FrameOp::FreePartAny { cpu, at, order },
            2 => FrameOp::FreeRangeAny {
                cpu,
                at,
                frames: self.frames(random),
            },
            3 => FrameOp::FreeFramesAny {
                cpu,
                at,
                frames: self.frames(random),
            },
            _ => FrameOp::FreeAny { cpu, at, order },
        }
    }

    fn piece(&self, random: &mut Random) -> FrameOp {
        let (cpu, order) = (self.cpu(random), self.order(random));
        let (pick, count) = (random.bits() as u32, random.below(12) as u8);
        match random.below(13) {
            12 => FrameOp::Singles {
                cpu,
                frames: match random.chance(80) {
                    true => random.below(2 << self.layout.pageblock_order.get()) as u32,
                    false => self.frames(random),
                },
                align: match random.chance(70) {
                    true => 0,
                    false => random.below(11) as u8,
                },
                mobility: mobility(random),
            },
            11 => FrameOp::Split {
                cpu,
                pick,
                into: order,
                off: match random.chance(90) {
                    true => 0,
                    false => random.below(9) as u8,
                },
            },
            0 | 1 => FrameOp::FreePart {
                cpu,
                pick,
                order,
                part: random.bits() as u32,
            },
            2 => FrameOp::AllocBulk {
                cpu,
                order,
                mobility: mobility(random),
                count,
            },
            3 => FrameOp::FreeBulk {
                cpu,
                pick,
                count,
                twice: random.chance(20),
            },
            4 => FrameOp::FreeRange { cpu, pick, count },
            5 => FrameOp::Reseat { cpu },
            6 | 7 => FrameOp::TakeRun {
                cpu,
                frames: match random.chance(80) {
                    true => random.below(2 << self.layout.pageblock_order.get()) as u32,
                    false => self.frames(random),
                },
            },
            8 | 9 => FrameOp::FreeFrames {
                cpu,
                pick,
                count,
                cut: match random.chance(50) {
                    true => 0,
                    false => random.bits() as u16,
                },
            },
            _ => FrameOp::AllocAt {
                at: self.place(random),
                order,
                mobility: mobility(random),
            },
        }
    }

    fn whole(&self, random: &mut Random) -> FrameOp {
        let frames = self.frames(random);
        let shift = self.layout.pageblock_order.get();
        // Often in the first pageblocks, so that labels, isolation and the reserve meet.
        let at = if random.chance(40) {
            random.below(4 << shift) as u32
        } else {
            self.place(random)
        };
        let (block, blocks) = (at >> shift, 1 + random.below(2) as u32);
        match random.below(16) {
            0 | 1 => FrameOp::Add { at, frames },
            2 => FrameOp::Remove { at, frames },
            3 => FrameOp::Isolate { block, blocks },
            4 | 5 => FrameOp::Unisolate { block, blocks },
            // Only in the first eight, so that the high-order reserve, a hundredth at most, has room.
            6 | 7 => FrameOp::SetLabel {
                block: block % 8,
                blocks,
                label: Label::from_index(random.below(5) as usize).expect("there are five"),
            },
            8 => FrameOp::AllocRun {
                at,
                frames,
                mobility: mobility(random),
            },
            // Requests that can never be served are made, too.
            9 | 10 => FrameOp::AllocContiguous {
                frames: match random.below(12) {
                    0 => 0,
                    1 => u32::MAX - random.below(3) as u32,
                    2 => self.layout.frames as u32 + 1 - random.below(3) as u32,
                    3 => frames.saturating_mul(8),
                    _ => frames,
                },
                align: match random.below(12) {
                    0 => random.below(64) as u32,
                    _ => random.below(6) as u32,
                },
                mobility: mobility(random),
            },
            11 => FrameOp::ReserveHighOrder { blocks: 3 * blocks },
            12 | 13 => FrameOp::Pin {
                at,
                pinned: random.chance(60),
            },
            _ => FrameOp::Drain,
        }
    }

    fn cpu(&self, random: &mut Random) -> u16 {
        draw::cpu(random, self.layout.cpus)
    }

    /// Mostly small, sometimes any, seldom above the maximum.
    fn order(&self, random: &mut Random) -> u8 {
        let max = self.layout.max_order.get();
        if self.mixture.evenly {
            return random.below(self.mixture.orders.into()) as u8;
        }
        let bound = match random.below(32) {
            0 => max + 2,
            1..4 => max + 1,
            4..16 => 4.min(max + 1),
            _ => 1,
        };
        random.below(u64::from(bound.min(self.mixture.orders))) as u8
    }

    /// An offset, now and then outside.
    fn place(&self, random: &mut Random) -> u32 {
        random.below(self.layout.frames + self.layout.frames / 8 + 8) as u32
    }

    /// A length, mostly short.
    fn frames(&self, random: &mut Random) -> u32 {
        let bound = match random.below(4) {
            0 => self.layout.frames / 2,
            1 => 2 << self.layout.pageblock_order.get(),
            _ => 8,
        };
        random.below(bound + 1) as u32
    }
}

fn mobility(random: &mut Random) -> Mobility {
    Mobility::ALL[random.below(3) as usize]
}
