//! The reader of `PFT1` to `PFT5`. The file may come from anywhere: counts are held against lengths and the limit
//! before memory is taken, and each operation against what is alive.

use super::varint::used_up;
use super::{
    ABSENT, COLUMNS, COMM, COMMS_MAX, CPU, FREE, GFP, GFPTAB, INIT, MOVES, NO_GFP, OPS, PART, PID,
    PftVersion, STACK, STACKS, TICK, TICK_ORDER, UNLISTED, WORK, askers, check_free, has_frame,
    held_bytes, len_bytes_of, moves, padded, varint, work,
};
use crate::trace::in_memory::MoveCheck;
use crate::trace::{
    Askers, BadFree, InitClass, InitObject, Input, Liveness, OpKind, Trace, TraceError, TraceMove,
    TraceOp,
};
use framewright::{Frame, Mobility, Order, Run};

/// The version, and the numbers behind the magic.
struct PftHeader {
    version: PftVersion,
    nframes: u32,
    ninit: u32,
    nalloc: u32,
    nops: u32,
    ncols: u32,
}

/// What is read from while the columns are walked.
struct Columns {
    bytes: [Vec<u8>; COLUMNS.len()],
}

/// Reads a trace of the form PFT1 to PFT5.
///
/// Time: one pass over the columns; memory: the columns, and 16 bytes for each operation and each
/// initial object, refused before it is taken where it passes the input's limit.
///
/// # Errors
/// If the input cannot be read, is none of them, is cut off, or says what no trace can mean: a free of
/// what is not allocated, counts that do not match, a column too short or too long, more than the
/// input's limit lets it hold. The message
/// names the column or the operation, which count from 0.
pub fn read_pft(mut input: Input) -> Result<Trace, TraceError> {
    let header = read_header(&mut input)?;
    let columns = read_columns(&mut input, &header)?;
    parse(&header, &columns).map_err(|message| input.error(message))
}

fn read_exact(input: &mut Input, len_bytes: u64, what: &str) -> Result<Vec<u8>, TraceError> {
    let mut bytes = Vec::new();
    let read = input.read_up_to(len_bytes, &mut bytes)?;
    if read < len_bytes {
        return Err(input.error(format!(
            "{what} ends after {read} of {len_bytes} bytes (the file is cut off)"
        )));
    }
    Ok(bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .and_then(|b| b.try_into().ok())
        .map_or(0, u32::from_le_bytes)
}

fn read_header(input: &mut Input) -> Result<PftHeader, TraceError> {
    let bytes = read_exact(input, 24, "the header")?;
    let Some(version) = bytes.first_chunk().and_then(|&magic| PftVersion::of(magic)) else {
        return Err(
            input.error("the input does not start with PFT1 to PFT5, expected a trace in columns")
        );
    };
    let header = PftHeader {
        version,
        nframes: u32_at(&bytes, 4),
        ninit: u32_at(&bytes, 8),
        nalloc: u32_at(&bytes, 12),
        nops: u32_at(&bytes, 16),
        ncols: u32_at(&bytes, 20),
    };
    let expected = version.columns().len();
    if header.ncols as usize != expected {
        return Err(input.error(format!(
            "the header says {} columns, expected {expected}",
            header.ncols,
        )));
    }
    if header.ninit.checked_add(header.nalloc).is_none() {
        return Err(input.error(format!(
            "the header says {} initial objects and {} allocations, expected at most 2^32 - 1 \
             together",
            header.ninit, header.nalloc
        )));
    }
    if header.ninit > header.nframes {
        return Err(input.error(format!(
            "the header says {} initial objects in {} frames, expected no more than frames",
            header.ninit, header.nframes
        )));
    }
    Ok(header)
}

fn read_columns(input: &mut Input, header: &PftHeader) -> Result<Columns, TraceError> {
    let table = read_exact(input, 16 * u64::from(header.ncols), "the table of columns")?;
    let known = header.version.columns();
    let mut order = Vec::with_capacity(known.len());
    for entry in table.chunks_exact(16) {
        let (name, len_bytes) = entry.split_at(8);
        let column = known.iter().position(|c| padded(c) == name);
        let Some(column) = column else {
            let name = String::from_utf8_lossy(name).replace('\0', "");
            return Err(input.error(format!(
                "the column `{}` is unknown, expected one of {}",
                name.escape_default(),
                known.join(" ")
            )));
        };
        if order.iter().any(|&(c, _)| c == column) {
            let name = COLUMNS[column];
            return Err(input.error(format!("the column `{name}` is there twice, expected once")));
        }
        let len_bytes = len_bytes.try_into().map_or(0, u64::from_le_bytes);
        order.push((column, len_bytes));
    }
    check_lengths(header, &order).map_err(|message| input.error(message))?;
    let held = order.iter().fold(0u64, |sum, &(column, len_bytes)| {
        sum.saturating_add(len_bytes.saturating_mul(held_bytes(column)))
    });
    let limit = input.memory_limit().check(held);
    limit.map_err(|over| input.error(format!("the columns as the header gives them: {over}")))?;
    let mut columns = Columns {
        bytes: Default::default(),
    };
    for (column, len_bytes) in order {
        let what = format!("the column `{}`", COLUMNS[column]);
        columns.bytes[column] = read_exact(input, len_bytes, &what)?;
    }
    if !input.peek(1)?.is_empty() {
        return Err(input.error("there are bytes after the last column, expected the end"));
    }
    Ok(columns)
}

/// Holds each column's length against the header's counts.
fn check_lengths(header: &PftHeader, order: &[(usize, u64)]) -> Result<(), String> {
    let counts = [header.nframes, header.ninit, header.nops].map(u64::from);
    for &(column, len_bytes) in order {
        let (name, [nframes, ninit, nops]) = (COLUMNS[column], counts);
        let (least, most) = len_bytes_of(column, nframes, ninit, nops);
        if (least..=most).contains(&len_bytes) {
            continue;
        }
        let (n, what) = match column {
            INIT => (ninit, "objects"),
            ABSENT | UNLISTED => (nframes, "frames"),
            GFPTAB => (u64::from(NO_GFP), "words"),
            COMM => (COMMS_MAX, "names"),
            _ => (nops, "operations"),
        };
        return Err(format!(
            "the column `{name}` has {len_bytes} bytes for {n} {what}, expected {least} to {most}"
        ));
    }
    Ok(())
}

fn parse(header: &PftHeader, columns: &Columns) -> Result<Trace, String> {
    let init = parse_init(&columns.bytes[INIT], header)?;
    let absent = parse_absent(&columns.bytes[ABSENT], header, &init)?;
    let unlisted = parse_runs("unlisted", &columns.bytes[UNLISTED], header)?;
    let gfp = parse_gfptab(&columns.bytes[GFPTAB])?;
    let moves = moves::parse(&columns.bytes[MOVES])?;
    let ops = parse_ops(header, columns, &gfp, &moves)?;
    let asked = |op: &&TraceOp| matches!(op.kind(), OpKind::Alloc | OpKind::Failed);
    let requests = ops.iter().filter(asked).count();
    let [comm, stacks, stack] = [COMM, STACKS, STACK].map(|column| &*columns.bytes[column]);
    let askers = match header.version {
        PftVersion::One => Askers::default(),
        _ => askers::parse(comm, stacks, stack, requests)?,
    };
    let trace = Trace {
        nframes: u64::from(header.nframes),
        absent,
        init,
        ops,
        gfp,
        askers,
        work: work::parse(&columns.bytes[WORK], header.nops)?,
        moves,
        unlisted,
    };
    check_free(&trace, &trace.unlisted)?;
    Ok(trace)
}

fn parse_init(mut bytes: &[u8], header: &PftHeader) -> Result<Vec<InitObject>, String> {
    // Each takes at least a byte, which was checked before the column was read.
    let mut init = Vec::with_capacity(header.ninit as usize);
    let mut frame = 0i64;
    let mut is_ascending = true;
    for i in 0..header.ninit {
        let value = varint::take_signed(&mut bytes).ok_or_else(|| broken("init", i))?;
        let class = match value.rem_euclid(4) {
            0 => InitClass::Unmovable,
            1 => InitClass::Movable,
            2 => InitClass::Slab,
            _ => return Err(format!("initial object {i} has class 3, expected 0 to 2")),
        };
        let last = frame;
        frame = frame
            .checked_add(value.div_euclid(4))
            .filter(|f| (0..i64::from(header.nframes)).contains(f))
            .ok_or_else(|| {
                format!(
                    "initial object {i} is outside the machine, expected a frame below {}",
                    header.nframes
                )
            })?;
        is_ascending &= i == 0 || frame > last;
        init.push(InitObject {
            frame: Frame(frame as u64),
            class,
        });
    }
    used_up("init", bytes)?;
    if !is_ascending {
        let mut frames: Vec<Frame> = init.iter().map(|o| o.frame).collect();
        frames.sort_unstable();
        if let Some(pair) = frames.windows(2).find(|pair| pair[0] == pair[1]) {
            let frame = pair[0];
            return Err(format!(
                "two initial objects are at frame {frame}, expected one"
            ));
        }
    }
    Ok(init)
}

fn parse_absent(bytes: &[u8], header: &PftHeader, init: &[InitObject]) -> Result<Vec<Run>, String> {
    let absent = parse_runs("absent", bytes, header)?;
    match init.iter().find(|o| has_frame(&absent, o.frame)) {
        None => Ok(absent),
        Some(object) => Err(format!(
            "an initial object is at frame {}, which is absent",
            object.frame
        )),
    }
}

/// Runs that ascend; `what` they are, the column's name, stands in errors.
fn parse_runs(what: &str, mut bytes: &[u8], header: &PftHeader) -> Result<Vec<Run>, String> {
    let mut runs = Vec::new();
    let mut at = 0u64;
    while !bytes.is_empty() {
        let i = runs.len() as u32;
        let skip = varint::take(&mut bytes).ok_or_else(|| broken(what, i))?;
        let frames = varint::take(&mut bytes).ok_or_else(|| broken(what, i))?;
        let run = at
            .checked_add(skip)
            .and_then(|start| Run::new(Frame(start), frames))
            .filter(|run| run.end().0 <= u64::from(header.nframes) && !run.is_empty())
            .ok_or_else(|| {
                format!(
                    "{what} run {i} is empty or outside the machine, expected frames below {}",
                    header.nframes
                )
            })?;
        at = run.end().0;
        runs.push(run);
    }
    Ok(runs)
}

fn parse_gfptab(bytes: &[u8]) -> Result<Vec<u32>, String> {
    let (words, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() || words.len() > usize::from(NO_GFP) {
        return Err(format!(
            "the column `gfptab` has {} bytes, expected a multiple of 4 up to {}",
            bytes.len(),
            4 * usize::from(NO_GFP)
        ));
    }
    Ok(words.iter().map(|&w| u32::from_le_bytes(w)).collect())
}

fn parse_ops(
    header: &PftHeader,
    columns: &Columns,
    gfptab: &[u32],
    moves: &[TraceMove],
) -> Result<Vec<TraceOp>, String> {
    let codes = &columns.bytes[OPS];
    let mut walk = Walk {
        cpu: &columns.bytes[CPU],
        free: &columns.bytes[FREE],
        part: &columns.bytes[PART],
        gfp: &columns.bytes[GFP],
        pid: &columns.bytes[PID],
        tick: &columns.bytes[TICK],
        gfptab_len: gfptab.len(),
        live: Liveness::new(header.ninit),
    };
    let mut check = MoveCheck::new(moves, u64::from(header.nframes));
    let mut ops = Vec::with_capacity(codes.len());
    for (i, &code) in codes.iter().enumerate() {
        check.before(i, &walk.live)?;
        let op = walk
            .op(code)
            .map_err(|fault| format!("operation {i}: {fault}"))?;
        ops.push(op);
    }
    check.finish(codes.len(), &walk.live)?;
    let allocs = walk.live.objects() - header.ninit as usize;
    if allocs != header.nalloc as usize {
        return Err(format!(
            "the column `ops` has {allocs} allocations, expected {} as the header says",
            header.nalloc
        ));
    }
    used_up("cpu", walk.cpu)?;
    used_up("free", walk.free)?;
    used_up("part", walk.part)?;
    used_up("gfp", walk.gfp)?;
    used_up("pid", walk.pid)?;
    used_up("tick", walk.tick)?;
    Ok(ops)
}

/// What is left of each column.
struct Walk<'a> {
    cpu: &'a [u8],
    free: &'a [u8],
    part: &'a [u8],
    gfp: &'a [u8],
    pid: &'a [u8],
    tick: &'a [u8],
    gfptab_len: usize,
    live: Liveness,
}

/// What is wrong with an operation; words are made of it only where one is refused.
enum OpFault {
    Ends(&'static str),
    Order(u8),
    Mobility,
    FreeMobility,
    Gfp { index: u8, len: usize },
    Tick(u64),
    Free(BadFree),
}

impl std::fmt::Display for OpFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ends(column) => write!(f, "the column `{column}` ends too early or is damaged"),
            Self::Order(order) => write!(f, "order {order} is above the maximum 14"),
            Self::Mobility => f.write_str("mobility 3, expected 0 to 2"),
            Self::FreeMobility => f.write_str("a free has a mobility, expected 0"),
            Self::Gfp { index, len } => {
                write!(f, "gfp index {index}, expected one below {len}, or 255")
            }
            Self::Tick(ms) => write!(f, "a tick of {ms} ms, expected less than 2^32"),
            Self::Free(bad) => bad.fmt(f),
        }
    }
}

impl Walk<'_> {
    fn op(&mut self, code: u8) -> Result<TraceOp, OpFault> {
        let order = code >> 2 & 15;
        match code & 3 {
            0 => self.alloc(code, order, false),
            1 => {
                let order = self.free_order(code, order)?;
                let cpu = take_byte(&mut self.cpu, "cpu")?;
                let back = varint::take(&mut self.free).ok_or(OpFault::Ends("free"))?;
                let object = self.object(back)?;
                self.live.free(object, order).map_err(OpFault::Free)?;
                Ok(TraceOp::free(object, order, cpu))
            }
            2 => {
                let order = self.free_order(code, order)?;
                let cpu = take_byte(&mut self.cpu, "cpu")?;
                let back = varint::take(&mut self.part).ok_or(OpFault::Ends("part"))?;
                let offset = varint::take(&mut self.part).ok_or(OpFault::Ends("part"))?;
                let object = self.object(back)?;
                self.live
                    .free_part(object, offset, order)
                    .map_err(OpFault::Free)?;
                // The offset is inside an object of at most 2^20 frames.
                Ok(TraceOp::free_part(object, offset as u32, order, cpu))
            }
            _ if order == TICK_ORDER => {
                let ms = varint::take(&mut self.tick).ok_or(OpFault::Ends("tick"))?;
                u32::try_from(ms)
                    .map(TraceOp::tick)
                    .map_err(|_| OpFault::Tick(ms))
            }
            _ => self.alloc(code, order, true),
        }
    }

    fn alloc(&mut self, code: u8, order: u8, failed: bool) -> Result<TraceOp, OpFault> {
        // A failed one of order 15 would read as a tick, so that none may have it.
        if order == TICK_ORDER {
            return Err(OpFault::Order(order));
        }
        let mobility = Mobility::from_index(usize::from(code >> 6)).ok_or(OpFault::Mobility)?;
        let order = Order::new(order).ok_or(OpFault::Order(order))?;
        let cpu = take_byte(&mut self.cpu, "cpu")?;
        let index = take_byte(&mut self.gfp, "gfp")?;
        if index != NO_GFP && usize::from(index) >= self.gfptab_len {
            let len = self.gfptab_len;
            return Err(OpFault::Gfp { index, len });
        }
        let (&pid, rest) = self
            .pid
            .split_first_chunk::<2>()
            .ok_or(OpFault::Ends("pid"))?;
        self.pid = rest;
        if !failed {
            self.live.alloc(order);
        }
        let pid = u16::from_le_bytes(pid);
        Ok(TraceOp::alloc(failed, order, mobility, cpu, index, pid))
    }

    fn free_order(&self, code: u8, order: u8) -> Result<Order, OpFault> {
        // A free has no mobility, and the writer puts 0 there: another value would not be written
        // again.
        if code >> 6 != 0 {
            return Err(OpFault::FreeMobility);
        }
        Order::new(order).ok_or(OpFault::Order(order))
    }

    /// The object that is `back` before the newest one.
    fn object(&self, back: u64) -> Result<u32, OpFault> {
        (self.live.objects() as u64)
            .checked_sub(1)
            .and_then(|newest| newest.checked_sub(back))
            .and_then(|object| u32::try_from(object).ok())
            .ok_or(OpFault::Free(BadFree::BeforeFirst { back }))
    }
}

fn take_byte(bytes: &mut &[u8], column: &'static str) -> Result<u8, OpFault> {
    let (&first, rest) = bytes.split_first().ok_or(OpFault::Ends(column))?;
    *bytes = rest;
    Ok(first)
}

fn broken(column: &str, entry: u32) -> String {
    format!("the column `{column}` ends too early or is damaged at entry {entry}")
}
