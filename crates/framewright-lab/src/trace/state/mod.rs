//! What a kernel says of its memory besides the events: snapshots of `/proc`.
//!
//! One file a format; each reader takes text or bytes, and its errors name the line.

mod buddyinfo;
mod kpageflags;
mod lead;
mod meminfo;
mod page_owner;
mod pagetypeinfo;
mod settings;
mod vmstat;
mod words;
mod zoneinfo;

pub use buddyinfo::{ZoneFree, read_buddyinfo};
pub(super) use kpageflags::SnapshotParts;
pub use kpageflags::{ReadFrameState, Snapshot};
pub use lead::{lead_line, lead_of};
pub use meminfo::{page_kib, read_mem_total};
pub use page_owner::{OwnedFrames, OwnerStack, PageOwners, read_page_owner};
pub(super) use pagetypeinfo::PAGEBLOCK_ORDER_MAX;
pub use pagetypeinfo::{PageTypeInfo, ZoneType, read_pagetypeinfo};
pub use settings::{
    BOOT_WORDS, HUGE_PAGE_SETTINGS, MachineSettings, VM_SETTINGS, boot_words, chosen_word,
    kernel_version, min_free_kib_max, read_settings,
};
pub use vmstat::read_vmstat;
pub use zoneinfo::{ZoneInfo, ZoneInfoCpu, read_zoneinfo};
