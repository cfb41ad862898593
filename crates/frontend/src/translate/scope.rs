//! Names inside a function: registers, variables, parameters, in nested scopes.
//!
//! Inner names hide outer ones. `.reg .b32 %r<100>` is kept as one range; its registers come into
//! being when they are first used, so a range of a million costs nothing. `%r03` names the same
//! register as `%r3`.

use std::borrow::Cow;

use ptxjit_ir::{FuncId, StackSlot, VarId, Variable};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::isa::types::PtxType;
use crate::source::Span;

/// A register of the function, by number.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct RegId(pub(crate) u32);

/// A register.
#[derive(Clone, Debug)]
pub struct Reg {
    /// Type of an element.
    pub ty: PtxType,
    /// Number of elements: 1 for a scalar.
    pub elems: u8,
    /// The SSA variables: one for each element, two for each `.b128` element (low half first).
    pub vars: SmallVec<[Variable; 1]>,
    /// Where it was declared.
    pub decl: Span,
}

/// Something in memory that has a name.
#[derive(Copy, Clone, Debug)]
pub struct Place {
    /// Where it lies.
    pub base: PlaceBase,
    /// Offset from there, for the members of a range `name<N>`.
    pub start: i64,
    /// Bytes of one element.
    pub elem_size: u32,
    /// Size in bytes; 0 if unknown.
    pub size: u64,
    /// Alignment in bytes.
    pub align: u32,
    /// `.texref` and its kin: what lies here is not for memory instructions.
    pub opaque: Option<PtxType>,
    /// Where it was declared.
    pub decl: Span,
}

/// Where a [`Place`] lies.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum PlaceBase {
    /// Offset in the kernel's parameter block.
    KernelParam(u32),
    /// A `.local` variable.
    Local(StackSlot),
    /// A `.param` variable that carries an argument or a result of a call.
    CallParam(StackSlot),
    /// A `.param` formal of this device function.
    Formal(StackSlot),
    /// A returned `.param` of this device function.
    Return(StackSlot),
    /// The unsized last formal: the variable holds the local address of what the caller passed.
    UnsizedFormal(Variable),
    /// A variable of the module, or a static one of this function.
    Var(VarId, ptxjit_ir::Space),
}

/// What a name stands for.
#[derive(Copy, Clone, Debug)]
pub enum Entity {
    /// A register.
    Reg(RegId),
    /// Something in memory.
    Place(Place),
    /// A function.
    Func(FuncId),
}

#[derive(Clone, Debug)]
struct Range {
    ty: PtxType,
    elems: u8,
    count: u32,
    decl: Span,
    regs: FxHashMap<u32, RegId>,
}

/// Where the prefix of a register's name can end. A prefix may itself end in digits (`%r1<5>`
/// declares `%r10`), so every split of the final digits counts; numbers have ten digits at most,
/// after any zeros.
fn splits(name: &str) -> impl Iterator<Item = usize> + use<> {
    const MAX_NUMBER: usize = 10;
    // Names are as long as they like, and looking up each prefix of a long one would take the
    // square of that.
    const MAX_ZEROS: usize = 128;
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
    let number = digits.min(MAX_NUMBER);
    let rest = &name.as_bytes()[name.len() - digits..name.len() - number];
    let zeros = rest
        .iter()
        .rev()
        .take(MAX_ZEROS)
        .take_while(|&&byte| byte == b'0')
        .count();
    name.len() - number - zeros..name.len()
}

#[derive(Default)]
struct Scope<'m> {
    names: FxHashMap<Cow<'m, str>, (Entity, Span)>,
    ranges: FxHashMap<&'m str, Range>,
    /// The numbers of names that end in one, by what stands before it.
    numbered: FxHashMap<Cow<'m, str>, Vec<(u32, Span)>>,
    /// PERF: the registers of ranges that have been used, as they are written.
    used: FxHashMap<&'m str, RegId>,
}

/// The scopes that are open, from the outermost.
pub(super) struct Scopes<'m> {
    scopes: Vec<Scope<'m>>,
    pub(super) regs: Vec<Reg>,
}

/// Result of looking a name up.
pub(super) enum Found {
    Entity(Entity),
    /// A register of a range that has not been used yet; `scope` and `prefix_len` say which.
    NewReg {
        scope: usize,
        prefix_len: usize,
        number: u32,
    },
}

impl<'m> Scopes<'m> {
    pub(super) fn new() -> Scopes<'m> {
        Scopes {
            scopes: vec![Scope::default()],
            regs: Vec::new(),
        }
    }

    pub(super) fn open(&mut self) {
        self.scopes.push(Scope::default());
    }

    pub(super) fn close(&mut self) {
        self.scopes.pop();
    }

    /// Declares a name in the innermost scope; on conflict returns where it was declared before.
    pub(super) fn declare(
        &mut self,
        name: &'m str,
        entity: Entity,
        decl: Span,
    ) -> Result<(), Span> {
        self.insert(Cow::Borrowed(name), entity, decl)
    }

    /// As [`Scopes::declare`], for a name that is not written out.
    pub(super) fn declare_owned(
        &mut self,
        name: String,
        entity: Entity,
        decl: Span,
    ) -> Result<(), Span> {
        self.insert(Cow::Owned(name), entity, decl)
    }

    fn insert(&mut self, name: Cow<'m, str>, entity: Entity, decl: Span) -> Result<(), Span> {
        let Some(scope) = self.scopes.last_mut() else {
            return Ok(());
        };
        if let Some(before) = scope.declaration(&name) {
            return Err(before);
        }
        scope.number(&name, decl);
        scope.names.insert(name, (entity, decl));
        Ok(())
    }

    /// Declares `prefix0` to `prefix(count-1)` as registers.
    pub(super) fn declare_range(
        &mut self,
        prefix: &'m str,
        (ty, elems): (PtxType, u8),
        count: u32,
        decl: Span,
    ) -> Result<(), Span> {
        let Some(scope) = self.scopes.last_mut() else {
            return Ok(());
        };
        if let Some(before) = scope.ranges.get(prefix) {
            return Err(before.decl);
        }
        if let Some(before) = scope.member(prefix, count) {
            return Err(before);
        }
        scope.ranges.insert(
            prefix,
            Range {
                ty,
                elems,
                count,
                decl,
                regs: FxHashMap::default(),
            },
        );
        Ok(())
    }

    /// Where the innermost scope declares a name that is written out.
    pub(super) fn declared_here(&self, name: &str) -> Option<Span> {
        let scope = self.scopes.last()?;
        scope.names.get(name).map(|&(_, decl)| decl)
    }

    /// Looks a name up from the innermost scope outwards.
    pub(super) fn find(&self, name: &str) -> Option<Found> {
        let mut scopes = self.scopes.iter().enumerate().rev();
        scopes.find_map(|(idx, scope)| scope.find(idx, name))
    }

    /// Type, elements and declaration of the range that a new register belongs to.
    pub(super) fn range_of(&self, scope: usize, prefix: &str) -> Option<(PtxType, u8, Span)> {
        let range = self.scopes.get(scope)?.ranges.get(prefix)?;
        Some((range.ty, range.elems, range.decl))
    }

    /// Remembers the register `name`, which has this number in the range of its prefix.
    pub(super) fn add_to_range(
        &mut self,
        scope: usize,
        (name, prefix_len): (&'m str, usize),
        number: u32,
        reg: RegId,
    ) {
        let Some(scope) = self.scopes.get_mut(scope) else {
            return;
        };
        scope.used.insert(name, reg);
        if let Some(range) = scope.ranges.get_mut(&name[..prefix_len]) {
            range.regs.insert(number, reg);
        }
    }

    /// Adds a register.
    pub(super) fn add_reg(&mut self, reg: Reg) -> RegId {
        let id = RegId(self.regs.len() as u32);
        self.regs.push(reg);
        id
    }

    pub(super) fn reg(&self, id: RegId) -> &Reg {
        &self.regs[id.0 as usize]
    }

    /// All names of the open scopes, for suggestions.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.scopes
            .iter()
            .rev()
            .flat_map(|scope| scope.names.keys().map(|name| &**name))
    }
}

impl<'m> Scope<'m> {
    /// Where a name is declared, by itself or as part of a range.
    fn declaration(&self, name: &str) -> Option<Span> {
        if let Some(&(_, decl)) = self.names.get(name) {
            return Some(decl);
        }
        splits(name).find_map(|prefix_len| {
            let range = self.ranges.get(&name[..prefix_len])?;
            let number: u32 = name[prefix_len..].parse().ok()?;
            (number < range.count).then_some(range.decl)
        })
    }

    /// The first declaration of a name that the range `prefix<count>` would declare, too.
    fn member(&self, prefix: &str, count: u32) -> Option<Span> {
        let members = self.numbered.get(prefix)?.iter();
        let members = members.filter(|&&(number, _)| number < count);
        members.map(|&(_, decl)| decl).min_by_key(|decl| decl.start)
    }

    /// Remembers a name under all ranges that might declare it, too.
    #[expect(
        clippy::ptr_arg,
        reason = "what is borrowed from the source stays borrowed"
    )]
    fn number(&mut self, name: &Cow<'m, str>, decl: Span) {
        for prefix_len in splits(name) {
            let number = &name[prefix_len..];
            let has_zeros = number.len() > 1 && number.starts_with('0');
            if !has_zeros && let Ok(number) = number.parse() {
                let prefix = match name {
                    Cow::Borrowed(name) => Cow::Borrowed(&name[..prefix_len]),
                    Cow::Owned(name) => Cow::Owned(name[..prefix_len].to_owned()),
                };
                self.numbered
                    .entry(prefix)
                    .or_default()
                    .push((number, decl));
            }
        }
    }

    fn find(&self, scope: usize, name: &str) -> Option<Found> {
        // PERF: most scopes inside of a function declare nothing.
        if self.names.is_empty() && self.ranges.is_empty() {
            return None;
        }
        if let Some(&reg) = self.used.get(name) {
            return Some(Found::Entity(Entity::Reg(reg)));
        }
        if let Some(&(entity, _)) = self.names.get(name) {
            return Some(Found::Entity(entity));
        }
        self.find_in_range(scope, name)
    }

    fn find_in_range(&self, scope: usize, name: &str) -> Option<Found> {
        splits(name).find_map(|prefix_len| {
            let range = self.ranges.get(&name[..prefix_len])?;
            let number: u32 = name[prefix_len..]
                .parse()
                .ok()
                .filter(|&n| n < range.count)?;
            Some(match range.regs.get(&number) {
                Some(&reg) => Found::Entity(Entity::Reg(reg)),
                None => Found::NewReg {
                    scope,
                    prefix_len,
                    number,
                },
            })
        })
    }
}
