//! Lengths and addresses in bytes, pages and blocks.

use crate::units::{Addr, Order, Page};

/// The smallest block that holds this many bytes, aligned so; `None` if there is no such order.
#[inline(always)]
pub(super) fn order_of(bytes: u64, align_bytes: u64) -> Option<Order> {
    // Twice the further frames, or one more. With a last bit it is never 0, and a processor has an instruction for that.
    let doubled = (bytes.max(align_bytes).max(1) - 1) / (Page::BYTES / 2);
    Order::new((doubled | 1).ilog2() as u8)
}

/// The length of a block of that order.
pub(super) const fn bytes_of(order: Order) -> u64 {
    order.frames() * Page::BYTES
}

/// The address of a page's first byte.
pub(super) const fn addr_of(page: Page) -> Addr {
    Addr(page.0.wrapping_mul(Page::BYTES))
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn an_order_covers_its_length_and_no_smaller_one_does() {
        for bytes in [0, 1, 2048, 2049, 4095, 4096] {
            assert_eq!(order_of(bytes, 1), Order::new(0), "{bytes}");
            assert_eq!(order_of(1, bytes), Order::new(0), "{bytes}");
        }
        for order in 0..20 {
            let bytes = Page::BYTES << order;
            assert_eq!(order_of(bytes, 1), Order::new(order));
            assert_eq!(order_of(bytes + 1, 1), Order::new(order + 1));
            assert_eq!(order_of(1, bytes + 1), Order::new(order + 1));
        }
        assert_eq!(order_of(u64::MAX, 1), None);
    }
}
