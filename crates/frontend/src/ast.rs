//! The syntax tree of a PTX module: what is written, in the order in which it is written.
//!
//! The tree knows no instruction: opcodes, modifiers and names are spans of the source, read with
//! [`Source::slice`]. What has one meaning everywhere (state spaces, variable types, linkage,
//! numbers) is decoded. A [`Module`] is a skeleton: function bodies and initializers are ranges of
//! the source, which `parse::body` and `parse::initializer` turn into a [`Body`] and an
//! [`Initializer`] when they are wanted.
//!
//! Spans are offsets into the whole source also inside a body. The tree is bounded in depth: only
//! constant expressions, initializers and operands nest, and `parse` limits how deeply.
//!
//! The file is long because a tree is best read in one place; there is hardly any code in it.

use smallvec::SmallVec;

use crate::diag::Diagnostic;
use crate::source::{Source, Span};

/// A name as written: register, variable, function, label, or part of a special register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ident {
    pub span: Span,
}

impl Ident {
    pub fn text(self, source: &Source) -> &str {
        source.slice(self.span)
    }
}

// ---- modules
// -------------------------------------------------------------------------------------

/// One PTX module without the contents of its function bodies.
#[derive(Clone, Debug)]
pub struct Module {
    pub version: Version,
    pub target: Target,
    pub address_size: Option<AddressSize>,
    /// Variables, functions and aliases in written order.
    pub items: Vec<Item>,
    /// `.file` directives; [`Module::file`] looks one up.
    pub files: Vec<File>,
    pub sections: Vec<Section>,
    /// Module-scope `.pragma`s.
    pub pragmas: Vec<Pragma>,
    /// What the parser found odd but not wrong, such as a version newer than it knows.
    pub warnings: Vec<Diagnostic>,
    /// What is wrong with the module directives, where the rest could be read all the same.
    pub errors: Vec<Diagnostic>,
}

impl Module {
    /// The file that a `.loc` names by `index`.
    pub fn file(&self, index: u32) -> Option<&File> {
        self.files.iter().find(|file| file.index == index)
    }

    pub fn functions(&self) -> impl Iterator<Item = &Function> {
        self.items.iter().filter_map(|item| match item {
            Item::Function(function) => Some(&**function),
            Item::Variable(_) | Item::Alias(_) => None,
        })
    }

    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.items.iter().filter_map(|item| match item {
            Item::Variable(variable) => Some(variable),
            Item::Function(_) | Item::Alias(_) => None,
        })
    }
}

/// `.version major.minor`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    pub span: Span,
    pub major: u32,
    pub minor: u32,
}

impl Version {
    /// Is this PTX `major.minor` or later?
    pub fn at_least(self, major: u32, minor: u32) -> bool {
        (self.major, self.minor) >= (major, minor)
    }
}

/// `.target sm_90a, texmode_independent, …`; later `.target` directives add their options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub span: Span,
    pub arch: Arch,
    /// `texmode_independent`; without it textures carry their sampler (`texmode_unified`).
    pub is_texmode_independent: bool,
    pub has_debug: bool,
    pub has_map_f64_to_f32: bool,
}

/// `sm_90a`, `compute_80`, …
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arch {
    pub span: Span,
    /// 90 of `sm_90a`.
    pub number: u32,
    pub suffix: ArchSuffix,
}

/// What follows the number of an architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchSuffix {
    None,
    /// `a`: features of this very architecture.
    Specific,
    /// `f`: features of its family.
    Family,
}

/// `.address_size 64`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressSize {
    pub span: Span,
    /// 32 or 64.
    pub bits: u32,
}

#[derive(Clone, Debug)]
pub enum Item {
    Variable(Variable),
    Function(Box<Function>),
    Alias(Alias),
}

/// `.alias name, target;`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    pub span: Span,
    pub name: Ident,
    pub target: Ident,
}

/// `.file index "name" {, timestamp, size}`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub span: Span,
    pub index: u32,
    /// The path between the quotes, as written.
    pub name: Span,
    pub timestamp: Option<u64>,
    pub size: Option<u64>,
}

/// `.section name { … }`; the contents (DWARF) are looked at only by `parse::check_debug`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    pub span: Span,
    /// With its dot, `.debug_info`.
    pub name: Span,
    /// Between the braces.
    pub contents: Span,
}

/// `.pragma "…", "…";`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pragma {
    pub span: Span,
    /// Each string, without its quotes.
    pub strings: SmallVec<[Span; 1]>,
}

// ---- variables
// -----------------------------------------------------------------------------------

/// One declared name: variables and registers, of the module or of a body. A directive that
/// declares several names is as many `Variable`s.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// From the name to the end of the dimensions; the initializer is apart.
    pub span: Span,
    pub name: Ident,
    pub space: Space,
    pub linkage: Linkage,
    pub ty: Type,
    /// Elements of a vector: 2 or 4, or 1 if it is not one.
    pub vector: u8,
    /// Constant bank of `.const[bank]`, PTX before 2.2.
    pub bank: Option<u8>,
    /// `.align`, a power of two.
    pub align: Option<u32>,
    /// N of `name<N>`, which declares `name0` to `name(N-1)`.
    pub range: Option<u32>,
    /// From the outermost; empty if it is no array.
    pub dims: Dims,
    /// The range of the initializer, for `parse::initializer`. Empty if there is none.
    pub init: Span,
    pub attribute: Option<Box<Attribute>>,
}

impl Variable {
    pub fn has_init(&self) -> bool {
        !self.init.is_empty()
    }

    pub fn is_array(&self) -> bool {
        !self.dims.is_empty()
    }
}

/// Array dimensions, from the outermost. A slice in all but layout, which keeps the scalars and
/// plain arrays of a large module small.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dims(DimsKind);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum DimsKind {
    #[default]
    None,
    One(Dim),
    #[expect(
        clippy::box_collection,
        reason = "a thin pointer, for the rare arrays of arrays"
    )]
    Many(Box<Vec<Dim>>),
}

impl Dims {
    pub fn new(dims: Vec<Dim>) -> Self {
        Dims(match dims.as_slice() {
            [] => DimsKind::None,
            [one] => DimsKind::One(*one),
            [..] => DimsKind::Many(Box::new(dims)),
        })
    }
}

impl std::ops::Deref for Dims {
    type Target = [Dim];

    fn deref(&self) -> &[Dim] {
        match &self.0 {
            DimsKind::None => &[],
            DimsKind::One(dim) => std::slice::from_ref(dim),
            DimsKind::Many(dims) => dims,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dim {
    /// `[]`
    Unsized,
    /// `[N]`
    Sized(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    Reg,
    Sreg,
    Const,
    Global,
    Local,
    Param,
    Shared,
    /// The legacy `.tex`, PTX before 1.5.
    Tex,
}

/// Linking directive; at most one per declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Linkage {
    /// None written: known only in its module.
    Module,
    Extern,
    Visible,
    Weak,
    Common,
}

/// Types that variables, registers and parameters may have. Types that only instructions have
/// (`.bf16`, `.e4m3x2`, …) are modifiers and not decoded here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    Pred,
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    F32,
    F64,
    Texref,
    Samplerref,
    Surfref,
}

impl Type {
    pub const ALL: [Type; 21] = [
        Type::Pred,
        Type::B8,
        Type::B16,
        Type::B32,
        Type::B64,
        Type::B128,
        Type::U8,
        Type::U16,
        Type::U32,
        Type::U64,
        Type::S8,
        Type::S16,
        Type::S32,
        Type::S64,
        Type::F16,
        Type::F16x2,
        Type::F32,
        Type::F64,
        Type::Texref,
        Type::Samplerref,
        Type::Surfref,
    ];

    /// As PTX writes it, without the dot.
    pub fn name(self) -> &'static str {
        match self {
            Type::Pred => "pred",
            Type::B8 => "b8",
            Type::B16 => "b16",
            Type::B32 => "b32",
            Type::B64 => "b64",
            Type::B128 => "b128",
            Type::U8 => "u8",
            Type::U16 => "u16",
            Type::U32 => "u32",
            Type::U64 => "u64",
            Type::S8 => "s8",
            Type::S16 => "s16",
            Type::S32 => "s32",
            Type::S64 => "s64",
            Type::F16 => "f16",
            Type::F16x2 => "f16x2",
            Type::F32 => "f32",
            Type::F64 => "f64",
            Type::Texref => "texref",
            Type::Samplerref => "samplerref",
            Type::Surfref => "surfref",
        }
    }

    /// The type that `name` (without a dot) stands for.
    pub fn from_name(name: &str) -> Option<Type> {
        Type::ALL.into_iter().find(|ty| ty.name() == name)
    }

    /// Bytes in memory. Opaque types count as the 64-bit handle that stands for them; a predicate,
    /// which has no memory, as 0.
    pub fn size(self) -> u32 {
        match self {
            Type::Pred => 0,
            Type::B8 | Type::U8 | Type::S8 => 1,
            Type::B16 | Type::U16 | Type::S16 | Type::F16 => 2,
            Type::B32 | Type::U32 | Type::S32 | Type::F16x2 | Type::F32 => 4,
            Type::B64 | Type::U64 | Type::S64 | Type::F64 => 8,
            Type::Texref | Type::Samplerref | Type::Surfref => 8,
            Type::B128 => 16,
        }
    }

    pub fn is_opaque(self) -> bool {
        matches!(self, Type::Texref | Type::Samplerref | Type::Surfref)
    }
}

/// `.attribute(…)` of a variable or function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute {
    pub span: Span,
    pub kind: AttributeKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributeKind {
    /// `.managed`
    Managed,
    /// `.unified(uuid1, uuid2)`
    Unified(u64, u64),
}

// ---- initializers
// --------------------------------------------------------------------------------

/// The value of a variable, or of a part of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Initializer {
    pub span: Span,
    pub kind: InitializerKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum InitializerKind {
    /// `{ …, … }` for an array dimension or a vector.
    List(Box<[Initializer]>),
    /// A `List` all of whose members are plain integers, the shape of large tables: their 64 bits,
    /// negated where a minus sign stood. They have no spans of their own.
    Integers(Box<[u64]>),
    /// `{ filter_mode = linear, … }` for an opaque type.
    Fields(Box<[Field]>),
    Constant(Expr),
    /// `symbol`, `generic(symbol)`, each with `+offset`.
    Address(Box<SymbolAddress>),
    /// `0xff00(…)`: the byte that the mask selects.
    Mask(Box<Mask>),
}

/// `name = value` in the initializer of an opaque type.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub name: Ident,
    pub value: FieldValue,
}

#[derive(Clone, Debug, PartialEq)]
pub enum FieldValue {
    /// `linear`, `clamp_to_border`, …
    Name(Ident),
    Constant(Expr),
}

/// The address of a variable or function.
#[derive(Clone, Debug, PartialEq)]
pub struct SymbolAddress {
    pub symbol: Ident,
    /// Written `generic(symbol)`.
    pub is_generic: bool,
    /// In bytes.
    pub offset: Option<Expr>,
}

/// `0xff00(of)`
#[derive(Clone, Debug, PartialEq)]
pub struct Mask {
    /// As written; 0xff shifted by a multiple of 8 (checked).
    pub mask: u64,
    /// An `Address` or a `Constant`.
    pub of: Initializer,
}

// ---- constant expressions
// ------------------------------------------------------------------------

/// A constant expression as written; `parse::constexpr::evaluate` computes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    pub span: Span,
    pub kind: ExprKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// `5`, `0x5`, and with `is_unsigned` `5U`.
    Int {
        value: u64,
        /// `U` was written, or the value does not fit `.s64`.
        is_unsigned: bool,
    },
    /// `1.5`
    Float(f64),
    /// `0f3f800000`: the bits of a single.
    F32Bits(u32),
    /// `0d3ff0000000000000`: the bits of a double.
    F64Bits(u64),
    /// `WARP_SZ`
    WarpSize,
    Unary(UnaryOp, Box<Expr>),
    Binary(BinaryOp, Box<[Expr; 2]>),
    /// `condition ? then : else`
    Select(Box<[Expr; 3]>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    Plus,
    Neg,
    /// `!`
    Not,
    /// `~`
    BitNot,
    /// `(.s64)`
    CastS64,
    /// `(.u64)`
    CastU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOp {
    Mul,
    Div,
    Rem,
    Add,
    Sub,
    Shl,
    Shr,
    Lt,
    Gt,
    Le,
    Ge,
    Eq,
    Ne,
    BitAnd,
    BitXor,
    BitOr,
    And,
    Or,
}

// ---- functions
// -----------------------------------------------------------------------------------

/// `.entry` or `.func`, definition or prototype.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// The header, from the linking directive up to the body.
    pub span: Span,
    pub kind: FunctionKind,
    pub linkage: Linkage,
    pub name: Ident,
    pub returns: Vec<Param>,
    pub params: Vec<Param>,
    pub attribute: Option<Attribute>,
    /// Performance tuning and the like, in written order.
    pub directives: Vec<FunctionDirective>,
    /// With its braces, for `parse::body`; `None` makes this a prototype.
    pub body: Option<Span>,
}

impl Function {
    pub fn is_noreturn(&self) -> bool {
        self.directives
            .iter()
            .any(|d| matches!(d.kind, FunctionDirectiveKind::Noreturn))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FunctionKind {
    Entry,
    Func,
}

/// A parameter or return parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    pub span: Span,
    /// `None` is `_`, which only `.callprototype` may write.
    pub name: Option<Ident>,
    /// `Reg` or `Param`.
    pub space: Space,
    pub ty: Type,
    /// 2 or 4 for a vector, else 1.
    pub vector: u8,
    pub align: Option<u32>,
    pub dims: Dims,
    pub ptr: Option<Ptr>,
}

/// `.ptr {.space} {.align N}`: what a kernel's pointer parameter points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ptr {
    pub span: Span,
    /// `None` is generic.
    pub space: Option<Space>,
    /// 4 if not written.
    pub align: u32,
}

/// A directive between a function's parameters and its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionDirective {
    pub span: Span,
    pub kind: FunctionDirectiveKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FunctionDirectiveKind {
    Maxnreg(u32),
    /// Missing dimensions are 1.
    Maxntid([u32; 3]),
    Reqntid([u32; 3]),
    Minnctapersm(u32),
    Maxnctapersm(u32),
    Reqnctapercluster([u32; 3]),
    Explicitcluster,
    Maxclusterrank(u32),
    Blocksareclusters,
    Noreturn,
    AbiPreserve(u32),
    AbiPreserveControl(u32),
    Pragma(Pragma),
}

// ---- bodies
// --------------------------------------------------------------------------------------

/// The statements of one function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Body {
    /// With its braces.
    pub span: Span,
    /// In written order, scopes flattened: each inner `{` and `}` is a statement of its own,
    /// and they are balanced.
    pub stmts: Vec<Stmt>,
    /// `.loc` directives in written order, so sorted by offset.
    pub locs: Vec<Loc>,
}

impl Body {
    /// The `.loc` in force at a byte offset of the source.
    pub fn loc(&self, offset: u32) -> Option<&Loc> {
        let after = self.locs.partition_point(|loc| loc.span.start <= offset);
        self.locs[..after].last()
    }
}

/// `.loc file line column {, function_name …, inlined_at …}`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loc {
    pub span: Span,
    /// Names a [`File`] of the module.
    pub file: u32,
    pub line: u32,
    pub column: u32,
    pub inlined: Option<Box<InlinedAt>>,
}

/// Where the code of a [`Loc`] was inlined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InlinedAt {
    /// Label in `.debug_str` (or the section itself) of the inlined function's name.
    pub function_name: Span,
    /// In bytes from that label.
    pub function_offset: u64,
    pub file: u32,
    pub line: u32,
    pub column: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    pub span: Span,
    pub kind: StmtKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind {
    Inst(Inst),
    /// `name:`, also right before `}`.
    Label(Ident),
    /// An inner `{`: names and labels declared from here to its `}` are known only there.
    ScopeBegin,
    ScopeEnd,
    Variable(Box<Variable>),
    BranchTargets(Box<BranchTargets>),
    CallTargets(Box<CallTargets>),
    CallPrototype(Box<CallPrototype>),
    Pragma(Box<Pragma>),
}

/// `label: .branchtargets a, b<3>;`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchTargets {
    pub label: Ident,
    pub targets: Vec<BranchTarget>,
}

/// A label, or with a count the labels `name0` to `name(count-1)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BranchTarget {
    pub name: Ident,
    pub count: Option<u32>,
}

/// `label: .calltargets f, g;`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallTargets {
    pub label: Ident,
    pub targets: Vec<Ident>,
}

/// `label: .callprototype (ret) _ (params) .noreturn;`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallPrototype {
    pub label: Ident,
    pub returns: Vec<Param>,
    pub params: Vec<Param>,
    /// `.noreturn` and `.abi_preserve…` only.
    pub directives: Vec<FunctionDirective>,
}

/// `@guard opcode.modifier.modifier operand, operand;`
#[derive(Clone, Debug, PartialEq)]
pub struct Inst {
    pub guard: Option<Guard>,
    /// Up to the first dot: `cp` of `cp.async.bulk`.
    pub opcode: Ident,
    /// In written order. `shared::cta` is one modifier.
    pub modifiers: SmallVec<[Modifier; 4]>,
    pub operands: SmallVec<[Operand; 4]>,
}

/// `.wide`, `.shared::cta`, `.L2::128B`, … ; its span leaves out the leading dot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modifier {
    pub span: Span,
}

impl Modifier {
    pub fn text(self, source: &Source) -> &str {
        source.slice(self.span)
    }
}

/// `@p` or `@!p`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    pub span: Span,
    pub pred: Ident,
    pub is_negated: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Operand {
    pub span: Span,
    pub kind: OperandKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum OperandKind {
    /// Register, special register, variable, parameter, function or label.
    Name(Ident),
    /// `v.x`, `%tid.x`, `r.h1`, `r.b0123`: the selector is the identifier after the dot.
    Member {
        base: Ident,
        selector: Ident,
    },
    /// `name+offset`, an address as a value.
    NameOffset(Box<NameOffset>),
    Constant(Box<Expr>),
    /// `[base]`, `[base+offset]`, `[offset]`, with `.unified`
    Address(Box<Address>),
    /// `name[index]`
    Element(Box<Element>),
    /// `[a, b, {x, y}]` of textures, surfaces and tensors: two or more parts.
    Tuple(Box<[Operand]>),
    /// `{a, b, _, 1.0}`
    Vector(Box<[Operand]>),
    /// `_`
    Sink,
    /// `d|p`
    Pair(Box<[Operand; 2]>),
    /// `!p`
    Not(Ident),
    /// `-a`; of a number, the minus sign belongs to the constant.
    Neg(Box<Operand>),
    /// `(a, b)`, the parameters or returns of a call. Elsewhere `(5)` is a `Constant`.
    List(Box<[Operand]>),
}

/// `name+offset`
#[derive(Clone, Debug, PartialEq)]
pub struct NameOffset {
    pub name: Ident,
    pub offset: Expr,
}

/// `[base+offset]`; one of the two is there.
#[derive(Clone, Debug, PartialEq)]
pub struct Address {
    /// A `Name` or a `Member`.
    pub base: Option<Operand>,
    /// In bytes; of `[r+4+4]` the sum.
    pub offset: Option<Expr>,
    /// `.unified` follows the bracket.
    pub is_unified: bool,
}

/// `name[index+offset]`, counted in elements; one of index and offset is there.
#[derive(Clone, Debug, PartialEq)]
pub struct Element {
    pub name: Ident,
    /// A `Name` or a `Member`.
    pub index: Option<Operand>,
    pub offset: Option<Expr>,
}
