//! How large things can be: variables, parameters, frames, and the state spaces as a whole.
//!
//! What is refused here, everything after can rely on: sizes of objects fit their address spaces,
//! so that sums of an offset and a size do not overflow in 64 bits, nor in 32 bits in the windows.
//! Limits of NVIDIA's assembler make a module wrong; a frame larger than a thread's local memory is
//! correct PTX that no device can run, and is told when its kernel is wanted.

use std::collections::{BTreeMap, BTreeSet};

use ptxjit_ir::{FuncId, Var, VarId};

use crate::ast::{self, Space};
use crate::diag::{Diagnostic, Kind};
use crate::source::{Source, Span};

use super::Found;
use super::layout::Layout;
use super::module::Module;

/// Bytes of all `.const` variables of a module.
const CONST: u64 = 64 << 10;

/// Bytes of the `.shared` variables that a kernel and the functions it calls name; more must be
/// asked for at the launch.
const STATIC_SHARED: u64 = 48 << 10;

/// Bytes of local memory that a thread has.
const LOCAL: u64 = 512 << 10;

/// Bytes that addresses of 32 bits reach: no window is larger, and no parameter.
const WINDOW: u64 = u32::MAX as u64;

/// Bytes that a `.global` variable can have: half of what addresses of 48 bits reach.
const GLOBAL: u64 = 1 << 47;

/// Names that all ranges `name<N>` of variables in memory may declare in a module or function.
pub(super) const RANGE_NAMES: u64 = 1 << 16;

/// Entries of all `.branchtargets` of a function.
pub(super) const TABLE_ENTRIES: u64 = 1 << 20;

/// Entries of the tables that all indirect calls of a function use: each is a call of its own.
pub(super) const CALL_ENTRIES: u64 = 1 << 16;

/// Values that all calls of a function pass and return: a structure counts as many as it has words.
pub(super) const CALL_VALUES: u64 = 1 << 18;

/// Work of finding out what a kernel's functions name: pairs of a kernel and a function.
const REACHED: usize = 10_000_000;

/// A variable, or `count` variables of a range, that its state space cannot hold.
pub(super) fn check_variable(module: &Module, var: &ast::Variable) -> Option<Diagnostic> {
    let layout = Layout::of_var(var);
    let size = match var.range {
        Some(count) => layout.stride().saturating_mul(u64::from(count)),
        // The initializer may tell the size.
        None if layout.is_unsized => module.describe_var(var).map_or(0, |var| var.size),
        None => layout.size,
    };
    let name = var.name.text(&module.source);
    check_size(name, var.space, size, var.span)
}

/// A parameter that is too large to have a place. Those of kernels have tighter limits, which the
/// parser knows.
pub(super) fn check_param(source: &Source, param: &ast::Param) -> Option<Diagnostic> {
    let name = param.name.map_or("_", |name| name.text(source));
    check_size(name, param.space, Layout::of_param(param).size, param.span)
}

/// A variable of a name and size that its state space cannot hold.
pub(super) fn check_size(name: &str, space: Space, size: u64, span: Span) -> Option<Diagnostic> {
    let (space, limit) = match space {
        Space::Reg | Space::Sreg => return None,
        Space::Const => (".const", CONST),
        Space::Global | Space::Tex => (".global", GLOBAL),
        Space::Local => (".local", WINDOW),
        Space::Param => (".param", WINDOW),
        Space::Shared => (".shared", WINDOW),
    };
    let too_large = || {
        let size = match size {
            u64::MAX => "2^64 bytes or more".to_owned(),
            size => format!("{size} bytes"),
        };
        Diagnostic::error(format!("`{name}` takes {size}"))
            .label(span, format!("at most {limit} bytes in `{space}`"))
    };
    (size > limit).then(too_large)
}

/// What the `.const` variables of a module and of its functions take, in the order of the text.
#[derive(Default)]
pub(super) struct ConstBytes {
    end: u64,
    /// The first variable that has no place.
    over: Option<Span>,
}

impl ConstBytes {
    /// Adds the variables of module scope, those that the linker has bound to others left out.
    pub(super) fn add_module(&mut self, module: &Module) {
        for unit in 0..module.units.len() {
            self.add_unit(module, unit);
        }
    }

    /// Adds the variables of one unit.
    pub(super) fn add_unit(&mut self, module: &Module, unit: usize) {
        let is_meant = |&id: &VarId| module.resolve_var(id) == id;
        let vars = module.var_ids().filter(is_meant);
        let decls = vars.filter_map(|id| Some(module.module_var(id)?.decl));
        for decl in decls.filter(|decl| decl.unit == unit) {
            if let Some(var) = module.var_ast(decl) {
                self.add(module, var);
            }
        }
    }

    /// Adds a variable; unless it is constant, nothing happens. Banks (PTX before 2.2) are spaces
    /// of their own.
    pub(super) fn add(&mut self, module: &Module, var: &ast::Variable) {
        if var.space != Space::Const || var.bank.is_some() || var.range.is_some() {
            return;
        }
        let layout = Layout::of_var(var);
        let size = module.describe_var(var).map_or(0, |var| var.size);
        if size > CONST {
            // Reported by itself.
            return;
        }
        let end = place(&mut self.end, size, layout.align);
        if end > CONST {
            self.over.get_or_insert(var.span);
        }
    }

    /// The finding, if they are too many.
    pub(super) fn finding(&self) -> Option<Diagnostic> {
        let message = format!(
            "the `.const` variables of the module take {} bytes",
            self.end
        );
        let label = format!("at most {CONST} bytes");
        Some(Diagnostic::error(message).label(self.over?, label))
    }
}

/// Where an object ends that is laid behind others.
fn place(end: &mut u64, size: u64, align: u32) -> u64 {
    let start = end.checked_next_multiple_of(u64::from(align));
    *end = start
        .and_then(|start| start.checked_add(size))
        .unwrap_or(u64::MAX);
    *end
}

/// The `.shared` variables that a kernel names, which must fit what a launch provides without being
/// asked.
pub(super) fn check_shared<'a>(
    module: &Module,
    kernel: FuncId,
    vars: impl Iterator<Item = &'a Var>,
) -> Option<Diagnostic> {
    let mut end = 0;
    for var in vars.filter(|var| var.space == ptxjit_ir::Space::Shared && !var.is_extern) {
        place(&mut end, var.size, var.align);
    }
    let name = module.func_name(kernel);
    let too_large = || {
        Diagnostic::error(format!(
            "the `.shared` variables of kernel `{name}` take {end} bytes"
        ))
        .label(
            module.func_ast(kernel).name.span,
            format!("the limit is {STATIC_SHARED} bytes"),
        )
        .note("a launch provides more as dynamic shared memory, `.extern .shared name[]`")
    };
    (end > STATIC_SHARED).then(too_large)
}

/// What a function names, as far as [`check_kernels`] wants to know.
#[derive(Default)]
pub(super) struct Named {
    callees: Vec<FuncId>,
    shared: Vec<(VarId, Var)>,
}

impl Named {
    pub(super) fn new(module: &Module, found: &Found) -> Named {
        let is_shared = |var: &Var| var.space == ptxjit_ir::Space::Shared;
        let statics = found.statics.iter().map(|(&id, var)| (id, var.clone()));
        let named = found
            .vars
            .iter()
            .filter(|id| !found.statics.contains_key(id));
        let named = named.filter_map(|&id| Some((id, module.module_scope_var(id)?)));
        Named {
            callees: found.callees.keys().copied().collect(),
            shared: statics
                .chain(named)
                .filter(|(_, var)| is_shared(var))
                .collect(),
        }
    }
}

/// Checks the shared memory of every kernel of a module.
pub(super) fn check_kernels(module: &Module, named: &BTreeMap<FuncId, Named>) -> Vec<Diagnostic> {
    let all = named.values().flat_map(|named| &named.shared);
    let upper = all.fold(0u64, |sum, (_, var)| {
        sum.saturating_add(var.size)
            .saturating_add(u64::from(var.align))
    });
    if upper <= STATIC_SHARED {
        return Vec::new();
    }
    let mut work = 0;
    let kernels = module.kernel_ids();
    let check = |kernel| {
        let vars = reached(kernel, named, &mut work);
        check_shared(module, kernel, vars.values().copied())
    };
    kernels.filter_map(check).collect()
}

/// The shared variables that a kernel and what it calls name. A module with so many kernels and
/// functions that all pairs of them cannot be looked at is checked again kernel by kernel when
/// these are wanted.
fn reached<'a>(
    kernel: FuncId,
    named: &'a BTreeMap<FuncId, Named>,
    work: &mut usize,
) -> BTreeMap<VarId, &'a Var> {
    let mut vars = BTreeMap::new();
    let mut seen = BTreeSet::from([kernel]);
    let mut queue = vec![kernel];
    while let Some(named) = queue.pop().and_then(|func| named.get(&func)) {
        *work += 1 + named.callees.len() + named.shared.len();
        if *work > REACHED {
            break;
        }
        vars.extend(named.shared.iter().map(|(id, var)| (*id, var)));
        queue.extend(named.callees.iter().filter(|&&callee| seen.insert(callee)));
    }
    vars
}

/// A function whose variables and parameters take more local memory than a thread has.
pub(super) fn check_frame(
    name: &str,
    span: Span,
    func: &ptxjit_ir::Function,
) -> Option<Diagnostic> {
    let mut end = 0;
    for slot in func.slots.values() {
        place(&mut end, u64::from(slot.size), slot.align);
    }
    let message = format!("the local memory of `{name}` takes {end} bytes");
    let label = format!("the limit for a thread is {LOCAL} bytes");
    (end > LOCAL).then(|| Diagnostic {
        kind: Kind::Unsupported,
        ..Diagnostic::error(message).label(span, label)
    })
}

/// Steps that finding the values of registers may take in a function with this body: what compilers
/// emit takes up to five for each character.
pub(super) fn merge_steps(body: Span) -> u64 {
    (10 * u64::from(body.len())).max(5_000_000)
}

/// A function whose registers change before so many places where control flow meets that the values
/// at all of them cannot be kept.
pub(super) fn too_many_merges(name: &str, body: Span, span: Span) -> Diagnostic {
    let limit = merge_steps(body);
    let message =
        format!("the control flow of `{name}` merges too many registers at too many places");
    let label = format!("finding their values takes more than {limit} steps");
    Diagnostic {
        kind: Kind::Unsupported,
        ..Diagnostic::error(message).label(span, label)
    }
}

/// Counts the names that ranges `name<N>` declare, up to the limit.
#[derive(Default)]
pub(super) struct RangeNames(u64);

impl RangeNames {
    /// Adds a range; an error when there are too many names.
    pub(super) fn add(&mut self, count: u32, span: Span) -> Result<(), Diagnostic> {
        self.0 += u64::from(count);
        if self.0 <= RANGE_NAMES {
            return Ok(());
        }
        let message = format!("ranges `name<N>` declare {} variables here", self.0);
        Err(Diagnostic::error(message).label(span, format!("at most {RANGE_NAMES}")))
    }
}

/// Counts the values that calls pass, up to the limit.
#[derive(Default)]
pub(super) struct CallValues(u64);

impl CallValues {
    /// Adds those of a parameter or result; an error when there are too many.
    pub(super) fn add(&mut self, count: usize, span: Span) -> Result<(), Diagnostic> {
        self.0 += count as u64;
        if self.0 <= CALL_VALUES {
            return Ok(());
        }
        let message = "the calls of this function pass too many words";
        let label = format!("at most {CALL_VALUES} words of parameters and results in all");
        Err(Diagnostic {
            kind: Kind::Unsupported,
            ..Diagnostic::error(message).label(span, label)
        })
    }
}
