//! Images: what modules and libraries are loaded from.

use std::sync::Arc;

use crate::device::Device;
use crate::error::{self, Result};
use crate::types::CUresult;
use crate::{host, report};

/// An image that was read from the client.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    text: Arc<str>,
}

impl Image {
    /// Loads the image onto a device.
    pub(crate) fn load(&self, device: &Device) -> Result<ptxjit::Module> {
        let engine = device.engine()?;
        let module = ptxjit::Module::from_source(engine, "<ptx>", &*self.text);
        module.map_err(|err| {
            let code = error::code_of(&err);
            report::say(
                &code.name().unwrap_or_default().to_string_lossy(),
                &err.to_string(),
            );
            code
        })
    }
}

/// The image at an address of the client.
pub(crate) fn read(address: u64) -> Result<Image> {
    from_text(host::c_bytes(address, host::MAX_TEXT)?)
}

/// The image in a file.
pub(crate) fn read_file(path: &str) -> Result<Image> {
    let bytes = std::fs::read(path).map_err(|_| CUresult::FILE_NOT_FOUND)?;
    from_text(bytes)
}

fn from_text(bytes: Vec<u8>) -> Result<Image> {
    let text = String::from_utf8_lossy(&bytes);
    Ok(Image { text: text.into() })
}
