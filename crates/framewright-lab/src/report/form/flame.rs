//! Flame graphs of collapsed stacks, as one picture that needs no script: a box a function, as wide as its weight, on top of the
//! one that called it. The same stacks give the same bytes.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Width of a picture, and of its margin at the left and the right.
const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 10.0;
/// Height of a box, and of a heading with what stands around it.
const ROW: usize = 18;
const HEADING: usize = 46;
/// A box that is narrower is not drawn: nothing of it could be seen.
const NARROWEST: f64 = 0.3;
/// About the width of a character in a box.
const CHARACTER: f64 = 6.8;

/// Stacks to draw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlameGraph {
    /// What the weights are.
    pub title: String,
    /// What one of them is called, in the plural.
    pub unit: &'static str,
    /// A line a stack: names between semicolons, the outermost first, a blank, and the weight.
    pub stacks: String,
}

/// A function with those that it called.
#[derive(Debug, Default)]
struct FlameBox<'a> {
    weight: u64,
    above: BTreeMap<&'a str, FlameBox<'a>>,
}

impl<'a> FlameBox<'a> {
    fn of(stacks: &'a str) -> Self {
        let mut root = Self::default();
        for line in stacks.lines() {
            let Some((names, weight)) = line.rsplit_once(' ') else {
                continue;
            };
            let weight: u64 = weight.parse().unwrap_or(0);
            root.weight = root.weight.saturating_add(weight);
            let mut at = &mut root;
            for name in names.split(';') {
                at = at.above.entry(name).or_default();
                at.weight = at.weight.saturating_add(weight);
            }
        }
        root
    }

    /// How many boxes stand on top of one another, among those that are drawn.
    fn rows(&self, scale: f64) -> usize {
        let drawn = self.above.values().filter(|one| one.is_drawn(scale));
        drawn.map(|one| 1 + one.rows(scale)).max().unwrap_or(0)
    }

    fn is_drawn(&self, scale: f64) -> bool {
        self.weight as f64 * scale >= NARROWEST
    }
}

/// Where a graph is drawn.
struct FlamePlace {
    scale: f64,
    /// The top of the lowest row.
    bottom: usize,
    all: u64,
    unit: &'static str,
}

impl FlamePlace {
    fn draw(&self, svg: &mut String, of: &FlameBox<'_>, mut x: f64, row: usize) {
        for (name, one) in &of.above {
            let width = one.weight as f64 * self.scale;
            if one.is_drawn(self.scale) {
                self.draw_one(svg, name, one.weight, (x, row));
                self.draw(svg, one, x, row + 1);
            }
            x += width;
        }
    }

    fn draw_one(&self, svg: &mut String, name: &str, weight: u64, (x, row): (f64, usize)) {
        let width = weight as f64 * self.scale;
        let y = self.bottom - row * ROW;
        let share = 100.0 * weight as f64 / self.all.max(1) as f64;
        let name_shown = escaped(name);
        let _ = write!(
            svg,
            "<g><title>{name_shown}: {weight} {} ({share:.1} %)</title>\
             <rect x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{}\" fill=\"{}\"/>",
            self.unit,
            ROW - 1,
            fill(name),
        );
        let room = ((width - 4.0) / CHARACTER).max(0.0) as usize;
        if room >= 3 {
            let shown = match name.chars().count() > room {
                false => name_shown,
                true => {
                    let begin: String = name.chars().take(room - 1).collect();
                    escaped(&begin) + "\u{2026}"
                }
            };
            let _ = write!(
                svg,
                "<text x=\"{:.1}\" y=\"{}\">{shown}</text>",
                x + 2.0,
                y + ROW - 6
            );
        }
        svg.push_str("</g>\n");
    }
}

/// The graphs, one below the other.
#[must_use]
pub fn flame_svg(graphs: &[FlameGraph]) -> String {
    let mut body = String::new();
    let mut top = 0;
    for graph in graphs {
        let root = FlameBox::of(&graph.stacks);
        let scale = (WIDTH - 2.0 * MARGIN) / root.weight.max(1) as f64;
        let rows = root.rows(scale);
        let all = match root.weight {
            0 => "nothing".to_owned(),
            all => format!("{all} {}", graph.unit),
        };
        let _ = writeln!(
            body,
            "<text class=\"title\" x=\"{MARGIN}\" y=\"{}\">{}: {all}</text>",
            top + 26,
            escaped(&graph.title)
        );
        let place = FlamePlace {
            scale,
            bottom: top + HEADING + rows.saturating_sub(1) * ROW,
            all: root.weight,
            unit: graph.unit,
        };
        place.draw(&mut body, &root, MARGIN, 0);
        top += HEADING + rows * ROW;
    }
    let height = top + 10;
    let titles: Vec<String> = graphs.iter().map(|graph| escaped(&graph.title)).collect();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\">\n<title>{}</title>\n<style>text {{ font: 11px monospace; fill: #1a1a1a; }} text.title {{ font: 15px \
         sans-serif; }}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{body}</svg>\n",
        titles.join("; ")
    )
}

/// Light and warm, and the same for a name wherever it stands.
fn fill(name: &str) -> String {
    let mut hash: u32 = 0x811c_9dc5;
    for byte in name.bytes() {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    format!("hsl({},85%,{}%)", 10 + hash % 45, 68 + (hash >> 8) % 12)
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            // No other has a place in XML.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(stacks: &str) -> String {
        flame_svg(&[FlameGraph {
            title: "frames <held>".into(),
            unit: "frames",
            stacks: stacks.into(),
        }])
    }

    #[test]
    fn a_box_is_as_wide_as_its_weight_and_stands_on_its_caller() {
        let svg = drawn("cc1;tcp sendmsg;alloc 30\ncc1;read 10\nld 40\n");
        let at = |name: &str| -> Vec<f64> {
            let (_, rest) = svg.split_once(&format!("<title>{name}: ")).unwrap();
            let (_, rect) = rest.split_once("<rect ").unwrap();
            let (rect, _) = rect.split_once("/>").unwrap();
            let values = rect.split('"').skip(1).step_by(2).take(3);
            values.map(|value| value.parse().unwrap()).collect()
        };
        let row = ROW as f64;
        let lowest = (HEADING + 2 * ROW) as f64;
        assert_eq!(at("cc1"), [10.0, lowest, 590.0]);
        assert_eq!(at("ld"), [600.0, lowest, 590.0]);
        // Children stand in the order of their names.
        assert_eq!(at("read"), [10.0, lowest - row, 147.5]);
        assert_eq!(at("tcp sendmsg"), [157.5, lowest - row, 442.5]);
        assert_eq!(at("alloc"), [157.5, lowest - 2.0 * row, 442.5]);
        assert!(
            svg.contains("<title>read: 10 frames (12.5 %)</title>"),
            "{svg}"
        );
        assert!(
            svg.contains(">frames &lt;held&gt;: 80 frames</text>"),
            "{svg}"
        );
        assert_eq!(svg, drawn("cc1;tcp sendmsg;alloc 30\ncc1;read 10\nld 40\n"));
    }

    #[test]
    fn names_are_text_and_no_part_of_the_picture() {
        let svg = drawn("<script>alert(1)</script>&\"\u{1b}\u{0}\u{fffe}\u{ffff};a 7\n");
        assert!(!svg.contains("<script"), "{svg}");
        assert!(
            svg.contains(
                "&lt;script&gt;alert(1)&lt;/script&gt;&amp;&quot;\u{fffd}\u{fffd}\u{fffd}\u{fffd}"
            ),
            "{svg}"
        );
        assert!(svg.chars().all(|c| c == '\n' || !c.is_control()));
    }

    #[test]
    fn what_cannot_be_seen_is_not_drawn_and_nothing_is_said_to_be_nothing() {
        let mut stacks = String::from("wide 1000000\n");
        for nth in 0..5_000 {
            stacks += &format!("thin{nth};a;b;c 1\n");
        }
        let svg = drawn(&stacks);
        assert!(svg.len() < 2_000, "{}", svg.len());
        assert!(drawn("").contains(": nothing</text>"));
        assert!(
            drawn("no weight\n\u{e4}\u{f6} 18446744073709551615\na 9\n")
                .contains("\u{e4}\u{f6}: 18446744073709551615")
        );
        // A long name is cut at a character.
        let long = drawn(&format!("{} 1\nb 9\n", "\u{e4}".repeat(90)));
        assert!(long.contains("\u{e4}\u{2026}</text>"), "{long}");
    }
}
