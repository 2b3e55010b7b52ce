//! What per-CPU objects have counted.

/// What per-CPU objects have counted, of one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PerCpuStats {
    /// Objects that there are now.
    pub objects: u64,
    /// The bytes that one copy of each of them has room for, together.
    pub bytes: u64,
    /// Objects handed out.
    pub allocs: u64,
    /// Requests that failed, but for those that make no sense.
    pub failures: u64,
    /// Pages of a unit with frames behind them: each has a frame for every CPU.
    pub pages: u64,
    /// Those of them that have no object, and wait for one.
    pub idle_pages: u64,
    /// Pages that the platform did not unmap: what lies behind them is not used until it does.
    pub stuck_pages: u64,
}
