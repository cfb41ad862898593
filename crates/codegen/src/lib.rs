//! Gang lowering of the IR to native code through Cranelift.

pub mod abi;

pub use abi::{
    CompiledKernel, CompileOptions, CtaContext, EnterFn, Facts, FaultKind, LaneState, Operand, ResumeKind, ResumePoint, RuntimeFns,
    SymbolRef,
};
