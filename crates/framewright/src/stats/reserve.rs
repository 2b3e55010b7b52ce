/// What a reserve has counted, under the names of the proposal's debugfs where it has one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReserveStats {
    /// Pages that guests stored.
    pub stored_pages: u64,
    /// Pages that guests got.
    pub loaded_pages: u64,
    /// Gets that found nothing.
    pub load_failed_pages: u64,
    /// Pages dropped for other pages' sake.
    pub evicted_pages: u64,
    /// Pages dropped because an owner took their frame.
    pub reclaimed_pages: u64,
    /// Calls that invalidated a page.
    pub invalidated_pages: u64,
    /// Calls that invalidated an object.
    pub invalidated_objects: u64,
    /// Pools closed.
    pub invalidated_pools: u64,
    /// Puts refused, by reason: in the order of `reserve::Refused`.
    pub refused: [u64; 5],
    /// Pages held now.
    pub held_pages: u64,
    /// Runs that owners took.
    pub takes: u64,
    /// Runs that owners asked for in vain.
    pub takes_failed: u64,
    /// Frames in them that nobody had.
    pub taken_free: u64,
    /// Frames that owners gave back.
    pub released_frames: u64,
}
