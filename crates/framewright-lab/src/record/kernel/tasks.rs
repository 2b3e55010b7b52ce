//! The names of the tasks that run on this machine: the recorder keeps them beside the events, which number tasks.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The number by which the kernel knows the namespace of its own first processes (`PROC_PID_INIT_INO`).
const FIRST_NAMESPACE: u64 = 0xeffffffc;

/// The tasks that run now, by number and name. Events number tasks as the whole machine does: in a container, whose
/// `/proc` has other numbers, there is none.
///
/// A task that ends meanwhile is passed over.
pub(crate) fn running_tasks() -> Vec<(u32, Vec<u8>)> {
    if !numbers_as_the_machine() {
        return Vec::new();
    }
    let mut tasks = Vec::new();
    for process in numbered(Path::new("/proc")) {
        let threads = Path::new("/proc").join(process.to_string()).join("task");
        for thread in numbered(&threads) {
            let name = threads.join(thread.to_string()).join("comm");
            tasks.extend(fs::read(name).ok().map(|name| (thread, kept(&name))));
        }
    }
    tasks.sort_unstable();
    tasks
}

/// The name of a task that runs, by the number that events give it.
pub(crate) fn task_name(task: u32) -> Option<Vec<u8>> {
    if !numbers_as_the_machine() {
        return None;
    }
    let name = fs::read(format!("/proc/{task}/comm")).ok()?;
    Some(kept(&name))
}

/// Whether `/proc` numbers tasks as the whole machine does.
fn numbers_as_the_machine() -> bool {
    let namespace = fs::metadata("/proc/self/ns/pid").map(|namespace| namespace.ino());
    namespace.is_ok_and(|number| number == FIRST_NAMESPACE)
}

/// As much of a name as the kernel keeps: `/proc` says of a worker besides what it works for.
fn kept(name: &[u8]) -> Vec<u8> {
    let name = name.trim_ascii_end();
    name[..name.len().min(15)].to_vec()
}

/// The folders in a folder that are called by numbers.
fn numbered(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_runs_under_its_own_name() {
        let tasks = running_tasks();
        if tasks.is_empty() {
            println!("skipped: this is a container, or /proc is not mounted");
            return;
        }
        let own = fs::read("/proc/self/comm").unwrap();
        let found = tasks.iter().find(|(task, _)| *task == std::process::id());
        assert_eq!(found.map(|(_, name)| &**name), Some(own.trim_ascii_end()));
    }
}
