//! What tracefs says of a page and of each event: where which field lies. The kernel prints it, so it is text of any
//! version, and nothing here takes a number from anywhere else.

use super::FlagTable;
use crate::printable;
use std::collections::BTreeMap;

/// How the pages of a stream are to be read.
#[derive(Debug, Clone)]
pub struct PageFormats {
    pub(super) page: PageLayout,
    common: CommonFields,
    events: Vec<EventFormat>,
    place_of_id: BTreeMap<u16, usize>,
}

/// Where a page has what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageLayout {
    pub(super) commit: FieldPlace,
    pub(super) data: FieldPlace,
}

/// What each record begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CommonFields {
    id: FieldPlace,
    flags: FieldPlace,
    pid: FieldPlace,
}

/// A field of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::trace) struct FieldPlace {
    pub(in crate::trace) offset: usize,
    pub(in crate::trace) len_bytes: usize,
    is_signed: bool,
}

/// One event's format.
#[derive(Debug, Clone)]
pub(in crate::trace) struct EventFormat {
    pub(in crate::trace) name: String,
    pub(in crate::trace) kind: RecordKind,
    /// A record that is shorter lacks a field.
    least_bytes: usize,
}

/// What an event is here, with the fields that are used.
#[derive(Debug, Clone)]
pub(in crate::trace) enum RecordKind {
    Alloc {
        frame: FieldPlace,
        order: FieldPlace,
        migratetype: FieldPlace,
        flags: FieldPlace,
        table: FlagTable,
    },
    Free {
        frame: FieldPlace,
        order: FieldPlace,
    },
    FreeBatched,
    Extfrag {
        wanted: FieldPlace,
        taken: FieldPlace,
    },
    MigrateStart,
    MigrateEnd {
        succeeded: FieldPlace,
        failed: FieldPlace,
    },
    DirectCompaction {
        order: FieldPlace,
    },
    CompactionBegin,
    CompactionEnd,
    DirectReclaim {
        order: FieldPlace,
    },
    DirectReclaimEnd {
        reclaimed: FieldPlace,
    },
    BackgroundWakes {
        node: FieldPlace,
        order: FieldPlace,
    },
    BackgroundSleeps {
        node: FieldPlace,
    },
    NewTask {
        task: FieldPlace,
        name: FieldPlace,
    },
    Rename {
        /// Linux from 6.16 on does not say which task that is: the one whose event it is.
        task: Option<FieldPlace>,
        before: Option<FieldPlace>,
        name: FieldPlace,
    },
    Other,
}

/// The longest field and the furthest place of one.
const RECORD_BYTES_MAX: usize = 1 << 16;

/// What a kernel says of some dozen events is a few KiB of each.
const FORMATS_BYTES_MAX: usize = 1 << 20;

/// The largest pages that any kernel has: 64 KiB, and sub-buffers of several.
const PAGE_BYTES_MAX: usize = super::SECTION_BYTES_MAX / 2;

impl PageFormats {
    /// Reads the sections of the events' formats, in that order.
    ///
    /// # Errors
    /// What is wrong, and what was expected.
    pub fn read(sections: [&[u8]; 3]) -> Result<Self, String> {
        for (name, section) in super::FORMATS.iter().zip(sections) {
            if section.len() > FORMATS_BYTES_MAX {
                return Err(format!(
                    "{name}: {} bytes, expected at most {FORMATS_BYTES_MAX}",
                    section.len()
                ));
            }
        }
        let [machine, page, events] = sections.map(|bytes| String::from_utf8_lossy(bytes));
        read_machine(&machine)?;
        let page = read_page(&page).map_err(|fault| format!("formats.page: {fault}"))?;
        let mut formats = Self {
            page,
            common: CommonFields::NONE,
            events: Vec::new(),
            place_of_id: BTreeMap::new(),
        };
        let mut rest = &*events;
        while let Some(start) = rest.find("name: ") {
            let end = rest[start + 1..].find("\nname: ");
            let end = end.map_or(rest.len(), |end| start + 1 + end);
            let text = &rest[start..end];
            let name = text["name: ".len()..].lines().next().unwrap_or_default();
            let name = name.trim();
            let at = |fault| format!("formats.events: {}: {fault}", printable::text(name));
            formats.add(name, text).map_err(at)?;
            rest = &rest[end..];
        }
        match formats.events.is_empty() {
            true => Err("formats.events: there is no event, expected those of the stream".into()),
            false => Ok(formats),
        }
    }

    fn add(&mut self, name: &str, text: &str) -> Result<(), String> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID: "));
        let id = id.and_then(|id| id.trim().parse::<u16>().ok());
        let id = id.ok_or("there is no line `ID: NUMBER` below 65,536, expected one")?;
        let fields = fields(text)?;
        let field = |name: &str| fields.iter().find(|(of, _)| *of == name).map(|at| at.1);
        let common = |name: &str, len_bytes: usize| {
            let field = field(name).filter(|field| field.len_bytes == len_bytes);
            field.ok_or_else(|| format!("there is no {name} of {len_bytes} bytes, expected one"))
        };
        let common = CommonFields {
            id: common("common_type", 2)?,
            flags: common("common_flags", 1)?,
            pid: common("common_pid", 4)?,
        };
        if !self.events.is_empty() && self.common != common {
            return Err("its common fields lie elsewhere than the other events'".into());
        }
        self.common = common;
        let format = EventFormat {
            name: name.to_owned(),
            kind: RecordKind::of(name, text, field)?,
            least_bytes: 0,
        };
        let used = format.used().into_iter().map(FieldPlace::end);
        let common = [common.id, common.flags, common.pid].map(FieldPlace::end);
        let least_bytes = used.chain(common).max().unwrap_or(0);
        let format = EventFormat {
            least_bytes,
            ..format
        };
        match self.place_of_id.insert(id, self.events.len()) {
            Some(_) => return Err(format!("the ID {id} stands twice, expected it once")),
            None => self.events.push(format),
        }
        Ok(())
    }

    /// The format of a record, whose bytes have all fields that are used.
    pub(in crate::trace) fn of(&self, record: &[u8]) -> Result<&EventFormat, String> {
        let id = self.common.id.get(record);
        let id = id.ok_or_else(|| short(record, self.common.id.end()))?;
        let place = self.place_of_id.get(&(id as u16));
        let Some(event) = place.and_then(|&place| self.events.get(place)) else {
            return Err(format!(
                "an event of the ID {id}, expected one of the {} that the stream has formats of",
                self.events.len()
            ));
        };
        match record.len() < event.least_bytes {
            true => Err(format!(
                "{}: {}",
                event.name,
                short(record, event.least_bytes)
            )),
            false => Ok(event),
        }
    }

    /// The task whose event a record is, and whether an interrupt had stopped it.
    pub(in crate::trace) fn task_of(&self, record: &[u8]) -> (u32, bool) {
        // Of a hard and a soft interrupt, and of one that may not be masked; since Linux 2.6.30, and the last since 4.3.
        const INTERRUPT: u64 = 0x08 | 0x10 | 0x40;
        let flags = self.common.flags.get(record).unwrap_or(0);
        let pid = self.common.pid.get(record).unwrap_or(0) as u32;
        (pid, flags & INTERRUPT != 0)
    }

    /// How many bytes a page has.
    #[must_use]
    pub(crate) const fn page_bytes(&self) -> usize {
        self.page.data.end()
    }
}

fn short(record: &[u8], least_bytes: usize) -> String {
    format!(
        "a record of {} bytes, expected {least_bytes} or more",
        record.len()
    )
}

impl CommonFields {
    const NONE: Self = Self {
        id: FieldPlace::NONE,
        flags: FieldPlace::NONE,
        pid: FieldPlace::NONE,
    };
}

impl FieldPlace {
    const NONE: Self = Self {
        offset: 0,
        len_bytes: 0,
        is_signed: false,
    };

    const fn end(self) -> usize {
        self.offset + self.len_bytes
    }

    /// Its bytes, if the record is that long.
    pub(in crate::trace) fn bytes(self, record: &[u8]) -> Option<&[u8]> {
        record.get(self.offset..self.end())
    }

    /// Its number, as 64 bits of its sign; none if the record is not that long, or it is no number.
    pub(in crate::trace) fn get(self, record: &[u8]) -> Option<u64> {
        let bytes = self.bytes(record)?;
        let mut wide = [0; 8];
        wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
        let value = u64::from_le_bytes(wide);
        let unused = 64 - 8 * bytes.len().clamp(1, 8) as u32;
        Some(match self.is_signed {
            true => ((value << unused) as i64 >> unused) as u64,
            false => value,
        })
    }

    /// The same, with all ones of whatever width as all ones.
    pub(in crate::trace) fn frame(self, record: &[u8]) -> Option<u64> {
        let frame = self.get(record)?;
        match self.len_bytes == 4 && frame == u64::from(u32::MAX) {
            true => Some(u64::MAX),
            false => Some(frame),
        }
    }

    /// Its text up to the first zero.
    pub(in crate::trace) fn text(self, record: &[u8]) -> &[u8] {
        let bytes = self.bytes(record).unwrap_or_default();
        let end = memchr::memchr(0, bytes).unwrap_or(bytes.len());
        &bytes[..end]
    }
}

impl EventFormat {
    fn used(&self) -> Vec<FieldPlace> {
        use RecordKind::*;
        match self.kind {
            Alloc {
                frame,
                order,
                migratetype,
                flags,
                ..
            } => vec![frame, order, migratetype, flags],
            Free { frame, order } => vec![frame, order],
            Extfrag { wanted, taken } => vec![wanted, taken],
            MigrateEnd { succeeded, failed } => vec![succeeded, failed],
            DirectCompaction { order } | DirectReclaim { order } => vec![order],
            DirectReclaimEnd { reclaimed } => vec![reclaimed],
            BackgroundWakes { node, order } => vec![node, order],
            BackgroundSleeps { node } => vec![node],
            NewTask { task, name } => vec![task, name],
            Rename { task, before, name } => task.into_iter().chain(before).chain([name]).collect(),
            FreeBatched | MigrateStart | CompactionBegin | CompactionEnd | Other => Vec::new(),
        }
    }
}

impl RecordKind {
    fn of(
        name: &str,
        text: &str,
        field: impl Fn(&str) -> Option<FieldPlace>,
    ) -> Result<Self, String> {
        let named = |name: &str| {
            field(name).ok_or_else(|| format!("there is no field {name}, expected one"))
        };
        let number = |name: &str| {
            let field = named(name)?;
            match field.len_bytes {
                1 | 2 | 4 | 8 => Ok(field),
                len_bytes => Err(format!(
                    "{name} has {len_bytes} bytes, expected a number of 1, 2, 4 or 8"
                )),
            }
        };
        Ok(match name {
            "mm_page_alloc" => Self::Alloc {
                frame: number("pfn")?,
                order: number("order")?,
                migratetype: number("migratetype")?,
                flags: number("gfp_flags")?,
                table: FlagTable::read(text)?,
            },
            "mm_page_free" => Self::Free {
                frame: number("pfn")?,
                order: number("order")?,
            },
            "mm_page_free_batched" => Self::FreeBatched,
            "mm_page_alloc_extfrag" => Self::Extfrag {
                wanted: number("alloc_migratetype")?,
                taken: number("fallback_migratetype")?,
            },
            "mm_migrate_pages_start" => Self::MigrateStart,
            "mm_migrate_pages" => Self::MigrateEnd {
                succeeded: number("succeeded")?,
                failed: number("failed")?,
            },
            "mm_compaction_try_to_compact_pages" => Self::DirectCompaction {
                order: number("order")?,
            },
            "mm_compaction_begin" => Self::CompactionBegin,
            "mm_compaction_end" => Self::CompactionEnd,
            "mm_vmscan_direct_reclaim_begin" => Self::DirectReclaim {
                order: number("order")?,
            },
            "mm_vmscan_direct_reclaim_end" => Self::DirectReclaimEnd {
                reclaimed: number("nr_reclaimed")?,
            },
            "mm_vmscan_kswapd_wake" => Self::BackgroundWakes {
                node: number("nid")?,
                order: number("order")?,
            },
            "mm_vmscan_kswapd_sleep" => Self::BackgroundSleeps {
                node: number("nid")?,
            },
            "task_newtask" => Self::NewTask {
                task: number("pid")?,
                name: named("comm")?,
            },
            "task_rename" => Self::Rename {
                task: field("pid").filter(|field| field.len_bytes == 4),
                before: field("oldcomm"),
                name: named("newcomm")?,
            },
            _ => Self::Other,
        })
    }
}

/// What tells a machine whose numbers lie otherwise.
fn read_machine(text: &str) -> Result<(), String> {
    let value = |name| {
        let mut words = text.lines().filter_map(|line| line.split_once(' '));
        words.find_map(|(of, value)| (of == name).then_some(value))
    };
    match value("byte_order") {
        Some("little") => Ok(()),
        Some(other) => Err(format!(
            "formats.machine: byte_order {}, expected little: pages of such a machine are not read; `board/record.sh` records them as text",
            printable::text(other)
        )),
        None => Err("formats.machine: there is no byte_order, expected little".into()),
    }
}

fn read_page(text: &str) -> Result<PageLayout, String> {
    let fields = fields(text)?;
    let field = |name: &str| {
        let field = fields.iter().find(|(of, _)| *of == name).map(|at| at.1);
        field.ok_or_else(|| format!("there is no field {name}, expected one"))
    };
    let (time, commit, data) = (field("timestamp")?, field("commit")?, field("data")?);
    let is_known = (time.offset, time.len_bytes) == (0, 8)
        && commit.offset == 8
        && matches!(commit.len_bytes, 4 | 8)
        && data.offset == commit.end();
    if !is_known {
        return Err("expected a timestamp of 8 bytes at 0, a commit of 4 or 8 bytes behind it, and the data behind that".into());
    }
    if !(64..=PAGE_BYTES_MAX).contains(&data.end()) {
        return Err(format!(
            "pages of {} bytes, expected 64 to {PAGE_BYTES_MAX}",
            data.end()
        ));
    }
    Ok(PageLayout { commit, data })
}

/// The fields in the lines `field:TYPE NAME; offset:N; size:N; signed:N;`.
fn fields(text: &str) -> Result<Vec<(&str, FieldPlace)>, String> {
    let lines = text.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix("field:")?;
        Some((line, rest))
    });
    lines
        .map(|(line, rest)| {
            let bad = || {
                let words: Vec<&str> = line.split_whitespace().collect();
                let line = printable::text(&words.join(" "));
                format!("`{line}` is no field, expected field:TYPE NAME; offset:N; size:N;")
            };
            let mut parts = rest.split(';').map(str::trim);
            let declared = parts.next().ok_or_else(bad)?;
            let name = declared.split('[').next().unwrap_or_default();
            let name = name.split_whitespace().next_back().ok_or_else(bad)?;
            let mut numbers = [None; 3];
            for part in parts {
                let named = ["offset:", "size:", "signed:"].map(|name| part.strip_prefix(name));
                for (number, text) in numbers.iter_mut().zip(named) {
                    *number = number.or(text.and_then(|text| text.parse::<usize>().ok()));
                }
            }
            let (Some(offset), Some(len_bytes)) = (numbers[0], numbers[1]) else {
                return Err(bad());
            };
            let in_bounds = offset <= RECORD_BYTES_MAX && len_bytes <= PAGE_BYTES_MAX;
            let place = FieldPlace {
                offset,
                len_bytes,
                is_signed: numbers[2] == Some(1),
            };
            in_bounds
                .then_some((name.trim_start_matches('*'), place))
                .ok_or_else(bad)
        })
        .collect()
}
