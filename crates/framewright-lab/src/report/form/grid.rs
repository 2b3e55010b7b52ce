//! A table before it has a form: what text and page show is the same, cell by cell.

use super::width::width;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, TableComponent, presets};

/// Whose figures a column or a line holds, where it is one of the three that every experiment has, or the machine's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accent {
    /// The behaviour a document complains about.
    Before,
    /// What it proposes.
    Proposed,
    /// This project's.
    Framewright,
    /// The recording machine's own: what its kernel did is no column of an experiment.
    Machine,
}

impl Accent {
    /// The three of an experiment, in the order of the columns.
    pub const ALL: [Self; 3] = [Self::Before, Self::Proposed, Self::Framewright];

    /// The column's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::Proposed => "proposed",
            Self::Framewright => "framewright",
            Self::Machine => "machine",
        }
    }

    /// Which of the three a variant is; in the fifth document CMA is what it complains about.
    #[must_use]
    pub fn of(variant: &str) -> Option<Self> {
        match variant {
            "before" | "cma" => Some(Self::Before),
            "proposed" | "gcma" => Some(Self::Proposed),
            "framewright" => Some(Self::Framewright),
            _ => None,
        }
    }
}

/// A column of figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// Its title; a line break is where a narrow form may break it.
    pub title: String,
    /// Whose figures it holds.
    pub accent: Option<Accent>,
    /// Whether a document's.
    pub is_published: bool,
    /// Whether the others are compared with it.
    pub is_base: bool,
}

impl Heading {
    /// How early it is left out where there is no room: the higher the earlier. What the machine itself did, what it is
    /// compared with and how far that is off stay longest.
    fn rank(&self) -> u8 {
        match self.accent {
            _ if self.is_base => 0,
            Some(Accent::Machine | Accent::Framewright) => 0,
            Some(_) if !self.is_published => 1,
            None if self.title.starts_with("model") => 1,
            Some(_) => 2,
            None => 3,
        }
    }

    /// The title on one line: behind a hyphen nothing is put in for a break.
    pub(in crate::report) fn one_line(&self) -> String {
        self.title.replace("-\n", "-").replace('\n', " ")
    }
}

/// A row of figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GridRow {
    /// What names it; of several cells an empty one stands for the one above.
    pub labels: Vec<String>,
    /// The unit of its figures; empty for counts that name themselves.
    pub unit: String,
    /// The figures, one a column.
    pub cells: Vec<String>,
}

/// Rows and columns of figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    /// How many cells name a row.
    pub labels: usize,
    /// The columns behind the labels.
    pub headings: Vec<Heading>,
    /// The rows.
    pub rows: Vec<GridRow>,
}

impl Grid {
    /// As text in columns, figures to the right; as many columns as the terminal has room for
    /// ([`fit_terminal`](crate::report::fit_terminal)), and the titles of those left out.
    #[must_use]
    pub fn text(&self) -> String {
        self.fitted(width())
    }

    /// The same for lines of at most `width` characters, as far as one column fits: those that are left out first stand
    /// furthest to the right among those that matter least.
    fn fitted(&self, width: usize) -> String {
        let mut shown: Vec<usize> = (0..self.headings.len()).collect();
        loop {
            let text = self.columns(&shown);
            let widest = text
                .lines()
                .map(|line| line.trim_end().chars().count())
                .max();
            let least = shown
                .iter()
                .copied()
                .max_by_key(|&at| (self.headings[at].rank(), at));
            let fits = widest.unwrap_or(0) <= width || shown.len() <= 1;
            match least {
                Some(least) if !fits => shown.retain(|&at| at != least),
                _ => return text + &self.left_out(&shown, width),
            }
        }
    }

    /// What says which columns are not shown.
    fn left_out(&self, shown: &[usize], width: usize) -> String {
        let is_out = |at: &usize| !shown.contains(at);
        let titles: Vec<String> = (0..self.headings.len())
            .filter(is_out)
            .map(|at| self.headings[at].one_line())
            .collect();
        if titles.is_empty() {
            return String::new();
        }
        let mut lines = vec![String::from("--wide also shows")];
        for (nth, title) in titles.iter().enumerate() {
            let comma = if nth + 1 < titles.len() { "," } else { "" };
            let word = format!("{title}{comma}");
            let last = lines.last_mut().map_or(0, |line| line.chars().count());
            match lines.last_mut() {
                Some(line) if last + 1 + word.chars().count() <= width => {
                    *line += &format!(" {word}")
                }
                _ => lines.push(format!("    {word}")),
            }
        }
        format!("\n{}", lines.join("\n"))
    }

    fn columns(&self, shown: &[usize]) -> String {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        table.set_style(TableComponent::HeaderLines, '-');
        // Never wrapped: a figure cut in two cannot be read, and a pager can scroll.
        table.set_content_arrangement(ContentArrangement::Disabled);
        let mut header = vec![Cell::new(""); self.labels];
        header.extend(shown.iter().map(|&at| right(&self.headings[at].title)));
        table.set_header(header);
        for row in &self.rows {
            let mut cells: Vec<Cell> = row.labels.iter().map(Cell::new).collect();
            let of = |&at: &usize| right(row.cells.get(at).map_or("", String::as_str));
            cells.extend(shown.iter().map(of));
            table.add_row(cells);
        }
        table.to_string()
    }
}

fn right(text: &str) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let heading = |title: &str, accent, is_published| Heading {
            title: title.into(),
            accent,
            is_published,
            is_base: title == "linux-\n6.12",
        };
        let headings = vec![
            heading("the\nrecorded\nkernel", Some(Accent::Machine), false),
            heading("linux-\n4.4", Some(Accent::Before), false),
            heading("published", Some(Accent::Before), true),
            heading("linux-\n6.12", None, false),
            heading("smallest-\nwhen-costly", None, false),
            heading("concentrated", Some(Accent::Framewright), false),
            heading("model\nerror", None, false),
        ];
        let row = GridRow {
            labels: vec!["contaminated_blocks".into()],
            unit: String::new(),
            cells: (0..7).map(|n| format!("{n}0000.0")).collect(),
        };
        Grid {
            labels: 1,
            headings,
            rows: vec![row],
        }
    }

    #[test]
    fn a_table_fits_the_width_and_names_what_it_leaves_out() {
        for width in [40, 50, 60, 80, 100] {
            let text = grid().fitted(width);
            let widest = text
                .lines()
                .map(|line| line.trim_end().chars().count())
                .max();
            assert!(widest.unwrap() <= width, "{width}:\n{text}");
            for heading in grid().headings {
                let title = heading.title.split('\n').next().unwrap().to_owned();
                assert!(text.contains(&title), "{width}: {title} in\n{text}");
            }
        }
        let narrow = grid().fitted(60);
        assert!(narrow.contains("--wide also shows"), "{narrow}");
        let shown = narrow
            .lines()
            .find(|line| line.contains("contaminated_blocks"))
            .unwrap();
        assert!(
            ["00000.0", "30000.0", "50000.0"]
                .iter()
                .all(|cell| shown.contains(cell)),
            "{narrow}"
        );
        // What the others are marked against has no accent, and stays longer than what has one.
        for cell in ["10000.0", "20000.0", "40000.0"] {
            assert!(!shown.contains(cell), "{narrow}");
        }
        assert!(!grid().fitted(usize::MAX).contains("--wide"));
        // One column stays, however narrow it is.
        assert!(grid().fitted(5).contains("50000.0") || grid().fitted(5).contains("00000.0"));
    }
}
