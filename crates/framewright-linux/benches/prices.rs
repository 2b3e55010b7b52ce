//! What CPUs pay for one another on this machine: the prices with which `cargo xtask many-cpus` simulates more of them.
//!
//! ```sh
//! cargo bench -p framewright-linux --bench prices            # some ten seconds, two CPUs
//! cargo bench -p framewright-linux --bench prices -- --quick
//! ```
//!
//! `--json FILE` appends the figures there, one a line. Each figure is of many short rounds, so that the least of them is of
//! a moment in which no other program had one of the two CPUs.
//!
//! - *line*: two threads take turns in writing one word, and each waits for the other's write. In such a turn the one reads
//!   what the other has written, and takes the line from it to write: two transfers.
//! - *interrupt*: membarrier(2) while another thread of the process runs, to its caller. Only rounds count in which that thread
//!   ran throughout.
//! - *answer*: what the other thread loses for each of these calls.
//! - *pair*: a block of order 0 comes and goes, on one thread.

#[path = "frames/machine.rs"]
mod machine;
#[path = "frames/rows.rs"]
mod rows;

use framewright::frame::ZoneLayout;
use framewright::platform::FramePlatform;
use framewright::{Frame, Mobility, Order};
use framewright_linux::{Host, Membarrier, Options};
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{
    AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::thread;
use std::time::{Duration, Instant};

/// A word alone in its line, and in the line that a CPU may fetch with it.
#[repr(align(128))]
struct OwnLine(AtomicU64);

/// After so many barriers it is looked whether the other thread has gone on.
const LOOK: u64 = 10;

/// So many rounds are tried for one in which the other thread ran throughout.
const TRIES: usize = 20;

/// How often each figure is taken, and how long one takes.
struct PriceRounds {
    count: usize,
    turns: u64,
    calls: u64,
    span: Duration,
}

/// Waits until the word has that value.
fn wait_for(word: &AtomicU64, value: u64) {
    while word.load(Acquire) != value {
        spin_loop();
    }
}

/// Runs `work` on the first CPU, and `beside` on the second one meanwhile.
fn on_two<T: Send>(work: impl FnOnce() -> T + Send, beside: impl FnOnce() + Send) -> T {
    // A thread may use the CPUs that its creator may use: so this one is bound to none.
    thread::scope(|scope| {
        scope.spawn(|| {
            machine::pin(1);
            beside();
        });
        let worker = scope.spawn(|| {
            machine::pin(0);
            work()
        });
        worker.join().expect("it does not panic")
    })
}

/// Nanoseconds for a transfer.
fn line_ns(rounds: &PriceRounds) -> Vec<f64> {
    let word = OwnLine(AtomicU64::new(0));
    let all = rounds.turns * rounds.count as u64;
    let other = || {
        for turn in 0..all {
            wait_for(&word.0, 2 * turn + 1);
            word.0.store(2 * turn + 2, Release);
        }
    };
    let round = |nth: usize| {
        let start = Instant::now();
        for turn in 0..rounds.turns {
            let turn = nth as u64 * rounds.turns + turn;
            word.0.store(2 * turn + 1, Release);
            wait_for(&word.0, 2 * turn + 2);
        }
        // Each of the two turns has two.
        start.elapsed().as_nanos() as f64 / (4 * rounds.turns) as f64
    };
    on_two(|| (0..rounds.count).map(round).collect(), other)
}

/// Nanoseconds of a barrier for the thread that calls it, and for another one that runs.
fn barrier_ns(rounds: &PriceRounds, barrier: Membarrier) -> (Vec<f64>, Vec<f64>) {
    let count = OwnLine(AtomicU64::new(0));
    let is_over = AtomicBool::new(false);
    let other = || {
        let mut nth = 0;
        while !is_over.load(Relaxed) {
            nth += 1;
            count.0.store(nth, Relaxed);
        }
    };
    let work = || {
        let counted = || count.0.load(Relaxed);
        let rest = || thread::sleep(Duration::from_millis(1));
        // How many times the other thread counts in a nanosecond, if this one leaves it alone.
        let mut alone = Vec::new();
        for _ in 0..rounds.count {
            let (start, before) = (Instant::now(), counted());
            while start.elapsed() < rounds.span {
                spin_loop();
            }
            let ns = start.elapsed().as_nanos() as f64;
            alone.push((counted() - before) as f64 / ns);
            rest();
        }
        // Neither the moment in which it was fastest, nor those in which another program had its CPU.
        alone.sort_by(f64::total_cmp);
        let alone = alone[alone.len() / 2];
        let (mut calls_ns, mut lost_ns) = (Vec::new(), Vec::new());
        for _ in 0..TRIES * rounds.count {
            if calls_ns.len() == rounds.count {
                break;
            }
            let (start, before) = (Instant::now(), counted());
            let mut has_run = true;
            for _ in 0..rounds.calls / LOOK {
                let then = counted();
                (0..LOOK).for_each(|_| barrier.barrier_all());
                has_run &= counted() > then;
            }
            let ns = start.elapsed().as_nanos() as f64;
            let beside = (counted() - before) as f64 / ns;
            // Where another program had that CPU, no interrupt was sent.
            if has_run {
                calls_ns.push(ns / rounds.calls as f64);
                lost_ns.push((1.0 - beside / alone) * ns / rounds.calls as f64);
            }
            rest();
        }
        is_over.store(true, Relaxed);
        (calls_ns, lost_ns)
    };
    on_two(work, other)
}

/// Nanoseconds of a block that comes and goes.
fn pair_ns(rounds: &PriceRounds) -> Vec<f64> {
    let options = Options::new(ZoneLayout::new(Frame(0), 16_384).with_cpus(2));
    let host = Host::new(&options).expect("membarrier, which was registered");
    let mut seat = host.seat().expect("a seat for the one thread");
    let mut pairs = || {
        for _ in 0..rounds.turns {
            let frame = seat.alloc_hard(Order::ZERO, Mobility::Movable);
            let frame = black_box(frame.expect("there is a free block"));
            seat.free(frame, Order::ZERO).expect("it is allocated");
        }
    };
    pairs();
    let mut round = || {
        let start = Instant::now();
        pairs();
        start.elapsed().as_nanos() as f64 / rounds.turns as f64
    };
    (0..rounds.count).map(|_| round()).collect()
}

fn add(name: &str, ns: &[f64]) {
    if ns.is_empty() {
        println!("{name:>10}: another program had a CPU in each round");
        return;
    }
    let mut sorted = ns.to_vec();
    sorted.sort_by(f64::total_cmp);
    println!(
        "{name:>10}: {:.1} ns at least, {:.1} ns in the middle of {} rounds",
        sorted[0],
        sorted[sorted.len() / 2],
        sorted.len()
    );
    rows::add(name, "machine", "price", "ns", ns);
}

fn main() {
    println!("{}", machine::description());
    let count = if std::env::args().any(|arg| arg == "--quick") {
        20
    } else {
        400
    };
    let rounds = PriceRounds {
        count,
        turns: 5_000,
        calls: 200,
        span: Duration::from_micros(500),
    };
    if thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("one CPU: there is no other to pay for");
        return;
    }
    add("line", &line_ns(&rounds));
    match Membarrier::register() {
        Ok(barrier) => {
            let (calls, lost) = barrier_ns(&rounds, barrier);
            add("interrupt", &calls);
            add("answer", &lost);
            add("pair", &on_two(|| pair_ns(&rounds), || ()));
        }
        Err(why) => println!("{why}: no price of an interrupt"),
    }
}
