//! Every decision has one shape, so that a reader knows where its reasons and its losers stand.

use super::regions::pages;
use crate::kernels::boot;
use std::fs;

/// The headings of a decision, in this order and no others.
const HEADINGS: &[&str] = &[
    "Status",
    "Question",
    "Decision",
    "Why",
    "What was tried instead",
    "What it costs, and when to reconsider",
];

/// What is wrong with the shape of a decision, if anything.
fn judge(number: &str, text: &str) -> Option<String> {
    let mut is_code = false;
    let mut lines = text.lines().filter(|line| {
        is_code ^= line.starts_with("```");
        !is_code
    });
    let title = lines.next().unwrap_or_default();
    if !title.starts_with(&format!("# {number}: ")) {
        return Some(format!(
            "its first line is not `# {number}: TITLE`: {title}"
        ));
    }
    let found: Vec<&str> = lines.filter_map(|line| line.strip_prefix("## ")).collect();
    (found != HEADINGS).then(|| format!("its headings are {found:?}, expected {HEADINGS:?}"))
}

#[test]
fn every_decision_has_the_same_headings() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for page in pages() {
        if !page.starts_with("docs/design") {
            continue;
        }
        count += 1;
        let name = page.file_name().unwrap().to_string_lossy();
        let number = name.split('-').next().unwrap();
        let text = fs::read_to_string(boot::root().join(&page)).unwrap();
        wrong.extend(judge(number, &text).map(|what| format!("{}: {what}", page.display())));
    }
    assert!(wrong.is_empty() && count > 0, "{}", wrong.join("\n"));
}

#[test]
fn another_shape_is_refused() {
    let all: String = HEADINGS
        .iter()
        .map(|heading| format!("## {heading}\n"))
        .collect();
    assert_eq!(judge("0001", &format!("# 0001: A title\n{all}")), None);
    let code = format!("# 0001: A title\n```text\n## Not a heading\n```\n{all}");
    assert_eq!(judge("0001", &code), None);
    for text in [
        format!("# 0002: A title\n{all}"),
        format!("# 0001: A title\n{all}## More\n"),
        format!("# 0001: A title\n{}", all.replacen("## Why\n", "", 1)),
    ] {
        assert!(judge("0001", &text).is_some(), "{text}");
    }
}
