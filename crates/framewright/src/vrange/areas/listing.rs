//! An area as a line of Linux's /proc/vmallocinfo.

use super::info::{AreaInfo, AreaKind, AreaState};
use crate::units::Page;
use core::fmt;

/// An area as a line of Linux's /proc/vmallocinfo.
struct ListedArea<C> {
    area: AreaInfo,
    caller: C,
}

impl AreaInfo {
    /// The area as a line of Linux's /proc/vmallocinfo, without the line's end. `caller` knows the
    /// tags, and writes the name of the caller that a tag stands for.
    ///
    /// ```text
    /// 0x00007f2c40000000-0x00007f2c40003000   12288 load_module pages=2 vmalloc
    /// 0x00007f2c40400000-0x00007f2c40404000   16384 vm_map_ram
    /// 0x00007f2c40003000-0x00007f2c40005000    8192 unpurged vm_area
    /// ```
    ///
    /// The address range and its bytes include the guard pages; `pages=` counts frames. As in Linux,
    /// a freed area that is not yet purged has no caller, nor has a mapping of the caller's frames.
    /// An area that is kept constructed, which Linux does not know, says so behind its kind. So does one whose free is
    /// deferred; it has no caller either. (Linux goes on to list that one as allocated.)
    #[must_use]
    pub const fn listed<C: Fn(u32, &mut fmt::Formatter<'_>) -> fmt::Result>(
        self,
        caller: C,
    ) -> impl fmt::Display {
        ListedArea { area: self, caller }
    }
}

impl<C: Fn(u32, &mut fmt::Formatter<'_>) -> fmt::Result> fmt::Display for ListedArea<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AreaInfo {
            start,
            pages,
            guard_before,
            guard,
            kind,
            state,
            tag,
        } = self.area;
        let first = Page(start.0 - guard_before);
        let end = Page(start.0 + pages + guard);
        let address = |page: Page| page.0.wrapping_mul(Page::BYTES);
        write!(
            f,
            "{:#018x}-{:#018x} {:>7}",
            address(first),
            address(end),
            (guard_before + pages + guard) * Page::BYTES
        )?;
        if state == AreaState::Lazy {
            return f.write_str(" unpurged vm_area");
        }
        if kind == AreaKind::Ram {
            return f.write_str(" vm_map_ram");
        }
        if state == AreaState::Live {
            f.write_str(" ")?;
            (self.caller)(tag, f)?;
        }
        if kind == AreaKind::Vmalloc {
            write!(f, " pages={pages}")?;
        }
        write!(f, " {kind}")?;
        match state {
            AreaState::Deferred => f.write_str(" deferred")?,
            AreaState::Kept => f.write_str(" kept")?,
            AreaState::Live | AreaState::Lazy => {}
        }
        Ok(())
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    extern crate std;
    use super::*;
    use std::string::{String, ToString};

    fn line(kind: AreaKind, state: AreaState, pages: u64, guard: u64) -> String {
        line_of(kind, state, pages, [0, guard])
    }

    fn line_of(kind: AreaKind, state: AreaState, pages: u64, guards: [u64; 2]) -> String {
        let [guard_before, guard] = guards;
        let area = AreaInfo {
            start: Page(0x7_f2c4_0000),
            pages,
            guard_before,
            guard,
            kind,
            state,
            tag: 7,
        };
        let caller = |tag: u32, f: &mut fmt::Formatter<'_>| match tag {
            7 => f.write_str("load_module+0x12/0x34"),
            tag => write!(f, "{tag:#x}"),
        };
        area.listed(caller).to_string()
    }

    #[test]
    fn areas_are_listed_in_linuxs_layout() {
        use AreaKind::{Plain, Ram, Vmalloc};
        use AreaState::{Deferred, Kept, Lazy, Live};
        let lines = [
            line(Vmalloc, Live, 2, 1),
            line(Plain, Live, 1, 1),
            line(Ram, Live, 4, 0),
            line(Vmalloc, Kept, 16, 1),
            line(Vmalloc, Deferred, 1, 1),
            line(Vmalloc, Lazy, 2, 1),
            line(Plain, Live, 1 << 20, 1),
            line_of(Vmalloc, Live, 2, [1, 1]),
        ];
        let expected = [
            "0x00007f2c40000000-0x00007f2c40003000   12288 load_module+0x12/0x34 pages=2 vmalloc",
            "0x00007f2c40000000-0x00007f2c40002000    8192 load_module+0x12/0x34 ioremap",
            "0x00007f2c40000000-0x00007f2c40004000   16384 vm_map_ram",
            "0x00007f2c40000000-0x00007f2c40011000   69632 pages=16 vmalloc kept",
            "0x00007f2c40000000-0x00007f2c40002000    8192 pages=1 vmalloc deferred",
            "0x00007f2c40000000-0x00007f2c40003000   12288 unpurged vm_area",
            "0x00007f2c40000000-0x00007f2d40001000 4294971392 load_module+0x12/0x34 ioremap",
            "0x00007f2c3ffff000-0x00007f2c40003000   16384 load_module+0x12/0x34 pages=2 vmalloc",
        ];
        assert_eq!(lines, expected);
    }
}
