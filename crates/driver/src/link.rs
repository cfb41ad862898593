//! The linker: inputs that are added one by one, and the image that they give.
//!
//! Each input is checked when it is added, as by a compiler; that all names are defined, and once,
//! is found at the end. The image holds the texts of all modules, for `cuModuleLoadData`,
//! `cuLibraryLoadData` and further links.

use std::sync::Arc;

use parking_lot::Mutex;
use ptxjit_image::{Kind, PtxModule, Purpose};

use crate::context;
use crate::device::{self, Device};
use crate::error::Result;
use crate::handle::{Kind as HandleKind, Object, Slab};
use crate::host;
use crate::image::jit::{self, Jit, Options};
use crate::image::{self, Image, Loaded, Refusal};
use crate::types::{CUjitInputType, CUlinkState, CUresult, HostPtr};

static LINKS: Slab<Link> = Slab::new(HandleKind::Link);

/// A link under way, or done.
struct Link {
    handle: u64,
    device: &'static Device,
    /// Logs stay those of `cuLinkCreate`.
    jit: Jit,
    inputs: Mutex<Inputs>,
}

#[derive(Default)]
struct Inputs {
    modules: Vec<PtxModule>,
    /// The result, which the client reads until the link is destroyed.
    image: Option<Box<[u8]>>,
}

impl Object for Link {
    fn handle(&self) -> u64 {
        self.handle
    }
}

fn get(handle: CUlinkState) -> Result<Arc<Link>> {
    LINKS.get(handle.0).ok_or(CUresult::INVALID_HANDLE)
}

impl Link {
    /// Adds what `read` gives, if it is right.
    fn add(&self, read: impl FnOnce() -> Loaded<Vec<PtxModule>>) -> Result<()> {
        let mut inputs = self.inputs.lock();
        if inputs.image.is_some() {
            return Err(CUresult::INVALID_VALUE);
        }
        let checked = || {
            let modules = read()?;
            for module in &modules {
                // The module is remembered, so that a link of one is not read again when it is
                // loaded.
                Image::new(vec![module.clone()]).load(self.device)?;
            }
            Ok(modules)
        };
        inputs.modules.extend(self.jit.finish(checked())?);
        Ok(())
    }

    /// The address and length of the image.
    fn complete(&self) -> Result<(u64, usize)> {
        let mut inputs = self.inputs.lock();
        if inputs.image.is_none() {
            let link = || {
                Image::new(inputs.modules.clone())
                    .link(self.device)
                    .map_err(|refusal| match refusal.code {
                        // The inputs are right one by one: what is left are names, for which
                        // drivers have this code.
                        CUresult::INVALID_PTX => Refusal::new(CUresult::UNKNOWN, refusal.text),
                        _ => refusal,
                    })?;
                Ok(ptxjit_image::encode(&inputs.modules)?.into_boxed_slice())
            };
            inputs.image = Some(self.jit.finish(link())?);
        }
        let image = inputs.image.as_deref().unwrap_or_default();
        Ok((image.as_ptr() as u64, image.len()))
    }
}

/// Whether bytes that are said to be of a type can be: `Ok` if so, else why not.
fn check_type(bytes: &[u8], said: CUjitInputType) -> Loaded<()> {
    let found = ptxjit_image::recognize(bytes);
    let is_right = match said {
        // What our own linker and the stand-in for ptxas write is passed on as machine code.
        CUjitInputType::INPUT_CUBIN => {
            matches!(found, Some(Kind::Ptx | Kind::Linked | Kind::Elf))
        }
        CUjitInputType::INPUT_PTX => matches!(found, Some(Kind::Ptx)),
        CUjitInputType::INPUT_FATBINARY => {
            matches!(found, Some(Kind::Container | Kind::Wrapper | Kind::Linked))
        }
        CUjitInputType::INPUT_OBJECT => matches!(found, Some(Kind::Elf | Kind::Linked)),
        CUjitInputType::INPUT_LIBRARY => matches!(found, Some(Kind::Archive | Kind::Elf)),
        // Intermediate code is refused further on, with a text about it.
        CUjitInputType::INPUT_NVVM => matches!(found, Some(Kind::Bitcode | Kind::LtoIr)),
        _ => return Err(CUresult::INVALID_VALUE.into()),
    };
    if is_right {
        return Ok(());
    }
    let (code, what) = match said {
        CUjitInputType::INPUT_PTX => (CUresult::INVALID_PTX, "PTX"),
        CUjitInputType::INPUT_NVVM => (CUresult::NO_BINARY_FOR_GPU, "intermediate code"),
        CUjitInputType::INPUT_FATBINARY => (CUresult::INVALID_IMAGE, "a fat binary"),
        CUjitInputType::INPUT_OBJECT => (CUresult::INVALID_IMAGE, "an object"),
        CUjitInputType::INPUT_LIBRARY => (CUresult::INVALID_IMAGE, "a library"),
        _ => (CUresult::INVALID_IMAGE, "machine code"),
    };
    let text = format!("error: the input of the linker is not {what}, as which it was added");
    Err(Refusal::new(code, text))
}

/// The modules in bytes of the client.
fn read_data(said: CUjitInputType, address: u64, len: usize, name: &str) -> Loaded<Vec<PtxModule>> {
    let bytes = image::bytes(address, len as u64)?;
    check_type(&bytes, said)?;
    match ptxjit_image::recognize(&bytes) {
        Some(Kind::Wrapper) => Ok(image::wrapped(address)?.0),
        _ => image::modules(name, &bytes, Purpose::Link),
    }
}

fn read_file(said: CUjitInputType, path: &str) -> Loaded<Vec<PtxModule>> {
    let bytes = image::file_bytes(path)?;
    check_type(&bytes, said)?;
    image::modules(path, &bytes, Purpose::Link)
}

/// Reads the options of one input, which matter to machine code only, and checks its type.
fn check_input(said: CUjitInputType, options: &Options) -> Result<()> {
    jit::read(options)?;
    match said.0 < CUjitInputType::NUM_INPUT_TYPES.0 {
        true => Ok(()),
        false => Err(CUresult::INVALID_VALUE),
    }
}

// --- The interface ---

/// `cuLinkCreate`.
pub fn create(options: Options) -> Result<CUlinkState> {
    let device = context::current()?.device;
    let jit = jit::read(&options)?;
    jit.finish(Ok(()))?;
    let link = LINKS.insert(|handle| Link {
        handle,
        device: device::get(device.ordinal).unwrap_or(device),
        jit,
        inputs: Mutex::default(),
    })?;
    Ok(CUlinkState(link.handle))
}

/// `cuLinkAddData`.
pub fn add_data(
    handle: CUlinkState,
    said: CUjitInputType,
    data: HostPtr,
    len: usize,
    name: HostPtr,
    options: Options,
) -> Result<()> {
    let link = get(handle)?;
    check_input(said, &options)?;
    if data.is_null() || len == 0 {
        return Err(CUresult::INVALID_VALUE);
    }
    let name = match name.is_null() {
        true => image::NAME.to_owned(),
        false => host::string(name)?,
    };
    link.add(|| read_data(said, data.0, len, &name))
}

/// `cuLinkAddFile`.
pub fn add_file(
    handle: CUlinkState,
    said: CUjitInputType,
    path: HostPtr,
    options: Options,
) -> Result<()> {
    let link = get(handle)?;
    check_input(said, &options)?;
    let path = host::string(path)?;
    link.add(|| read_file(said, &path))
}

/// `cuLinkComplete`: address and length of the image, which stays until the link is destroyed.
pub fn complete(handle: CUlinkState) -> Result<(u64, usize)> {
    get(handle)?.complete()
}

/// `cuLinkDestroy`.
pub fn destroy(handle: CUlinkState) -> Result<()> {
    LINKS
        .remove(handle.0)
        .map(drop)
        .ok_or(CUresult::INVALID_HANDLE)
}
