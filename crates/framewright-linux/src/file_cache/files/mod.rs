//! Files as the cache knows them: their numbers and lengths, the medium behind each, and how much to read for the
//! reader of one. Nothing here knows a frame or a slot.

mod ahead;
mod known;
mod medium;

pub use known::OpenFile;
pub(super) use known::{CacheFiles, Inode, Io};
pub use medium::{DirectFile, Medium, Stamp};
pub(super) use medium::{TRANSFER_PAGES, errno, is_writable, read_fully, with_buffer, write_fully};
