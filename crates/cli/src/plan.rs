//! What to run, whether it came from a case file or from the command line.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use ptxjit::escape;

use crate::arg::{self, CliArg};
use crate::args::RunArgs;
use crate::case::{ArgDecl, Case, CaseFile, LaunchDecl, number};
use crate::contents::Contents;
use crate::dtype::{self, DType};
use crate::npy::Array;
use crate::paths::CaseDir;

/// Modules, buffers and the launches that use them.
#[derive(Debug, Default)]
pub struct Plan {
    /// The PTX files, each loaded once.
    pub files: Vec<PathBuf>,
    /// What is linked with the first of them.
    pub linked: Vec<PathBuf>,
    pub buffers: Vec<PlanBuffer>,
    pub globals: Vec<PlanGlobal>,
    pub launches: Vec<PlanLaunch>,
}

#[derive(Debug)]
pub struct PlanBuffer {
    pub name: String,
    pub dtype: DType,
    pub count: usize,
    /// First contents; none leaves the memory uninitialised.
    pub contents: Option<Contents>,
}

#[derive(Debug)]
pub struct PlanGlobal {
    pub symbol: String,
    pub bytes: Vec<u8>,
}

#[derive(Debug)]
pub struct PlanLaunch {
    /// Index into the plan's files.
    pub file: usize,
    /// None stands for the only kernel of the module.
    pub kernel: Option<String>,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub cluster: Option<[u32; 3]>,
    pub shared: u32,
    pub cooperative: bool,
    pub args: Vec<PlanArg>,
    pub expect_error: Option<String>,
}

#[derive(Debug)]
pub enum PlanArg {
    Bytes(Vec<u8>),
    Pointer {
        buffer: usize,
        offset: i64,
    },
    /// Something that cannot be passed yet.
    Unsupported(&'static str),
}

impl Plan {
    /// The launches of `case`, with `files` as the PTX: the first one is the default, others are for launches that name theirs.
    pub fn from_case(file: &CaseFile, case: &Case, files: &[PathBuf]) -> Result<Plan> {
        let mut plan = Plan {
            files: files.to_vec(),
            ..Plan::default()
        };
        for decl in &case.buffers {
            let contents = Some(decl.contents(&file.dir)?);
            let (name, dtype, count) = (decl.name.clone(), decl.dtype, decl.count);
            plan.buffers.push(PlanBuffer {
                name,
                dtype,
                count,
                contents,
            });
        }
        for global in &case.globals {
            let array = Array::read(&file.dir.find(&global.npy)?)?.into_dtype(global.dtype)?;
            plan.globals.push(PlanGlobal {
                symbol: global.symbol.clone(),
                bytes: array.bytes,
            });
        }
        case.check_textures(&file.dir)?;
        for decl in &case.launches {
            let launch = plan.case_launch(&file.dir, case, decl);
            let launch =
                launch.with_context(|| format!("the launch of `{}`", escape(&decl.kernel)))?;
            plan.launches.push(launch);
        }
        Ok(plan)
    }

    fn case_launch(&mut self, dir: &CaseDir, case: &Case, decl: &LaunchDecl) -> Result<PlanLaunch> {
        let file = match &decl.ptx {
            // One file that the caller chose stands in for the case's own.
            Some(name) if self.files.len() != 1 || case.names_its_files() => {
                self.file(dir.find(name)?)
            }
            _ => 0,
        };
        Ok(PlanLaunch {
            file,
            kernel: Some(decl.kernel.clone()),
            grid: decl.grid,
            block: decl.block,
            cluster: decl.cluster,
            shared: decl.shared_bytes,
            cooperative: decl.cooperative,
            args: decl
                .args
                .iter()
                .map(|arg| case_arg(case, arg))
                .collect::<Result<_>>()?,
            expect_error: decl.expect_error.clone(),
        })
    }

    /// The index of `path`, added if it is new.
    fn file(&mut self, path: PathBuf) -> usize {
        if let Some(idx) = self.files.iter().position(|file| *file == path) {
            return idx;
        }
        self.files.push(path);
        self.files.len() - 1
    }

    /// One launch as the flags of `ptxjit run` describe it. The result says for each argument which buffer it points to.
    pub fn from_args(run: &RunArgs) -> Result<(Plan, Vec<Option<usize>>)> {
        let (first, linked) = run.files.split_first().context("no PTX file given")?;
        let mut plan = Plan {
            files: vec![first.clone()],
            linked: linked.to_vec(),
            ..Plan::default()
        };
        let mut pointers: Vec<Option<usize>> = Vec::new();
        let mut args = Vec::new();
        for (idx, arg) in run.args.iter().enumerate() {
            let (arg, buffer) = match arg {
                CliArg::Value(bytes) => (PlanArg::Bytes(bytes.clone()), None),
                CliArg::Buffer { dtype, count, init } => {
                    let read = arg::contents(*dtype, *count, init);
                    let (contents, count) = read.with_context(|| format!("argument {idx}"))?;
                    plan.buffers.push(PlanBuffer {
                        name: idx.to_string(),
                        dtype: *dtype,
                        count,
                        contents,
                    });
                    pointer(plan.buffers.len() - 1)
                }
                CliArg::Same(of) => match pointers.get(*of) {
                    Some(Some(buffer)) => pointer(*buffer),
                    Some(None) => bail!(
                        "argument {idx} is to be the same as argument {of}, which is no buffer"
                    ),
                    None => bail!(
                        "argument {idx} is to be the same as argument {of}, which does not come before it"
                    ),
                },
            };
            args.push(arg);
            pointers.push(buffer);
        }
        plan.launches.push(PlanLaunch {
            file: 0,
            kernel: run.kernel.clone(),
            grid: run.grid.0,
            block: run.block.0,
            cluster: run.cluster.map(|dims| dims.0),
            shared: run.shared,
            cooperative: run.cooperative,
            args,
            expect_error: None,
        });
        Ok((plan, pointers))
    }
}

fn pointer(buffer: usize) -> (PlanArg, Option<usize>) {
    (PlanArg::Pointer { buffer, offset: 0 }, Some(buffer))
}

fn case_arg(case: &Case, arg: &ArgDecl) -> Result<PlanArg> {
    match arg {
        ArgDecl::Buffer { name, byte_offset } => Ok(PlanArg::Pointer {
            buffer: case.buffer(name)?,
            offset: *byte_offset,
        }),
        ArgDecl::Bytes { hex } => Ok(PlanArg::Bytes(dtype::parse_hex(hex)?)),
        ArgDecl::Texture { name } | ArgDecl::Surface { name } => {
            ensure!(
                case.textures.contains_key(name),
                "the case has no texture or surface `{}`",
                escape(name)
            );
            Ok(PlanArg::Unsupported("a texture or surface argument"))
        }
        ArgDecl::TensorMap(_) => Ok(PlanArg::Unsupported("a tensor map argument")),
        scalar => {
            let (dtype, value) = scalar
                .scalar()
                .expect("all other arguments are handled above");
            let mut bytes = Vec::new();
            dtype.encode(number(value)?, &mut bytes)?;
            Ok(PlanArg::Bytes(bytes))
        }
    }
}
