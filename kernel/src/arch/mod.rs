//! The machine below: what differs between architectures, behind the same names.
//!
//! | name | what |
//! |---|---|
//! | `cpu`, `InstalledCpu` | the architecture's crate: page tables, instructions; its name for the calling CPU |
//! | `KernelTables`, `DIRECT_BASE`, `WINDOW`, `FIRST` | page tables, and where things lie |
//! | `devices_before_memory`, `enable`, `start_others`, `interrupt`, `set_timer`, `pause` | CPUs and their interrupts |
//! | `set_up_traps`, `try_write`, `call_on_stack` | faults |
//! | `write_byte`, `stop_machine` | the serial line, the end |

#[cfg(target_arch = "riscv64")]
mod riscv64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "riscv64")]
pub use riscv64::*;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;
