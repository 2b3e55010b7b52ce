//! The pages that guests have put, with a count of those that are on no device: the model is asked for that after every
//! operation, so it does not count them anew.

use super::POOLS;
use std::collections::BTreeMap;

/// The pool's number, the object and the index.
pub(super) type PagePlace = (usize, u64, u64);

/// The page put last under a key.
#[derive(Clone, Copy)]
pub(super) struct PutPage {
    pub(super) stamp: u64,
    /// It is on no device yet.
    pub(super) is_dirty: bool,
}

/// All of them, by place.
#[derive(Default)]
pub(super) struct PutPages {
    pages: BTreeMap<PagePlace, PutPage>,
    /// How many of each pool are dirty.
    dirty: [u64; POOLS.len()],
}

impl PutPages {
    pub(super) fn get(&self, at: &PagePlace) -> Option<&PutPage> {
        self.pages.get(at)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&PagePlace, &PutPage)> {
        self.pages.iter()
    }

    pub(super) fn insert(&mut self, at: PagePlace, page: PutPage) {
        self.remove(&at);
        self.dirty[at.0] += u64::from(page.is_dirty);
        self.pages.insert(at, page);
    }

    pub(super) fn remove(&mut self, at: &PagePlace) -> Option<PutPage> {
        let page = self.pages.remove(at)?;
        self.dirty[at.0] -= u64::from(page.is_dirty);
        Some(page)
    }

    /// The page is on a device now.
    pub(super) fn clean(&mut self, at: PagePlace) {
        let page = self.pages.get_mut(&at).expect("a page that is there");
        self.dirty[at.0] -= u64::from(page.is_dirty);
        page.is_dirty = false;
    }

    pub(super) fn has_object(&self, pool: usize, object: u64) -> bool {
        let mut pages = self
            .pages
            .range((pool, object, 0)..=(pool, object, u64::MAX));
        pages.next().is_some()
    }

    pub(super) fn remove_object(&mut self, pool: usize, object: u64) {
        let pages = self
            .pages
            .range((pool, object, 0)..=(pool, object, u64::MAX));
        let places: Vec<PagePlace> = pages.map(|(at, _)| *at).collect();
        for at in places {
            self.remove(&at);
        }
    }

    pub(super) fn remove_pool(&mut self, pool: usize) {
        self.pages.retain(|at, _| at.0 != pool);
        self.dirty[pool] = 0;
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn dirty_of(&self, pool: usize) -> u64 {
        self.dirty[pool]
    }

    pub(super) fn dirty(&self) -> u64 {
        self.dirty.iter().sum()
    }

    /// The same, counted.
    pub(super) fn recounted(&self) -> u64 {
        self.pages.values().filter(|page| page.is_dirty).count() as u64
    }
}
