//! The columns that name the askers.

use super::varint::used_up;
use super::{COMMS_MAX, varint};
use crate::trace::{Askers, CallChains, NameTable, OpKind, Trace};

/// Reads the columns of a trace of this many requests.
pub(super) fn parse(
    comm: &[u8],
    stacks: &[u8],
    stack: &[u8],
    requests: usize,
) -> Result<Askers, String> {
    let comms = parse_comms(comm)?;
    let chains = parse_chains(stacks)?;
    let chain_of = parse_chain_of(stack, chains.len(), requests)?;
    Ok(Askers {
        comms,
        chains,
        chain_of,
    })
}

fn parse_comms(mut bytes: &[u8]) -> Result<NameTable, String> {
    let mut names = NameTable::default();
    while !bytes.is_empty() {
        if names.len() as u64 == COMMS_MAX {
            return Err(format!(
                "the column `comm` has more than {COMMS_MAX} names, expected no more"
            ));
        }
        let at = names.len();
        names.push(take_name(&mut bytes).ok_or_else(|| bad_name("comm", at))?);
    }
    Ok(names)
}

fn parse_chains(mut bytes: &[u8]) -> Result<CallChains, String> {
    let mut chains = CallChains::default();
    if bytes.is_empty() {
        return Ok(chains);
    }
    let ends =
        |at: usize| format!("the column `stacks` ends too early or is damaged at chain {at}");
    let functions = varint::take(&mut bytes).ok_or_else(|| ends(0))?;
    // Each takes a byte at least: a number that is not there ends with the bytes.
    for at in 0..functions {
        let name = take_name(&mut bytes);
        let name = name.ok_or_else(|| bad_name("stacks", at as usize))?;
        chains.functions.push(name);
    }
    let mut places = Vec::new();
    if functions == 0 && bytes.is_empty() {
        return Err(
            "the column `stacks` has neither a function nor a chain, expected no bytes then".into(),
        );
    }
    while !bytes.is_empty() {
        let at = chains.len();
        let depth = varint::take(&mut bytes).ok_or_else(|| ends(at))?;
        if depth > CallChains::DEPTH_MAX as u64 {
            return Err(format!(
                "chain {at} has {depth} functions, expected at most {}",
                CallChains::DEPTH_MAX
            ));
        }
        places.clear();
        for _ in 0..depth {
            let place = varint::take(&mut bytes).ok_or_else(|| ends(at))?;
            if place >= functions {
                return Err(format!(
                    "chain {at} names function {place}, expected one below {functions}"
                ));
            }
            places.push(u32::try_from(place).map_err(|_| ends(at))?);
        }
        chains.push(&places);
    }
    Ok(chains)
}

fn parse_chain_of(mut bytes: &[u8], chains: usize, requests: usize) -> Result<Vec<u32>, String> {
    if chains == 0 {
        used_up("stack", bytes)?;
        return Ok(Vec::new());
    }
    // Each takes a byte at least, so that memory follows what was read.
    let mut chain_of = Vec::with_capacity(requests.min(bytes.len()));
    for request in 0..requests {
        let value = varint::take(&mut bytes).ok_or_else(|| {
            format!("the column `stack` ends too early or is damaged at request {request}")
        })?;
        chain_of.push(match value.checked_sub(1) {
            None => Askers::NO_CHAIN,
            Some(chain) if chain < chains as u64 && chain < u64::from(Askers::NO_CHAIN) => {
                chain as u32
            }
            Some(chain) => {
                return Err(format!(
                    "request {request} has chain {chain}, expected one below {chains}"
                ));
            }
        });
    }
    used_up("stack", bytes)?;
    Ok(chain_of)
}

/// Takes one name off the front of `bytes`; `None` if it does not end or is too long.
fn take_name<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len_bytes = usize::try_from(varint::take(bytes)?).ok()?;
    if len_bytes > NameTable::NAME_BYTES_MAX {
        return None;
    }
    let (name, rest) = bytes.split_at_checked(len_bytes)?;
    *bytes = rest;
    Some(name)
}

fn bad_name(column: &str, at: usize) -> String {
    format!(
        "name {at} of the column `{column}` is cut off or damaged, expected at most {} bytes",
        NameTable::NAME_BYTES_MAX
    )
}

/// The columns `comm`, `stacks` and `stack`.
pub(super) fn columns(trace: &Trace) -> Result<[Vec<u8>; 3], String> {
    let Askers {
        comms,
        chains,
        chain_of,
    } = &trace.askers;
    if comms.len() as u64 > COMMS_MAX {
        return Err(format!(
            "{} names, PFT holds at most {COMMS_MAX}",
            comms.len()
        ));
    }
    let mut columns: [Vec<u8>; 3] = Default::default();
    let [comm, stacks, stack] = &mut columns;
    comms.iter().for_each(|name| put_name(comm, name));
    if !chains.functions.is_empty() || !chains.is_empty() {
        varint::put(stacks, chains.functions.len() as u64);
        chains
            .functions
            .iter()
            .for_each(|name| put_name(stacks, name));
    }
    for at in 0..chains.len() {
        let places = chains.get(at).unwrap_or_default();
        varint::put(stacks, places.len() as u64);
        for &place in places {
            if place as usize >= chains.functions.len() {
                return Err(format!(
                    "chain {at} names function {place}, which is not there"
                ));
            }
            varint::put(stacks, u64::from(place));
        }
    }
    let asked = |kind| matches!(kind, OpKind::Alloc | OpKind::Failed);
    let requests = trace.ops.iter().filter(|op| asked(op.kind())).count();
    let expected = if chains.is_empty() { 0 } else { requests };
    if chain_of.len() != expected {
        return Err(format!(
            "{} requests have a chain or none, expected {expected}",
            chain_of.len()
        ));
    }
    for (request, &chain) in chain_of.iter().enumerate() {
        let value = match chain {
            Askers::NO_CHAIN => 0,
            chain if (chain as usize) < chains.len() => u64::from(chain) + 1,
            chain => {
                return Err(format!(
                    "request {request} has chain {chain}, which is not there"
                ));
            }
        };
        varint::put(stack, value);
    }
    Ok(columns)
}

fn put_name(out: &mut Vec<u8>, name: &[u8]) {
    varint::put(out, name.len() as u64);
    out.extend_from_slice(name);
}
