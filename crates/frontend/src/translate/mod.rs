//! From the syntax tree to the IR: names and scopes, registers, operands, control flow, calls, variables.
//!
//! [`Module`] is a whole PTX module, whose bodies are parsed and translated when a kernel is wanted ([`Module::program`]).
//! [`Translator`] translates one body: it walks the statements, and for every instruction finds its row in the
//! instruction table ([`crate::isa`]) and calls the row's handler. Handlers read operands with [`Translator::src`], write with
//! [`Translator::dst`], and emit with the methods of `emit.rs`; guards, sinks, widening and immediates are taken care of there.
//!
//! After translation nothing looks at PTX text again. What is wrong in a body does not stop its translation: the statement is
//! left out, and all findings are reported together.

mod emit;
mod inst;
mod scope;
mod operand;
mod address;

pub use address::{Addr, AddrBase};
pub use inst::Inst;
pub use operand::{Values, const_bits, element_index, pieces};
pub use scope::{Entity, Place, PlaceBase, Reg, RegId};

use ptxjit_ir::{FunctionBuilder, Type, Value, Variable};

use crate::ast::{self, Arch, Version};
use crate::diag::Diagnostic;
use crate::source::Source;

use scope::Scopes;

/// Translates one function body.
pub struct Translator<'m> {
    ast: &'m ast::Module,
    pub(crate) source: &'m Source,
    pub(crate) builder: FunctionBuilder<'m>,
    scopes: Scopes<'m>,
    /// Condition of the instruction at hand where it is translated without a branch.
    guard: Option<Value>,
    /// CC.CF, the carry flag.
    cc: Option<Variable>,
    diagnostics: Vec<Diagnostic>,
}

impl<'m> Translator<'m> {
    /// The module's `.version`.
    pub fn version(&self) -> Version {
        self.ast.version
    }

    /// The module's `.target`.
    pub fn arch(&self) -> Arch {
        self.ast.target.arch
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
        *self.cc.get_or_insert_with(|| self.builder.declare(Type::B1))
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
