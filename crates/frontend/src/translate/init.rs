//! The initial contents of variables.

use ptxjit_ir::{OpaqueKind, Reloc, RelocTarget, Unbound, VarInit};

use crate::ast::{self, Dim, Initializer, InitializerKind};
use crate::diag::Diagnostic;
use crate::parse;
use crate::parse::constexpr::{self, Value};
use crate::source::Span;

use super::gates;
use super::layout::Layout;
use super::module::{Global, Module, Unit};

/// Computes the contents of a variable that has an initializer; of others, nothing.
pub(super) fn var_init(module: &Module, var: &ast::Variable) -> Result<VarInit, Vec<Diagnostic>> {
    let unbound = opaque_kind(var.ty).map(Unbound::new);
    if !var.has_init() {
        let mut init = VarInit::default();
        if let Some(unbound) = unbound {
            init.bytes = unbound_bytes(unbound, var);
        }
        return Ok(init);
    }
    let initializer = parse::initializer(&module.source, var.init)?;
    let mut filler = Filler {
        module,
        unit: module.unit_of(var.init),
        var,
        init: VarInit::default(),
    };
    filler
        .check_var()
        .and_then(|()| filler.fill(&initializer))
        .map_err(|diagnostic| vec![diagnostic])?;
    Ok(filler.init)
}

/// Bytes of an array whose first dimension the initializer tells.
pub(super) fn size_of_unsized(module: &Module, var: &ast::Variable) -> u64 {
    let count = match parse::initializer(&module.source, var.init).map(|init| init.kind) {
        Ok(InitializerKind::List(items)) => items.len() as u64,
        Ok(InitializerKind::Integers(items)) => items.len() as u64,
        Ok(
            InitializerKind::Fields(_)
            | InitializerKind::Constant(_)
            | InitializerKind::Address(_)
            | InitializerKind::Mask(_),
        )
        | Err(_) => 1,
    };
    let inner: u64 = var
        .dims
        .iter()
        .skip(1)
        .map(|dim| dim_size(dim).unwrap_or(1))
        .product();
    count
        .saturating_mul(inner)
        .saturating_mul(u64::from(Layout::of_var(var).elem))
}

/// The kind of an opaque type.
pub(super) fn opaque_kind(ty: ast::Type) -> Option<OpaqueKind> {
    match ty {
        ast::Type::Texref => Some(OpaqueKind::Texture),
        ast::Type::Samplerref => Some(OpaqueKind::Sampler),
        ast::Type::Surfref => Some(OpaqueKind::Surface),
        _ => None,
    }
}

/// The contents of a variable, or of all elements of an array.
fn unbound_bytes(unbound: Unbound, var: &ast::Variable) -> Vec<u8> {
    let layout = Layout::of_var(var);
    let n = layout.size / u64::from(layout.elem.max(1));
    let n = usize::try_from(n).unwrap_or(1).clamp(1, 1 << 16);
    unbound.to_bits().to_le_bytes().repeat(n)
}

fn dim_size(dim: &Dim) -> Option<u64> {
    match dim {
        Dim::Unsized => None,
        Dim::Sized(n) => Some(*n),
    }
}

struct Filler<'m> {
    module: &'m Module,
    unit: &'m Unit,
    var: &'m ast::Variable,
    init: VarInit,
}

impl Filler<'_> {
    fn check_var(&self) -> Result<(), Diagnostic> {
        let var = self.var;
        if !matches!(var.space, ast::Space::Global | ast::Space::Const) {
            return Err(error(
                var.init,
                "only `.global` and `.const` variables can be initialized",
            ));
        }
        if var.linkage == ast::Linkage::Extern {
            return Err(error(
                var.init,
                "an `.extern` variable cannot be initialized",
            ));
        }
        if var.range.is_some() {
            return Err(error(var.init, "`name<N>` cannot be initialized"));
        }
        if matches!(var.ty, ast::Type::F16 | ast::Type::F16x2 | ast::Type::Pred) {
            return Err(error(
                var.init,
                format!(
                    "a variable of type `.{}` cannot be initialized",
                    var.ty.name()
                ),
            ));
        }
        Ok(())
    }

    fn fill(&mut self, init: &Initializer) -> Result<(), Diagnostic> {
        if self.var.ty.is_opaque() {
            return match &init.kind {
                InitializerKind::Fields(fields) => {
                    self.check_fields(fields)?;
                    self.init.bytes = unbound_bytes(self.sampling(fields)?, self.var);
                    Ok(())
                }
                InitializerKind::List(items) if items.is_empty() => self.fill_fields(),
                InitializerKind::Integers(items) if items.is_empty() => self.fill_fields(),
                _ => Err(error(
                    init.span,
                    format!(
                        "a `.{}` is initialized with `name = value`",
                        self.var.ty.name()
                    ),
                )),
            };
        }
        let mut shape: Vec<Option<u64>> = self.var.dims.iter().map(dim_size).collect();
        let n_dims = shape.len();
        if self.var.vector > 1 {
            shape.push(Some(u64::from(self.var.vector)));
        }
        self.level(init, &shape, n_dims, 0)
    }

    /// Empty braces are no fields.
    fn fill_fields(&mut self) -> Result<(), Diagnostic> {
        if let Some(unbound) = opaque_kind(self.var.ty).map(Unbound::new) {
            self.init.bytes = unbound_bytes(unbound, self.var);
        }
        Ok(())
    }

    /// The sampling fields; what images are, the host says when it binds one.
    fn sampling(&self, fields: &[ast::Field]) -> Result<Unbound, Diagnostic> {
        let kind = opaque_kind(self.var.ty).unwrap_or(OpaqueKind::Texture);
        let mut unbound = Unbound::new(kind);
        for field in fields {
            let value = match &field.value {
                ast::FieldValue::Name(word) => match word.text(&self.module.source) {
                    "wrap" | "nearest" => 0,
                    "mirror" | "linear" => 1,
                    "clamp_ogl" => 2,
                    "clamp_to_edge" => 3,
                    _ => 4,
                },
                ast::FieldValue::Constant(expr) => constexpr::evaluate(expr)?.as_int().unwrap_or(0),
            };
            match field.name.text(&self.module.source) {
                "addr_mode_0" => unbound.modes[0] = value.clamp(0, 4) as u8,
                "addr_mode_1" => unbound.modes[1] = value.clamp(0, 4) as u8,
                "addr_mode_2" => unbound.modes[2] = value.clamp(0, 4) as u8,
                "filter_mode" => unbound.linear = value == 1,
                "normalized_coords" => unbound.normalized = Some(value != 0),
                "force_unnormalized_coords" => unbound.force_unnormalized = value != 0,
                _ => {}
            }
        }
        Ok(unbound)
    }

    /// The fields of an opaque type, and the words that can stand for their values.
    fn check_fields(&self, fields: &[ast::Field]) -> Result<(), Diagnostic> {
        const SIZES: &[&str] = &[
            "width",
            "height",
            "depth",
            "channel_data_type",
            "channel_order",
            "array_size",
        ];
        const SAMPLING: &[&str] = &["addr_mode_0", "addr_mode_1", "addr_mode_2", "filter_mode"];
        const OF_TEXTURES: &[&str] = &["normalized_coords", "num_mipmap_levels", "num_samples"];
        const WORDS: &[&str] = &[
            "wrap",
            "mirror",
            "clamp_ogl",
            "clamp_to_edge",
            "clamp_to_border",
            "nearest",
            "linear",
        ];
        let known: &[&[&str]] = match self.var.ty {
            ast::Type::Texref => &[SIZES, SAMPLING, OF_TEXTURES],
            ast::Type::Samplerref => &[SAMPLING, &["force_unnormalized_coords"]],
            _ => &[SIZES, &["memory_layout"]],
        };
        for field in fields {
            let name = field.name.text(&self.module.source);
            if !known.iter().any(|names| names.contains(&name)) {
                let message = format!("a `.{}` has no field `{name}`", self.var.ty.name());
                return Err(error(field.name.span, message));
            }
            if let ast::FieldValue::Name(value) = &field.value {
                let text = value.text(&self.module.source);
                if !WORDS.contains(&text) {
                    return Err(error(
                        value.span,
                        format!("`{text}` is no value of a field"),
                    ));
                }
            }
        }
        Ok(())
    }

    /// Fills one level of braces; the first `n_dims` levels are array dimensions, one more is a
    /// vector.
    fn level(
        &mut self,
        init: &Initializer,
        shape: &[Option<u64>],
        n_dims: usize,
        offset: u64,
    ) -> Result<(), Diagnostic> {
        let Some((&limit, inner)) = shape.split_first() else {
            return self.scalar(init, offset);
        };
        let inner_count: u64 = inner.iter().map(|n| n.unwrap_or(1)).product();
        let step = inner_count.saturating_mul(u64::from(self.var.ty.size()));
        let is_vector = n_dims == 0;
        let count = match &init.kind {
            InitializerKind::List(items) => items.len(),
            InitializerKind::Integers(items) => items.len(),
            InitializerKind::Fields(_)
            | InitializerKind::Constant(_)
            | InitializerKind::Address(_)
            | InitializerKind::Mask(_) => {
                return Err(error(
                    init.span,
                    "braces are missing around the elements of an array or vector",
                ));
            }
        };
        if limit.is_none() && count == 0 {
            return Err(error(init.span, "the size of this array is missing"));
        }
        if let Some(limit) =
            limit.filter(|&limit| count as u64 > limit || is_vector && count as u64 != limit)
        {
            let what = if is_vector { "a vector" } else { "the array" };
            return Err(error(
                init.span,
                format!("{count} values are given, but {what} has {limit} elements"),
            ));
        }
        match &init.kind {
            InitializerKind::Integers(items) => {
                if !inner.is_empty() {
                    return Err(error(
                        init.span,
                        "braces are missing around the elements of an inner dimension",
                    ));
                }
                for (i, &item) in items.iter().enumerate() {
                    self.constant(Value::S64(item as i64), offset + step * i as u64, init.span)?;
                }
            }
            InitializerKind::List(items) => {
                for (i, item) in items.iter().enumerate() {
                    self.level(
                        item,
                        inner,
                        n_dims.saturating_sub(1),
                        offset + step * i as u64,
                    )?;
                }
            }
            InitializerKind::Fields(_)
            | InitializerKind::Constant(_)
            | InitializerKind::Address(_)
            | InitializerKind::Mask(_) => {}
        }
        Ok(())
    }

    fn scalar(&mut self, init: &Initializer, offset: u64) -> Result<(), Diagnostic> {
        match &init.kind {
            InitializerKind::Constant(expr) => {
                self.constant(constexpr::evaluate(expr)?, offset, expr.span)
            }
            InitializerKind::Address(address) => {
                let size = self.holder_size(init.span)?;
                self.address(address, offset, size, 0)
            }
            InitializerKind::Mask(mask) => self.mask(mask, offset, init.span),
            InitializerKind::List(_) | InitializerKind::Integers(_) => Err(error(
                init.span,
                "a single value is expected here, not a list",
            )),
            InitializerKind::Fields(_) => {
                Err(error(init.span, "only `.texref` and its kin have fields"))
            }
        }
    }

    fn constant(&mut self, value: Value, offset: u64, span: Span) -> Result<(), Diagnostic> {
        let size = self.var.ty.size();
        let is_float = matches!(self.var.ty, ast::Type::F32 | ast::Type::F64);
        let bits = match value {
            Value::S64(_) | Value::U64(_) if is_float => {
                return Err(error(
                    span,
                    format!("an integer cannot initialize a `.{}`", self.var.ty.name()),
                ));
            }
            Value::S64(value) => value as u64,
            Value::U64(value) => value,
            // Bit types of the size of a float take float constants.
            Value::F64(value) if size == 4 => u64::from((value as f32).to_bits()),
            Value::F64(value) if size == 8 => value.to_bits(),
            Value::F32Bits(bits) if size == 4 => u64::from(bits),
            Value::F32Bits(bits) if size == 8 => f64::from(f32::from_bits(bits)).to_bits(),
            Value::F64(_) | Value::F32Bits(_) => {
                return Err(error(
                    span,
                    format!("a float cannot initialize a `.{}`", self.var.ty.name()),
                ));
            }
        };
        if matches!(value, Value::F64(_) | Value::F32Bits(_))
            && !is_float
            && !matches!(self.var.ty, ast::Type::B32 | ast::Type::B64)
        {
            return Err(error(
                span,
                format!("a float cannot initialize a `.{}`", self.var.ty.name()),
            ));
        }
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&bits.to_le_bytes());
        if matches!(value, Value::S64(value) if value < 0) {
            bytes[8..].fill(0xff);
        }
        self.put(offset, &bytes[..size.min(16) as usize], span)
    }

    fn put(&mut self, offset: u64, bytes: &[u8], span: Span) -> Result<(), Diagnostic> {
        let too_large = || error(span, "the initializer is too large");
        let start = usize::try_from(offset).map_err(|_| too_large())?;
        let end = start.checked_add(bytes.len()).ok_or_else(too_large)?;
        // Elements come in ascending order, so this grows with what is written, not with what the
        // dimensions claim.
        if end > self.init.bytes.len() {
            if end > 1 << 32 {
                return Err(too_large());
            }
            self.init.bytes.resize(end, 0);
        }
        self.init.bytes[start..end].copy_from_slice(bytes);
        Ok(())
    }

    /// The size of a variable that can hold an address.
    fn holder_size(&self, span: Span) -> Result<u8, Diagnostic> {
        match self.var.ty {
            ast::Type::U32 => Ok(4),
            ast::Type::U64 => Ok(8),
            other => Err(error(
                span,
                format!(
                    "an address needs a `.u32` or `.u64`, and this is a `.{}`",
                    other.name()
                ),
            )),
        }
    }

    fn address(
        &mut self,
        address: &ast::SymbolAddress,
        offset: u64,
        size: u8,
        shift: u8,
    ) -> Result<(), Diagnostic> {
        let mut addend = match &address.offset {
            None => 0,
            Some(expr) => match constexpr::evaluate(expr)?.as_int() {
                Some(value) => value as i64,
                None => return Err(error(expr.span, "an offset must be an integer")),
            },
        };
        let text = address.symbol.text(&self.module.source);
        let span = address.symbol.span;
        let mut is_const = false;
        let (target, declared) = match self.unit.global(text) {
            Some(Global::Func(func)) => (
                RelocTarget::Func(self.module.resolve_alias(func)),
                self.module.first_decl(func),
            ),
            Some(Global::Var(var)) => {
                let ast = self
                    .module
                    .module_var(var)
                    .and_then(|var| self.module.var_ast(var.decls[0]));
                let Some(ast) = ast else {
                    return Err(error(span, format!("`{text}` is not declared")));
                };
                if !matches!(ast.space, ast::Space::Global | ast::Space::Const) {
                    let message = format!(
                        "`{text}` is neither `.global` nor `.const`, so its address is no constant"
                    );
                    return Err(error(span, message));
                }
                is_const = ast.space == ast::Space::Const;
                (
                    RelocTarget::Var(self.module.resolve_var(var)),
                    ast.name.span,
                )
            }
            Some(Global::Old(_)) | None => {
                return Err(error(span, format!("`{text}` is not declared")));
            }
        };
        // A variable may refer to itself.
        if declared.start > span.start {
            return Err(error(span, format!("`{text}` is not declared")).label(
                declared,
                "it is declared only here; PTX wants it before its first use",
            ));
        }
        if matches!(target, RelocTarget::Func(_)) && (address.is_generic || addend != 0) {
            let message = format!("of the function `{text}` only the plain address can stand here");
            return Err(error(span, message));
        }
        self.put(offset, &[0; 8][..usize::from(size)], span)?;
        let is_old = !self.unit.ast.version.at_least(3, 1);
        let mut generic = address.is_generic || is_old;
        // What a narrow generic address says of a constant does not depend on where the constants
        // are.
        if generic && size < 8 && shift == 0 && is_const {
            generic = false;
            addend += super::narrow::CONST as i64;
        }
        self.init.relocs.push(Reloc {
            offset,
            size,
            shift,
            target,
            addend,
            generic,
        });
        Ok(())
    }

    /// `0xff00(symbol)`: one byte of an address or integer.
    fn mask(&mut self, mask: &ast::Mask, offset: u64, span: Span) -> Result<(), Diagnostic> {
        if self.var.ty != ast::Type::U8 {
            return Err(error(
                span,
                format!(
                    "a byte of an address needs a `.u8`, and this is a `.{}`",
                    self.var.ty.name()
                ),
            ));
        }
        let needs = match &mask.of.kind {
            InitializerKind::Constant(_) => ("a byte of an integer", (7, 2)),
            _ => ("a byte of an address", (7, 1)),
        };
        if let Some(diagnostic) = gates::require(self.unit, needs.0, needs.1, 0, span) {
            return Err(diagnostic);
        }
        let shift = mask.mask.trailing_zeros() & !7;
        match &mask.of.kind {
            InitializerKind::Address(address) => self.address(address, offset, 1, shift as u8),
            InitializerKind::Constant(expr) => match constexpr::evaluate(expr)?.as_int() {
                Some(value) => self.put(offset, &[(value >> shift) as u8], span),
                None => Err(error(expr.span, "an integer is expected here")),
            },
            InitializerKind::List(_)
            | InitializerKind::Integers(_)
            | InitializerKind::Fields(_)
            | InitializerKind::Mask(_) => Err(error(
                mask.of.span,
                "an address or integer is expected here",
            )),
        }
    }
}

fn error(span: Span, message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(message).label(span, "")
}
