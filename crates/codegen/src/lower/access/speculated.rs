//! Speculated contiguous accesses, which a guard at run time confirms.
//!
//! A 64-bit address that is a base plus a 32-bit index is tested by its index, and computed where
//! it is needed: for the first lane alone if the lanes are contiguous. In windows it is enough that
//! the lanes of each quad are, as with the partners of a sorting network or of a butterfly at a
//! small distance.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{Access, Inst, InstData, IntBinaryOp, ResizeOp, Space, Type, Value, ValueDef};
use ptxjit_vectorize::Variability;

use super::forms::Form;
use crate::lower::Lower;
use crate::ops::{Address, Alignment, Distances, Parts, Place, Strided, Val, Words, vector_type};

/// With a greater factor an address could wrap where its index does not.
const MOST_SCALE: i64 = 1 << 16;

/// Addresses `base + sext(index) * scale`.
#[derive(Clone)]
struct Indexed {
    base: cl::Value,
    index: Parts,
    /// A power of two.
    scale: i64,
}

/// The places of lanes that did not pass the guard.
enum Lanes {
    At(Address),
    Indexed(Indexed),
}

/// The result of a guard.
struct Tested {
    lanes: Lanes,
    /// The first lane's address.
    first: cl::Value,
    /// Whether the lanes are contiguous; `None` if that is certain.
    contiguous: Option<cl::Value>,
    /// An offset to add to the address.
    offset: i32,
}

/// The access: its instruction, form and address.
struct Speculated<'a> {
    inst: Inst,
    form: Form<'a>,
    access: Access,
    /// What each lane's address must be a multiple of, if that has to be tested.
    alignment: Alignment,
}

impl Speculated<'_> {
    /// Bytes between lanes.
    fn stride(&self) -> i64 {
        self.access.bytes.into()
    }

    /// Whether quads are tested separately.
    fn by_quads(&self) -> bool {
        let Words { ty, n } = self.form.words();
        let few = matches!((ty, n), (Type::B32, 1 | 2) | (Type::B64, 1));
        self.access.space.is_window() && few
    }
}

impl Lower<'_, '_> {
    /// Whether the lanes of each quad are known to be contiguous.
    fn is_known(&mut self, speculated: &Speculated<'_>) -> bool {
        let step = self.quad_step(speculated.access.addr).map(i64::from);
        speculated.by_quads() && step == Some(speculated.stride())
    }

    /// The addresses of quads that are rows of tiles. Under `memcheck` all lanes' addresses are
    /// needed.
    fn rows(&mut self, speculated: &Speculated<'_>) -> Option<Vec<cl::Value>> {
        let Access { space, addr, .. } = speculated.access;
        let alignment = speculated.alignment;
        let stays = alignment.stays(speculated.access.offset);
        let fits = space == Space::Shared && stays && !self.inputs.memcheck;
        let is_whole = self.unless_full().is_none();
        (fits && is_whole && self.is_known(speculated))
            .then(|| self.rows_of_quads(addr, alignment.bytes))?
    }

    /// Accesses contiguous lanes in one access if all run, or if inactive lanes may be accessed,
    /// too; else lane by lane. Each lane's address must be a multiple of `aligned` bytes.
    pub(super) fn access_speculated(
        &mut self,
        inst: Inst,
        form: Form<'_>,
        access: Access,
        aligned: u32,
    ) -> Vec<cl::Value> {
        let alignment = self.alignment(Access {
            bytes: aligned,
            ..access
        });
        let speculated = &Speculated {
            inst,
            form,
            access,
            alignment,
        };
        if let Some(firsts) = self.rows(speculated) {
            return self.access_quads(form, true, &firsts, access.offset);
        }
        let tested = &self.tested(speculated);
        let alignment = Alignment {
            offset: tested.offset,
            ..alignment
        };
        let is_window = access.space.is_window();
        if let (Lanes::At(address), true) = (&tested.lanes, is_window) {
            self.check_alignment(address, alignment);
        }
        let is_whole = self.unless_full().is_none();
        let inside = match &tested.lanes {
            Lanes::At(address) if !is_whole => self.are_inside(speculated, address, tested.offset),
            Lanes::At(_) | Lanes::Indexed(_) => None,
        };
        let contiguous = match (inside.or_else(|| self.unless_full()), tested.contiguous) {
            (Some(x), Some(y)) => Some(self.b.ins().band(x, y)),
            (x, y) => x.or(y),
        };
        let by_quads = speculated.by_quads();
        if let (Lanes::At(address), true, true) = (&tested.lanes, self.inputs.memcheck, by_quads) {
            self.check_exactly_at(speculated, address, tested.offset);
        }
        let fast = |lower: &mut Self| {
            lower.access_contiguous(speculated, tested, inside.is_none(), alignment)
        };
        let Some(contiguous) = contiguous else {
            return fast(self);
        };
        self.either(contiguous, self.types_of_form(form), fast, |lower| {
            lower.access_scattered(speculated, tested, alignment)
        })
    }

    /// Under `memcheck`: looks an access up.
    fn check_exactly_at(&mut self, speculated: &Speculated<'_>, address: &Address, offset: i32) {
        let address = address.clone();
        let place = Place { address, offset };
        self.check_exactly(speculated.access, speculated.form.kind(), &place);
    }

    /// Tests lanes that the guard has told apart from others.
    fn check_guarded(
        &mut self,
        speculated: &Speculated<'_>,
        address: &Address,
        alignment: Alignment,
    ) {
        if !speculated.access.space.is_window() {
            self.check(address, alignment);
        }
        if self.inputs.memcheck && !speculated.by_quads() {
            self.check_exactly_at(speculated, address, alignment.offset);
        }
    }

    /// The lanes, or those of each quad, have passed the guard. `is_whole`: all of them run.
    fn access_contiguous(
        &mut self,
        speculated: &Speculated<'_>,
        tested: &Tested,
        is_whole: bool,
        alignment: Alignment,
    ) -> Vec<cl::Value> {
        let (form, offset) = (speculated.form, tested.offset);
        let firsts: Option<Vec<_>> = match &tested.lanes {
            Lanes::At(address) if speculated.by_quads() => {
                let quads = 0..self.b.quads();
                let firsts = quads.map(|q| self.b.lane_address(address, 4 * q));
                Some(firsts.collect())
            }
            Lanes::At(_) | Lanes::Indexed(_) => None,
        };
        let (at, stride) = (tested.first, speculated.stride());
        self.check_guarded(speculated, &Address::Strided(at, stride), alignment);
        match firsts {
            Some(firsts) => self.access_quads(form, is_whole, &firsts, offset),
            None => self.access_whole(form, Strided { at, stride, offset }),
        }
    }

    /// The lanes have not passed the guard.
    fn access_scattered(
        &mut self,
        speculated: &Speculated<'_>,
        tested: &Tested,
        alignment: Alignment,
    ) -> Vec<cl::Value> {
        let address = match &tested.lanes {
            Lanes::At(address) => address.clone(),
            Lanes::Indexed(indexed) => self.addresses_of(indexed),
        };
        self.check_guarded(speculated, &address, alignment);
        let offset = tested.offset;
        self.access_lanes(speculated.form, Place { address, offset })
    }

    /// Emits the guard, unless one of the same address was emitted before.
    fn tested(&mut self, speculated: &Speculated<'_>) -> Tested {
        let (access, stride) = (speculated.access, speculated.stride());
        let key = (access.addr, access.space, stride);
        let stays = speculated.alignment.stays(access.offset);
        let known = self.available.contiguous_tests.get(&key).copied();
        let known = known.filter(|_| stays);
        let indexed = self.indexed(speculated.inst, access);
        let indexed = indexed.filter(|indexed| stays && stride % indexed.scale == 0);
        let (lanes, (contiguous, first), offset) = match indexed {
            Some(indexed) => {
                let extent = known.unwrap_or_else(|| self.first_of_indexed(&indexed, stride));
                (Lanes::Indexed(indexed), extent, access.offset)
            }
            None => {
                let (address, offset) = self.locate(access, speculated.alignment);
                if self.is_known(speculated) {
                    return Tested {
                        first: self.b.lane_address(&address, 0),
                        lanes: Lanes::At(address),
                        contiguous: None,
                        offset,
                    };
                }
                let extent = known.unwrap_or_else(|| self.guard(speculated, &address));
                (Lanes::At(address), extent, offset)
            }
        };
        if stays {
            let tests = &mut self.available.contiguous_tests;
            tests.insert(key, (contiguous, first));
        }
        Tested {
            lanes,
            first,
            contiguous: Some(contiguous),
            offset,
        }
    }

    /// Whether lanes are contiguous, and the address of the first one.
    fn guard(&mut self, speculated: &Speculated<'_>, address: &Address) -> (cl::Value, cl::Value) {
        let first = self.b.lane_address(address, 0);
        let stride = speculated.stride();
        let contiguous = match speculated.by_quads() {
            true => self.are_quads_contiguous(address, stride),
            false => self.is_contiguous(address, stride),
        };
        (contiguous, first)
    }

    /// Whether all lanes' places, running or not, lie among the kernel's own shared variables;
    /// `None` if that cannot be tested.
    fn are_inside(
        &mut self,
        speculated: &Speculated<'_>,
        address: &Address,
        offset: i32,
    ) -> Option<cl::Value> {
        let Address::Lanes32(Distances { parts, .. }) = address else {
            return None;
        };
        let last = self
            .inputs
            .shared
            .static_size
            .checked_sub(speculated.stride() as u32)?;
        if speculated.access.space != Space::Shared || !speculated.by_quads() {
            return None;
        }
        let offset = self.b.vconst(Type::B32, u64::from(offset as u32));
        let mut highest = None;
        for &part in parts {
            let part = self.b.cast_vector(part, vector_type(Type::B32));
            let at = self.b.ins().iadd(part, offset);
            highest = Some(match highest {
                None => at,
                Some(highest) => self.b.ins().umax(highest, at),
            });
        }
        let highest = highest.expect("a gang has lanes");
        let last = self.b.vconst(Type::B32, u64::from(last));
        let higher = self.b.ins().umax(highest, last);
        let fits = self.b.ins().icmp(IntCC::Equal, higher, last);
        Some(self.b.ins().vall_true(fits))
    }

    /// Whether each lane's address is this many bytes above that of the lane before.
    fn is_contiguous(&mut self, address: &Address, stride: i64) -> cl::Value {
        match address {
            Address::Lanes(parts) => self.is_affine(Type::B64, parts, stride),
            Address::Lanes32(Distances { parts, .. }) => self.is_affine(Type::B32, parts, stride),
            Address::Scalar(_) | Address::Strided(..) | Address::MayWrap(..) => {
                unreachable!("asked for varying addresses only")
            }
        }
    }

    /// Whether within each quad each lane's offset is this many bytes above that of the lane
    /// before.
    fn are_quads_contiguous(&mut self, address: &Address, stride: i64) -> cl::Value {
        let Address::Lanes32(Distances { parts, .. }) = address else {
            unreachable!("varying addresses in windows are offsets")
        };
        let steps: Vec<u8> = (0..4)
            .flat_map(|lane| (stride as i32 * lane).to_le_bytes())
            .collect();
        let steps = self.b.vconst_bytes(vector_type(Type::B32), &steps);
        let differences: Vec<cl::Value> = parts
            .iter()
            .map(|&part| {
                let part = self.b.cast_vector(part, vector_type(Type::B32));
                let first = self.b.shuffle32(part, part, [0; 4]);
                let from_first = self.b.ins().isub(part, first);
                self.b.ins().bxor(from_first, steps)
            })
            .collect();
        let any = self.b.any(&differences);
        self.b.ins().icmp_imm_s(IntCC::Equal, any, 0)
    }

    fn is_affine(&mut self, ty: Type, parts: &[cl::Value], stride: i64) -> cl::Value {
        let first = self.b.ins().extractlane(parts[0], 0);
        let affine = self.b.affine_parts(ty, first, stride);
        let differences: Vec<cl::Value> = self
            .b
            .each_of_two((parts, &affine), |b, x, y| b.ins().bxor(x, y));
        let any = self.b.any(&differences);
        self.b.ins().icmp_imm_s(IntCC::Equal, any, 0)
    }

    /// The parts of an access's address, if they are available.
    fn indexed(&mut self, inst: Inst, access: Access) -> Option<Indexed> {
        let Access { space, addr, .. } = access;
        let InstData::IntBinary {
            op: IntBinaryOp::Add,
            ty: Type::B64,
            args: [a, b],
        } = *self.func.def_inst(addr)?
        else {
            return None;
        };
        let (base, wide) = match self.variability(a) {
            Variability::Uniform => (a, b),
            Variability::Affine { .. } | Variability::Varying => (b, a),
        };
        let (mut long, mut scale) = (wide, 1);
        if let InstData::IntBinary {
            op: IntBinaryOp::Shl,
            args: [index, count],
            ..
        } = *self.func.def_inst(wide)?
        {
            (long, scale) = (index, 1 << self.func.as_const(count)?.min(63));
        }
        let InstData::Resize {
            op: ResizeOp::Sext,
            from: Type::B32,
            to: Type::B64,
            arg: index,
        } = *self.func.def_inst(long)?
        else {
            return None;
        };
        if space.is_window() || !(1..=MOST_SCALE).contains(&scale) {
            return None;
        }
        // Operands of the access's own block are available there; the parts of other addresses may
        // be gone.
        let insts = self.func.blocks.values().map(|block| &block.insts);
        let mut own = insts.filter(|insts| insts.contains(&inst));
        let is_own = |insts: &Vec<Inst>| {
            [addr, wide, long]
                .iter()
                .all(|&value| self.is_made_in(insts, value))
        };
        if !own.any(is_own) {
            return None;
        }
        let (Val::Uniform(base), Val::Varying(index)) = (self.get(base), self.get(index)) else {
            return None;
        };
        let base = self.b.cast_scalar(base, types::I64);
        Some(Indexed { base, index, scale })
    }

    fn is_made_in(&self, insts: &[Inst], value: Value) -> bool {
        match self.func.values[value].def {
            ValueDef::Result(inst, _) => insts.contains(&inst),
            ValueDef::Param(..) => false,
        }
    }

    /// Whether the lanes are contiguous, and the address of the first one. The index must not wrap
    /// between the first and the last lane.
    fn first_of_indexed(&mut self, indexed: &Indexed, stride: i64) -> (cl::Value, cl::Value) {
        let step = stride / indexed.scale;
        let index: Parts = indexed
            .index
            .iter()
            .map(|&part| self.b.cast_vector(part, vector_type(Type::B32)))
            .collect();
        let is_affine = self.is_affine(Type::B32, &index, step);
        let first = self.b.ins().extractlane(index[0], 0);
        let lanes = self.b.lanes;
        let last = self.b.ins().iadd_imm_s(first, step * (lanes as i64 - 1));
        let rises = self.b.ins().icmp(IntCC::SignedLessThanOrEqual, first, last);
        let contiguous = self.b.ins().band(is_affine, rises);
        let wide = self.b.ins().sextend(types::I64, first);
        let bytes = self.b.ins().imul_imm_s(wide, indexed.scale);
        (contiguous, self.b.ins().iadd(indexed.base, bytes))
    }

    fn addresses_of(&mut self, indexed: &Indexed) -> Address {
        let base = self.b.splat(Type::B64, indexed.base);
        let mut parts = Parts::new();
        for &part in &indexed.index {
            let part = self.b.cast_vector(part, vector_type(Type::B32));
            for wide in self.b.widen_mask(part) {
                let bytes = self
                    .b
                    .ins()
                    .ishl_imm_s(wide, i64::from(indexed.scale.trailing_zeros()));
                parts.push(self.b.ins().iadd(base, bytes));
            }
        }
        Address::Lanes(parts)
    }
}
