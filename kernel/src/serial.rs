//! The serial line, and the exit code.

use core::fmt::{self, Write};
use framewright_x86_64::instructions::{halt, read_port, write_port, write_port_u32};

struct Serial;

impl Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        const DATA: u16 = 0x3f8;
        const STATUS: u16 = DATA + 5;
        const IS_EMPTY: u8 = 1 << 5;
        for byte in text.bytes() {
            // SAFETY: the serial line has no part in memory.
            unsafe {
                while read_port(STATUS) & IS_EMPTY == 0 {}
                write_port(DATA, byte);
            }
        }
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
}

pub fn exit(why: Exit) -> ! {
    const EXIT_DEVICE: u16 = 0xf4;
    // SAFETY: the machine is over.
    unsafe { write_port_u32(EXIT_DEVICE, why as u32) };
    halt()
}
