//! The machine by itself, on words of its own; and a load of the engine.

use crate::Prices;
use crate::loads::LOADS;
use crate::machine::{CpuWork, Loss, ManyCpus, Plan, SpentTime, ended, interrupt, run, wait};
use crate::report::simulate;
use framewright_lines::{AtomicU64, Ordering::Relaxed};

const WORK_PS: u64 = 10;

const PRICES: Prices = Prices {
    instruction_ps: 100,
    line_ps: 1000,
    interrupt_ps: 5000,
    answer_ps: 2000,
    poll_ps: 50_000,
    late_poll_ps: 50_000,
};

/// All that happens counts.
const PLAN: Plan = Plan {
    warm: 0,
    spread: 0,
    counted: 1000,
};

/// Lines of eight words.
fn words(lines: usize) -> Vec<AtomicU64> {
    (0..8 * (lines + 1)).map(|_| AtomicU64::new(0)).collect()
}

/// The first word of a line.
fn line(words: &[AtomicU64], nth: usize) -> &AtomicU64 {
    let first = words
        .iter()
        .position(|word| std::ptr::from_ref(word).addr() % 64 == 0);
    &words[first.unwrap() + 8 * nth]
}

fn on<'w>(words: &'w [AtomicU64], works: Vec<CpuWork<'w>>) -> SpentTime {
    let extent = (words.as_ptr().addr(), size_of_val(words));
    run(
        ManyCpus::new(works.len(), PRICES, WORK_PS, extent, PLAN),
        works,
    )
}

/// Two CPUs, each of which adds to a word a hundred times.
fn adders(words: &[AtomicU64], lines: [usize; 2]) -> SpentTime {
    let add = |nth: usize| {
        let word = line(words, lines[nth]);
        let work = move || {
            for _ in 0..100 {
                word.fetch_add(1, Relaxed);
                ended(1);
            }
        };
        Box::new(work) as CpuWork<'_>
    };
    on(words, vec![add(0), add(1)])
}

#[test]
fn a_line_that_two_cpus_write_costs_and_two_lines_do_not() {
    let memory = words(2);
    let apart = adders(&memory, [0, 1]);
    assert!(apart.lost.is_empty(), "{apart:?}");
    assert_eq!(apart.work, 200 * WORK_PS);
    let memory = words(2);
    let shared = adders(&memory, [0, 0]);
    assert_eq!(line(&memory, 0).load(Relaxed), 200);
    let lost = shared.of(Loss::Line);
    // They take turns: each addition but the first fetches the line.
    assert_eq!(lost.times, 199, "{shared:?}");
    // It has one price, and the wait for the other one that has it.
    assert!(lost.ps >= 199 * PRICES.line_ps && lost.ps <= 2 * 199 * PRICES.line_ps);
}

#[test]
fn a_line_that_both_only_read_costs_each_once_at_most() {
    let memory = words(1);
    let read = || {
        let word = line(&memory, 0);
        Box::new(move || {
            (0..100).for_each(|_| {
                let _ = word.load(Relaxed);
            })
        }) as CpuWork<'_>
    };
    let spent = on(&memory, vec![read(), read()]);
    assert_eq!(spent.of(Loss::Line).times, 1);
}

#[test]
fn a_held_lock_makes_the_second_cpu_wait_until_its_end() {
    let memory = words(2);
    let (lock, other) = (line(&memory, 0), line(&memory, 1));
    // The first access of a second CPU may come late: so both look first.
    let look = move || {
        let _ = lock.load(Relaxed);
        ended(0);
    };
    let holder = move || {
        look();
        assert!(lock.compare_exchange(0, 1, Relaxed, Relaxed).is_ok());
        // So long it is held.
        (0..5000).for_each(|_| {
            other.fetch_add(1, Relaxed);
        });
        lock.store(0, Relaxed);
    };
    let waiter = move || {
        look();
        let mut attempt = 0;
        while lock.compare_exchange(0, 1, Relaxed, Relaxed).is_err() {
            wait(attempt);
            attempt += 1;
        }
        assert_eq!(
            other.load(Relaxed),
            5000,
            "it came in while the other one held it"
        );
    };
    let spent = on(&memory, vec![Box::new(holder), Box::new(waiter)]);
    let waited = spent.of(Loss::Wait).ps + spent.of(Loss::Line).ps;
    // A poll after the end at most, and the lines on the way.
    let held = 5000 * WORK_PS;
    assert!((held..held + 60_000).contains(&waited), "{spent:?}");
}

#[test]
fn an_interrupt_reaches_every_other_cpu_and_costs_its_sender_each_answer() {
    let memory = words(4);
    let sender = || interrupt(Loss::Barrier);
    let mut works: Vec<CpuWork<'_>> = vec![Box::new(sender)];
    for nth in 1..4 {
        let word = line(&memory, nth);
        works.push(Box::new(move || {
            (0..10).for_each(|_| {
                word.fetch_add(1, Relaxed);
            })
        }));
    }
    let spent = on(&memory, works);
    let (sent, answers) = (spent.of(Loss::Barrier), spent.of(Loss::Answer));
    assert_eq!((sent.times, sent.ps), (1, 5000 + 2 * 1000));
    assert_eq!((answers.times, answers.ps), (3, 3 * 2000));
}

/// A load that has refills, waits and stops.
fn some_load() -> SpentTime {
    let load = LOADS
        .into_iter()
        .find(|load| load.name == "refused, order 3");
    let plan = Plan {
        warm: 4,
        spread: 1000,
        counted: 8,
    };
    simulate(load.unwrap(), 4, PRICES, WORK_PS, plan)
}

#[test]
fn a_stop_of_the_engine_reaches_all_and_the_same_run_gives_the_same_figures() {
    let spent = some_load();
    let (sent, answers) = (spent.of(Loss::Barrier), spent.of(Loss::Answer));
    assert!(
        sent.times > 0,
        "a refused request stops all CPUs: {spent:?}"
    );
    // A barrier at an edge of the window may have its answers on the other side.
    assert!(answers.times.abs_diff(3 * sent.times) <= 3, "{spent:?}");
    assert!(answers.times >= 4, "{spent:?}");
    assert!(spent.of(Loss::Wait).ps > 0, "{spent:?}");
    assert_eq!(spent, some_load());
}

#[test]
fn cpus_that_find_too_many_lazy_pages_at_once_wait_for_one_flush() {
    let load = LOADS
        .into_iter()
        .find(|load| load.name == "vm_map_ram 4 pages");
    let (load, cpus) = (load.unwrap(), 16);
    let plan = Plan {
        warm: 2 * load.cycle,
        spread: 1000,
        counted: 4096,
    };
    let spent = simulate(load, cpus, PRICES, WORK_PS, plan);
    // A 32nd of all frames may lie behind lazy pages. A CPU begins to unmap once half as many pages are lazy.
    let bound = u64::from(cpus) * crate::loads::FRAMES / 32;
    let pages = spent.operations * 4;
    let flushes = spent.of(Loss::Flush).times;
    assert!(
        flushes > 0 && flushes * bound < 4 * pages,
        "{flushes} flushes for {pages} pages, of which {bound} may be lazy"
    );
}

#[test]
fn work_and_losses_are_the_time_of_all_cpus_and_none_is_without_a_name() {
    for load in LOADS {
        let plan = Plan {
            warm: if load.is_cold { 0 } else { 2 * load.cycle },
            spread: 100_000,
            counted: load.cycle.min(64),
        };
        let cpus = 3;
        let spent = simulate(load, cpus, PRICES, WORK_PS, plan);
        let lost: u64 = Loss::ALL.into_iter().map(|loss| spent.of(loss).ps).sum();
        let name = load.name;
        assert_eq!(
            spent.work + lost,
            spent.window * u64::from(cpus),
            "{name}: {spent:?}"
        );
        assert!(
            spent.lost.keys().all(|(_, file)| !file.is_empty()),
            "{name}: {spent:?}"
        );
    }
}
