//! Calls, recursion, indirect calls, stack memory and the device runtime.

use ptxjit_ir::{
    Builtin, DeviceOp, FuncId, FunctionKind, InstData, IntBinaryOp, Program, SigId, Signature,
    Space, Terminator, Type, Value,
};
use smallvec::smallvec;

use super::{Code, function, kernel, run, run_with};
use crate::{FaultKind, Host};

fn call(k: &mut Code<'_>, func: u32, arg: Value) -> Value {
    k.b.ins(
        InstData::Call {
            func: FuncId::from_u32(func),
            args: smallvec![arg],
        },
        Type::B32,
    )
}

/// `fib(n) = n < 2 ? n : fib(n - 1) + fib(n - 2)`, keeping the first result in a stack slot.
fn add_fib(program: &mut Program) {
    let fib = function(
        "fib",
        FunctionKind::Device,
        &[Type::B32],
        &[Type::B32],
        |k, params| {
            let n = params[0];
            let small = k.below(n, 2);
            let (base, rest) = k.branch(small);
            k.b.switch_to(base);
            k.end(Terminator::Ret(smallvec![n]));
            k.b.switch_to(rest);
            let slot = k.b.stack_slot(4, 4);
            let place = k.b.ins(InstData::StackAddr { slot, offset: 0 }, Type::B64);
            let (one, two) = (k.word(1), k.word(2));
            let n1 = k.binary(IntBinaryOp::Sub, n, one);
            let n2 = k.binary(IntBinaryOp::Sub, n, two);
            let first = call(k, 1, n1);
            k.store(Space::Local, first, place, 0);
            let second = call(k, 1, n2);
            let first = k.load(Space::Local, Type::B32, place, 0);
            let sum = k.add(first, second);
            k.end(Terminator::Ret(smallvec![sum]));
        },
    );
    program.functions.insert(FuncId::from_u32(1), fib);
}

#[test]
fn recursion_with_stack_slots() {
    let mut program = kernel(|k| {
        let tid = k.tid();
        let result = call(k, 1, tid);
        k.put_mine(result);
    });
    add_fib(&mut program);
    assert_eq!(
        run(&program, 1, 13, &[0; 13]).unwrap(),
        [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144]
    );
}

#[test]
fn endless_recursion_overflows_the_stack() {
    let mut program = kernel(|k| {
        let tid = k.tid();
        call(k, 1, tid);
    });
    let forever = function(
        "forever",
        FunctionKind::Device,
        &[Type::B32],
        &[Type::B32],
        |k, params| {
            let result = call(k, 1, params[0]);
            k.end(Terminator::Ret(smallvec![result]));
        },
    );
    program.functions.insert(FuncId::from_u32(1), forever);
    let fault = run(&program, 1, 2, &[0]).unwrap_err();
    assert_eq!(
        (fault.kind, fault.function.as_str()),
        (FaultKind::StackOverflow, "forever")
    );
    assert_eq!(fault.tid, Some([0, 0, 0]));
}

/// Function 1 or 2 by the parity of the thread, through their descriptors.
fn indirect(taken: &[u32]) -> Program {
    let mut program = kernel(|k| {
        let tid = k.tid();
        let [f1, f2] = [1, 2].map(|func| {
            k.b.ins(
                InstData::FuncAddr {
                    func: FuncId::from_u32(func),
                },
                Type::B64,
            )
        });
        let odd = k.narrow(tid, Type::B1);
        let callee = k.b.ins(
            InstData::Select {
                ty: Type::B64,
                cond: odd,
                args: [f1, f2],
            },
            Type::B64,
        );
        let sig = SigId::from_u32(0);
        let result = k.b.ins(
            InstData::CallIndirect {
                sig,
                callee,
                args: smallvec![tid],
                targets: None,
            },
            Type::B32,
        );
        k.put_mine(result);
    });
    for (func, factor) in [(1, 10), (2, 100)] {
        let times = function(
            "times",
            FunctionKind::Device,
            &[Type::B32],
            &[Type::B32],
            |k, params| {
                let factor = k.word(factor);
                let product = k.binary(IntBinaryOp::Mul, params[0], factor);
                k.end(Terminator::Ret(smallvec![product]));
            },
        );
        program.functions.insert(FuncId::from_u32(func), times);
    }
    program.sigs.push(Signature {
        params: vec![Type::B32],
        rets: vec![Type::B32],
    });
    program.address_taken = taken.iter().map(|&func| FuncId::from_u32(func)).collect();
    program
}

#[test]
fn indirect_calls() {
    assert_eq!(
        run(&indirect(&[1, 2]), 1, 4, &[0; 4]).unwrap(),
        [0, 10, 200, 30]
    );
}

#[test]
fn indirect_call_to_another_signature() {
    let mut program = indirect(&[1, 2]);
    let other = function(
        "other",
        FunctionKind::Device,
        &[Type::B64],
        &[Type::B32],
        |k, params| {
            let low = k.narrow(params[0], Type::B32);
            k.end(Terminator::Ret(smallvec![low]));
        },
    );
    program.functions.insert(FuncId::from_u32(2), other);
    assert!(matches!(
        run(&program, 1, 1, &[0]).unwrap_err().kind,
        FaultKind::BadCallTarget(_)
    ));
}

#[test]
fn indirect_call_to_what_is_no_target() {
    assert!(matches!(
        run(&indirect(&[1]), 1, 1, &[0]).unwrap_err().kind,
        FaultKind::BadCallTarget(_)
    ));
}

/// Memory from `alloca` is apart from the stack slot, aligned, and given back by the restore.
#[test]
fn alloca_and_restore() {
    let program = kernel(|k| {
        k.b.stack_slot(5, 1);
        let top = k.b.ins(InstData::StackSave, Type::B64);
        let size = k.long(100);
        let first = k.b.ins(InstData::Alloca { size, align: 64 }, Type::B64);
        k.b.inst(InstData::StackRestore { arg: top }, &[]);
        let second = k.b.ins(InstData::Alloca { size, align: 64 }, Type::B64);
        let difference = k.binary(IntBinaryOp::Sub, second, first);
        let difference = k.narrow(difference, Type::B32);
        let zero = k.word(0);
        k.put(zero, difference);
        let first = k.narrow(first, Type::B32);
        let one = k.word(1);
        k.put(one, first);
    });
    assert_eq!(run(&program, 1, 1, &[9, 9]).unwrap(), [0, 64]);
}

#[test]
fn alloca_beyond_the_limit() {
    let program = kernel(|k| {
        let size = k.long(u64::MAX - 7);
        k.b.ins(InstData::Alloca { size, align: 16 }, Type::B64);
    });
    assert_eq!(
        run(&program, 1, 1, &[0]).unwrap_err().kind,
        FaultKind::StackOverflow
    );
}

/// Records what is asked of it.
#[derive(Default)]
struct Recorder {
    text: Vec<u8>,
    log: Vec<String>,
    n_polls: u32,
}

impl Host for Recorder {
    fn print(&mut self, text: &[u8]) {
        self.text.extend_from_slice(text);
    }

    fn malloc(&mut self, size: u64) -> u64 {
        self.log.push(format!("malloc {size}"));
        0x1234
    }

    fn free(&mut self, ptr: u64) -> Result<(), String> {
        self.log.push(format!("free {ptr:#x}"));
        if ptr == 0x1234 {
            Ok(())
        } else {
            Err("no such block".to_owned())
        }
    }

    fn clock(&mut self) -> u64 {
        0
    }

    fn cancelled(&mut self) -> bool {
        self.n_polls += 1;
        self.n_polls == 3
    }
}

fn builtin(
    k: &mut Code<'_>,
    builtin: Builtin,
    args: &[Value],
    result: Option<Type>,
) -> Option<Value> {
    let inst = k.b.inst(
        InstData::Device {
            op: DeviceOp::Builtin(builtin),
            args: args.iter().copied().collect(),
        },
        result.as_slice(),
    );
    k.b.func.insts[inst].results.first().copied()
}

/// The address of text in the thread's local memory.
fn local_text(k: &mut Code<'_>, text: &[u8]) -> Value {
    let slot = k.b.stack_slot(text.len() as u32 + 1, 8);
    let addr = k.b.ins(InstData::StackAddr { slot, offset: 0 }, Type::B64);
    for (i, &byte) in text.iter().chain([&0]).enumerate() {
        let byte = k.b.iconst(Type::B8, byte.into());
        k.store(Space::Local, byte, addr, i as i32);
    }
    k.b.ins(
        InstData::ToGeneric {
            space: Space::Local,
            arg: addr,
        },
        Type::B64,
    )
}

#[test]
fn printf_reads_its_arguments_from_local_memory() {
    let program = kernel(|k| {
        let format = local_text(k, b"tid %d of %s\n");
        let name = local_text(k, b"warp");
        let slot = k.b.stack_slot(16, 8);
        let args = k.b.ins(InstData::StackAddr { slot, offset: 0 }, Type::B64);
        let tid = k.tid();
        k.store(Space::Local, tid, args, 0);
        k.store(Space::Local, name, args, 8);
        let args = k.b.ins(
            InstData::ToGeneric {
                space: Space::Local,
                arg: args,
            },
            Type::B64,
        );
        let n = builtin(k, Builtin::Vprintf, &[format, args], Some(Type::B32)).unwrap();
        k.put_mine(n);
    });
    let mut host = Recorder::default();
    let out = run_with(&program, 1, 2, &[0; 2], &mut host, |_| {}).unwrap();
    assert_eq!(host.text, b"tid 0 of warp\ntid 1 of warp\n");
    assert_eq!(out, [2, 2]);
}

#[test]
fn heap() {
    let program = kernel(|k| {
        let size = k.long(48);
        let block = builtin(k, Builtin::Malloc, &[size], Some(Type::B64)).unwrap();
        builtin(k, Builtin::Free, &[block], None);
        let null = k.long(0);
        builtin(k, Builtin::Free, &[null], None);
        let wild = k.long(0x99);
        builtin(k, Builtin::Free, &[wild], None);
    });
    let mut host = Recorder::default();
    let fault = run_with(&program, 1, 1, &[0], &mut host, |_| {}).unwrap_err();
    let kind = FaultKind::BadFree {
        addr: 0x99,
        why: "no such block".to_owned(),
    };
    assert_eq!(fault.kind, kind);
    assert_eq!(host.log, ["malloc 48", "free 0x1234", "free 0x99"]);
}

#[test]
fn failed_assertion() {
    let program = kernel(|k| {
        let message = local_text(k, b"n > 0");
        let file = local_text(k, b"k.cu");
        let func = local_text(k, b"void k(int)");
        let line = k.word(12);
        let one = k.long(1);
        builtin(
            k,
            Builtin::AssertFail,
            &[message, file, line, func, one],
            None,
        );
    });
    let fault = run(&program, 1, 1, &[0]).unwrap_err();
    let want = "k.cu:12: void k(int): block: [0,0,0], thread: [0,0,0] Assertion `n > 0` failed.";
    assert_eq!(fault.kind, FaultKind::Assert(want.to_owned()));
}

#[test]
fn endless_loops_can_be_cancelled() {
    let program = kernel(|k| {
        let forever = k.b.new_block();
        k.b.jump(forever);
        k.b.switch_to(forever);
        k.b.jump(forever);
    });
    let mut host = Recorder::default();
    assert_eq!(
        run_with(&program, 1, 1, &[0], &mut host, |_| {})
            .unwrap_err()
            .kind,
        FaultKind::Cancelled
    );
    let mut lockstep = program;
    lockstep.lockstep = true;
    let mut host = Recorder::default();
    assert_eq!(
        run_with(&lockstep, 1, 1, &[0], &mut host, |_| {})
            .unwrap_err()
            .kind,
        FaultKind::Cancelled
    );
}
