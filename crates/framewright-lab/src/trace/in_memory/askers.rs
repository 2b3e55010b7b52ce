//! The askers: the names of a trace's small numbers, and the call chains of its requests.

/// Slices by their places, in one piece of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SliceTable<T> {
    values: Vec<T>,
    ends: Vec<usize>,
}

impl<T> Default for SliceTable<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            ends: Vec::new(),
        }
    }
}

impl<T: Copy> SliceTable<T> {
    fn push(&mut self, slice: &[T]) {
        self.values.extend_from_slice(slice);
        self.ends.push(self.values.len());
    }

    fn get(&self, at: usize) -> Option<&[T]> {
        let end = *self.ends.get(at)?;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.values.get(start..end)
    }
}

/// Names of any bytes by their places.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NameTable(SliceTable<u8>);

impl NameTable {
    /// The longest name, in bytes. The kernel keeps 16 of a task's, and a function's are rarely above 100.
    pub const NAME_BYTES_MAX: usize = 255;

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.ends.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.ends.is_empty()
    }

    /// Appends a name; what is longer than [`Self::NAME_BYTES_MAX`] is cut.
    pub fn push(&mut self, name: &[u8]) {
        self.0.push(&name[..name.len().min(Self::NAME_BYTES_MAX)]);
    }

    /// The name at that place.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<&[u8]> {
        self.0.get(at)
    }

    /// All of them in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).filter_map(|at| self.get(at))
    }
}

/// Call chains, as places of functions, the innermost first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallChains {
    /// The functions.
    pub functions: NameTable,
    chains: SliceTable<u32>,
}

impl CallChains {
    /// The most functions of a chain; `perf` records no more either.
    pub const DEPTH_MAX: usize = 127;

    /// How many chains there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.chains.ends.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.chains.ends.is_empty()
    }

    /// Appends a chain; what is deeper than [`Self::DEPTH_MAX`] is cut.
    pub fn push(&mut self, functions: &[u32]) {
        let depth = functions.len().min(Self::DEPTH_MAX);
        self.chains.push(&functions[..depth]);
    }

    /// The places of the functions of that chain.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<&[u32]> {
        self.chains.get(at)
    }

    /// The names of the functions of that chain, the innermost first.
    pub fn names(&self, at: usize) -> impl Iterator<Item = &[u8]> {
        let places = self.get(at).unwrap_or_default();
        places
            .iter()
            .filter_map(|&place| self.functions.get(place as usize))
    }
}

/// The askers, as far as a recording names them. Nothing in one of an earlier version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Askers {
    /// The names of the small numbers [`TraceOp::pid`](super::TraceOp::pid); an empty one is not known.
    pub comms: NameTable,
    /// Each call chain once.
    pub chains: CallChains,
    /// For each request in order, those that failed included, the place of its chain, or [`Self::NO_CHAIN`]. Empty
    /// where there are no chains.
    pub chain_of: Vec<u32>,
}

impl Askers {
    /// A request without a call chain.
    pub const NO_CHAIN: u32 = u32::MAX;

    /// Whether a command's name is known.
    #[must_use]
    pub fn has_names(&self) -> bool {
        self.comms.iter().any(|name| !name.is_empty())
    }

    /// Whether a call chain is known.
    #[must_use]
    pub fn has_chains(&self) -> bool {
        !self.chains.is_empty()
    }

    /// Whether anything is known.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.has_names() || self.has_chains()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_chains_stand_where_they_were_put() {
        let mut names = NameTable::default();
        for name in [&b"cc1"[..], b"", b"\xff\x1b", &[b'x'; 300]] {
            names.push(name);
        }
        assert_eq!((names.len(), names.is_empty()), (4, false));
        assert_eq!(names.get(0), Some(&b"cc1"[..]));
        assert_eq!(names.get(1), Some(&b""[..]));
        assert_eq!(names.get(2), Some(&b"\xff\x1b"[..]));
        assert_eq!(names.get(3).map(<[u8]>::len), Some(255));
        assert_eq!(names.get(4), None);
        let mut chains = CallChains {
            functions: names,
            ..CallChains::default()
        };
        chains.push(&[2, 0]);
        chains.push(&[]);
        chains.push(&[0; 200]);
        assert_eq!(chains.get(0), Some(&[2, 0][..]));
        assert_eq!(chains.get(1), Some(&[][..]));
        assert_eq!(chains.get(2).map(<[u32]>::len), Some(127));
        let names: Vec<&[u8]> = chains.names(0).collect();
        assert_eq!(names, [&b"\xff\x1b"[..], b"cc1"]);
        assert_eq!(chains.names(9).count(), 0);
    }
}
