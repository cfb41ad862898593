//! Images: what modules and libraries are loaded from, and what is said of one that is refused.
//!
//! An image is an address without a length. [`read`] finds out what is there and how long it is;
//! `ptxjit-image` gets the PTX out of it. What was parsed and checked is kept by the image's text,
//! so that the same image loads fast again, in other contexts too.

pub mod jit;

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use ptxjit::NEWEST_VERSION;
use ptxjit_image::{Container, Kind, PtxModule, Purpose, Wrapper};

use crate::device::Device;
use crate::error::{self, Result};
use crate::types::CUresult;
use crate::{host, report, state};

/// The PTX modules of an image, which are linked if there are several.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    modules: Arc<Vec<PtxModule>>,
    /// Why a fat binary among those that are linked is left out, for the message about what is then
    /// missing.
    left_out: Option<Arc<str>>,
}

/// Why an image is refused.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) code: CUresult,
    pub(crate) text: String,
}

impl Refusal {
    pub(crate) fn new(code: CUresult, text: impl Into<String>) -> Refusal {
        Refusal {
            code,
            text: text.into(),
        }
    }

    /// Sends the text to where reports go, and gives the code.
    pub(crate) fn told(self) -> CUresult {
        let name = self.code.name().unwrap_or_default();
        report::say(&name.to_string_lossy(), &self.text);
        self.code
    }
}

impl From<CUresult> for Refusal {
    fn from(code: CUresult) -> Refusal {
        Refusal::new(code, "error: the image cannot be read")
    }
}

impl From<ptxjit_image::Error> for Refusal {
    fn from(err: ptxjit_image::Error) -> Refusal {
        let code = match err.is_no_binary() {
            true => CUresult::NO_BINARY_FOR_GPU,
            false => CUresult::INVALID_IMAGE,
        };
        Refusal::new(code, format!("error: {err}"))
    }
}

impl From<ptxjit::Error> for Refusal {
    fn from(err: ptxjit::Error) -> Refusal {
        Refusal::new(error::code_of(&err), err.to_string())
    }
}

/// What can be loaded, or why not.
pub(crate) type Loaded<T> = std::result::Result<T, Refusal>;

impl Image {
    /// The image of some PTX modules.
    pub(crate) fn new(modules: Vec<PtxModule>) -> Image {
        Image {
            modules: Arc::new(modules),
            left_out: None,
        }
    }

    /// Loads the image onto a device. What is wrong anywhere in it is found here, as on a GPU.
    pub(crate) fn load(&self, device: &Device) -> Loaded<ptxjit::Module> {
        let engine = device.engine()?;
        if let Some(module) = known(&self.modules) {
            return Ok(module.on(engine));
        }
        let module = match &self.modules[..] {
            [one] => {
                check_begins(&one.text)?;
                check_version(&one.text)?;
                ptxjit::Module::from_source(engine, &one.name, text(one))?
            }
            _ => self.linked(engine)?,
        };
        self.finish(device, module)
    }

    /// The same for a module of a context, whose functions must be defined: a GPU's driver makes
    /// machine code of it here, but of a library when something in it is asked for.
    pub(crate) fn load_whole(&self, device: &Device) -> Loaded<ptxjit::Module> {
        let module = self.load(device)?;
        module.check_defined().map_err(|err| self.missing(err))?;
        Ok(module)
    }

    /// Links the modules, even if there is only one: what they use must be defined. Unlike a loaded
    /// module, the result has nothing on the device.
    pub(crate) fn link(&self, device: &Device) -> Loaded<()> {
        let module = self.linked(device.engine()?)?;
        self.finish(device, module).map(drop)
    }

    fn linked(&self, engine: &ptxjit::Device) -> Loaded<ptxjit::Module> {
        for module in self.modules.iter() {
            check_version(&module.text)?;
        }
        let named = self
            .modules
            .iter()
            .map(|module| (&module.name, text(module)));
        ptxjit::link(engine, named).map_err(|err| self.missing(err))
    }

    /// Refuses a module for names that are missing, perhaps because of a part that was left out.
    fn missing(&self, err: ptxjit::Error) -> Refusal {
        let mut refusal = Refusal::from(err);
        if let Some(why) = &self.left_out {
            refusal.text = format!("{}\nnote: a part is left out: {why}", refusal.text);
        }
        refusal
    }

    fn finish(&self, device: &Device, module: ptxjit::Module) -> Loaded<ptxjit::Module> {
        check_target(&module, device)?;
        module.check_all()?;
        // Another instance, since this one's variables must go when it is unloaded.
        remember(&self.modules, module.on(device.engine()?));
        Ok(module)
    }
}

fn text(module: &PtxModule) -> String {
    String::from_utf8_lossy(&module.text).into_owned()
}

/// Tells text of any kind from PTX, which begins with its version (PTX ISA section 11.1.1).
fn check_begins(text: &[u8]) -> Loaded<()> {
    let mut rest = text.trim_ascii_start();
    loop {
        let comment = if rest.starts_with(b"//") {
            rest.iter().position(|&byte| byte == b'\n')
        } else if rest.starts_with(b"/*") {
            rest.windows(2)
                .position(|pair| pair == b"*/")
                .map(|at| at + 2)
        } else {
            break;
        };
        rest = rest[comment.unwrap_or(rest.len())..].trim_ascii_start();
    }
    match rest.starts_with(b".version") {
        true => Ok(()),
        false => Err(Refusal::new(
            CUresult::INVALID_IMAGE,
            "error: the image is neither PTX, which begins with `.version`, nor a binary of a known kind",
        )),
    }
}

/// Tells PTX of a later version than is read from PTX that is wrong.
fn check_version(text: &[u8]) -> Loaded<()> {
    let Some((major, minor)) = version_of(text).filter(|&version| version > NEWEST_VERSION) else {
        return Ok(());
    };
    Err(Refusal::new(
        CUresult::UNSUPPORTED_PTX_VERSION,
        format!(
            "error: the PTX has `.version {major}.{minor}`; ptxjit reads up to {}.{}. Compile with an older \
             compiler",
            NEWEST_VERSION.0, NEWEST_VERSION.1
        ),
    ))
}

/// The numbers behind the first `.version`.
fn version_of(text: &[u8]) -> Option<(u32, u32)> {
    const WORD: &[u8] = b".version";
    let at = text.windows(WORD.len()).position(|window| window == WORD)?;
    let rest = &text[at + WORD.len()..];
    let line = std::str::from_utf8(&rest[..rest.len().min(16)]).ok()?;
    let (major, minor) = line.split_whitespace().next()?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// A GPU refuses code for a later one.
fn check_target(module: &ptxjit::Module, device: &Device) -> Loaded<()> {
    let (target, capability) = (module.target(), device.figures.persona.compute_capability);
    let number = capability.major * 10 + capability.minor;
    if target.number <= number {
        return Ok(());
    }
    Err(Refusal::new(
        CUresult::INVALID_PTX,
        format!(
            "error: the PTX is for `sm_{}`, and the device has compute capability {capability}; \
             set PTXJIT_COMPUTE_CAPABILITY={}.{} to have one that runs it",
            target.number,
            target.number / 10,
            target.number % 10
        ),
    ))
}

// --- Images that were loaded before ---

/// Modules that were found right, the latest last.
static KNOWN: Mutex<VecDeque<(Arc<Vec<PtxModule>>, ptxjit::Module)>> = Mutex::new(VecDeque::new());

/// Images that are remembered. A suite of tests loads some thousand small ones, each once or a few
/// times in a row.
const MAX_KNOWN: usize = 256;

fn known(modules: &Vec<PtxModule>) -> Option<ptxjit::Module> {
    let known = KNOWN.lock();
    let found = known.iter().rev().find(|(others, _)| **others == *modules);
    found.map(|(_, module)| module.clone())
}

fn remember(modules: &Arc<Vec<PtxModule>>, module: ptxjit::Module) {
    let mut known = KNOWN.lock();
    if known.len() == MAX_KNOWN {
        known.pop_front();
    }
    known.push_back((modules.clone(), module));
}

// --- Reading ---

/// What the modules of an image are called in messages.
pub(crate) const NAME: &str = "<ptx>";

/// The image at an address of the client.
pub(crate) fn read(address: u64) -> Loaded<Image> {
    let start = first_bytes(address)?;
    let mut left_out = None;
    let modules = match ptxjit_image::recognize(&start) {
        Some(Kind::Wrapper) => {
            let (modules, refusal) = wrapped(address)?;
            left_out = refusal.map(|refusal| refusal.text.into());
            modules
        }
        Some(Kind::Container) => modules(NAME, &container(address)?, Purpose::Load)?,
        Some(Kind::Linked) => {
            let len = ptxjit_image::linked_len(&sized(&start)?)?;
            modules(NAME, &bytes(address, len)?, Purpose::Load)?
        }
        // Text ends with a NUL; of all else the first bytes say why it is refused.
        Some(Kind::Ptx) | None => {
            let text = host::c_bytes(address, host::MAX_TEXT)?;
            modules(NAME, &text, Purpose::Load)?
        }
        Some(Kind::Elf | Kind::Archive | Kind::Bitcode | Kind::LtoIr) => {
            modules(NAME, &start, Purpose::Load)?
        }
    };
    Ok(Image {
        left_out,
        ..Image::new(modules)
    })
}

/// The image in a file.
pub(crate) fn read_file(path: &str) -> Loaded<Image> {
    let bytes = file_bytes(path)?;
    Ok(Image::new(modules(path, &bytes, Purpose::Load)?))
}

pub(crate) fn file_bytes(path: &str) -> Loaded<Vec<u8>> {
    std::fs::read(path).map_err(|err| {
        let text = format!("error: cannot read {path}: {err}");
        Refusal::new(CUresult::FILE_NOT_FOUND, text)
    })
}

/// The PTX for the first device; all devices have the same capability.
pub(crate) fn modules(name: &str, bytes: &[u8], purpose: Purpose) -> Loaded<Vec<PtxModule>> {
    let devices = &state::state()?.devices;
    let capability = devices[0].figures.persona.compute_capability;
    let capability = ptxjit_image::Capability::from_sm(capability.major * 10 + capability.minor);
    Ok(ptxjit_image::modules(name, bytes, capability, purpose)?)
}

/// Up to 64 bytes: fewer where the memory ends before.
fn first_bytes(address: u64) -> Result<Vec<u8>> {
    const WANTED: usize = 64;
    const PAGE: u64 = 4096;
    if address == 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let in_page = (PAGE - address % PAGE).min(WANTED as u64) as usize;
    let mut start = vec![0; in_page];
    host::read_bytes(address, &mut start)?;
    let mut rest = vec![0; WANTED - in_page];
    if host::read_bytes(address.wrapping_add(in_page as u64), &mut rest).is_ok() {
        start.extend(rest);
    }
    Ok(start)
}

fn sized<const N: usize>(start: &[u8]) -> Loaded<[u8; N]> {
    let start = start.first_chunk().copied();
    start.ok_or_else(|| Refusal::new(CUresult::INVALID_IMAGE, "error: the image is cut off"))
}

/// Bytes of the client, of which a header has told the number.
pub(crate) fn bytes(address: u64, len: u64) -> Loaded<Vec<u8>> {
    if len > host::MAX_TEXT as u64 {
        let text = format!("error: the image says that it has {len} bytes");
        return Err(Refusal::new(CUresult::INVALID_IMAGE, text));
    }
    // Piece by piece: a header that lies about the length must not make us ask for that much
    // memory.
    const PIECE: u64 = 1 << 20;
    let mut all = Vec::new();
    while (all.len() as u64) < len {
        let at = all.len();
        all.resize((at as u64 + PIECE).min(len) as usize, 0);
        host::read_bytes(address.wrapping_add(at as u64), &mut all[at..])
            .map_err(|_| Refusal::new(CUresult::INVALID_IMAGE, "error: the image is cut off"))?;
    }
    Ok(all)
}

fn container(address: u64) -> Loaded<Vec<u8>> {
    let len = Container::len_from_header(&sized(&first_bytes(address)?)?)?;
    bytes(address, len)
}

/// The modules of all containers that a wrapper points to. Of several, those that have nothing for
/// the device are left out, and the second value tells about the first: nvcc also lists its own
/// libraries there, of which programs need nothing.
pub(crate) fn wrapped(address: u64) -> Loaded<(Vec<PtxModule>, Option<Refusal>)> {
    /// Far more than a program is linked from; a list without an end is no list.
    const MAX_CONTAINERS: u64 = 1 << 16;
    let wrapper = Wrapper::parse(&sized(&first_bytes(address)?)?);
    let damaged = || {
        Refusal::new(
            CUresult::INVALID_IMAGE,
            "error: the wrapper of a fat binary is damaged",
        )
    };
    let wrapper = wrapper.ok_or_else(damaged)?;
    if wrapper.version == 1 {
        let modules = modules(NAME, &container(wrapper.data)?, Purpose::Load)?;
        return Ok((modules, None));
    }
    let (mut all, mut left_out) = (Vec::new(), None);
    for idx in 0..MAX_CONTAINERS {
        let address = host::get::<u64>(wrapper.list.wrapping_add(8 * idx))?;
        if address == 0 {
            return match left_out {
                Some(refusal) if all.is_empty() => Err(refusal),
                left_out => Ok((all, left_out)),
            };
        }
        let name = format!("{NAME}#{}", idx + 1);
        match modules(&name, &container(address)?, Purpose::Load) {
            Ok(modules) => all.extend(modules),
            Err(refusal) if refusal.code == CUresult::NO_BINARY_FOR_GPU => {
                left_out = left_out.or(Some(refusal));
            }
            Err(refusal) => return Err(refusal),
        }
    }
    Err(damaged())
}
