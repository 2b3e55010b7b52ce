//! An object allocator with its space and zone, and the model of objects, in step. They stand alone, without the
//! engine's front door: see [`drive`](crate::drive).

mod compare;
mod length;

use super::{
    Made, ModelObject, ObjectCall, ObjectCase, ObjectModel, ObjectOp, RecordedSeat, SimCache,
    SimRam,
};
use crate::Machine;
use crate::difference::{Difference, Finding, RunSummary, differ};
use crate::drive::{self, CpuSeats, in_step};
use crate::range::RangeModel;
use framewright::frame::{AllocError, Zone};
use framewright::kv::{Kv, KvError, KvFreeError, KvRequest, KvSeat};
use framewright::platform::MapError;
use framewright::policy::{Config, Effort, RangeConfig};
use framewright::stats::KvStats;
use framewright::vrange::{AreaKind, RangeError, Space};
use framewright::{Addr, CpuId, Page};

type SimKvSeat<'s, 'm> = KvSeat<'s, 's, 'm, &'s SimRam, RecordedSeat<'s, 'm>, &'s SimCache<'s>>;

/// Engine and model, in step.
struct ObjectPair<'s, 'm> {
    case: ObjectCase,
    ram: &'s SimRam,
    cache: &'s SimCache<'s>,
    zone: &'s Zone<'m, &'s SimRam>,
    space: &'s Space<'m, &'s SimRam>,
    kv: &'s Kv<'m, &'s SimRam>,
    seats: CpuSeats<SimKvSeat<'s, 'm>>,
    model: ObjectModel,
    /// The mapped objects as areas.
    ranges: RangeModel,
    expected: KvStats,
    summary: RunSummary,
}

/// If engine and model are compared seldom, one in this many refusals is checked: whether a drain
/// would still have brought memory (K9).
const COLLECTED: u64 = 64;

/// A request and its call.
#[derive(Clone, Copy, Debug)]
struct AskedObject {
    cpu: u16,
    made: Made,
    request: KvRequest,
}

/// Runs a sequence on engine and model. Each operation's result, the bytes of objects, the
/// counters, and what the engine's parts verify of themselves are compared as often as `case` says.
/// At the end everything is freed and drained, and all frames must be back.
///
/// A panic of the engine is a difference too. After a call that `ram`'s machine makes fail,
/// everything must be as it was before the operation.
///
/// # Errors
/// The first difference.
///
/// # Panics
/// If a layout of the case is impossible.
pub fn run(
    case: &ObjectCase,
    ram: &SimRam,
    ops: impl IntoIterator<Item = ObjectOp>,
) -> Result<RunSummary, Finding> {
    let words = [
        case.zone.words_needed().expect("a zone's layout"),
        case.space.words_needed().expect("a space's layout"),
        case.objects()
            .words_needed()
            .expect("an object allocator's layout"),
    ];
    let mut memory = words.map(|words| vec![0xa5a5_a5a5_a5a5_a5a5; words]);
    let [zone, space, kv] = &mut memory;
    let config = Config {
        cache_permille: case.cache_permille,
        ..Config::default()
    };
    let zone = Zone::new(&case.zone, &config, zone, ram).expect("a good layout");
    let all = framewright::Run::new(case.zone.start, case.zone.frames).expect("a good layout");
    zone.add(all).expect("a zone's frames are absent at first");
    let config = RangeConfig::for_cpus(case.zone.cpus).kept();
    let space = Space::new(&case.space, &config, space, ram).expect("a good layout");
    let cache = SimCache::new(ram, case.boasts);
    let kv = Kv::new(&case.objects(), kv, ram).expect("a good layout");
    let bytes = |from: u64, pages: u64| (from, from + pages * Page::BYTES);
    let first = case.direct.0 + case.zone.start.0 * Page::BYTES;
    let mut pair = ObjectPair {
        case: *case,
        ram,
        cache: &cache,
        zone: &zone,
        space: &space,
        kv: &kv,
        seats: CpuSeats::new(case.zone.cpus),
        model: ObjectModel::new(
            bytes(first, case.zone.frames),
            bytes(case.space.start.0 * Page::BYTES, case.space.pages),
            case.direct.0,
            zone.max_order(),
        ),
        ranges: RangeModel::new(&case.space),
        expected: KvStats::default(),
        summary: RunSummary::default(),
    };
    in_step(&mut pair, case.cadence, ops)
}

impl drive::InStep for ObjectPair<'_, '_> {
    type Op = ObjectOp;

    fn machine(&self) -> &Machine {
        self.ram.machine()
    }

    fn summary(&mut self) -> &mut RunSummary {
        &mut self.summary
    }

    fn begin(&mut self) -> Result<(), Difference> {
        (0..self.case.zone.cpus).try_for_each(|cpu| self.take_seat(cpu))
    }

    fn step(&mut self, op: ObjectOp) -> Result<(), Difference> {
        match op {
            ObjectOp::Alloc {
                cpu,
                call,
                bytes,
                align_bytes,
                zero,
                effort,
                context,
            } => {
                let request = KvRequest {
                    bytes,
                    align_bytes,
                    zero,
                    effort,
                    context,
                    tag: 0,
                };
                self.alloc(cpu, call, request)
            }
            ObjectOp::Free { cpu, pick, kfree } => match self.model.pick(pick) {
                Some(object) => {
                    let kfree = kfree && !self.model.is_mapped(object.addr);
                    self.free(cpu, object.addr, kfree)
                }
                None => Ok(()),
            },
            ObjectOp::FreeTwice { cpu, pick, kfree } => match self.model.pick(pick) {
                Some(object) => {
                    self.free(cpu, object.addr, kfree)?;
                    self.free(cpu, object.addr, kfree)
                }
                None => Ok(()),
            },
            ObjectOp::FreeWrong {
                cpu,
                pick,
                offset,
                kfree,
            } => match self.model.pick(pick) {
                Some(object) => {
                    let off = offset % (object.covers + Page::BYTES);
                    self.free(cpu, Addr(object.addr.0 + off), kfree)
                }
                None => Ok(()),
            },
            ObjectOp::FreeBehind {
                cpu,
                pick,
                back,
                kfree,
            } => match self.model.pick(pick) {
                Some(object) => {
                    let end = (object.addr.0 | (Page::BYTES - 1)) + 1;
                    self.free(cpu, Addr(end - 16 * u64::from(back)), kfree)
                }
                None => Ok(()),
            },
            ObjectOp::FreeAny { cpu, at, kfree } => self.free(cpu, self.model.address(at), kfree),
            ObjectOp::Realloc {
                cpu,
                pick,
                bytes,
                align_bytes,
                zero,
                effort,
                context,
            } => match self.model.pick(pick) {
                Some(object) => {
                    let request = KvRequest {
                        bytes,
                        align_bytes,
                        zero,
                        effort,
                        context,
                        tag: 0,
                    };
                    self.change_length(cpu, object, request)
                }
                None => Ok(()),
            },
            ObjectOp::ReallocAny { cpu, at, bytes } => self.change_any(cpu, at, bytes),
            ObjectOp::Touch { cpu, pick } => match self.model.pick(pick) {
                Some(object) => self.read(cpu, &object, object.bytes),
                None => Ok(()),
            },
            ObjectOp::Fill { cpu, frames } => {
                let cache = self.cache;
                cache.fill(self.seat(cpu).ranges().frames(), frames);
                Ok(())
            }
            ObjectOp::Drop { cpu, frames } => {
                let cache = self.cache;
                cache.drop_some(self.seat(cpu).ranges().frames(), frames);
                Ok(())
            }
            ObjectOp::Drain { cpu } => {
                let failed = self.ram.machine().failed();
                self.drain(cpu);
                // Pages that could not be unmapped are still lazy.
                if self.was_hit(failed) {
                    return Ok(());
                }
                self.compare_drained()
            }
            ObjectOp::Reseat { cpu } => {
                self.seats.give_back(cpu);
                self.take_seat(cpu)
            }
        }
    }

    fn compare_counters(&mut self) -> Result<(), Difference> {
        self.compare_stats()
    }

    fn verify(&mut self) -> Result<(), Difference> {
        self.verify_all()
    }

    fn check_platform(&self) -> Result<(), Difference> {
        match self.ram.paging().broken() {
            Some(broken) => differ!("the platform was misused: {broken}"),
            None => Ok(()),
        }
    }

    fn compare_after_fault(&mut self) -> Result<(), Difference> {
        self.compare_counters()?;
        self.verify()?;
        self.drained(0)
    }

    /// The law of every allocator: when all is freed, all is as at first.
    fn free_everything(&mut self) -> Result<(), Difference> {
        let cpus = u64::from(self.seats.cpus());
        while let Some(object) = self.model.pick(0) {
            let cpu = (object.id % cpus) as u16;
            self.free(cpu, object.addr, false)?;
        }
        self.step(ObjectOp::Drop {
            cpu: 0,
            frames: u64::MAX,
        })?;
        // Twice: a call that was made to fail may have left work for the next time.
        self.drain(0);
        self.drained(0)?;
        self.check_platform()?;
        self.compare_counters()?;
        self.verify()?;
        self.zone.drain();
        let (taken, mapped) = (self.ram.taken_frames(), self.ram.paging().mapped_pages());
        let free = self.zone.stats().nr_free_pages;
        if (taken, mapped, free) != (0, 0, self.case.zone.frames) {
            return differ!(
                "K6: at the end {taken} frames are taken, {mapped} pages mapped, {free} frames free"
            );
        }
        Ok(())
    }
}

impl<'s, 'm> ObjectPair<'s, 'm> {
    fn seat(&mut self, cpu: u16) -> &mut SimKvSeat<'s, 'm> {
        self.seats.run_on(self.ram.machine(), cpu)
    }

    fn take_seat(&mut self, cpu: u16) -> Result<(), Difference> {
        let ram = self.ram;
        let said = |error: &dyn std::fmt::Display| Difference(format!("a free seat: {error}"));
        let seat = self.zone.seat(CpuId(cpu)).map_err(|error| said(&error))?;
        let ranges = self.space.seat(CpuId(cpu), RecordedSeat { seat, ram });
        let ranges = ranges.map_err(|error| said(&error))?;
        let seat = self.kv.seat(ranges).map_err(|error| said(&error))?;
        self.seats.put(cpu, seat.with_relief(self.cache));
        Ok(())
    }

    fn size_of(&self, cpu: u16, addr: Addr) -> Result<u64, KvFreeError> {
        self.seats.of(cpu).kvsize(addr)
    }

    /// Whether a call was made to fail since so many were.
    fn was_hit(&self, failed: u64) -> bool {
        self.ram.machine().failed() != failed
    }

    /// Checks that a request asked of the engine no more than its effort allows.
    fn check_effort(&mut self, request: &KvRequest) -> Result<(), Difference> {
        let asked = self.cache.asked();
        self.expected.compact_stall += asked.0;
        self.expected.allocstall += asked.1;
        let may = request.context.may_block && request.context.may_reclaim;
        let is_kept = match request.effort {
            Effort::FailFast => asked == (0, 0),
            Effort::MayCompact => asked.0 <= 1 && asked.1 <= 1,
            // Each brings a frame at least, by what it says: one more than there are, and the last.
            Effort::MustSucceed => asked.1 <= self.case.zone.frames + 2,
        };
        if is_kept && (may || asked == (0, 0)) {
            return Ok(());
        }
        differ!("K7: {request:?} had memory compacted and reclaimed {asked:?} times")
    }

    fn alloc(&mut self, cpu: u16, call: ObjectCall, request: KvRequest) -> Result<(), Difference> {
        let mut asked = AskedObject {
            cpu,
            made: Made::Kvmalloc,
            request,
        };
        let failed = self.ram.machine().failed();
        let paging = self.ram.paging();
        let stops = self.stops();
        let got = paging.within(request.context, || match call {
            ObjectCall::Kmalloc => {
                asked.made = Made::Kmalloc;
                self.seat(cpu).kmalloc(&request)
            }
            ObjectCall::Kvcalloc(each) => {
                let count = request.bytes / each;
                asked.request.zero = true;
                asked.request.bytes = count * each;
                self.seat(cpu).kvcalloc(count, each, &request)
            }
            ObjectCall::Vmalloc => {
                asked.made = Made::Vmalloc;
                self.seat(cpu).vmalloc(&request)
            }
            ObjectCall::Kvmalloc => self.seat(cpu).kvmalloc(&request),
        });
        self.check_effort(&request)?;
        if !request.context.may_block && self.stops() != stops {
            return differ!("{request:?}: it must not wait, and stopped all CPUs");
        }
        match got {
            Ok(addr) => self.served(&asked, addr),
            Err(error) => self.refused(&asked, error, failed),
        }
    }

    /// How often all CPUs were stopped: in the zone, in the space and for objects.
    fn stops(&self) -> u64 {
        self.zone.stats().drains + self.space.stats().drains + self.kv.stats().drains
    }

    fn served(&mut self, asked: &AskedObject, addr: Addr) -> Result<(), Difference> {
        let object = self.obtained(asked, addr)?;
        self.summary.served += 1;
        self.count_obtained(asked.made, addr);
        if asked.request.zero {
            self.is_zero(asked.cpu, &object, 0)?;
        }
        self.write(asked.cpu, &object)
    }

    /// Checks that a new object is what was asked for.
    fn obtained(&mut self, asked: &AskedObject, addr: Addr) -> Result<ModelObject, Difference> {
        let AskedObject { made, request, .. } = asked;
        let covers = match self.size_of(asked.cpu, addr) {
            Ok(covers) => covers,
            Err(error) => return differ!("{asked:?} was served at {addr}: {error}"),
        };
        let must = match made {
            // It exists, and so it is possible.
            Made::Kept => Ok(()),
            _ => self.model.must_alloc(request, *made),
        };
        if let Err(must) = must {
            return differ!("{asked:?} was served at {addr}, the model says {must}");
        }
        if let Some(objection) = self.model.objection(addr, covers, request, *made) {
            return differ!("{asked:?} was served: {objection}");
        }
        let is_mapped = self.model.is_mapped(addr);
        let kind = (self.kv.is_mapped(addr), self.kv.is_in_slab(addr));
        let is_right = match kind {
            (true, in_slab) => is_mapped && !in_slab,
            (false, false) => !is_mapped && covers.is_power_of_two() && covers >= Page::BYTES,
            (false, true) => !is_mapped && covers < Page::BYTES,
        };
        if !is_right {
            return differ!(
                "{asked:?} at {addr} with {covers} bytes is said to be (mapped, in a slab): {kind:?}"
            );
        }
        if is_mapped {
            let pages = covers / Page::BYTES;
            let kind = AreaKind::Vmalloc;
            self.ranges
                .alloc(addr.page(), pages, pages + 1, kind, request.tag);
        }
        Ok(self.model.insert(addr, request.bytes, covers, request.zero))
    }

    fn count_obtained(&mut self, made: Made, addr: Addr) {
        if self.model.is_mapped(addr) {
            self.expected.mapped_allocs += 1;
            self.expected.spills += u64::from(made != Made::Vmalloc);
        } else {
            // For runs and slots only the sum is known.
            self.expected.run_allocs += 1;
        }
    }

    /// Checks whether the engine may refuse a request.
    fn refused(
        &mut self,
        asked: &AskedObject,
        error: KvError,
        failed: u64,
    ) -> Result<(), Difference> {
        self.summary.refused += 1;
        let AskedObject { made, request, .. } = asked;
        if let Err(must) = self.model.must_alloc(request, *made) {
            return if must == error {
                Ok(())
            } else {
                differ!("{asked:?}: the engine says '{error}', the model '{must}'")
            };
        }
        self.expected.failures += 1;
        let (effort, context) = (request.effort, request.context);
        let was_hit = self.was_hit(failed);
        let waits = context.may_block && effort != Effort::FailFast;
        let is_right = match error {
            KvError::NotNow { bytes } => bytes == request.bytes && (!waits || was_hit),
            KvError::Frames(error) => {
                let order = self.model.order(request.bytes, request.align_bytes);
                let frames = order.map_or(u64::MAX, |order| order.frames());
                let free = self.zone.stats().nr_free_pages;
                waits
                    && match error {
                        AllocError::Exhausted => free < frames || was_hit,
                        AllocError::Fragmented => frames > 1,
                        AllocError::WouldWait
                        | AllocError::TooLarge { .. }
                        | AllocError::Impossible => false,
                    }
            }
            KvError::Ranges(error) if *made != Made::Kmalloc => {
                self.not_mapped(request, error, failed)?;
                let is_frames = matches!(error, RangeError::Frames(_));
                return match is_frames && context.may_block && !was_hit {
                    true => self.check_collected(asked.cpu),
                    false => Ok(()),
                };
            }
            _ => false,
        };
        if !is_right {
            return differ!("{asked:?}: the engine says '{error}', and has no reason to");
        }
        if matches!(error, KvError::Frames(_)) {
            self.check_collected(asked.cpu)?;
        }
        self.check_last_resort(request, failed)
    }

    /// Checks that all empty slabs went back before a request that may wait failed for want of
    /// frames.
    fn check_collected(&mut self, cpu: u16) -> Result<(), Difference> {
        if self.case.cadence.compare_every > 1 && !self.summary.refused.is_multiple_of(COLLECTED) {
            // It would change the state that the next operations meet.
            return Ok(());
        }
        match self.seat(cpu).drain() {
            0 => Ok(()),
            frames => differ!("K9: {frames} frames of empty slabs were left"),
        }
    }

    /// Checks that a request that must succeed failed only when the clients had no frames to give.
    fn check_last_resort(&self, request: &KvRequest, failed: u64) -> Result<(), Difference> {
        let cached = self.cache.frames();
        if request.effort == Effort::MustSucceed && cached > 0 && !self.was_hit(failed) {
            return differ!("K7: {request:?} failed, and {cached} frames could be reclaimed");
        }
        Ok(())
    }

    /// Checks whether the space may refuse to map a request that it could have mapped.
    fn not_mapped(
        &mut self,
        request: &KvRequest,
        error: RangeError,
        failed: u64,
    ) -> Result<(), Difference> {
        let pages = request.bytes.div_ceil(Page::BYTES);
        let must = self
            .ranges
            .must_alloc(pages, pages.saturating_add(1), request.align_bytes);
        let may_wait = request.context.may_block;
        let was_hit = self.was_hit(failed);
        let is_right = match (must, error) {
            (Err(must), _) if must == error => true,
            (
                Ok(()) | Err(RangeError::NoSpace { .. }),
                RangeError::TooManyFrames { frames, .. },
            ) => pages > frames,
            (Ok(()), RangeError::NoSpace { .. }) => was_hit || self.summary.faults > 0,
            (Ok(()) | Err(RangeError::NoSpace { .. }), RangeError::WouldWait) => !may_wait,
            (Ok(()) | Err(RangeError::NoSpace { .. }), RangeError::Frames(error)) => {
                let free = self.zone.stats().nr_free_pages;
                self.check_last_resort(request, failed)?;
                match error {
                    AllocError::Exhausted => was_hit || free < pages,
                    AllocError::WouldWait => !may_wait,
                    _ => false,
                }
            }
            (Ok(()), RangeError::Map(error)) => error == MapError::NoMemory && was_hit,
            _ => false,
        };
        if is_right {
            return Ok(());
        }
        let free = self.zone.stats().nr_free_pages;
        differ!(
            "{request:?}: the engine says '{error}', the model {must:?}, and {free} frames are free"
        )
    }

    fn free(&mut self, cpu: u16, addr: Addr, kfree: bool) -> Result<(), Difference> {
        let live = self.model.get(addr);
        let is_right = live.is_some() && !(kfree && self.model.is_mapped(addr));
        if let (Some(object), true) = (live, is_right) {
            self.read(cpu, &object, object.bytes)?;
        }
        let seat = self.seat(cpu);
        let got = if kfree {
            seat.kfree(addr)
        } else {
            seat.kvfree(addr)
        };
        match got {
            Ok(bytes) if is_right => {
                let object = self.freed(addr);
                if bytes != object.covers {
                    return differ!("the free of {object:?} says {bytes} bytes");
                }
                Ok(())
            }
            Err(error) if !is_right && self.model.may_refuse(addr, kfree, error) => {
                self.expected.bad_frees += 1;
                Ok(())
            }
            Err(KvFreeError::AlreadyFree(at) | KvFreeError::NotTheFirst { addr: at, .. })
                if !is_right
                    && live.is_none()
                    && at == addr
                    && self.ram.paging().failed_maps() > 0 =>
            {
                // It is that of an area that could not be mapped.
                self.expected.bad_frees += 1;
                Ok(())
            }
            got => differ!("free of {addr}, kfree {kfree}: {got:?}, the model has {live:?}"),
        }
    }

    /// Records that the object is gone.
    fn freed(&mut self, addr: Addr) -> ModelObject {
        if self.model.is_mapped(addr) {
            self.expected.mapped_frees += 1;
            self.ranges.free(addr.page());
        } else {
            self.expected.run_frees += 1;
        }
        self.model.remove(addr)
    }

    fn drain(&mut self, cpu: u16) {
        self.seat(cpu).drain();
        self.seat(cpu).ranges().drain();
    }
}
