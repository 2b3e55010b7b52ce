//! The memory manager of Framewright for C: a host's frames, address space, objects and reserve, by functions whose
//! names begin with `fw_`. `include/framewright.h` has them as C sees them.
//!
//! ```text
//!   c          the exported functions, and all `unsafe`: pointers are read and written there    [`c`]
//!    │
//!   seats      which of a host's seats the calling thread works in; whether it is inside
//!    │
//!   registry   handles, and the hosts behind them: each with a seat for each place, behind a lock
//!    │
//!   framewright-linux, framewright
//!
//!   codes      what a refusal is: a number, whose meaning `framewright-capi-core` has, and a message
//! ```
//!
//! # Handles
//! A handle is a number in the clothes of a pointer, and no code follows it. It names one host, and no number names two.
//! So a handle whose host is gone, or that never was one, is an error and not corruption, and a call may race with
//! [`fw_host_free`](c::host::fw_host_free): it comes before, or finds no host.
//!
//! # Seats
//! A host has a *place* for each of a fixed number of threads, and one that all others share. A place has the seat
//! of a CPU, behind a lock. A thread takes a place for its own at its first call, and gives it back when it ends:
//! the destructor of a pthread key does that, whether the thread returned, called pthread_exit or was cancelled. The
//! shared place serves threads that find none, and calls that come after the destructor of the key has run, from
//! other keys' destructors.
//!
//! # Invariants
//! - **CA1** A seat has one user at a time: the lock of its place. Which thread has the place for its own decides
//!   only how often threads wait for each other. So a place that is lost costs others a wait, and nothing else.
//! - **CA2** A thread is inside at most one call: a call from a signal handler or a callback that interrupts another is
//!   refused ([`FW_EREENTRY`](framewright_capi_core::codes::FW_EREENTRY)), before it takes a lock or changes anything.
//! - **CA3** Nothing unwinds out of a call. A panic inside a host ends the use of that host: each later call is refused
//!   ([`FW_EPANIC`](framewright_capi_core::codes::FW_EPANIC)), and its memory stays where it is.
//! - **CA4** A call reads and writes the caller's memory only where its description says. On an error it has written
//!   nothing there, except where that description says otherwise.
//! - **CA5** A child after fork(2) has none of its parent's hosts: their handles are refused
//!   ([`FW_EFORKED`](framewright_capi_core::codes::FW_EFORKED)), and no lock of theirs is looked at. It may make hosts of its own: no call waits
//!   for a thread that only the parent has.
//!
//! # What is not here
//! Hosts on machines without membarrier. C kernels have a library of their own, `framewright-capi-kernel`.

pub mod c;
mod codes;
mod registry;
mod seats;
