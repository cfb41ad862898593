//! From a translated kernel to code: which variants of it exist, and what they look like on the way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use ptxjit_codegen::{CompileOptions, CompiledKernel, Facts};
use ptxjit_frontend::translate;
use ptxjit_ir::{FuncId, Function, Program, print};
use ptxjit_passes::pipeline;

use crate::module::KernelInner;
use crate::{Dim3, Error, Options};

/// What distinguishes one compiled form of a kernel from another.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Variant {
    pub(crate) gang: u32,
    pub(crate) facts: Facts,
    pub(crate) memcheck: bool,
}

impl Variant {
    pub(crate) fn new(program: &Program, options: &Options, grid: Dim3, block: Dim3) -> Variant {
        let gang = options
            .gang
            .unwrap_or_else(|| ptxjit_codegen::choose_gang(program, block.0));
        Variant {
            gang,
            facts: Facts::of(grid.0, block.0, gang),
            memcheck: options.memcheck,
        }
    }

    fn compile_options(&self) -> CompileOptions {
        CompileOptions {
            gang: Some(self.gang),
            facts: self.facts,
            memcheck: self.memcheck,
        }
    }
}

/// The compiled forms of one kernel, made when first wanted.
#[derive(Default)]
pub(crate) struct Variants {
    optimized: OnceLock<Arc<Program>>,
    compiled: Mutex<HashMap<Variant, Arc<Slot>>>,
}

/// Where a form will be; whoever comes first fills it while others wait.
type Slot = OnceLock<Result<Arc<CompiledKernel>, String>>;

impl Variants {
    pub(crate) fn get(
        &self,
        kernel: &KernelInner,
        variant: &Variant,
    ) -> Result<(Arc<CompiledKernel>, Duration), Error> {
        let start = Instant::now();
        let slot = {
            let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
            compiled.entry(variant.clone()).or_default().clone()
        };
        let compiled = slot.get_or_init(|| {
            let compiled =
                ptxjit_codegen::compile(&self.optimized(kernel), &variant.compile_options());
            compiled.map(Arc::new).map_err(|err| err.to_string())
        });
        match compiled {
            Ok(compiled) => Ok((compiled.clone(), start.elapsed())),
            Err(text) => Err(Error::Compile {
                kernel: kernel.name.clone(),
                message: text.clone(),
            }),
        }
    }

    pub(crate) fn optimized(&self, kernel: &KernelInner) -> Arc<Program> {
        let optimize = || {
            let mut program = Program::clone(&kernel.program);
            pipeline::optimize(&mut program, &pipeline::Options::default(), None);
            Arc::new(program)
        };
        self.optimized.get_or_init(optimize).clone()
    }
}

/// Names of the stages that [`crate::Kernel::dump`] can show, in order.
pub fn dump_stages() -> Vec<&'static str> {
    let mut stages = vec!["ast", "ir"];
    stages.extend(pipeline::pass_names());
    stages.extend(["opt", "notes", "clif", "asm"]);
    stages
}

pub(crate) fn dump(
    front: &translate::Module,
    kernel: &KernelInner,
    stage: &str,
    variant: &Variant,
) -> Result<String, Error> {
    let listing = |stage: &str| {
        let optimized = kernel.variants.optimized(kernel);
        let compiled =
            ptxjit_codegen::compile_listing(&optimized, &variant.compile_options(), true);
        let compiled = compiled.map_err(|err| Error::Compile {
            kernel: kernel.name.clone(),
            message: err.to_string(),
        })?;
        match stage {
            "notes" => Ok(notes(front.source().text(), &compiled)),
            _ => Ok(compiled.listings.get(stage).cloned().unwrap_or_default()),
        }
    };
    match stage {
        "ast" => Ok(syntax_tree(front, kernel)),
        "ir" => Ok(print::program(&kernel.program)),
        "opt" => Ok(print::program(&kernel.variants.optimized(kernel))),
        "notes" | "clif" | "asm" => listing(stage),
        pass if pipeline::pass_names().contains(&pass) => Ok(after_pass(kernel, pass)),
        _ => Err(Error::usage(format!(
            "there is no stage `{stage}`; choose one of {}",
            dump_stages().join(", ")
        ))),
    }
}

/// What there is to say about a plan and the code made from it.
fn notes(text: &str, compiled: &ptxjit_codegen::CompiledKernel) -> String {
    let slow = compiled.slow.iter().map(|(loc, form)| {
        let (before, rest) = text.split_at_checked(loc.0 as usize).unwrap_or((text, ""));
        let line = before.matches('\n').count() + 1;
        let statement = rest.split([';', '\n']).next().unwrap_or_default();
        format!("line {line}: `{statement}` is {form}")
    });
    compiled
        .notes
        .iter()
        .cloned()
        .chain(slow)
        .map(|note| note + "\n")
        .collect()
}

/// All functions as `pass` left them the first time.
fn after_pass(kernel: &KernelInner, pass: &str) -> String {
    let mut program = Program::clone(&kernel.program);
    let mut seen = Vec::new();
    let mut text = String::new();
    let mut observer = |name: &'static str, id: FuncId, func: &Function| {
        if name == pass && !seen.contains(&id) {
            seen.push(id);
            text.push_str(&print::function(func));
        }
    };
    pipeline::optimize(
        &mut program,
        &pipeline::Options::default(),
        Some(&mut observer),
    );
    text
}

/// The kernel's function and body as they were parsed.
fn syntax_tree(front: &translate::Module, kernel: &KernelInner) -> String {
    let named = |function: &&ptxjit_frontend::ast::Function| {
        function.name.text(front.source()) == kernel.name
    };
    let Some(function) = front
        .ast()
        .functions()
        .filter(named)
        .find(|function| function.body.is_some())
    else {
        return String::new();
    };
    let body = function
        .body
        .map(|range| ptxjit_frontend::parse::body(front.source(), range));
    match body {
        Some(Ok(body)) => format!("{function:#?}\n{body:#?}\n"),
        Some(Err(_)) | None => format!("{function:#?}\n"),
    }
}
