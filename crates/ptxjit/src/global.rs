//! Variables of modules.

use std::sync::Arc;

use ptxjit_frontend::translate;
use ptxjit_ir::{Space, Var, VarId, VarInit};
use ptxjit_runtime::VarSource;

use crate::diagnostic::Text;
use crate::failure::Cause;
use crate::{Diagnostics, Element, Error, Module};

/// A variable of a module, in device memory.
#[derive(Clone, Debug)]
pub struct Global {
    module: Module,
    id: VarId,
    name: String,
    size: u64,
    is_const: bool,
    is_extern: bool,
}

impl Global {
    /// None in state spaces that belong to threads or CTAs.
    pub(crate) fn new(module: &Module, id: VarId, var: Var) -> Option<Global> {
        matches!(var.space, Space::Global | Space::Const).then(|| Global {
            module: module.clone(),
            id,
            name: var.name,
            size: var.size,
            is_const: var.space == Space::Const,
            is_extern: var.is_extern,
        })
    }

    /// Its name in the PTX.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is in `.const`, else in `.global`.
    pub fn is_const(&self) -> bool {
        self.is_const
    }

    /// Whether it is declared `.extern` and not defined in the module.
    pub fn is_extern(&self) -> bool {
        self.is_extern
    }

    /// Whether it is `.managed`: meant to be accessed by host and device alike.
    pub fn is_managed(&self) -> bool {
        self.module.inner.front.is_managed(self.id)
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Its generic address, which kernels can use.
    pub fn address(&self) -> Result<u64, Error> {
        Ok(self
            .checked(self.module.inner.memory.var_range(self.id))?
            .start)
    }

    /// Overwrites the first elements.
    pub fn write<T: Element>(&self, values: &[T]) -> Result<(), Error> {
        self.checked(
            self.module
                .inner
                .memory
                .write(self.id, 0, bytemuck::cast_slice(values)),
        )
    }

    /// Reads the first `count` elements.
    pub fn read<T: Element>(&self, count: usize) -> Result<Vec<T>, Error> {
        if count
            .checked_mul(T::SIZE)
            .is_none_or(|size| size as u64 > self.size)
        {
            return Err(Error::usage(format!(
                "{count} elements are more than the variable has"
            )));
        }
        let mut values = bytemuck::zeroed_vec(count);
        let bytes = bytemuck::cast_slice_mut(&mut values);
        self.checked(self.module.inner.memory.read(self.id, 0, bytes))?;
        Ok(values)
    }

    fn checked<R>(&self, result: Result<R, ptxjit_runtime::LaunchError>) -> Result<R, Error> {
        result.map_err(|err| Cause::from(err).into_error("", &self.module.inner.front))
    }
}

/// The frontend's variables, as the runtime asks for them.
pub(crate) struct Vars(pub(crate) Arc<translate::Module>);

impl VarSource for Vars {
    fn var(&self, id: VarId) -> Option<Var> {
        self.0.var(id)
    }

    fn init(&self, id: VarId) -> Result<VarInit, String> {
        let text = Text::Module(self.0.clone());
        self.0
            .var_init(id)
            .map_err(|list| Diagnostics::new(list, &text).to_string())
    }
}
