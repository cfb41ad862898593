//! What a program itself does with memory of devices: copies and memsets outside of allocations or
//! of freed ones, wrong frees, kernels that are given pointers to what was freed, and what is never
//! freed.

use std::collections::BTreeMap;
use std::sync::Arc;

use ptxjit::sanitize::{AccessOp, Finding, FindingKind, FoundAccess, Object, Severity};

use super::graves::{Grave, Graves};
use super::{Site, settings, tell_one};
use crate::context::{CONTEXTS, Context};
use crate::device;
use crate::function::Function;
use crate::memory::array::ARRAYS;
use crate::memory::{Allocation, REGISTRY, Sort};
use crate::module::{MODULES, Module};

/// No allocation lies below: what has such an address comes from a null pointer.
const FIRST: u64 = 1 << 16;

/// Tells why a call may not touch these bytes; `op` is what it would do to them.
pub(crate) fn bad_range(addr: u64, len: u64, op: AccessOp) {
    if settings().mem {
        tell(range(addr, len, op), op);
    }
}

/// Tells of memory that was there when a call was made, and gone when the device came to it.
pub(crate) fn gone(addr: u64, len: u64, op: AccessOp) {
    if settings().mem {
        let does = verb(op);
        let message = format!("a stream {does} {len} bytes of memory that was freed meanwhile");
        tell(about(FindingKind::UseAfterFree, message, addr, len), op);
    }
}

/// A finding about bytes that a call of the program would touch.
fn range(addr: u64, len: u64, op: AccessOp) -> Finding {
    let call = Site::here().map_or("", |site| site.call());
    let does = format!("`{call}` {} {len} bytes", verb(op));
    if addr < FIRST {
        let message = format!("{does} at a null pointer");
        return about(FindingKind::NullPointer, message, addr, len);
    }
    if Graves::find(addr).is_some() {
        let message = format!("{does} of memory that was freed");
        return about(FindingKind::UseAfterFree, message, addr, len);
    }
    let message = match REGISTRY.find(addr) {
        Some(found) => {
            let room = found.size - (addr - found.base);
            let beyond = len.saturating_sub(room);
            format!("{does}, of which {beyond} lie past the end of the allocation")
        }
        None => format!("{does} that lie in no allocation"),
    };
    about(FindingKind::OutOfBounds, message, addr, len)
}

fn verb(op: AccessOp) -> &'static str {
    match op {
        AccessOp::Store => "writes",
        _ => "reads",
    }
}

/// A finding of a call about some bytes.
fn about(kind: FindingKind, message: String, addr: u64, len: u64) -> Finding {
    let mut finding = Finding::new(kind, Severity::Error, "", message);
    finding.address = Some(addr);
    finding.bytes = Some(len);
    finding
}

/// Tells of a finding about its address by the call that is under way.
fn tell(mut finding: Finding, op: AccessOp) {
    finding.accesses.extend(here(op));
    explain(&mut finding);
    tell_one(finding, false);
}

fn here(op: AccessOp) -> Option<FoundAccess> {
    Site::here().map(|site| site.access(op))
}

/// Adds what is known of the allocation at the address of a finding: who has freed it, and who has
/// allocated it.
pub(super) fn explain(finding: &mut Finding) {
    let Some(addr) = finding.address else { return };
    let (allocation, freed) = match Graves::find(addr) {
        Some(Grave { allocation, freed }) => (allocation, freed),
        None => match REGISTRY.find(addr) {
            Some(allocation) => (allocation, None),
            None => return note_neighbor(finding, addr),
        },
    };
    let Allocation { base, size, .. } = *allocation;
    let offset = (addr - base) as i64;
    let name = String::new();
    finding.object = Some(Object { name, offset, size });
    if finding.accesses.first().is_some_and(|it| it.call.is_some()) {
        // A kernel's message says so itself.
        finding.notes.push(format!(
            "{addr:#x} is byte {offset} of the {size}-byte allocation at {base:#x}"
        ));
    }
    let allocated = allocation.site.iter().map(|it| it.access(AccessOp::Alloc));
    let freed = freed.iter().map(|it| it.access(AccessOp::Free));
    finding.accesses.extend(freed.chain(allocated));
}

/// An address in no allocation is told by the one below.
fn note_neighbor(finding: &mut Finding, addr: u64) {
    if let Some(below) = REGISTRY.find_below(addr) {
        let Allocation { base, size, .. } = *below;
        let beyond = addr - (base + size);
        let text = format!(
            "{addr:#x} is {beyond} bytes past the end of the {size}-byte allocation at {base:#x}"
        );
        finding.notes.push(text);
        finding
            .accesses
            .extend(below.site.iter().map(|it| it.access(AccessOp::Alloc)));
    }
}

/// Tells of a free of what is no allocation, or not any more.
pub(crate) fn bad_free(addr: u64) {
    if !settings().mem {
        return;
    }
    let call = Site::here().map_or("", |site| site.call());
    let grave = Graves::find(addr).filter(|grave| grave.allocation.base == addr);
    let (kind, message) = match (grave, REGISTRY.find(addr)) {
        (Some(_), _) => (
            FindingKind::DoubleFree,
            format!("`{call}` frees memory that was freed before"),
        ),
        (None, Some(found)) if found.base == addr => (
            FindingKind::InvalidFree,
            format!("`{call}` does not free memory of this kind"),
        ),
        (None, Some(_)) => (
            FindingKind::InvalidFree,
            format!("`{call}` is given an address inside of an allocation"),
        ),
        (None, None) => (
            FindingKind::InvalidFree,
            format!("`{call}` is given an address that was never allocated"),
        ),
    };
    let mut finding = Finding::new(kind, Severity::Error, "", message);
    finding.address = Some(addr);
    tell(finding, AccessOp::Free);
}

/// Tells of arguments of a launch that point to memory that was freed. It may be that the kernel
/// does not use them.
pub(crate) fn launched(function: &Function, params: &[u8]) {
    const WORD: usize = 8;
    if !settings().mem {
        return;
    }
    for (idx, param) in function.kernel.param_layout().enumerate() {
        let bytes = &params[param.offset..][..param.size];
        for (at, word) in bytes.chunks_exact(WORD).enumerate() {
            let addr = u64::from_le_bytes(word.try_into().unwrap_or_default());
            if addr < FIRST || Graves::find(addr).is_none() {
                continue;
            }
            let place = match param.size {
                WORD => format!("parameter {idx}, `{}`", param.name),
                _ => format!("byte {} of parameter {idx}, `{}`", at * WORD, param.name),
            };
            let message = format!("{place} points to memory that was freed");
            let kernel = function.kernel.name();
            let (kind, severity) = (FindingKind::UseAfterFree, Severity::Warning);
            let mut finding = Finding::new(kind, severity, kernel, message);
            finding.address = Some(addr);
            tell(finding, AccessOp::Launch);
        }
    }
}

/// Tells what a context leaves behind that ends.
pub(crate) fn context_ends(context: &Context) {
    if settings().leak {
        let of_this = |allocation: &Allocation| allocation.context == context.raw().0;
        let arrays = ARRAYS.all().into_iter();
        let arrays = arrays.filter(|it| it.context() == context.raw().0);
        leaks(&of_this, arrays.filter_map(|it| it.leak()));
    }
}

/// Tells what a module's kernels have allocated and not freed.
pub(crate) fn module_ends(module: &Module) {
    let context = CONTEXTS.get(module.context);
    let is_well = context.is_none_or(|context| context.health.check().is_ok());
    // Kernels that did not come to their end have freed nothing there.
    if settings().leak && is_well {
        let found = module.engine.leaks();
        found
            .into_iter()
            .for_each(|finding| tell_one(finding, false));
    }
}

/// Tells what the process leaves behind.
pub(super) fn process_ends() {
    if settings().leak {
        MODULES.all().iter().for_each(|module| module_ends(module));
        let arrays = ARRAYS.all().into_iter();
        leaks(&|_| true, arrays.filter_map(|it| it.leak()));
    }
}

/// Allocations that are never freed: each call of the program that made some, with their number and
/// bytes.
fn leaks(is_left: &dyn Fn(&Allocation) -> bool, arrays: impl Iterator<Item = (u64, Arc<Site>)>) {
    let of_program = |sort| {
        matches!(
            sort,
            Sort::Device | Sort::Managed | Sort::Pinned(_) | Sort::Pool(_)
        )
    };
    let left = REGISTRY.filter(|it| of_program(it.sort) && is_left(it));
    let left = left.iter();
    let left = left.filter_map(|it| Some((it.size, it.site.clone()?)));
    let mut groups: BTreeMap<_, (u64, u64, FoundAccess)> = BTreeMap::new();
    for (size, site) in left.chain(arrays) {
        let access = site.access(AccessOp::Alloc);
        let stack = access.stack.iter();
        let lines = stack.map(|at| (at.file.clone(), at.line, at.column));
        let key = (site.call(), lines.collect::<Vec<_>>());
        let (n, bytes, _) = groups.entry(key).or_insert((0, 0, access));
        (*n, *bytes) = (*n + 1, *bytes + size);
    }
    for (n, bytes, access) in groups.into_values() {
        let message = match n {
            1 => format!("{bytes} bytes are never freed"),
            n => format!("{n} allocations, {bytes} bytes in all, are never freed"),
        };
        let mut finding = Finding::new(FindingKind::Leak, Severity::Error, "", message);
        (finding.count, finding.bytes) = (n, Some(bytes));
        finding.accesses.push(access);
        tell_one(finding, false);
    }
}

/// Whether all of these bytes are in use, as far as devices have them.
pub(crate) fn is_there(addr: u64, len: u64) -> bool {
    let Ok(engine) = device::get(0).and_then(|device| device.engine()) else {
        return true;
    };
    let (mut at, end) = (addr, addr.saturating_add(len));
    while at < end && device::arena_contains(at) {
        // Constants lie in no allocation of the engine.
        let symbol = || REGISTRY.find(at).map(|found| (found.base, found.size));
        match engine.range_of(at).or_else(symbol) {
            Some((start, size)) if size != 0 => at = start + size,
            _ => return false,
        }
    }
    true
}
