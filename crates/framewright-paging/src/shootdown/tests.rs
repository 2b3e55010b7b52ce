//! A shootdown among threads, and what it sends.

use super::*;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::thread;
use std::vec::Vec;

/// A CPU whose interrupts are noted, and of which each one answers at once if told so.
#[derive(Default)]
struct NotingCpu {
    number: u16,
    sent: RefCell<Vec<u16>>,
    flushes: Cell<u32>,
}

impl Ipi for NotingCpu {
    fn current(&self) -> CpuId {
        CpuId(self.number)
    }

    fn interrupt(&self, cpu: CpuId) {
        self.sent.borrow_mut().push(cpu.0);
    }

    fn flush_here(&self) {
        self.flushes.set(self.flushes.get() + 1);
    }

    fn pause(&self, attempt: u32) {
        assert!(attempt < 1, "no other CPU is online");
    }
}

#[test]
fn only_cpus_that_are_online_are_interrupted_and_waited_for() {
    let shootdown: Shootdown<4> = Shootdown::new();
    let one = NotingCpu::default();
    shootdown.online(&one);
    assert!(shootdown.is_online(CpuId(0)) && !shootdown.is_online(CpuId(3)));
    let flushes = one.flushes.get();
    shootdown.ask(ShootdownRound::Flush, &one);
    shootdown.ask(ShootdownRound::Barrier, &one);
    assert_eq!(one.flushes.get(), flushes + 1);
    assert!(one.sent.borrow().is_empty());
    // One that went offline again is not waited for either.
    let two = NotingCpu {
        number: 2,
        ..NotingCpu::default()
    };
    shootdown.online(&two);
    shootdown.offline(&two);
    shootdown.ask(ShootdownRound::Flush, &one);
    assert!(one.sent.borrow().is_empty());
    // An offline CPU, such as one at boot, can ask too.
    let flushes = two.flushes.get();
    shootdown.offline(&one);
    shootdown.ask(ShootdownRound::Flush, &two);
    assert_eq!(two.flushes.get(), flushes + 1);
}

#[test]
fn one_answer_serves_all_that_asked_before() {
    let shootdown: Shootdown<2> = Shootdown::new();
    let one = NotingCpu::default();
    shootdown.online(&one);
    let before = one.flushes.get();
    shootdown.wanted.flush.fetch_add(5, Relaxed);
    shootdown.answer(&one);
    shootdown.answer(&one);
    assert_eq!(one.flushes.get(), before + 1);
}

/// A CPU of a thread.
struct ThreadCpu(u16, AtomicU32);

impl Ipi for ThreadCpu {
    fn current(&self) -> CpuId {
        CpuId(self.0)
    }

    fn interrupt(&self, _cpu: CpuId) {}

    fn flush_here(&self) {
        self.1.fetch_add(1, Relaxed);
    }

    fn pause(&self, _attempt: u32) {
        thread::yield_now();
    }
}

/// All ask at once; each answers while it waits, or none of them would end (SD2).
#[test]
fn sd2_four_cpus_that_ask_at_once_all_end() {
    let shootdown: Shootdown<4> = Shootdown::new();
    let ended = AtomicU32::new(0);
    let hurry = AtomicBool::new(false);
    thread::scope(|scope| {
        for number in 0..4 {
            let (shootdown, ended, hurry) = (&shootdown, &ended, &hurry);
            scope.spawn(move || {
                let cpu = ThreadCpu(number, AtomicU32::new(0));
                shootdown.online(&cpu);
                for nth in 0..200 {
                    shootdown.ask(ROUNDS[nth % 2], &cpu);
                }
                assert!(cpu.1.load(Relaxed) >= 100);
                ended.fetch_add(1, Relaxed);
                while !hurry.load(Acquire) {
                    shootdown.answer(&cpu);
                    thread::yield_now();
                    hurry.fetch_or(ended.load(Relaxed) == 4, Release);
                }
            });
        }
    });
    assert_eq!(ended.load(Relaxed), 4);
}
