//! Comments name the actor: the caller, the owner, a CPU. This counts the words that hide it, and
//! the count of each crate may only fall.

use super::sources::{files, root};
use std::fs;

/// The most such words in the comments of each crate. A change that removes some lowers its line.
const CEILINGS: &[(&str, usize)] = &[
    ("adapters", 0),
    ("crates/framewright", 0),
    ("crates/framewright-capi", 0),
    ("crates/framewright-capi-core", 0),
    ("crates/framewright-capi-kernel", 0),
    ("crates/framewright-checks", 0),
    ("crates/framewright-lab", 0),
    ("crates/framewright-lines", 0),
    ("crates/framewright-linux", 0),
    ("crates/framewright-paging", 0),
    ("crates/framewright-riscv64", 0),
    ("crates/framewright-sim", 0),
    ("crates/framewright-x86_64", 0),
    ("crates/framewright-xtask", 0),
    ("examples", 0),
    ("fuzz", 0),
    ("kernel", 0),
    ("python", 0),
];

/// The same for documents. There a relative pronoun may mean a person.
const DOCUMENTS: &[(&str, usize)] = &[
    ("ARCHITECTURE.md", 0),
    ("CHANGELOG.md", 0),
    ("CONTRIBUTING.md", 0),
    ("README.md", 0),
    ("adapters", 0),
    ("crates", 0),
    ("docs", 0),
    ("python", 0),
    ("traces", 0),
];

const WORDS: &[&str] = &[
    "nobody",
    "somebody",
    "everybody",
    "anybody",
    "someone",
    "everyone",
    "anyone",
    "whoever",
    "whosever",
];
const PAIRS: &[[&str; 2]] = &[["no", "one"], ["in", "vain"], ["any", "more"]];

/// A word that hides the actor, and its line.
type Hit = (usize, String);

/// What a scan of Rust source is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SourcePlace {
    Code,
    LineComment,
    BlockComment,
    String,
    /// With this many `#` around it.
    RawString(usize),
}

/// The comments of Rust source: all else becomes blanks, and lines stay.
fn comments(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let starts = |at: usize, what: &str| {
        what.chars()
            .eq(chars.iter().copied().skip(at).take(what.len()))
    };
    let mut place = SourcePlace::Code;
    let mut out = String::new();
    let mut at = 0;
    while at < chars.len() {
        let is_comment = matches!(place, SourcePlace::LineComment | SourcePlace::BlockComment);
        let mut step = 1;
        match place {
            SourcePlace::Code if starts(at, "//") => place = SourcePlace::LineComment,
            SourcePlace::Code if starts(at, "/*") => place = SourcePlace::BlockComment,
            SourcePlace::Code if starts(at, "r\"") || starts(at, "r#") => {
                let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
                if chars.get(at + 1 + hashes) == Some(&'"') {
                    place = SourcePlace::RawString(hashes);
                }
                step = 2 + hashes;
            }
            SourcePlace::Code if starts(at, "'\\") => step = 3,
            SourcePlace::Code if starts(at, "'\"'") => step = 3,
            SourcePlace::Code if chars[at] == '"' => place = SourcePlace::String,
            SourcePlace::LineComment if chars[at] == '\n' => place = SourcePlace::Code,
            SourcePlace::BlockComment if starts(at, "*/") => place = SourcePlace::Code,
            SourcePlace::String if chars[at] == '\\' => step = 2,
            SourcePlace::String if chars[at] == '"' => place = SourcePlace::Code,
            SourcePlace::RawString(hashes) if starts(at, &format!("\"{}", "#".repeat(hashes))) => {
                place = SourcePlace::Code;
                step = 1 + hashes;
            }
            _ => {}
        }
        for c in chars.iter().skip(at).take(step) {
            out.push(if is_comment || *c == '\n' { *c } else { ' ' });
        }
        at += step;
    }
    out
}

/// The hits in a text, with or without the pronoun of persons. A name's parts are words, but not those of a name in
/// capitals or with hyphens.
fn hits(text: &str, who_counts: bool) -> Vec<Hit> {
    let lines = text.lines().enumerate();
    let words: Vec<(usize, String)> = lines
        .flat_map(|(line, text)| {
            text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-')
                .filter(|word| !word.is_empty())
                .map(move |word| (line + 1, uncapitalised(word)))
        })
        .collect();
    let is_hit = |at: usize| {
        let word = words[at].1.as_str();
        let next = words.get(at + 1).map_or("", |(_, next)| next.as_str());
        let hides = word.split('_').any(|part| WORDS.contains(&part));
        hides || PAIRS.contains(&[word, next]) || who_counts && word == "who"
    };
    (0..words.len())
        .filter(|at| is_hit(*at))
        .map(|at| words[at].clone())
        .collect()
}

fn uncapitalised(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(chars).collect()
    })
}

/// What is wrong with a count, if anything.
fn judge(place: &str, found: &[String], ceiling: usize) -> Option<String> {
    let count = found.len();
    if count < ceiling {
        return Some(format!(
            "{place}: {count} words of {ceiling}: lower the ceiling to {count}"
        ));
    }
    (count > ceiling).then(|| {
        format!(
            "{place}: {count} words, the ceiling is {ceiling}; name the actor instead:\n{}",
            found.join("\n")
        )
    })
}

fn check(table: &[(&str, usize)], extension: &str, of_file: fn(&str) -> Vec<Hit>) {
    let root = root();
    let mut wrong = Vec::new();
    for (place, ceiling) in table {
        let path = root.join(place);
        let paths = match path.is_file() {
            true => vec![path],
            false => files(&path, extension),
        };
        assert!(!paths.is_empty(), "{place} has no file");
        let mut found = Vec::new();
        for path in paths {
            let relative = path.strip_prefix(&root).unwrap().display();
            for (line, word) in of_file(&fs::read_to_string(&path).unwrap()) {
                found.push(format!("  {relative}:{line}: {word}"));
            }
        }
        wrong.extend(judge(place, &found, *ceiling));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn comments_name_the_actor() {
    check(CEILINGS, "rs", |source| hits(&comments(source), true));
}

/// Messages, names with their parts, and constants, too; only this file has the words.
#[test]
fn messages_and_names_name_the_actor() {
    check(CEILINGS, "rs", |source| {
        match source.contains("const PAIRS") {
            true => Vec::new(),
            false => hits(&source.to_lowercase(), false),
        }
    });
    for extension in ["toml", "h", "c"] {
        check(&[("crates", 0)], extension, |text| hits(text, false));
    }
}

#[test]
fn documents_name_the_actor() {
    check(DOCUMENTS, "md", |text| hits(text, false));
}

#[test]
fn every_crate_has_a_ceiling() {
    for krate in fs::read_dir(root().join("crates")).unwrap() {
        let name = krate.unwrap().file_name().into_string().unwrap();
        let place = format!("crates/{name}");
        assert!(CEILINGS.iter().any(|(of, _)| *of == place), "{place}");
    }
}

#[test]
fn the_counts_above_can_fail() {
    let source = "let s = \"nobody // who\"; // Nobody is in\n\
                  /// vain, nor any\n/// more, `NOBODY`\nlet c = '\"'; // who\n\
                  r#\"\" // who \"#; '\\''; /* anyone */ let lifetime: &'a str; // nobodys in-vain\n";
    let found = hits(&comments(source), true);
    let found: Vec<(usize, &str)> = found.iter().map(|(at, w)| (*at, w.as_str())).collect();
    let expected = [
        (1, "nobody"),
        (1, "in"),
        (2, "any"),
        (4, "who"),
        (5, "anyone"),
    ];
    assert_eq!(found, expected);
    assert_eq!(hits("Who? No one.", false), [(1, "no".to_owned())]);
    assert_eq!(hits("fn stops_nobody_who_waits()", false).len(), 1);
    let two = ["a".to_owned(), "b".to_owned()];
    assert_eq!(judge("x", &two, 2), None);
    assert!(judge("x", &two, 1).unwrap().contains("name the actor"));
    assert!(
        judge("x", &two, 3)
            .unwrap()
            .contains("lower the ceiling to 2")
    );
}
