//! Files that hold PTX, as such or in a fat binary, and several of them linked.
//!
//! Fat binaries hold several versions of a program; the one for the compute capability of
//! `$PTXJIT_COMPUTE_CAPABILITY` is used, 8.0 if that is not set.

use std::path::{Path, PathBuf};

use ptxjit::{Device, Linker, Module, Outline};
use ptxjit_image::{Capability, Kind, PtxModule, Purpose};

use crate::session::Failure;

const CAPABILITY: &str = "PTXJIT_COMPUTE_CAPABILITY";

/// A device for the modules in the files.
pub(crate) fn device<'a>(
    mut files: impl Iterator<Item = &'a PathBuf>,
) -> Result<Device, ptxjit::Error> {
    let is_narrow = |file: &PathBuf| {
        let modules = modules(file, Purpose::Load).unwrap_or_default();
        modules.into_iter().any(|module| {
            let outline = Outline::read(&module.name, module.text);
            outline.is_ok_and(|outline| outline.has_32_bit_addresses())
        })
    };
    match files.any(is_narrow) {
        true => Device::with_32_bit_addresses(),
        false => Device::new(),
    }
}

/// Loads the module that the files are together.
pub(crate) fn load(device: &Device, files: &[PathBuf]) -> Result<Module, Failure> {
    if let [file] = files {
        let mut modules = modules(file, Purpose::Load)?;
        if let (Some(module), true) = (modules.pop(), modules.is_empty()) {
            return Ok(Module::from_bytes(device, &module.name, module.text)?);
        }
    }
    Ok(linker(files)?.link(device)?)
}

/// The files, to be linked.
pub(crate) fn linker(files: &[PathBuf]) -> Result<Linker, Failure> {
    let mut linker = Linker::new();
    for file in files {
        for module in modules(file, Purpose::Link)? {
            linker.add_bytes(&module.name, module.text);
        }
    }
    Ok(linker)
}

/// The PTX in a file.
pub(crate) fn modules(path: &Path, purpose: Purpose) -> Result<Vec<PtxModule>, Failure> {
    let name = path.to_string_lossy();
    let bytes = std::fs::read(path).map_err(|err| Failure {
        cuda_name: "CUDA_ERROR_FILE_NOT_FOUND",
        ..Failure::wrong(format!("error: cannot read {name}: {err}"))
    })?;
    match ptxjit_image::recognize(&bytes) {
        // What is no image at all is for the parser to say, with the place.
        None | Some(Kind::Ptx) => Ok(vec![PtxModule::new(&name, bytes)]),
        Some(_) => {
            let modules = ptxjit_image::modules(&name, &bytes, capability()?, purpose);
            modules.map_err(|err| Failure {
                cuda_name: match err.is_no_binary() {
                    true => "CUDA_ERROR_NO_BINARY_FOR_GPU",
                    false => "CUDA_ERROR_INVALID_IMAGE",
                },
                ..Failure::wrong(format!("error: cannot use {name}: {err}"))
            })
        }
    }
}

fn capability() -> Result<Capability, Failure> {
    let Some(text) = std::env::var_os(CAPABILITY) else {
        return Ok(Capability { major: 8, minor: 0 });
    };
    let text = text.to_string_lossy();
    let parts = text.split_once('.');
    let parts = parts.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    parts
        .map(|(major, minor)| Capability { major, minor })
        .ok_or_else(|| {
            Failure::wrong(format!(
                "error: `{text}` of ${CAPABILITY} is no compute capability, such as 8.0"
            ))
        })
}
