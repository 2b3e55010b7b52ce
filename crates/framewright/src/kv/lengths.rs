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
