//! The names and call chains of a text, each once, and what a line says of the asker.

use crate::trace::{CallChains, NameTable};
use std::collections::HashMap;

/// The asker, as far as the text says: what goes with an event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WhoAsked {
    /// The name of the event's task, by its place in [`TextNames::comms`].
    pub comm: Option<u32>,
    /// A call chain that has ended before this event: the CPU whose last event it belongs to, and its place in
    /// [`TextNames::chains`].
    pub chain: Option<(u16, u32)>,
    /// The event is an interrupt's, and the task only the one that it stopped. Text of `perf script` does not say.
    pub is_interrupt: bool,
}

/// Names and call chains in the order in which a text first has them.
///
/// What they hold is bounded, whatever the text is: names and chains that come when [`Self::BYTES_MAX`] are held are
/// left out and counted.
#[derive(Debug, Clone, Default)]
pub struct TextNames {
    comms: NameTable,
    chains: CallChains,
    place_of_comm: HashMap<Box<[u8]>, u32>,
    place_of_function: HashMap<Box<[u8]>, u32>,
    place_of_chain: HashMap<Box<[u32]>, u32>,
    /// The names of tasks that an event or a list has named.
    tasks: HashMap<u32, KnownName>,
    /// What each of these was called before the first such event, where that is kept.
    before: Option<HashMap<u32, Option<u32>>>,
    room: NameRoom,
}

/// What a task is called.
#[derive(Debug, Clone, Copy)]
struct KnownName {
    place: u32,
    /// A list from before the events says so. The task may have another name by the first event: a line knows better.
    is_listed: bool,
}

/// How much of [`TextNames::BYTES_MAX`] is held, and how many names and chains found no room.
#[derive(Debug, Clone, Default)]
struct NameRoom {
    held_bytes: u64,
    left_out: u64,
}

impl NameRoom {
    /// Takes room for an entry with this many bytes beside it, if there is as much.
    fn take(&mut self, len_bytes: usize) -> bool {
        let held = self.held_bytes + ENTRY_BYTES + len_bytes as u64;
        let has_room = held <= TextNames::BYTES_MAX;
        match has_room {
            true => self.held_bytes = held,
            false => self.left_out += 1,
        }
        has_room
    }

    /// The place of a name in a table, where it is put if it is not there yet.
    fn place(
        &mut self,
        name: &[u8],
        table: &mut NameTable,
        place_of: &mut HashMap<Box<[u8]>, u32>,
    ) -> Option<u32> {
        let name = &name[..name.len().min(NameTable::NAME_BYTES_MAX)];
        if let Some(&place) = place_of.get(name) {
            return Some(place);
        }
        if !self.take(2 * name.len()) {
            return None;
        }
        let place = table.len() as u32;
        table.push(name);
        place_of.insert(name.into(), place);
        Some(place)
    }
}

/// What a name costs beside its bytes: its places in a table and in a map, each with as much room again.
const ENTRY_BYTES: u64 = 96;

impl TextNames {
    /// The most that is held: a week of a busy machine has some thousand names and some ten thousand chains.
    pub const BYTES_MAX: u64 = 32 << 20;

    /// The tasks' names.
    #[must_use]
    pub const fn comms(&self) -> &NameTable {
        &self.comms
    }

    /// The call chains.
    #[must_use]
    pub const fn chains(&self) -> &CallChains {
        &self.chains
    }

    /// How many names and chains found no room.
    #[must_use]
    pub const fn left_out(&self) -> u64 {
        self.room.left_out
    }

    /// What is held at most.
    #[must_use]
    pub const fn held_bytes(&self) -> u64 {
        self.room.held_bytes
    }

    /// Keeps from here on what each task was called before the first event that names it.
    pub(super) fn keep_before(&mut self) {
        self.before = Some(HashMap::new());
    }

    /// What each task was called before the first event that names it, as far as that was kept; `None` of one that was
    /// not there yet.
    pub fn before_events(&self) -> impl Iterator<Item = (u32, Option<&[u8]>)> {
        let name = |place: u32| self.comms.get(place as usize);
        let before = self.before.iter().flatten();
        before.map(move |(&task, place)| (task, place.and_then(name)))
    }

    /// An event gives a task its name.
    pub(super) fn event_names(&mut self, named: &NamedTask<'_>) {
        let NamedTask { task, name, before } = *named;
        let is_first = self
            .before
            .as_ref()
            .is_some_and(|of| !of.contains_key(&task));
        if is_first && self.room.take(0) {
            let place = before.and_then(|before| self.comm(before));
            if let Some(of) = &mut self.before {
                of.insert(task, place);
            }
        }
        self.name_task(task, name);
    }

    /// Notes the name that a task has from here on.
    pub fn name_task(&mut self, task: u32, name: &[u8]) {
        self.note_name(task, name, false);
    }

    /// Notes the name that a task has in a list from before the events, until an event or a line says another.
    pub(super) fn name_listed_task(&mut self, task: u32, name: &[u8]) {
        self.note_name(task, name, true);
    }

    fn note_name(&mut self, task: u32, name: &[u8], is_listed: bool) {
        let known = self.comm(name).map(|place| KnownName { place, is_listed });
        if let Some(before) = self.tasks.get_mut(&task) {
            match known {
                Some(known) => *before = known,
                None => drop(self.tasks.remove(&task)),
            }
        } else if let (Some(known), true) = (known, self.room.take(0)) {
            self.tasks.insert(task, known);
        }
    }

    /// The same of a task that has no name yet.
    pub(super) fn name_unnamed_task(&mut self, task: u32, name: &[u8]) {
        if !self.tasks.contains_key(&task) {
            self.name_task(task, name);
        }
    }

    /// The place of the name of that task, which a line calls `name`.
    pub(super) fn comm_of(&mut self, task: u32, name: &[u8]) -> Option<u32> {
        // What ftrace prints where it has forgotten the name.
        let says_none = name.is_empty() || name == b"<...>";
        match self.tasks.get(&task) {
            Some(known) if !known.is_listed || says_none => return Some(known.place),
            Some(known) if self.comms.get(known.place as usize) == Some(name) => {
                return Some(known.place);
            }
            Some(_) => self.name_listed_task(task, name),
            None if says_none => return None,
            None => return self.comm(name),
        }
        self.tasks.get(&task).map(|known| known.place)
    }

    fn comm(&mut self, name: &[u8]) -> Option<u32> {
        self.room
            .place(name, &mut self.comms, &mut self.place_of_comm)
    }

    pub(super) fn function(&mut self, name: &[u8]) -> Option<u32> {
        let functions = &mut self.chains.functions;
        self.room
            .place(name, functions, &mut self.place_of_function)
    }

    pub(super) fn chain(&mut self, functions: &[u32]) -> Option<u32> {
        if let Some(&place) = self.place_of_chain.get(functions) {
            return Some(place);
        }
        if !self.room.take(8 * functions.len()) {
            return None;
        }
        let place = self.chains.len() as u32;
        self.chains.push(functions);
        self.place_of_chain.insert(functions.into(), place);
        Some(place)
    }
}

/// What an event says that names a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NamedTask<'a> {
    pub(super) task: u32,
    /// Its name from here on.
    pub(super) name: &'a [u8],
    /// Its name until then; a new task has none.
    pub(super) before: Option<&'a [u8]>,
}

/// The task and the names in the body of an event that names a task: of `task_newtask` the new one, of `task_rename`
/// the one that has another name now. Linux from 6.16 on does not say which task that is: `current` then.
pub(super) fn named_task<'a>(event: &[u8], body: &'a [u8], current: u32) -> Option<NamedTask<'a>> {
    let (before, behind): (&[u8], &[u8]) = match event {
        b"task_newtask" => (b"comm=", b" clone_flags="),
        b"task_rename" => (b"newcomm=", b" oom_score_adj="),
        _ => return None,
    };
    let is_rename = event == b"task_rename";
    let start = memchr::memmem::find(body, before)? + before.len();
    let end = start + memchr::memmem::rfind(&body[start..], behind)?;
    let digits = body.strip_prefix(b"pid=").unwrap_or_default();
    let digits = digits.split(|&b| b == b' ').next().unwrap_or_default();
    let task = super::fields::decimal(digits).ok();
    let task = task.and_then(|task| u32::try_from(task).ok());
    // A new task is never the current one.
    let task = task.or(is_rename.then_some(current))?;
    let old = body[..start - before.len()].strip_suffix(b" ");
    let old = old.and_then(|old| Some(&old[memchr::memmem::find(old, b"oldcomm=")? + 8..]));
    Some(NamedTask {
        task,
        name: &body[start..end],
        before: old.filter(|_| is_rename),
    })
}

/// The function in a line of ftrace's stack: ` => skb_page_frag_refill`, with an offset or an address or not.
pub(super) fn ftrace_function(line: &[u8]) -> Option<&[u8]> {
    let at = memchr::memmem::find(line, b"=> ")?;
    let word = line[at + 3..].split(|&b| b == b' ').next()?;
    without_offset(word)
}

/// The function in a line of a chain of `perf script`: `ffffffff81 __alloc_skb+0x57 ([kernel.kallsyms])`. `None` where
/// the kernel's part of the chain has ended.
pub(super) fn perf_function(line: &[u8]) -> Option<&[u8]> {
    let line = line.trim_ascii();
    let start = line.iter().position(|&b| b == b' ')?;
    let rest = line[start..].trim_ascii();
    let name = match memchr::memmem::rfind(rest, b" (") {
        None => rest,
        // Modules and the kernel stand in brackets, programs by their paths.
        Some(at) if rest[at..].starts_with(b" ([") && !is_of_program(&rest[at + 2..]) => {
            &rest[..at]
        }
        Some(_) => return None,
    };
    without_offset(name)
}

fn is_of_program(object: &[u8]) -> bool {
    matches!(
        object,
        b"[unknown])" | b"[vdso])" | b"[heap])" | b"[stack])"
    )
}

fn without_offset(name: &[u8]) -> Option<&[u8]> {
    let name = match memchr::memmem::rfind(name, b"+0x") {
        Some(at) => &name[..at],
        None => name,
    };
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_stands_between_its_address_and_its_object() {
        let perf = |line: &str| perf_function(line.as_bytes()).map(<[u8]>::to_vec);
        let of = |line: &str| String::from_utf8(perf(line).unwrap()).unwrap();
        let line = "\tffffffff8161ea8b __alloc_frozen_pages_noprof+0x26b ([kernel.kallsyms])";
        assert_eq!(of(line), "__alloc_frozen_pages_noprof");
        assert_eq!(of("   ffffffffc01 ixgbe_poll+0x1 ([ixgbe])"), "ixgbe_poll");
        assert_eq!(
            of("   ffffffffc01 skb_page_frag_refill"),
            "skb_page_frag_refill"
        );
        assert_eq!(perf("   7f21 main+0x12 (/usr/bin/true)"), None);
        assert_eq!(perf("   7f21 [unknown] ([unknown])"), None);
        assert_eq!(perf("   7f21"), None);
        let ftrace = |line: &'static str| ftrace_function(line.as_bytes());
        assert_eq!(ftrace(" => __alloc_skb"), Some(&b"__alloc_skb"[..]));
        let line = "=> __alloc_skb+0x57/0x1a0 <ffffffff81>";
        assert_eq!(ftrace(line), Some(&b"__alloc_skb"[..]));
        assert_eq!(ftrace(" => "), None);
    }

    #[test]
    fn an_event_names_the_task_that_is_new_or_has_another_name() {
        let named = |event: &'static str, body: &'static str| {
            let named = named_task(event.as_bytes(), body.as_bytes(), 7)?;
            let text = |name| std::str::from_utf8(name).unwrap();
            Some((named.task, text(named.name), named.before.map(text)))
        };
        let body = "pid=12 comm=a b clone_flags=1200000 oom_score_adj=0";
        assert_eq!(named("task_newtask", body), Some((12, "a b", None)));
        let body = "pid=12 oldcomm=sh newcomm=cc1 oom_score_adj=0";
        assert_eq!(named("task_rename", body), Some((12, "cc1", Some("sh"))));
        let body = "oldcomm=sh newcomm=cc1 oom_score_adj=0";
        assert_eq!(named("task_rename", body), Some((7, "cc1", Some("sh"))));
        assert_eq!(named("task_newtask", "comm=x clone_flags=0"), None);
        assert_eq!(named("task_rename", "pid=1 newcomm=x"), None);
        assert_eq!(named("sched_switch", body), None);
    }

    #[test]
    fn what_a_task_was_called_before_its_first_event_is_kept_where_that_is_asked_for() {
        let mut names = TextNames::default();
        let mut event = |event: &str, body: &str| {
            let named = named_task(event.as_bytes(), body.as_bytes(), 7).unwrap();
            names.event_names(&named);
        };
        event("task_rename", "pid=3 oldcomm=x newcomm=y oom_score_adj=0");
        assert_eq!(names.before_events().count(), 0, "not asked for");
        names.keep_before();
        let mut event = |event: &str, body: &str| {
            let named = named_task(event.as_bytes(), body.as_bytes(), 7).unwrap();
            names.event_names(&named);
        };
        event(
            "task_rename",
            "pid=4 oldcomm=s h newcomm=cc1 oom_score_adj=0",
        );
        event(
            "task_rename",
            "pid=4 oldcomm=cc1 newcomm=as oom_score_adj=0",
        );
        event(
            "task_newtask",
            "pid=5 comm=make clone_flags=0 oom_score_adj=0",
        );
        event(
            "task_rename",
            "pid=5 oldcomm=make newcomm=cc1 oom_score_adj=0",
        );
        let mut before: Vec<_> = names.before_events().collect();
        before.sort_unstable();
        assert_eq!(before, [(4, Some(&b"s h"[..])), (5, None)]);
        assert_eq!(names.comm_of(4, b""), names.comm(b"as"));
    }

    #[test]
    fn a_line_knows_a_task_s_name_better_than_a_list_and_an_event_knows_it_best() {
        let mut names = TextNames::default();
        names.name_listed_task(7, b"bash");
        let [bash, python] = [b"bash", &b"python3"[..]].map(|name| names.comm(name));
        assert_eq!(names.comm_of(7, b"<...>"), bash);
        assert_eq!(names.comm_of(7, b""), bash);
        assert_eq!(names.comm_of(7, b"bash"), bash);
        assert_eq!(names.comm_of(7, b"python3"), python);
        assert_eq!(names.comm_of(7, b"<...>"), python, "from here on");
        // The kernel prints a name that it had noted earlier for a while.
        names.name_task(7, b"bash");
        assert_eq!(names.comm_of(7, b"python3"), bash);
    }

    #[test]
    fn t3_names_beyond_the_bound_are_left_out_and_counted() {
        let mut names = TextNames::default();
        for task in 0..400_000_u32 {
            names.name_task(task, format!("task-{task}").as_bytes());
        }
        assert!(names.held_bytes() <= TextNames::BYTES_MAX);
        assert!(names.left_out() > 0 && names.comms().len() > 100_000);
        assert_eq!(names.comm_of(3, b"other"), Some(3));
        assert_eq!(names.comm_of(399_999, b"no room"), None);
        names.name_task(3, b"task-4");
        assert_eq!(names.comm_of(3, b""), Some(4));
    }
}
