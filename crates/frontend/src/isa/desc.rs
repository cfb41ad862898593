//! Rows of the instruction table: what one form of an instruction looks like, and the function that
//! translates it.
//!
//! Rows are plain `const` data made with `const fn` builders. [`super::check`] compares an
//! instruction with the rows of its opcode: modifiers (in any order), types (in written order),
//! operand kinds, PTX version and target. A handler may rely on all of that.

use crate::diag::Diagnostic;
use crate::translate::{Inst, Translator};

use super::modifiers::{Mod, ModSet};
use super::types::{PtxType, Width};

/// Translates one instruction whose row fits.
pub type Handler = for<'m> fn(&mut Translator<'m>, &Inst<'m>) -> Result<(), Diagnostic>;

/// One form of an instruction.
#[derive(Copy, Clone, Debug)]
pub struct InstDesc {
    /// Up to the first dot: `cp` of `cp.async.bulk`.
    pub opcode: &'static str,
    /// Modifiers that must all be written: `.async`, `.bulk`.
    pub required: &'static [Mod],
    /// Of each group exactly one must be written.
    pub choices: &'static [&'static [Mod]],
    /// If there are any, one of these must directly follow the opcode, as part of its name:
    /// `mul.lo`.
    pub leading: &'static [Mod],
    /// Of each group at most one may be written.
    pub options: &'static [&'static [Mod]],
    /// Modifiers that may be written twice.
    pub repeats: &'static [Mod],
    /// Accepts further modifiers that are in no list, such as the shapes of `wgmma`.
    pub extra: Option<fn(&str) -> bool>,
    /// What each type in written order may be.
    pub types: &'static [&'static [PtxType]],
    /// Operands in written order; optional ones stand last.
    pub operands: &'static [Opd],
    /// PTX versions and targets that this form, or a part of it, needs.
    pub gates: &'static [Gate],
    /// Checks what the lists cannot express.
    pub check: Option<Handler>,
    /// Does more than write registers: under a guard it needs a branch.
    pub is_effect: bool,
    /// The handler looks after the guard itself (branches).
    pub owns_guard: bool,
    /// Emits IR.
    pub handler: Handler,
}

/// A form of `opcode` with these operands.
pub const fn inst(opcode: &'static str, operands: &'static [Opd], handler: Handler) -> InstDesc {
    InstDesc {
        opcode,
        required: &[],
        choices: &[],
        leading: &[],
        options: &[],
        repeats: &[],
        extra: None,
        types: &[],
        operands,
        gates: &[],
        check: None,
        is_effect: false,
        owns_guard: false,
        handler,
    }
}

impl InstDesc {
    /// Modifiers that must all be written.
    pub const fn with(mut self, required: &'static [Mod]) -> InstDesc {
        self.required = required;
        self
    }

    /// Groups of modifiers of which exactly one each must be written.
    pub const fn choose(mut self, choices: &'static [&'static [Mod]]) -> InstDesc {
        self.choices = choices;
        self
    }

    /// One of these must directly follow the opcode.
    pub const fn lead(mut self, leading: &'static [Mod]) -> InstDesc {
        self.leading = leading;
        self
    }

    /// Groups of modifiers of which at most one each may be written.
    pub const fn optional(mut self, options: &'static [&'static [Mod]]) -> InstDesc {
        self.options = options;
        self
    }

    /// Modifiers that may be written twice.
    pub const fn repeats(mut self, mods: &'static [Mod]) -> InstDesc {
        self.repeats = mods;
        self
    }

    /// Accepts modifiers outside the lists by a function.
    pub const fn extra(mut self, accepts: fn(&str) -> bool) -> InstDesc {
        self.extra = Some(accepts);
        self
    }

    /// What each type in written order may be.
    pub const fn types(mut self, types: &'static [&'static [PtxType]]) -> InstDesc {
        self.types = types;
        self
    }

    /// PTX versions and targets.
    pub const fn gates(mut self, gates: &'static [Gate]) -> InstDesc {
        self.gates = gates;
        self
    }

    /// A check that the lists cannot express; it must emit nothing.
    pub const fn check(mut self, check: Handler) -> InstDesc {
        self.check = Some(check);
        self
    }

    /// Writes memory, may stop the thread, is convergent, or transfers control: a guard becomes a
    /// branch around it.
    pub const fn effect(mut self) -> InstDesc {
        self.is_effect = true;
        self
    }

    /// The handler looks after the guard itself, with [`Translator::take_guard`].
    pub const fn owns_guard(mut self) -> InstDesc {
        self.is_effect = true;
        self.owns_guard = true;
        self
    }

    /// The operands of the form with these modifiers.
    pub fn operands_with(&self, mods: &ModSet) -> impl Iterator<Item = &'static Opd> + use<> {
        let mods = *mods;
        self.operands
            .iter()
            .filter(move |opd| opd.when.is_none_or(|m| mods.has(m)))
    }

    /// Least and greatest number of operands of the form with these modifiers.
    pub fn operand_count(&self, mods: &ModSet) -> (usize, usize) {
        let max = self.operands_with(mods).count();
        (
            self.operands_with(mods)
                .filter(|opd| !opd.is_optional)
                .count(),
            max,
        )
    }
}

/// A condition on the module's `.version` and `.target`.
#[derive(Copy, Clone, Debug)]
pub struct Gate {
    /// What needs it.
    pub when: When,
    /// Least PTX version.
    pub ptx: (u32, u32),
    /// Target.
    pub sm: Sm,
}

/// What part of an instruction a gate is about.
#[derive(Copy, Clone, Debug)]
pub enum When {
    /// The form.
    Always,
    /// The form with one of these modifiers.
    Mods(&'static [Mod]),
    /// The form with one of these types.
    Types(&'static [PtxType]),
}

/// Targets that a form exists on.
#[derive(Copy, Clone, Debug)]
pub enum Sm {
    /// All.
    Any,
    /// `sm_N` and higher.
    Min(u32),
    /// One of these architectures: `"90a"` is exactly that one, `"100f"` the family from there on.
    OneOf(&'static [&'static str]),
}

/// The form needs PTX `major.minor` and target `sm_N` or higher.
pub const fn since(major: u32, minor: u32, sm: u32) -> Gate {
    Gate {
        when: When::Always,
        ptx: (major, minor),
        sm: if sm == 0 { Sm::Any } else { Sm::Min(sm) },
    }
}

impl Gate {
    /// Only with one of these modifiers.
    pub const fn mods(mut self, mods: &'static [Mod]) -> Gate {
        self.when = When::Mods(mods);
        self
    }

    /// Only with one of these types.
    pub const fn types(mut self, types: &'static [PtxType]) -> Gate {
        self.when = When::Types(types);
        self
    }

    /// On these architectures only.
    pub const fn only(mut self, archs: &'static [&'static str]) -> Gate {
        self.sm = Sm::OneOf(archs);
        self
    }
}

/// What an operand may be.
#[derive(Copy, Clone, Debug)]
pub struct Opd {
    /// Destination, source, address, …
    pub kind: OpdKind,
    /// Its type.
    pub ty: OpdType,
    /// How strictly a register's width must match.
    pub width: Width,
    /// May be left out, with all that follow.
    pub is_optional: bool,
    /// Is there exactly if this modifier is written.
    pub when: Option<Mod>,
    /// A destination that may be `_`.
    pub can_sink: bool,
    /// A destination that may be `d|p`, with a predicate as second part.
    pub pair: Pair,
    /// A source that may be a special register.
    pub can_sreg: bool,
    /// A source that may be the address of a variable, function or label (`name`, `name+4`,
    /// `name[4]`).
    pub can_address: bool,
    /// A source that may be a constant.
    pub can_imm: bool,
    /// A predicate source that may be negated with `!`.
    pub can_negate: bool,
    /// A brace list or a vector register.
    pub elems: Elems,
    /// What may follow the register's dot.
    pub selector: Selector,
    /// A source that may have a minus sign.
    pub can_minus: bool,
}

/// Whether a destination is a pair `d|p`.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Pair {
    /// No.
    Never,
    /// `d` or `d|p`.
    Optional,
    /// `d|p`.
    Always,
}

/// What role an operand has.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum OpdKind {
    /// A register that is written.
    Dst,
    /// A register or constant that is read.
    Src,
    /// An integer constant in a range.
    Imm(i64, i64),
    /// `[address]` in square brackets.
    Addr,
    /// Anything: the handler (or `check`) looks at it.
    Any,
}

/// The type of an operand.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum OpdType {
    /// The instruction's type number n in written order.
    Nth(u8),
    /// Twice the width of type number n, same kind.
    Double(u8),
    /// A fixed type.
    Is(PtxType),
}

/// How many elements an operand has.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Elems {
    /// One.
    One,
    /// As many as `.v2`, `.v4` or `.v8` says, one without.
    ByModifier,
    /// As many as said.
    Of(u8),
    /// As many as said, in braces even if it is one.
    List(u8),
    /// Whatever is written; the handler (or `check`) counts.
    Any,
    /// As [`Elems::ByModifier`], but a list may stand without a modifier, and a source need not be
    /// a list.
    Lenient,
    /// One, or a list of 2, 4 or 8 parts that together are as wide as the type (`mov.b64 d, {lo,
    /// hi}`).
    Parts,
}

/// What may follow a register's dot.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Selector {
    /// An element of a vector, `.x`.
    Element,
    /// A byte or half of a word: `.b0` to `.b3`, `.h0`, `.h1`.
    Part,
    /// Two of the four halves of a pair of words: `.h10`, `.h32`.
    TwoHalves,
    /// Four of the eight bytes of a pair of words: `.b3210`.
    FourBytes,
    /// Which halves are written: `.h0`, `.h1`, `.h10`.
    HalfMask,
    /// Which bytes are written: `.b0`, `.b310`, `.b3210`.
    ByteMask,
}

impl Selector {
    /// Whether `text` selects something of a register.
    pub fn accepts(self, text: &str) -> bool {
        let digits = |prefix: &str, limit: u8| -> Option<Vec<u8>> {
            let digits: Vec<u8> = text
                .strip_prefix(prefix)?
                .bytes()
                .map(|byte| byte.wrapping_sub(b'0'))
                .collect();
            digits.iter().all(|&digit| digit < limit).then_some(digits)
        };
        let is_falling =
            |digits: &[u8]| !digits.is_empty() && digits.windows(2).all(|pair| pair[0] > pair[1]);
        match self {
            Selector::Element => crate::translate::element_index(text).is_some(),
            Selector::Part => digits("b", 4)
                .or_else(|| digits("h", 2))
                .is_some_and(|digits| digits.len() == 1),
            Selector::TwoHalves => digits("h", 4).is_some_and(|digits| digits.len() == 2),
            Selector::FourBytes => digits("b", 8).is_some_and(|digits| digits.len() == 4),
            Selector::HalfMask => digits("h", 2).is_some_and(|digits| is_falling(&digits)),
            Selector::ByteMask => digits("b", 4).is_some_and(|digits| is_falling(&digits)),
        }
    }
}

const fn opd(kind: OpdKind, ty: OpdType) -> Opd {
    Opd {
        kind,
        ty,
        width: Width::Exact,
        is_optional: false,
        when: None,
        can_sink: false,
        pair: Pair::Never,
        can_sreg: false,
        can_address: false,
        can_imm: true,
        can_negate: false,
        elems: Elems::One,
        selector: Selector::Element,
        can_minus: false,
    }
}

/// Destination of the instruction's type.
pub const D: Opd = opd(OpdKind::Dst, OpdType::Nth(0));
/// Source of the instruction's type.
pub const A: Opd = opd(OpdKind::Src, OpdType::Nth(0));
/// Source of the instruction's type.
pub const B: Opd = A;
/// Source of the instruction's type.
pub const C: Opd = A;
/// Predicate destination.
pub const DP: Opd = D.is(PtxType::Pred);
/// Predicate source, `!p` allowed.
pub const PRED: Opd = A.is(PtxType::Pred).negatable();
/// A memory address in brackets.
pub const ADDR: Opd = opd(OpdKind::Addr, OpdType::Nth(0));
/// An operand that the handler looks at.
pub const ANY: Opd = opd(OpdKind::Any, OpdType::Nth(0));

/// An integer constant from `lo` to `hi`.
pub const fn imm(lo: i64, hi: i64) -> Opd {
    opd(OpdKind::Imm(lo, hi), OpdType::Is(PtxType::S64))
}

impl Opd {
    /// Of the instruction's type number `n` in written order.
    pub const fn nth(mut self, n: u8) -> Opd {
        self.ty = OpdType::Nth(n);
        self
    }

    /// Twice as wide as the instruction's type number `n`.
    pub const fn double(mut self, n: u8) -> Opd {
        self.ty = OpdType::Double(n);
        self
    }

    /// Of a fixed type.
    pub const fn is(mut self, ty: PtxType) -> Opd {
        self.ty = OpdType::Is(ty);
        self
    }

    /// May be left out.
    pub const fn opt(mut self) -> Opd {
        self.is_optional = true;
        self
    }

    /// Is there exactly if `m` is written.
    pub const fn when(mut self, m: Mod) -> Opd {
        self.when = Some(m);
        self
    }

    /// May be `_`.
    pub const fn sink(mut self) -> Opd {
        self.can_sink = true;
        self
    }

    /// May be `d|p`.
    pub const fn pair(mut self) -> Opd {
        self.pair = Pair::Optional;
        self
    }

    /// Must be `d|p`.
    pub const fn always_pair(mut self) -> Opd {
        self.pair = Pair::Always;
        self
    }

    /// May be a special register.
    pub const fn sreg(mut self) -> Opd {
        self.can_sreg = true;
        self
    }

    /// May be the address of a variable or function.
    pub const fn address(mut self) -> Opd {
        self.can_address = true;
        self
    }

    /// Must be a register.
    pub const fn reg(mut self) -> Opd {
        self.can_imm = false;
        self
    }

    /// `!p` is allowed.
    pub const fn negatable(mut self) -> Opd {
        self.can_negate = true;
        self
    }

    /// The register may be wider than the type.
    pub const fn or_wider(mut self) -> Opd {
        self.width = Width::OrWider;
        self
    }

    /// The register of a float may be one of integers.
    pub const fn or_integer(mut self) -> Opd {
        self.width = Width::OrInteger;
        self
    }

    /// A part of the register may be selected.
    pub const fn select(mut self, selector: Selector) -> Opd {
        self.selector = selector;
        self
    }

    /// `-a` is allowed.
    pub const fn minus(mut self) -> Opd {
        self.can_minus = true;
        self
    }

    /// A vector, as `elems` says.
    pub const fn vec(mut self, elems: Elems) -> Opd {
        self.elems = elems;
        self
    }
}
