//! The textures, surfaces and samplers of a plan, from a case or from the command line.

use anyhow::{Context, Result, anyhow, bail, ensure};
use ptxjit::escape;

use crate::arg::CliArg;
use crate::case::{Case, CaseFile};
use crate::plan::{Plan, PlanArg, PlanBuffer};
use crate::texture::{
    ObjectKind, PlanBinding, PlanObject, PlanSampler, PlanTexture, SamplerDecl, Source,
    TextureDecl, beside,
};

impl Plan {
    /// Everything of a case that has to do with textures.
    pub(crate) fn add_textures(&mut self, file: &CaseFile, case: &Case) -> Result<()> {
        for (name, decl) in &case.textures {
            self.add_texture(file, case, name, decl)
                .with_context(|| format!("texture or surface `{}`", escape(name)))?;
        }
        for (name, decl) in &case.samplers {
            self.samplers.push(PlanSampler {
                name: name.clone(),
                decl: decl.clone(),
            });
        }
        for binding in &case.bindings {
            let names = [&binding.texture, &binding.surface, &binding.sampler];
            let object = match names {
                [Some(name), None, None] => self.texture_index(name, ObjectKind::Texture),
                [None, Some(name), None] => self.texture_index(name, ObjectKind::Surface),
                [None, None, Some(name)] => self.sampler_index(name),
                _ => Err(anyhow!(
                    "either a `texture`, a `surface` or a `sampler` is bound"
                )),
            };
            let context = || format!("the binding of `{}`", escape(&binding.symbol));
            self.bindings.push(PlanBinding {
                symbol: binding.symbol.clone(),
                object: object.with_context(context)?,
            });
        }
        Ok(())
    }

    fn add_texture(
        &mut self,
        file: &CaseFile,
        case: &Case,
        name: &str,
        decl: &TextureDecl,
    ) -> Result<()> {
        let kind = decl.object.context("`object` is missing")?;
        check_memory(decl, false)?;
        decl.check_kind(kind)?;
        if decl.shares.is_some() {
            decl.check_shared()?;
        }
        // An entry may share the storage of one that shares another's.
        let mut owner = (name, decl);
        for _ in 0..=case.textures.len() {
            let Some(of) = &owner.1.shares else { break };
            let found = case.textures.iter().find(|(name, _)| name == of);
            let found =
                found.with_context(|| format!("`shares` names no entry `{}`", escape(of)))?;
            owner = (&found.0, &found.1);
        }
        ensure!(owner.1.shares.is_none(), "`shares` goes in a circle");
        let (image, buffer) = match self.textures.iter().find(|texture| texture.name == owner.0) {
            Some(texture) => (texture.image.clone(), texture.buffer),
            None => {
                let mut image = owner.1.clone();
                let buffer = match &owner.1.buffer {
                    Some(buffer) => case.buffer(buffer)?,
                    None => self.texture_buffer(owner.0, &mut image, |npy| file.dir.find(npy))?,
                };
                (image, buffer)
            }
        };
        self.textures.push(PlanTexture {
            name: name.to_owned(),
            kind,
            decl: decl.clone(),
            image,
            buffer,
        });
        if kind == ObjectKind::Surface {
            self.outputs.push((name.to_owned(), buffer));
        }
        Ok(())
    }

    /// A buffer for the data of an image.
    fn texture_buffer(
        &mut self,
        name: &str,
        image: &mut TextureDecl,
        find: impl Fn(&str) -> Result<std::path::PathBuf>,
    ) -> Result<usize> {
        let (count, contents) = image.contents(find)?;
        let is_undefined = contents.is_none() && image.object != Some(ObjectKind::Surface);
        ensure!(
            !is_undefined,
            "the texture has no data: `npy`, `buffer` or `shares`"
        );
        self.buffers.push(PlanBuffer {
            name: name.to_owned(),
            dtype: image.dtype()?,
            count,
            contents,
            tensor_maps: Vec::new(),
        });
        Ok(self.buffers.len() - 1)
    }

    /// The texture or surface of this name.
    pub(crate) fn texture_index(&self, name: &str, kind: ObjectKind) -> Result<PlanObject> {
        let what = match kind {
            ObjectKind::Texture => "texture",
            ObjectKind::Surface => "surface",
        };
        let found = self
            .textures
            .iter()
            .position(|texture| texture.name == name);
        let idx = found.with_context(|| format!("the case has no {what} `{}`", escape(name)))?;
        ensure!(
            self.textures[idx].kind == kind,
            "`{}` is no {what}",
            escape(name)
        );
        Ok(PlanObject::Texture(idx))
    }

    /// The sampler of this name.
    pub(crate) fn sampler_index(&self, name: &str) -> Result<PlanObject> {
        let found = self
            .samplers
            .iter()
            .position(|sampler| sampler.name == name);
        let idx = found.with_context(|| format!("the case has no sampler `{}`", escape(name)))?;
        Ok(PlanObject::Sampler(idx))
    }

    /// The buffer of an expectation: one of the case, or the data of a surface or texture.
    pub(crate) fn buffer_named(&self, case: &Case, name: &str) -> Result<usize> {
        match self.textures.iter().find(|texture| texture.name == name) {
            Some(texture) => Ok(texture.buffer),
            None => case.buffer(name),
        }
    }

    /// A texture or surface of the command line; the buffer is that of its data, if it is not
    /// another argument's.
    pub(crate) fn cli_texture(
        &mut self,
        what: &str,
        kind: ObjectKind,
        source: &Source<TextureDecl>,
    ) -> Result<(PlanObject, Option<usize>)> {
        let mut decl = source.read().with_context(|| what.to_owned())?;
        let mut add = || -> Result<_> {
            ensure!(
                decl.object.is_none_or(|object| object == kind),
                "`object` says another kind"
            );
            decl.object = Some(kind);
            check_memory(&decl, true)?;
            decl.check_kind(kind)?;
            let own = match &decl.data {
                None if decl.arg.is_some() => None,
                None => Some(self.texture_buffer(what, &mut decl, beside)?),
                Some(data) => match data.parse()? {
                    CliArg::Buffer { dtype, count, init } => {
                        Some(self.cli_buffer(what, dtype, count, &init)?)
                    }
                    _ => bail!("`data` of a texture or surface is a buffer"),
                },
            };
            Ok(own)
        };
        let own = add().with_context(|| what.to_owned())?;
        self.textures.push(PlanTexture {
            name: what.to_owned(),
            kind,
            image: decl.clone(),
            decl,
            buffer: own.unwrap_or(usize::MAX),
        });
        Ok((PlanObject::Texture(self.textures.len() - 1), own))
    }

    /// A sampler of the command line.
    pub(crate) fn cli_sampler(
        &mut self,
        what: &str,
        source: &Source<SamplerDecl>,
    ) -> Result<PlanObject> {
        let decl = source.read().with_context(|| what.to_owned())?;
        let name = what.to_owned();
        self.samplers.push(PlanSampler { name, decl });
        Ok(PlanObject::Sampler(self.samplers.len() - 1))
    }

    /// `--bind SYMBOL=KIND={…}`
    pub(crate) fn cli_binding(&mut self, symbol: &str, object: &CliArg) -> Result<()> {
        let what = format!("--bind {}", escape(symbol));
        let object = match object {
            CliArg::Texture(kind, source) => self.cli_texture(&what, *kind, source)?.0,
            CliArg::Sampler(source) => self.cli_sampler(&what, source)?,
            _ => bail!(
                "{what}: a texture, surface or sampler is bound: `tex=`, `surf=` or `sampler=`"
            ),
        };
        self.bindings.push(PlanBinding {
            symbol: symbol.to_owned(),
            object,
        });
        Ok(())
    }

    /// Finds the buffers of textures that lie in those of other arguments, which may come behind
    /// them.
    pub(crate) fn resolve_textures(&mut self, pointers: &[Option<usize>]) -> Result<()> {
        for texture in &mut self.textures {
            let Some(of) = texture.decl.arg else { continue };
            match pointers.get(of) {
                Some(Some(buffer)) => texture.buffer = *buffer,
                _ => bail!("{}: argument {of} is no buffer", texture.name),
            }
        }
        Ok(())
    }

    /// An argument that is an object.
    pub(crate) fn object_arg(object: Result<PlanObject>) -> Result<PlanArg> {
        object.map(PlanArg::Object)
    }
}

/// At most one of the fields says what memory is meant, and only those that can be meant here.
fn check_memory(decl: &TextureDecl, on_command_line: bool) -> Result<()> {
    let memories = [
        ("npy", decl.npy.is_some(), true),
        ("buffer", decl.buffer.is_some(), !on_command_line),
        ("shares", decl.shares.is_some(), !on_command_line),
        ("arg", decl.arg.is_some(), on_command_line),
        ("data", decl.data.is_some(), on_command_line),
    ];
    if let Some((field, ..)) = memories
        .iter()
        .find(|&&(_, is_there, may)| is_there && !may)
    {
        bail!("there is no field `{field}` here");
    }
    let n = memories
        .iter()
        .filter(|&&(_, is_there, _)| is_there)
        .count();
    ensure!(n <= 1, "the memory is given twice");
    let has_place = decl.buffer.is_some() || decl.arg.is_some() || decl.data.is_some();
    ensure!(
        has_place || decl.byte_offset.is_none(),
        "`byte_offset` is an offset in a buffer"
    );
    Ok(())
}
