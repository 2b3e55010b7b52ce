//! Waiting in the engine, on a host: strict priorities, and how soon a waiter goes on.

use framewright::frame::{Zone, ZoneLayout};
use framewright::platform::FramePlatform;
use framewright::policy::Config;
use framewright::{CpuId, Frame, Mobility, Order, Run};
use framewright_linux::Linux;
use framewright_linux::platform::Slots;
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};
use std::process::{Command, Stdio, abort};
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const FRAMES: u64 = 1024;

/// A host's waiting, with counts.
struct SeenWaits {
    linux: Linux<()>,
    /// Waits, and the most attempts of one.
    waits: AtomicU64,
    attempts_max: AtomicU32,
    /// Whether it wakes waiters.
    tells: bool,
    /// How long each stop lasts, at least. It notes its end.
    lasts: Duration,
    begun: AtomicBool,
    ended: std::sync::Mutex<Instant>,
}

impl SeenWaits {
    fn new(tells: bool, lasts: Duration) -> Self {
        Self {
            linux: Linux::fenced(Slots::new(2)),
            waits: AtomicU64::new(0),
            attempts_max: AtomicU32::new(0),
            tells,
            lasts,
            begun: AtomicBool::new(false),
            ended: std::sync::Mutex::new(Instant::now()),
        }
    }
}

impl FramePlatform for &SeenWaits {
    const ASYMMETRIC: bool = false;

    fn relax(&self, attempt: u32) {
        if attempt == 0 {
            self.waits.fetch_add(1, Relaxed);
        }
        self.attempts_max.fetch_max(attempt, Relaxed);
        self.linux.relax(attempt);
    }

    fn wake(&self) {
        if self.tells {
            self.linux.wake();
        }
    }

    /// All seats are claimed by now.
    fn barrier_all(&self) {
        self.linux.barrier_all();
        if !self.lasts.is_zero() {
            self.begun.store(true, SeqCst);
            thread::sleep(self.lasts);
            *self.ended.lock().unwrap() = Instant::now();
        }
    }
}

/// A zone for two CPUs with that platform.
fn with_zone<T>(seen: &SeenWaits, work: impl FnOnce(&Zone<'_, &SeenWaits>) -> T) -> T {
    let layout = ZoneLayout::new(Frame(0), FRAMES).with_cpus(2);
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let zone = Zone::new(&layout, &Config::default(), &mut memory, seen).unwrap();
    zone.add(Run::new(Frame(0), FRAMES).unwrap()).unwrap();
    work(&zone)
}

/// Gives the calling thread one CPU and a real-time priority, if the process may do that.
fn become_strict(cpu: &CpuSet, priority: u32) -> bool {
    let chrt = Command::new("chrt")
        .args(["-f", "-p", &priority.to_string()])
        .arg(gettid().as_raw_nonzero().to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    chrt.is_ok_and(|status| status.success()) && sched_setaffinity(None, cpu).is_ok()
}

/// A thread allocates all the time, and a thread of higher priority stops it on the same CPU, mostly inside
/// its seat. While the second waits, the first has to run.
#[test]
fn under_strict_priorities_a_stopper_lets_the_other_thread_leave_its_seat() {
    const STOPS: u32 = 300;
    if cfg!(tsan) {
        eprintln!(
            "skipped: the thread sanitizer's own locks spin, for ever under strict priorities"
        );
        return;
    }
    let Ok(allowed) = sched_getaffinity(None) else {
        eprintln!("skipped: the CPUs are not known");
        return;
    };
    let mut one = CpuSet::new();
    one.set(
        (0..CpuSet::MAX_CPU)
            .rfind(|&cpu| allowed.is_set(cpu))
            .unwrap(),
    );
    let seen = SeenWaits::new(true, Duration::ZERO);
    let is_over = AtomicBool::new(false);
    // Neither spins: a spinning thread of high priority would wait for ever for what the other has to say.
    let (is_strict, both) = (AtomicBool::new(true), std::sync::Barrier::new(2));
    let become_strict = |priority| {
        is_strict.fetch_and(become_strict(&one, priority), SeqCst);
        both.wait();
        is_strict.load(SeqCst)
    };
    let (over, ends) = mpsc::channel::<()>();
    // A livelock must not keep the machine busy for ever.
    let watch = thread::spawn(move || {
        if ends.recv_timeout(Duration::from_secs(120)) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("a thread of high priority waits for one that never runs");
            abort();
        }
    });
    let stops = with_zone(&seen, |zone| {
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut seat = zone.seat(CpuId(0)).unwrap();
                let is_strict = become_strict(1);
                while is_strict && !is_over.load(Relaxed) {
                    let frame = seat.alloc(Order::ZERO, Mobility::Movable).unwrap();
                    seat.free(frame, Order::ZERO).unwrap();
                }
            });
            let stopper = scope.spawn(|| {
                let mut stops = 0;
                if become_strict(2) {
                    while stops < STOPS {
                        thread::sleep(Duration::from_micros(u64::from(stops % 7) * 10));
                        zone.drain();
                        stops += 1;
                    }
                }
                is_over.store(true, Relaxed);
                stops
            });
            stopper.join().unwrap()
        })
    });
    drop(over);
    watch.join().unwrap();
    if stops == 0 {
        eprintln!("skipped: no real-time priority, or no chrt to get one by");
        return;
    }
    let (waits, most) = (&seen.waits, &seen.attempts_max);
    eprintln!("{stops} stops, {waits:?} waits, {most:?} attempts of one at most");
    assert_eq!(stops, STOPS);
}

/// How long after the end of a stop a stopped CPU goes on: median and longest.
fn delays(tells: bool) -> [Duration; 2] {
    const ROUNDS: usize = 41;
    let seen = SeenWaits::new(tells, Duration::from_millis(3));
    let mut delays = with_zone(&seen, |zone| {
        let mut seat = zone.seat(CpuId(0)).unwrap();
        let mut one = || {
            seen.begun.store(false, SeqCst);
            thread::scope(|scope| {
                let stop = scope.spawn(|| zone.drain());
                while !seen.begun.load(SeqCst) {
                    thread::yield_now();
                }
                let frame = seat.alloc(Order::ZERO, Mobility::Movable).unwrap();
                let went_on = Instant::now();
                seat.free(frame, Order::ZERO).unwrap();
                stop.join().unwrap();
                went_on.saturating_duration_since(*seen.ended.lock().unwrap())
            })
        };
        (0..ROUNDS).map(|_| one()).collect::<Vec<_>>()
    });
    delays.sort();
    [delays[ROUNDS / 2], delays[ROUNDS - 1]]
}

/// Measures and does not judge: the machine may be busy.
#[test]
fn a_stopped_cpu_goes_on_soon_after_the_stop() {
    let [told, told_max] = delays(true);
    let [by_itself, by_itself_max] = delays(false);
    eprintln!(
        "a CPU goes on after a stop of 3 ms: {told:?} later if it is woken, {told_max:?} at most; \
         {by_itself:?} and {by_itself_max:?} if it is not"
    );
}
