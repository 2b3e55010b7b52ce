//! Checks of arguments: C hands in bytes and plain numbers.

use crate::codes::{Coded, FW_E2BIG, FW_EFBIG, FW_EINVAL};
use core::ffi::c_int;
use core::fmt;
use framewright::kv::KvRequest;
use framewright::vrange::AreaRequest;
use framewright::{Addr, Context, Frame, Mobility, Order, Page, Run};

/// Bytes in a page, and in a frame.
pub const FW_PAGE_BYTES: usize = 4096;

/// The contents stay where they are until their owner frees them.
pub const FW_UNMOVABLE: c_int = 0;
/// The contents can be copied elsewhere. It groups such frames together; nothing moves them by itself.
pub const FW_MOVABLE: c_int = 1;
/// The contents stay where they are, but the owner could give them up.
pub const FW_RECLAIMABLE: c_int = 2;

/// All bytes of what is allocated are zero.
pub const FW_ZERO: u32 = 1;
/// The caller must not wait: the call stops no CPU and no thread, unmaps and flushes nothing, and so does not get what
/// others have cached. It fails with `FW_EAGAIN` if waiting might have helped. For handlers, and under locks that spin.
pub const FW_NOWAIT: u32 = 2;
/// The call must start no input or output. Says so to those that it asks for memory.
pub const FW_NOIO: u32 = 4;
/// The call must enter no file system. Says so to those that it asks for memory.
pub const FW_NOFS: u32 = 8;
/// Of an area: a page before it, too, is never mapped. For a stack, which grows down.
pub const FW_GUARD_BEFORE: u32 = 16;
/// Of an area of 2 MiB or more: it begins at a multiple of 2 MiB where a gap allows that at once, so that large entries of
/// page tables are possible. In a crowded window that costs address space. A shorter area is as without it.
pub const FW_HUGE: u32 = 32;

const KNOWN_FLAGS: u32 = FW_ZERO | FW_NOWAIT | FW_NOIO | FW_NOFS | FW_GUARD_BEFORE | FW_HUGE;

/// An argument is wrong, whatever the state of the library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WrongArgument {
    /// The pointer is null, or not aligned.
    Pointer {
        /// What it points to.
        what: &'static str,
        /// Its address.
        address: usize,
    },
    /// The first field of a structure holds no length that a version has.
    Length {
        /// The structure.
        what: &'static str,
        /// What it holds.
        bytes: usize,
        /// The length of the first version.
        least: usize,
    },
    /// A structure has fields that are not zero and that the library does not know.
    Unknown {
        /// The structure.
        what: &'static str,
        /// The caller's length.
        bytes: usize,
        /// The library's.
        known: usize,
    },
    /// A text is not UTF-8.
    Text {
        /// What it is.
        what: &'static str,
        /// Where it goes wrong.
        at: usize,
    },
    /// No bytes were asked for.
    NoBytes,
    /// No frames were asked for.
    NoFrames,
    /// More bytes than any memory has.
    Bytes(usize),
    /// More elements than memory can hold.
    Count(usize),
    /// The alignment is no power of two.
    Align(u64),
    /// No page begins at the address.
    InPage(Addr),
    /// This many bytes are no whole pages.
    Pages {
        /// What has them.
        what: &'static str,
        /// How many.
        bytes: u64,
    },
    /// The order is above the maximum.
    Order(u32),
    /// There is no such mobility.
    Mobility(c_int),
    /// There are no such flags.
    Flags(u32),
    /// The frames are no run.
    Run {
        /// The first.
        first: u64,
        /// How many.
        frames: u64,
    },
}

impl fmt::Display for WrongArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Pointer { what, address } => write!(f, "{what}: the pointer is {address:#x}"),
            Self::Length { what, bytes, least } => write!(
                f,
                "{what}: its first field says {bytes} bytes, expected at least {least}"
            ),
            Self::Unknown { what, bytes, known } => {
                write!(f, "{what}: {bytes} bytes, and this library knows {known}")
            }
            Self::Text { what, at } => write!(f, "{what}: not UTF-8 from byte {at} on"),
            Self::NoBytes => f.write_str("0 bytes were asked for"),
            Self::NoFrames => f.write_str("0 frames were asked for"),
            Self::Bytes(bytes) => write!(f, "{bytes} bytes are more than any memory has"),
            Self::Count(count) => write!(f, "{count} frames: more than memory can hold"),
            Self::Align(bytes) => write!(f, "alignment {bytes} is not a power of two"),
            Self::InPage(addr) => write!(f, "no page begins at {addr}"),
            Self::Pages { what, bytes } => write!(
                f,
                "{what}: {bytes} bytes are no whole pages of {FW_PAGE_BYTES}"
            ),
            Self::Order(order) => write!(f, "order {order} is above the maximum"),
            Self::Mobility(mobility) => write!(f, "there is no mobility {mobility}"),
            Self::Flags(flags) => write!(f, "flags {flags:#x}: not all of them are known here"),
            Self::Run { first, frames } => {
                write!(f, "{frames} frames from {first} on are no run")
            }
        }
    }
}

impl core::error::Error for WrongArgument {}

impl Coded for WrongArgument {
    fn code(&self) -> c_int {
        match self {
            Self::Unknown { .. } => FW_E2BIG,
            Self::Bytes(_) | Self::Order(_) => FW_EFBIG,
            _ => FW_EINVAL,
        }
    }
}

/// Bytes that some memory could have.
fn bytes_of(bytes: usize) -> Result<usize, WrongArgument> {
    match bytes {
        0 => Err(WrongArgument::NoBytes),
        _ if bytes > isize::MAX as usize => Err(WrongArgument::Bytes(bytes)),
        _ => Ok(bytes),
    }
}

/// Whole pages for this many bytes: at least one.
///
/// # Errors
/// For 0 bytes, and for more than any memory has.
pub fn pages_for(bytes: usize) -> Result<u64, WrongArgument> {
    Ok(bytes_of(bytes)?.div_ceil(FW_PAGE_BYTES) as u64)
}

/// How many whole pages this many bytes are.
///
/// # Errors
/// If they are not.
pub const fn whole_pages(bytes: u64, what: &'static str) -> Result<u64, WrongArgument> {
    match bytes.is_multiple_of(FW_PAGE_BYTES as u64) {
        true => Ok(bytes / FW_PAGE_BYTES as u64),
        false => Err(WrongArgument::Pages { what, bytes }),
    }
}

/// An alignment.
///
/// # Errors
/// If it is no power of two.
pub const fn align_of(align: u64) -> Result<u64, WrongArgument> {
    match align.is_power_of_two() {
        true => Ok(align),
        false => Err(WrongArgument::Align(align)),
    }
}

/// Bytes and alignment, in frames.
///
/// # Errors
/// As [`pages_for`] and [`align_of`].
pub fn shape_of(bytes: usize, align_bytes: usize) -> Result<(u64, u64), WrongArgument> {
    let align = align_of(align_bytes as u64)?;
    Ok((pages_for(bytes)?, (align / FW_PAGE_BYTES as u64).max(1)))
}

/// The page that begins at an address.
///
/// # Errors
/// If none does.
pub fn page_at(addr: Addr) -> Result<Page, WrongArgument> {
    match addr.in_page() {
        0 => Ok(addr.page()),
        _ => Err(WrongArgument::InPage(addr)),
    }
}

/// The order of a block.
///
/// # Errors
/// If it is above the maximum.
pub fn order_of(order: u32) -> Result<Order, WrongArgument> {
    let known = u8::try_from(order).ok().and_then(Order::new);
    known.ok_or(WrongArgument::Order(order))
}

/// The mobility of contents.
///
/// # Errors
/// If there is none with that number.
pub fn mobility_of(mobility: c_int) -> Result<Mobility, WrongArgument> {
    let index = usize::try_from(mobility).ok();
    let known = index.and_then(Mobility::from_index);
    known.ok_or(WrongArgument::Mobility(mobility))
}

/// A run that the caller names.
///
/// # Errors
/// If it is empty, or ends behind the last frame.
pub fn run_of(first: u64, frames: u64) -> Result<Run, WrongArgument> {
    let run = Run::new(Frame(first), frames).filter(|run| !run.is_empty());
    run.ok_or(WrongArgument::Run { first, frames })
}

/// A number of frames.
///
/// # Errors
/// If it is 0.
pub const fn count_of(frames: u64) -> Result<u64, WrongArgument> {
    match frames {
        0 => Err(WrongArgument::NoFrames),
        _ => Ok(frames),
    }
}

/// A request for this many bytes.
///
/// # Errors
/// As [`pages_for`].
pub fn request_of(bytes: usize) -> Result<KvRequest, WrongArgument> {
    Ok(KvRequest::new(bytes_of(bytes)? as u64))
}

/// What flags ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlagsMeaning {
    /// What the caller may do while it waits.
    pub context: Context,
    /// Whether the contents must be zero.
    pub zero: bool,
    /// Whether an area has a guard page before it.
    pub guard_before: bool,
    /// Whether large entries of page tables should be possible.
    pub huge: bool,
}

/// What the flags ask for.
///
/// # Errors
/// If one of them is unknown.
pub const fn flags_of(flags: u32) -> Result<FlagsMeaning, WrongArgument> {
    if flags & !KNOWN_FLAGS != 0 {
        return Err(WrongArgument::Flags(flags));
    }
    let mut context = Context::ANY;
    if flags & FW_NOFS != 0 {
        context = context.and(Context::NOFS);
    }
    if flags & FW_NOIO != 0 {
        context = context.and(Context::NOIO);
    }
    if flags & FW_NOWAIT != 0 {
        context = Context::NOWAIT;
    }
    Ok(FlagsMeaning {
        context,
        zero: flags & FW_ZERO != 0,
        guard_before: flags & FW_GUARD_BEFORE != 0,
        huge: flags & FW_HUGE != 0,
    })
}

/// The same where the context is all that can be chosen.
///
/// # Errors
/// If one of them is unknown, or asks for anything else.
pub const fn context_of(flags: u32) -> Result<Context, WrongArgument> {
    match flags_of(flags) {
        Ok(FlagsMeaning {
            context,
            zero: false,
            guard_before: false,
            huge: false,
        }) => Ok(context),
        _ => Err(WrongArgument::Flags(flags)),
    }
}

/// A request for an area of that shape.
///
/// # Errors
/// As [`pages_for`], [`align_of`] and [`flags_of`].
pub fn area_of(bytes: usize, align_bytes: usize, flags: u32) -> Result<AreaRequest, WrongArgument> {
    let how = flags_of(flags)?;
    let align_bytes = align_of(align_bytes as u64)?;
    Ok(AreaRequest {
        align_bytes,
        zero: how.zero,
        context: how.context,
        guard_before: how.guard_before,
        huge: how.huge,
        ..AreaRequest::new(pages_for(bytes)?)
    })
}

/// A request for an object of that shape.
///
/// # Errors
/// As [`request_of`], [`align_of`] and [`flags_of`], and for flags that only an area can have.
pub fn object_of(bytes: usize, align_bytes: usize, flags: u32) -> Result<KvRequest, WrongArgument> {
    let how = flags_of(flags)?;
    if how.guard_before || how.huge {
        return Err(WrongArgument::Flags(flags));
    }
    let align = align_of(align_bytes as u64)?;
    let request = request_of(bytes)?.aligned_to(align);
    Ok(KvRequest {
        zero: how.zero,
        ..request.within(how.context)
    })
}

/// The flags that say what a context says.
#[must_use]
pub const fn flags_from(context: Context) -> u32 {
    let mut flags = 0;
    if !context.may_block {
        flags |= FW_NOWAIT;
    }
    if !context.may_io {
        flags |= FW_NOIO;
    }
    if !context.may_fs {
        flags |= FW_NOFS;
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_pages_and_numbers_that_no_memory_has_are_refused() {
        assert_eq!(pages_for(0), Err(WrongArgument::NoBytes));
        for (bytes, pages) in [(1, 1), (4096, 1), (4097, 2), (isize::MAX as usize, 1 << 51)] {
            assert_eq!(pages_for(bytes), Ok(pages));
        }
        for bytes in [isize::MAX as usize + 1, usize::MAX] {
            assert_eq!(pages_for(bytes), Err(WrongArgument::Bytes(bytes)));
            assert_eq!(request_of(bytes), Err(WrongArgument::Bytes(bytes)));
        }
        assert_eq!(shape_of(1, 1), Ok((1, 1)));
        assert_eq!(shape_of(8193, 1 << 14), Ok((3, 4)));
        for align in [0, 3, 4097, usize::MAX] {
            assert_eq!(shape_of(1, align), Err(WrongArgument::Align(align as u64)));
        }
        assert_eq!(page_at(Addr(8192)), Ok(Page(2)));
        assert_eq!(page_at(Addr(8193)), Err(WrongArgument::InPage(Addr(8193))));
        assert_eq!(run_of(5, 0).unwrap_err().code(), FW_EINVAL);
        assert_eq!(run_of(u64::MAX, 2).unwrap_err().code(), FW_EINVAL);
        assert_eq!(order_of(300).unwrap_err().code(), FW_EFBIG);
        assert_eq!(mobility_of(-1), Err(WrongArgument::Mobility(-1)));
    }

    #[test]
    fn flags_are_contexts_and_come_back() {
        let known = [
            (0, Context::ANY),
            (FW_NOFS, Context::NOFS),
            (FW_NOIO | FW_NOFS, Context::NOIO),
            (FW_NOWAIT | FW_NOIO | FW_NOFS, Context::NOWAIT),
        ];
        for (flags, context) in known {
            assert_eq!(context_of(flags), Ok(context));
            assert_eq!(flags_from(context), flags);
        }
        assert_eq!(context_of(FW_NOIO), Ok(Context::NOIO));
        assert_eq!(context_of(FW_NOWAIT), Ok(Context::NOWAIT));
        assert!(flags_of(FW_ZERO | FW_NOWAIT).unwrap().zero);
        assert_eq!(context_of(FW_ZERO), Err(WrongArgument::Flags(FW_ZERO)));
        assert_eq!(flags_of(64), Err(WrongArgument::Flags(64)));
    }

    #[test]
    fn only_an_area_has_guards_before_it_and_large_entries() {
        let plain = AreaRequest::new(3).aligned_to(1 << 16);
        let all = FW_GUARD_BEFORE | FW_HUGE | FW_ZERO | FW_NOWAIT;
        let known = [
            (0, plain),
            (FW_GUARD_BEFORE, plain.guarded()),
            (FW_HUGE, plain.for_huge_pages()),
            (
                all,
                plain
                    .guarded()
                    .for_huge_pages()
                    .zeroed()
                    .within(Context::NOWAIT),
            ),
        ];
        for (flags, request) in known {
            assert_eq!(area_of(3 * FW_PAGE_BYTES, 1 << 16, flags), Ok(request));
        }
        for flags in [FW_GUARD_BEFORE, FW_HUGE, FW_HUGE | FW_ZERO] {
            assert_eq!(context_of(flags), Err(WrongArgument::Flags(flags)));
            assert_eq!(object_of(1, 1, flags), Err(WrongArgument::Flags(flags)));
        }
        assert_eq!(area_of(1, 1, 64), Err(WrongArgument::Flags(64)));
        assert_eq!(area_of(0, 1, 0), Err(WrongArgument::NoBytes));
        assert_eq!(area_of(1, 3, 0), Err(WrongArgument::Align(3)));
    }
}
