//! The image that our linkers write: the texts of all modules, in the order in which they were
//! linked.
//!
//! What a name means follows from the texts and their order, so the texts are the result of
//! linking, too. The image has a form of its own, so that whatever a program does with it, only we
//! take it for code:
//!
//! ```text
//! "\x7fPTXJIT" (7 bytes) | version (1) | number of modules (4) | 4 zeros | length of all (8)
//! for each module: length of the name (4) | length of the text (4) | name | text
//! ```

use crate::container::{u32_at, u64_at};
use crate::error::{Error, damaged};

pub(crate) const MAGIC: &[u8; 8] = b"\x7fPTXJIT\x01";
const HEADER: usize = 24;

/// A PTX module by name and text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PtxModule {
    /// For messages.
    pub name: String,
    /// Without a NUL at its end.
    pub text: Vec<u8>,
}

impl PtxModule {
    /// A module.
    pub fn new(name: &str, text: Vec<u8>) -> PtxModule {
        PtxModule {
            name: name.to_owned(),
            text,
        }
    }
}

/// Writes an image of linked modules. Refused is only text that together has 4 GiB, which no linker
/// has accepted.
pub fn encode(modules: &[PtxModule]) -> Result<Vec<u8>, Error> {
    let sizes = modules
        .iter()
        .map(|module| (8 + module.name.len() + module.text.len()) as u64);
    let len = HEADER as u64 + sizes.sum::<u64>();
    let fits = u32::try_from(len).is_ok();
    let mut image = Vec::with_capacity(if fits { len as usize } else { 0 });
    if !fits {
        return Err(Error::TooLarge(len));
    }
    image.extend(MAGIC);
    image.extend((modules.len() as u64).to_le_bytes());
    image.extend(len.to_le_bytes());
    for module in modules {
        image.extend((module.name.len() as u32).to_le_bytes());
        image.extend((module.text.len() as u32).to_le_bytes());
        image.extend(module.name.as_bytes());
        image.extend(&module.text);
    }
    Ok(image)
}

/// The length of a linked image, from its first 24 bytes. For callers that have a pointer and no
/// length.
pub fn linked_len(header: &[u8; HEADER]) -> Result<u64, Error> {
    if !header.starts_with(MAGIC) {
        return Err(Error::NotAnImage);
    }
    let len = u64_at(header, 16).unwrap_or(0);
    match (HEADER as u64..=u64::from(u32::MAX)).contains(&len) {
        true => Ok(len),
        false => Err(damaged(format!(
            "the linked image says that it has {len} bytes"
        ))),
    }
}

/// The modules of a linked image.
pub fn linked_modules(bytes: &[u8]) -> Result<Vec<PtxModule>, Error> {
    let cut = || damaged("the linked image is cut off");
    let header = bytes.first_chunk::<HEADER>().ok_or_else(cut)?;
    let len = usize::try_from(linked_len(header)?).map_err(|_| cut())?;
    let bytes = bytes.get(..len).ok_or_else(cut)?;
    let count = u64_at(bytes, 8).ok_or_else(cut)?;
    let mut modules = Vec::new();
    let mut rest = &bytes[HEADER..];
    for _ in 0..count {
        let (name, text) = u32_at(rest, 0).zip(u32_at(rest, 4)).ok_or_else(cut)?;
        let text_at = 8usize.checked_add(name as usize).ok_or_else(cut)?;
        let end = text_at.checked_add(text as usize).ok_or_else(cut)?;
        let name = rest.get(8..text_at).ok_or_else(cut)?;
        let text = rest.get(text_at..end).ok_or_else(cut)?;
        modules.push(PtxModule::new(
            &String::from_utf8_lossy(name),
            text.to_vec(),
        ));
        rest = &rest[end..];
    }
    match rest.is_empty() {
        true => Ok(modules),
        false => Err(damaged(
            "the linked image has bytes that belong to no module",
        )),
    }
}
