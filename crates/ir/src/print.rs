//! The text form of the IR, for people: `dump`, snapshot tests, messages of the verifier. There is
//! no parser.
//!
//! One line is one instruction: `results = op.type operands`. Types of results follow from the op,
//! except for calls, which show them. Constants are written in hexadecimal.

use std::fmt::{self, Write};

use crate::entities::{Block, Inst, Value};
use crate::function::{Function, FunctionKind};
use crate::inst::{BlockCall, InstData, Terminator, TrapKind};
use crate::program::Program;
use crate::types::{Convert, FloatMode, MemSem, Round, Scope};

mod names;

use names::{SregName, atomic_fmt, float_fmt, num_fmt, round, space};

/// A whole program: its variables, its parameters and its functions, the kernel first.
pub fn program(program: &Program) -> String {
    let mut out = String::new();
    for (id, var) in &program.vars {
        let extern_ = if var.dynamic_shared || var.is_extern {
            " extern"
        } else {
            ""
        };
        writeln!(
            out,
            "{id} = {}{extern_} {} size {} align {}",
            space(var.space),
            var.name,
            var.size,
            var.align
        )
        .expect("a string takes all");
    }
    for param in &program.params {
        writeln!(
            out,
            "param {} at {} size {} align {}",
            param.name, param.offset, param.size, param.align
        )
        .expect("a string takes all");
    }
    let others = program.functions.keys().filter(|&&id| id != program.entry);
    for id in [&program.entry].into_iter().chain(others) {
        if let Some(func) = program.functions.get(id) {
            write!(out, "\n{id}: {}", function(func)).expect("a string takes all");
        }
    }
    out
}

/// One function.
pub fn function(func: &Function) -> String {
    let mut out = String::new();
    write_function(&mut out, func).expect("a string takes all");
    out
}

/// One instruction with its results.
pub fn inst(func: &Function, inst: Inst) -> String {
    let mut out = String::new();
    write_inst(&mut out, func, inst).expect("a string takes all");
    out
}

/// How a block ends.
pub fn terminator(term: &Terminator) -> String {
    let mut out = String::new();
    write_terminator(&mut out, term).expect("a string takes all");
    out
}

fn write_function(out: &mut String, func: &Function) -> fmt::Result {
    let kind = match func.kind {
        FunctionKind::Kernel => "kernel",
        FunctionKind::Device => "device",
    };
    let rets: Vec<String> = func.rets.iter().map(|ty| ty.to_string()).collect();
    let arrow = if rets.is_empty() { "" } else { " -> " };
    writeln!(out, "{kind} {}{arrow}{} {{", func.name, rets.join(", "))?;
    for (slot, data) in &func.slots {
        writeln!(out, "    {slot} = slot {} align {}", data.size, data.align)?;
    }
    write_block(out, func, func.entry)?;
    for block in func.blocks.keys().filter(|&block| block != func.entry) {
        write_block(out, func, block)?;
    }
    writeln!(out, "}}")
}

fn write_block(out: &mut String, func: &Function, block: Block) -> fmt::Result {
    let data = &func.blocks[block];
    let params: Vec<String> = data
        .params
        .iter()
        .map(|&param| format!("{param}: {}", func.ty(param)))
        .collect();
    let params = if params.is_empty() {
        String::new()
    } else {
        format!("({})", params.join(", "))
    };
    writeln!(out, "{block}{params}:")?;
    for &inst in &data.insts {
        out.push_str("    ");
        write_inst(out, func, inst)?;
        out.push('\n');
    }
    out.push_str("    ");
    write_terminator(out, &data.term)?;
    out.push('\n');
    Ok(())
}

fn write_inst(out: &mut String, func: &Function, inst: Inst) -> fmt::Result {
    let node = &func.insts[inst];
    if !node.results.is_empty() {
        let typed = matches!(
            node.data,
            InstData::Call { .. } | InstData::CallIndirect { .. }
        );
        for (i, &result) in node.results.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(out, "{comma}{result}")?;
            if typed {
                write!(out, ": {}", func.ty(result))?;
            }
        }
        out.push_str(" = ");
    }
    write_data(out, &node.data)
}

fn write_data(out: &mut String, data: &InstData) -> fmt::Result {
    match data {
        InstData::Const { ty, bits } => write!(out, "const.{ty} {bits:#x}"),
        InstData::Sreg { sreg } => write!(out, "sreg {}", SregName(*sreg)),
        InstData::VarAddr { var, offset } => write!(out, "addr {var}{}", Offset(*offset)),
        InstData::FuncAddr { func } => write!(out, "addr {func}"),
        InstData::StackAddr { slot, offset } => {
            write!(out, "addr {slot}{}", Offset(i64::from(*offset)))
        }
        InstData::StateOf { block } => write!(out, "state {block}"),
        InstData::IntUnary { op, ty, arg } => write!(out, "{op}.{ty} {arg}"),
        InstData::IntBinary { op, ty, args } => write!(out, "{op}.{ty} {}", List(args)),
        InstData::IntTernary { op, ty, args } => write!(out, "{op}.{ty} {}", List(args)),
        InstData::Lop3 { lut, args } => write!(out, "lop3 {}, {lut:#04x}", List(args)),
        InstData::Bfi { ty, args } => write!(out, "bfi.{ty} {}", List(args)),
        InstData::Resize { op, from, to, arg } => write!(out, "{op}.{to}.{from} {arg}"),
        InstData::Compare { op, ty, args } => write!(out, "{op}.{ty} {}", List(args)),
        InstData::FloatUnary { op, fmt, mode, arg } => {
            write!(out, "{op}{}.{} {arg}", Mode(*mode), float_fmt(*fmt))
        }
        InstData::FloatBinary {
            op,
            fmt,
            mode,
            args,
        } => {
            write!(
                out,
                "{op}{}.{} {}",
                Mode(*mode),
                float_fmt(*fmt),
                List(args)
            )
        }
        InstData::Fma { fmt, mode, args } => {
            write!(out, "fma{}.{} {}", Mode(*mode), float_fmt(*fmt), List(args))
        }
        InstData::FloatCompare { op, fmt, ftz, args } => {
            write!(
                out,
                "{op}{}.{} {}",
                if *ftz { ".ftz" } else { "" },
                float_fmt(*fmt),
                List(args)
            )
        }
        InstData::Convert { cvt, arg } => write!(out, "{} {arg}", Cvt(cvt, "cvt")),
        InstData::ConvertRs { cvt, arg, bits } => {
            write!(out, "{} {arg}, {bits}", Cvt(cvt, "cvt.rs"))
        }
        InstData::Select { ty, cond, args } => write!(out, "select.{ty} {cond}, {}", List(args)),
        InstData::ToGeneric { space: of, arg } => write!(out, "to_generic.{} {arg}", space(*of)),
        InstData::FromGeneric { space: of, arg } => {
            write!(out, "from_generic.{} {arg}", space(*of))
        }
        InstData::EndLane { last, arg, .. } => {
            write!(
                out,
                "end_lane.{} {arg}",
                if *last { "last" } else { "first" }
            )
        }
        InstData::FirstRunning { arg, .. } => write!(out, "first_running {arg}"),
        InstData::IsSpace { space: of, arg } => write!(out, "is_space.{} {arg}", space(*of)),
        InstData::Load { .. }
        | InstData::MaskedLoad { .. }
        | InstData::Store { .. }
        | InstData::Atomic { .. }
        | InstData::Prefetch { .. }
        | InstData::Fence { .. } => write_memory(out, data),
        InstData::Barrier { .. }
        | InstData::Warp { .. }
        | InstData::Call { .. }
        | InstData::CallIndirect { .. }
        | InstData::Device { .. }
        | InstData::StackSave
        | InstData::StackRestore { .. }
        | InstData::Alloca { .. }
        | InstData::Nanosleep { .. }
        | InstData::Count { .. }
        | InstData::Nop => write_control(out, data),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "callers pass no others")]
fn write_memory(out: &mut String, data: &InstData) -> fmt::Result {
    match data {
        InstData::Load {
            space: of,
            sem,
            scope,
            ty,
            n,
            addr,
            offset,
        } => {
            let n = if *n == 1 {
                String::new()
            } else {
                format!("x{n}")
            };
            write!(
                out,
                "load.{}{}.{ty}{n} [{addr}{}]",
                space(*of),
                Sem(*sem, *scope),
                Offset(i64::from(*offset))
            )
        }
        InstData::MaskedLoad {
            space: of,
            ty,
            addr,
            offset,
            mask,
        } => write!(
            out,
            "masked_load.{}.{ty} {mask}, [{addr}{}]",
            space(*of),
            Offset(i64::from(*offset))
        ),
        InstData::Store {
            space: of,
            sem,
            scope,
            ty,
            addr,
            offset,
            args,
        } => {
            let order = Sem(*sem, *scope);
            write!(
                out,
                "store.{}{order}.{ty} [{addr}{}], {}",
                space(*of),
                Offset(i64::from(*offset)),
                List(args)
            )
        }
        InstData::Atomic {
            op,
            fmt,
            space: of,
            sem,
            scope,
            addr,
            offset,
            args,
        } => {
            let (of, order, fmt) = (space(*of), Sem(*sem, *scope), atomic_fmt(*fmt));
            write!(
                out,
                "atom.{op}.{of}{order}.{fmt} [{addr}{}], {}",
                Offset(i64::from(*offset)),
                List(args)
            )
        }
        InstData::Prefetch {
            addr,
            step,
            offset,
            size,
        } => write!(
            out,
            "prefetch.{size} [{addr} + {step}{}]",
            Offset(i64::from(*offset))
        ),
        InstData::Fence { sem, scope } => write!(out, "fence{}", Sem(*sem, *scope)),
        other => unreachable!("{other:?} does not access memory"),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "callers pass no others")]
fn write_control(out: &mut String, data: &InstData) -> fmt::Result {
    match data {
        InstData::Barrier {
            op,
            aligned,
            id,
            count,
            pred,
        } => {
            write!(
                out,
                "barrier.{op}{} {id}",
                if *aligned { ".aligned" } else { "" }
            )?;
            write_optional(out, *count)?;
            write_optional(out, *pred)
        }
        InstData::Warp { op, sync, ty, args } => {
            write!(
                out,
                "{op}{}.{ty} {}",
                if *sync { ".sync" } else { "" },
                List(args)
            )
        }
        InstData::Call { func, args } => write!(out, "call {func}({})", List(args)),
        InstData::CallIndirect {
            sig,
            callee,
            args,
            targets,
        } => {
            write!(out, "call_indirect {sig}, {callee}({})", List(args))?;
            match targets {
                Some(targets) => write!(out, " of {}", List(targets)),
                None => Ok(()),
            }
        }
        InstData::Device { op, args } => write!(out, "{op}({})", List(args)),
        InstData::StackSave => write!(out, "stack_save"),
        InstData::StackRestore { arg } => write!(out, "stack_restore {arg}"),
        InstData::Alloca { size, align } => write!(out, "alloca {size} align {align}"),
        InstData::Nanosleep { arg } => write!(out, "nanosleep {arg}"),
        InstData::Count {
            counter,
            cond,
            sides,
        } => {
            let of = if *sides { ".sides" } else { "" };
            write!(out, "count{of} {counter}")?;
            write_optional(out, *cond)
        }
        InstData::Nop => write!(out, "nop"),
        other => unreachable!("{other:?} has a place of its own"),
    }
}

fn write_optional(out: &mut String, value: Option<Value>) -> fmt::Result {
    match value {
        Some(value) => write!(out, ", {value}"),
        None => Ok(()),
    }
}

fn write_terminator(out: &mut String, term: &Terminator) -> fmt::Result {
    match term {
        Terminator::Jump(call) => write!(out, "jump {}", Target(call)),
        Terminator::Brif { cond, then_, else_ } => {
            write!(out, "brif {cond}, {}, {}", Target(then_), Target(else_))
        }
        Terminator::Switch {
            index,
            targets,
            default,
        } => {
            write!(out, "switch {index}, [")?;
            for (i, call) in targets.iter().enumerate() {
                write!(out, "{}{}", if i == 0 { "" } else { ", " }, Target(call))?;
            }
            write!(out, "], {}", Target(default))
        }
        Terminator::Ret(values) if values.is_empty() => write!(out, "ret"),
        Terminator::Ret(values) => write!(out, "ret {}", List(values)),
        Terminator::Exit => write!(out, "exit"),
        Terminator::Trap(TrapKind::Trap) => write!(out, "trap"),
        Terminator::Trap(TrapKind::Unreachable) => write!(out, "unreachable"),
        Terminator::Dispatch(state) => write!(out, "dispatch {state}"),
    }
}

struct List<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, item) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{item}")?;
        }
        Ok(())
    }
}

struct Target<'a>(&'a BlockCall);

impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.block)?;
        if self.0.args.is_empty() {
            Ok(())
        } else {
            write!(f, "({})", List(&self.0.args))
        }
    }
}

/// `+8`, `-4`, or nothing for 0.
struct Offset(i64);

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            Ok(())
        } else {
            write!(f, "{:+}", self.0)
        }
    }
}

/// `.rz.ftz`; round to nearest even is not written.
struct Mode(FloatMode);

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.round != Round::Rn {
            write!(f, ".{}", round(self.0.round))?;
        }
        f.write_str(if self.0.ftz { ".ftz" } else { "" })
    }
}

/// `.acquire.gpu`; a weak access writes nothing, an access whose scope says nothing only its kind.
struct Sem(MemSem, Scope);

impl fmt::Display for Sem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sem, scoped) = match self.0 {
            MemSem::Weak => ("", false),
            MemSem::NonCoherent => (".nc", false),
            MemSem::Volatile => (".volatile", false),
            MemSem::Relaxed => (".relaxed", true),
            MemSem::Acquire => (".acquire", true),
            MemSem::Release => (".release", true),
            MemSem::AcqRel => (".acq_rel", true),
            MemSem::Sc => (".sc", true),
        };
        f.write_str(sem)?;
        if !scoped {
            return Ok(());
        }
        match self.1 {
            Scope::Cta => f.write_str(".cta"),
            Scope::Cluster => f.write_str(".cluster"),
            Scope::Gpu => f.write_str(".gpu"),
            Scope::Sys => f.write_str(".sys"),
        }
    }
}

/// `cvt.rz.sat.s32.f32`.
struct Cvt<'a>(&'a Convert, &'static str);

impl fmt::Display for Cvt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cvt(cvt, name) = self;
        f.write_str(name)?;
        if cvt.round != Round::Rn || cvt.integral {
            write!(
                f,
                ".{}{}",
                round(cvt.round),
                if cvt.integral { "i" } else { "" }
            )?;
        }
        for (on, text) in [
            (cvt.ftz, ".ftz"),
            (cvt.sat, ".sat"),
            (cvt.satfinite, ".satfinite"),
            (cvt.relu, ".relu"),
        ] {
            f.write_str(if on { text } else { "" })?;
        }
        write!(f, ".{}.{}", num_fmt(cvt.to), num_fmt(cvt.from))
    }
}
