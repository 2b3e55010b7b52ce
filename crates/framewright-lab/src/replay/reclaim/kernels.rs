//! The kernels that reclaim, by the name of their policy.

use crate::before::buddy::LinuxPolicy;
use crate::before::kernel310::{Kernel310, Layout310, Variant310};
use crate::measure::BLOCK_ORDER;
use crate::pressure::{EngineConfig, Impose, with_engine};
use crate::replay::{ReplayPolicy, TraceMemory};

/// Whether there is a kernel that reclaims under this policy: [`with_kernel`].
#[must_use]
pub const fn reclaims(policy: ReplayPolicy) -> bool {
    matches!(policy, ReplayPolicy::Engine(_)) || variant(policy).is_some()
}

/// The document's kernel with this policy's fallback.
const fn variant(policy: ReplayPolicy) -> Option<Variant310> {
    match policy {
        ReplayPolicy::Linux(LinuxPolicy::Linux44) => Some(Variant310::Before),
        ReplayPolicy::Linux(LinuxPolicy::Proposal) => Some(Variant310::Proposed),
        _ => None,
    }
}

/// Runs `work` on a kernel that reclaims and compacts, with the whole of `memory` free.
///
/// `linux-4.4` and `proposal` have the rules of 3.10.49, the document's kernel, around their fallback,
/// which is the same from 3.10 to 4.11; the engine's policies have the engine's. Pageblocks are those
/// of the traces, 512 frames.
///
/// # Errors
/// If there is none for this policy, or it cannot manage such a memory; what it says of that.
pub fn with_kernel<R>(
    policy: ReplayPolicy,
    memory: &TraceMemory<'_>,
    work: impl FnOnce(&mut dyn Impose) -> R,
) -> Result<R, String> {
    let layout = Layout310 {
        absent: &memory.trace.absent,
        cpus: memory.cpus,
        pageblock_order: BLOCK_ORDER,
        ..Layout310::new(memory.trace.nframes)
    };
    if let ReplayPolicy::Engine(fallback) = policy {
        return with_engine(&layout, &EngineConfig::with_fallback(fallback), |kernel| {
            work(kernel)
        });
    }
    let Some(variant) = variant(policy) else {
        return Err("there is no kernel that reclaims under this policy".into());
    };
    let mut kernel = Kernel310::new(&layout, variant).map_err(|e| e.to_string())?;
    Ok(work(&mut kernel))
}
