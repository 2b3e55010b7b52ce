//! Lengths and addresses in bytes, pages and blocks.

use crate::units::{Addr, Order, Page};

/// The smallest block that holds this many bytes, aligned so; `None` if there is no such order.
#[inline(always)]
pub(super) fn order_of(bytes: u64, align_bytes: u64) -> Option<Order> {
    let more_frames = (bytes.max(align_bytes).max(1) - 1) / Page::BYTES;
    Order::new((u64::BITS - more_frames.leading_zeros()) as u8)
}

/// The length of a block of that order.
pub(super) const fn bytes_of(order: Order) -> u64 {
    order.frames() * Page::BYTES
}

/// The address of a page's first byte.
pub(super) const fn addr_of(page: Page) -> Addr {
    Addr(page.0.wrapping_mul(Page::BYTES))
}
