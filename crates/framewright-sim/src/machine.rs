//! The simulated platform.

use framewright::CpuId;
use framewright::platform::FramePlatform;
use std::cell::Cell;
use std::fmt;

/// What the engine can ask of the machine; each is counted by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MachineCall {
    /// Memory for metadata: [`Machine::metadata`].
    Metadata,
    /// Waiting for another CPU.
    Relax,
    /// A barrier on all CPUs.
    Barrier,
    /// Mapping a run of frames.
    Map,
    /// Unmapping a range.
    Unmap,
    /// Emptying all CPUs' TLBs. It cannot fail, but takes long.
    Flush,
    /// Frames for an area.
    Frames,
    /// A block of frames.
    Block,
    /// Compaction or reclaim for a request.
    Relief,
    /// A call for a cache to give frames back.
    Shrink,
    /// A call for contents to move.
    Migrate,
}

impl MachineCall {
    /// How many kinds there are.
    const KINDS: usize = Self::Migrate as usize + 1;
}

/// One machine: CPUs of which one runs at a time, a clock that only work moves, and memory for
/// metadata.
///
/// For one thread: the shuttle tests check interleavings; they run the engine on threads of their
/// own.
#[derive(Debug)]
pub struct Machine {
    cpus: u16,
    current: Cell<u16>,
    now_ns: Cell<u64>,
    calls: [Cell<u64>; MachineCall::KINDS],
    fault: Cell<Option<Fault>>,
    failed: Cell<u64>,
    armed: Cell<bool>,
}

/// Calls that are still to fail.
#[derive(Clone, Copy, Debug)]
struct Fault {
    call: MachineCall,
    /// So many of its kind are still to succeed.
    after: u64,
    /// Then so many in a row fail.
    times: u64,
}

/// After this many waits in a row for CPUs that cannot run, the engine waits for itself.
const RELAX_MAX: u32 = 10_000;
/// The time of a wait and of a barrier on the virtual clock.
const RELAX_NS: u64 = 100;
const BARRIER_NS: u64 = 2_000;

/// The payload of the panic by which a platform call fails that cannot return an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Injected(pub MachineCall);

/// Memory for metadata was made to fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MetadataError {
    /// The words asked for.
    pub words: usize,
}

impl fmt::Display for MetadataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no memory for {} words of metadata", self.words)
    }
}

impl std::error::Error for MetadataError {}

impl Machine {
    /// How many CPUs there are.
    pub(crate) const fn cpus(&self) -> u16 {
        self.cpus
    }

    /// The CPU that runs.
    pub(crate) const fn current(&self) -> CpuId {
        CpuId(self.current.get())
    }

    /// A machine with that many CPUs, at time 0, on which no call fails.
    #[must_use]
    pub const fn new(cpus: u16) -> Self {
        Self {
            cpus,
            current: Cell::new(0),
            now_ns: Cell::new(0),
            calls: [const { Cell::new(0) }; MachineCall::KINDS],
            fault: Cell::new(None),
            failed: Cell::new(0),
            armed: Cell::new(false),
        }
    }

    /// Lets `cpu` run from here on.
    ///
    /// # Panics
    /// If the machine has no such CPU.
    pub fn run_on(&self, cpu: CpuId) {
        assert!(cpu.0 < self.cpus, "{cpu} is not one of {}", self.cpus);
        self.current.set(cpu.0);
    }

    /// Moves the clock on.
    pub fn advance(&self, ns: u64) {
        self.now_ns.set(self.now_ns.get() + ns);
    }

    /// How often that was called since the machine was made, failures included.
    #[must_use]
    pub fn calls(&self, call: MachineCall) -> u64 {
        self.calls[call as usize].get()
    }

    /// Makes `times` calls in a row fail: those that come after `after` others of their kind, counted
    /// while the machine is [armed](Self::arm). A call with an error returns it; a wait and a
    /// barrier panic with [`Injected`], and a flush takes a thousand times as long.
    pub fn fail(&self, call: MachineCall, after: u64, times: u64) {
        self.fault
            .set((times != 0).then_some(Fault { call, after, times }));
    }

    /// Whether faults are counted and happen. Off at first, so that checks between operations
    /// are not hit.
    pub fn arm(&self, armed: bool) {
        self.armed.set(armed);
    }

    /// How many calls were made to fail so far.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failed.get()
    }

    /// Whether a fault is still to come.
    #[must_use]
    pub fn has_fault(&self) -> bool {
        self.fault.get().is_some()
    }

    /// Memory for metadata, full of noise.
    ///
    /// # Errors
    /// If this call was made to fail.
    pub fn metadata(&self, words: usize) -> Result<Vec<u64>, MetadataError> {
        if self.is_hit(MachineCall::Metadata) {
            Err(MetadataError { words })
        } else {
            Ok(vec![0xa5a5_a5a5_a5a5_a5a5; words])
        }
    }

    /// Counts a call. Returns whether it is the one that fails.
    pub(crate) fn is_hit(&self, call: MachineCall) -> bool {
        let calls = &self.calls[call as usize];
        calls.set(calls.get() + 1);
        let Some(fault) = self.fault.get() else {
            return false;
        };
        if fault.call != call || !self.armed.get() {
            return false;
        }
        if let Some(after) = fault.after.checked_sub(1) {
            self.fault.set(Some(Fault { after, ..fault }));
            return false;
        }
        self.failed.set(self.failed.get() + 1);
        self.fail(call, 0, fault.times - 1);
        true
    }

    fn fail_by_panic(&self, call: MachineCall) {
        if self.is_hit(call) {
            // Not `panic_any`: this is no bug, so nothing is to be printed.
            std::panic::resume_unwind(Box::new(Injected(call)));
        }
    }
}

impl FramePlatform for Machine {
    /// One CPU runs at a time.
    const ASYMMETRIC: bool = true;

    /// # Panics
    /// After ten thousand attempts: no other CPU runs while this one waits. And if made to fail.
    fn relax(&self, attempt: u32) {
        self.advance(RELAX_NS);
        self.fail_by_panic(MachineCall::Relax);
        assert!(
            attempt < RELAX_MAX,
            "deadlock: waited {attempt} times for CPUs that do not run"
        );
    }

    /// # Panics
    /// If made to fail.
    fn barrier_all(&self) {
        self.advance(BARRIER_NS);
        self.fail_by_panic(MachineCall::Barrier);
    }

    fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nth_call_fails_once_and_only_while_armed() {
        let machine = Machine::new(2);
        machine.fail(MachineCall::Metadata, 1, 1);
        assert!(machine.metadata(3).is_ok() && machine.metadata(3).is_ok());
        machine.arm(true);
        machine.barrier_all();
        assert!(machine.metadata(3).is_ok() && machine.has_fault());
        assert_eq!(machine.metadata(3), Err(MetadataError { words: 3 }));
        assert!(!machine.has_fault() && machine.metadata(3).is_ok());
        assert_eq!(machine.calls(MachineCall::Metadata), 5);
    }

    #[test]
    fn a_call_without_errors_fails_by_a_panic_that_says_so() {
        let machine = Machine::new(1);
        machine.arm(true);
        machine.fail(MachineCall::Barrier, 0, 1);
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            machine.barrier_all();
        }));
        let payload = failed.unwrap_err();
        assert_eq!(
            payload.downcast_ref(),
            Some(&Injected(MachineCall::Barrier))
        );
    }

    #[test]
    fn time_and_cpus_are_what_they_were_set_to() {
        let machine = Machine::new(3);
        machine.run_on(CpuId(2));
        assert_eq!((machine.cpus(), machine.current()), (3, CpuId(2)));
        machine.advance(5);
        machine.relax(0);
        machine.barrier_all();
        assert_eq!(machine.now_ns(), 2105);
    }

    #[test]
    #[should_panic(expected = "deadlock: waited 10000 times")]
    fn waiting_for_no_cpu_ends() {
        Machine::new(1).relax(RELAX_MAX);
    }
}
