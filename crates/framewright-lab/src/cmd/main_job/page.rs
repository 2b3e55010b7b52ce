use crate::cmd::CommandError;
use crate::report::has_place;
use crate::report::html::GENERATOR;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where the page goes unless another name is given: into the folder that the command is run in.
const NAME: &str = "framewright.html";

/// As much of a file as says who made it.
const HEAD_BYTES: u64 = 1024;

/// The page of the main job.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct PageArgs {
    /// Write the page there, in the place of whatever has that name [default: framewright.html, which
    /// takes the place of an earlier page only]
    #[arg(long, value_name = "FILE", conflicts_with = "no_html")]
    html: Option<PathBuf>,

    /// Write no page
    #[arg(long)]
    no_html: bool,
}

impl PageArgs {
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
        if path.as_os_str() == "-" {
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
                path.display()
            )));
        }
        Ok(Some(path.to_owned()))
    }
}

#[cfg(test)]
impl PageArgs {
    /// As with `--html`.
    pub(super) fn named(path: &Path) -> Self {
        Self {
            html: Some(path.to_owned()),
            no_html: false,
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
