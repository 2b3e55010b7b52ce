//! The machines that objects are run on, and how requests are drawn. Some machines lack records of slabs, some lack
//! frames, so that each way to starve comes up.

use super::{ObjectCall, ObjectOp, SimRam, run};
use crate::drive::{Cadence, DrivenCase, draw};
use crate::{Finding, Machine, Random, RunSummary};
use framewright::frame::ZoneLayout;
use framewright::kv::KvLayout;
use framewright::policy::{Config, Effort};
use framewright::vrange::SpaceLayout;
use framewright::{Addr, Context, Frame, Order, Page};

/// What a run is made of: a machine, and the mixture of operations.
#[derive(Clone, Copy, Debug)]
pub struct ObjectCase {
    /// The name, for the command that repeats a run.
    pub name: &'static str,
    /// The zone: as many seats as it has CPUs are used in turn by one thread.
    pub zone: ZoneLayout,
    /// The space.
    pub space: SpaceLayout,
    /// Where frame 0 lies.
    pub direct: Addr,
    /// The most slabs.
    pub slabs_max: u64,
    /// How much of what is free the zone's CPUs cache.
    pub cache_permille: u16,
    /// The cache says that it gave frames where it gave none.
    pub boasts: bool,
    /// The mixture of operations.
    pub mixture: ObjectMixture,
    /// Besides those at its ends, one in this many of an object's bytes is written and read.
    pub stride: u64,
    /// How often engine and model are compared.
    pub cadence: Cadence,
}

/// How often each kind happens, in a thousand operations; the rest are requests and frees.
#[derive(Clone, Copy, Debug)]
pub struct ObjectMixture {
    /// Frees of objects that do not exist, with wrong arguments, or outside; requests that can
    /// never be served.
    pub misuse: u64,
    /// Changes of length.
    pub realloc: u64,
    /// Reads.
    pub touch: u64,
    /// Drains, seats that are given back, the cache.
    pub whole: u64,
    /// Requests that may not wait.
    pub nowait: u64,
    /// Requests of up to 2 KiB.
    pub small: u64,
    /// The logarithm of the least power of two of which those are, or up to which.
    pub small_log: u64,
    /// The longest of the other usual requests, in bytes.
    pub usual_bytes: u64,
}

impl DrivenCase for ObjectCase {
    type Op = ObjectOp;
    type Platform = SimRam;

    const OPTION: Option<&'static str> = Some("--objects");

    /// The cases that every check runs: from memory of 16 frames to some thousand.
    fn all() -> Vec<Self> {
        let mixture = ObjectMixture {
            misuse: 110,
            realloc: 120,
            touch: 40,
            whole: 40,
            nowait: 120,
            small: 600,
            small_log: 0,
            usual_bytes: 40_000,
        };
        let case = |name, first, frames: u64, cpus, (start, pages, span_pages)| Self {
            name,
            zone: ZoneLayout::new(Frame(first), frames).with_cpus(cpus),
            space: SpaceLayout::new(Page(start), pages)
                .with_span_pages(span_pages)
                .with_cpus(cpus),
            direct: Addr(0x4000_0000),
            slabs_max: frames.div_ceil(4).max(u64::from(cpus)),
            cache_permille: Config::default().cache_permille,
            boasts: false,
            mixture,
            stride: 1,
            cadence: Cadence::EACH,
        };
        let mut cases = vec![
            case("sixteen", 0, 16, 2, (0x80_0000, 64, 8)),
            case("small", 0, 64, 3, (0x80_0000, 128, 16)),
            case("window", 0, 200, 2, (0x80_0000, 24, 4)),
            case("cache", 512, 192, 2, (0x80_0000, 512, 32)),
            case("few-slabs", 0, 128, 2, (0x80_0000, 256, 32)),
            case("skewed", 0, 200, 1, (0x80_0000, 512, 64)),
            case("mapped", 0, 256, 4, (0x80_0000, 1024, 64)),
            case("usual", 1024, 1024, 4, (0x80_0000, 4096, 256)),
            case("large", 0, 4096, 2, (0x80_0000, 16_384, 512)),
            // Longer than every block, and than the window.
            case("short-blocks", 0, 256, 2, (0x80_0000, 24, 4)),
            // Many slabs of each class; and few for all, while CPUs cache frames.
            case("slabs", 0, 1024, 2, (0x80_0000, 128, 16)),
            case("crowded", 0, 2048, 6, (0x80_0000, 4096, 256)),
            case("boasting", 0, 64, 2, (0x80_0000, 128, 16)),
        ];
        for case in &mut cases {
            match case.name {
                "cache" => case.mixture.whole = 120,
                "boasting" => case.boasts = true,
                "few-slabs" => case.slabs_max = 4,
                // No block is aligned to more than a page.
                "skewed" => case.direct = Addr(0x4000_7000),
                "mapped" => {
                    case.mixture.small = 200;
                    case.mixture.usual_bytes = 120_000;
                }
                "short-blocks" => {
                    let order = |order| Order::new(order).expect("a small order");
                    case.zone = case.zone.with_orders(order(2), order(3));
                }
                "slabs" => {
                    case.mixture = ObjectMixture {
                        touch: 10,
                        whole: 2,
                        small: 950,
                        small_log: 10,
                        usual_bytes: 3000,
                        ..mixture
                    };
                }
                "crowded" => {
                    case.slabs_max = 6;
                    case.cache_permille = 100;
                    case.mixture.whole = 120;
                    case.stride = 61;
                }
                "usual" | "large" => {
                    case.mixture.misuse = 20;
                    case.mixture.whole = 6;
                    case.mixture.usual_bytes = 100_000;
                    case.stride = 61;
                }
                _ => {}
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
        self.cadence = Cadence::sparse(self.zone.frames);
        self.stride = 251;
        self
    }

    fn op(&self, random: &mut Random, nth: u64) -> ObjectOp {
        let ObjectMixture {
            misuse,
            realloc,
            touch,
            whole,
            ..
        } = self.mixture;
        let cpu = self.cpu(random);
        let pick = random.bits() as u32;
        match random.below(1000) {
            n if n < misuse => self.misuse(random, cpu, pick),
            n if n < misuse + realloc => {
                let bytes = self.bytes(random);
                self.realloc(random, cpu, pick, bytes)
            }
            n if n < misuse + realloc + touch => ObjectOp::Touch { cpu, pick },
            n if n < misuse + realloc + touch + whole => self.whole(random, cpu),
            _ => self.plain(random, cpu, pick, nth),
        }
    }

    fn platform(&self) -> SimRam {
        self.ram()
    }

    fn machine(platform: &SimRam) -> &Machine {
        platform.machine()
    }

    fn run(
        &self,
        platform: &SimRam,
        ops: impl IntoIterator<Item = ObjectOp>,
    ) -> Result<RunSummary, Finding> {
        run(self, platform, ops)
    }
}

impl ObjectCase {
    /// The layout of the object allocator.
    #[must_use]
    pub const fn objects(&self) -> KvLayout {
        KvLayout::new(self.zone.start, self.zone.frames)
            .with_cpus(self.zone.cpus)
            .with_slabs_max(self.slabs_max)
    }

    /// The machine that the case runs on.
    #[must_use]
    pub fn ram(&self) -> SimRam {
        SimRam::new(
            self.zone.cpus,
            self.zone.start,
            self.zone.frames,
            self.direct,
            self.space.start,
            self.space.pages,
        )
    }

    /// A request or a free.
    fn plain(&self, random: &mut Random, cpu: u16, pick: u32, nth: u64) -> ObjectOp {
        let phase_ops = self.zone.frames + 40;
        if draw::is_request(random, nth, phase_ops) {
            let (bytes, align_bytes) = (self.bytes(random), self.align_bytes(random));
            self.request(random, cpu, bytes, align_bytes)
        } else {
            let kfree = random.chance(50);
            ObjectOp::Free { cpu, pick, kfree }
        }
    }

    fn request(&self, random: &mut Random, cpu: u16, bytes: u64, align_bytes: u64) -> ObjectOp {
        let call = match random.below(16) {
            0..6 => ObjectCall::Kmalloc,
            6 => ObjectCall::Kvcalloc(1 + random.below(64)),
            7 => ObjectCall::Vmalloc,
            _ => ObjectCall::Kvmalloc,
        };
        ObjectOp::Alloc {
            cpu,
            call,
            bytes,
            align_bytes,
            zero: random.chance(30),
            effort: effort(random),
            context: self.context(random),
        }
    }

    fn realloc(&self, random: &mut Random, cpu: u16, pick: u32, bytes: u64) -> ObjectOp {
        ObjectOp::Realloc {
            cpu,
            pick,
            bytes,
            align_bytes: self.align_bytes(random),
            zero: random.chance(50),
            effort: effort(random),
            context: self.context(random),
        }
    }

    fn misuse(&self, random: &mut Random, cpu: u16, pick: u32) -> ObjectOp {
        let kfree = random.chance(50);
        match random.below(10) {
            0 | 1 => ObjectOp::FreeTwice { cpu, pick, kfree },
            2 | 4 => ObjectOp::FreeBehind {
                cpu,
                pick,
                back: 1 + random.below(4) as u8,
                kfree,
            },
            3 => ObjectOp::FreeWrong {
                cpu,
                pick,
                offset: match random.below(3) {
                    0 => random.below(32),
                    1 => Page::BYTES * random.below(4),
                    _ => random.below(8192),
                },
                kfree,
            },
            5 => ObjectOp::FreeAny {
                cpu,
                at: self.place(random),
                kfree,
            },
            6 => ObjectOp::ReallocAny {
                cpu,
                at: self.place(random),
                bytes: self.bytes(random),
            },
            7 | 8 => {
                let bytes = draw::odd_length(random, self.zone.frames * Page::BYTES);
                if random.chance(30) {
                    self.realloc(random, cpu, pick, bytes)
                } else {
                    self.request(random, cpu, bytes, 1)
                }
            }
            _ => {
                let align_bytes = draw::odd_alignment(random);
                let bytes = self.bytes(random);
                self.request(random, cpu, bytes, align_bytes)
            }
        }
    }

    fn whole(&self, random: &mut Random, cpu: u16) -> ObjectOp {
        let frames = 1 + random.below(self.zone.frames / 4);
        match random.below(8) {
            0 => ObjectOp::Reseat { cpu },
            1 | 2 => ObjectOp::Drain { cpu },
            3..6 => ObjectOp::Fill { cpu, frames },
            _ => ObjectOp::Drop { cpu, frames },
        }
    }

    fn cpu(&self, random: &mut Random) -> u16 {
        draw::cpu(random, self.zone.cpus)
    }

    fn context(&self, random: &mut Random) -> Context {
        let nowait = self.mixture.nowait;
        match random.below(1000) {
            n if n < nowait => Context::NOWAIT,
            n if n < nowait + 100 => Context::NOIO,
            n if n < nowait + 200 => Context::NOFS,
            n if n < nowait + 260 => Context {
                may_reclaim: false,
                ..Context::ANY
            },
            _ => Context::ANY,
        }
    }

    /// Small by the mixture, of any length; or about as long as usual; seldom up to all of memory.
    fn bytes(&self, random: &mut Random) -> u64 {
        if random.below(1000) < self.mixture.small {
            let most = 1 << (self.mixture.small_log + random.below(12 - self.mixture.small_log));
            // Often exactly a class or a power of two.
            return if random.chance(30) {
                most
            } else {
                1 + random.below(most)
            };
        }
        let most = match random.below(64) {
            0 => self.zone.frames * Page::BYTES,
            1..8 => self.mixture.usual_bytes * 4,
            _ => self.mixture.usual_bytes,
        };
        let bytes = 1 + random.below(most);
        if random.chance(20) {
            bytes.next_power_of_two()
        } else {
            bytes
        }
    }

    /// Mostly no alignment, sometimes up to a page, seldom more.
    fn align_bytes(&self, random: &mut Random) -> u64 {
        match random.below(32) {
            0 => 1 << random.below(21),
            1..6 => 1 << random.below(13),
            _ => 1,
        }
    }

    /// A byte of memory or window, now and then of neither; mostly at a frame's start.
    fn place(&self, random: &mut Random) -> u64 {
        let pages = self.zone.frames + self.space.pages + 4;
        let at = random.below(pages) * Page::BYTES;
        match random.below(3) {
            0 => at,
            1 => at + 16 * random.below(256),
            _ => at + random.below(Page::BYTES),
        }
    }
}

fn effort(random: &mut Random) -> Effort {
    match random.below(8) {
        0..4 => Effort::FailFast,
        4..6 => Effort::MayCompact,
        _ => Effort::MustSucceed,
    }
}
