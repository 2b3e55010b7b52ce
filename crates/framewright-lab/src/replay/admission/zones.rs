//! The zones of the machine that a recording was made on, and where in the trace's memory they lie.

use super::lists::ZoneLists;
use super::rights::ZoneKind;
use crate::trace::Trace;
use crate::trace::state::{PageTypeInfo, ZoneInfo, ZoneInfoCpu};
use framewright::{Frame, Run};

/// A recording leaves memory out in chunks of that many frames, and numbers the rest in order: zones begin at one.
const CHUNK_FRAMES: u64 = 1024;
/// Up to this part of the free frames may be in dispute between a trace and `/proc` for zones to be told apart.
const DISPUTED_PART: u64 = 16;
/// `watermark_boost_factor` and `watermark_scale_factor` unless they are set, in ten-thousandths.
const BOOST_FACTOR: u64 = 15_000;
const SCALE_FACTOR: u64 = 10;
/// The most that per-CPU lists of a zone may hold together: this part of it (`MIN_PERCPU_PAGELIST_HIGH_FRACTION`).
const PERCPU_PART: u64 = 8;

/// More frames than a machine has, and more than a CPU's lists hold: what a file says beyond that is taken for that, so
/// that sums and products fit.
const FRAMES_MAX: u64 = 1 << 40;
const PERCPU_MAX: u64 = 1 << 24;

/// Where the marks of a machine's zones come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarksSource {
    /// From the recording, zone by zone.
    Recorded,
    /// From the recording; its zones could not be told apart in the trace, so that there is one with the sums.
    Summed,
    /// Computed as Linux does for a machine of that size with huge pages; there is one zone.
    Computed,
}

/// One zone of the machine. Frames are the trace's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineZone {
    /// Its name.
    pub name: String,
    /// Its first frame.
    pub first: u64,
    /// Its frames; on the machine there may have been more, of which the trace knows nothing.
    pub frames: u64,
    /// Frames that the machine's allocator was given.
    pub managed: u64,
    /// The watermarks min, low and high.
    pub marks: [u64; 3],
    /// What came on top of them at the start.
    pub boost: u64,
    /// How far they rise after a pageblock was mixed, in ten-thousandths of high.
    pub boost_factor: u64,
    /// Frames moved at once between a CPU's lists and the zone.
    pub batch: u64,
    /// The least and the largest mark of a CPU's lists.
    pub percpu_high: [u64; 2],
    /// Where each CPU's mark stood at the start; at the least one where it is not known.
    pub percpu_first: Vec<u64>,
    /// Frames that were free at the start, those on CPUs' lists left out.
    pub listed: u64,
    /// Frames that lay on each CPU's lists then.
    pub cached: Vec<u64>,
    /// What its free lists held then.
    pub lists: Option<ZoneLists>,
    kind: ZoneKind,
    /// What it protects, by the place of the last zone that a request could do with.
    protects: Vec<u64>,
}

impl MachineZone {
    /// How many frames each CPU's lists begin with, of `free` ones: those that were not listed as free. A trace knows fewer
    /// than the machine counted, because it takes a frame that it never sees for one in use.
    pub(super) fn cached_of(&self, free: u64) -> Vec<u64> {
        let all = self
            .cached
            .iter()
            .fold(0, |sum: u64, &cpu| sum.saturating_add(cpu));
        let unlisted = free.saturating_sub(self.listed).min(all);
        let part = |&cpu: &u64| {
            let part = u128::from(cpu) * u128::from(unlisted) / u128::from(all.max(1));
            part as u64
        };
        self.cached.iter().map(part).collect()
    }

    /// The runs of it that do not exist, by their place in it; `all` are the trace's.
    pub(in crate::replay) fn absent(&self, all: &[Run]) -> Vec<Run> {
        let (first, end) = (self.first, self.first + self.frames);
        let inside = |run: &Run| {
            let start = run.start().0.max(first);
            let until = run.end().0.min(end);
            Run::new(Frame(start.wrapping_sub(first)), until.checked_sub(start)?)
        };
        all.iter()
            .filter_map(inside)
            .filter(|run| !run.is_empty())
            .collect()
    }

    /// What it protects from requests that could do with the zone at the place `last`, too.
    pub(in crate::replay) fn protects_from(&self, last: usize) -> u64 {
        self.protects.get(last).copied().unwrap_or(0)
    }

    /// The most that its watermarks are raised by.
    pub(in crate::replay) fn boost_max(&self) -> u64 {
        let pageblocks = crate::measure::BLOCK_FRAMES * 4;
        match self.managed < pageblocks {
            true => 0,
            false => self.marks[2].saturating_mul(self.boost_factor) / 10_000,
        }
    }

    /// Whether requests prefer it and the next zone down serves 32-bit devices.
    pub(super) fn is_normal(&self) -> bool {
        self.kind == ZoneKind::Normal
    }
}

/// The zones of a machine, ascending; each begins where the one before ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineZones {
    /// The zones; at least one.
    pub zones: Vec<MachineZone>,
    /// Where their marks come from.
    pub source: MarksSource,
}

impl MachineZones {
    /// The zones that a machine says it had when the trace began.
    ///
    /// A trace numbers its frames anew, in the machine's order. What the machine had free in each zone, those on
    /// CPUs' lists included, tells where in the trace one ends: where as many frames were free up to there. `types` is what
    /// it listed, if that is known.
    #[must_use]
    pub fn recorded(trace: &Trace, infos: &[ZoneInfo], types: Option<&PageTypeInfo>) -> Self {
        let mut infos: Vec<&ZoneInfo> = infos.iter().filter(|info| kind(info).is_some()).collect();
        infos.sort_by_key(|info| info.span.start());
        let is_one_node = infos.windows(2).all(|two| two[0].node == two[1].node);
        let apart = is_one_node.then(|| ends(trace, &infos)).flatten();
        let Some(ends) = apart else {
            return Self::summed(trace, &infos, types);
        };
        let mut first = 0;
        let mut zones = Vec::new();
        let mut places = Vec::new();
        for (info, end) in infos.into_iter().zip(ends) {
            if end > first {
                places.push(info.nth);
                zones.push(MachineZone {
                    first,
                    frames: end - first,
                    lists: types.and_then(|types| ZoneLists::of(types, &[info])),
                    ..zone(info)
                });
            }
            first = end;
        }
        for zone in &mut zones {
            let of = |&nth: &usize| zone.protects.get(nth).copied().unwrap_or(0);
            zone.protects = places.iter().map(of).collect();
        }
        let source = MarksSource::Recorded;
        Self { zones, source }
    }

    fn summed(trace: &Trace, infos: &[&ZoneInfo], types: Option<&PageTypeInfo>) -> Self {
        let sum = |of: fn(&ZoneInfo) -> u64| {
            let all = infos.iter().map(|info| of(info));
            all.fold(0, u64::saturating_add).min(FRAMES_MAX)
        };
        let managed = sum(|info| info.managed);
        if managed == 0 {
            return Self::computed(trace);
        }
        let largest = infos.iter().max_by_key(|info| info.managed);
        let of_largest = largest.map(|info| zone(info));
        let computed = Self::computed(trace).zones;
        let zones = computed.into_iter().map(|one| MachineZone {
            managed,
            marks: [
                sum(|info| info.watermarks[0]),
                sum(|info| info.watermarks[1]),
                sum(|info| info.watermarks[2]),
            ],
            boost: sum(|info| info.boost),
            batch: of_largest.as_ref().map_or(one.batch, |zone| zone.batch),
            percpu_high: of_largest
                .as_ref()
                .map_or(one.percpu_high, |zone| zone.percpu_high),
            percpu_first: of_largest
                .as_ref()
                .map_or_else(Vec::new, |zone| zone.percpu_first.clone()),
            listed: sum(|info| info.free),
            cached: cached_by_all(infos),
            lists: types.and_then(|types| ZoneLists::of(types, infos)),
            ..one
        });
        Self {
            zones: zones.collect(),
            source: MarksSource::Summed,
        }
    }

    /// One zone with the marks that Linux computes for a machine with as much memory as the trace has: what it computes
    /// for the memory, and with huge pages at least eleven pageblocks, unless that is more than a twentieth of it.
    #[must_use]
    pub fn computed(trace: &Trace) -> Self {
        let managed = trace.present_frames();
        let huge = (crate::measure::BLOCK_FRAMES * (2 + 3 * 3)).min(managed / 20);
        let min = crate::replay::default_watermark(managed).max(huge);
        // In a memory of a few frames nothing would be left.
        let min = min.min(managed / 20);
        let apart = (min / 4).max(managed * SCALE_FACTOR / 10_000);
        let marks = [min, min + apart, min + 2 * apart];
        let batch = (managed >> 12).clamp(1, 63);
        let cpus = trace_cpus(trace);
        let least = (marks[1] / cpus).max(batch << 2);
        Self {
            zones: vec![MachineZone {
                name: "Normal".into(),
                first: 0,
                frames: trace.nframes,
                managed,
                marks,
                boost: 0,
                boost_factor: BOOST_FACTOR,
                batch,
                percpu_high: [least, (managed / PERCPU_PART / cpus).max(least)],
                percpu_first: Vec::new(),
                listed: 0,
                cached: Vec::new(),
                lists: None,
                kind: ZoneKind::Normal,
                protects: vec![0],
            }],
            source: MarksSource::Computed,
        }
    }

    /// The place of the last zone that a request of that kind can do with.
    pub(super) fn last_of(&self, wanted: ZoneKind) -> usize {
        let is_usable = |zone: &MachineZone| zone.kind as u8 <= wanted as u8;
        // Memory that no such request can do with is all there is: then it is taken for the usual.
        self.zones.iter().rposition(is_usable).unwrap_or(0)
    }

    /// The same zones with other marks: min comes to that many frames in all, each zone's in proportion to what it
    /// manages, and low and high lie as far above it as Linux has them, or as far as they did: that much the machine's
    /// vm.watermark_scale_factor keeps them apart.
    #[must_use]
    pub fn with_min(&self, all: u64) -> Self {
        let managed = self.zones.iter().map(|zone| zone.managed);
        let managed = managed.fold(0, u64::saturating_add).max(1);
        let zones = self.zones.iter().map(|zone| {
            let min = u128::from(all) * u128::from(zone.managed) / u128::from(managed);
            let min = u64::try_from(min).unwrap_or(FRAMES_MAX).min(FRAMES_MAX);
            let [old_min, old_low, old_high] = zone.marks;
            // More than a quarter of min is vm.watermark_scale_factor's doing, which stays; what hides below is the usual one's.
            let kept = |distance: u64, times: u64| match distance > times * (old_min / 4) {
                true => distance,
                false => times * (zone.managed * SCALE_FACTOR / 10_000),
            };
            let apart = (min / 4).max(kept(old_low.saturating_sub(old_min), 1));
            let high = (2 * apart).max(kept(old_high.saturating_sub(old_min), 2));
            MachineZone {
                marks: [min, min + apart, min + high],
                ..zone.clone()
            }
        });
        Self {
            zones: zones.collect(),
            source: self.source,
        }
    }

    /// The same zones with low and high as far above min as a higher vm.watermark_scale_factor keeps them: that many
    /// ten-thousandths of each zone. Marks that lie further apart stay: there a quarter of what Linux takes for min is more.
    #[must_use]
    pub fn with_scale_factor(&self, factor: u64) -> Self {
        let zones = self.zones.iter().map(|zone| {
            let [min, low, high] = zone.marks;
            let apart = u128::from(zone.managed) * u128::from(factor) / 10_000;
            let apart = u64::try_from(apart).unwrap_or(FRAMES_MAX).min(FRAMES_MAX);
            MachineZone {
                marks: [min, low.max(min + apart), high.max(min + 2 * apart)],
                ..zone.clone()
            }
        });
        Self {
            zones: zones.collect(),
            source: self.source,
        }
    }

    /// The same zones, whose marks rise by another factor, in ten-thousandths of high.
    #[must_use]
    pub fn with_boost_factor(&self, factor: u64) -> Self {
        let zones = self.zones.iter().map(|zone| MachineZone {
            boost_factor: factor,
            ..zone.clone()
        });
        Self {
            zones: zones.collect(),
            source: self.source,
        }
    }

    /// The same zones, of which is not known what lay on CPUs' lists: they begin empty.
    #[must_use]
    pub fn with_empty_lists(mut self) -> Self {
        for zone in &mut self.zones {
            zone.cached.clear();
        }
        self
    }

    /// The min marks of all zones together.
    #[must_use]
    pub fn min(&self) -> u64 {
        let all = self.zones.iter().map(|zone| zone.marks[0]);
        all.fold(0, u64::saturating_add)
    }
}

fn trace_cpus(trace: &Trace) -> u64 {
    let cpus = trace
        .ops
        .iter()
        .filter(|op| op.kind() != crate::trace::OpKind::Tick);
    1 + u64::from(cpus.map(|op| op.cpu()).max().unwrap_or(0))
}

fn kind(info: &ZoneInfo) -> Option<ZoneKind> {
    Some(match info.zone.as_str() {
        "DMA" => ZoneKind::Dma,
        "DMA32" => ZoneKind::Dma32,
        "Normal" => ZoneKind::Normal,
        "HighMem" => ZoneKind::HighMem,
        "Movable" => ZoneKind::Movable,
        _ => return None,
    })
}

/// What lay on each CPU's lists, of all zones together.
fn cached_by_all(infos: &[&ZoneInfo]) -> Vec<u64> {
    let cpus = infos.iter().map(|info| info.cpus.len()).max().unwrap_or(0);
    let of = |cpu: usize| {
        let counts = infos.iter().filter_map(|info| info.cpus.get(cpu));
        let all = counts.fold(0, |sum: u64, cpu| sum.saturating_add(cpu.count));
        all.min(PERCPU_MAX)
    };
    (0..cpus).map(of).collect()
}

/// A zone without its place.
fn zone(info: &ZoneInfo) -> MachineZone {
    let most = |of: fn(&ZoneInfoCpu) -> u64| info.cpus.iter().map(of).max().unwrap_or(0);
    MachineZone {
        name: info.zone.clone(),
        first: 0,
        frames: 0,
        managed: info.managed.min(FRAMES_MAX),
        marks: info.watermarks.map(|mark| mark.min(FRAMES_MAX)),
        boost: info.boost.min(FRAMES_MAX),
        boost_factor: BOOST_FACTOR,
        batch: most(|cpu| cpu.batch).clamp(1, PERCPU_MAX),
        percpu_high: [most(|cpu| cpu.high_min), most(|cpu| cpu.high_max)]
            .map(|high| high.min(PERCPU_MAX)),
        percpu_first: (info.cpus.iter())
            .map(|cpu| cpu.high.min(PERCPU_MAX))
            .collect(),
        listed: info.free.min(FRAMES_MAX),
        cached: (info.cpus.iter())
            .map(|cpu| cpu.count.min(PERCPU_MAX))
            .collect(),
        lists: None,
        kind: kind(info).unwrap_or(ZoneKind::Normal),
        protects: (info.protection.iter())
            .map(|&frames| frames.min(FRAMES_MAX))
            .collect(),
    }
}

/// Where each zone ends in the trace, or nothing where what was free does not tell.
fn ends(trace: &Trace, infos: &[&ZoneInfo]) -> Option<Vec<u64>> {
    let (_, before_last) = infos.split_last()?;
    let chunks = trace.nframes.div_ceil(CHUNK_FRAMES);
    let mut free = vec![0; usize::try_from(chunks).ok()?];
    for (chunk, free) in (0..).zip(&mut free) {
        *free = CHUNK_FRAMES.min(trace.nframes - chunk * CHUNK_FRAMES);
    }
    for object in &trace.init {
        *free.get_mut((object.frame.0 / CHUNK_FRAMES) as usize)? -= 1;
    }
    for run in &trace.absent {
        let mut at = run.start().0;
        while at < run.end().0.min(trace.nframes) {
            let until = (at / CHUNK_FRAMES + 1) * CHUNK_FRAMES;
            let until = until.min(run.end().0);
            *free.get_mut((at / CHUNK_FRAMES) as usize)? -= until - at;
            at = until;
        }
    }
    let of_zone = |info: &ZoneInfo| {
        let cached = info.cpus.iter().map(|cpu| cpu.count);
        cached.fold(info.free, u64::saturating_add)
    };
    let said = infos.iter().map(|info| of_zone(info));
    let said = said.fold(0, u64::saturating_add);
    let all: u64 = free.iter().sum();
    if all == 0 || said.abs_diff(all) > all / DISPUTED_PART {
        return None;
    }
    let up_to: Vec<u64> = std::iter::once(0)
        .chain(free.iter().scan(0, |sum, &free| {
            *sum += free;
            Some(*sum)
        }))
        .collect();
    let (mut ends, mut end, mut wanted) = (Vec::new(), 0, 0u64);
    for info in before_last {
        wanted = wanted.saturating_add(of_zone(info));
        // The lowest of the nearest: chunks without a free frame make no difference.
        let nearest = |&chunk: &usize| up_to[chunk].abs_diff(wanted);
        end = (end..up_to.len()).min_by_key(nearest)?;
        ends.push((end as u64 * CHUNK_FRAMES).min(trace.nframes));
    }
    ends.push(trace.nframes);
    Some(ends)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{InitClass, InitObject, TraceOp};

    fn info(nth: usize, start: u64, free: u64, cached: u64) -> ZoneInfo {
        let cpu = ZoneInfoCpu {
            count: cached,
            high: 20,
            batch: 7,
            high_min: 10,
            high_max: 40,
        };
        ZoneInfo {
            node: 0,
            zone: ["DMA", "DMA32", "Normal", "Movable"][nth].into(),
            nth,
            free,
            span: Run::new(Frame(start), 1 << 20).unwrap(),
            present: 1 << 20,
            managed: 1 << 20,
            watermarks: [10, 20, 30].map(|mark| mark * nth as u64),
            boost: nth as u64,
            protection: vec![0, 100, 200, 200],
            cpus: vec![cpu],
        }
    }

    /// Chunks of 1024 frames with that many free ones each.
    fn trace(free: &[u64]) -> Trace {
        let used = |(chunk, &free): (usize, &u64)| {
            let first = chunk as u64 * CHUNK_FRAMES;
            (free..CHUNK_FRAMES).map(move |frame| InitObject {
                frame: Frame(first + frame),
                class: InitClass::Movable,
            })
        };
        Trace {
            nframes: free.len() as u64 * CHUNK_FRAMES,
            init: free.iter().enumerate().flat_map(used).collect(),
            ops: vec![TraceOp::tick(1)],
            ..Trace::default()
        }
    }

    #[test]
    fn a_zone_ends_where_as_many_frames_are_free_as_the_machine_had() {
        let trace = trace(&[1000, 500, 0, 0, 300, 200]);
        // 1,500 below, of them 40 on a CPU's list; the snapshots are some frames apart.
        let infos = [info(2, 1 << 30, 480, 0), info(1, 4096, 1470, 40)];
        let machine = MachineZones::recorded(&trace, &infos, None);
        let places: Vec<(&str, u64, u64)> = machine
            .zones
            .iter()
            .map(|zone| (zone.name.as_str(), zone.first, zone.frames))
            .collect();
        assert_eq!(places, [("DMA32", 0, 2048), ("Normal", 2048, 4096)]);
        assert_eq!(machine.source, MarksSource::Recorded);
        let lower = &machine.zones[0];
        assert_eq!((lower.marks, lower.batch), ([10, 20, 30], 7));
        assert_eq!(lower.percpu_high, [10, 40]);
        assert_eq!(lower.percpu_first, [20]);
        // Of the 1,500 that the trace has free there 1,470 were listed.
        assert_eq!((lower.listed, lower.cached_of(1500)), (1470, vec![30]));
        assert_eq!([1470, 3000].map(|free| lower.cached_of(free)), [[0], [40]]);
        assert_eq!((lower.boost, machine.zones[1].boost), (1, 2));
        // From requests for itself, and for the zone above, by the machine's own places.
        assert_eq!([0, 1].map(|last| lower.protects_from(last)), [100, 200]);
        assert_eq!(machine.min(), 30);
        let empty = machine.clone().with_empty_lists();
        assert!(empty.zones.iter().all(|zone| zone.cached.is_empty()));
        let of = |kind| machine.last_of(kind);
        assert_eq!(
            [ZoneKind::Dma32, ZoneKind::Normal, ZoneKind::Movable].map(of),
            [0, 1, 1]
        );
    }

    #[test]
    fn zones_that_cannot_be_told_apart_become_one_with_the_sums() {
        let trace = trace(&[1000, 500]);
        let infos = [info(1, 4096, 800, 0), info(2, 1 << 30, 800, 0)];
        let machine = MachineZones::recorded(&trace, &infos, None);
        assert_eq!(machine.source, MarksSource::Summed);
        let [zone] = machine.zones.as_slice() else {
            panic!("one zone")
        };
        assert_eq!((zone.first, zone.frames), (0, 2048));
        assert_eq!((zone.marks, zone.managed), ([30, 60, 90], 2 << 20));
        assert_eq!(zone.boost, 3);
        let infos = [info(1, 4096, 770, 30), info(2, 1 << 30, 788, 12)];
        let both = MachineZones::recorded(&trace, &infos, None);
        assert_eq!(both.source, MarksSource::Summed);
        assert_eq!(both.zones[0].cached, [42]);
        assert_eq!(both.zones[0].listed, 1558);
        // Of several nodes neither.
        let mut other = info(2, 1 << 30, 700, 0);
        other.node = 1;
        let machine = MachineZones::recorded(&trace, &[info(1, 4096, 800, 0), other], None);
        assert_eq!(machine.source, MarksSource::Summed);
        let machine = MachineZones::recorded(&trace, &[], None);
        assert_eq!(machine.source, MarksSource::Computed);
    }

    #[test]
    fn marks_that_no_recording_has_are_linux_s() {
        let trace = Trace {
            nframes: 1 << 20,
            ..Trace::default()
        };
        let machine = MachineZones::computed(&trace);
        // 11 pageblocks are more than 4 * sqrt(4 GiB); a quarter of it more than a thousandth of the zone.
        assert_eq!(machine.zones[0].marks, [5632, 7040, 8448]);
        assert_eq!(machine.source, MarksSource::Computed);
        let small = Trace {
            nframes: 1000,
            ..Trace::default()
        };
        assert_eq!(MachineZones::computed(&small).zones[0].marks, [50, 62, 74]);
    }

    #[test]
    fn other_marks_are_as_linux_has_them_for_another_minimum_and_factor() {
        let computed = MachineZones::computed(&Trace {
            nframes: 1 << 20,
            ..Trace::default()
        });
        // With the minimum that is there, nothing changes.
        assert_eq!(computed.with_min(5632), computed);
        assert_eq!(
            computed.with_min(16_384).zones[0].marks,
            [16_384, 20_480, 24_576]
        );
        // A thousandth of the zone is more than a quarter of little.
        assert_eq!(computed.with_min(1000).zones[0].marks, [1000, 2048, 3096]);
        // Marks that lie further apart than a quarter of min stay as far apart.
        let mut wide = computed.clone();
        wide.zones[0].marks = [1000, 22_000, 43_000];
        assert_eq!(wide.with_min(2000).zones[0].marks, [2000, 23_000, 44_000]);
        assert_eq!(
            wide.with_min(100_000).zones[0].marks,
            [100_000, 125_000, 150_000]
        );
        // What a kernel has when it boots changes nothing, nor does as little; a hundredth of the zone is more than a quarter of min.
        for factor in [0, SCALE_FACTOR, 13] {
            assert_eq!(computed.with_scale_factor(factor), computed, "{factor}");
        }
        assert_eq!(
            computed.with_scale_factor(100).zones[0].marks,
            [5632, 5632 + 10_485, 5632 + 20_970]
        );
        // What keeps them further apart stays, and no product is too large.
        assert_eq!(wide.with_scale_factor(100), wide);
        let most = computed.with_scale_factor(u64::MAX).zones[0].marks;
        assert_eq!(most[2], 5632 + 2 * FRAMES_MAX);
        assert_eq!(computed.zones[0].boost_max(), 8448 * 3 / 2);
        assert_eq!(computed.with_boost_factor(0).zones[0].boost_max(), 0);
        assert_eq!(
            computed.with_boost_factor(30_000).zones[0].boost_max(),
            8448 * 3
        );
    }

    #[test]
    fn what_does_not_exist_of_a_zone_is_told_by_its_place_in_it() {
        let zone = MachineZone {
            first: 1024,
            frames: 1024,
            ..MachineZones::computed(&trace(&[1024])).zones.remove(0)
        };
        let run = |at, frames| Run::new(Frame(at), frames).unwrap();
        let all = [
            run(0, 100),
            run(1000, 100),
            run(1500, 10),
            run(2000, 500),
            run(3000, 9),
        ];
        let absent = zone.absent(&all);
        assert_eq!(absent, [run(0, 76), run(476, 10), run(976, 48)]);
    }
}
