use crate::cmd::error::CommandError;
use crate::files::{FileClaims, is_stdout};
use crate::printable;
use crate::report::has_place;
use crate::report::html::GENERATOR;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where the page goes unless another name is given: into the folder that the command is run in.
const NAME: &str = "framewright.html";

/// The first bytes of a file, enough to hold the name of the generator that made it.
const HEAD_BYTES: u64 = 1024;

/// What the main job writes besides its text.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct JobOutputs {
    /// Write the page there, in the place of whatever has that name [default: framewright.html, which
    /// takes the place of an earlier page only]
    #[arg(long, value_name = "FILE", conflicts_with = "no_html")]
    html: Option<PathBuf>,

    /// Write no page
    #[arg(long)]
    no_html: bool,

    /// Write the figures of all experiments as JSON Lines, each behind a record that describes its run; `-` for
    /// standard output, instead of the tables
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl JobOutputs {
    /// Where the page is to go, if anywhere.
    ///
    /// # Errors
    /// If it cannot be written there, or would take the place of what is not ours without having been
    /// told to.
    pub(super) fn place(&self) -> Result<Option<PathBuf>, CommandError> {
        self.place_in(Path::new(""))
    }

    /// The same, with the default name in `folder`.
    pub(super) fn place_in(&self, folder: &Path) -> Result<Option<PathBuf>, CommandError> {
        if self.no_html {
            return Ok(None);
        }
        let path = &self.html.clone().unwrap_or_else(|| folder.join(NAME));
        if is_stdout(path) {
            return Err(CommandError::Input(
                "--html - wants standard output, expected a file's name".into(),
            ));
        }
        has_place(path).map_err(|e| match &self.html {
            Some(_) => CommandError::input(e),
            None => CommandError::Input(format!(
                "{e}; --html FILE writes the page elsewhere, --no-html writes none"
            )),
        })?;
        if self.html.is_none() && path.exists() && !is_ours(path) {
            return Err(CommandError::Input(format!(
                "{}: there is such a file, and framewright has not written it; --html FILE writes the page \
                 elsewhere or in its place, --no-html writes none",
                printable::path(path)
            )));
        }
        Ok(Some(path.to_owned()))
    }

    /// Where the figures are to go, if anywhere.
    ///
    /// # Errors
    /// If they cannot be written there, or the page is to go there.
    pub(super) fn json(&self, page: Option<&Path>) -> Result<Option<&Path>, CommandError> {
        let Some(json) = &self.json else {
            return Ok(None);
        };
        let mut claims = FileClaims::new();
        if let Some(page) = page {
            claims
                .writes("the page", page)
                .map_err(CommandError::input)?;
        }
        claims.writes("--json", json).map_err(CommandError::input)?;
        has_place(json).map_err(CommandError::input)?;
        Ok(Some(json))
    }
}

#[cfg(test)]
impl JobOutputs {
    /// As with `--html`.
    pub(super) fn named(path: &Path) -> Self {
        Self {
            html: Some(path.to_owned()),
            ..Self::default()
        }
    }

    /// As with `--json`.
    pub(super) fn with_json(path: &Path) -> Self {
        Self {
            json: Some(path.to_owned()),
            ..Self::default()
        }
    }
}

/// Whether the file says that it is a page of this program.
fn is_ours(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
    let mark = format!("<meta name=\"generator\" content=\"{GENERATOR}\">");
    read.is_ok() && head.windows(mark.len()).any(|part| part == mark.as_bytes())
}
