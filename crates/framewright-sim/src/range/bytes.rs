//! A sequence of operations out of bytes, for the fuzzer.

use super::{DrivenCase, RangeCase, RangeOp, RunSummary, run};
use crate::MachineCall;
use crate::drive::explain;
use framewright::vrange::AreaKind;
use framewright::{Context, Page};

/// Windows above this make a run of random bytes too slow.
const PAGES_MAX: u64 = 512;

/// Runs a sequence that the bytes describe on engine and model, for a fuzzer: any bytes are a case,
/// a call of the platform that is made to fail, and a sequence of operations.
///
/// | bytes | |
/// |---|---|
/// | 0 | which of the small cases |
/// | 1, 2 | which kind of call fails, if any, and how many succeed before |
/// | six each | an operation: which, by which CPU; and its numbers |
///
/// # Errors
/// The difference, and the shortened sequence of operations that leads to it.
pub fn run_bytes(bytes: &[u8]) -> Result<RunSummary, String> {
    let Some((&[case, fault, after], rest)) = bytes.split_first_chunk() else {
        return Ok(RunSummary::default());
    };
    let cases: Vec<RangeCase> = RangeCase::all()
        .into_iter()
        .filter(|case| case.layout.pages <= PAGES_MAX)
        .collect();
    let mut case = cases[usize::from(case) % cases.len()];
    case.cadence.verify_every = 8;
    let ops: Vec<RangeOp> = rest
        .chunks_exact(6)
        .map(|bytes| op(&case, bytes.try_into().expect("six bytes")))
        .collect();
    let paging = case.paging();
    if let Some(&call) = [
        MachineCall::Map,
        MachineCall::Unmap,
        MachineCall::Flush,
        MachineCall::Frames,
    ]
    .get(usize::from(fault % 8))
    {
        paging.machine().fail(call, u64::from(after), 1);
        // What an operation does when a call fails depends on how many there were before, so such a
        // sequence cannot be shortened.
        return run(&case, &paging, ops.iter().copied()).map_err(|finding| {
            format!(
                "{}, {call:?} {after} fails, operation {}: {}\n  after {:#?}",
                case.name,
                finding.at,
                finding.difference,
                &ops[..ops.len().min(finding.at + 1)]
            )
        });
    }
    run(&case, &paging, ops.iter().copied()).map_err(|finding| {
        let ops = &ops[..ops.len().min(finding.at + 1)];
        format!("{}, {}", case.name, explain(&case, ops, &finding))
    })
}

/// The operation that six bytes are.
fn op(case: &RangeCase, [what, by, a, b, c, d]: [u8; 6]) -> RangeOp {
    let cpu = u16::from(by) % case.layout.cpus;
    let pick = u32::from_le_bytes([a, b, c, d]);
    let at = u64::from(u16::from_le_bytes([a, b])) % (case.layout.pages + 4);
    let kind = [AreaKind::Plain, AreaKind::Vmalloc, AreaKind::Ram][usize::from(c) % 3];
    match what {
        0..112 => RangeOp::Alloc {
            cpu,
            kind,
            pages: match a {
                // The lengths at all limits.
                255 => u64::MAX - u64::from(b),
                254 => 1 << (b % 64),
                253 => (case.layout.pages + 2).saturating_sub(u64::from(b % 4)),
                200..253 => u64::from(u16::from_le_bytes([b, a])) % (case.layout.pages + 2),
                _ => u64::from(a % 16),
            },
            align_bytes: match d {
                255 => u64::from(b),
                128..255 => Page::BYTES << (d % 52),
                64..128 => Page::BYTES << (d % 8),
                _ => Page::BYTES,
            },
            guard_before: by & 32 > 0,
            huge: by & 16 > 0,
            zero: by & 64 > 0,
            context: if by >= 192 {
                Context::NOWAIT
            } else {
                Context::ANY
            },
        },
        112..192 => RangeOp::Free { cpu, pick },
        192..197 => RangeOp::FreeTwice { cpu, pick },
        197..200 => RangeOp::FreeAtomic { pick },
        200..210 => RangeOp::FreeWrong {
            cpu,
            pick: u32::from(a),
            kind,
            offset: u64::from(b),
            more: d as i8,
        },
        210..220 => RangeOp::FreeAny {
            cpu,
            at,
            kind,
            pages: u64::from(d),
        },
        220..232 => RangeOp::Touch {
            cpu,
            pick: u32::from(a),
            nth: u64::from(b),
        },
        232..238 => RangeOp::TouchAny { cpu, at },
        238..244 => RangeOp::Find { at },
        244..249 => RangeOp::Purge { cpu },
        249..252 => RangeOp::Drain { cpu },
        252..254 => RangeOp::Reseat { cpu },
        254..=255 => RangeOp::FreeDeferred { cpu },
    }
}
