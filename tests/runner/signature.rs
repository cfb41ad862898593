//! What functions of a test file take and return.

use anyhow::{Context, Result, ensure};
use ptxjit_frontend::ast::{Function, FunctionKind, Param, Space};
use ptxjit_frontend::parse;
use ptxjit_frontend::source::Source;

use crate::value::Kind;

/// A parameter or a result.
#[derive(Clone, Debug)]
pub(crate) struct Formal {
    pub(crate) name: String,
    /// Declared in `.param`, not in `.reg`.
    pub(crate) is_param: bool,
    /// PTX type without the dot.
    pub(crate) ty: &'static str,
    pub(crate) kind: Kind,
    /// Bytes of an array; none for scalars.
    pub(crate) array: Option<u64>,
}

/// A function or a kernel.
#[derive(Clone, Debug)]
pub(crate) struct Signature {
    pub(crate) params: Vec<Formal>,
    pub(crate) returns: Vec<Formal>,
}

/// Parsed once, asked often.
pub(crate) struct Signatures {
    source: Source,
    module: ptxjit_frontend::ast::Module,
}

impl Signatures {
    pub(crate) fn parse(name: &str, text: &str) -> Result<Signatures> {
        let source = Source::new(name, text);
        let module = parse::module(&source).map_err(|errors| {
            let texts: Vec<String> = errors
                .iter()
                .map(|error| ptxjit_frontend::diag::render(error, &source, false))
                .collect();
            anyhow::anyhow!(texts.join("\n"))
        })?;
        Ok(Signatures { source, module })
    }

    pub(crate) fn device_function(&self, name: &str) -> Result<Signature> {
        self.find(FunctionKind::Func, name)
    }

    pub(crate) fn kernel(&self, name: &str) -> Result<Signature> {
        self.find(FunctionKind::Entry, name)
    }

    /// Byte offset of the end of a function's body.
    pub(crate) fn end_of(&self, name: &str) -> Option<usize> {
        let functions = self
            .module
            .functions()
            .filter(|function| function.name.text(&self.source) == name);
        functions
            .filter_map(|function| function.body)
            .map(|body| body.end as usize)
            .next()
    }

    /// Names of the kernels.
    pub(crate) fn kernels(&self) -> Vec<String> {
        let kernels = self
            .module
            .functions()
            .filter(|function| function.kind == FunctionKind::Entry);
        kernels
            .map(|function| function.name.text(&self.source).to_owned())
            .collect()
    }

    fn find(&self, kind: FunctionKind, name: &str) -> Result<Signature> {
        let mut functions = self.module.functions();
        let function = functions
            .find(|function| function.kind == kind && function.name.text(&self.source) == name);
        let function = function.with_context(|| format!("the file has no `{name}`"))?;
        self.signature(function)
            .with_context(|| format!("signature of `{name}`"))
    }

    fn signature(&self, function: &Function) -> Result<Signature> {
        let formals = |params: &[Param]| {
            params
                .iter()
                .map(|param| self.formal(param))
                .collect::<Result<Vec<_>>>()
        };
        Ok(Signature {
            params: formals(&function.params)?,
            returns: formals(&function.returns)?,
        })
    }

    fn formal(&self, param: &Param) -> Result<Formal> {
        ensure!(param.vector == 1, "vector parameters are not for tests");
        let ty = param.ty.name();
        let mut array = None;
        for dim in param.dims.iter() {
            let ptxjit_frontend::ast::Dim::Sized(n) = *dim else {
                anyhow::bail!("an array without size")
            };
            array = Some(array.unwrap_or(u64::from(param.ty.size())) * n);
        }
        Ok(Formal {
            name: param
                .name
                .map_or("_", |name| name.text(&self.source))
                .to_owned(),
            is_param: param.space == Space::Param,
            ty,
            kind: Kind::of(ty).with_context(|| format!("type `.{ty}` is not for tests"))?,
            array,
        })
    }
}
