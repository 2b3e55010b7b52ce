//! PFT2: the askers.

use crate::support::{columns_file, input, order};
use framewright::Mobility;
use framewright_lab::trace::reduce::Reducer;
use framewright_lab::trace::{
    Askers, OpKind, Recording, TextReader, Trace, TraceOp, read_pft, write_pft1, write_pft2,
};

/// Three requests by two tasks, the second one without a chain, and one that failed.
fn small() -> Trace {
    let alloc = |failed, pid| TraceOp::alloc(failed, order(0), Mobility::Movable, 0, 255, pid);
    let mut askers = Askers::default();
    askers.comms.push(b"cc1");
    askers.comms.push(b"\xffa\x1b[2J");
    for function in [&b"__alloc_skb"[..], b"tcp_sendmsg"] {
        askers.chains.functions.push(function);
    }
    askers.chains.push(&[0, 1]);
    askers.chains.push(&[1]);
    askers.chain_of = vec![1, Askers::NO_CHAIN, 0, 1];
    Trace {
        nframes: 1024,
        ops: vec![
            alloc(false, 0),
            alloc(false, 1),
            TraceOp::tick(5),
            alloc(true, 0),
            alloc(false, 1),
        ],
        askers,
        ..Trace::default()
    }
}

fn written(trace: &Trace) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_pft2(trace, &mut bytes).unwrap();
    bytes
}

const COMM: &[u8] = b"\x03cc1\x06\xffa\x1b[2J";
const STACKS: &[u8] = b"\x02\x0b__alloc_skb\x0btcp_sendmsg\x02\x00\x01\x01\x01";
const STACK: &[u8] = &[2, 0, 1, 2];

/// The same by hand, with other columns that name the askers.
fn by_hand(comm: &[u8], stacks: &[u8], stack: &[u8]) -> Vec<u8> {
    let columns: [(&[u8; 8], &[u8]); 13] = [
        (b"init\0\0\0\0", &[]),
        (b"absent\0\0", &[]),
        (b"gfptab\0\0", &[]),
        (
            b"ops\0\0\0\0\0",
            &[1 << 6, 1 << 6, 0xff, 3 | 1 << 6, 1 << 6],
        ),
        (b"cpu\0\0\0\0\0", &[0; 4]),
        (b"free\0\0\0\0", &[]),
        (b"part\0\0\0\0", &[]),
        (b"gfp\0\0\0\0\0", &[255; 4]),
        (b"pid\0\0\0\0\0", &[0, 0, 1, 0, 0, 0, 1, 0]),
        (b"tick\0\0\0\0", &[5]),
        (b"comm\0\0\0\0", comm),
        (b"stacks\0\0", stacks),
        (b"stack\0\0\0", stack),
    ];
    columns_file(b"PFT2", [1024, 0, 3, 5, 13], &columns)
}

#[test]
fn who_asked_is_written_as_the_form_says_and_read_as_it_was() {
    assert_eq!(written(&small()), by_hand(COMM, STACKS, STACK));
    assert_eq!(
        read_pft(input(written(&small())).unwrap()).unwrap(),
        small()
    );
    let found = Recording::from_input(input(written(&small())).unwrap()).unwrap();
    assert!(matches!(found, Recording::Columns(found) if *found == small()));
    // The first version is read for ever, and has the same trace without that.
    let mut bytes = Vec::new();
    write_pft1(&small(), &mut bytes).unwrap();
    let without = Trace {
        askers: Askers::default(),
        ..small()
    };
    assert_eq!(read_pft(input(bytes).unwrap()).unwrap(), without);
    // Nothing known of the askers costs three empty columns.
    let bytes = written(&without);
    assert_eq!(bytes, by_hand(&[], &[], &[]));
    assert_eq!(read_pft(input(bytes).unwrap()).unwrap(), without);
}

#[test]
fn p1_what_no_chain_or_name_can_be_is_refused_with_its_place() {
    let error = |comm: &[u8], stacks: &[u8], stack: &[u8]| {
        let bytes = by_hand(comm, stacks, stack);
        let error = read_pft(input(bytes).unwrap()).unwrap_err().to_string();
        error.strip_prefix("t: ").unwrap().to_owned()
    };
    for (comm, says) in [
        (
            &[3, b'c'][..],
            "name 0 of the column `comm` is cut off or damaged, expected at most 255 bytes",
        ),
        (
            &[0, 0x80],
            "name 1 of the column `comm` is cut off or damaged, expected at most 255 bytes",
        ),
        (
            &[&[0x80, 2][..], &[b'x'; 256]].concat(),
            "name 0 of the column `comm` is cut off or damaged, expected at most 255 bytes",
        ),
        (
            &[0; 65_537],
            "the column `comm` has more than 65536 names, expected no more",
        ),
    ] {
        assert_eq!(error(comm, STACKS, STACK), says);
    }
    for (stacks, says) in [
        (
            &[0x80][..],
            "the column `stacks` ends too early or is damaged at chain 0",
        ),
        // As bytes that would not be written again (P3).
        (
            &[0],
            "the column `stacks` has neither a function nor a chain, expected no bytes then",
        ),
        // A number of functions that is not there costs nothing.
        (
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
            "name 0 of the column `stacks` is cut off or damaged, expected at most 255 bytes",
        ),
        (
            &[1, 1, b'f', 1],
            "the column `stacks` ends too early or is damaged at chain 0",
        ),
        (
            &[1, 1, b'f', 1, 0, 1, 1],
            "chain 1 names function 1, expected one below 1",
        ),
        (
            &[1, 1, b'f', 0x80, 1],
            "chain 0 has 128 functions, expected at most 127",
        ),
    ] {
        assert_eq!(error(COMM, stacks, STACK), says);
    }
    for (stack, says) in [
        (
            &[2, 0, 1][..],
            "the column `stack` ends too early or is damaged at request 3",
        ),
        (&[2, 0, 3, 2], "request 2 has chain 2, expected one below 2"),
        (
            &[2, 0, 1, 2, 0],
            "the column `stack` has 1 bytes more than are used, expected none",
        ),
    ] {
        assert_eq!(error(COMM, STACKS, stack), says);
    }
    let says = "the column `stack` has 4 bytes more than are used, expected none";
    assert_eq!(error(COMM, &[], STACK), says);
    // Of the other version a column is unknown.
    let mut bytes = by_hand(COMM, STACKS, STACK);
    bytes[3] = b'1';
    let says = read_pft(input(bytes.clone()).unwrap())
        .unwrap_err()
        .to_string();
    assert_eq!(says, "t: the header says 13 columns, expected 10");
    bytes[3] = b'6';
    let says = read_pft(input(bytes).unwrap()).unwrap_err().to_string();
    assert!(says.contains("does not start with PFT1 to PFT5"), "{says}");
}

#[test]
fn what_the_form_cannot_hold_of_who_asked_is_refused() {
    let refused = |change: fn(&mut Trace)| {
        let mut trace = small();
        change(&mut trace);
        write_pft2(&trace, Vec::new()).unwrap_err().to_string()
    };
    let many = refused(|trace| (0..65_536).for_each(|_| trace.askers.comms.push(b"")));
    assert_eq!(many, "65538 names, PFT holds at most 65536");
    let short = refused(|trace| trace.askers.chain_of.truncate(3));
    assert_eq!(short, "3 requests have a chain or none, expected 4");
    let unknown = refused(|trace| trace.askers.chain_of[0] = 2);
    assert_eq!(unknown, "request 0 has chain 2, which is not there");
    let unknown = refused(|trace| trace.askers.chains.push(&[2]));
    assert_eq!(unknown, "chain 2 names function 2, which is not there");
}

/// The trace of a text.
fn reduced(text: &str) -> Trace {
    let mut reader = TextReader::new(input(text.as_bytes()).unwrap());
    let mut reducer = Reducer::new(None);
    while let Some(event) = reader.next_event().unwrap() {
        let asked = reader.take_asked();
        reducer.push_asked(&event, asked).unwrap();
    }
    let reducer = reducer.named(reader.take_asked(), reader.names());
    reducer.finish(None).unwrap().trace
}

/// Of each request its task's name and its chain.
fn asked(trace: &Trace) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let requests = trace.ops.iter().filter(|op| op.kind() == OpKind::Alloc);
    let of = |(at, op): (usize, &TraceOp)| {
        let askers = &trace.askers;
        let comm = askers.comms.get(usize::from(op.pid)).unwrap_or_default();
        let chain = askers
            .chain_of
            .get(at)
            .map_or(Askers::NO_CHAIN, |&chain| chain);
        let chain: Vec<String> = askers.chains.names(chain as usize).map(text).collect();
        (text(comm), chain.join(";"))
    };
    requests.enumerate().map(of).collect()
}

#[test]
fn perf_script_text_names_the_command_and_the_kernels_part_of_the_chain() {
    let trace = reduced(
        "cc1 12/12 [001] 1.5: kmem:mm_page_alloc: page=0x1 pfn=0x1 order=0 migratetype=0 gfp_flags=GFP_KERNEL\n\
         \tffffffff81 __alloc_pages+0x1 ([kernel.kallsyms])\n\
         \tffffffff82 __alloc_skb+0x2 ([kernel.kallsyms])\n\
         \t7f0012 main+0x2 (/usr/bin/cc1)\n\
         \t7f0013 [unknown] ([unknown])\n\
         \n\
         a b 13/13 [001] 1.6: kmem:mm_page_alloc: page=0x2 pfn=0x2 order=0 migratetype=0 gfp_flags=GFP_KERNEL\n\
         a b 13/13 [001] 1.6: kmem:mm_page_free: page=0x2 pfn=0x2 order=0\n\
         \tffffffff81 free_pages+0x1 ([kernel.kallsyms])\n\
         cc1 12/12 [001] 1.7: kmem:mm_page_alloc: page=0x3 pfn=0x3 order=0 migratetype=0 gfp_flags=GFP_KERNEL\n\
         \tffffffff81 __alloc_pages+0x3 ([kernel.kallsyms])\n\
         \tffffffff82 __alloc_skb+0x4 ([kernel.kallsyms])",
    );
    let skb = "__alloc_pages;__alloc_skb";
    let said = asked(&trace);
    let said: Vec<(&str, &str)> = said.iter().map(|(a, b)| (&**a, &**b)).collect();
    assert_eq!(said, [("cc1", skb), ("a b", ""), ("cc1", skb)]);
    assert_eq!(trace.askers.chains.len(), 1, "each chain once");
    assert!(
        !trace
            .askers
            .chains
            .functions
            .iter()
            .any(|name| name == b"free_pages")
    );
    let read = read_pft(input(written(&trace)).unwrap()).unwrap();
    assert_eq!(read, trace);
}

#[test]
fn ftrace_text_gives_a_stack_to_the_last_request_of_its_cpu_and_tasks_their_names() {
    let alloc = |task: &str, cpu: u32, time: &str, pfn: u32| {
        format!(
            "{task:>21} [00{cpu}] ..... {time}: mm_page_alloc: page=00000000aa pfn={pfn} order=0 migratetype=0 gfp_flags=GFP_KERNEL\n"
        )
    };
    let text = "# tracer: nop\n".to_owned()
        + &alloc("<...>-7", 0, "1.0", 1)
        + &alloc("cc1-8", 1, "1.0", 2)
        + "           <...>-7       [000] ..... 1.000001: <stack trace>\n => __alloc_pages\n => skb_page_frag_refill\n"
        + "           cc1-8         [001] ..... 1.000002: task_newtask: pid=7 comm=make clone_flags=0 oom_score_adj=0\n"
        + "           cc1-8         [001] ..... 1.000003: <stack trace>\n => copy_process\n"
        + &alloc("<...>-7", 0, "1.1", 3)
        + "             make-7      [000] ..... 1.100001: task_rename: pid=7 oldcomm=make newcomm=c c oom_score_adj=0\n"
        + &alloc("make-7", 0, "1.2", 4)
        + "           <...>-7       [000] ..... 1.200001: <stack trace>\n => __alloc_pages\n => skb_page_frag_refill\n";
    let trace = reduced(&text);
    let said = asked(&trace);
    let said: Vec<(&str, &str)> = said.iter().map(|(a, b)| (&**a, &**b)).collect();
    let chain = "__alloc_pages;skb_page_frag_refill";
    let expected = [("", chain), ("cc1", ""), ("make", ""), ("c c", chain)];
    assert_eq!(said, expected);
    assert_eq!(trace.askers.chains.len(), 1, "each chain once");
}
