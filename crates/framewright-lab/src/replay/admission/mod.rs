//! Admission: whether Linux would have served a request at all, before any policy says from where.
//!
//! A kernel does not hand out its last frames. Each zone keeps some back, the more of them the less urgent a request
//! is, and a request that may not use a zone tries the next one; a request that none will serve reclaims, if it may,
//! and fails otherwise. A replay without this serves nearly everything, so that it cannot tell policies apart by what
//! they fail to serve.
//!
//! ```text
//!   request ──▶ low ──▶ min, less what its flags let it use ──▶ may it wait?
//!                │       │                                      ├─ no:  refused, at once
//!                │       │                                      └─ yes: per-CPU lists emptied, min again,
//!                ▼       ▼                                              then as recorded (below)
//!         each zone in turn: marks + protection + boost < free frames, and a free block
//! ```
//!
//! # Rules (Linux 6.12 and 6.18)
//! - A zone serves a request if the frames on its free lists, less 2^order - 1, are more than the mark and what the zone
//!   protects from requests that a zone further on could serve. Frames in per-CPU lists do not
//!   count. Above order 0 there must be a free block of the order or above.
//! - First each zone is asked at its *low* mark. Where the kernel avoids fragments, that pass is made twice: first without
//!   taking pieces of other mobilities' pageblocks, so that the zone below is used before this one is mixed.
//!   Linux's bulk allocator, whose requests for single frames have no event, makes only the other pass.
//! - With `vm.defrag_mode` (6.15 and later) there is no pass with pieces before a request has waited. One that may
//!   not wait fails rather than mix a pageblock; what the others wait for, reclaim and compaction of whole pageblocks, a
//!   replay only counts.
//! - Then the background is woken and each zone is asked at its *min* mark ([`RequestRights`]): `__GFP_HIGH` halves it,
//!   a request that may not reclaim besides takes a quarter less of that, `__GFP_MEMALLOC` knows no mark.
//! - A boost comes on top of all marks; an urgent request for one frame does not see it at min.
//! - The background works in rounds, for all zones at once. Where no zone is above high, boost included, a round lasts until
//!   one is. Otherwise it was woken for the boosts and lasts until as many frames are freed as they had. In the end it takes
//!   away the boosts that it found when it began, not those that came since. While it works, per-CPU lists are kept short.
//! - Where a recording shows when the background began and ended (PFT3), a replay without squeeze takes its rounds from there,
//!   and wakes nothing itself ([`BackgroundRuns`]). Replays with nearly the same memory, which tell how far its figures can
//!   be trusted, do so too. Otherwise what the background frees is not told apart from what programs
//!   free: each frame freed counts as its work, so a round for boosts ends rather too early. That it gives up without
//!   progress is not seen at all then.
//! - Since Linux 6.7 an eighth of a zone may lie on the CPUs' lists. Under the rules of 6.12 they begin with as many frames
//!   as the machine had there: what the zone has free and did not list as free, divided as it was between the CPUs. Which
//!   frames these were, no recording says. They come out of the free blocks so that what is left is listed as the machine
//!   listed it, by label and order ([`ZoneLists`]), as far as that goes. Where no file has what was listed, and with a
//!   squeeze, CPUs' lists begin empty.
//!
//! # What a replay makes of it
//! The recording has what became of each request, and its frees are what reclaim and the programs gave back.
//! - *Served, and the model serves it*: at once.
//! - *Served, and the model has it wait*: the request may reclaim, and below min it would have. The machine did serve it, so
//!   what it waited for is among the recording's frees, some of them later. It is counted as **stalled**. All CPUs' lists are
//!   emptied and each zone is asked at min again, as in Linux where what reclaim freed is not enough; unless that was done a
//!   moment ago. Only then it is served without regard to marks, from the zone that is least below its own. It fails only where
//!   no zone has a block. Reclaim gives back 32 frames at least (`SWAP_CLUSTER_MAX`). So as many count as free there from then on for requests that may wait, until frees of the recording bring
//!   them. Without that each request waits that comes while a zone of the replay is some frames below the machine's.
//! - *Served, and the request is of an order above 3 that gives up at once* (`__GFP_NORETRY`): below its marks it is refused,
//!   unless some zone has so much above low that Linux would compact for it.
//! - *Served, and the model refuses it*: it may not wait. A **failure** of the model that the machine did not have.
//! - *Failed, and the model refuses it*: **met**. One that may wait is refused where no zone is above min with a block after
//!   all CPUs' lists are emptied. The machine reclaimed or compacted for it and had nothing from it.
//! - *Failed, and the model serves it, at once or with those lists emptied*: **missed**.
//!
//! # Whose memory is kept back
//! The same for every policy that is compared, the engine's among them: the reserve is the kernel's and not a policy's. For
//! each the same zones stand in the same order with the same marks, and frames in caches count as kept. A request that may
//! not wait empties no other CPU's lists, under no policy. Boosts and per-CPU marks that move belong to Linux's newer
//! rules and come with those.
//!
//! # What is not here
//! The reserve for atomic requests of higher orders (`MIGRATE_HIGHATOMIC`), contiguous areas, several nodes; the
//! privileges of a task, which no flag shows: it reclaims itself (`PF_MEMALLOC`), is being killed, has real-time
//! priority; limits of control groups and of dirty pages.
//!
//! # Sources
//! `Documentation/admin-guide/sysctl/vm.rst` (`min_free_kbytes`, `lowmem_reserve_ratio`, `watermark_boost_factor`,
//! `watermark_scale_factor`, `defrag_mode`), `Documentation/mm/physical_memory.rst`; behaviour of Linux 6.12 to 6.18.

mod background;
mod lists;
mod rights;
mod zoned;
mod zones;

pub use background::{BackgroundRuns, RecordedStep};
pub use lists::ZoneLists;
pub use rights::RequestRights;
pub(super) use rights::USUAL_FLAGS;
pub(super) use zoned::Zoned;
pub use zoned::{ZoneAllocator, ZonePass};
pub use zones::{MachineZone, MachineZones, MarksSource};
