//! By which rules requests are admitted unless a command says otherwise: the same for all that stands side by side.

use crate::support::{as_str, run, tight, write};
use framewright::{Mobility, Order};
use framewright_lab::trace::state::read_pagetypeinfo;
use framewright_lab::trace::{
    STREAM_MAGIC, Trace, TraceDigest, TraceOp, WorkEvent, WorkKind, section_line, write_pft4,
};
use std::fs;
use std::path::{Path, PathBuf};

/// Zones of the machine of [`tight`]: one of 32 MiB, a quarter of it free.
const ZONES: &str = "Node 0, zone   Normal
  pages free     2048
        boost    0
        min      100
        low      200
        high     300
        spanned  8192
        present  8192
        managed  8192
        protection: (0, 0)
  pagesets
    cpu: 0
              count: 0
              high:  14
              batch: 3
  start_pfn:           0
";

/// The machine's lists with 48 free frames.
const LISTED: &str = "Page block order: 9
Pages per block:  512

Free pages count per migrate type at order       0      1      2      3      4
Node    0, zone   Normal, type      Movable      0      0      0      0      3

Number of blocks type      Movable
Node 0, zone   Normal           16
";

/// A recording of [`tight`] that shows a round of kswapd.
fn with_rounds() -> Trace {
    let mut trace = tight(97 * 200, 1);
    let woke = WorkKind::Woke {
        node: 0,
        order: Order::ZERO,
    };
    trace.work.traced.background = true;
    for (at, kind) in [(100, woke), (3000, WorkKind::Slept { node: 0 })] {
        trace.work.events.push(WorkEvent { at, kind });
    }
    trace
}

/// Writes it as PFT3, with the machine's zones beside it.
fn record(trace: &Trace, folder: &Path, name: &str) -> PathBuf {
    record_with(trace, folder, name, ZONES)
}

/// The same with other words of the zones.
fn record_with(trace: &Trace, folder: &Path, name: &str, zones: &str) -> PathBuf {
    let path = folder.join(format!("{name}.pft"));
    let mut bytes = Vec::new();
    write_pft4(trace, &mut bytes).unwrap();
    let state = folder.join("state").join(name);
    fs::create_dir_all(&state).unwrap();
    let zones = TraceDigest::of(&bytes).line() + zones;
    fs::write(state.join("before.zoneinfo"), zones).unwrap();
    fs::write(&path, bytes).unwrap();
    path
}

fn out(args: &[&str]) -> String {
    let (code, out, error) = run(args);
    assert_eq!(code, Some(0), "{error}");
    out
}

const FOLLOWED: &str = "begins and ends to reclaim when the machine's did";
const MODELLED: &str = "is a model, whose rounds end as frames come back";

#[test]
fn watermarks_are_on_by_themselves_where_a_recording_has_zones_and_one_background() {
    let folder = tempfile::tempdir().unwrap();
    let replay = |path: &Path, more: &[&str]| {
        let args = ["replay", as_str(path), "--policy", "linux-6.12"];
        out(&[&args, more].concat())
    };
    let a = record(&with_rounds(), folder.path(), "a");
    let by_itself = replay(&a, &[]);
    assert!(by_itself.contains(FOLLOWED), "{by_itself}");
    assert_eq!(by_itself, replay(&a, &["--watermarks", "on"]));
    assert!(replay(&a, &["--squeeze", "100"]).contains(MODELLED));
    // Without zones, without rounds, and where each of two nodes has its own.
    let bare = folder.path().join("bare.pft");
    fs::copy(&a, &bare).unwrap();
    let mut unseen = with_rounds();
    unseen.work = Default::default();
    let mut two_nodes = with_rounds();
    two_nodes.work.events[1].kind = WorkKind::Slept { node: 1 };
    let unseen = record(&unseen, folder.path(), "unseen");
    let two_nodes = record(&two_nodes, folder.path(), "two");
    // Rounds that are there end the boosts of zones that are computed, too.
    for (path, is_on) in [
        (&bare, FOLLOWED),
        (&unseen, MODELLED),
        (&two_nodes, MODELLED),
    ] {
        let by_itself = replay(path, &[]);
        assert!(!by_itself.contains("admitted by watermarks"), "{by_itself}");
        assert_eq!(by_itself, replay(path, &["--watermarks", "off"]));
        let on = replay(path, &["--watermarks", "on"]);
        assert!(on.contains(is_on), "{on}");
    }
}

/// Requests that fail under the rules of 6.12 and did not on the machine.
fn failed(path: &Path, more: &[&str]) -> u64 {
    let args = [
        "replay",
        as_str(path),
        "--policy",
        "linux-6.12",
        "--json",
        "-",
    ];
    let rows = out(&[&args, more].concat());
    let rows = rows
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let of = |row: serde_json::Value| {
        let metric = row["metric"].as_str().unwrap_or_default();
        let counts = metric.starts_with("failures_order") && row["variant"] == "linux-6.12";
        counts.then(|| row["value"].as_u64().unwrap())
    };
    rows.filter_map(of).sum()
}

#[test]
fn a_replay_begins_with_what_lay_on_the_cpus_lists_at_that_moment() {
    let folder = tempfile::tempdir().unwrap();
    // A request of the second CPU that may not wait, and so gets nothing that lies on the first one's list.
    let mut trace = with_rounds();
    trace.gfp = vec![0x800];
    trace.ops.truncate(1);
    trace.ops[0] = TraceOp::alloc(false, Order::ZERO, Mobility::Movable, 1, 0, 1);
    trace.work.events.clear();
    let with = |name: &str, zones: &str| record_with(&trace, folder.path(), name, zones);
    let by_rules =
        |path: &Path, more: &[&str]| failed(path, &[&["--watermarks", "on"], more].concat());
    assert_eq!(by_rules(&with("empty", ZONES), &[]), 0);
    // As many free frames, nearly all of them on that list: less than the least mark is left.
    let lists = ZONES
        .replace("free     2048", "free     48")
        .replace("count: 0", "count: 2000");
    let full = with("full", &lists);
    assert_eq!(by_rules(&full, &[]), 0, "no file says what was listed");
    let digest = TraceDigest::of(&fs::read(&full).unwrap()).line();
    let state = folder.path().join("state");
    let types = state.join("full").join("before.pagetypeinfo");
    fs::write(&types, digest + LISTED).unwrap();
    assert_eq!(by_rules(&full, &[]), 1);
    // At another moment, or where less memory is there than the machine had, nothing says what lies there.
    let earlier = "# read 1.500 s before the trace begins\n".to_owned() + &lists;
    let at_another = with("earlier", &earlier);
    fs::copy(&types, state.join("earlier").join("before.pagetypeinfo")).unwrap();
    assert_eq!(by_rules(&at_another, &[]), 0);
    assert_eq!(by_rules(&full, &["--squeeze", "100"]), 0);
}

#[test]
fn a_replay_begins_with_labels_that_agree_with_what_was_listed() {
    let folder = tempfile::tempdir().unwrap();
    let mut trace = with_rounds();
    trace.ops.truncate(1);
    trace.ops[0] = TraceOp::tick(1);
    trace.work.events.clear();
    let path = record(&trace, folder.path(), "a");
    let labels = || {
        let args = [
            "replay",
            as_str(&path),
            "--policy",
            "linux-6.12",
            "--watermarks",
            "on",
            "--format",
            "pagetypeinfo",
        ];
        let text = out(&args);
        let (_, text) = text.split_once('\n').unwrap();
        let info = read_pagetypeinfo("out", text.trim_end()).unwrap();
        Mobility::ALL.map(|label| info.pageblocks(label))
    };
    // By content one pageblock is unmovable and one reclaimable, each with a quarter of it free.
    assert_eq!(labels(), [1, 14, 1]);
    // The machine listed nothing under either, and nothing lay on CPUs' lists.
    let digest = TraceDigest::of(&fs::read(&path).unwrap()).line();
    let types = folder.path().join("state/a/before.pagetypeinfo");
    fs::write(&types, digest + LISTED).unwrap();
    assert_eq!(labels(), [0, 16, 0]);
}

#[test]
fn two_recordings_are_compared_by_the_same_rules() {
    let folder = tempfile::tempdir().unwrap();
    let a = record(&with_rounds(), folder.path(), "a");
    let b = record(&with_rounds(), folder.path(), "b");
    let older = write(&with_rounds(), folder.path(), "older");
    let compare = |b: &Path, more: &[&str]| {
        let args = ["compare", as_str(&a), as_str(b), "--json", "-"];
        out(&[&args, more].concat())
    };
    assert_eq!(compare(&b, &[]), compare(&b, &["--watermarks", "on"]));
    let off = compare(&older, &["--watermarks", "off"]);
    assert_eq!(compare(&older, &[]), off);
    assert!(off.contains(r#""watermarks":"off""#), "{off}");
}

/// Counters of `/proc/vmstat` with this many rounds of kswapd.
fn counters(rounds: u64) -> String {
    format!(
        "allocstall_normal 7\npageoutrun {rounds}\ncompact_stall 3\ncompact_migrate_scanned 9\n"
    )
}

fn stream(events: &str, rounds: [u64; 2]) -> Vec<u8> {
    let section = |name: &str, text: &str| {
        [section_line(name, text.len()), text.as_bytes().to_vec()].concat()
    };
    [
        STREAM_MAGIC.to_vec(),
        section("before.zoneinfo", ZONES),
        section("before.vmstat", &counters(rounds[0])),
        b"# tracer: nop\n".to_vec(),
        events.as_bytes().to_vec(),
        section("after.vmstat", &counters(rounds[1])),
        section("end", "as asked\n"),
    ]
    .concat()
}

#[test]
fn a_stream_shows_rounds_and_waits_as_columns_do_and_its_counters_what_did_not_happen() {
    let folder = tempfile::tempdir().unwrap();
    let line = |us: u64, event: &str| format!("  cat-7 [000] ..... 1.{us:06}: {event}\n");
    let alloc = line(
        9,
        "mm_page_alloc: page=00000000aa pfn=0x8 order=3 migratetype=0 gfp_flags=GFP_KERNEL",
    );
    let rounds =
        line(1, "mm_vmscan_kswapd_wake: nid=0 order=3") + &line(2, "mm_vmscan_kswapd_sleep: nid=0");
    let reclaims = line(
        3,
        "mm_vmscan_direct_reclaim_begin: order=3 gfp_flags=GFP_KERNEL",
    ) + &line(5, "mm_vmscan_direct_reclaim_end: nr_reclaimed=32");
    let replay = |events: &str, rounds: [u64; 2]| {
        let path = folder.path().join("run.stream");
        fs::write(&path, stream(events, rounds)).unwrap();
        out(&["replay", as_str(&path), "--policy", "linux-6.12"])
    };
    let shown = replay(&(rounds + &reclaims + &alloc), [4, 5]);
    assert!(shown.contains(FOLLOWED), "{shown}");
    let waited = "of all requests 1 reclaimed for 0.000 s in all (1 of order 3) first";
    assert!(shown.contains(waited), "{shown}");
    // No event, and the kernel counted nothing: nothing happened.
    let idle = replay(&alloc, [4, 4]);
    assert!(idle.contains(FOLLOWED), "{idle}");
    assert!(
        idle.contains("none had to reclaim or compact first"),
        "{idle}"
    );
    // It counted a round that no event shows: they are not traced.
    let unseen = replay(&alloc, [4, 5]);
    assert!(!unseen.contains("admitted by watermarks"), "{unseen}");
}

#[test]
fn settings_that_the_recorded_kernel_has_are_tried_and_told_with_their_price() {
    let folder = tempfile::tempdir().unwrap();
    let path = record(&with_rounds(), folder.path(), "a");
    let set = |words: &str| {
        let digest = TraceDigest::of(&fs::read(&path).unwrap()).line();
        let settings = folder.path().join("state/a/before.settings");
        fs::write(settings, digest + words).unwrap();
    };
    set(
        "vm.min_free_kbytes 400\nvm.watermark_scale_factor 122\nvm.watermark_boost_factor 15000\nvm.defrag_mode 0\n",
    );
    let replay = |more: &[&str]| {
        let args = ["replay", as_str(&path), "--policy", "linux-6.12"];
        out(&[&args, more].concat())
    };
    let squeezed = |more: &[&str]| replay(&[&["--squeeze", "100"], more].concat());
    let title = "a/imposed/b100: settings of the recorded kernel, under the rules of linux-6.12\n";
    let rows = |out: &str| -> Vec<String> {
        let (_, table) = out.split_once(title).unwrap_or_else(|| panic!("{out}"));
        let lines = table.lines().map(str::trim_start);
        let names = lines.filter(|line| line.starts_with("as-set") || line.starts_with("vm."));
        names
            .map(|line| line.split_whitespace().next().unwrap().to_owned())
            .collect()
    };
    let few = squeezed(&[]);
    assert_eq!(
        rows(&few),
        ["as-set", "vm.defrag_mode=1", "vm.watermark_boost_factor=0"]
    );
    let (answer, _) = few.split_once("\n\n").unwrap();
    assert!(answer.lines().count() <= 6, "{answer}");
    for says in [
        "vm.defrag_mode from 0 to 1",
        "vm.watermark_boost_factor from 15000 to 0",
    ] {
        assert!(answer.contains(says), "{answer}");
    }
    assert_eq!(few, squeezed(&["--settings", "few", "--jobs", "1"]));
    let all = squeezed(&["--settings", "all"]);
    let more = [
        "vm.watermark_boost_factor=30000",
        "vm.min_free_kbytes=800",
        "vm.watermark_scale_factor=244",
    ];
    assert_eq!(rows(&all)[3..], more);
    // Each bears on what waits: of the marks two were moved, and the third is a mark that rises.
    let waits = |name: &str| -> String {
        let row = all.lines().find(|line| line.trim_start().starts_with(name));
        row.unwrap_or_else(|| panic!("{all}")).trim_start()[name.len()..].to_owned()
    };
    for name in &more[1..] {
        assert_ne!(waits(name), waits("as-set"), "{name}: {all}");
    }
    assert!(!squeezed(&["--settings", "none"]).contains(title));
    // Each has a name in assertions.
    let holds = "vm.defrag_mode=1.failures_order3<=as-set.failures_order3";
    squeezed(&["--assert", holds]);
    // In less memory the rounds are a model's in every replay, so there is nothing to tell apart.
    assert!(!answer.contains("with a model of kswapd"), "{answer}");
    // What is not tried is offered only where a replay tries it.
    assert!(
        answer.contains("with --settings all a replay tries"),
        "{answer}"
    );
    // As rows, and in a page.
    let json = squeezed(&["--json", "-"]);
    for variant in ["as-set", "vm.defrag_mode=1", "vm.watermark_boost_factor=0"] {
        let row = format!(r#""variant":"{variant}","metric":"failures_order3""#);
        assert!(json.contains(&row), "{json}");
    }
    let page = folder.path().join("page.html");
    squeezed(&["--html", as_str(&page)]);
    assert!(
        fs::read_to_string(&page)
            .unwrap()
            .contains("settings of the recorded kernel")
    );
    // The recorded factor holds for policies, too: here the kernel as it was set is one of them.
    set("vm.watermark_boost_factor 0\nvm.defrag_mode 0\n");
    let json = squeezed(&["--json", "-"]);
    let figures = |variant: &str| -> Vec<String> {
        let named = format!(r#""variant":"{variant}","metric":"#);
        let rows = json.lines().filter_map(|line| line.split_once(&named));
        rows.map(|(_, row)| row.to_owned()).collect()
    };
    let (policy, as_set) = (figures("linux-6.12"), figures("as-set"));
    assert!(!as_set.is_empty(), "{json}");
    assert!(as_set.iter().all(|row| policy.contains(row)), "{json}");
    // Without watermarks there is nothing that settings bear on, nor where the kernel has none of them.
    assert!(!squeezed(&["--watermarks", "off"]).contains("settings of the recorded kernel, under"));
    set("vm.min_free_kbytes 400\n");
    assert!(!squeezed(&[]).contains("settings of the recorded kernel, under"));
    set("vm.defrag_mode 1\n");
    let on = squeezed(&[]);
    let title = "settings of the recorded kernel, under the rules of linux-6.18-defrag\n";
    assert!(
        on.contains(title) && on.contains("vm.defrag_mode=0"),
        "{on}"
    );
}
