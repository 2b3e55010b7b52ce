// UNSAFETY: a callback of the caller's is called.

//! What a panic calls: the callback of the memory that was made last.

use super::platform::FwkPlatform;
use core::fmt::{self, Display, Write};
use core::panic::PanicInfo;
use core::ptr;
use core::sync::atomic::{
    AtomicPtr,
    Ordering::{Acquire, Relaxed, Release},
};

/// The table that hears of a panic; null before a memory was made, and when that one has ended.
static HEARER: AtomicPtr<FwkPlatform> = AtomicPtr::new(ptr::null_mut());

/// From now on this table hears of a panic.
pub(super) fn hears(table: *const FwkPlatform) {
    HEARER.store(table.cast_mut(), Release);
}

/// This table hears no longer of one.
pub(super) fn hears_no_longer(table: *const FwkPlatform) {
    let _ = HEARER.compare_exchange(table.cast_mut(), ptr::null_mut(), Relaxed, Relaxed);
}

/// A line that ends with a zero byte, cut if it is longer.
struct PanicLine {
    bytes: [u8; 240],
    len: usize,
}

impl Write for PanicLine {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.len() - 1 - self.len;
        let cut = text.len().min(room);
        self.bytes[self.len..self.len + cut].copy_from_slice(&text.as_bytes()[..cut]);
        self.len += cut;
        Ok(())
    }
}

/// Tells the table that hears.
fn tell(message: &dyn Display) {
    let mut line = PanicLine {
        bytes: [0; 240],
        len: 0,
    };
    // The writer refuses nothing.
    let _ = write!(line, "{message}");
    let table = HEARER.load(Acquire);
    if table.is_null() {
        return;
    }
    // SAFETY: the table of a memory that has not ended, which is there as long.
    let table = unsafe { &*table };
    if let Some(panic) = table.panic {
        // SAFETY: a callback of the caller's, with its context; the line lives during the call.
        unsafe { panic(table.context, line.bytes.as_ptr().cast()) };
    }
}

/// Tells the kernel of a panic, and does not return: the panic handler of the static library.
pub fn panicked(info: &PanicInfo<'_>) -> ! {
    tell(info);
    loop {
        core::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use core::ffi::{CStr, c_char, c_void};
    use core::sync::atomic::AtomicUsize;

    unsafe extern "C" fn heard(context: *mut c_void, message: *const c_char) {
        let count: *const AtomicUsize = context.cast_const().cast();
        // SAFETY: a line that ends, and the test's own counter.
        unsafe {
            let len = CStr::from_ptr(message).count_bytes();
            (*count).fetch_add(len, Relaxed);
        }
    }

    #[test]
    fn the_table_that_came_last_hears_until_its_memory_ends() {
        let counts = [AtomicUsize::new(0), AtomicUsize::new(0)];
        let table = |nth: usize| FwkPlatform {
            context: (&raw const counts[nth]).cast_mut().cast(),
            panic: Some(heard),
            ..FwkPlatform::default()
        };
        let tables = [table(0), table(1)];
        let now = || counts.each_ref().map(|count| count.load(Relaxed));
        tell(&"no table is there to hear it");
        hears(&tables[0]);
        tell(&"four");
        assert_eq!(now(), [4, 0]);
        hears(&tables[1]);
        hears_no_longer(&tables[0]);
        // Cut to what there is room for, with a zero byte at the end.
        tell(&std::string::String::from_iter(['x'; 1000]));
        assert_eq!(now(), [4, 239]);
        hears_no_longer(&tables[1]);
        tell(&"more");
        assert_eq!(now(), [4, 239]);
    }
}
