//! Stubs: small compiled functions for rare cases of common code, as accesses of some lanes of a
//! gang. They preserve all registers, so that the rare call costs the common path nothing: values
//! that live across an ordinary call must be in memory.

use core::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self as cl, AbiParam, InstBuilder, MemFlagsData, types};
use cranelift_codegen::isa::{CallConv, TargetFrontendConfig};
use cranelift_frontend::FunctionBuilder;
use ptxjit_abi::object::Helper;
use ptxjit_abi::{CtaContext, RuntimeFns};

use crate::lower::Lower;
use crate::object::{FUNCTIONS, HELPERS};

/// One of the stubs.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Stub {
    /// Accesses memory.
    Transfer(Transfer),
    /// Calls [`crate::helpers::resolve_wrapped`].
    ResolveWrapped,
    /// Calls [`crate::helpers::bad_lanes`]; a last parameter tells where to write the lanes.
    BadLanes,
    /// Calls [`crate::helpers::merge_slots`].
    MergeSlots,
    /// Looks accesses of `size` bytes up in the map of valid memory: `(buffer of addresses, lanes,
    /// origin of the map, where to write 0 or else that one of the lanes is not allowed to)`.
    Lookup {
        /// Bytes per lane.
        size: u32,
        /// Not a load.
        write: bool,
    },
    /// Calls [`RuntimeFns::check_access`]: `(context, buffer of addresses, lanes, size and what is
    /// done to the memory, gang, location, where to write what it says)`.
    AskExactly,
    /// Sets the state of some lanes: `(address of lane 0's, lanes, state)`.
    SetStates,
}

/// How lanes access memory.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Transfer {
    /// Stores instead of loads.
    pub store: bool,
    /// Each lane's address lies in a buffer.
    pub gather: bool,
    /// Bytes per lane in memory; in the buffer lanes take four bytes, or eight.
    pub bytes: u32,
}

impl Stub {
    /// For accesses `(address of lane 0, stride, lanes, buffer)`, or `(buffer of addresses, offset,
    /// lanes, buffer)`.
    pub(crate) fn signature(self) -> cl::Signature {
        let params: &[cl::Type] = match self {
            Stub::Transfer(_) => &[types::I64, types::I64, types::I32, types::I64],
            Stub::ResolveWrapped => &[
                types::I64,
                types::I64,
                types::I64,
                types::I64,
                types::I32,
                types::I64,
            ],
            Stub::BadLanes => &[types::I64, types::I32, types::I64, types::I64, types::I64],
            Stub::AskExactly => &[
                types::I64,
                types::I64,
                types::I32,
                types::I64,
                types::I32,
                types::I32,
                types::I64,
            ],
            Stub::Lookup { .. } => &[types::I64, types::I32, types::I64, types::I64],
            Stub::MergeSlots => &[types::I64, types::I64, types::I32, types::I64, types::I64],
            Stub::SetStates => &[types::I64, types::I32, types::I32],
        };
        // Stubs keep the first 128 bits of vector registers, and the others as long as the helpers
        // behind them have no AVX.
        let has_avx = cfg!(target_feature = "avx");
        let convention = match has_avx {
            true => CallConv::triple_default(&target_lexicon::Triple::host()),
            false => CallConv::PreserveAll,
        };
        let mut sig = cl::Signature::new(convention);
        sig.params = params.iter().copied().map(AbiParam::new).collect();
        sig
    }
}

impl Lower<'_, '_> {
    /// Calls a stub, and creates it at its first call.
    pub(super) fn call(&mut self, stub: Stub, args: &[cl::Value]) {
        let number = match self.out.stubs.iter().position(|&other| other == stub) {
            Some(number) => number,
            None => {
                self.out.stubs.push(stub);
                self.out.stubs.len() - 1
            }
        };
        // Function 0 of the object is the kernel.
        let func_ref = self
            .b
            .imported(FUNCTIONS, number as u32 + 1, true, || stub.signature());
        self.b.ins().call(func_ref, args);
    }
}

/// Builds a stub's body.
pub(crate) fn define(stub: Stub, mut b: FunctionBuilder<'_>, target: TargetFrontendConfig) {
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    let params = b.block_params(entry).to_vec();
    match stub {
        Stub::Transfer(transfer) => define_transfer(transfer, &mut b, &params),
        Stub::ResolveWrapped => {
            define_call(Helper::ResolveWrapped, &mut b, &params, None, target);
        }
        Stub::BadLanes => {
            let (&found, args) = params.split_last().expect("it has five");
            let lanes = define_call(Helper::BadLanes, &mut b, args, Some(types::I32), target)[0];
            b.ins().store(MemFlagsData::trusted(), lanes, found, 0);
        }
        Stub::MergeSlots => {
            define_call(Helper::MergeSlots, &mut b, &params, None, target);
        }
        Stub::AskExactly => define_question(&mut b, &params, target),
        Stub::Lookup { size, write } => define_lookup(&mut b, &params, i64::from(size), write),
        Stub::SetStates => each_lane(&mut b, params[1], |b, lane| {
            let at = b.ins().ishl_imm_s(lane, 1);
            let at = b.ins().iadd(params[0], at);
            b.ins().istore16(MemFlagsData::trusted(), params[2], at, 0);
        }),
    }
    b.ins().return_(&[]);
    b.seal_all_blocks();
    b.finalize(target);
}

/// Asks the runtime about accesses.
fn define_question(
    b: &mut FunctionBuilder<'_>,
    params: &[cl::Value],
    target: TargetFrontendConfig,
) {
    let [cta, addrs, bits, what, gang, loc, found] =
        <[cl::Value; 7]>::try_from(params).expect("as the signature says");
    let own = MemFlagsData::trusted();
    let offset = offset_of!(CtaContext, fns) as i32;
    let fns = b.ins().load(types::I64, own, cta, offset);
    let offset = offset_of!(RuntimeFns, check_access) as i32;
    let callee = b.ins().load(types::I64, own, fns, offset);
    let size = b.ins().ireduce(types::I32, what);
    let write = b.ins().ushr_imm_u(what, 32);
    let write = b.ins().ireduce(types::I32, write);
    let args = [cta, addrs, bits, size, write, gang, loc];
    let mut sig = cl::Signature::new(target.default_call_conv);
    let types = args.map(|arg| AbiParam::new(b.func.dfg.value_type(arg)));
    sig.params.extend(types);
    sig.returns.push(AbiParam::new(types::I32));
    let sig = b.import_signature(sig);
    let call = b.ins().call_indirect(sig, callee, &args);
    let status = b.inst_results(call)[0];
    b.ins().store(own, status, found, 0);
}

fn define_lookup(b: &mut FunctionBuilder<'_>, params: &[cl::Value], size: i64, write: bool) {
    let (addrs, bits, origin, found) = (params[0], params[1], params[2], params[3]);
    let own = MemFlagsData::trusted();
    let zero = b.ins().iconst(types::I32, 0);
    b.ins().store(own, zero, found, 0);
    each_lane(b, bits, |b, lane| {
        let place = b.ins().ishl_imm_s(lane, 3);
        let place = b.ins().iadd(addrs, place);
        let at = b.ins().load(types::I64, own, place, 0);
        let end = b.ins().iadd_imm_s(at, size - 1);
        let mut bad = byte_is_bad(b, origin, end, write);
        let is_power = (size as u64).is_power_of_two();
        if size > 16 || !is_power {
            let other = byte_is_bad(b, origin, at, write);
            bad = b.ins().bor(bad, other);
        }
        let mut bad = b.ins().uextend(types::I32, bad);
        if size > 1 && is_power {
            let low = b.ins().ireduce(types::I32, at);
            let low = b.ins().band_imm_s(low, size - 1);
            bad = b.ins().bor(bad, low);
        }
        let before = b.ins().load(types::I32, own, found, 0);
        let bad = b.ins().bor(before, bad);
        b.ins().store(own, bad, found, 0);
    });
}

/// A call of one of our functions, and what it returns.
fn define_call<'b>(
    helper: Helper,
    b: &'b mut FunctionBuilder<'_>,
    args: &[cl::Value],
    ret: Option<cl::Type>,
    target: TargetFrontendConfig,
) -> &'b [cl::Value] {
    let mut sig = cl::Signature::new(target.default_call_conv);
    sig.params.extend(
        args.iter()
            .map(|&arg| AbiParam::new(b.func.dfg.value_type(arg))),
    );
    sig.returns.extend(ret.map(AbiParam::new));
    let name = cl::UserExternalName::new(HELPERS, helper.number());
    let user = b.func.declare_imported_user_function(name);
    let signature = b.import_signature(sig);
    let func_ref = b.import_function(cl::ExtFuncData {
        name: cl::ExternalName::User(user),
        signature,
        colocated: false,
        patchable: false,
    });
    let call = b.ins().call(func_ref, args);
    b.inst_results(call)
}

fn define_transfer(stub: Transfer, b: &mut FunctionBuilder<'_>, params: &[cl::Value]) {
    let (at, stride, mut bits, buf) = (params[0], params[1], params[2], params[3]);
    if stub.bytes == 4 && !stub.gather {
        bits = transfer_quads(stub, b, params);
    }
    each_lane(b, bits, |b, lane| {
        let address = if stub.gather {
            let place = b.ins().ishl_imm_s(lane, 3);
            let place = b.ins().iadd(at, place);
            let address = b.ins().load(types::I64, MemFlagsData::trusted(), place, 0);
            b.ins().iadd(address, stride)
        } else {
            let distance = b.ins().imul(lane, stride);
            b.ins().iadd(at, distance)
        };
        let place = b
            .ins()
            .ishl_imm_s(lane, if stub.bytes == 8 { 3 } else { 2 });
        let place = b.ins().iadd(buf, place);
        transfer(stub, b, address, place);
    });
}

/// Accesses contiguous words of groups of four lanes that all run. Returns the other lanes.
///
/// In registers of 64 bits: the stub must preserve the upper halves of vector registers.
fn transfer_quads(stub: Transfer, b: &mut FunctionBuilder<'_>, params: &[cl::Value]) -> cl::Value {
    let (at, stride, bits, buf) = (params[0], params[1], params[2], params[3]);
    let [head, look, iteration, next, done] = std::array::from_fn(|_| b.create_block());
    let lane = b.append_block_param(head, types::I64);
    let left = b.append_block_param(head, types::I32);
    let zero = b.ins().iconst(types::I64, 0);
    let is_contiguous = b.ins().icmp_imm_s(IntCC::Equal, stride, 4);
    let rest = b.append_block_param(done, types::I32);
    b.ins().brif(
        is_contiguous,
        head,
        &[zero.into(), bits.into()],
        done,
        &[bits.into()],
    );
    b.switch_to_block(head);
    let more = b.ins().icmp_imm_u(IntCC::UnsignedLessThan, lane, 32);
    b.ins().brif(more, look, &[], done, &[left.into()]);

    b.switch_to_block(look);
    let quad = b.ins().iconst(types::I32, 0b1111);
    let quad = b.ins().ishl(quad, lane);
    let here = b.ins().band(left, quad);
    let all = b.ins().icmp(IntCC::Equal, here, quad);
    b.ins().brif(all, iteration, &[], next, &[left.into()]);

    b.switch_to_block(iteration);
    let others = b.ins().bxor(left, quad);
    let distance = b.ins().ishl_imm_s(lane, 2);
    let (address, place) = (b.ins().iadd(at, distance), b.ins().iadd(buf, distance));
    let (device, own) = (MemFlagsData::new(), MemFlagsData::trusted());
    let (from, to) = match stub.store {
        true => ((own, place), (device, address)),
        false => ((device, address), (own, place)),
    };
    for offset in [0, 8] {
        let pair = b.ins().load(types::I64, from.0, from.1, offset);
        b.ins().store(to.0, pair, to.1, offset);
    }
    b.ins().jump(next, &[others.into()]);

    let left = b.append_block_param(next, types::I32);
    b.switch_to_block(next);
    let lane = b.ins().iadd_imm_s(lane, 4);
    b.ins().jump(head, &[lane.into(), left.into()]);
    b.switch_to_block(done);
    rest
}

/// A loop over the set bits: `body` gets their numbers, 64 bits wide.
fn each_lane(
    b: &mut FunctionBuilder<'_>,
    bits: cl::Value,
    body: impl FnOnce(&mut FunctionBuilder<'_>, cl::Value),
) {
    let (head, iteration, done) = (b.create_block(), b.create_block(), b.create_block());
    let left = b.append_block_param(head, types::I32);
    b.ins().jump(head, &[bits.into()]);
    b.switch_to_block(head);
    b.ins().brif(left, iteration, &[], done, &[]);
    b.switch_to_block(iteration);
    let lane = b.ins().ctz(left);
    let lane = b.ins().uextend(types::I64, lane);
    body(b, lane);
    let less = b.ins().iadd_imm_s(left, -1);
    let rest = b.ins().band(left, less);
    b.ins().jump(head, &[rest.into()]);
    b.switch_to_block(done);
}

fn transfer(stub: Transfer, b: &mut FunctionBuilder<'_>, address: cl::Value, place: cl::Value) {
    let (device, own) = (MemFlagsData::new(), MemFlagsData::trusted());
    let wide = if stub.bytes == 8 {
        types::I64
    } else {
        types::I32
    };
    if stub.store {
        let x = b.ins().load(wide, own, place, 0);
        match stub.bytes {
            1 => b.ins().istore8(device, x, address, 0),
            2 => b.ins().istore16(device, x, address, 0),
            _ => b.ins().store(device, x, address, 0),
        };
    } else {
        let x = match stub.bytes {
            1 => b.ins().uload8(types::I32, device, address, 0),
            2 => b.ins().uload16(types::I32, device, address, 0),
            _ => b.ins().load(wide, device, address, 0),
        };
        b.ins().store(own, x, place, 0);
    }
}

/// Whether the map does not allow an access to the byte at `at`, as 0 or 1 in 8 bits.
pub(super) fn byte_is_bad(
    b: &mut cranelift_frontend::FunctionBuilder<'_>,
    origin: cl::Value,
    at: cl::Value,
    is_write: bool,
) -> cl::Value {
    let place = b.ins().ushr_imm_u(at, 4);
    let place = b.ins().iadd(place, origin);
    let flags = MemFlagsData::trusted();
    let valid = b.ins().sload8(types::I32, flags, place, 0);
    // Memory that is only loaded from has the sign bit, which makes a number less than any
    // position.
    let valid = match is_write {
        true => valid,
        false => b.ins().band_imm_s(valid, 0x7f),
    };
    let at = b.ins().ireduce(types::I32, at);
    let position = b.ins().band_imm_s(at, 15);
    b.ins()
        .icmp(IntCC::SignedGreaterThanOrEqual, position, valid)
}
