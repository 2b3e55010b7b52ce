//! The memory manager of Framewright for kernels in C: frames, address space, objects and a reserve, over metadata and
//! frames that the kernel hands in, and page tables that it brings. `include/framewright_kernel.h` has it as C sees it.
//!
//! ```text
//!   c::frames, ranges, objects, reserve, guests, memory     the exported functions `fwk_...`
//!        │
//!   c::head          a memory: its engine, and a cell with the seats of each CPU, in the caller's metadata
//!        │
//!   c::platform      the caller's table of callbacks as a platform of the engine
//!        │
//!   framewright-capi-core, framewright
//! ```
//!
//! No function allocates, and none looks for a thread: each takes the number of a CPU, whose seats it works in; but
//! `fwk_vfree_atomic`, which works in none, so that it may come inside any call. All state lies in the caller's metadata,
//! except which table hears of a panic.
//!
//! # Why this is a library alone
//! `no_std` code in a static library needs a panic handler, and a crate with `std` must have none. So the functions are
//! in this crate, which has none and which tests link; `library/`, a workspace of its own, adds the handler, and is what
//! a kernel links.
//!
//! # Invariants
//! - **CK1** A CPU's seats have one user at a time. A call for a CPU that is inside one, by a handler or a callback, is
//!   refused (`FW_EREENTRY`) before it touches anything but the CPU's last error.
//! - **CK2** A handle is the address of metadata in which a memory was made and has not ended. Null, an unaligned address,
//!   or other contents are refused (`FW_EHANDLE`).
//! - **CK3** A call reads and writes the caller's memory only where its description says. On an error it has written
//!   nothing there, except where that description says otherwise.
//! - **CK4** What a callback refuses, the call refuses, and the state is as before: a page is in use only if `map` mapped it,
//!   and used again only if `unmap` unmapped it and a `flush` began later.
//! - **CK5** A table's callback that is not there has a meaning of its own: a spin, a fence, the library's own loop over
//!   the direct map. None is called that is null.
#![no_std]

pub mod c;
