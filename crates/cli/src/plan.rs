//! What to run, whether it came from a case file or from the command line.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use ptxjit::{TensorMap, escape};

use crate::arg::{self, CliArg};
use crate::args::RunArgs;
use crate::case::{ArgDecl, Case, CaseFile, Init, LaunchDecl, Patch, number};
use crate::contents::Contents;
use crate::dtype::{self, DType};
use crate::npy::Array;
use crate::paths::CaseDir;
use crate::tensor_map::{self, MapArg, MapDecl, MapSource, PlanMap};
use crate::texture::{ObjectKind, PlanBinding, PlanObject, PlanSampler, PlanTexture};

/// Modules, buffers and the launches that use them.
#[derive(Debug, Default)]
pub struct Plan {
    /// The PTX files, each loaded once.
    pub files: Vec<PathBuf>,
    /// What is linked with the first of them.
    pub linked: Vec<PathBuf>,
    pub buffers: Vec<PlanBuffer>,
    pub globals: Vec<PlanGlobal>,
    pub tensor_maps: Vec<PlanMap>,
    pub textures: Vec<PlanTexture>,
    pub samplers: Vec<PlanSampler>,
    pub bindings: Vec<PlanBinding>,
    /// Buffers that are results, by the names of their files.
    pub outputs: Vec<(String, usize)>,
    pub launches: Vec<PlanLaunch>,
}

#[derive(Debug)]
pub struct PlanBuffer {
    pub name: String,
    pub dtype: DType,
    pub count: usize,
    /// First contents; none leaves the memory uninitialised.
    pub contents: Option<Contents>,
    /// Tensor maps that lie in it, one after the other, by their indices.
    pub tensor_maps: Vec<usize>,
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
    pub programmatic: bool,
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
    /// A tensor map, by its index.
    TensorMap(usize),
    /// Bytes, and what overwrites them.
    Patched {
        bytes: Vec<u8>,
        patches: Vec<PlanPatch>,
    },
    /// The handle of a texture, surface or sampler.
    Object(PlanObject),
}

/// What overwrites bytes from an offset on, which has been checked: a pointer or a tensor map.
#[derive(Debug)]
pub struct PlanPatch {
    pub offset: usize,
    pub value: PlanArg,
}

impl Plan {
    /// A device for the modules.
    pub fn device(&self) -> Result<ptxjit::Device, ptxjit::Error> {
        crate::input::device(self.files.iter().chain(&self.linked))
    }

    /// The launches of `case`, with `files` as the PTX: the first one is the default, others are
    /// for launches that name theirs.
    pub fn from_case(file: &CaseFile, case: &Case, files: &[PathBuf]) -> Result<Plan> {
        let mut plan = Plan {
            files: files.to_vec(),
            ..Plan::default()
        };
        for decl in &case.buffers {
            let contents = match decl.init {
                Init::Uninit => None,
                _ => Some(decl.contents(&file.dir)?),
            };
            let (name, dtype, count) = (decl.name.clone(), decl.dtype, decl.count);
            plan.buffers.push(PlanBuffer {
                name,
                dtype,
                count,
                contents,
                tensor_maps: Vec::new(),
            });
        }
        for (idx, buffer) in plan.buffers.iter().enumerate() {
            plan.outputs.push((buffer.name.clone(), idx));
        }
        plan.add_maps(case)?;
        plan.add_textures(file, case)?;
        for global in &case.globals {
            let array = Array::read(&file.dir.find(&global.npy)?)?.into_dtype(global.dtype)?;
            plan.globals.push(PlanGlobal {
                symbol: global.symbol.clone(),
                bytes: array.bytes,
            });
        }
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
            programmatic: decl.programmatic,
            args: decl
                .args
                .iter()
                .map(|arg| self.case_arg(case, arg))
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

    /// One launch as the flags of `ptxjit run` describe it. The result says for each argument which
    /// buffer it points to.
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
                    pointer(plan.cli_buffer(&format!("argument {idx}"), *dtype, *count, init)?)
                }
                CliArg::TensorMap(source) => plan.cli_map(idx, source)?,
                CliArg::Texture(kind, source) => {
                    let what = format!("argument {idx}");
                    let (object, buffer) = plan.cli_texture(&what, *kind, source)?;
                    (PlanArg::Object(object), buffer)
                }
                CliArg::Sampler(source) => {
                    let object = plan.cli_sampler(&format!("argument {idx}"), source)?;
                    (PlanArg::Object(object), None)
                }
                CliArg::Same(of) => match pointers.get(*of) {
                    Some(_) if run.args[*of].is_no_pointer() => bail!(
                        "argument {idx} is to be the same as argument {of}, which is no pointer"
                    ),
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
        for (symbol, object) in &run.bind {
            plan.cli_binding(symbol, object)?;
        }
        plan.resolve_maps(&pointers)?;
        plan.resolve_textures(&pointers)?;
        plan.launches.push(PlanLaunch {
            file: 0,
            kernel: run.kernel.clone(),
            grid: run.grid.0,
            block: run.block.0,
            cluster: run.cluster.map(|dims| dims.0),
            shared: run.shared,
            cooperative: run.cooperative,
            programmatic: run.programmatic,
            args,
            expect_error: None,
        });
        Ok((plan, pointers))
    }
}

fn pointer(buffer: usize) -> (PlanArg, Option<usize>) {
    (PlanArg::Pointer { buffer, offset: 0 }, Some(buffer))
}

impl Plan {
    /// Something that an argument of a case passes.
    fn case_arg(&mut self, case: &Case, arg: &ArgDecl) -> Result<PlanArg> {
        match arg {
            ArgDecl::Buffer { name, byte_offset } => Ok(PlanArg::Pointer {
                buffer: case.buffer(name)?,
                offset: *byte_offset,
            }),
            ArgDecl::Bytes { hex, patch } => self.patched(case, dtype::parse_hex(hex)?, patch),
            ArgDecl::Texture { name } => {
                Plan::object_arg(self.texture_index(name, ObjectKind::Texture))
            }
            ArgDecl::Surface { name } => {
                Plan::object_arg(self.texture_index(name, ObjectKind::Surface))
            }
            ArgDecl::Sampler { name } => Plan::object_arg(self.sampler_index(name)),
            ArgDecl::TensorMap(fields) => match MapArg::parse(fields)? {
                MapArg::Named(name) => Ok(PlanArg::TensorMap(self.map_index(&name)?)),
                MapArg::Fields(decl) => self
                    .add_map(case, "argument", &decl)
                    .map(PlanArg::TensorMap),
            },
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

    /// The maps of a case, and the buffers that hold some of them.
    fn add_maps(&mut self, case: &Case) -> Result<()> {
        for (name, decl) in &case.tensormaps {
            self.add_map(case, name, decl)?;
        }
        for (idx, buffer) in case.buffers.iter().enumerate() {
            if let Init::TensorMaps { names } = &buffer.init {
                let maps = names.iter().map(|name| self.map_index(name));
                self.buffers[idx].tensor_maps = maps.collect::<Result<_>>()?;
            }
        }
        Ok(())
    }

    fn add_map(&mut self, case: &Case, name: &str, decl: &MapDecl) -> Result<usize> {
        let context = || format!("tensor map `{}`", escape(name));
        tensor_map::check_memory(decl, false).with_context(context)?;
        let buffer = decl.buffer.as_deref().unwrap_or_default();
        self.tensor_maps.push(PlanMap {
            name: name.to_owned(),
            decl: decl.clone(),
            buffer: case.buffer(buffer).with_context(context)?,
        });
        Ok(self.tensor_maps.len() - 1)
    }

    fn map_index(&self, name: &str) -> Result<usize> {
        let found = self.tensor_maps.iter().position(|map| map.name == name);
        found.with_context(|| format!("the case has no tensor map `{}`", escape(name)))
    }

    fn patched(&self, case: &Case, bytes: Vec<u8>, patch: &[Patch]) -> Result<PlanArg> {
        if patch.is_empty() {
            return Ok(PlanArg::Bytes(bytes));
        }
        let patches = patch.iter().map(|patch| {
            let (value, size) = self.patch_value(case, patch)?;
            let end = patch.offset.checked_add(size);
            ensure!(
                end.is_some_and(|end| end <= bytes.len()),
                "the patch at {} of {size} bytes does not lie within {} bytes",
                patch.offset,
                bytes.len()
            );
            Ok(PlanPatch {
                offset: patch.offset,
                value,
            })
        });
        let patches = patches.collect::<Result<_>>()?;
        Ok(PlanArg::Patched { bytes, patches })
    }

    /// What a patch puts in its place, and the size of that.
    fn patch_value(&self, case: &Case, patch: &Patch) -> Result<(PlanArg, usize)> {
        let names = [
            &patch.tensormap,
            &patch.buffer,
            &patch.texture,
            &patch.surface,
            &patch.sampler,
        ];
        let mut given = names
            .iter()
            .enumerate()
            .filter_map(|(n, name)| Some((n, name.as_ref()?)));
        let (Some((n, name)), None) = (given.next(), given.next()) else {
            bail!("a patch has one of `tensormap`, `buffer`, `texture`, `surface` and `sampler`");
        };
        let value = match n {
            0 => return Ok((PlanArg::TensorMap(self.map_index(name)?), TensorMap::SIZE)),
            1 => PlanArg::Pointer {
                buffer: case.buffer(name)?,
                offset: patch.byte_offset,
            },
            2 => PlanArg::Object(self.texture_index(name, ObjectKind::Texture)?),
            3 => PlanArg::Object(self.texture_index(name, ObjectKind::Surface)?),
            _ => PlanArg::Object(self.sampler_index(name)?),
        };
        Ok((value, size_of::<u64>()))
    }

    /// Argument number `idx` of the command line; the buffer is that of the map's own data.
    fn cli_map(&mut self, idx: usize, source: &MapSource) -> Result<(PlanArg, Option<usize>)> {
        let context = || format!("argument {idx}");
        let decl = source.read().with_context(context)?;
        tensor_map::check_memory(&decl, true).with_context(context)?;
        let own = match &decl.data {
            None => None,
            Some(data) => match data.parse().with_context(context)? {
                CliArg::Buffer { dtype, count, init } => {
                    Some(self.cli_buffer(&format!("argument {idx}"), dtype, count, &init)?)
                }
                _ => bail!("argument {idx}: the `data` of a tensor map is a buffer"),
            },
        };
        self.tensor_maps.push(PlanMap {
            name: format!("argument {idx}"),
            decl,
            buffer: own.unwrap_or(usize::MAX),
        });
        Ok((PlanArg::TensorMap(self.tensor_maps.len() - 1), own))
    }

    pub(crate) fn cli_buffer(
        &mut self,
        what: &str,
        dtype: DType,
        count: Option<usize>,
        init: &arg::BufferInit,
    ) -> Result<usize> {
        let read = arg::contents(dtype, count, init);
        let (contents, count) = read.with_context(|| what.to_owned())?;
        self.buffers.push(PlanBuffer {
            name: what.to_owned(),
            dtype,
            count,
            contents,
            tensor_maps: Vec::new(),
        });
        Ok(self.buffers.len() - 1)
    }

    /// Finds the buffers of maps that describe those of other arguments, which may come behind
    /// them.
    fn resolve_maps(&mut self, pointers: &[Option<usize>]) -> Result<()> {
        for map in &mut self.tensor_maps {
            let Some(of) = map.decl.arg else { continue };
            match pointers.get(of) {
                Some(Some(buffer)) => map.buffer = *buffer,
                _ => bail!("{}: argument {of} is no buffer", map.name),
            }
        }
        Ok(())
    }
}
