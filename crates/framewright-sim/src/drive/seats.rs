//! Operations run on one thread, so the seats of all CPUs lie in one place, and a run changes the CPU by taking
//! another one.

use crate::Machine;
use framewright::CpuId;
use std::fmt;

/// The seats of a machine's CPUs, one each, used in turn by one thread.
pub struct CpuSeats<T>(Vec<Option<T>>);

impl<T> fmt::Debug for CpuSeats<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the seats of {} CPUs", self.0.len())
    }
}

impl<T> CpuSeats<T> {
    /// Seats for this many CPUs, none of which has its seat yet.
    #[must_use]
    pub fn new(cpus: u16) -> Self {
        Self((0..cpus).map(|_| None).collect())
    }

    /// How many CPUs there are.
    #[must_use]
    pub fn cpus(&self) -> u16 {
        self.0.len() as u16
    }

    /// Lets `cpu` run on the machine from here on. Returns its seat.
    ///
    /// # Panics
    /// If it has no seat: between operations every CPU has one.
    pub fn run_on(&mut self, machine: &Machine, cpu: u16) -> &mut T {
        machine.run_on(CpuId(cpu));
        self.0[usize::from(cpu)]
            .as_mut()
            .expect("every CPU has its seat between operations")
    }

    /// A CPU's seat, whichever CPU is running.
    ///
    /// # Panics
    /// If it has no seat: between operations every CPU has one.
    #[must_use]
    pub fn of(&self, cpu: u16) -> &T {
        self.0[usize::from(cpu)]
            .as_ref()
            .expect("every CPU has its seat between operations")
    }

    /// Gives the CPU that seat.
    pub fn put(&mut self, cpu: u16, seat: T) {
        self.0[usize::from(cpu)] = Some(seat);
    }

    /// Gives a CPU's seat back to the engine, if it has one.
    pub fn give_back(&mut self, cpu: u16) {
        self.0[usize::from(cpu)] = None;
    }
}
