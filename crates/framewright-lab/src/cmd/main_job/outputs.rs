//! Where the main job's page and figures go. Both are claimed before any work, because an output that cannot be
//! written must fail in the first second and not after minutes.

use crate::cmd::conduct::CommandError;
use crate::cmd::places::claim_output;
use crate::files::{FileClaims, is_stdout};
use crate::report::has_place;
use std::io;
use std::path::{Path, PathBuf};

/// The page's name in a folder of its own.
const NAME: &str = "framewright.html";

/// What the main job writes besides its text.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct JobOutputs {
    /// Write the page there, in the place of whatever has that name [default: a new folder in the system's temporary
    /// one, which is named at the end]
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

/// Where the page goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum JobPage {
    /// Where the user wants it.
    Named(PathBuf),
    /// In a folder that is made for it in this one.
    Temporary(PathBuf),
}

impl JobPage {
    /// The page's path. Makes the folder, which stays: the page is for the user.
    pub(super) fn path(&self) -> io::Result<PathBuf> {
        match self {
            Self::Named(path) => Ok(path.clone()),
            Self::Temporary(parent) => {
                let folder = tempfile::Builder::new()
                    .prefix("framewright-page-")
                    .tempdir_in(parent)?;
                Ok(folder.keep().join(NAME))
            }
        }
    }
}

impl JobOutputs {
    /// Where page and figures are to go, if anywhere.
    ///
    /// # Errors
    /// If they cannot be written there, or are to go to the same file.
    pub(super) fn places(&self) -> Result<(Option<JobPage>, Option<&Path>), CommandError> {
        self.places_in(&std::env::temp_dir())
    }

    /// The same, with another temporary folder.
    pub(super) fn places_in(
        &self,
        temporary: &Path,
    ) -> Result<(Option<JobPage>, Option<&Path>), CommandError> {
        let mut claims = FileClaims::new();
        let page = match &self.html {
            _ if self.no_html => None,
            Some(path) if is_stdout(path) => {
                return Err(CommandError::Input(
                    "--html - wants standard output, expected a file's name".into(),
                ));
            }
            Some(path) => {
                claim_output(&mut claims, "--html", path)?;
                Some(JobPage::Named(path.clone()))
            }
            None => {
                has_place(&temporary.join(NAME)).map_err(|e| {
                    CommandError::Input(format!(
                        "{e}; --html FILE writes the page elsewhere, --no-html writes none"
                    ))
                })?;
                Some(JobPage::Temporary(temporary.to_owned()))
            }
        };
        if let Some(json) = &self.json {
            claim_output(&mut claims, "--json", json)?;
        }
        Ok((page, self.json.as_deref()))
    }
}

#[cfg(test)]
impl JobOutputs {
    /// As with `--html` and `--json`.
    pub(super) fn of(html: Option<&Path>, json: Option<&Path>) -> Self {
        Self {
            html: html.map(Path::to_owned),
            json: json.map(Path::to_owned),
            no_html: false,
        }
    }
}
