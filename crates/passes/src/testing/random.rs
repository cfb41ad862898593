//! Random functions: arithmetic on a few variables, stack slots, global and shared memory, and any
//! control flow.

use cranelift_entity::EntityRef;
use ptxjit_ir::{
    Block, CompareOp, FloatBinaryOp, FloatCompareOp, FloatFmt, FloatMode, Function,
    FunctionBuilder, FunctionKind, InstData, IntBinaryOp, IntTernaryOp, IntUnaryOp, ResizeOp,
    StackSlot, StackSlotData, Terminator, Type, Value, Variable,
};

use super::Rng;

mod memory;

/// Types of the parameters of random functions.
pub(crate) const PARAMS: [Type; 5] = [Type::B32, Type::B32, Type::B64, Type::B64, Type::B1];
const TYPES: [Type; 5] = [Type::B1, Type::B8, Type::B16, Type::B32, Type::B64];
const CONSTS: [u64; 14] = [
    0,
    1,
    2,
    3,
    4,
    8,
    16,
    31,
    32,
    0xff,
    0xffff,
    0x8000_0000,
    0xffff_ffff,
    0x8000_0000_0000_0000,
];

/// A device function of [`PARAMS`] that returns one value of each type.
pub(crate) fn function(rng: &mut Rng, n_blocks: usize) -> Function {
    let mut func = Function::new("random", FunctionKind::Device, TYPES.to_vec());
    let params: Vec<Value> = PARAMS
        .iter()
        .map(|&ty| func.add_param(func.entry, ty))
        .collect();
    // The last one holds pointers only.
    let slots = [16, 8, 24, 16].map(|size| func.slots.push(StackSlotData { size, align: 8 }));
    let mut b = FunctionBuilder::new(&mut func);
    let entry = b.current_block();
    b.seal(entry);
    let vars: Vec<(Type, Variable)> = TYPES
        .iter()
        .flat_map(|&ty| [ty; 3])
        .map(|ty| (ty, b.declare(ty)))
        .collect();
    for (&param, &ty) in params.iter().zip(&PARAMS) {
        let &(_, var) = vars
            .iter()
            .find(|&&(other, _)| other == ty)
            .expect("there are variables of each type");
        b.def_var(var, param);
    }
    for _ in 0..n_blocks {
        b.new_block();
    }
    let mut maker = Maker {
        rng,
        b,
        vars,
        slots,
        recent: Vec::new(),
    };
    for cell in 0..2 {
        maker.keep_pointer(cell);
    }
    for block in 0..=n_blocks {
        maker.block(block, n_blocks);
    }
    maker.b.seal_all();
    func
}

struct Maker<'r, 'f> {
    rng: &'r mut Rng,
    b: FunctionBuilder<'f>,
    vars: Vec<(Type, Variable)>,
    slots: [StackSlot; 4],
    /// What this block computed: operands are often chosen among the last of it, so that rules for
    /// chains of operations are met.
    recent: Vec<Value>,
}

impl Maker<'_, '_> {
    fn block(&mut self, block: usize, n_blocks: usize) {
        self.b.switch_to(Block::new(block));
        self.recent.clear();
        for _ in 0..self.rng.below(9) {
            self.statement();
        }
        let target = |rng: &mut Rng| ptxjit_ir::BlockCall::new(Block::new(1 + rng.below(n_blocks)));
        let term = match self.rng.below(6) {
            _ if block == n_blocks => self.ret(),
            0 => self.ret(),
            1 => Terminator::Jump(target(self.rng)),
            2 => {
                let index = self.value(Type::B32);
                let targets = (0..self.rng.below(4)).map(|_| target(self.rng)).collect();
                Terminator::Switch {
                    index,
                    targets,
                    default: target(self.rng),
                }
            }
            _ => {
                let cond = self.value(Type::B1);
                Terminator::Brif {
                    cond,
                    then_: target(self.rng),
                    else_: target(self.rng),
                }
            }
        };
        self.b.terminate(term);
    }

    fn ret(&mut self) -> Terminator {
        Terminator::Ret(TYPES.iter().map(|&ty| self.value(ty)).collect())
    }

    fn ty(&mut self) -> Type {
        TYPES[self.rng.below(TYPES.len())]
    }

    /// A variable's value or a constant.
    fn value(&mut self, ty: Type) -> Value {
        if self.rng.below(3) == 0 {
            let mut bits = CONSTS[self.rng.below(CONSTS.len())];
            if self.rng.below(4) == 0 {
                bits = bits.wrapping_neg();
            }
            return self.b.iconst(ty, bits);
        }
        let of_type = |&&value: &&Value| self.b.func.ty(value) == ty;
        let recent = self.recent.iter().rev().take(6).find(of_type).copied();
        match recent {
            Some(value) if self.rng.below(2) == 0 => value,
            Some(_) | None => {
                let var = self.var(ty);
                self.b.use_var(var)
            }
        }
    }

    fn var(&mut self, ty: Type) -> Variable {
        let mut of_type = self.vars.iter().filter(|&&(other, _)| other == ty);
        of_type.nth(self.rng.below(3)).expect("there are three").1
    }

    fn define(&mut self, data: InstData, ty: Type) {
        let value = self.b.ins(data, ty);
        self.recent.push(value);
        let var = self.var(ty);
        self.b.def_var(var, value);
    }

    fn statement(&mut self) {
        let ty = self.ty();
        match self.rng.below(20) {
            0 => {
                let op = IntUnaryOp::ALL[self.rng.below(IntUnaryOp::ALL.len())];
                let to = if matches!(op, IntUnaryOp::Popc | IntUnaryOp::Clz) {
                    Type::B32
                } else {
                    ty
                };
                let arg = self.value(ty);
                self.define(InstData::IntUnary { op, ty, arg }, to);
            }
            1..=4 => self.binary(ty),
            5 => {
                let op = CompareOp::ALL[self.rng.below(CompareOp::ALL.len())];
                let args = [self.value(ty), self.value(ty)];
                self.define(InstData::Compare { op, ty, args }, Type::B1);
            }
            6 => {
                let (cond, args) = (self.value(Type::B1), [self.value(ty), self.value(ty)]);
                self.define(InstData::Select { ty, cond, args }, ty);
            }
            7 => self.resize(ty),
            8 => self.ternary(),
            9 => self.float(),
            10 => {
                let (lut, args) = (
                    self.rng.below(256) as u8,
                    [0; 3].map(|_| self.value(Type::B32)),
                );
                self.define(InstData::Lop3 { lut, args }, Type::B32);
            }
            11 | 12 => self.slot_access(ty),
            13 => self.memory_access(ty),
            14 => self.shifts(ty),
            15 => self.mask(ty),
            16 => self.pair(),
            17 => self.escaped_access(ty),
            _ => self.kept_access(ty),
        }
    }

    /// Two shifts by constants, often the same one.
    fn shifts(&mut self, ty: Type) {
        const OPS: [IntBinaryOp; 3] = [IntBinaryOp::Shl, IntBinaryOp::Ushr, IntBinaryOp::Sshr];
        let mut value = self.value(ty);
        let mut by = [1, 8, 16, 24, 31, 32, 63][self.rng.below(7)];
        for _ in 0..2 {
            let op = OPS[self.rng.below(3)];
            let count = self.b.iconst(Type::B32, by);
            value = self.b.ins(
                InstData::IntBinary {
                    op,
                    ty,
                    args: [value, count],
                },
                ty,
            );
            by = if self.rng.below(3) == 0 {
                self.rng.below(40) as u64
            } else {
                by
            };
        }
        self.define(
            InstData::IntUnary {
                op: IntUnaryOp::Not,
                ty,
                arg: value,
            },
            ty,
        );
        self.recent.push(value);
    }

    /// A row of bits, by a mask or a bit field.
    fn mask(&mut self, ty: Type) {
        let (start, len) = (self.rng.below(34) as u64, self.rng.below(34) as u64);
        let value = self.value(ty);
        if matches!(ty, Type::B32 | Type::B64) && self.rng.below(2) == 0 {
            let op = [IntTernaryOp::UBfe, IntTernaryOp::SBfe][self.rng.below(2)];
            let args = [
                value,
                self.b.iconst(Type::B32, start),
                self.b.iconst(Type::B32, len),
            ];
            return self.define(InstData::IntTernary { op, ty, args }, ty);
        }
        let mask = self.b.iconst(ty, ((1 << len) - 1) << (start % 9));
        self.define(
            InstData::IntBinary {
                op: IntBinaryOp::And,
                ty,
                args: [value, mask],
            },
            ty,
        );
    }

    /// Two halves of a value or of two, put together in either order, and a half of that.
    fn pair(&mut self) {
        let (half, whole) = [
            (Type::B8, Type::B16),
            (Type::B16, Type::B32),
            (Type::B32, Type::B64),
        ][self.rng.below(3)];
        let source = self.value(whole);
        let count = self.b.iconst(Type::B32, half.bits().into());
        let shifted = InstData::IntBinary {
            op: IntBinaryOp::Ushr,
            ty: whole,
            args: [source, count],
        };
        let shifted = self.b.ins(shifted, whole);
        let trunc = |arg| InstData::Resize {
            op: ResizeOp::Trunc,
            from: whole,
            to: half,
            arg,
        };
        let uext = |arg| InstData::Resize {
            op: ResizeOp::Uext,
            from: half,
            to: whole,
            arg,
        };
        let halves = [
            self.b.ins(trunc(source), half),
            self.b.ins(trunc(shifted), half),
            self.value(half),
        ];
        let (low, high) = (halves[self.rng.below(3)], halves[self.rng.below(3)]);
        let (low, high) = (self.b.ins(uext(low), whole), self.b.ins(uext(high), whole));
        let high = self.b.ins(
            InstData::IntBinary {
                op: IntBinaryOp::Shl,
                ty: whole,
                args: [high, count],
            },
            whole,
        );
        let args = if self.rng.below(2) == 0 {
            [low, high]
        } else {
            [high, low]
        };
        self.define(
            InstData::IntBinary {
                op: IntBinaryOp::Or,
                ty: whole,
                args,
            },
            whole,
        );
        if let Some(&both) = self.recent.last() {
            self.define(trunc(both), half);
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "others keep the type")]
    fn binary(&mut self, ty: Type) {
        let op = IntBinaryOp::ALL[self.rng.below(IntBinaryOp::ALL.len())];
        let is_shift = matches!(op, IntBinaryOp::Shl | IntBinaryOp::Ushr | IntBinaryOp::Sshr);
        let is_wide = matches!(op, IntBinaryOp::UmulWide | IntBinaryOp::SmulWide);
        let ty = if is_wide {
            [Type::B16, Type::B32][self.rng.below(2)]
        } else {
            ty
        };
        let to = match ty {
            Type::B16 if is_wide => Type::B32,
            Type::B32 if is_wide => Type::B64,
            _ => ty,
        };
        let args = [
            self.value(ty),
            self.value(if is_shift { Type::B32 } else { ty }),
        ];
        self.define(InstData::IntBinary { op, ty, args }, to);
    }

    fn resize(&mut self, from: Type) {
        let to = self.ty();
        let extend = [ResizeOp::Uext, ResizeOp::Sext][self.rng.below(2)];
        let op = match from.cmp(&to) {
            std::cmp::Ordering::Less => extend,
            std::cmp::Ordering::Equal => return,
            std::cmp::Ordering::Greater => ResizeOp::Trunc,
        };
        let arg = self.value(from);
        self.define(InstData::Resize { op, from, to, arg }, to);
    }

    fn ternary(&mut self) {
        let op = IntTernaryOp::ALL[self.rng.below(IntTernaryOp::ALL.len())];
        let is_field = matches!(op, IntTernaryOp::UBfe | IntTernaryOp::SBfe);
        let ty = if is_field && self.rng.below(2) == 0 {
            Type::B64
        } else {
            Type::B32
        };
        let second = if is_field { Type::B32 } else { ty };
        let mut args = [self.value(ty), self.value(second), self.value(Type::B32)];
        if op == IntTernaryOp::Prmt {
            let selector = self.rng.next() & 0x7777;
            args[2] = self.b.iconst(Type::B32, selector);
        }
        self.define(InstData::IntTernary { op, ty, args }, ty);
    }

    /// A float operation whose NaN is made the same one, since passes may change which it is.
    fn float(&mut self) {
        let ops = [
            FloatBinaryOp::Add,
            FloatBinaryOp::Sub,
            FloatBinaryOp::Mul,
            FloatBinaryOp::Div,
        ];
        let (op, ty) = (ops[self.rng.below(4)], Type::B32);
        let mode = FloatMode {
            ftz: self.rng.below(2) == 0,
            ..FloatMode::RN
        };
        let special = [
            0x3f80_0000,
            0x8000_0000,
            0x4000_0000,
            0x3e80_0000,
            0,
            0x7f80_0000,
            0x0000_0001,
        ];
        let second = match self.rng.below(2) {
            0 => self.b.iconst(ty, special[self.rng.below(special.len())]),
            _ => self.value(ty),
        };
        let args = [self.value(ty), second];
        let sum = self.b.ins(
            InstData::FloatBinary {
                op,
                fmt: FloatFmt::F32,
                mode,
                args,
            },
            ty,
        );
        let compare = InstData::FloatCompare {
            op: FloatCompareOp::Nan,
            fmt: FloatFmt::F32,
            ftz: false,
            args: [sum, sum],
        };
        let is_nan = self.b.ins(compare, Type::B1);
        let nan = self.b.iconst(ty, 0x7fff_ffff);
        self.define(
            InstData::Select {
                ty,
                cond: is_nan,
                args: [nan, sum],
            },
            ty,
        );
    }
}
