//! The pages that have figures, and the regions in them that are generated.
//!
//! `<!-- figure: QUERY -->12<!-- end -->` is one figure ([`super::query`]); between `<!-- table: NAME -->` and
//! `<!-- end -->`, each on a line of its own, stands a table ([`super::tables`]).

use super::query::ResultFiles;
use super::tables;
use crate::kernels::boot;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const FIGURE: &str = "<!-- figure: ";
const TABLE: &str = "<!-- table: ";
pub(crate) const END: &str = "<!-- end -->";

/// README and the pages of the book, as paths inside the repository, in order.
pub(crate) fn pages() -> Vec<PathBuf> {
    fn below(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
        for entry in fs::read_dir(boot::root().join(folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                below(&path, found)?;
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
        Ok(())
    }
    let mut found = vec![PathBuf::from("README.md")];
    below(Path::new("docs"), &mut found).expect("the book can be read");
    found.sort();
    found
}

/// A page with its regions made anew, and what they lack, with the line.
pub(crate) fn filled(page: &str, files: &mut ResultFiles) -> Result<(String, Vec<String>), String> {
    let mut out = String::new();
    let mut lacking = Vec::new();
    let mut rest = page;
    while let Some(at) = [FIGURE, TABLE]
        .iter()
        .filter_map(|begin| rest.find(begin))
        .min()
    {
        let (before, marked) = rest.split_at(at);
        out += before;
        let line = out.lines().count().max(1);
        let (marker, behind) = marked
            .split_once("-->")
            .ok_or_else(|| format!("line {line}: a marker has no end"))?;
        let (_, after) = behind
            .split_once(END)
            .ok_or_else(|| format!("line {line}: {marker}--> has no {END}"))?;
        let mut lacks = Vec::new();
        let text = match marker.strip_prefix(FIGURE) {
            Some(query) => files.shown(query.trim()).unwrap_or_else(|error| {
                lacks.push(error);
                "-".to_owned()
            }),
            None => {
                let name = marker.strip_prefix(TABLE).unwrap_or_default().trim();
                format!("\n{}", tables::table(name, files, &mut lacks))
            }
        };
        lacking.extend(lacks.into_iter().map(|why| format!("line {line}: {why}")));
        out += &format!("{marker}-->{text}{END}");
        rest = after;
    }
    Ok((out + rest, lacking))
}

/// `cargo xtask docs`: writes every page anew, or says where one differs from the results.
pub(crate) fn run(is_check: bool) -> Result<(), String> {
    let mut files = ResultFiles::default();
    let (mut wrong, mut written) = (Vec::new(), 0);
    for page in pages() {
        let name = page.display();
        let path = boot::root().join(&page);
        let text = fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
        let (expected, lacking) = match filled(&text, &mut files) {
            Ok(filled) => filled,
            Err(error) => {
                wrong.push(format!("{name}: {error}"));
                continue;
            }
        };
        wrong.extend(lacking.iter().map(|why| format!("{name}: {why}")));
        if text == expected {
            continue;
        }
        if is_check {
            wrong.push(format!("{name}: {}", difference(&text, &expected)));
        } else {
            boot::write(&path, &expected)?;
            written += 1;
        }
    }
    if !is_check {
        println!("{written} pages changed");
    }
    if wrong.is_empty() {
        return Ok(());
    }
    if is_check {
        wrong.push("`cargo xtask docs` writes what the results say".to_owned());
    }
    Err(wrong.join("\n"))
}

/// The first line in which two texts differ.
fn difference(text: &str, expected: &str) -> String {
    let pairs = text.lines().zip(expected.lines()).enumerate();
    for (nth, (is, should)) in pairs {
        if is != should {
            let nth = nth + 1;
            return format!("line {nth}: it says\n  {is}\nbut the results say\n  {should}");
        }
    }
    let (is, should) = (text.lines().count(), expected.lines().count());
    format!("it has {is} lines where the results make {should}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::query::tests::files;
    use crate::pages::query::{MARK, TRIAL};

    #[test]
    fn regions_are_filled_and_the_rest_stays() {
        let page = "a <!-- figure: x, c/1, before, count -->9<!-- end --> b\nc 1 ns\n";
        let (text, lacking) = filled(page, &mut files(0.0)).unwrap();
        assert_eq!(text, page.replace("-->9<", "-->10<"));
        assert!(lacking.is_empty());
        assert_eq!(
            difference(page, &text),
            "line 1: it says\n  a <!-- figure: x, c/1, before, count -->9<!-- end --> b\nbut the results say\n  \
             a <!-- figure: x, c/1, before, count -->10<!-- end --> b"
        );
        // What was filled once is filled alike again.
        assert_eq!(filled(&text, &mut files(0.0)).unwrap().0, text);
    }

    #[test]
    fn a_region_without_end_or_figure_is_said_with_its_line() {
        let refused = filled("a\n<!-- figure: x -->\n", &mut files(0.0)).unwrap_err();
        assert!(
            refused.starts_with("line 1: <!-- figure: x -->"),
            "{refused}"
        );
        let page = "a\nb <!-- figure: x, c/1, before, no -->1<!-- end -->";
        let (text, lacking) = filled(page, &mut files(0.0)).unwrap();
        assert!(text.contains("-->-<"), "{text}");
        assert!(lacking[0].starts_with("line 2: "), "{lacking:?}");
    }

    /// The check of every test run: text and results agree.
    #[test]
    fn the_pages_say_what_the_results_say() {
        if let Err(wrong) = run(true) {
            panic!("{wrong}");
        }
    }

    #[test]
    fn a_mark_is_explained_where_it_stands() {
        for page in pages() {
            let text = fs::read_to_string(boot::root().join(&page)).unwrap();
            let is_explained = text.contains("beside other work")
                && (text.contains("a trial in a small size") || !text.contains(TRIAL));
            assert!(
                is_explained || !text.contains(MARK),
                "{}: what is {MARK}?",
                page.display()
            );
        }
    }
}
