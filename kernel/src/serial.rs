//! The serial line, and the exit code.

use crate::arch::{stop_machine, write_byte};
use core::fmt::{self, Write};

struct Serial;

impl Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(write_byte);
        Ok(())
    }
}

pub fn print(text: fmt::Arguments<'_>) {
    // Writing cannot fail.
    let _ = Serial.write_fmt(text);
    let _ = Serial.write_str("\n");
}

#[macro_export]
macro_rules! say {
    ($($text:tt)*) => { $crate::serial::print(format_args!($($text)*)) };
}

/// Why the machine stops. QEMU ends with twice the number plus one.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Exit {
    Passed = 0x10,
    Panicked = 0x11,
    Faulted = 0x12,
    WrongBytes = 0x13,
    /// A CPU waits for ever.
    Hung = 0x14,
}

pub fn exit(why: Exit) -> ! {
    stop_machine(why as u32)
}
