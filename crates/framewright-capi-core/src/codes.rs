//! What a refusal is in C: a code, which is 0 or negative, and a text for each code.

use core::ffi::{CStr, c_int};
use framewright::engine::EngineError;
use framewright::frame::{AllocError, FreeError};
use framewright::kv::{KvError, KvFreeError};
use framewright::platform::MapError;
use framewright::reserve::PutRefused;
use framewright::stats::Broken;
use framewright::vrange::{RangeError, RangeFreeError};
use framewright::{RunError, SetupError};

/// The call did what it says.
pub const FW_OK: c_int = 0;
/// No such object, area or reservation (ENOENT).
pub const FW_ENOENT: c_int = -2;
/// The operating system refused memory, address space or a file (EIO).
pub const FW_EHOST: c_int = -5;
/// The structure has fields that this library does not know, and they are not zero (E2BIG).
pub const FW_E2BIG: c_int = -7;
/// The handle names no host: it was freed, or never was one (EBADF).
pub const FW_EHANDLE: c_int = -9;
/// The host is the parent's: this process was forked off from it (ECHILD).
pub const FW_EFORKED: c_int = -10;
/// It is not there at once, or others are in the way: asking again may help (EAGAIN).
pub const FW_EAGAIN: c_int = -11;
/// Fewer frames are free than asked for (ENOMEM).
pub const FW_ENOMEM: c_int = -12;
/// The address or the frame is none of this host's (EFAULT).
pub const FW_EFOREIGN: c_int = -14;
/// The reservation is taken (EBUSY).
pub const FW_EBUSY: c_int = -16;
/// The host has no reserve (ENODEV).
pub const FW_ENODEV: c_int = -19;
/// An argument is wrong, whatever the state of the host: a null pointer, no bytes, an alignment that is no power of two
/// (EINVAL).
pub const FW_EINVAL: c_int = -22;
/// More than the host can ever give (EFBIG).
pub const FW_EFBIG: c_int = -27;
/// No gap of address space, no room in the reserve, or no room for one more host or reservation (ENOSPC).
pub const FW_ENOSPC: c_int = -28;
/// The thread is inside a call already: a signal handler or a callback called (EDEADLK).
pub const FW_EREENTRY: c_int = -35;
/// The machine lacks something that a host needs, as membarrier(2) (ENOSYS).
pub const FW_ENOSYS: c_int = -38;
/// The invariants of the host do not hold: memory was overwritten, or the library is wrong (EUCLEAN).
pub const FW_EBROKEN: c_int = -117;
/// What starts there is free already: a double free (EALREADY).
pub const FW_EALREADY: c_int = -114;
/// The library is wrong: it panicked, and the host cannot be used any longer (ENOTRECOVERABLE).
pub const FW_EPANIC: c_int = -131;
/// Enough frames are free, but not that many side by side.
pub const FW_EFRAGMENTED: c_int = -1001;
/// The operating system allows no more mappings (vm.max_map_count).
pub const FW_EMAPPINGS: c_int = -1002;
/// The address is inside an object or an area that starts elsewhere.
pub const FW_EINSIDE: c_int = -1003;
/// Another function made it, and that one's counterpart frees it.
pub const FW_EKIND: c_int = -1004;
/// It has another length, or another order, than the caller says.
pub const FW_ELENGTH: c_int = -1005;

/// Each code with its text.
const TEXTS: [(c_int, &CStr); 24] = [
    (FW_OK, c"no error"),
    (FW_ENOENT, c"no such object, area or reservation"),
    (FW_EHOST, c"the operating system refused"),
    (
        FW_E2BIG,
        c"the structure has fields that this library does not know",
    ),
    (FW_EHANDLE, c"the handle names no host"),
    (
        FW_EFORKED,
        c"the host belongs to the parent of this process",
    ),
    (FW_EAGAIN, c"not there at once: asking again may help"),
    (FW_ENOMEM, c"too few frames are free"),
    (FW_EFOREIGN, c"the address or frame is none of this host's"),
    (FW_EBUSY, c"the reservation is taken"),
    (FW_ENODEV, c"the host has no reserve"),
    (FW_EINVAL, c"an argument is wrong"),
    (FW_EFBIG, c"more than the host can ever give"),
    (FW_ENOSPC, c"no room for it"),
    (FW_EREENTRY, c"the thread is inside a call already"),
    (FW_ENOSYS, c"the machine lacks something that a host needs"),
    (FW_EBROKEN, c"an invariant does not hold"),
    (FW_EALREADY, c"it is free already"),
    (
        FW_EPANIC,
        c"the library panicked: the host cannot be used any longer",
    ),
    (
        FW_EFRAGMENTED,
        c"enough frames are free, but not side by side",
    ),
    (
        FW_EMAPPINGS,
        c"the operating system allows no more mappings",
    ),
    (FW_EINSIDE, c"the address is inside an object or area"),
    (FW_EKIND, c"another function frees it"),
    (FW_ELENGTH, c"it has another length"),
];

/// The text of a code.
#[must_use]
pub fn text(code: c_int) -> &'static CStr {
    let known = TEXTS.iter().find(|(of, _)| *of == code);
    known.map_or(c"unknown code", |(_, text)| text)
}

/// An error that has a code in C.
pub trait Coded {
    /// Its code.
    fn code(&self) -> c_int;
}

impl Coded for AllocError {
    fn code(&self) -> c_int {
        match self {
            Self::Exhausted => FW_ENOMEM,
            Self::Fragmented => FW_EFRAGMENTED,
            Self::WouldWait => FW_EAGAIN,
            Self::Impossible | Self::TooLarge { .. } => FW_EFBIG,
        }
    }
}

impl Coded for FreeError {
    fn code(&self) -> c_int {
        match self {
            Self::Outside(_) | Self::Absent(_) => FW_EFOREIGN,
            Self::AlreadyFree(_) => FW_EALREADY,
            Self::WrongOrder { .. } => FW_ELENGTH,
            Self::NotTheFirst(_) => FW_EINSIDE,
        }
    }
}

impl Coded for MapError {
    fn code(&self) -> c_int {
        match self {
            Self::NoMemory => FW_ENOMEM,
            Self::Limit { .. } => FW_EMAPPINGS,
            Self::Page(_) | Self::Frame(_) => FW_EFOREIGN,
            Self::Refused(_) => FW_EHOST,
        }
    }
}

impl Coded for RangeError {
    fn code(&self) -> c_int {
        match self {
            Self::Empty | Self::Align { .. } | Self::Caching(_) => FW_EINVAL,
            Self::TooLong { .. } | Self::TooManyFrames { .. } => FW_EFBIG,
            Self::NoSpace { .. } => FW_ENOSPC,
            Self::WouldWait => FW_EAGAIN,
            Self::Frames(error) => error.code(),
            Self::Map(error) => error.code(),
            Self::Poisoned => FW_EPANIC,
        }
    }
}

impl Coded for RangeFreeError {
    fn code(&self) -> c_int {
        match self {
            Self::Outside(_) => FW_EFOREIGN,
            Self::AlreadyFree(_) => FW_EALREADY,
            Self::NotTheFirst { .. } => FW_EINSIDE,
            Self::NotAllocated(_) => FW_ENOENT,
            Self::WrongKind(_) => FW_EKIND,
            Self::WrongLength { .. } => FW_ELENGTH,
            Self::Poisoned => FW_EPANIC,
        }
    }
}

impl Coded for KvError {
    fn code(&self) -> c_int {
        match self {
            Self::Empty | Self::Align { .. } => FW_EINVAL,
            Self::TooLong { .. } | Self::Overflow { .. } | Self::AlignContiguous { .. } => FW_EFBIG,
            Self::MustNotWait | Self::MustNotFree(_) | Self::NotNow { .. } => FW_EAGAIN,
            Self::Frames(error) => error.code(),
            Self::Outside(_) => FW_ENOMEM,
            Self::Ranges(error) => error.code(),
            Self::Free(error) => error.code(),
        }
    }
}

impl Coded for KvFreeError {
    fn code(&self) -> c_int {
        match self {
            Self::Outside(_) => FW_EFOREIGN,
            Self::AlreadyFree(_) => FW_EALREADY,
            Self::NotTheFirst { .. } => FW_EINSIDE,
            Self::NotAllocated(_) => FW_ENOENT,
            Self::Mapped(_) => FW_EKIND,
            Self::Ranges(error) => error.code(),
        }
    }
}

impl Coded for RunError {
    fn code(&self) -> c_int {
        match self {
            Self::Malformed => FW_EINVAL,
            Self::Outside | Self::Absent(_) => FW_EFOREIGN,
            Self::NoRoom | Self::TooMany(_) => FW_ENOSPC,
            Self::Taken(_) => FW_EBUSY,
            Self::Unknown => FW_ENOENT,
            Self::WouldWait | Self::Held | Self::Apart(_) | Self::Busy(_) => FW_EAGAIN,
            Self::NotOwned(_) => FW_EALREADY,
            Self::NoMemory(_) => FW_ENOMEM,
            // Answers about a zone's memory, for which the library does not ask.
            Self::NotWholePageblocks
            | Self::Present(_)
            | Self::NotFree(_)
            | Self::Isolation(_)
            | Self::Pins(_)
            | Self::OtherFrames
            | Self::Pinned(_)
            | Self::Unmovable(_) => FW_EINVAL,
        }
    }
}

impl Coded for Broken {
    fn code(&self) -> c_int {
        FW_EBROKEN
    }
}

impl Coded for SetupError {
    fn code(&self) -> c_int {
        FW_EINVAL
    }
}

impl Coded for EngineError {
    fn code(&self) -> c_int {
        match self {
            Self::Metadata(_) => FW_ENOMEM,
            Self::Zones
            | Self::Zone { .. }
            | Self::Ranges(_)
            | Self::Objects(_)
            | Self::Reserve(_) => FW_EINVAL,
        }
    }
}

impl Coded for PutRefused {
    fn code(&self) -> c_int {
        match self {
            Self::NoPool => FW_ENOENT,
            Self::Full | Self::IndexFull | Self::DirtyFull => FW_ENOSPC,
            Self::Overtaken => FW_EAGAIN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_one_text_and_no_two_share_a_number() {
        for (nth, (code, of)) in TEXTS.iter().enumerate() {
            assert_eq!(text(*code), *of);
            assert!(
                TEXTS[..nth].iter().all(|(other, _)| other != code),
                "{code}"
            );
            assert!(*code <= 0);
        }
        assert_eq!(text(1), c"unknown code");
        assert_eq!(text(c_int::MIN), c"unknown code");
    }
}
