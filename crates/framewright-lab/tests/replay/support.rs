//! Small traces, and the command.

use assert_cmd::Command;
use framewright::{Frame, Mobility, Order};
use framewright_lab::trace::{InitClass, InitObject, Trace, TraceOp, write_pft1};
use std::path::{Path, PathBuf};

/// The command `framewright`, as built for the tests.
pub(crate) fn framewright(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_framewright"));
    command.args(args);
    command
}

/// What the command prints, and how it ends.
pub(crate) fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let output = framewright(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// The repository's traces.
pub(crate) fn repository(file: &str) -> String {
    format!("{}/../../traces/{file}", env!("CARGO_MANIFEST_DIR"))
}

/// A recorded trace beside the repository, or `None` said aloud.
pub(crate) fn recorded(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("FRAMEWRIGHT_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let path = root.join("traces").join(name);
    if !path.is_file() {
        println!("skipped: {} is not there", path.display());
        return None;
    }
    Some(path)
}

pub(crate) fn as_str(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// 32 MiB that fill up: three quarters in use at the start, then `ops` random operations of
/// orders 0 to 4 and 9 of every mobility, so that each policy has to fall back and to fail.
pub(crate) fn tight(ops: usize, seed: u64) -> Trace {
    // The files in `tests/golden` are of this sequence.
    let mut state = seed;
    let mut below = |bound: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let mut trace = Trace {
        nframes: 8192,
        gfp: vec![0xcc0],
        ..Trace::default()
    };
    for frame in (0..8192).filter(|frame| frame % 4 != 3) {
        // A tenth of the pageblocks hold what cannot move.
        let class = match frame / 512 {
            3 => InitClass::Unmovable,
            7 => InitClass::Slab,
            _ => InitClass::Movable,
        };
        trace.init.push(InitObject {
            frame: Frame(frame),
            class,
        });
    }
    let mut live: Vec<(u32, u8)> = (0..trace.init.len() as u32).map(|id| (id, 0)).collect();
    let mut next = live.len() as u32;
    while trace.ops.len() < ops {
        let cpu = below(2) as u8;
        if below(100) < 51 {
            let order = match below(20) {
                0 => 9,
                1..=3 => 3,
                4 => 4,
                5..=7 => below(3) as u8,
                _ => 0,
            };
            let mobility = Mobility::from_index([0, 1, 1, 2][below(4) as usize]).unwrap();
            let failed = below(200) == 0;
            let op = TraceOp::alloc(failed, Order::new(order).unwrap(), mobility, cpu, 0, 1);
            trace.ops.push(op);
            if !failed {
                live.push((next, order));
                next += 1;
            }
        } else {
            let (id, order) = live.swap_remove(below(live.len() as u64) as usize);
            let order = Order::new(order).unwrap();
            match Order::new(order.get().wrapping_sub(1)) {
                Some(half) if order.get() == 3 => {
                    trace
                        .ops
                        .push(TraceOp::free_part(id, half.frames() as u32, half, cpu));
                    trace.ops.push(TraceOp::free_part(id, 0, half, cpu));
                }
                _ => trace.ops.push(TraceOp::free(id, order, cpu)),
            }
        }
        if trace.ops.len().is_multiple_of(97) {
            trace.ops.push(TraceOp::tick(200));
        }
    }
    trace
}

/// Writes a trace as `NAME.pft` into `folder`.
pub(crate) fn write(trace: &Trace, folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(format!("{name}.pft"));
    let mut bytes = Vec::new();
    write_pft1(trace, &mut bytes).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path
}
