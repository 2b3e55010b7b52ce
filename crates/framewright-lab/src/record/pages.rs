//! The kernel's pages on their way into a stream: copied whole, and neither printed nor understood.
//!
//! Each CPU has a buffer of its own, and a reader of the stream wants all CPUs' events in one order. So the CPU that was
//! read least far comes next, and every few MiB, and whenever all CPUs are read, the stream says up to which time it has
//! all events (`until`). A reader holds back no more than that.

use super::outlet::TakesStream;
use super::stream_writer::{Pumped, StreamWriter, TakesEvents};
use crate::trace::{PAGES, PageFormats, SECTION_BYTES_MAX, UNTIL, kept_bytes};
use rustix::io::Errno;
use std::io::{self, Read};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Pages of one CPU that are read at once.
const PAGES_AT_ONCE: usize = 16;

/// How much is written before the stream says again up to when it has all events.
const UNTIL_EVERY_BYTES: usize = 4 << 20;

/// A CPU takes the time of an event before it has written it, and may be stopped in between. What comes later than this is
/// out of order; the reduction counts it.
const LATE: Duration = Duration::from_millis(20);

/// How often the names of tasks are looked up, where only the kernel knows them.
const NAMES_EVERY: Duration = Duration::from_secs(1);

/// One CPU's buffer.
#[derive(Debug)]
struct CpuBuffer<R> {
    cpu: u16,
    pages: R,
    /// All its events up to this time are read.
    read_to_ns: u64,
    /// In this round it has no more to give.
    is_done: bool,
}

/// All CPUs' buffers.
#[derive(Debug)]
pub(super) struct KernelPages<R> {
    buffers: Vec<CpuBuffer<R>>,
    formats: PageFormats,
    now: fn() -> u64,
    /// Since when all CPUs are being read, until they are: a round.
    since_ns: Option<u64>,
    /// Tracing is off: a round reads each buffer to its end.
    is_last: bool,
    unsaid_bytes: usize,
    said_until_ns: u64,
    page: Box<[u8]>,
    section: Vec<u8>,
    /// The kernel's own list of tasks' names, where no other is to be had, and when it was read.
    names: Option<(PathBuf, Option<Instant>)>,
}

impl<R: Read> KernelPages<R> {
    /// `now` is the clock of the events, in nanoseconds.
    pub(super) fn new(
        buffers: impl IntoIterator<Item = (u16, R)>,
        formats: PageFormats,
        names: Option<PathBuf>,
        now: fn() -> u64,
    ) -> Self {
        let buffers = buffers.into_iter().map(|(cpu, pages)| CpuBuffer {
            cpu,
            pages,
            read_to_ns: 0,
            is_done: false,
        });
        Self {
            buffers: buffers.collect(),
            page: vec![0; formats.page_bytes()].into_boxed_slice(),
            formats,
            now,
            since_ns: None,
            is_last: false,
            unsaid_bytes: 0,
            said_until_ns: 0,
            section: Vec::new(),
            names: names.map(|path| (path, None)),
        }
    }

    /// Reads what the CPU has, up to some pages. What was read before an error is in the section.
    fn read(&mut self, nth: usize, since_ns: u64) -> io::Result<()> {
        let buffer = &mut self.buffers[nth];
        self.section.clear();
        let pages_max = PAGES_AT_ONCE.min(SECTION_BYTES_MAX / self.page.len().max(1));
        for _ in 0..pages_max {
            let got = match buffer.pages.read(&mut self.page) {
                Ok(got) if got > 0 => got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // The kernel has no page to read into, and does not try hard for one: what the CPU has comes later.
                Err(error) if Errno::from_io_error(&error) == Some(Errno::NOMEM) => {
                    buffer.is_done = true;
                    return Ok(());
                }
                Err(error) if !is_none_for_the_moment(&error) => return Err(error),
                _ => {
                    buffer.read_to_ns = buffer.read_to_ns.max(since_ns);
                    buffer.is_done = true;
                    return Ok(());
                }
            };
            let kept = kept_bytes(&self.formats, &self.page[..got]).map_err(|fault| {
                io::Error::other(format!("a page of CPU {}'s buffer: {fault}", buffer.cpu))
            })?;
            buffer.read_to_ns = buffer.read_to_ns.max(kept.time_ns);
            if kept.is_used {
                self.section.extend_from_slice(&self.page[..kept.len_bytes]);
            }
        }
        // What came since the round began is the next one's, unless there is none.
        buffer.is_done = buffer.read_to_ns >= since_ns && !self.is_last;
        Ok(())
    }

    /// Reads all CPUs anew: since when.
    fn begin_round(&mut self) -> u64 {
        let since_ns = (self.now)();
        self.since_ns = Some(since_ns);
        for buffer in &mut self.buffers {
            buffer.is_done = buffer.read_to_ns >= since_ns && !self.is_last;
        }
        since_ns
    }

    /// Says up to when all events are there.
    fn say_until<T: TakesStream>(&mut self, writer: &mut StreamWriter<T>) -> io::Result<()> {
        self.unsaid_bytes = 0;
        let read_to = self.buffers.iter().map(|buffer| buffer.read_to_ns).min();
        let until_ns = read_to.unwrap_or(0).saturating_sub(LATE.as_nanos() as u64);
        if until_ns <= self.said_until_ns {
            return Ok(());
        }
        self.said_until_ns = until_ns;
        writer.section(UNTIL, format!("{until_ns}\n").as_bytes())
    }

    /// Writes what tasks are called, in front of events of theirs.
    fn write_names<T: TakesStream>(&mut self, writer: &mut StreamWriter<T>) -> io::Result<()> {
        let Some((path, read)) = &mut self.names else {
            return Ok(());
        };
        if read.is_some_and(|read| read.elapsed() < NAMES_EVERY) {
            return Ok(());
        }
        *read = Some(Instant::now());
        let mut names = std::fs::read(path).unwrap_or_default();
        if names.len() > SECTION_BYTES_MAX {
            // Whole names.
            let end = memchr::memrchr(b'\n', &names[..SECTION_BYTES_MAX]);
            names.truncate(end.map_or(0, |end| end + 1));
        }
        writer.section("tasks", &names)
    }
}

/// Whether a read found no page: the buffer is empty, or the CPU is one of those that the machine could have and was never
/// there so far.
fn is_none_for_the_moment(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || Errno::from_io_error(error) == Some(Errno::NODEV)
}

impl<R: Read> TakesEvents for KernelPages<R> {
    fn move_some<T: TakesStream>(&mut self, writer: &mut StreamWriter<T>) -> io::Result<Pumped> {
        let since_ns = match self.since_ns {
            Some(since_ns) => since_ns,
            None => self.begin_round(),
        };
        let left = self.buffers.iter().enumerate();
        let left = left.filter(|(_, buffer)| !buffer.is_done);
        let furthest_behind = left.min_by_key(|(_, buffer)| buffer.read_to_ns);
        let Some((nth, _)) = furthest_behind else {
            self.since_ns = None;
            self.say_until(writer)?;
            return Ok(Pumped::Idle);
        };
        let read = self.read(nth, since_ns);
        if !self.section.is_empty() {
            self.write_names(writer)?;
            let name = format!("{PAGES}{}", self.buffers[nth].cpu);
            writer.section(&name, &self.section)?;
            self.unsaid_bytes += self.section.len();
            if self.unsaid_bytes > UNTIL_EVERY_BYTES {
                self.say_until(writer)?;
            }
        }
        read.map(|()| Pumped::More)
    }

    fn end(&mut self) {
        self.is_last = true;
        self.begin_round();
    }
}

#[cfg(test)]
mod tests {
    use super::super::kernel::{BufferKeeps, Instance, Tracefs, running_tasks};
    use super::super::stream_writer::{StreamPump, StreamStop};
    use super::*;
    use crate::trace::{
        EventKind, FORMATS, Input, Recording, STREAM_MAGIC_PAGES, TextReader, TraceEvent, WhoAsked,
    };
    use std::collections::VecDeque;
    use std::fs;
    use std::path::Path;
    use std::process::Command;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::thread;

    /// Takes everything.
    #[derive(Default)]
    struct TakenStream(Vec<u8>);

    impl TakesStream for TakenStream {
        fn take(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn room_bytes(&self) -> Option<u64> {
            None
        }
    }

    /// A buffer with pages that begin at these times, each of some bytes; a read that finds none would have to wait.
    struct FakeBuffer(VecDeque<(u64, usize)>);

    impl Read for FakeBuffer {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let (time_ns, data_bytes) = self.0.pop_front().ok_or(io::ErrorKind::WouldBlock)?;
            // What the kernel does not use of a page is zeros.
            out.fill(0);
            out[..8].copy_from_slice(&time_ns.to_le_bytes());
            out[8..16].copy_from_slice(&(data_bytes as u64).to_le_bytes());
            Ok(out.len())
        }
    }

    /// A buffer whose reads give pages or the system's errors, in turn, and then would have to wait.
    struct FakeReads(VecDeque<Result<(u64, usize), i32>>);

    impl Read for FakeReads {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            match self.0.pop_front().ok_or(io::ErrorKind::WouldBlock)? {
                Ok(page) => FakeBuffer([page].into()).read(out),
                Err(code) => Err(io::Error::from_raw_os_error(code)),
            }
        }
    }

    const ENODEV: i32 = 19;
    const ENOMEM: i32 = 12;
    const EIO: i32 = 5;

    /// The sections that were taken, each by its name and its length, without what stands in them.
    fn sections(taken: &[u8]) -> Vec<String> {
        let text = String::from_utf8_lossy(taken);
        let lines = text
            .split('#')
            .filter_map(|rest| rest.strip_prefix("section "));
        let names = lines.filter_map(|line| line.split('\n').next());
        names.map(str::to_owned).collect()
    }

    /// tracefs has files of each CPU that the machine could have. Of one that was never there a read says ENODEV; it may come
    /// later. ENOMEM says that the kernel found no page to read into, and a later read may.
    #[test]
    fn a_cpu_that_is_not_there_and_one_without_memory_to_read_into_come_later() {
        static CLOCK_NS: AtomicU64 = AtomicU64::new(0);
        for code in [ENODEV, ENOMEM] {
            CLOCK_NS.store(ms(400), Ordering::Relaxed);
            let now = || CLOCK_NS.load(Ordering::Relaxed);
            let late = [Err(code), Err(code), Ok((ms(300), 8))].into();
            let there = (1..=3).map(|nth| Ok((ms(100 * nth), 8))).collect();
            let buffers = [(0, FakeReads(there)), (1, FakeReads(late))];
            let pages = KernelPages::new(buffers, formats(), None, now);
            let writer = StreamWriter::new(TakenStream::default(), None, b"").unwrap();
            let mut pump = StreamPump::new(pages, writer, 0);
            assert_eq!(pump.pump().unwrap(), Pumped::Idle);
            pump.writer.give().unwrap();
            let mut expected = vec![format!("pages.0 {}", 3 * 24)];
            // A CPU without memory may have events that are older than all others'.
            if code == ENODEV {
                expected.push("until 10".into());
            }
            assert_eq!(sections(&pump.writer.outlet().0), expected, "{code}");
            // Not there a second time, and then it is.
            for later in [500, 600] {
                CLOCK_NS.store(ms(later), Ordering::Relaxed);
                assert_eq!(pump.pump().unwrap(), Pumped::Idle);
            }
            pump.writer.give().unwrap();
            let taken = sections(&pump.writer.outlet().0);
            assert!(
                taken.contains(&"pages.1 24".to_owned()),
                "{code}: {taken:?}"
            );
        }
    }

    #[test]
    fn what_was_read_before_an_error_is_written() {
        let reads = [Ok((ms(1), 8)), Ok((ms(2), 8)), Err(EIO)].into();
        let pages = KernelPages::new([(5, FakeReads(reads))], formats(), None, || ms(9));
        let writer = StreamWriter::new(TakenStream::default(), None, b"").unwrap();
        let mut pump = StreamPump::new(pages, writer, 0);
        let stop = pump.pump().unwrap_err();
        assert!(
            matches!(&stop, StreamStop::Failed(error) if error.raw_os_error() == Some(EIO)),
            "{stop:?}"
        );
        assert_eq!(sections(&pump.writer.outlet().0), ["pages.5 48"]);
    }

    /// Takes nothing for so many looks, and then everything.
    struct SlowStream {
        refusals: u32,
        taken: Vec<u8>,
    }

    impl TakesStream for SlowStream {
        fn take(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.refusals > 0 {
                self.refusals -= 1;
                return Ok(0);
            }
            self.taken.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn room_bytes(&self) -> Option<u64> {
            None
        }
    }

    /// A round that began while the outlet took nothing knows no event that came after its beginning.
    #[test]
    fn the_end_reads_every_buffer_to_its_end_whenever_its_events_were_written() {
        static CLOCK_NS: AtomicU64 = AtomicU64::new(0);
        CLOCK_NS.store(ms(500), Ordering::Relaxed);
        let busy = (1..=600).map(|nth| (ms(nth), 4080)).collect();
        let quiet = (0..40).map(|nth| (ms(150 + nth), 4080)).collect();
        let buffers = [(0, FakeBuffer(busy)), (1, FakeBuffer(quiet))];
        let now = || CLOCK_NS.load(Ordering::Relaxed);
        let pages = KernelPages::new(buffers, formats(), None, now);
        let outlet = SlowStream {
            refusals: 30,
            taken: Vec::new(),
        };
        let writer = StreamWriter::new(outlet, None, b"").unwrap();
        let mut pump = StreamPump::new(pages, writer, 0);
        assert_eq!(pump.pump().unwrap(), Pumped::Idle);
        CLOCK_NS.store(ms(900), Ordering::Relaxed);
        let no = AtomicBool::new(false);
        pump.drain(&no).unwrap();
        let (outlet, _) = pump.writer.finish(&no).unwrap();
        let sections = sections(&outlet.taken);
        let bytes_of = |cpu: &str| {
            let lengths = sections.iter().filter_map(|line| line.strip_prefix(cpu));
            lengths
                .map(|length| length.parse::<u64>().unwrap())
                .sum::<u64>()
        };
        assert_eq!(bytes_of("pages.0 "), 600 * 4096);
        assert_eq!(bytes_of("pages.1 "), 40 * 4096);
    }

    fn formats() -> PageFormats {
        let page = "field: u64 timestamp; offset:0; size:8;\nfield: local_t commit; offset:8; size:8;\nfield: char data; offset:16; size:4080;\n";
        let event = "name: one\nID: 7\nfield:u16 common_type; offset:0; size:2;\nfield:u8 common_flags; offset:2; size:1;\nfield:int common_pid; offset:4; size:4;\n";
        PageFormats::read([b"byte_order little\n", page.as_bytes(), event.as_bytes()]).unwrap()
    }

    fn ms(ms: u64) -> u64 {
        ms * 1_000_000
    }

    #[test]
    fn the_cpu_that_was_read_least_far_comes_next_and_the_stream_says_how_far_all_are_read() {
        // The first CPU has many pages, of which the first sixteen are read at once; the second one has two.
        let busy = (1..=20).map(|nth| (ms(100 * nth), 8)).collect();
        let quiet = [(ms(50), 4080), (ms(1650), 0)].into();
        let buffers = [(0, FakeBuffer(busy)), (7, FakeBuffer(quiet))];
        let pages = KernelPages::new(buffers, formats(), None, || ms(1900));
        let writer = StreamWriter::new(TakenStream::default(), None, b"").unwrap();
        let mut pump = StreamPump::new(pages, writer, 0);
        assert_eq!(pump.pump().unwrap(), Pumped::Idle);
        let no = AtomicBool::new(false);
        let (taken, _) = pump
            .writer
            .finish(&no)
            .map_err(|stop: StreamStop| stop)
            .unwrap();
        let sections = sections(&taken.0);
        // Neither what is not used of a page is written nor a page without records. The last two of the busy CPU began when
        // all was being read already; they are read all the same, with the others.
        let expected = [
            format!("pages.0 {}", 16 * 24),
            format!("pages.7 {}", 4096),
            format!("pages.0 {}", 4 * 24),
            "until 11".into(),
        ];
        assert_eq!(sections, expected);
        assert!(
            taken.0.ends_with(b"\n1880000000\n"),
            "20 ms for events that come late"
        );
    }

    #[test]
    fn what_is_no_page_ends_the_recording_with_its_cpu() {
        let buffers = [(3, FakeBuffer([(5, 9999)].into()))];
        let pages = KernelPages::new(buffers, formats(), None, || 10);
        let writer = StreamWriter::new(TakenStream::default(), None, b"").unwrap();
        let stop = StreamPump::new(pages, writer, 0).pump().unwrap_err();
        let says = "a page of CPU 3's buffer: its records have 9999 bytes, expected at most 4080";
        assert!(
            matches!(&stop, StreamStop::Failed(error) if error.to_string() == says),
            "{stop:?}"
        );
    }

    fn events(mut reader: TextReader) -> (Vec<(TraceEvent, WhoAsked)>, TextReader) {
        let mut events = Vec::new();
        while let Some(event) = reader.next_event().unwrap() {
            events.push((event, reader.take_asked()));
        }
        (events, reader)
    }

    fn of_stream(stream: Vec<u8>) -> TextReader {
        let input = Input::from_reader("pages", io::Cursor::new(stream)).unwrap();
        match Recording::from_input(input).unwrap() {
            Recording::Stream(stream) => stream.into_events().unwrap().0,
            _ => panic!("no stream"),
        }
    }

    /// Traces tasks that come and go; where a sample is kept, fewer, while memory is compacted.
    fn trace(instance: &Instance<'_>, kept: bool) {
        let compacting = kept
            .then(|| std::thread::spawn(|| fs::write("/proc/sys/vm/compact_memory", "1").unwrap()));
        let script = match kept {
            true => ":",
            false => "for i in 1 2 3 4 5 6; do sh -c :; done",
        };
        instance.set_tracing(true).unwrap();
        let done = Command::new("sh").args(["-c", script]).status();
        instance.set_tracing(false).unwrap();
        assert!(done.unwrap().success());
        if let Some(compacting) = compacting {
            compacting.join().unwrap();
        }
    }

    /// What copies the instance's pages, into memory.
    fn pump_of(instance: &Instance<'_>) -> StreamPump<KernelPages<fs::File>, TakenStream> {
        let texts = instance.page_formats().unwrap();
        let formats = PageFormats::read([0, 1, 2].map(|nth| texts[nth].as_bytes())).unwrap();
        let now = crate::record::monotonic_ns;
        let pages = KernelPages::new(instance.pages().unwrap(), formats, None, now);
        let mut writer =
            StreamWriter::new(TakenStream::default(), None, STREAM_MAGIC_PAGES).unwrap();
        for (name, text) in FORMATS.iter().zip(&texts) {
            writer.section(name, text.as_bytes()).unwrap();
        }
        StreamPump::new(pages, writer, 0)
    }

    /// `FRAMEWRIGHT_SAMPLE` names a folder where both forms are kept: so `traces/pages.*` was made.
    #[test]
    fn pages_of_this_kernel_mean_what_it_prints_of_them() {
        let Ok(tracefs) = Tracefs::open() else {
            println!("skipped: not root, or no tracefs");
            return;
        };
        let kept = std::env::var_os("FRAMEWRIGHT_SAMPLE");
        let instance = Instance::make(&tracefs, 64, BufferKeeps::Oldest).unwrap();
        if instance.adds_chains() {
            println!("skipped: this machine's tracing adds call chains to events");
            return;
        }
        trace(&instance, kept.is_some());
        // Reading the text takes nothing from the buffers.
        let mut text = Vec::new();
        instance.text().unwrap().read_to_end(&mut text).unwrap();
        let mut pump = pump_of(&instance);
        let no = AtomicBool::new(false);
        pump.drain(&no).unwrap();
        let fill = instance.fill().unwrap();
        assert_eq!(fill.events, 0, "nothing is left");
        let (TakenStream(stream), _) = pump.writer.finish(&no).unwrap();
        let tasks = running_tasks();
        let read = |mut reader: TextReader| {
            for (task, name) in &tasks {
                reader.name_task(*task, name);
            }
            events(reader)
        };
        let input = Input::from_reader("text", io::Cursor::new(text.clone())).unwrap();
        let (printed, text_reader) = read(TextReader::new(input));
        let (held, page_reader) = read(of_stream(stream.clone()));
        assert!(printed.len() > 200, "{}", printed.len());
        assert_eq!(held.len(), printed.len());
        assert_eq!(fill.read, held.len() as u64);
        let name = |reader: &TextReader, asked: &WhoAsked| {
            let name = asked
                .comm
                .and_then(|place| reader.names().comms().get(place as usize));
            name.map(<[u8]>::to_vec)
        };
        let mut named = 0;
        for ((held, held_by), (printed, printed_by)) in held.iter().zip(&printed) {
            // The kernel prints microseconds, rounded.
            let rounded = (held.time_ns + 500) / 1000 * 1000;
            let held = TraceEvent {
                time_ns: rounded,
                ..*held
            };
            assert_eq!(held, *printed);
            assert_eq!(held_by.is_interrupt, printed_by.is_interrupt, "{printed:?}");
            let names = [name(&page_reader, held_by), name(&text_reader, printed_by)];
            if let [Some(held), Some(printed)] = &names {
                assert_eq!(held, printed);
                named += 1;
            }
        }
        assert!(
            named > held.len() / 2 || tasks.is_empty(),
            "{named} of {}",
            held.len()
        );
        let has = |is: fn(&EventKind) -> bool| held.iter().any(|(event, _)| is(&event.kind));
        assert!(has(|kind| matches!(kind, EventKind::Alloc { .. })));
        assert!(has(|kind| matches!(kind, EventKind::Free { .. })));
        let (held, printed) = (page_reader.counts(), text_reader.counts());
        assert_eq!(held.others, printed.others);
        assert_eq!(held.anomalies(), printed.anomalies());
        if let Some(folder) = kept {
            keep(Path::new(&folder), &stream, &text);
        }
    }

    /// Where the kernel overwrote what was not read, the pages behind that say how much, and are read like any others.
    #[test]
    fn events_that_this_kernel_overwrote_are_told_and_the_rest_is_whole() {
        let Ok(tracefs) = Tracefs::open() else {
            println!("skipped: not root, or no tracefs");
            return;
        };
        let instance = Instance::make(&tracefs, 1, BufferKeeps::Newest).unwrap();
        if instance.adds_chains() {
            println!("skipped: this machine's tracing adds call chains to events");
            return;
        }
        let mut pump = pump_of(&instance);
        for _ in 0..2 {
            // Until a CPU has overwritten events of its own, and then what is there is read: a second time behind those.
            instance.set_tracing(true).unwrap();
            let start = Instant::now();
            let is_late = || start.elapsed() > Duration::from_secs(60);
            let before = instance.fill().unwrap().overwritten;
            // One process of this one's: while a new one begins, it holds what other tests have open.
            let busy = ["-c", "while :; do sh -c :; done"];
            let mut child = Command::new("sh").args(busy).spawn().unwrap();
            while instance.fill().unwrap().overwritten == before && !is_late() {
                thread::sleep(Duration::from_millis(10));
            }
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(!is_late(), "no overrun");
            pump.pump().unwrap();
        }
        instance.set_tracing(false).unwrap();
        let no = AtomicBool::new(false);
        pump.drain(&no).unwrap();
        let fill = instance.fill().unwrap();
        let (TakenStream(stream), _) = pump.writer.finish(&no).unwrap();
        let (held, reader) = events(of_stream(stream));
        let counts = reader.counts();
        // One for each of both times: of a CPU that has lost some, or of several.
        let is_lost = |event: &TraceEvent| matches!(event.kind, EventKind::Lost(_));
        let lost = held.iter().filter(|(event, _)| is_lost(event)).count();
        assert!(lost >= 2, "{lost}");
        assert_eq!((held.len() - lost) as u64, fill.read);
        assert_eq!(fill.events, 0, "nothing is left");
        // The kernel says how many only where the page has room behind its records.
        match counts.lost_unknown {
            0 => assert_eq!(counts.lost_events, fill.overwritten),
            _ => assert!(counts.lost_events < fill.overwritten, "{counts:?}"),
        }
    }

    fn keep(folder: &Path, stream: &[u8], text: &[u8]) {
        for (name, bytes) in [("pages.stream.zst", stream), ("pages.ftrace.zst", text)] {
            let packed = zstd::encode_all(bytes, 19).unwrap();
            println!("{name}: {} bytes", packed.len());
            fs::write(folder.join(name), packed).unwrap();
        }
    }
}
