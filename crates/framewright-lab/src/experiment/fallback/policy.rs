//! The kernels that the phone lives on. The fallback rule is a part of each.

use super::super::{BEFORE, FRAMEWRIGHT, PROPOSED};
use super::Params;
use crate::before::kernel310::{Kernel310, Layout310, Variant310};
use crate::pressure::{EngineConfig, Kernel, with_engine};

/// A kernel that the phone lives on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum PhoneKernel {
    /// Linux 3.10.49: a fallback takes the largest block
    Before,
    /// With the document's patch: the smallest, if the largest is of order 3 or less
    Proposed,
    /// This engine, with its own reclaim and compaction
    Framewright,
}

impl PhoneKernel {
    /// All of them, in the order of the columns.
    pub const ALL: [Self; 3] = [Self::Before, Self::Proposed, Self::Framewright];

    /// The name on the command line and in figures.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Before => BEFORE,
            Self::Proposed => PROPOSED,
            Self::Framewright => FRAMEWRIGHT,
        }
    }

    /// Runs `work` on the kernel, with all of the phone's memory free.
    ///
    /// # Errors
    /// If the kernel cannot manage such a memory; what it says of that.
    pub fn with<R>(
        self,
        params: &Params,
        work: impl FnOnce(&mut dyn Kernel) -> R,
    ) -> Result<R, String> {
        let machine = &params.machine;
        let layout = Layout310 {
            absent: &machine.absent(),
            cma: &machine.cma_run().into_iter().collect::<Vec<_>>(),
            cma_first: machine.cma_first,
            cpus: machine.cpus,
            pageblock_order: machine.pageblock_order,
            min_free_kbytes: Some(machine.min_free_kib),
            extra_free_kbytes: machine.extra_free_kib,
            min_free_order_shift: machine.min_free_order_shift,
            // A tenth of a second.
            short_sleep: params.time.background_frames_per_ms * 100,
            ..Layout310::new(machine.frames())
        };
        let variant = match self {
            Self::Before => Variant310::Before,
            Self::Proposed => Variant310::Proposed,
            Self::Framewright => {
                let config = EngineConfig::default();
                return with_engine(&layout, &config, |kernel| work(kernel));
            }
        };
        let kernel = Kernel310::new(&layout, variant);
        let mut kernel = kernel.map_err(|why| why.to_string())?;
        Ok(work(&mut kernel))
    }
}
