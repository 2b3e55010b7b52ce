//! Where the kernel's tracing is, found or mounted for this process alone. Everything else of the recorder is given
//! this folder and asks no path.

use crate::record::RecordError;
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Where a machine usually has it; the second is where kernels before 4.1 put it.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The kernel's tracing, as a folder of files.
///
/// Where it is not mounted, the recorder mounts it *detached*: the mount hangs on no path and in no
/// namespace, and only this process can reach it, through its open file. It is gone with the
/// process, however that ends. Nothing on the machine changes by looking.
#[derive(Debug)]
pub struct Tracefs {
    root: PathBuf,
    /// The detached mount; closing it unmounts.
    detached: Option<OwnedFd>,
}

impl Tracefs {
    /// Opens the machine's tracing.
    ///
    /// # Errors
    /// [`RecordError::Missing`] or [`RecordError::NotPermitted`], with what is missing and how to get it.
    pub fn open() -> Result<Self, RecordError> {
        for place in PLACES {
            match fs::metadata(Path::new(place).join("instances")) {
                Ok(meta) if meta.is_dir() => {
                    return Ok(Self {
                        root: PathBuf::from(place),
                        detached: None,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(not_permitted());
                }
                _ => {}
            }
        }
        let detached = Self::mount_detached().map_err(|errno| match errno {
            Errno::PERM | Errno::ACCESS => not_permitted(),
            Errno::NODEV => RecordError::Missing(
                "this kernel has no tracefs; it must be built with CONFIG_FTRACE and CONFIG_EVENT_TRACING"
                    .into(),
            ),
            Errno::NOSYS => RecordError::Missing(
                "tracefs is not mounted and this kernel is too old (before 5.2) to mount it for one process; as root: mount -t tracefs tracefs /sys/kernel/tracing"
                    .into(),
            ),
            other => RecordError::Missing(format!(
                "tracefs is not mounted and cannot be: {other}; as root: mount -t tracefs tracefs /sys/kernel/tracing"
            )),
        })?;
        // The one way to name files below an open folder without a mount point.
        let root = PathBuf::from(format!("/proc/self/fd/{}", detached.as_raw_fd()));
        if !root.join("instances").is_dir() {
            return Err(RecordError::Missing(
                "/proc is not mounted, and tracefs neither; as root: mount -t proc proc /proc"
                    .into(),
            ));
        }
        Ok(Self {
            root,
            detached: Some(detached),
        })
    }

    fn mount_detached() -> rustix::io::Result<OwnedFd> {
        let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&context)?;
        fsmount(
            &context,
            FsMountFlags::FSMOUNT_CLOEXEC,
            MountAttrFlags::MOUNT_ATTR_NOSUID
                | MountAttrFlags::MOUNT_ATTR_NODEV
                | MountAttrFlags::MOUNT_ATTR_NOEXEC,
        )
    }

    /// Whether it was mounted for this process alone.
    #[must_use]
    pub fn is_detached(&self) -> bool {
        self.detached.is_some()
    }

    /// The folder it is in: a path of the machine, or one only this process can follow.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The names of the instances that exist now, sorted.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn instances(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.root.join("instances"))? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort_unstable();
        Ok(names)
    }
}

fn not_permitted() -> RecordError {
    RecordError::NotPermitted(
        "tracing the kernel needs root (CAP_SYS_ADMIN): run it with sudo; in a container, start that with --privileged, or record on the host"
            .into(),
    )
}
