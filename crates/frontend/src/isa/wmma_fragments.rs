//! How `wmma` is done by products of the shapes of `mma`, whose fragments are those that `wmma`
//! leaves open.
//!
//! ```text
//!   m16n16   two products, for the left and the right half of B, C and D
//!   m32n8    two products, for the upper and the lower half of A, C and D
//!   m8n32    the transposed matrices: the roles of A and B are exchanged
//!   m8n8     one product
//! ```
//!
//! Fragments with more registers than their elements fill hold them several times.

use ptxjit_ir::{IntBinaryOp, Mma, Space, Type, Value};

use crate::diag::Diagnostic;
use crate::translate::{Inst, Translator, Values};

use super::fragments::{self, Lane, lane, registers, scaled};
use super::memory::space_of;
use super::mma_product::description;
use super::modifiers::Mod;
use super::types::PtxType as T;

/// Rows and columns of D, and the columns of A.
#[derive(Copy, Clone)]
struct Shape {
    m: u64,
    n: u64,
    k: u64,
}

fn shape(inst: &Inst<'_>) -> Shape {
    const SHAPES: &[(Mod, [u64; 3])] = &[
        (Mod::M16n16k16, [16, 16, 16]),
        (Mod::M16n16k8, [16, 16, 8]),
        (Mod::M8n32k16, [8, 32, 16]),
        (Mod::M32n8k16, [32, 8, 16]),
        (Mod::M8n8k4, [8, 8, 4]),
        (Mod::M8n8k32, [8, 8, 32]),
        (Mod::M8n8k128, [8, 8, 128]),
    ];
    let found = SHAPES.iter().find(|&&(shape, _)| inst.has(shape));
    let [m, n, k] = found.map_or([16; 3], |&(_, shape)| shape);
    Shape { m, n, k }
}

impl Shape {
    /// Whether the transposed matrices are multiplied.
    fn is_transposed(self) -> bool {
        self.n == 32
    }

    /// Rows of the left factor and columns of the right one, as they are multiplied.
    fn multiplied(self) -> [u64; 2] {
        if self.is_transposed() {
            [self.n, self.m]
        } else {
            [self.m, self.n]
        }
    }
}

/// Which matrix a fragment is of.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Matrix {
    A,
    B,
    C,
}

/// A register's part of a matrix. The *outer* index goes over the rows of the left factor or the
/// columns of the right one, and over the rows of the product; what a lane's number adds to both is
/// in [`Access`].
#[derive(Copy, Clone)]
struct Part {
    outer: u64,
    inner: u64,
}

/// The parts of a factor with elements of `bits`, in the order of its registers.
fn factor_parts(shape: Shape, matrix: Matrix, bits: u64) -> Vec<Part> {
    let [rows, columns] = shape.multiplied();
    let is_left = (matrix == Matrix::A) != shape.is_transposed();
    let per_register = (32 / bits).max(1);
    let size = if is_left { rows } else { columns };
    // Registers of the left factor are of the upper and the lower eight of sixteen rows in turn.
    let tile = if is_left { size.min(16) } else { 8 };
    let mut parts = Vec::new();
    for first in (0..size).step_by(tile as usize) {
        for inner in (0..shape.k).step_by(4 * per_register as usize) {
            for below in (0..tile).step_by(8) {
                let outer = first + below;
                parts.push(Part { outer, inner });
            }
        }
    }
    parts
}

/// The pairs of neighbours that lanes hold of C and D, in the order of their registers.
fn sum_parts(shape: Shape) -> Vec<Part> {
    let [rows, columns] = shape.multiplied();
    let mut parts = Vec::new();
    for first in (0..rows).step_by(rows.min(16) as usize) {
        for inner in (0..columns).step_by(8) {
            for below in (0..rows.min(16)).step_by(8) {
                let outer = first + below;
                parts.push(Part { outer, inner });
            }
        }
    }
    parts
}

/// A matrix in memory, as a lane sees it.
struct Access {
    space: Space,
    /// Where this lane's elements begin, `B64`.
    base: Value,
    /// Bytes from one row (or column) to the next, `B64`.
    stride: Value,
    /// Bits of an element.
    bits: u64,
    /// Whether neighbours along the inner index lie side by side.
    is_inner_dense: bool,
}

impl Access {
    /// Reads the address and the stride of an instruction; each lane has `per_lane` neighbours
    /// along the inner index.
    fn new<'m>(
        t: &mut Translator<'m>,
        inst: &Inst<'m>,
        matrix: Matrix,
        n: usize,
        per_lane: u64,
    ) -> Result<Access, Diagnostic> {
        let (shape, bits) = (shape(inst), element_bits(inst.ty(0)));
        let by_rows = inst.has(Mod::Row);
        let [default_rows, default_columns] = match matrix {
            Matrix::A => [shape.k, shape.m],
            Matrix::B => [shape.n, shape.k],
            Matrix::C => [shape.n, shape.m],
        };
        let default = if by_rows {
            default_rows
        } else {
            default_columns
        };
        let stride = match t.src_opt(inst, n + stride_operand(inst))? {
            Some(stride) => stride,
            None => t.iconst(Type::B32, default),
        };
        let Some(operand) = inst.operand(n) else {
            return Err(inst.error(format!("`{}` lacks an address", inst.name)));
        };
        let addr = t.resolve_address(operand)?;
        let space = space_of(t, inst, &addr)?;
        let (base, offset) = t.emit_address(&addr)?;
        let base = t.zext_or_trunc(base, Type::B64);
        let base = scaled(t, base, 1, i64::from(offset) as u64);
        let stride = t.zext_or_trunc(stride, Type::B64);
        let stride = scaled(t, stride, bits, 0);
        let three = t.iconst(Type::B32, 3);
        let stride = t.binary(IntBinaryOp::Ushr, stride, three);
        let is_inner_dense = match matrix {
            Matrix::A => by_rows,
            Matrix::B => !by_rows,
            Matrix::C => by_rows != shape.is_transposed(),
        };
        let mut access = Access {
            space,
            base,
            stride,
            bits,
            is_inner_dense,
        };
        let Lane { quad, within } = lane(t);
        let [outer, inner] = [quad, within].map(|part| t.zext_or_trunc(part, Type::B64));
        let inner = scaled(t, inner, per_lane, 0);
        access.base = access.at(t, outer, inner);
        Ok(access)
    }

    /// The address of an element.
    fn at(&self, t: &mut Translator<'_>, outer: Value, inner: Value) -> Value {
        let (far, near) = if self.is_inner_dense {
            (outer, inner)
        } else {
            (inner, outer)
        };
        let far = t.binary(IntBinaryOp::Mul, far, self.stride);
        let near = scaled(t, near, self.bits, 0);
        let three = t.iconst(Type::B32, 3);
        let near = t.binary(IntBinaryOp::Ushr, near, three);
        let offset = t.binary(IntBinaryOp::Add, far, near);
        t.binary(IntBinaryOp::Add, self.base, offset)
    }

    /// The addresses of `n` neighbours along the inner index, or of the first if they lie side by
    /// side.
    fn addresses(&self, t: &mut Translator<'_>, part: Part, n: u64) -> Vec<Value> {
        let n = if self.is_inner_dense { 1 } else { n };
        (0..n)
            .map(|i| {
                let outer = t.iconst(Type::B64, part.outer);
                let inner = t.iconst(Type::B64, part.inner + i);
                self.at(t, outer, inner)
            })
            .collect()
    }
}

/// How many operands behind the address the stride stands.
fn stride_operand(inst: &Inst<'_>) -> usize {
    if inst.has(Mod::Load) { 1 } else { 2 }
}

fn element_bits(ty: T) -> u64 {
    match ty {
        T::F64 => 64,
        T::F32 | T::S32 | T::Tf32 => 32,
        T::F16 | T::Bf16 => 16,
        T::S4 | T::U4 => 4,
        T::B1 => 1,
        _ => 8,
    }
}

const fn unsigned(bits: u64) -> Type {
    match bits {
        64 => Type::B64,
        32 => Type::B32,
        16 => Type::B16,
        _ => Type::B8,
    }
}

/// `wmma.load`
pub(super) fn load<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let bits = element_bits(inst.ty(0));
    let matrix = match inst.pick(&[Mod::A, Mod::B]) {
        Some(Mod::A) => Matrix::A,
        Some(_) => Matrix::B,
        None => Matrix::C,
    };
    let mut registers = Vec::new();
    if matrix == Matrix::C {
        let access = Access::new(t, inst, matrix, 1, 2)?;
        for part in sum_parts(shape(inst)) {
            let addresses = access.addresses(t, part, 2);
            let ty = unsigned(bits);
            let pair: Vec<Value> = match addresses[..] {
                [at] => t.load(access.space, ty, 2, (at, 0)).to_vec(),
                _ => addresses
                    .iter()
                    .map(|&at| t.load(access.space, ty, 1, (at, 0))[0])
                    .collect(),
            };
            if bits == 16 {
                registers.push(t.concat(&pair, Type::B32));
            } else {
                registers.extend(pair);
            }
        }
        return t.dst_elems(inst, 0, &registers);
    }
    let per_register = (32 / bits).max(1);
    let access = Access::new(t, inst, matrix, 1, per_register)?;
    for part in factor_parts(shape(inst), matrix, bits) {
        let addresses = access.addresses(t, part, per_register);
        let ty = if access.is_inner_dense {
            unsigned(bits.max(32))
        } else {
            unsigned(bits)
        };
        let elements: Vec<Value> = addresses
            .iter()
            .map(|&at| t.load(access.space, ty, 1, (at, 0))[0])
            .collect();
        registers.push(match elements[..] {
            [whole] => whole,
            _ => t.concat(&elements, Type::B32),
        });
    }
    let wanted = n_elements(inst, 0);
    let filled: Vec<Value> = registers.iter().copied().cycle().take(wanted).collect();
    t.dst_elems(inst, 0, &filled)
}

/// Registers in a brace list.
fn n_elements(inst: &Inst<'_>, n: usize) -> usize {
    match inst.operand(n).map(|operand| &operand.kind) {
        Some(crate::ast::OperandKind::Vector(elems)) => elems.len(),
        _ => 1,
    }
}

/// `wmma.store`
pub(super) fn store<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    let bits = element_bits(inst.ty(0));
    let access = Access::new(t, inst, Matrix::C, 0, 2)?;
    let registers = registers(t, inst, 1)?;
    let ty = unsigned(bits);
    let elements: Vec<Value> = if bits == 16 {
        registers
            .iter()
            .flat_map(|&register| [0, 16].map(|from| t.extract(register, from, ty)))
            .collect()
    } else {
        registers.to_vec()
    };
    for (part, pair) in sum_parts(shape(inst)).into_iter().zip(elements.chunks(2)) {
        let addresses = access.addresses(t, part, 2);
        match addresses[..] {
            [at] => t.store(access.space, ty, (at, 0), pair),
            _ => {
                for (&at, &element) in addresses.iter().zip(pair) {
                    t.store(access.space, ty, (at, 0), &[element]);
                }
            }
        }
    }
    Ok(())
}

/// `wmma.mma`
pub(super) fn product<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    // Products of f16 only tell the types of D and C.
    let types = match inst.types[..] {
        [d, c] => [d, T::F16, T::F16, c],
        _ => [0, 1, 2, 3].map(|n| inst.ty(n)),
    };
    let Some(mut mma) = description(inst, types) else {
        return super::not_executable(t, inst);
    };
    let shape = shape(inst);
    let [rows, columns] = shape.multiplied();
    (mma.m, mma.k) = (rows.min(16) as usize, shape.k as usize);
    let [a, b, c]: [Values; 3] = [
        registers(t, inst, 1)?,
        registers(t, inst, 2)?,
        registers(t, inst, 3)?,
    ];
    let (left, right) = if shape.is_transposed() {
        (b, a)
    } else {
        (a, b)
    };
    let d = tiles(t, mma, [rows, columns], [&left, &right, &c]);
    t.dst_elems(inst, 0, &d)
}

/// The products of all tiles of the left factor with all of the right one.
fn tiles(
    t: &mut Translator<'_>,
    mma: Mma,
    [rows, columns]: [u64; 2],
    [left, right, c]: [&[Value]; 3],
) -> Vec<Value> {
    let mut sums = c.chunks(mma.c_registers());
    let mut d = Vec::new();
    for left in left
        .chunks(mma.a_registers())
        .take((rows as usize).div_ceil(16))
    {
        for right in right.chunks(mma.b_registers()).take(columns as usize / 8) {
            let c = sums.next().unwrap_or(&[]);
            d.extend(fragments::product(t, mma, [left, right, c, &[]]));
        }
    }
    d
}
