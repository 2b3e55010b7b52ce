// UNSAFETY: C hands in addresses, and only C's programmer knows what lies there. Each function here says what it relies
// on, and the exported function's description asks its caller for that.

//! Reads and writes of the caller's memory.

#![allow(unsafe_code)]

use crate::arguments::WrongArgument;
use core::ffi::{CStr, c_char, c_void};
use core::slice;
use framewright::Frame;

/// A structure that begins with its own length in bytes, as the caller's header has it.
///
/// # Safety
/// It is `repr(C)`, begins with a `u32` for the length, has no padding, and all bytes are valid for each field.
pub unsafe trait Sized32: Copy + Default {
    /// The length of its first version: no caller has a shorter one.
    const FIRST: usize;
}

/// Refuses a null pointer, and one that is not aligned for its type.
///
/// # Errors
/// If it is null, or not aligned.
pub fn check<T>(at: *const T, what: &'static str) -> Result<(), WrongArgument> {
    if at.is_null() || !at.is_aligned() {
        let address = at.addr();
        return Err(WrongArgument::Pointer { what, address });
    }
    Ok(())
}

/// Writes a result.
///
/// # Errors
/// As [`check`].
///
/// # Safety
/// Unless it is null or not aligned, the caller of the library may write a `T` there.
pub unsafe fn put<T>(to: *mut T, value: T, what: &'static str) -> Result<(), WrongArgument> {
    check(to, what)?;
    // SAFETY: aligned, not null, and the rest is promised.
    unsafe { to.write(value) };
    Ok(())
}

/// Reads a structure as far as the caller has it. What the caller's header does not have yet is as by default; what this
/// library does not know yet must be zero.
///
/// # Errors
/// As [`len_of`]; if a field that this library does not know is not zero.
///
/// # Safety
/// Unless it is null or not aligned, the first four bytes there say how many may be read.
pub unsafe fn read_sized<T: Sized32>(
    from: *const T,
    what: &'static str,
) -> Result<T, WrongArgument> {
    check(from, what)?;
    // SAFETY: promised, and a `T` begins so.
    let len = unsafe { from.cast::<u32>().read() } as usize;
    check_len::<T>(len, what)?;
    // SAFETY: promised: this many bytes may be read. They do not change while this reads them, as the descriptions ask.
    let bytes = unsafe { slice::from_raw_parts(from.cast::<u8>(), len) };
    let (known, unknown) = bytes.split_at(len.min(size_of::<T>()));
    if unknown.iter().any(|byte| *byte != 0) {
        let (bytes, known) = (len, size_of::<T>());
        return Err(WrongArgument::Unknown { what, bytes, known });
    }
    let mut value = T::default();
    let to = (&raw mut value).cast::<u8>();
    // SAFETY: not more than a `T` has, in which all bytes are valid; the two do not overlap.
    unsafe { to.copy_from_nonoverlapping(known.as_ptr(), known.len()) };
    Ok(value)
}

/// How many bytes the caller has for a structure: its first field.
///
/// # Errors
/// As [`check`]; if no version has that length.
///
/// # Safety
/// Unless it is null or not aligned, four bytes may be read there.
pub unsafe fn len_of<T: Sized32>(at: *const T, what: &'static str) -> Result<usize, WrongArgument> {
    check(at, what)?;
    // SAFETY: promised, and a `T` begins so.
    let len = unsafe { at.cast::<u32>().read() } as usize;
    check_len::<T>(len, what)?;
    Ok(len)
}

fn check_len<T: Sized32>(len: usize, what: &'static str) -> Result<(), WrongArgument> {
    // A page is more than any version will have: the length was never set.
    if !(T::FIRST..=4096).contains(&len) {
        let (bytes, least) = (len, T::FIRST);
        return Err(WrongArgument::Length { what, bytes, least });
    }
    Ok(())
}

/// Writes a structure as far as the caller has room, and zeroes what this library does not know. The first field stays, or
/// becomes, `len`.
///
/// # Errors
/// As [`check`]; if no version has that length.
///
/// # Safety
/// Unless it is null or not aligned, `len` bytes may be written there.
pub unsafe fn write_sized<T: Sized32>(
    to: *mut T,
    value: &T,
    len: usize,
    what: &'static str,
) -> Result<(), WrongArgument> {
    check(to, what)?;
    check_len::<T>(len, what)?;
    let known = len.min(size_of::<T>());
    let bytes = to.cast::<u8>();
    // SAFETY: promised; the value is the library's own, so the two do not overlap. The length fits: see `check_len`.
    unsafe {
        bytes.copy_from_nonoverlapping((&raw const *value).cast(), known);
        bytes.add(known).write_bytes(0, len - known);
        to.cast::<u32>().write(len as u32);
    }
    Ok(())
}

/// The caller's frame numbers.
///
/// # Errors
/// As [`check`]; if memory cannot hold that many.
///
/// # Safety
/// Unless it is null or not aligned, `count` numbers may be read there, and do not change during the call.
pub unsafe fn frames<'a>(at: *const u64, count: usize) -> Result<&'a [Frame], WrongArgument> {
    check(at, "frames")?;
    if count > isize::MAX as usize / size_of::<Frame>() {
        return Err(WrongArgument::Count(count));
    }
    // SAFETY: promised; a `Frame` is its number alone (`repr(transparent)`), and all of them are not longer than memory.
    Ok(unsafe { slice::from_raw_parts(at.cast::<Frame>(), count) })
}

/// A page that the caller has for reading.
///
/// # Errors
/// If it is null, or not aligned to 8 bytes.
///
/// # Safety
/// Unless it is null or not aligned, a page may be read there, and does not change during the call.
pub unsafe fn page<'a>(at: *const c_void) -> Result<&'a [u64; 512], WrongArgument> {
    let at = at.cast::<[u64; 512]>();
    check(at, "page")?;
    // SAFETY: promised, and aligned.
    Ok(unsafe { &*at })
}

/// A page that the caller has for a result.
///
/// # Errors
/// As [`page`].
///
/// # Safety
/// Unless it is null or not aligned, a page may be written there, and the library alone uses it during the call.
pub unsafe fn page_mut<'a>(at: *mut c_void) -> Result<&'a mut [u64; 512], WrongArgument> {
    let at = at.cast::<[u64; 512]>();
    check(at, "page")?;
    // SAFETY: promised, and aligned. C's memory holds numbers of some value.
    Ok(unsafe { &mut *at })
}

/// A name: its bytes up to the zero byte.
///
/// # Errors
/// As [`check`]; if it is not UTF-8.
///
/// # Safety
/// Unless it is null, a zero byte ends what lies there, and it does not change during the call.
pub unsafe fn name<'a>(at: *const c_char) -> Result<&'a str, WrongArgument> {
    check(at, "name")?;
    // SAFETY: promised.
    let name = unsafe { CStr::from_ptr(at) };
    name.to_str().map_err(|error| WrongArgument::Text {
        what: "name",
        at: error.valid_up_to(),
    })
}

/// Room for bytes; none where the pointer is null.
///
/// # Safety
/// Unless it is null, this many bytes may be written there, and the library alone uses them during the call.
pub unsafe fn room<'a>(at: *mut c_char, len: usize) -> &'a mut [u8] {
    if at.is_null() {
        return &mut [];
    }
    // SAFETY: written first, so that they are initialised: promised.
    unsafe { at.write_bytes(0, len) };
    // SAFETY: promised.
    unsafe { slice::from_raw_parts_mut(at.cast::<u8>(), len) }
}
