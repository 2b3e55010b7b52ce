//! The kernel's settings that a comparison changes, and the duty to put them back. One run at a time holds the lock
//! of a machine; what the machine had stands in a file before the first change, so that the next run can put it
//! back after a crash.

use super::AbError;
use crate::trace::state::min_free_kib_max;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A setting of the kernel's page allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum HostSetting {
    /// Whether whole pageblocks are kept free by reclaim and compaction before one is mixed.
    #[serde(rename = "vm.defrag_mode")]
    DefragMode,
    /// How far watermarks rise after a pageblock was mixed, in ten-thousandths of high.
    #[serde(rename = "vm.watermark_boost_factor")]
    WatermarkBoostFactor,
    /// From which external fragmentation on a request compacts and does not reclaim.
    #[serde(rename = "vm.extfrag_threshold")]
    ExtfragThreshold,
    /// How eagerly the background compacts.
    #[serde(rename = "vm.compaction_proactiveness")]
    CompactionProactiveness,
    /// What the min watermarks come to together.
    #[serde(rename = "vm.min_free_kbytes")]
    MinFreeKbytes,
}

impl HostSetting {
    /// All that a plan may change.
    pub const ALL: [Self; 5] = [
        Self::DefragMode,
        Self::WatermarkBoostFactor,
        Self::ExtfragThreshold,
        Self::CompactionProactiveness,
        Self::MinFreeKbytes,
    ];

    /// The name as sysctl has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::DefragMode => "vm.defrag_mode",
            Self::WatermarkBoostFactor => "vm.watermark_boost_factor",
            Self::ExtfragThreshold => "vm.extfrag_threshold",
            Self::CompactionProactiveness => "vm.compaction_proactiveness",
            Self::MinFreeKbytes => "vm.min_free_kbytes",
        }
    }

    /// The least and the largest value that a plan may give it, on a machine of this many KiB.
    #[must_use]
    pub const fn bounds(self, machine_kib: u64) -> (u64, u64) {
        match self {
            Self::DefragMode => (0, 1),
            Self::WatermarkBoostFactor => (0, 100_000),
            Self::ExtfragThreshold => (0, 1000),
            Self::CompactionProactiveness => (0, 100),
            Self::MinFreeKbytes => (1024, min_free_kib_max(machine_kib)),
        }
    }
}

/// Values of settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SettingValues(pub BTreeMap<HostSetting, u64>);

impl SettingValues {
    /// Reads `NAME=VALUE,NAME=VALUE`; nothing is no setting.
    ///
    /// # Errors
    /// A name that is none, a value out of bounds, or a name that is there twice.
    pub fn read(text: &str, machine_kib: u64) -> Result<Self, AbError> {
        let mut values = BTreeMap::new();
        for word in text.split(',').filter(|word| !word.trim().is_empty()) {
            let word = word.trim();
            let (name, value) = word
                .split_once('=')
                .ok_or_else(|| AbError::new(format!("'{word}', expected NAME=VALUE")))?;
            let names = HostSetting::ALL.map(HostSetting::name).join(", ");
            let setting = HostSetting::ALL
                .into_iter()
                .find(|setting| setting.name() == name)
                .ok_or_else(|| AbError::new(format!("'{name}', expected one of {names}")))?;
            let (least, most) = setting.bounds(machine_kib);
            let number = value
                .parse()
                .ok()
                .filter(|number| (least..=most).contains(number))
                .ok_or_else(|| {
                    AbError::new(format!(
                        "{name}={value}, expected a whole number from {least} to {most}"
                    ))
                })?;
            if values.insert(setting, number).is_some() {
                return Err(AbError::new(format!("{name} is given twice")));
            }
        }
        Ok(Self(values))
    }

    /// These, with `others` in place of what they name.
    #[must_use]
    pub fn with(&self, others: &Self) -> Self {
        let mut values = self.0.clone();
        values.extend(&others.0);
        Self(values)
    }

    /// Those that are other values in `other`, with the values there.
    #[must_use]
    pub fn changed_in(&self, other: &Self) -> Self {
        let changed = other
            .0
            .iter()
            .filter(|(setting, value)| self.0.get(setting) != Some(value));
        Self(changed.map(|(&setting, &value)| (setting, value)).collect())
    }
}

impl fmt::Display for SettingValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, (setting, value)) in self.0.iter().enumerate() {
            let comma = if nth > 0 { "," } else { "" };
            write!(f, "{comma}{}={value}", setting.name())?;
        }
        Ok(())
    }
}

/// The folder in which the kernel has its settings.
#[derive(Debug, Clone)]
pub struct SettingsRoot(PathBuf);

/// Where a kernel has them.
const PROC_SYS: &str = "/proc/sys";
/// Where the one run that may change them holds a lock.
const LOCK: &str = "/run/framewright-ab.lock";

impl Default for SettingsRoot {
    fn default() -> Self {
        Self(PROC_SYS.into())
    }
}

impl SettingsRoot {
    /// Another folder in place of `/proc/sys`.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }

    fn file(&self, setting: HostSetting) -> PathBuf {
        self.0.join(setting.name().replace('.', "/"))
    }

    fn lock_file(&self) -> PathBuf {
        match self.0 == Path::new(PROC_SYS) {
            true => LOCK.into(),
            false => self.0.join("framewright-ab.lock"),
        }
    }

    /// The values of all settings that this kernel has.
    ///
    /// # Errors
    /// A file that is there and holds no number.
    pub fn values(&self) -> Result<SettingValues, AbError> {
        let mut values = BTreeMap::new();
        for setting in HostSetting::ALL {
            let path = self.file(setting);
            let text = match fs::read_to_string(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                read => read.map_err(|e| AbError::file(&path, e))?,
            };
            let value = text.trim().parse();
            let value = value.map_err(|_| {
                AbError::file(&path, format!("'{}', expected a whole number", text.trim()))
            })?;
            values.insert(setting, value);
        }
        Ok(SettingValues(values))
    }

    /// Where the kernel is told to drop what it has read from files, and its own objects for them.
    pub(super) fn drop_caches(&self) -> PathBuf {
        self.0.join("vm/drop_caches")
    }

    /// Gives the machine these values, those alone that it does not have.
    fn apply(&self, values: &SettingValues) -> Result<(), AbError> {
        let now = self.values()?;
        for (&setting, value) in &now.changed_in(values).0 {
            let path = self.file(setting);
            fs::write(&path, format!("{value}\n"))
                .map_err(|e| AbError::file(&path, format!("cannot be set to {value}: {e}")))?;
        }
        let now = self.values()?;
        match now.changed_in(values) {
            left if left.0.is_empty() => Ok(()),
            left => Err(AbError::new(format!("the kernel did not take {left}"))),
        }
    }
}

/// What a machine had before a run changed it: the file beside the run.
const STATE: &str = "restore.json";

/// The right to change a machine's settings, and the duty to put them back. Dropping it does.
///
/// There is one at a time on a machine. The lock's file names the folder of the run that changes settings, whose state
/// file says what to put back; so a run in any folder puts back what one that was killed has left.
#[derive(Debug)]
pub struct HeldSettings {
    root: SettingsRoot,
    state: PathBuf,
    before: SettingValues,
    lock: File,
}

impl HeldSettings {
    /// Takes the right, and writes down in `folder` what the machine has. `say` is told what an earlier run had left.
    ///
    /// # Errors
    /// If another run has it, or a file cannot be read or written. Nothing has been changed then.
    pub fn take(
        root: SettingsRoot,
        folder: &Path,
        mut say: impl FnMut(&str),
    ) -> Result<Self, AbError> {
        let lock = Self::lock(&root)?;
        Self::restore_left(&root, folder, &mut say)?;
        let before = root.values()?;
        let folder = fs::canonicalize(folder).map_err(|e| AbError::file(folder, e))?;
        let state = folder.join(STATE);
        // Whatever kills the run from here on, the next one finds both.
        write_synced(
            &root.lock_file(),
            folder.display().to_string().as_bytes(),
            Some(&lock),
        )?;
        let text = serde_json::to_vec(&before).map_err(AbError::new)?;
        write_synced(&state, &text, None)?;
        Ok(Self {
            root,
            state,
            before,
            lock,
        })
    }

    /// Puts back what a run that was killed has left, and changes nothing else. Whether there was something.
    ///
    /// # Errors
    /// If a run has the settings now, or they cannot be put back; or if nothing was found, and there is no such folder in
    /// which it could lie.
    pub fn restore_only(
        root: &SettingsRoot,
        folder: &Path,
        mut say: impl FnMut(&str),
    ) -> Result<bool, AbError> {
        let _lock = Self::lock(root)?;
        let any = Self::restore_left(root, folder, &mut say)?;
        // The lock's file is gone after a restart, and only the folder tells then.
        match any || folder.is_dir() {
            true => Ok(any),
            false => Err(AbError::file(
                folder,
                "there is no such folder, expected that of the run that was killed",
            )),
        }
    }

    fn lock(root: &SettingsRoot) -> Result<File, AbError> {
        let path = root.lock_file();
        let mut options = File::options();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        let file = file.map_err(|e| {
            AbError::file(
                &path,
                format!("{e}; changing the kernel's settings needs root: run it with sudo"),
            )
        })?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(_) => Err(AbError::file(
                &path,
                "another framewright ab changes this machine's settings now, expected one at a time",
            )),
        }
    }

    /// The caller has the lock.
    fn restore_left(
        root: &SettingsRoot,
        folder: &Path,
        say: &mut impl FnMut(&str),
    ) -> Result<bool, AbError> {
        let named = fs::read_to_string(root.lock_file()).unwrap_or_default();
        let mut states = Vec::new();
        if !named.is_empty() {
            states.push(Path::new(&named).join(STATE));
        }
        let own = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        let own = own.join(STATE);
        if !states.contains(&own) {
            states.push(own);
        }
        let mut any = false;
        for state in states {
            let text = match fs::read_to_string(&state) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                read => read.map_err(|e| AbError::file(&state, e))?,
            };
            let values: SettingValues =
                serde_json::from_str(&text).map_err(|e| AbError::file(&state, e))?;
            root.apply(&values)?;
            fs::remove_file(&state).map_err(|e| AbError::file(&state, e))?;
            say(&format!(
                "a run was killed and had left settings changed: they are {values} again"
            ));
            any = true;
        }
        Ok(any)
    }

    /// Gives the machine these values, and its own in place of those that are not named.
    ///
    /// # Errors
    /// If the kernel refuses one.
    pub fn apply(&self, values: &SettingValues) -> Result<(), AbError> {
        self.root.apply(&self.before.with(values))
    }

    /// What the machine had.
    #[must_use]
    pub const fn before(&self) -> &SettingValues {
        &self.before
    }
}

impl Drop for HeldSettings {
    fn drop(&mut self) {
        match self.root.apply(&self.before) {
            Ok(()) => {
                let _ = fs::remove_file(&self.state);
                let _ = self.lock.set_len(0);
            }
            // The state stays, and the next run tries again.
            Err(error) => drop(writeln!(
                std::io::stderr(),
                "settings are not put back: {error}; framewright ab restore tries again"
            )),
        }
    }
}

/// Writes a file that is whole on the disk before this returns.
fn write_synced(path: &Path, bytes: &[u8], open: Option<&File>) -> Result<(), AbError> {
    let write = || -> std::io::Result<()> {
        let Some(mut file) = open else {
            let beside = path.with_extension("part");
            let mut file = File::create(&beside)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            return fs::rename(&beside, path);
        };
        file.set_len(0)?;
        file.write_all(bytes)?;
        // The folder of the lock may have no disk.
        let _ = file.sync_all();
        Ok(())
    };
    write().map_err(|e| AbError::file(path, e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::state::VM_SETTINGS;

    const MACHINE_KIB: u64 = 8 << 20;

    fn fake(folder: &Path) -> SettingsRoot {
        let root = folder.join("sys");
        fs::create_dir_all(root.join("vm")).unwrap();
        for (name, value) in [("defrag_mode", 0), ("extfrag_threshold", 500)] {
            fs::write(root.join("vm").join(name), format!("{value}\n")).unwrap();
        }
        SettingsRoot::new(root)
    }

    fn of(text: &str) -> SettingValues {
        SettingValues::read(text, MACHINE_KIB).unwrap()
    }

    #[test]
    fn settings_are_read_and_what_is_none_is_named() {
        let values = of("vm.defrag_mode=1, vm.min_free_kbytes=65536");
        assert_eq!(
            values.to_string(),
            "vm.defrag_mode=1,vm.min_free_kbytes=65536"
        );
        assert_eq!(of(""), SettingValues::default());
        // What a plan changes, a recording keeps.
        for setting in HostSetting::ALL {
            assert!(VM_SETTINGS.contains(&setting.name()), "{setting:?}");
        }
        for (text, says) in [
            ("vm.defrag_mode", "'vm.defrag_mode', expected NAME=VALUE"),
            (
                "vm.swappiness=1",
                "'vm.swappiness', expected one of vm.defrag_mode, ",
            ),
            (
                "vm.defrag_mode=2",
                "vm.defrag_mode=2, expected a whole number from 0 to 1",
            ),
            ("vm.extfrag_threshold=-1", "from 0 to 1000"),
            ("vm.compaction_proactiveness=101", "from 0 to 100"),
            ("vm.watermark_boost_factor=x", "from 0 to 100000"),
            ("vm.min_free_kbytes=419431", "from 1024 to 419430"),
            ("vm.defrag_mode=1,vm.defrag_mode=1", "is given twice"),
        ] {
            let error = SettingValues::read(text, MACHINE_KIB)
                .unwrap_err()
                .to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn settings_are_as_before_when_a_run_ends() {
        let folder = tempfile::tempdir().unwrap();
        let root = fake(folder.path());
        let before = root.values().unwrap();
        let held = HeldSettings::take(root.clone(), folder.path(), |_| {}).unwrap();
        held.apply(&of("vm.defrag_mode=1")).unwrap();
        assert_eq!(
            before.changed_in(&root.values().unwrap()),
            of("vm.defrag_mode=1")
        );
        // What is not named is the machine's own again.
        held.apply(&of("vm.extfrag_threshold=7")).unwrap();
        assert_eq!(
            before.changed_in(&root.values().unwrap()),
            of("vm.extfrag_threshold=7")
        );
        let second = HeldSettings::take(root.clone(), folder.path(), |_| {});
        assert!(
            second
                .unwrap_err()
                .to_string()
                .contains("another framewright ab")
        );
        drop(held);
        assert_eq!(root.values().unwrap(), before);
        assert!(!folder.path().join(STATE).exists());
    }

    #[test]
    fn what_a_killed_run_has_left_is_put_back_by_a_run_in_another_folder() {
        let folder = tempfile::tempdir().unwrap();
        let root = fake(folder.path());
        let before = root.values().unwrap();
        let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
        fs::create_dir(&first).unwrap();
        fs::create_dir(&second).unwrap();
        let held = HeldSettings::take(root.clone(), &first, |_| {}).unwrap();
        held.apply(&of("vm.defrag_mode=1")).unwrap();
        // A kill lets go of the lock, and of nothing else.
        held.lock.unlock().unwrap();
        std::mem::forget(held);
        assert_ne!(root.values().unwrap(), before);
        let mut said = String::new();
        let held = HeldSettings::take(root.clone(), &second, |line| said += line).unwrap();
        assert_eq!(held.before(), &before);
        assert!(said.contains("vm.defrag_mode=0"), "{said}");
        assert!(!first.join(STATE).exists());
        drop(held);
        assert_eq!(root.values().unwrap(), before);
        assert!(!HeldSettings::restore_only(&root, &first, |_| {}).unwrap());
    }
}
