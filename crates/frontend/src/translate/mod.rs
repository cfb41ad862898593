//! From the syntax tree to the IR: names and scopes, registers, operands, control flow, calls,
//! variables.
//!
//! [`Module`] is a whole PTX module, whose bodies are parsed and translated when a kernel is wanted
//! ([`Module::program`]). [`Translator`] translates one body: it walks the statements, and for
//! every instruction finds its row in the instruction table ([`crate::isa`]) and calls the row's
//! handler. Handlers read operands with [`Translator::src`], write with [`Translator::dst`], and
//! emit with the methods of `emit.rs`; guards, sinks, widening and immediates are taken care of
//! there.
//!
//! After translation nothing looks at PTX text again. What is wrong in a body does not stop its
//! translation: the statement is left out, and all findings are reported together.

mod address;
mod call;
mod call_syntax;
mod copy;
mod count;
mod declare;
mod emit;
mod flow;
mod function;
mod gates;
mod init;
mod inst;
mod layout;
mod limits;
mod link;
mod linkage;
mod module;
mod names;
mod narrow;
mod near;
mod operand;
mod program;
mod scope;
mod selected;
mod statements;
mod undefined;

pub use address::{Addr, AddrBase};
pub use inst::Inst;
pub use module::{DeviceFunction, Kernel, Module, Refused, SourceLine};
pub use operand::{Values, const_bits, element_index, pieces};
pub use program::Extras;
pub use scope::{Entity, Place, PlaceBase, Reg, RegId};
pub use selected::Selected;
pub use statements::{FunctionStatements, Statement};

use std::collections::{BTreeMap, BTreeSet};

use ptxjit_ir::{FuncId, FunctionBuilder, SigId, Type, Value, Var, VarId, Variable};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::ast::{Arch, Version};
use crate::diag::Diagnostic;
use crate::isa::check::Form;
use crate::isa::modifiers::Mod;
use crate::source::{Source, Span};

use count::Counting;
use flow::Labels;
use layout::Passing;
use module::Unit;
use program::Tables;
use scope::Scopes;

/// Translates one function body.
pub struct Translator<'m> {
    pub(crate) module: &'m Module,
    /// The text that the function is of.
    pub(crate) unit: &'m Unit,
    pub(crate) source: &'m Source,
    pub(crate) builder: FunctionBuilder<'m>,
    tables: &'m mut Tables,
    is_kernel: bool,
    scopes: Scopes<'m>,
    labels: Labels<'m>,
    /// What the function returns, and how.
    /// A result that is copied has a variable with the address of where to.
    returns: Vec<(Entity, Passing, Option<Variable>)>,
    /// Byte offset of the statement at hand: only names declared before are known.
    at: u32,
    /// Condition of the instruction at hand where it is translated without a branch.
    guard: Option<Value>,
    counting: Counting,
    /// CC.CF, the carry flag.
    cc: Option<Variable>,
    /// The first `.cta_group` of the function's `tcgen05` instructions, which all must share.
    pub(crate) cta_group: Option<(Mod, Span)>,
    found: Found,
    /// The functions that variables with tables for indirect calls list.
    target_arrays: FxHashMap<VarId, SmallVec<[FuncId; 4]>>,
    /// Names of memory that ranges have declared.
    range_names: limits::RangeNames,
    call_values: limits::CallValues,
    /// The forms met so far, by name and number of operands.
    pub(crate) forms: FxHashMap<(&'m str, usize), Form>,
    /// PERF: registers found last, by where their names stand: checking an operand and using it
    /// both look its name up.
    recent: [(u32, RegId); 16],
}

/// What a body turned out to need.
#[derive(Default, Debug)]
pub(crate) struct Found {
    /// Functions called or taken the address of, and where first.
    pub callees: BTreeMap<FuncId, Span>,
    /// Module-wide variables named.
    pub vars: BTreeSet<VarId>,
    /// The static variables that the body declares.
    pub statics: BTreeMap<VarId, Var>,
    /// Signatures of indirect calls whose targets are not listed.
    pub open_calls: BTreeSet<SigId>,
    /// Uses warp operations without `.sync` or volatile shared memory.
    pub wants_lockstep: bool,
    pub diagnostics: Vec<Diagnostic>,
}

impl<'m> Translator<'m> {
    /// The `.version` of the function's module.
    pub fn version(&self) -> Version {
        self.unit.ast.version
    }

    /// The `.target` of the function's module.
    pub fn arch(&self) -> Arch {
        self.unit.ast.target.arch
    }

    /// Whether the module says `.address_size 64`.
    pub(crate) fn has_wide_addresses(&self) -> bool {
        self.unit
            .ast
            .address_size
            .is_some_and(|size| size.bits == 64)
    }

    /// Whether the module says `.address_size 32`: then wider registers are cut where they are used
    /// as addresses.
    pub(crate) fn cuts_addresses(&self) -> bool {
        self.unit
            .ast
            .address_size
            .is_some_and(|size| size.bits == 32)
    }

    /// Whether the body is that of a kernel.
    pub fn is_kernel(&self) -> bool {
        self.is_kernel
    }

    /// The instruction at hand means what it should only if the lanes of a warp run in lockstep, as
    /// they do below `sm_70`.
    pub fn want_lockstep(&mut self) {
        self.found.wants_lockstep = true;
    }

    /// Adds a finding that does not stop the statement at hand.
    pub fn report(&mut self, diagnostic: Diagnostic) {
        self.found.diagnostics.push(diagnostic);
    }

    /// The carry flag CC.CF, a `B1`; false where it was never written.
    pub fn carry(&mut self) -> Value {
        let cc = self.carry_var();
        self.builder.use_var(cc)
    }

    /// Writes the carry flag, if the guard holds.
    pub fn set_carry(&mut self, value: Value) {
        let cc = self.carry_var();
        self.assign(cc, value);
    }

    fn carry_var(&mut self) -> Variable {
        match self.cc {
            Some(cc) => cc,
            None => *self.cc.insert(self.builder.declare(Type::B1)),
        }
    }

    /// The guard of the instruction at hand, for handlers of rows that look after it themselves.
    pub fn take_guard(&mut self) -> Option<Value> {
        self.guard.take()
    }

    /// Assigns a variable if the guard of the instruction at hand holds.
    fn assign(&mut self, var: Variable, value: Value) {
        let value = match self.guard {
            None => value,
            Some(guard) => {
                let old = self.builder.use_var(var);
                self.select(guard, value, old)
            }
        };
        self.builder.def_var(var, value);
    }
}
