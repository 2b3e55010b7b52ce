//! The spaces that ranges are run over: small windows, where everything collides, and platforms that fail.

use super::{RangeOp, run};
use crate::drive::{Cadence, DrivenCase, draw};
use crate::{Finding, Machine, MachineCall, Paging, Random, RunSummary};
use framewright::policy::RangeConfig;
use framewright::vrange::{AreaKind, SpaceLayout};
use framewright::{Context, Page};

/// What a run is made of: a space, its policies, and the mixture of operations.
#[derive(Clone, Copy, Debug)]
pub struct RangeCase {
    /// The name, for the command that repeats a run.
    pub name: &'static str,
    /// The space; as many seats as it has CPUs are used in turn by one thread.
    pub layout: SpaceLayout,
    /// Its policies.
    pub config: RangeConfig,
    /// Frames in the pool behind `vmalloc`.
    pub pool_frames: u32,
    /// How many pages the platform can map.
    pub mapped_max: u64,
    /// The pages of one page table, in a frame of the pool; 0 if the platform needs none.
    pub table_pages: u64,
    /// Whether each CPU's TLB loads what is mapped without an access.
    pub is_eager: bool,
    /// The mixture of operations.
    pub mixture: RangeMixture,
    /// How often engine and model are compared.
    pub cadence: Cadence,
}

/// How often each kind happens, in a thousand operations; the rest are requests and frees.
#[derive(Clone, Copy, Debug)]
pub struct RangeMixture {
    /// Frees of areas that do not exist, with wrong arguments, or outside; requests that can never
    /// be served.
    pub misuse: u64,
    /// Reads and writes, lookups.
    pub touch: u64,
    /// Purges, drains, seats that are given back.
    pub whole: u64,
    /// Requests that may not wait.
    pub nowait: u64,
    /// Calls of the platform's that are to fail. What may be refused, and be lazy, is less sure then.
    pub faults: u64,
    /// How often an area is plain, of `vmalloc`, of `map_ram`.
    pub kinds: [u64; 3],
    /// The longest of the usual requests, in pages.
    pub usual_pages: u64,
    /// The longest of all but the odd ones.
    pub longest_pages: u64,
    /// Whether requests ask for more than a page's alignment. One that finds no such place drains
    /// everything.
    pub aligns: bool,
    /// How many operations each phase has, in which the run fills, stays or empties.
    pub phase_ops: u64,
}

impl DrivenCase for RangeCase {
    type Op = RangeOp;
    type Platform = Paging;

    const OPTION: Option<&'static str> = Some("--ranges");

    /// The cases that every check runs: windows of one to a thousand spans, with the smallest
    /// spans and the usual ones, and each policy off and on.
    fn all() -> Vec<Self> {
        let everything = RangeMixture {
            misuse: 80,
            touch: 100,
            whole: 30,
            nowait: 100,
            faults: 0,
            kinds: [2, 2, 2],
            usual_pages: 8,
            longest_pages: u64::MAX,
            aligns: true,
            phase_ops: 0,
        };
        let plain = RangeMixture {
            misuse: 20,
            touch: 20,
            whole: 1,
            nowait: 20,
            faults: 0,
            kinds: [4, 2, 3],
            usual_pages: 20,
            longest_pages: u64::MAX,
            aligns: true,
            phase_ops: 0,
        };
        // Areas of several pages, most of them with frames, and phases in which half of a window is
        // freed. So a pass of the purge has more to do than it does at once, wherever it ends in a
        // span, and lists and depot overflow.
        // Hardly anything drains: after a drain all areas are the arena's, and a pass finds little.
        let freeing = RangeMixture {
            misuse: 1,
            touch: 5,
            whole: 1,
            nowait: 5,
            faults: 0,
            kinds: [1, 6, 1],
            usual_pages: 40,
            longest_pages: u64::MAX,
            aligns: true,
            phase_ops: 6000,
        };
        // Short areas apart from one another, of which a window holds them all: so many in six spans that a
        // pass ends before it has seen all of them; and so many of one length that lists and depot are full.
        let short = RangeMixture {
            aligns: false,
            misuse: 0,
            whole: 0,
            usual_pages: 8,
            longest_pages: 24,
            phase_ops: 1600,
            ..freeing
        };
        let failing = RangeMixture {
            misuse: 200,
            faults: 90,
            whole: 120,
            nowait: 350,
            ..everything
        };
        let case = |name, (start, pages, span_pages), cpus, lazy_pages_max, kept_pages_max| Self {
            name,
            layout: SpaceLayout::new(Page(start), pages)
                .with_span_pages(span_pages)
                .with_cpus(cpus),
            config: RangeConfig {
                lazy_pages_max,
                kept_pages_max,
                ..RangeConfig::default().kept()
            },
            pool_frames: pages as u32,
            mapped_max: u64::MAX,
            table_pages: 0,
            is_eager: true,
            mixture: RangeMixture {
                phase_ops: pages / 4 + 20,
                ..if pages > 4096 { plain } else { everything }
            },
            cadence: Cadence::EACH,
        };
        let mut cases = vec![
            case("eight", (0, 8, 4), 2, 4, 0),
            case("one-span", (64, 8, 8), 1, 2, 2),
            case("seven", (32, 39, 16), 3, 0, 0),
            case("kept", (1 << 20, 200, 32), 2, 64, 64),
            case("arena", (4096, 300, 64), 2, 40, 0),
            case("blocks", (0, 256, 64), 4, 60, 0),
            case("before", (0, 256, 32), 2, 40, 0),
            case("head", (512, 200, 32), 2, 32, 16),
            case("few-frames", (128, 500, 128), 4, 100, 100),
            case("tables", (128, 500, 128), 3, 100, 60),
            case("at-once-tables", (64, 400, 32), 2, 40, 60),
            case("access", (1024, 128, 16), 4, 30, 20),
            case("limit", (0, 256, 32), 2, 60, 30),
            case("usual", (1 << 30, 8192, 1024), 4, 2000, 300),
            case("large", (1 << 22, 100_000, 512), 2, 8192, 1024),
            case("large-arena", (1024, 50_000, 1024), 1, 1000, 0),
            // No area is kept, so passes meet more separate areas than one of them unmaps.
            case("none-kept", (1 << 26, 16_384, 1024), 2, 8192, 0),
            case("whole", (1 << 20, 32_768, 1024), 1, 4000, 0),
            case("whole-sent", (1 << 20, 32_768, 1024), 2, 4000, 0),
            case("whole-kept", (1 << 20, 32_768, 1024), 3, 2000, 512),
            case("separate", (1 << 20, 8192, 1024), 1, 2000, 0),
            case("separate-wide", (1 << 20, 10_240, 1024), 1, 2500, 0),
            case("separate-words", (1 << 20, 8192, 1024), 1, 2000, 0),
            case("same-length", (1 << 20, 16_384, 64), 2, 1000, 600),
            case("scarce", (128, 500, 128), 2, 100, 100),
            case("failing", (64, 120, 16), 2, 60, 20),
            case("failing-few", (64, 16, 8), 2, 8, 4),
            case("failing-arena", (64, 200, 16), 2, 80, 0),
            // All of it is one run: what cannot be unmapped is in more spans than one pass takes.
            case("failing-spans", (64, 64, 4), 2, 60, 0),
            case("failing-tight", (64, 320, 32), 2, 12, 12),
            case("failing-one", (64, 8, 8), 1, 4, 2),
            case("at-once", (1 << 20, 400, 32), 3, 64, 64),
            case("at-once-arena", (4096, 300, 64), 2, 40, 0),
            case("at-once-blocks", (0, 256, 64), 4, 60, 0),
            case("at-once-usual", (1 << 30, 8192, 1024), 4, 2000, 300),
            case("at-once-failing", (64, 120, 16), 2, 60, 0),
            // Lists that are full of areas without a mapping, for short ones and for long ones.
            case("at-once-kept", (1 << 30, 8192, 1024), 2, 300, 60),
            case("at-once-kept-long", (1 << 20, 32_768, 1024), 2, 1000, 300),
            case("at-once-kept-one", (64, 200, 32), 1, 16, 60),
            case("at-once-kept-failing", (64, 400, 32), 1, 16, 120),
        ];
        for case in &mut cases {
            case.config.strict = case.name.starts_with("at-once");
            match case.name {
                "arena" | "large-arena" | "at-once-arena" => case.config.spans = false,
                "blocks" | "at-once-blocks" => {
                    case.config.recycle = false;
                    case.mixture.kinds = [1, 0, 9];
                }
                "before" => {
                    case.config.newest_first = true;
                    case.config.recycle = false;
                    case.config.spans = false;
                    case.mixture.kinds = [1, 1, 6];
                }
                "head" => case.config.newest_first = true,
                "few-frames" => case.pool_frames = 60,
                "limit" => {
                    case.mapped_max = 70;
                    // Pages that users map themselves count too, but the model does not know them.
                    case.mixture.kinds = [0, 4, 5];
                }
                "tables" | "at-once-tables" => {
                    case.pool_frames = 90;
                    case.table_pages = 16;
                    case.mixture.kinds = [0, 4, 5];
                }
                "access" => case.is_eager = false,
                "whole" | "whole-sent" | "whole-kept" | "at-once-kept-long" => {
                    case.mixture = freeing;
                }
                "separate" | "separate-wide" | "at-once-kept" => case.mixture = short,
                "at-once-kept-failing" => {
                    case.mixture = RangeMixture {
                        phase_ops: case.mixture.phase_ops,
                        misuse: 20,
                        whole: 10,
                        kinds: [0, 6, 0],
                        usual_pages: 4,
                        longest_pages: 12,
                        ..failing
                    };
                }
                // Now and then a word ends within an area.
                "separate-words" => {
                    case.mixture = RangeMixture {
                        usual_pages: 16,
                        longest_pages: 20,
                        phase_ops: 1000,
                        ..short
                    };
                }
                "same-length" => {
                    case.mixture = RangeMixture {
                        usual_pages: 3,
                        longest_pages: 12,
                        phase_ops: 2500,
                        ..short
                    };
                }
                // Fewer frames than pages, and more than are kept of one area: the longest find too few.
                "scarce" => case.pool_frames = 150,
                "failing" | "failing-few" | "failing-arena" | "failing-spans" | "failing-tight"
                | "failing-one" | "at-once-failing" => {
                    case.config.spans = case.name != "failing-arena";
                    case.mixture = RangeMixture {
                        phase_ops: case.mixture.phase_ops,
                        ..failing
                    };
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
        self.cadence = Cadence::sparse(self.layout.pages);
        self
    }

    fn op(&self, random: &mut Random, nth: u64) -> RangeOp {
        let RangeMixture {
            misuse,
            touch,
            whole,
            faults,
            ..
        } = self.mixture;
        match random.below(1000) {
            n if n < misuse => self.misuse(random),
            n if n < misuse + touch => self.touch(random),
            n if n < misuse + touch + whole => self.whole(random),
            n if n < misuse + touch + whole + faults => Self::fault(random),
            _ => self.plain(random, nth),
        }
    }

    fn platform(&self) -> Paging {
        self.paging()
    }

    fn machine(platform: &Paging) -> &Machine {
        platform.machine()
    }

    fn run(
        &self,
        platform: &Paging,
        ops: impl IntoIterator<Item = RangeOp>,
    ) -> Result<RunSummary, Finding> {
        run(self, platform, ops)
    }
}

impl RangeCase {
    /// A request or a free.
    fn plain(&self, random: &mut Random, nth: u64) -> RangeOp {
        let cpu = self.cpu(random);
        if draw::is_request(random, nth, self.mixture.phase_ops) {
            let (pages, align_bytes) = (self.pages(random), self.align_bytes(random));
            self.request(random, cpu, pages, align_bytes)
        } else {
            let pick = random.bits() as u32;
            // Not the bits that say which area.
            match pick >> 26 {
                0..4 => RangeOp::FreeAtomic { pick },
                4 => RangeOp::FreeDeferred { cpu },
                _ => RangeOp::Free { cpu, pick },
            }
        }
    }

    fn request(&self, random: &mut Random, cpu: u16, pages: u64, align_bytes: u64) -> RangeOp {
        let [plain, vmalloc, ram] = self.mixture.kinds;
        let kind = match random.below(plain + vmalloc + ram) {
            n if n < plain => AreaKind::Plain,
            n if n < plain + vmalloc => AreaKind::Vmalloc,
            _ => AreaKind::Ram,
        };
        let context = match random.below(1000) {
            n if n < self.mixture.nowait => Context::NOWAIT,
            n if n < self.mixture.nowait + 100 => Context::NOFS,
            _ => Context::ANY,
        };
        RangeOp::Alloc {
            cpu,
            kind,
            pages,
            align_bytes,
            guard_before: random.chance(12),
            huge: random.chance(20),
            zero: random.chance(30),
            context,
        }
    }

    fn misuse(&self, random: &mut Random) -> RangeOp {
        let (cpu, pick) = (self.cpu(random), random.bits() as u32);
        match random.below(8) {
            0 | 1 => RangeOp::FreeTwice { cpu, pick },
            2 | 3 => RangeOp::FreeWrong {
                cpu,
                pick,
                kind: kind(random),
                offset: random.below(3) * random.below(self.mixture.usual_pages + 1),
                more: random.below(4) as i8 - 2,
            },
            4 | 5 => RangeOp::FreeAny {
                cpu,
                at: self.place(random),
                kind: kind(random),
                pages: random.below(self.mixture.usual_pages + 1),
            },
            6 => {
                let pages = draw::odd_length(random, self.layout.pages);
                self.request(random, cpu, pages, 4096)
            }
            _ => {
                let align_bytes = draw::odd_alignment(random);
                let pages = random.below(3);
                self.request(random, cpu, pages, align_bytes)
            }
        }
    }

    fn touch(&self, random: &mut Random) -> RangeOp {
        let cpu = self.cpu(random);
        match random.below(4) {
            0 => RangeOp::Find {
                at: self.place(random),
            },
            1 => RangeOp::TouchAny {
                cpu,
                at: self.place(random),
            },
            _ => RangeOp::Touch {
                cpu,
                pick: random.bits() as u32,
                nth: random.below(64),
            },
        }
    }

    fn whole(&self, random: &mut Random) -> RangeOp {
        let cpu = self.cpu(random);
        match random.below(4) {
            0 => RangeOp::Reseat { cpu },
            1 => RangeOp::Drain { cpu },
            _ => RangeOp::Purge { cpu },
        }
    }

    /// Mostly what is unmapped: what remains then is lazy still. Sometimes so many calls in a row that whatever a CPU tries
    /// to unmap stays.
    fn fault(random: &mut Random) -> RangeOp {
        let call = match random.below(8) {
            0 => MachineCall::Frames,
            1 | 2 => MachineCall::Map,
            _ => MachineCall::Unmap,
        };
        RangeOp::Fault {
            call,
            after: random.below(4) as u8,
            times: if random.chance(2) { u8::MAX } else { 1 },
        }
    }

    fn cpu(&self, random: &mut Random) -> u16 {
        draw::cpu(random, self.layout.cpus)
    }

    /// Mostly small, sometimes about a span, seldom up to the whole window.
    fn pages(&self, random: &mut Random) -> u64 {
        let bound = match random.below(64) {
            // Each page of an area is used, so few areas are so long that they would take all the
            // time.
            0 if self.layout.pages > 4096 && !random.chance(2) => self.layout.pages / 64,
            0 => self.layout.pages,
            1..4 => u64::from(self.layout.span_pages) * 2,
            4..24 => self.mixture.usual_pages,
            _ => 3,
        };
        1 + random.below(bound.min(self.layout.pages).min(self.mixture.longest_pages))
    }

    /// Mostly no alignment, sometimes up to a span's, seldom more.
    fn align_bytes(&self, random: &mut Random) -> u64 {
        if !self.mixture.aligns {
            return Page::BYTES;
        }
        let span_shift = u64::from(self.layout.span_pages.trailing_zeros());
        match random.below(32) {
            0 => Page::BYTES << random.below(span_shift + 4),
            1..6 => Page::BYTES << random.below(span_shift + 1),
            6..8 => 1 << random.below(13),
            _ => Page::BYTES,
        }
    }

    /// An offset, now and then outside.
    fn place(&self, random: &mut Random) -> u64 {
        random.below(self.layout.pages + self.layout.pages / 8 + 4)
    }
}

fn kind(random: &mut Random) -> AreaKind {
    [AreaKind::Plain, AreaKind::Vmalloc, AreaKind::Ram][random.below(3) as usize]
}
