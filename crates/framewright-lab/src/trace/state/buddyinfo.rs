//! The reader of `/proc/buddyinfo`: free blocks by zone and order, without mobility.

use super::words::ProcLine;
use crate::trace::TraceError;

/// The free blocks of one zone, from `/proc/buddyinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneFree {
    /// The node.
    pub node: u64,
    /// The zone's name.
    pub zone: String,
    /// Free blocks of each order, from 0 up.
    pub free_blocks: Vec<u64>,
}

impl ZoneFree {
    /// Free frames. Saturates.
    #[must_use]
    pub fn free_frames(&self) -> u64 {
        let frames = |(order, &blocks): (u32, &u64)| {
            blocks.saturating_mul(1_u64.checked_shl(order).unwrap_or(u64::MAX))
        };
        (0..)
            .zip(&self.free_blocks)
            .map(frames)
            .fold(0, u64::saturating_add)
    }
}

/// Reads `/proc/buddyinfo`; `name` stands in errors.
///
/// # Errors
/// `NAME:LINE`, with what is wrong and what was expected.
pub fn read_buddyinfo(name: &str, text: &str) -> Result<Vec<ZoneFree>, TraceError> {
    let mut zones: Vec<ZoneFree> = Vec::new();
    for line in ProcLine::all(name, text) {
        let (node, zone, rest) = line.zone()?;
        let free_blocks = rest.split_whitespace().map(|word| line.number(word));
        let free_blocks = free_blocks.collect::<Result<Vec<_>, _>>()?;
        let orders = zones
            .first()
            .map_or(free_blocks.len(), |zone| zone.free_blocks.len());
        if free_blocks.is_empty() || free_blocks.len() != orders {
            return Err(line.error(format!(
                "{} orders, expected {}",
                free_blocks.len(),
                orders.max(1)
            )));
        }
        zones.push(ZoneFree {
            node,
            zone: zone.to_owned(),
            free_blocks,
        });
    }
    if zones.is_empty() {
        return Err(TraceError::new(name, "no zones, expected /proc/buddyinfo"));
    }
    Ok(zones)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buddyinfo_is_read_by_zone() {
        let text = "Node 0, zone      DMA      0      1      2 \nNode 1, zone   Normal  5 0 1\n";
        let zones = read_buddyinfo("b", text).unwrap();
        assert_eq!(
            (zones[0].zone.as_str(), zones[0].free_frames()),
            ("DMA", 10)
        );
        assert_eq!((zones[1].node, zones[1].free_frames()), (1, 9));
    }

    #[test]
    fn what_is_no_buddyinfo_is_named_by_line() {
        let error = |text| read_buddyinfo("b", text).unwrap_err().to_string();
        assert_eq!(error(""), "b: no zones, expected /proc/buddyinfo");
        assert_eq!(
            error("Node 0, zone DMA 1 2\n\nNode 0, zone DMA32 1\n"),
            "b:3: 1 orders, expected 2"
        );
        assert_eq!(
            error("Node 0, zone DMA 1 x"),
            "b:1: 'x' is not a whole number"
        );
        assert_eq!(
            error("free 7"),
            "b:1: 'free 7', expected 'Node N, zone NAME ...'"
        );
        assert_eq!(
            error("Node x, zone DMA 1"),
            "b:1: 'x' is not a whole number"
        );
    }
}
