//! Addresses in virtual memory.

use super::Page;
use core::fmt;

/// An address in the kernel's virtual memory: the number of a byte.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Addr(pub u64);

impl Addr {
    /// The page that holds the byte.
    #[inline]
    #[must_use]
    pub const fn page(self) -> Page {
        Page::of_address(self.0)
    }

    /// How far into its page the byte lies.
    #[inline]
    #[must_use]
    pub const fn in_page(self) -> u64 {
        self.0 % Page::BYTES
    }
}

impl fmt::Debug for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Addr({:#x})", self.0)
    }
}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_page_and_a_place_in_it() {
        let addr = Addr(0x12_345);
        assert_eq!((addr.page(), addr.in_page()), (Page(0x12), 0x345));
        assert_eq!(std::format!("{addr} {addr:?}"), "0x12345 Addr(0x12345)");
    }

    extern crate std;
}
