//! A replay for a kernel: the recording as a flat stream of words, and what the laboratory's own replay of the engine comes to,
//! line by line as the kernel says it.
//!
//! ```text
//!   TraceMemory ──▶ flat_replay ──▶ words ──▶ a kernel (kernel/src/suite/replay) ──▶ lines ─┐
//!        └────────▶ replayed_lines: the engine, here ──────────────────────────────▶ lines ─┴─ the same
//! ```
//!
//! # The stream
//! Words of 8 bytes, little-endian: a header of 16 words, then the parts that it counts.
//!
//! | word | what |
//! |---|---|
//! | 0 | `FWREPLAY` |
//! | 1 | words of the whole stream |
//! | 2 | digest of all words from 3 on: FNV-1a by words in place of bytes |
//! | 3, 4 | frames of the machine, CPUs |
//! | 5 | the engine's fallback, an index into `Fallback::ALL` |
//! | 6, 7 | the start (0 imposed, 1 fresh), frames held back |
//! | 8 | runs of frames that exist; two words each, the first frame and how many |
//! | 9 | labels of pageblocks, 8 to a word, none where the start is fresh |
//! | 10 | initial objects, 2 to a word: the frame, and in the top two bits the mobility |
//! | 11, 12 | allocations, operations; a word for each operation |
//! | 13 to 15 | 0 |
//!
//! An operation has its kind in 3 bits (as [`OpKind`]), the mobility in 2, the order in 5, the CPU in 7, the offset of a part in
//! 15, and in the upper half the object or the milliseconds.
//!
//! # What a kernel does not do
//! It moves nothing, admits every request and knows no CPUs' lists of the recording machine: so the lines are of a replay
//! without these, whatever the recording says of them.

use super::subjects::present;
use super::{
    FreeRefused, RecordedRequest, ReplayAnswer, ReplayError, ReplayOptions, ReplayOutcome,
    ReplayPolicy, ReplaySubject, Start, TraceMemory, replay,
};
use crate::measure::MAX_ORDER;
use crate::trace::{OpKind, TraceOp};
use framewright::policy::Fallback;
use framewright::{CpuId, Frame, Mobility, Order};
use std::fmt::Write as _;
use std::sync::atomic::AtomicU64;

const MAGIC: u64 = u64::from_le_bytes(*b"FWREPLAY");
const HEADER: usize = 16;
/// What the digest is of: all words from here on.
const DIGESTED: usize = 3;
const FRAME_BITS: u32 = 30;
const OFFSET_BITS: u32 = 15;

/// What a kernel is to replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlatSettings {
    /// How the engine falls back.
    pub fallback: Fallback,
    /// Where the initial objects come to lie.
    pub start: Start,
    /// Movable frames to hold back.
    pub squeeze: u64,
}

/// FNV-1a, by words in place of bytes.
#[derive(Debug, Clone, Copy)]
struct WordDigest(u64);

impl WordDigest {
    const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x100_0000_01b3);
    }

    fn of(words: &[u64]) -> u64 {
        let mut digest = Self::new();
        words.iter().for_each(|&word| digest.add(word));
        digest.0
    }
}

/// The stream of a recording.
///
/// # Errors
/// If an operation frees a part that lies too far into its object; which one.
pub fn flat_replay(memory: &TraceMemory<'_>, settings: FlatSettings) -> Result<Vec<u64>, String> {
    let trace = memory.trace;
    let present = present(trace.nframes, &trace.absent);
    let labels: &[Mobility] = match settings.start {
        Start::Imposed => &memory.labels,
        Start::Fresh => &[],
    };
    let fallback = Fallback::ALL
        .iter()
        .position(|&one| one == settings.fallback);
    let mut words = vec![0; HEADER];
    words[0] = MAGIC;
    words[3..13].copy_from_slice(&[
        trace.nframes,
        u64::from(memory.cpus),
        fallback.unwrap_or_default() as u64,
        u64::from(settings.start == Start::Fresh),
        settings.squeeze,
        present.len() as u64,
        labels.len() as u64,
        trace.init.len() as u64,
        memory.allocs as u64,
        trace.ops.len() as u64,
    ]);
    words.extend(present.iter().flat_map(|run| [run.start().0, run.frames()]));
    words.extend(labels.chunks(8).map(|labels| {
        let mut bytes = [0; 8];
        bytes
            .iter_mut()
            .zip(labels)
            .for_each(|(byte, &label)| *byte = label as u8);
        u64::from_le_bytes(bytes)
    }));
    let halves: Vec<u64> = trace
        .init
        .iter()
        .map(|object| object.frame.0 | (object.class.mobility() as u64) << FRAME_BITS)
        .collect();
    words.extend(
        halves
            .chunks(2)
            .map(|pair| pair[0] | pair.get(1).unwrap_or(&0) << 32),
    );
    for (index, op) in trace.ops.iter().enumerate() {
        words.push(operation(op).ok_or_else(|| {
            format!(
                "operation {index}: its part begins {} frames into the object",
                op.offset
            )
        })?);
    }
    words[1] = words.len() as u64;
    words[2] = WordDigest::of(&words[DIGESTED..]);
    Ok(words)
}

fn operation(op: &TraceOp) -> Option<u64> {
    let mobility = match op.kind() {
        OpKind::Alloc | OpKind::Failed => op.mobility() as u64,
        OpKind::Free | OpKind::FreePart | OpKind::Tick => 0,
    };
    let offset = Some(u64::from(op.offset)).filter(|offset| offset >> OFFSET_BITS == 0)?;
    let low = op.kind() as u64
        | mobility << 3
        | u64::from(op.order().get()) << 5
        | u64::from(op.cpu()) << 10
        | offset << 17;
    Some(low | u64::from(op.value) << 32)
}

/// Replays the recording on the engine here, and says what came of it in the lines that a kernel prints, each of a name and a
/// number.
///
/// # Errors
/// As [`replay`].
pub fn replayed_lines(
    memory: &TraceMemory<'_>,
    settings: FlatSettings,
) -> Result<String, ReplayError> {
    let policy = ReplayPolicy::Engine(settings.fallback);
    // A kernel has one zone, without marks.
    let memory = TraceMemory {
        zones: None,
        background: None,
        ..memory.clone()
    };
    let options = ReplayOptions {
        squeeze: settings.squeeze,
        compaction: false,
        ..ReplayOptions::new(settings.start)
    };
    let replayed = policy.with(&memory, |subject| {
        let mut followed = FollowedSubject {
            subject,
            answers: WordDigest::new(),
        };
        let outcome = replay(&mut followed, &memory, options, &AtomicU64::new(0));
        outcome.map(|outcome| lines(&outcome, followed.answers.0))
    });
    replayed.unwrap_or_else(|why| {
        let policy = policy.name();
        Err(ReplayError::Unbuilt { policy, why })
    })
}

fn lines(outcome: &ReplayOutcome, answers: u64) -> String {
    let mut lines = String::new();
    let mut say = |name: String, number: u64| {
        // Writing to a string cannot fail.
        let _ = writeln!(lines, "{name} {number}");
    };
    say("answers".into(), answers);
    for order in 0..=MAX_ORDER {
        say(format!("failures_order{order}"), outcome.failures[order]);
        let tries = outcome.retries[order];
        say(format!("retried_order{order}"), tries.tried);
        say(format!("retries_served_order{order}"), tries.served);
    }
    say("unplaced_frames".into(), outcome.unplaced);
    say("anomalies_frees_of_failed".into(), outcome.frees_of_failed);
    for wanted in Mobility::ALL {
        for taken in Mobility::ALL.into_iter().filter(|taken| *taken != wanted) {
            let count = outcome.fallbacks[wanted.index()][taken.index()];
            say(format!("fallbacks_{wanted}_{taken}"), count);
        }
    }
    let sampled = outcome.means.block_sums();
    let end = &outcome.end;
    let end = [
        end.contaminated_blocks,
        end.mixed_blocks,
        end.movable_frames_in_mixed,
    ];
    for (when, [contaminated, mixed, movable]) in [("sampled", sampled), ("end", end)] {
        say(format!("contaminated_blocks_{when}"), contaminated);
        say(format!("mixed_blocks_{when}"), mixed);
        say(format!("movable_frames_in_mixed_{when}"), movable);
    }
    say("samples".into(), outcome.means.samples());
    for label in Mobility::ALL {
        say(
            format!("pageblocks_{label}_end"),
            outcome.labels[label.index()],
        );
        for (order, &free) in outcome.free_blocks[label.index()].iter().enumerate() {
            say(format!("free_blocks_{label}_order{order}_end"), free);
        }
    }
    lines
}

/// A subject, and a digest of all that it answers.
struct FollowedSubject<'a> {
    subject: &'a mut dyn ReplaySubject,
    answers: WordDigest,
}

impl FollowedSubject<'_> {
    fn note(&mut self, answer: Option<Frame>) {
        self.answers.add(answer.map_or(u64::MAX, |frame| frame.0));
    }
}

impl ReplaySubject for FollowedSubject<'_> {
    fn name(&self) -> &'static str {
        self.subject.name()
    }

    fn set_label(&mut self, pageblock: u64, label: Mobility) {
        self.subject.set_label(pageblock, label);
    }

    fn alloc_at(&mut self, frame: Frame, order: Order, mobility: Mobility) -> bool {
        self.subject.alloc_at(frame, order, mobility)
    }

    fn alloc(&mut self, cpu: CpuId, order: Order, mobility: Mobility) -> Option<Frame> {
        let answer = self.subject.alloc(cpu, order, mobility);
        self.note(answer);
        answer
    }

    fn request(&mut self, request: RecordedRequest) -> ReplayAnswer {
        let answer = self.subject.request(request);
        self.note(answer.frame());
        answer
    }

    fn free(&mut self, cpu: CpuId, frame: Frame, order: Order) -> Result<(), FreeRefused> {
        self.subject.free(cpu, frame, order)
    }

    fn drain(&mut self) {
        self.subject.drain();
    }

    fn free_blocks(&self) -> [[u64; 11]; 3] {
        self.subject.free_blocks()
    }

    fn labels(&self) -> [u64; 3] {
        self.subject.labels()
    }

    fn fallbacks(&self) -> [[u64; 3]; 3] {
        self.subject.fallbacks()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{InitClass, InitObject, Trace};
    use framewright::Run;

    /// Two pageblocks with a hole, three objects from before, and each kind of operation.
    fn trace() -> Trace {
        let order = |order| Order::new(order).unwrap();
        let init = |frame, class| InitObject {
            frame: Frame(frame),
            class,
        };
        let alloc = |failed, of, mobility| TraceOp::alloc(failed, order(of), mobility, 1, 0, 0);
        Trace {
            nframes: 1024,
            absent: vec![Run::new(Frame(100), 28).unwrap()],
            init: vec![
                init(0, InitClass::Unmovable),
                init(5, InitClass::Movable),
                init(700, InitClass::Slab),
            ],
            ops: vec![
                alloc(false, 2, Mobility::Unmovable),
                TraceOp::tick(3),
                TraceOp::free_part(3, 2, order(1), 0x80),
                alloc(true, 9, Mobility::Movable),
                alloc(false, 10, Mobility::Reclaimable),
                TraceOp::free(1, order(0), 1),
                // Its allocation fails: it is larger than what is free.
                TraceOp::free(4, order(10), 1),
            ],
            ..Trace::default()
        }
    }

    const IMPOSED: FlatSettings = FlatSettings {
        fallback: Fallback::Concentrated,
        start: Start::Imposed,
        squeeze: 7,
    };

    #[test]
    fn a_stream_says_how_long_it_is_and_holds_all_of_the_recording() {
        let trace = trace();
        let memory = TraceMemory::new(&trace).unwrap();
        let words = flat_replay(&memory, IMPOSED).unwrap();
        assert_eq!(words[0].to_le_bytes(), *b"FWREPLAY");
        assert_eq!(words[1], words.len() as u64);
        assert_eq!(words[2], WordDigest::of(&words[3..]));
        assert_eq!(words[3..13], [1024, 2, 2, 0, 7, 2, 2, 3, 2, 7]);
        let (present, rest) = words[16..].split_at(4);
        assert_eq!(present, [0, 100, 128, 896]);
        let (labels, rest) = rest.split_at(1);
        let label = |nth: usize| u64::from(labels[0].to_le_bytes()[nth]);
        assert_eq!(
            [label(0), label(1)],
            [0, 1].map(|nth| memory.labels[nth] as u64)
        );
        let (init, ops) = rest.split_at(2);
        let halves = [init[0] as u32, (init[0] >> 32) as u32, init[1] as u32];
        let mobilities = [
            Mobility::Unmovable,
            Mobility::Movable,
            Mobility::Reclaimable,
        ];
        let expected = [(0, mobilities[0]), (5, mobilities[1]), (700, mobilities[2])];
        assert_eq!(
            halves,
            expected.map(|(frame, of)| frame | (of as u32) << 30)
        );
        let part = 2 | 1 << 5 | 2 << 17 | 3 << 32;
        assert_eq!(ops[..3], [2 << 5 | 1 << 10, 3 | 3 << 32, part]);
        let reclaimable = Mobility::Reclaimable as u64;
        assert_eq!(ops[4], reclaimable << 3 | 10 << 5 | 1 << 10);
        assert_eq!(ops.len(), 7);
        let fresh = FlatSettings {
            start: Start::Fresh,
            ..IMPOSED
        };
        let fresh = flat_replay(&memory, fresh).unwrap();
        assert_eq!((fresh[6], fresh[9]), (1, 0));
        assert_eq!(fresh.len(), words.len() - 1);
    }

    #[test]
    fn a_part_beyond_what_a_word_has_room_for_is_refused() {
        let mut trace = trace();
        trace.ops[2] = TraceOp::free_part(3, 1 << 15, Order::ZERO, 0);
        let memory = TraceMemory::new(&trace).unwrap();
        let refused = flat_replay(&memory, IMPOSED).unwrap_err();
        assert!(refused.starts_with("operation 2: "), "{refused}");
    }

    #[test]
    fn lines_are_those_of_the_replay_and_tell_another_answer() {
        let trace = trace();
        let memory = TraceMemory::new(&trace).unwrap();
        let of = |settings| replayed_lines(&memory, settings).unwrap();
        let said = of(IMPOSED);
        let number = |name: &str| {
            let line = said
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.map(str::to_owned).unwrap_or_default()
        };
        assert_eq!(number("failures_order10"), "1");
        assert_eq!(number("anomalies_frees_of_failed"), "1");
        assert_eq!(number("retried_order9"), "1");
        assert_eq!(number("samples"), "1");
        assert_eq!(of(IMPOSED), said);
        let answers = said.lines().next().unwrap();
        let other = FlatSettings {
            squeeze: 8,
            ..IMPOSED
        };
        assert_ne!(of(other).lines().next().unwrap(), answers);
    }
}
