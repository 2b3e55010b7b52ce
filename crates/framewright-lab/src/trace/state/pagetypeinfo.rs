//! The reader of `/proc/pagetypeinfo`: free blocks and pageblocks by zone and migratetype, which no trace by itself
//! knows.

use super::words::{ProcLine, shown};
use crate::trace::TraceError;
use framewright::Mobility;
use std::collections::HashMap;

/// The order of the largest pageblocks that a kernel may have.
pub(in crate::trace) const PAGEBLOCK_ORDER_MAX: u64 = 20;

/// Node, zone and migratetype.
type TypeKey<'a> = (u64, &'a str, &'a str);

/// The place of each among the types.
type TypePlaces<'a> = HashMap<TypeKey<'a>, usize>;

/// What one zone has of one migratetype.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneType {
    /// The node.
    pub node: u64,
    /// The zone's name.
    pub zone: String,
    /// The migratetype's name, as `Unmovable` or `HighAtomic`.
    pub migratetype: String,
    /// Free blocks of each order, from 0 up.
    pub free_blocks: Vec<u64>,
    /// Whether the kernel stopped counting some order: it does at 100,000 blocks, and prints `>`.
    pub is_cut: bool,
    /// Pageblocks with this label.
    pub pageblocks: u64,
}

/// The text of `/proc/pagetypeinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageTypeInfo {
    /// The order of a pageblock.
    pub pageblock_order: u64,
    /// Each zone's migratetypes, in the order of the text.
    pub types: Vec<ZoneType>,
}

/// The migratetype of contiguous areas.
const CONTIGUOUS: &str = "CMA";

impl ZoneType {
    /// The mobility that a replay takes it for; `None` where it is of none, as what is isolated. Of a contiguous area movable
    /// requests are served, and no others.
    #[must_use]
    pub fn mobility(&self) -> Option<Mobility> {
        match self.migratetype.as_str() {
            CONTIGUOUS => Some(Mobility::Movable),
            name => Mobility::ALL.into_iter().find(|label| label.name() == name),
        }
    }

    /// The frames in its free blocks, those above a replay's largest order among them.
    #[must_use]
    pub fn free_frames(&self) -> u64 {
        let of_order = |(order, &blocks): (u32, &u64)| {
            let frames = 1_u64.checked_shl(order).unwrap_or(u64::MAX);
            blocks.saturating_mul(frames)
        };
        let all = (0..).zip(&self.free_blocks).map(of_order);
        all.fold(0, u64::saturating_add)
    }
}

impl PageTypeInfo {
    /// Frames in pageblocks of contiguous areas, in all zones.
    #[must_use]
    pub fn contiguous_frames(&self) -> u64 {
        let areas = self.types.iter().filter(|of| of.migratetype == CONTIGUOUS);
        let pageblocks = areas.fold(0, |sum: u64, of| sum.saturating_add(of.pageblocks));
        pageblocks.saturating_mul(1 << self.pageblock_order)
    }

    /// Free frames of that mobility, in all zones.
    #[must_use]
    pub fn free_frames(&self, mobility: Mobility) -> u64 {
        self.of(mobility)
            .fold(0, |sum, of| sum.saturating_add(of.free_frames()))
    }

    /// Pageblocks with the label of that mobility, in all zones.
    #[must_use]
    pub fn pageblocks(&self, mobility: Mobility) -> u64 {
        self.of(mobility)
            .fold(0, |sum, of| sum.saturating_add(of.pageblocks))
    }

    /// Free blocks of that mobility and order, in all zones.
    #[must_use]
    pub fn free_blocks(&self, mobility: Mobility, order: usize) -> u64 {
        self.of(mobility)
            .filter_map(|of| of.free_blocks.get(order))
            .fold(0, |sum, &blocks| sum.saturating_add(blocks))
    }

    fn of(&self, mobility: Mobility) -> impl Iterator<Item = &ZoneType> {
        self.types
            .iter()
            .filter(move |of| of.mobility() == Some(mobility))
    }
}

/// Reads `/proc/pagetypeinfo`; `name` stands in errors.
///
/// # Errors
/// `NAME:LINE`, with what is wrong and what was expected.
pub fn read_pagetypeinfo(name: &str, text: &str) -> Result<PageTypeInfo, TraceError> {
    let mut pageblock_order = None;
    let mut types: Vec<ZoneType> = Vec::new();
    // Where each is among them: a table of many zones is read in one pass.
    let mut places: TypePlaces<'_> = HashMap::new();
    // The migratetypes of the second table, once its header has come.
    let mut columns: Option<Vec<&str>> = None;
    let mut counted = 0;
    for line in ProcLine::all(name, text) {
        if let Some(order) = line.text.strip_prefix("Page block order:") {
            let order = line.number(order.trim())?;
            if order > PAGEBLOCK_ORDER_MAX {
                return Err(line.error(format!(
                    "pageblock order {order} is above the maximum {PAGEBLOCK_ORDER_MAX}"
                )));
            }
            pageblock_order = Some(order);
        } else if let Some(header) = line.text.strip_prefix("Number of blocks type") {
            columns = Some(header.split_whitespace().collect());
        } else if let Some(columns) = &columns {
            if line.text.starts_with("Number of mixed blocks") {
                // A table of its own, where the kernel keeps page owners; nothing here needs it.
                break;
            }
            counted += 1;
            count_pageblocks(line, columns, &places, &mut types)?;
        } else if line.text.starts_with("Node") {
            let (of, key) = free_of_type(line)?;
            places.entry(key).or_insert(types.len());
            types.push(of);
        }
    }
    let Some(pageblock_order) = pageblock_order else {
        return Err(TraceError::new(
            name,
            "no 'Page block order:', expected /proc/pagetypeinfo",
        ));
    };
    if types.is_empty() || counted == 0 {
        return Err(TraceError::new(
            name,
            "cut off, expected both tables of /proc/pagetypeinfo",
        ));
    }
    Ok(PageTypeInfo {
        pageblock_order,
        types,
    })
}

/// `Node 0, zone DMA, type Unmovable 1 2 ...`
fn free_of_type<'a>(line: ProcLine<'a>) -> Result<(ZoneType, TypeKey<'a>), TraceError> {
    let (node, zone, rest) = line.zone()?;
    let rest = rest.trim_start_matches([',', ' ']);
    let mut words = rest
        .strip_prefix("type")
        .unwrap_or_default()
        .split_whitespace();
    let Some(migratetype) = words.next() else {
        return Err(line.error("no migratetype, expected ', type NAME' and a count an order"));
    };
    let (mut free_blocks, mut is_cut) = (Vec::new(), false);
    for word in words {
        let digits = word.strip_prefix('>');
        is_cut |= digits.is_some();
        free_blocks.push(line.number(digits.unwrap_or(word))?);
    }
    if free_blocks.is_empty() {
        return Err(line.error("no counts, expected one an order"));
    }
    let of = ZoneType {
        node,
        zone: zone.to_owned(),
        migratetype: migratetype.to_owned(),
        free_blocks,
        is_cut,
        pageblocks: 0,
    };
    Ok((of, (node, zone, migratetype)))
}

/// `Node 0, zone DMA 1 7 0 ...`, a count a column.
fn count_pageblocks(
    line: ProcLine<'_>,
    columns: &[&str],
    places: &TypePlaces<'_>,
    types: &mut [ZoneType],
) -> Result<(), TraceError> {
    let (node, zone, rest) = line.zone()?;
    let counts: Vec<&str> = rest.split_whitespace().collect();
    if counts.len() != columns.len() {
        return Err(line.error(format!(
            "{} counts, expected {}, one a migratetype",
            counts.len(),
            columns.len()
        )));
    }
    for (migratetype, count) in columns.iter().zip(counts) {
        let count = line.number(count)?;
        let place = places.get(&(node, zone, *migratetype));
        let Some(of) = place.and_then(|&place| types.get_mut(place)) else {
            let (zone, migratetype) = (shown(zone), shown(migratetype));
            return Err(line.error(format!(
                "zone {zone} type {migratetype} is not in the table above"
            )));
        };
        of.pageblocks = count;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Page block order: 9
Pages per block:  512

Free pages count per migrate type at order       0      1      2
Node    0, zone      DMA, type    Unmovable      0      0      1
Node    0, zone      DMA, type      Movable      3 >100000      0

Number of blocks type     Unmovable      Movable
Node 0, zone      DMA            1            7
";

    #[test]
    fn free_blocks_and_labels_are_read_by_zone_and_migratetype() {
        let info = read_pagetypeinfo("p", TEXT).unwrap();
        assert_eq!((info.pageblock_order, info.types.len()), (9, 2));
        assert_eq!(info.types[1].free_blocks, [3, 100_000, 0]);
        assert!(info.types[1].is_cut && !info.types[0].is_cut);
        assert_eq!(info.pageblocks(Mobility::Movable), 7);
        assert_eq!(info.free_blocks(Mobility::Unmovable, 2), 1);
        assert_eq!(info.free_blocks(Mobility::Reclaimable, 99), 0);
    }

    #[test]
    fn a_contiguous_area_is_movable_and_blocks_of_any_order_count() {
        let text = "Page block order: 11
Pages per block:  2048

Free pages count per migrate type at order  0  1  2  3  4  5  6  7  8  9 10 11
Node    0, zone      DMA, type      Movable 1  0  0  0  0  0  0  0  0  0  0  2
Node    0, zone      DMA, type          CMA 0  1  0  0  0  0  0  0  0  0  0  1
Node    0, zone      DMA, type      Isolate 5  0  0  0  0  0  0  0  0  0  0  0

Number of blocks type     Movable  CMA  Isolate
Node 0, zone      DMA           7    2        1
";
        let info = read_pagetypeinfo("p", text).unwrap();
        assert_eq!(info.free_frames(Mobility::Movable), 1 + 2 + 3 * 2048);
        assert_eq!(info.pageblocks(Mobility::Movable), 9);
        assert_eq!(info.contiguous_frames(), 2 * 2048);
        assert_eq!(info.types[2].mobility(), None);
        let without = read_pagetypeinfo("p", TEXT).unwrap();
        assert_eq!(without.contiguous_frames(), 0);
        // Any number of columns is one of a file.
        let many = format!(", type      Movable{}", " 1".repeat(70));
        let text = text.replace(", type      Movable 1", &many);
        let info = read_pagetypeinfo("p", &text).unwrap();
        assert_eq!(info.free_frames(Mobility::Movable), u64::MAX);
    }

    #[test]
    fn what_is_no_pagetypeinfo_is_named_by_line() {
        let error = |from: &str, to: &str| {
            read_pagetypeinfo("p", &TEXT.replace(from, to))
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            error("Page block", "Block"),
            "p: no 'Page block order:', expected /proc/pagetypeinfo"
        );
        assert_eq!(
            error("order: 9", "order: nine"),
            "p:1: 'nine' is not a whole number"
        );
        assert_eq!(
            error(" 3 >100000", " 3 >1k"),
            "p:6: '1k' is not a whole number"
        );
        assert_eq!(
            error("1            7", "1"),
            "p:9: 1 counts, expected 2, one a migratetype"
        );
        assert_eq!(
            error("Node 0, zone      DMA   ", "Node 0, zone      DMA32"),
            "p:9: zone DMA32 type Unmovable is not in the table above"
        );
        assert_eq!(
            error(", type      Movable      3 >100000      0", ""),
            "p:6: no migratetype, expected ', type NAME' and a count an order"
        );
        assert_eq!(
            error("      0      0      1", ""),
            "p:5: no counts, expected one an order"
        );
        let cut = TEXT.split("Number").next().unwrap();
        assert_eq!(
            read_pagetypeinfo("p", cut).unwrap_err().to_string(),
            "p: cut off, expected both tables of /proc/pagetypeinfo"
        );
    }

    #[test]
    fn the_samples_own_state_is_read() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../traces/state/sample/before.pagetypeinfo"
        );
        let info = read_pagetypeinfo("sample", &std::fs::read_to_string(path).unwrap()).unwrap();
        // Zones DMA, DMA32 and Normal; the trace's README counts the last two.
        let labels = Mobility::ALL.map(|mobility| info.pageblocks(mobility));
        assert_eq!(labels, [869, 11_251, 167]);
    }
}
