//! The forms of a gang's access, loads and stores alike: lanes at a constant stride, all or those
//! that run; lanes elsewhere, one by one; contiguous quads.
//!
//! Contiguous lanes are accessed as vectors when all of them run, or when the places of those that
//! do not may be accessed as well; otherwise one call to a stub accesses those of the lanes that
//! run.

use cranelift_codegen::ir as cl;
use ptxjit_ir::{Type, Value};

use super::transfers::Places;
use crate::lower::Lower;
use crate::ops::{Parts, Place, Strided, Words, Wrapping, vector_type};

/// What an instruction does at the places of its lanes. Loads return vectors, stores none.
#[derive(Copy, Clone)]
pub(super) enum Form<'a> {
    /// Loads words.
    Load(Words),
    /// Loads one narrow element per lane, which stays packed.
    LoadPacked(Type),
    /// Stores words, given as their parts.
    Store {
        parts: &'a [Parts],
        ty: Type,
        /// To the CTA's own memory, which no other CTA writes.
        is_own: bool,
    },
    /// Stores a packed value.
    StorePacked(Value, Type),
}

/// What the runtime is told of an access.
#[derive(Copy, Clone, PartialEq, Eq, Hash)]
pub(in crate::lower) enum Kind {
    Load = 0,
    Store = 1,
    Atomic = 2,
}

impl Form<'_> {
    pub(super) fn kind(self) -> Kind {
        match self {
            Form::Load(_) | Form::LoadPacked(_) => Kind::Load,
            Form::Store { .. } | Form::StorePacked(..) => Kind::Store,
        }
    }

    /// The words that each lane accesses.
    pub(super) fn words(self) -> Words {
        match self {
            Form::Load(words) => words,
            Form::Store { parts, ty, .. } => Words { ty, n: parts.len() },
            Form::LoadPacked(ty) | Form::StorePacked(_, ty) => Words::one(ty),
        }
    }

    /// Whether the places of lanes that do not run may be accessed if those of all lanes are
    /// contiguous in one page.
    fn may_access_others(self, stride: i64) -> bool {
        match self {
            Form::Load(_) | Form::LoadPacked(_) => self.words().are_contiguous(stride),
            Form::Store { is_own, .. } => is_own && self.words().are_contiguous(stride),
            Form::StorePacked(..) => false,
        }
    }
}

/// One way to access lanes at a constant stride.
type Way<L> = fn(&mut L, Form<'_>, Strided) -> Vec<cl::Value>;

impl Lower<'_, '_> {
    /// The types of the vectors that a load returns.
    pub(super) fn types_of_form(&self, form: Form<'_>) -> Vec<cl::Type> {
        match form {
            Form::Load(Words { ty, n }) => vec![vector_type(ty); n * self.b.n_parts(ty)],
            Form::LoadPacked(ty) => self.subword_types(ty),
            Form::Store { .. } | Form::StorePacked(..) => Vec::new(),
        }
    }

    /// Accesses lanes at a constant stride.
    pub(super) fn access_strided(&mut self, form: Form<'_>, lanes: Strided) -> Vec<cl::Value> {
        let ways = [Self::access_whole, Self::access_running];
        match self.unless_full() {
            None => self.access_whole(form, lanes),
            Some(_) if self.node.version.is_general => self.access_running(form, lanes),
            Some(full) => self.access_either(full, form, lanes, ways),
        }
    }

    /// Accesses lanes in the first way if a condition holds, else in the second.
    fn access_either(
        &mut self,
        cond: cl::Value,
        form: Form<'_>,
        lanes: Strided,
        [fast, cold]: [Way<Self>; 2],
    ) -> Vec<cl::Value> {
        let types = self.types_of_form(form);
        let [fast, cold] = [fast, cold].map(|way| move |lower: &mut Self| way(lower, form, lanes));
        self.either(cond, types, fast, cold)
    }

    /// All lanes run.
    pub(super) fn access_whole(&mut self, form: Form<'_>, lanes: Strided) -> Vec<cl::Value> {
        match form {
            Form::Load(words) => return self.load_whole(words, lanes),
            Form::LoadPacked(ty) => return self.load_packed_whole(ty, lanes),
            Form::Store { parts, ty, .. } => self.store_whole(parts, ty, lanes),
            Form::StorePacked(arg, ty) => self.store_packed_whole(arg, ty, lanes),
        }
        Vec::new()
    }

    /// Some lanes run.
    fn access_running(&mut self, form: Form<'_>, lanes: Strided) -> Vec<cl::Value> {
        if !form.may_access_others(lanes.stride) {
            return self.access_theirs(form, lanes);
        }
        let near = self.b.in_one_page(lanes);
        let ways = [Self::access_among_others, Self::access_theirs];
        self.access_either(near, form, lanes, ways)
    }

    /// The places of lanes that do not run are accessed, too: stores leave what is there.
    fn access_among_others(&mut self, form: Form<'_>, lanes: Strided) -> Vec<cl::Value> {
        let Form::Store { parts, ty, .. } = form else {
            return self.access_whole(form, lanes);
        };
        let mask = self.mask_vectors();
        let old = self.load_whole(form.words(), lanes);
        let old = old.chunks(self.b.n_parts(ty));
        let new = parts.iter().zip(old);
        let new: Vec<Parts> = new
            .map(|(new, old)| self.blend(ty, &mask, new, old))
            .collect();
        self.store_whole(&new, ty, lanes);
        Vec::new()
    }

    /// Only the places of lanes that run are accessed.
    fn access_theirs(&mut self, form: Form<'_>, lanes: Strided) -> Vec<cl::Value> {
        if let Form::Store { parts, ty, .. } = form
            && self.may_store_masked(form.words(), lanes.stride)
        {
            self.store_masked(parts, ty, lanes.at, lanes.offset);
            return Vec::new();
        }
        self.access_by_stub(form, Places::Strided(lanes))
    }

    /// A stub accesses the places of lanes that run.
    pub(super) fn access_by_stub(&mut self, form: Form<'_>, places: Places) -> Vec<cl::Value> {
        match form {
            Form::Load(words) => return self.load_by_stub(words, places),
            Form::LoadPacked(ty) => {
                let quads = self.load_by_stub(Words::one(ty), places);
                return self.b.packed_to(&quads, ty).to_vec();
            }
            Form::Store { parts, ty, .. } => self.store_by_stub(parts, ty, places),
            Form::StorePacked(arg, ty) => {
                let quads = [self.parts(arg)];
                self.store_by_stub(&quads, ty, places);
            }
        }
        Vec::new()
    }

    /// On the cold path: some lanes' indices have wrapped.
    pub(super) fn access_wrapped(
        &mut self,
        form: Form<'_>,
        wrapping: &Wrapping,
        offset: i32,
    ) -> Vec<cl::Value> {
        let addrs = self.resolve_wrapped(wrapping);
        self.access_by_stub(form, Places::At(addrs, offset))
    }

    /// Accesses lanes one by one, those that do not run at memory of our own.
    pub(super) fn access_lanes(&mut self, form: Form<'_>, place: Place) -> Vec<cl::Value> {
        let Place { address, offset } = place;
        let address = self.redirect(address, offset);
        self.access_each_lane(form, &Place { address, offset })
    }

    /// Accesses lanes one by one.
    pub(super) fn access_each_lane(&mut self, form: Form<'_>, place: &Place) -> Vec<cl::Value> {
        match form {
            Form::Load(words) => return self.load_each_lane(words, place),
            Form::LoadPacked(ty) => {
                let quads = self.load_each_lane(Words::one(ty), place);
                return self.b.packed_to(&quads, ty).to_vec();
            }
            Form::Store { parts, ty, .. } => self.store_each_lane(parts, ty, place),
            Form::StorePacked(..) => unreachable!("packed values are stored contiguously"),
        }
        Vec::new()
    }

    /// Each quad is contiguous, from its first lane on. Of lanes that do not run, `is_whole` tells
    /// whether there are any, the places lie in the CTA's own memory.
    pub(super) fn access_quads(
        &mut self,
        form: Form<'_>,
        is_whole: bool,
        firsts: &[cl::Value],
        offset: i32,
    ) -> Vec<cl::Value> {
        match form {
            Form::Load(words) => return self.b.load_quads(words, firsts, offset),
            Form::Store { parts, ty, .. } if is_whole => {
                self.b.store_quads(parts, ty, firsts, offset)
            }
            Form::Store { parts, ty, .. } => self.store_among_quads(parts, ty, firsts, offset),
            Form::LoadPacked(_) | Form::StorePacked(..) => {
                unreachable!("quads of narrow elements are not looked for")
            }
        }
        Vec::new()
    }
}
