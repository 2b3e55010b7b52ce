//! Pages of the laboratory in a headless browser: at three widths, light and dark. Nothing sticks out, text and lines stand
//! out, and the accessibility checker axe finds nothing, where it is there.

use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What looks at a page from inside.
const CHECK: &str = include_str!("../browser/check.js");

/// A phone, a tablet, and a screen on which the column of errors is to be seen.
const WIDTHS: [u32; 3] = [400, 800, 1400];

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Beside what is missing: how to get it.
pub(crate) const NO_BROWSER: &str = "there is no chromium here (Debian: apt-get install chromium)";

/// The pages, and where axe is if it is not where `npm pack` and `tar` leave it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AskedPages {
    pages: Vec<PathBuf>,
    axe: Option<PathBuf>,
}

/// What the script says of a page at one width and in one scheme.
#[derive(Debug, Deserialize)]
struct PageLook {
    width: u32,
    is_dark: bool,
    texts: u32,
    lines: u32,
    axe: String,
    found: Vec<String>,
}

impl AskedPages {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut asked = Self {
            pages: Vec::new(),
            axe: None,
        };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--axe" => {
                    let file = words.next().ok_or("--axe: a value is missing")?;
                    asked.axe = Some(file.into());
                }
                _ if word.starts_with('-') => {
                    return Err(format!("browser: there is no option `{word}`"));
                }
                _ => asked.pages.push(word.into()),
            }
        }
        match asked.pages.is_empty() {
            true => Err("browser: expected pages".to_owned()),
            false => Ok(asked),
        }
    }

    /// The text of axe; none, aloud, if it is missing in its usual place, and no other was named.
    fn axe(&self) -> Result<String, String> {
        let usual = target().join("axe/package/axe.min.js");
        let file = self.axe.as_ref().unwrap_or(&usual);
        match (fs::read_to_string(file), &self.axe) {
            (Ok(text), _) if !text.trim().is_empty() => Ok(text),
            (Ok(_), Some(_)) => Err(format!("--axe {}: the file is empty", file.display())),
            (Err(e), Some(_)) => Err(format!("--axe {}: {e}", file.display())),
            (_, None) => {
                println!("axe: SKIPPED: {} is not there", file.display());
                Ok(String::new())
            }
        }
    }
}

/// Looks at each page.
pub(crate) fn run(asked: &AskedPages) -> Result<(), String> {
    let browser = BROWSERS.into_iter().find(|name| is_there(name));
    let browser = browser.ok_or(NO_BROWSER)?;
    let axe = asked.axe()?;
    let mut wrong = Vec::new();
    for page in &asked.pages {
        let name = page.display();
        let text = fs::read_to_string(page).map_err(|e| format!("{name}: {e}"))?;
        let folder = target().join("browser");
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let inner = format!("{text}<script>{axe}</script><script>{CHECK}</script>\n");
        write(&folder.join("page.html"), &inner)?;
        for (width, is_dark) in WIDTHS
            .iter()
            .flat_map(|width| [(width, false), (width, true)])
        {
            let outer = folder.join("around.html");
            write(&outer, &around(*width))?;
            let look = look(browser, &outer, is_dark)?;
            if (look.width, look.is_dark) != (*width, is_dark) {
                return Err(format!(
                    "{browser} does not show {width} pixels, dark: {is_dark}"
                ));
            }
            let scheme = if is_dark { "dark" } else { "light" };
            let PageLook {
                texts, lines, axe, ..
            } = look;
            println!(
                "{name}, {width}, {scheme}: {texts} texts and {lines} lines of pictures, {axe}"
            );
            if texts == 0 {
                wrong.push(format!("{name}, {width}, {scheme}: nothing is to be read"));
            }
            let found = look.found.iter();
            wrong.extend(found.map(|found| format!("{name}, {width}, {scheme}: {found}")));
        }
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("\n")),
    }
}

/// A window is never as narrow as a phone, so the page stands in a frame, and tells what it found to the page around it.
fn around(width: u32) -> String {
    format!(
        "<!doctype html><iframe src=\"page.html\" style=\"width:{width}px;height:3000px;border:0\"></iframe>\
         <pre id=said></pre><script>addEventListener('message', e => said.textContent = e.data)</script>\n"
    )
}

fn look(browser: &str, page: &Path, is_dark: bool) -> Result<PageLook, String> {
    let page = fs::canonicalize(page).map_err(|e| format!("{}: {e}", page.display()))?;
    let mut command = Command::new(browser);
    let scheme = if is_dark { 0 } else { 1 };
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        // By the page's own clock, which does not wait while its scripts do.
        .args(["--window-size=1600,3200", "--virtual-time-budget=100000"])
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .arg(format!("file://{}", page.display()));
    let ended = command.stderr(Stdio::null()).output();
    let ended = ended.map_err(|e| format!("{browser}: {e}"))?;
    let said = said(&String::from_utf8_lossy(&ended.stdout));
    let said = said.ok_or(format!("{browser} says nothing: {}", ended.status))?;
    serde_json::from_str(&said).map_err(|e| format!("{browser} says {said}: {e}"))
}

/// What the page around has been told, as the browser prints it.
fn said(dom: &str) -> Option<String> {
    let (_, said) = dom.split_once("<pre id=\"said\">")?;
    let (said, _) = said.split_once("</pre>")?;
    let plain = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&nbsp;", " "),
        ("&amp;", "&"),
    ];
    let said = plain
        .iter()
        .fold(said.to_owned(), |said, (from, to)| said.replace(from, to));
    (!said.is_empty()).then_some(said)
}

fn is_there(program: &str) -> bool {
    let mut asked = Command::new(program);
    let asked = asked.arg("--version").stdout(Stdio::null());
    asked.stderr(Stdio::null()).status().is_ok()
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

fn target() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_the_checker_are_named() {
        let asked = |words: &str| AskedPages::parse(words.split_whitespace().map(str::to_owned));
        let one = asked("a.html --axe axe.js b.html");
        let wanted = AskedPages {
            pages: vec!["a.html".into(), "b.html".into()],
            axe: Some("axe.js".into()),
        };
        assert_eq!(one, Ok(wanted));
        // A checker that is named is there, or the check would pass without it.
        let missing = asked("a.html --axe no/axe.js").unwrap().axe();
        assert!(missing.is_err_and(|error| error.starts_with("--axe no/axe.js: ")));
        let empty = asked("a.html --axe /dev/null").unwrap().axe();
        assert!(empty.is_err_and(|error| error.contains("is empty")));
        assert!(asked("").is_err_and(|error| error.contains("expected pages")));
        assert!(asked("a.html --axe").is_err_and(|error| error.contains("a value is missing")));
        assert!(asked("--dark a.html").is_err_and(|error| error.contains("`--dark`")));
    }

    #[test]
    fn what_the_browser_prints_is_read() {
        let dom = "<html><pre id=\"said\">{\"width\":400,\"is_dark\":true,\"texts\":2,\"lines\":1,\"axe\":\"no axe\",\
                   \"found\":[\"a &lt;b&gt; &amp;amp;\"]}</pre></html>";
        let look: PageLook = serde_json::from_str(&said(dom).unwrap()).unwrap();
        assert_eq!((look.width, look.is_dark, look.lines), (400, true, 1));
        assert_eq!(look.found, ["a <b> &amp;"]);
        assert_eq!(said("<pre id=\"said\"></pre>"), None);
        assert_eq!(said("nothing"), None);
        assert!(around(400).contains("width:400px"));
    }
}
