//! Speculated contiguous accesses, which a guard at run time confirms.
//!
//! A 64-bit address that is a base plus a 32-bit index is tested by its index, and computed where
//! it is needed: for the first lane alone if the lanes are contiguous. In windows it is enough that
//! the lanes of each quad are, as with the partners of a sorting network or of a butterfly at a
//! small distance.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, InstBuilder, types};
use ptxjit_ir::{Inst, InstData, IntBinaryOp, ResizeOp, Space, Type, Value, ValueDef};
use ptxjit_vectorize::Variability;

use super::loads::Read;
use crate::lower::Lower;
use crate::ops::{Address, Alignment, Distances, Parts, Place, Val, vector_type};

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

/// The places of lanes that passed the guard.
enum Extent {
    /// Contiguous from this address on.
    Gang(cl::Value),
    /// Each quad is contiguous, from its first lane on.
    Quads(Vec<cl::Value>),
    /// The same, but only some lanes run; the places of the others lie in the CTA's own memory.
    SomeOfQuads(Vec<cl::Value>),
}

/// The places of lanes that did not.
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

/// The access: its instruction, the type and number of words of each lane, and its address.
struct Speculated {
    inst: Inst,
    ty: Type,
    n: usize,
    space: Space,
    addr: Value,
    offset: i32,
    /// What each lane's address must be a multiple of, if that has to be tested.
    alignment: Alignment,
    /// 0 for loads, 1 for stores.
    write: u32,
}

impl Speculated {
    /// Bytes between lanes.
    fn stride(&self) -> i64 {
        i64::from(self.ty.bytes()) * self.n as i64
    }

    /// Whether quads are tested separately.
    fn by_quads(&self) -> bool {
        let few = matches!((self.ty, self.n), (Type::B32, 1 | 2) | (Type::B64, 1));
        self.space.is_window() && few
    }
}

impl Lower<'_, '_> {
    /// Whether the lanes are probably contiguous, so that the guard pays.
    pub(super) fn is_speculated_contiguous(
        &mut self,
        space: Space,
        addr: Value,
        size: i64,
    ) -> bool {
        let varies = self.variability(addr) == Variability::Varying && self.b.quads() > 1;
        // Each lane has local memory of its own. Quads consist of words or pairs.
        let by_quads = space.is_window() && matches!(size, 4 | 8);
        let is_known = by_quads && self.quad_step(addr).map(i64::from) == Some(size);
        let is_common =
            space != Space::Local && (self.plan.speculated[addr] == Some(size) || is_known);
        // Any access among shared variables may serve inactive lanes.
        let is_whole = by_quads && i64::from(self.inputs.shared.static_size) >= size;
        let may_run = space == Space::Shared && is_whole || !self.node.is_general;
        let is_watched = self.inputs.memcheck && self.inputs.foreign;
        varies && is_common && may_run && !self.node.cold && !is_watched
    }

    /// Loads in one access if the lanes turn out to be contiguous and all run.
    pub(super) fn load_speculated(
        &mut self,
        inst: Inst,
        (n, ty): (usize, Type),
        space: Space,
        addr: Value,
        offset: i32,
    ) -> Vec<cl::Value> {
        let size = ty.bytes() * n as u32;
        let speculated = Speculated {
            inst,
            ty,
            n,
            space,
            addr,
            offset,
            alignment: self.alignment(space, addr, offset, size),
            write: 0,
        };
        let types = vec![vector_type(ty); n * self.b.n_parts(ty)];
        self.access_speculated(
            &speculated,
            types,
            |lower, extent, offset| match extent {
                Extent::Gang(first) => lower.load_whole(n, ty, first, speculated.stride(), offset),
                Extent::Quads(firsts) | Extent::SomeOfQuads(firsts) => {
                    lower.b.load_quads(n, ty, &firsts, offset)
                }
            },
            |lower, place| {
                let elems = lower.load_each_lane(n, ty, &place);
                elems.into_iter().flatten().collect()
            },
        )
    }

    /// The same for one sub-word element, whose vectors are packed.
    pub(super) fn load_subword_speculated(
        &mut self,
        inst: Inst,
        types: Vec<cl::Type>,
    ) -> Vec<cl::Value> {
        let Read {
            space,
            ty,
            addr,
            offset,
            ..
        } = self.read_by(inst);
        let speculated = Speculated {
            inst,
            ty,
            n: 1,
            space,
            addr,
            offset,
            alignment: self.alignment(space, addr, offset, ty.bytes()),
            write: 0,
        };
        self.access_speculated(
            &speculated,
            types,
            |lower, extent, offset| match extent {
                Extent::Gang(first) => lower.load_subword_contiguous(ty, first, offset),
                Extent::Quads(_) | Extent::SomeOfQuads(_) => {
                    unreachable!("quads of narrow elements are not looked for")
                }
            },
            |lower, place| lower.load_subword_lanes(ty, &place),
        )
    }

    /// The same for stores.
    pub(super) fn store_speculated(
        &mut self,
        inst: Inst,
        parts: &[Parts],
        ty: Type,
        space: Space,
        addr: Value,
        (offset, size): (i32, u32),
    ) {
        let speculated = Speculated {
            inst,
            ty,
            n: parts.len(),
            space,
            addr,
            offset,
            alignment: self.alignment(space, addr, offset, size),
            write: 1,
        };
        self.access_speculated(
            &speculated,
            Vec::new(),
            |lower, extent, offset| {
                match extent {
                    Extent::Gang(first) => {
                        lower.store_whole(parts, ty, first, speculated.stride(), offset);
                    }
                    Extent::Quads(firsts) => lower.b.store_quads(parts, ty, &firsts, offset),
                    Extent::SomeOfQuads(firsts) => {
                        lower.store_among_quads(parts, ty, &firsts, offset)
                    }
                }
                Vec::new()
            },
            |lower, place| {
                lower.store_each_lane(parts, ty, &place);
                Vec::new()
            },
        );
    }

    /// Whether the lanes of each quad are known to be contiguous.
    fn is_known(&mut self, speculated: &Speculated) -> bool {
        let step = self.quad_step(speculated.addr).map(i64::from);
        speculated.by_quads() && step == Some(speculated.stride())
    }

    /// The addresses of quads that are rows of tiles. Under `memcheck` all lanes' addresses are
    /// needed.
    fn rows(&mut self, speculated: &Speculated) -> Option<Vec<cl::Value>> {
        let &Speculated {
            space,
            addr,
            offset,
            alignment,
            ..
        } = speculated;
        let fits = space == Space::Shared && alignment.stays(offset) && !self.inputs.memcheck;
        let is_whole = self.unless_full().is_none();
        (fits && is_whole && self.is_known(speculated))
            .then(|| self.rows_of_quads(addr, alignment.bytes))?
    }

    /// Emits `fast` for contiguous lanes if all run, or if inactive lanes may be accessed too; else
    /// `cold` with the lanes' places.
    fn access_speculated(
        &mut self,
        speculated: &Speculated,
        types: Vec<cl::Type>,
        fast: impl FnOnce(&mut Self, Extent, i32) -> Vec<cl::Value>,
        cold: impl FnOnce(&mut Self, Place) -> Vec<cl::Value>,
    ) -> Vec<cl::Value> {
        if let Some(firsts) = self.rows(speculated) {
            return fast(self, Extent::Quads(firsts), speculated.offset);
        }
        let stride = speculated.stride();
        let Tested {
            lanes,
            first,
            contiguous,
            offset,
        } = self.tested(speculated);
        let alignment = Alignment {
            offset,
            ..speculated.alignment
        };
        if let (Lanes::At(address), true) = (&lanes, speculated.space.is_window()) {
            self.check_alignment(address, alignment);
        }
        let inside = match &lanes {
            Lanes::At(address) if self.unless_full().is_some() => {
                self.are_inside(speculated, address, offset)
            }
            Lanes::At(_) | Lanes::Indexed(_) => None,
        };
        let contiguous = match (inside.or_else(|| self.unless_full()), contiguous) {
            (Some(x), Some(y)) => Some(self.b.ins().band(x, y)),
            (x, y) => x.or(y),
        };
        let is_guarded = speculated.space.is_window();
        let access = (offset, stride as u32, speculated.write);
        let is_exact = self.inputs.memcheck;
        if let (Lanes::At(address), true, true) = (&lanes, is_exact, speculated.by_quads()) {
            self.check_exactly((speculated.space, speculated.addr), address, access);
        }
        let in_gangs = is_exact && !speculated.by_quads();
        let fast = |lower: &mut Self| {
            let extent = match &lanes {
                Lanes::At(address) if speculated.by_quads() => {
                    let firsts = (0..lower.b.quads())
                        .map(|q| lower.b.lane_address(address, 4 * q))
                        .collect();
                    match inside {
                        Some(_) => Extent::SomeOfQuads(firsts),
                        None => Extent::Quads(firsts),
                    }
                }
                Lanes::At(_) | Lanes::Indexed(_) => Extent::Gang(first),
            };
            if !is_guarded {
                lower.check(&Address::Strided(first, stride), alignment);
            }
            if in_gangs {
                lower.check_exactly(
                    (speculated.space, speculated.addr),
                    &Address::Strided(first, stride),
                    access,
                );
            }
            fast(lower, extent, offset)
        };
        let Some(contiguous) = contiguous else {
            return fast(self);
        };
        self.either(contiguous, types, fast, |lower| {
            let address = match &lanes {
                Lanes::At(address) => address.clone(),
                Lanes::Indexed(indexed) => lower.addresses_of(indexed),
            };
            if !is_guarded {
                lower.check(&address, alignment);
            }
            if in_gangs {
                lower.check_exactly((speculated.space, speculated.addr), &address, access);
            }
            let address = lower.redirect(address, offset);
            cold(lower, Place { address, offset })
        })
    }

    /// Emits the guard, unless one of the same address was emitted before.
    fn tested(&mut self, speculated: &Speculated) -> Tested {
        let stride = speculated.stride();
        let key = (speculated.addr, speculated.space, stride);
        let stays = speculated.alignment.stays(speculated.offset);
        let known = self
            .available
            .contiguous_tests
            .get(&key)
            .copied()
            .filter(|_| stays);
        let indexed = self
            .indexed(speculated.inst, speculated.space, speculated.addr)
            .filter(|indexed| stays && stride % indexed.scale == 0);
        let (lanes, (contiguous, first), offset) = match indexed {
            Some(indexed) => {
                let extent = known.unwrap_or_else(|| self.first_of_indexed(&indexed, stride));
                (Lanes::Indexed(indexed), extent, speculated.offset)
            }
            None => {
                let &Speculated {
                    space,
                    addr,
                    offset,
                    alignment,
                    ..
                } = speculated;
                let (address, offset) = self.locate(space, addr, offset, alignment);
                if self.is_known(speculated) {
                    let first = self.b.lane_address(&address, 0);
                    return Tested {
                        lanes: Lanes::At(address),
                        first,
                        contiguous: None,
                        offset,
                    };
                }
                let extent = known.unwrap_or_else(|| {
                    let first = self.b.lane_address(&address, 0);
                    let contiguous = match speculated.by_quads() {
                        true => self.are_quads_contiguous(&address, stride),
                        false => self.is_contiguous(&address, stride),
                    };
                    (contiguous, first)
                });
                (Lanes::At(address), extent, offset)
            }
        };
        if stays {
            self.available
                .contiguous_tests
                .insert(key, (contiguous, first));
        }
        Tested {
            lanes,
            first,
            contiguous: Some(contiguous),
            offset,
        }
    }

    /// Whether all lanes' places, running or not, lie among the kernel's own shared variables;
    /// `None` if that cannot be tested.
    fn are_inside(
        &mut self,
        speculated: &Speculated,
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
        if speculated.space != Space::Shared || !speculated.by_quads() {
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
        let differences: Vec<cl::Value> = parts
            .iter()
            .zip(&affine)
            .map(|(&x, &y)| self.b.ins().bxor(x, y))
            .collect();
        let any = self.b.any(&differences);
        self.b.ins().icmp_imm_s(IntCC::Equal, any, 0)
    }

    /// The parts of an access's address, if they are available.
    fn indexed(&mut self, inst: Inst, space: Space, addr: Value) -> Option<Indexed> {
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
