//! Variables of modules.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ptxjit_abi::SymbolRef;
use ptxjit_frontend::translate;
use ptxjit_ir::{OpaqueKind, Space, Unbound, Var, VarId, VarInit};
use ptxjit_runtime::VarSource;

use crate::diagnostic::Text;
use crate::failure::Cause;
use crate::module::ModuleInner;
use crate::texture::Keep;
use crate::{Binding, Diagnostics, Element, Error, Module, UsageRule};

/// What is bound to opaque variables, which the module keeps alive.
pub(crate) type Bound = Mutex<HashMap<VarId, Keep>>;

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

    /// Whether it is a `.texref`, `.samplerref` or `.surfref`.
    pub fn is_opaque(&self) -> bool {
        self.kind().is_some()
    }

    fn kind(&self) -> Option<OpaqueKind> {
        self.module.inner.front.opaque_kind(self.id)
    }

    /// Binds a texture, sampler or surface to an opaque variable, in place of what was bound
    /// before. The module keeps it alive.
    pub fn bind(&self, object: impl Into<Binding>) -> Result<(), Error> {
        let (kind, handle, keep) = object.into().parts();
        if self.kind() != Some(kind) {
            return Err(Error::usage(
                UsageRule::Binding,
                format!("`{}` is no variable for a {}", self.name, kind.name()),
            ));
        }
        self.write(&[handle])?;
        let bound = &self.module.inner.bound;
        let mut bound = bound.lock().unwrap_or_else(PoisonError::into_inner);
        bound.insert(self.id, keep);
        Ok(())
    }

    /// A texture or surface variable that a kernel uses must have been bound; samplers have an
    /// initializer.
    pub(crate) fn check_bound(&self) -> Result<(), Error> {
        let Some(kind) = self.kind().filter(|&kind| kind != OpaqueKind::Sampler) else {
            return Ok(());
        };
        let is_unbound = Unbound::from_bits(self.read::<u64>(1)?[0]).is_some();
        match is_unbound {
            false => Ok(()),
            true => Err(Error::usage(
                UsageRule::Binding,
                format!(
                    "no {} is bound to the variable `{}`, which the kernel needs",
                    kind.name(),
                    self.name
                ),
            )),
        }
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
            return Err(Error::usage(
                UsageRule::Range,
                format!("{count} elements are more than the variable has"),
            ));
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

/// The variables among symbols of compiled code.
pub(crate) fn vars_of(symbols: &[SymbolRef]) -> impl Iterator<Item = VarId> {
    symbols.iter().filter_map(|symbol| match *symbol {
        SymbolRef::Var(var) => Some(var),
        SymbolRef::Func(_) => None,
    })
}

/// Those of a module's variables that have an opaque type.
pub(crate) fn opaque(module: &Arc<ModuleInner>, vars: impl Iterator<Item = VarId>) -> Vec<Global> {
    let opaque = vars.filter(|&var| module.front.opaque_kind(var).is_some());
    let inner = module.clone();
    let module = Module { inner };
    let global = |var| Global::new(&module, var, module.inner.front.var(var)?);
    opaque.filter_map(global).collect()
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

    fn is_managed(&self, id: VarId) -> bool {
        self.0.is_managed(id)
    }
}
