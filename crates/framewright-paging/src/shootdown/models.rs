//! Every interleaving of the words of a shootdown, with a translation that a CPU keeps as a value of its thread.
//! `RUSTFLAGS='--cfg loom' cargo test -p framewright-paging --release --lib models`

#[path = "../../../framewright/src/sync/tests/explore.rs"]
mod explored;

use super::*;
use explored::explore;
use loom::cell::UnsafeCell;
use loom::thread;
use std::boxed::Box;
use std::cell::Cell;

/// A machine of two CPUs, one page and the frame behind it.
struct ToyCpus {
    shootdown: Shootdown<2>,
    /// The page's entry: whether the frame is mapped.
    entry: AtomicU64,
    /// The frame. Loom fails a model in which one CPU writes it while another one reads it.
    frame: UnsafeCell<u64>,
    /// Two words for the models of a barrier.
    words: [AtomicU64; 2],
}

/// A CPU: its number, and the translation it keeps.
struct ToyOneCpu<'m> {
    machine: &'m ToyCpus,
    number: u16,
    kept: Cell<bool>,
    /// Whether a flush does something: without, the model must fail.
    flushes: bool,
}

impl Ipi for ToyOneCpu<'_> {
    fn current(&self) -> CpuId {
        CpuId(self.number)
    }

    /// The other CPU polls.
    fn interrupt(&self, _cpu: CpuId) {}

    fn flush_here(&self) {
        if self.flushes {
            self.kept.set(false);
        }
    }

    fn pause(&self, _attempt: u32) {
        thread::yield_now();
    }
}

impl ToyOneCpu<'_> {
    /// An access through the page, which a kept translation serves.
    fn read(&self) {
        if self.kept.get() || self.machine.entry.load(Acquire) == 1 {
            self.kept.set(true);
            self.machine.frame.with(|_| ());
        }
    }

    /// Unmaps the page, flushes, and uses the frame for something else.
    fn reuse(&self) {
        self.machine.entry.store(0, Relaxed);
        self.machine.shootdown.ask(ShootdownRound::Flush, self);
        self.machine.frame.with_mut(|_| ());
    }
}

fn machine() -> &'static ToyCpus {
    Box::leak(Box::new(ToyCpus {
        shootdown: Shootdown::new(),
        entry: AtomicU64::new(1),
        frame: UnsafeCell::new(0),
        words: [const { 0 }; 2].map(AtomicU64::new),
    }))
}

fn cpu(machine: &'static ToyCpus, number: u16, flushes: bool) -> ToyOneCpu<'static> {
    ToyOneCpu {
        machine,
        number,
        kept: Cell::new(false),
        flushes,
    }
}

/// Both online; CPU 1 reads through the page before and after its answers, while CPU 0 reuses the frame.
fn reuse_beside_a_reader(flushes: bool) {
    explore(Some(3), move || {
        let machine = machine();
        let asks = cpu(machine, 0, true);
        let reads = cpu(machine, 1, flushes);
        asks.machine.shootdown.online(&asks);
        reads.machine.shootdown.online(&reads);
        let reader = thread::spawn(move || {
            reads.read();
            machine.shootdown.answer(&reads);
            reads.read();
            // A CPU takes its interrupts until it goes offline; it reads nothing behind that.
            machine.shootdown.answer(&reads);
            machine.shootdown.offline(&reads);
        });
        asks.reuse();
        reader.join().unwrap();
    });
}

#[test]
fn sd1_a_frame_is_not_reused_while_a_cpu_keeps_its_translation() {
    reuse_beside_a_reader(true);
}

#[test]
#[should_panic]
fn a_cpu_that_answers_without_its_flush_is_caught() {
    reuse_beside_a_reader(false);
}

#[test]
fn sd2_two_that_ask_each_other_both_go_on() {
    explore(Some(3), || {
        let machine = machine();
        let one = cpu(machine, 0, true);
        let two = cpu(machine, 1, true);
        machine.shootdown.online(&one);
        machine.shootdown.online(&two);
        let other = thread::spawn(move || {
            machine.shootdown.ask(ShootdownRound::Barrier, &two);
            machine.shootdown.offline(&two);
        });
        machine.shootdown.ask(ShootdownRound::Flush, &one);
        machine.shootdown.offline(&one);
        other.join().unwrap();
    });
}

#[test]
fn sd3_a_newcomer_uses_no_translation_from_before_an_earlier_flush() {
    explore(Some(3), || {
        let machine = machine();
        let asks = cpu(machine, 0, true);
        let comes = cpu(machine, 1, true);
        machine.shootdown.online(&asks);
        // From before it was online, as a CPU that was taken down has it.
        comes.kept.set(true);
        let newcomer = thread::spawn(move || {
            machine.shootdown.online(&comes);
            comes.read();
            machine.shootdown.answer(&comes);
            machine.shootdown.offline(&comes);
        });
        asks.reuse();
        newcomer.join().unwrap();
    });
}

/// The frequent side writes one word and reads the other with no fence; the rare side's round is its barrier.
#[test]
fn sd1_a_barrier_orders_a_cpu_that_has_none_itself() {
    explore(Some(3), || {
        let machine = machine();
        let rare = cpu(machine, 0, true);
        let frequent = cpu(machine, 1, true);
        machine.shootdown.online(&rare);
        machine.shootdown.online(&frequent);
        let other = thread::spawn(move || {
            machine.shootdown.answer(&frequent);
            machine.words[0].store(1, Relaxed);
            // The interrupt comes here, or before, or after: the answer does nothing if none was asked for.
            machine.shootdown.answer(&frequent);
            let seen = machine.words[1].load(Relaxed);
            machine.shootdown.answer(&frequent);
            machine.shootdown.offline(&frequent);
            seen
        });
        machine.words[1].store(1, Relaxed);
        machine.shootdown.ask(ShootdownRound::Barrier, &rare);
        let seen_by_rare = machine.words[0].load(Relaxed);
        let seen = other.join().unwrap();
        assert!(seen == 1 || seen_by_rare == 1, "neither saw the other");
    });
}
