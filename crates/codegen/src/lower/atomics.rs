//! Atomic operations and asynchronous copies: lane after lane, in ascending order.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, AtomicRmwOp, InstBuilder, MemFlagsData, types};
use ptxjit_ir::{AtomicFmt, AtomicOp, Inst, InstData, Space, Type};

use super::Lower;
use super::values::{Parts, Val, int_type, lane_bytes, vector_type};
use crate::abi::{CtaContext, SlowForm};
use crate::helpers::Helper;

/// An atomic without its operands.
#[derive(Copy, Clone)]
struct Rmw {
    op: AtomicOp,
    fmt: AtomicFmt,
    space: Space,
}

impl Lower<'_, '_> {
    pub(super) fn atomic(&mut self, inst: Inst) {
        let func = self.func;
        let InstData::Atomic {
            op,
            fmt,
            space,
            addr,
            offset,
            ref args,
            ..
        } = func.insts[inst].data
        else {
            unreachable!("called for atomics")
        };
        let ty = fmt.ty();
        let rmw = Rmw { op, fmt, space };
        let place = self.place(space, addr, offset, ty.bytes(), 2);
        let result = func.insts[inst].results.first().copied();
        if self.lanes == 1 {
            let at = self.lane_address(&place.address, 0);
            let at = self.b.ins().iadd_imm_s(at, i64::from(place.offset));
            let operands: Vec<cl::Value> = args.iter().map(|&arg| self.scalar(arg)).collect();
            let old = self.rmw(rmw, at, &operands);
            if let Some(result) = result {
                self.def(result, Val::Uniform(old));
            }
            return;
        }
        let addresses = self.lane_addresses(&place.address);
        let addrs = self.store_to_buffer(1, &addresses);
        let operands: Vec<cl::Value> = args
            .iter()
            .enumerate()
            .map(|(k, &arg)| {
                let parts = self.parts(arg);
                self.store_to_buffer(2 + k, &parts)
            })
            .collect();
        let out_slot = self.buffer(4);
        let out = self.b.ins().stack_addr(types::I64, out_slot, 0);
        self.lane_loop(|lower, lane| {
            let at = lower.load_lane(addrs, lane, types::I64, 8);
            let at = lower.b.ins().iadd_imm_s(at, i64::from(place.offset));
            let operands: Vec<cl::Value> = operands
                .iter()
                .map(|&buf| lower.load_lane(buf, lane, int_type(ty), lane_bytes(ty)))
                .collect();
            let old = lower.rmw(rmw, at, &operands);
            lower.store_lane(out, lane, ty, old);
        });
        if let Some(result) = result {
            let parts = self.load_buffer(out, ty);
            self.def(result, Val::Varying(parts));
        }
    }

    /// Runs `body` for each running lane, in a loop.
    pub(super) fn lane_loop(&mut self, body: impl FnOnce(&mut Self, cl::Value)) {
        let bits = self.mask_as_bits();
        let (head, turn, done) = (
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
        );
        let left = self.b.append_block_param(head, types::I32);
        self.b.ins().jump(head, &[bits.into()]);
        self.b.switch_to_block(head);
        self.b.ins().brif(left, turn, &[], done, &[]);
        self.b.switch_to_block(turn);
        let lane = self.b.ins().ctz(left);
        let lane = self.b.ins().uextend(types::I64, lane);
        self.aside(|lower| body(lower, lane));
        let less = self.b.ins().iadd_imm_s(left, -1);
        let rest = self.b.ins().band(left, less);
        self.b.ins().jump(head, &[rest.into()]);
        self.b.switch_to_block(done);
    }

    /// A lane's element of a buffer.
    pub(super) fn load_lane(
        &mut self,
        buf: cl::Value,
        lane: cl::Value,
        ty: cl::Type,
        bytes: u32,
    ) -> cl::Value {
        let at = self
            .b
            .ins()
            .ishl_imm_s(lane, i64::from(bytes.trailing_zeros()));
        let at = self.b.ins().iadd(buf, at);
        self.b.ins().load(ty, MemFlagsData::trusted(), at, 0)
    }

    /// Sets a lane's element of a buffer.
    pub(super) fn store_lane(&mut self, buf: cl::Value, lane: cl::Value, ty: Type, x: cl::Value) {
        let wide = self.lane_scalar(ty, x);
        let at = self
            .b
            .ins()
            .ishl_imm_s(lane, i64::from(lane_bytes(ty).trailing_zeros()));
        let at = self.b.ins().iadd(buf, at);
        self.b.ins().store(MemFlagsData::trusted(), wide, at, 0);
    }

    /// All lanes of a buffer.
    pub(super) fn load_buffer(&mut self, buf: cl::Value, ty: Type) -> Parts {
        (0..self.n_parts(ty))
            .map(|i| {
                self.b
                    .ins()
                    .load(vector_type(ty), MemFlagsData::trusted(), buf, 16 * i as i32)
            })
            .collect()
    }

    /// One lane's read-modify-write; the result is the old value.
    fn rmw(&mut self, rmw: Rmw, at: cl::Value, args: &[cl::Value]) -> cl::Value {
        let ty = int_type(rmw.fmt.ty());
        let flags = MemFlagsData::new();
        // A CTA never runs on two workers at once: its shared memory needs no locked instructions.
        if matches!(rmw.space, Space::Shared | Space::SharedCluster) {
            let old = self.b.ins().load(ty, flags, at, 0);
            if let Some(new) = self.plain_update(rmw, old, args) {
                self.b.ins().store(flags, new, at, 0);
                return old;
            }
            return self.rmw_by_call(rmw, at, args);
        }
        match rmw.op {
            AtomicOp::Cas => self.b.ins().atomic_cas(flags, at, args[0], args[1]),
            _ => match native_op(rmw.op, rmw.fmt) {
                Some(op) => self.b.ins().atomic_rmw(ty, flags, op, at, args[0]),
                None => self.rmw_by_call(rmw, at, args),
            },
        }
    }

    /// The new value of an integer operation.
    fn plain_update(&mut self, rmw: Rmw, old: cl::Value, args: &[cl::Value]) -> Option<cl::Value> {
        let a = args[0];
        Some(match rmw.op {
            AtomicOp::Exch => a,
            AtomicOp::Cas => {
                let same = self.b.ins().icmp(IntCC::Equal, old, a);
                self.b.ins().select(same, args[1], old)
            }
            AtomicOp::Inc => {
                let wrap = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, old, a);
                let next = self.b.ins().iadd_imm_s(old, 1);
                let zero = self.b.ins().iconst(types::I32, 0);
                self.b.ins().select(wrap, zero, next)
            }
            AtomicOp::Dec => {
                let zero = self.b.ins().icmp_imm_s(IntCC::Equal, old, 0);
                let above = self.b.ins().icmp(IntCC::UnsignedGreaterThan, old, a);
                let wrap = self.b.ins().bor(zero, above);
                let less = self.b.ins().iadd_imm_s(old, -1);
                self.b.ins().select(wrap, a, less)
            }
            AtomicOp::Add => match rmw.fmt {
                AtomicFmt::F32 | AtomicFmt::F64 if !self.flush_denormals => {
                    let float = if rmw.fmt == AtomicFmt::F64 {
                        types::F64
                    } else {
                        types::F32
                    };
                    let (x, y) = (self.cast_scalar(old, float), self.cast_scalar(a, float));
                    let sum = self.b.ins().fadd(x, y);
                    self.cast_scalar(sum, int_type(rmw.fmt.ty()))
                }
                _ if is_integer(rmw.fmt) => self.b.ins().iadd(old, a),
                _ => return None,
            },
            AtomicOp::And => self.b.ins().band(old, a),
            AtomicOp::Or => self.b.ins().bor(old, a),
            AtomicOp::Xor => self.b.ins().bxor(old, a),
            AtomicOp::Min | AtomicOp::Max => match (rmw.op, rmw.fmt) {
                (AtomicOp::Min, AtomicFmt::S32 | AtomicFmt::S64) => self.b.ins().smin(old, a),
                (AtomicOp::Max, AtomicFmt::S32 | AtomicFmt::S64) => self.b.ins().smax(old, a),
                (AtomicOp::Min, AtomicFmt::U32 | AtomicFmt::U64) => self.b.ins().umin(old, a),
                (AtomicOp::Max, AtomicFmt::U32 | AtomicFmt::U64) => self.b.ins().umax(old, a),
                _ => return None,
            },
        })
    }

    fn rmw_by_call(&mut self, rmw: Rmw, at: cl::Value, args: &[cl::Value]) -> cl::Value {
        self.note_slow(SlowForm::Call);
        let ty = int_type(rmw.fmt.ty());
        // The call must not fault: this does, if anything.
        self.b.ins().load(types::I8, MemFlagsData::new(), at, 0);
        let op = AtomicOp::ALL
            .iter()
            .position(|&op| op == rmw.op)
            .expect("every op is in ALL") as i64;
        let fmt = crate::helpers::FORMATS
            .iter()
            .position(|&fmt| fmt == rmw.fmt)
            .expect("every format is listed") as i64;
        let code = self.b.ins().iconst(types::I64, op | fmt << 8);
        let code = if rmw.fmt == AtomicFmt::F32 {
            let flush = self.flushes(rmw.space, at);
            let flush = self.b.ins().ishl_imm_s(flush, 16);
            self.b.ins().bor(code, flush)
        } else {
            code
        };
        let a = self.to_i64(args[0]);
        let b = match args.get(1) {
            Some(&b) => self.to_i64(b),
            None => self.b.ins().iconst(types::I64, 0),
        };
        let old = self
            .call_helper(Helper::Atomic, &[code, at, a, b], Some(types::I64))
            .expect("it returns the old value");
        if ty == types::I64 {
            old
        } else {
            self.b.ins().ireduce(ty, old)
        }
    }

    /// Whether an f32 addition at this place flushes subnormals: on global memory yes, on shared memory no.
    fn flushes(&mut self, space: Space, at: cl::Value) -> cl::Value {
        match space {
            Space::Shared | Space::SharedCluster => self.b.ins().iconst(types::I64, 0),
            Space::Generic => {
                let shared = self.field(core::mem::offset_of!(CtaContext, shared_base));
                let distance = self.b.ins().isub(at, shared);
                let limit = self.b.ins().iconst(types::I64, super::special::WINDOW);
                let outside = self
                    .b
                    .ins()
                    .icmp(IntCC::UnsignedGreaterThanOrEqual, distance, limit);
                self.b.ins().uextend(types::I64, outside)
            }
            Space::Global | Space::Local | Space::Const | Space::Param => {
                self.b.ins().iconst(types::I64, 1)
            }
        }
    }

    /// `cp.async`, done at once.
    pub(super) fn copy_async(&mut self, inst: Inst) {
        let InstData::CopyAsync {
            size,
            dst,
            dst_offset,
            src,
            src_offset,
            src_size,
        } = self.func.insts[inst].data
        else {
            unreachable!("called for copies")
        };
        let to = self.place(Space::Shared, dst, dst_offset, u32::from(size), 1);
        let to_addrs = self.lane_addresses_or_one(&to.address);
        let to_buf = self.store_to_buffer(1, &to_addrs);
        let from = self.place(
            Space::Global,
            src,
            src_offset,
            if src_size.is_some() {
                1
            } else {
                u32::from(size)
            },
            0,
        );
        let from_addrs = self.lane_addresses_or_one(&from.address);
        let from_buf = self.store_to_buffer(2, &from_addrs);
        let sizes = src_size.map(|value| {
            let parts = if self.lanes == 1 {
                Parts::from_elem(self.scalar(value), 1)
            } else {
                self.parts(value)
            };
            self.store_to_buffer(3, &parts)
        });
        self.lane_loop(|lower, lane| {
            let to_at = lower.load_lane(to_buf, lane, types::I64, 8);
            let from_at = lower.load_lane(from_buf, lane, types::I64, 8);
            let to_at = lower.b.ins().iadd_imm_s(to_at, i64::from(to.offset));
            let from_at = lower.b.ins().iadd_imm_s(from_at, i64::from(from.offset));
            match sizes {
                None => lower.copy_whole(size, to_at, from_at),
                Some(sizes) => {
                    let n = lower.load_lane(sizes, lane, types::I32, 4);
                    lower.copy_some(size, to_at, from_at, n);
                }
            }
        });
    }

    fn lane_addresses_or_one(&mut self, address: &super::address::Address) -> Parts {
        if self.lanes == 1 {
            Parts::from_elem(self.lane_address(address, 0), 1)
        } else {
            self.lane_addresses(address)
        }
    }

    fn copy_whole(&mut self, size: u8, to: cl::Value, from: cl::Value) {
        let ty = match size {
            4 => types::I32,
            8 => types::I64,
            _ => types::I64X2,
        };
        let x = self.b.ins().load(ty, MemFlagsData::new(), from, 0);
        self.b.ins().store(MemFlagsData::new(), x, to, 0);
    }

    /// Byte by byte; bytes from `n` on are zero and their source is not touched.
    fn copy_some(&mut self, size: u8, to: cl::Value, from: cl::Value, n: cl::Value) {
        for k in 0..i64::from(size) {
            let (inside, outside, join) = (
                self.b.create_block(),
                self.b.create_block(),
                self.b.create_block(),
            );
            let x = self.b.append_block_param(join, types::I8);
            let wanted = self.b.ins().icmp_imm_s(IntCC::UnsignedGreaterThan, n, k);
            self.b.ins().brif(wanted, inside, &[], outside, &[]);
            self.b.switch_to_block(inside);
            let byte = self
                .b
                .ins()
                .load(types::I8, MemFlagsData::new(), from, k as i32);
            self.b.ins().jump(join, &[byte.into()]);
            self.b.switch_to_block(outside);
            let zero = self.b.ins().iconst(types::I8, 0);
            self.b.ins().jump(join, &[zero.into()]);
            self.b.switch_to_block(join);
            self.b.ins().store(MemFlagsData::new(), x, to, k as i32);
        }
    }
}

fn is_integer(fmt: AtomicFmt) -> bool {
    match fmt {
        AtomicFmt::B16
        | AtomicFmt::B32
        | AtomicFmt::B64
        | AtomicFmt::U32
        | AtomicFmt::S32
        | AtomicFmt::U64
        | AtomicFmt::S64 => true,
        AtomicFmt::F16
        | AtomicFmt::F16x2
        | AtomicFmt::Bf16
        | AtomicFmt::Bf16x2
        | AtomicFmt::F32
        | AtomicFmt::F64 => false,
    }
}

/// CLIF's own atomic, where there is one.
fn native_op(op: AtomicOp, fmt: AtomicFmt) -> Option<AtomicRmwOp> {
    let signed = matches!(fmt, AtomicFmt::S32 | AtomicFmt::S64);
    match op {
        AtomicOp::Exch => Some(AtomicRmwOp::Xchg),
        AtomicOp::And => Some(AtomicRmwOp::And),
        AtomicOp::Or => Some(AtomicRmwOp::Or),
        AtomicOp::Xor => Some(AtomicRmwOp::Xor),
        AtomicOp::Add if is_integer(fmt) => Some(AtomicRmwOp::Add),
        AtomicOp::Min if is_integer(fmt) => Some(if signed {
            AtomicRmwOp::Smin
        } else {
            AtomicRmwOp::Umin
        }),
        AtomicOp::Max if is_integer(fmt) => Some(if signed {
            AtomicRmwOp::Smax
        } else {
            AtomicRmwOp::Umax
        }),
        AtomicOp::Add
        | AtomicOp::Min
        | AtomicOp::Max
        | AtomicOp::Cas
        | AtomicOp::Inc
        | AtomicOp::Dec => None,
    }
}
