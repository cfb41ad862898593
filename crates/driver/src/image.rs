//! Images: what modules and libraries are loaded from.

use std::sync::Arc;

use crate::device::Device;
use crate::error::{self, Result};
use crate::host;
use crate::types::CUresult;

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
        let module = module.map_err(|err| error::told(&err))?;
        // What is wrong anywhere in a module is found when it is loaded, as on a GPU.
        module.check_all().map_err(|err| error::told(&err))?;
        Ok(module)
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
