//! What a handle stands for: inputs, and after linking the image.

use ptxjit_frontend::diag::{self, Diagnostic, Severity};
use ptxjit_frontend::source::Source;
use ptxjit_frontend::translate::Module;
use ptxjit_image::{Error, Kind, PtxModule, Purpose};

use crate::options::Options;

/// `nvJitLinkResult`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Status {
    Success = 0,
    UnrecognizedOption = 1,
    MissingArch = 2,
    InvalidInput = 3,
    PtxCompile = 4,
    NvvmCompile = 5,
    Internal = 6,
    UnrecognizedInput = 8,
    Finalize = 9,
    NullInput = 10,
    IncorrectInputType = 12,
    ArchMismatch = 13,
    MissingFatbin = 15,
    UnrecognizedArch = 16,
    LtoNotEnabled = 18,
}

/// `nvJitLinkInputType`
pub(crate) mod input {
    pub(crate) const CUBIN: u32 = 1;
    pub(crate) const PTX: u32 = 2;
    pub(crate) const LTOIR: u32 = 3;
    pub(crate) const FATBIN: u32 = 4;
    pub(crate) const OBJECT: u32 = 5;
    pub(crate) const LIBRARY: u32 = 6;
    pub(crate) const INDEX: u32 = 7;
    pub(crate) const ANY: u32 = 10;
}

/// Findings that are drawn at once; a text that is not PTX at all could otherwise make gigabytes of
/// messages.
const MAX_DRAWN: usize = 200;

/// The state of a handle.
#[derive(Debug)]
pub(crate) struct Linker {
    options: Options,
    modules: Vec<PtxModule>,
    /// The result, once there is one.
    image: Option<Vec<u8>>,
    errors: String,
    infos: String,
}

impl Linker {
    pub(crate) fn new(options: Options) -> Linker {
        Linker {
            options,
            modules: Vec::new(),
            image: None,
            errors: String::new(),
            infos: String::new(),
        }
    }

    /// What is wrong, for people; ends with a line feed if there is anything.
    pub(crate) fn error_log(&self) -> &str {
        &self.errors
    }

    /// What is odd, likewise.
    pub(crate) fn info_log(&self) -> &str {
        &self.infos
    }

    /// A line of the error log.
    pub(crate) fn fail(&mut self, status: Status, text: &str) -> Status {
        self.errors.push_str("error: ");
        self.errors.push_str(text);
        self.errors.push('\n');
        status
    }

    /// Takes an input.
    pub(crate) fn add(&mut self, kind: u32, name: &str, data: &[u8]) -> Status {
        if self.image.is_some() {
            return self.fail(Status::InvalidInput, "the inputs are linked already");
        }
        let found = ptxjit_image::recognize(data);
        if let Err((status, text)) = check_kind(kind, found) {
            return self.fail(status, &format!("cannot link {name}: {text}"));
        }
        let modules = ptxjit_image::modules(name, data, self.options.capability, Purpose::Link);
        match modules {
            Ok(modules) => {
                self.modules.extend(modules);
                Status::Success
            }
            Err(err) => self.fail(status_of(&err), &format!("cannot link {name}: {err}")),
        }
    }

    /// Links the inputs, and checks all that is in them.
    pub(crate) fn complete(&mut self) -> Status {
        if self.image.is_some() {
            return Status::Success;
        }
        if self.modules.is_empty() {
            return self.fail(Status::InvalidInput, "there is nothing to link");
        }
        match Module::link(Source::join(self.sources())) {
            Ok(module) => self.check(&module),
            Err(refused) => {
                self.log(&refused.diagnostics, &refused.source);
                // What is wrong with one of them alone is not for the linker to say.
                match self
                    .sources()
                    .into_iter()
                    .all(|one| Module::load(one).is_ok())
                {
                    true => Status::Finalize,
                    false => Status::PtxCompile,
                }
            }
        }
    }

    fn sources(&self) -> Vec<Source> {
        let sources = self.modules.iter();
        sources
            .map(|module| Source::from_bytes(&module.name, module.text.clone()))
            .collect()
    }

    fn check(&mut self, module: &Module) -> Status {
        let mut found = module.warnings().to_vec();
        found.extend(module.check());
        self.log(&found, module.source());
        if found.iter().any(|one| one.severity == Severity::Error) {
            return Status::PtxCompile;
        }
        let (target, device) = (module.target().number, self.sm());
        if target > device {
            let text = format!("a module is for sm_{target} and cannot run on sm_{device}");
            return self.fail(Status::ArchMismatch, &text);
        }
        self.finish()
    }

    fn sm(&self) -> u32 {
        self.options.capability.major * 10 + self.options.capability.minor
    }

    fn finish(&mut self) -> Status {
        match ptxjit_image::encode(&self.modules) {
            Ok(image) => {
                self.image = Some(image);
                Status::Success
            }
            Err(err) => self.fail(Status::Finalize, &err.to_string()),
        }
    }

    fn log(&mut self, found: &[Diagnostic], source: &Source) {
        for one in found.iter().take(MAX_DRAWN) {
            let log = match one.severity {
                Severity::Error => &mut self.errors,
                Severity::Warning => &mut self.infos,
            };
            log.push_str(&diag::render(one, source, false));
            log.push('\n');
        }
    }

    /// The linked image, which stands for machine code.
    pub(crate) fn image(&mut self) -> Result<&[u8], Status> {
        if self.image.is_none() {
            return Err(self.fail(Status::InvalidInput, "the inputs are not linked yet"));
        }
        Ok(self.image.as_deref().unwrap_or_default())
    }

    /// The linked PTX, with a NUL at its end. Of several modules there is none: names of one would
    /// clash with another's.
    pub(crate) fn ptx(&mut self) -> Result<Vec<u8>, Status> {
        self.image()?;
        if !self.options.wants_ptx {
            let text = "PTX is a result only with the options `-lto` and `-ptx`";
            return Err(self.fail(Status::LtoNotEnabled, text));
        }
        match self.modules.as_slice() {
            [module] => Ok([module.text.as_slice(), b"\0"].concat()),
            _ => {
                let text = "several modules cannot be one PTX text; take the linked image";
                Err(self.fail(Status::Finalize, text))
            }
        }
    }

    /// Intermediate code is never a result.
    pub(crate) fn lto_ir(&mut self) -> Status {
        let text = "LTO-IR is nothing that this library makes; take the linked image";
        self.fail(Status::LtoNotEnabled, text)
    }
}

/// Whether what was found is what the caller announced.
fn check_kind(kind: u32, found: Option<Kind>) -> Result<(), (Status, String)> {
    let expected: &[Kind] = match kind {
        // What this library makes is called machine code by those who hand it on.
        input::CUBIN => &[Kind::Linked, Kind::Elf],
        input::PTX => &[Kind::Ptx],
        input::LTOIR | input::INDEX => {
            let text = "LTO-IR is for NVIDIA's compiler only; compile to PTX instead".to_owned();
            return Err((Status::NvvmCompile, text));
        }
        input::FATBIN => &[Kind::Container],
        input::OBJECT => &[Kind::Elf],
        input::LIBRARY => &[Kind::Archive],
        input::ANY => return Ok(()),
        other => {
            return Err((
                Status::IncorrectInputType,
                format!("there is no input type {other}"),
            ));
        }
    };
    match found {
        Some(found) if expected.contains(&found) => Ok(()),
        // The image crate has a better text for these.
        Some(Kind::Bitcode | Kind::LtoIr) => Ok(()),
        None => Err((Status::UnrecognizedInput, Error::NotAnImage.to_string())),
        Some(found) => {
            let text = format!("this is {}, not what the input type says", describe(found));
            Err((Status::IncorrectInputType, text))
        }
    }
}

fn describe(kind: Kind) -> &'static str {
    match kind {
        Kind::Ptx => "PTX",
        Kind::Wrapper => "the wrapper of a fat binary",
        Kind::Container => "a fat binary",
        Kind::Elf => "an ELF file",
        Kind::Linked => "a linked image",
        Kind::Archive => "a library",
        Kind::Bitcode => "NVVM bitcode",
        Kind::LtoIr => "LTO-IR",
    }
}

fn status_of(err: &Error) -> Status {
    match err {
        Error::NotAnImage => Status::UnrecognizedInput,
        Error::NoFatBinary => Status::MissingFatbin,
        Error::NoPtx { .. } => Status::ArchMismatch,
        Error::Intermediate(_) => Status::NvvmCompile,
        // The enum may grow.
        _ => Status::InvalidInput,
    }
}
