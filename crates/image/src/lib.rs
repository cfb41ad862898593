//! What CUDA programs hand to a driver or linker as device code, and the PTX in it.
//!
//! Such an *image* has no type: [`recognize`] tells by its first bytes what it is. [`modules`] gets
//! the PTX out of whatever it is: of a fat binary the entry for a device, of an object or a library
//! that of each fat binary inside, of what a linker of ours wrote all modules that were linked.
//! Machine code for GPUs is told apart, so that the message can say what to do instead.
//!
//! All bytes are foreign: lengths and offsets are checked, and no input makes anything here panic
//! or allocate more than [`MAX_TEXT`] beside a copy of what it was given.

#![forbid(unsafe_code)]

mod choose;
mod container;
mod decompress;
mod error;
mod linked;
mod object;

pub use choose::{Capability, choose};
pub use container::{Container, ENTRY_HEADER, Entry, EntryKind, Suffix, WRAPPER_SIZE, Wrapper};
pub use error::Error;
pub use linked::{PtxModule, encode, linked_len, linked_modules};
pub use object::{elf_sm, fat_sections};

/// Bytes of PTX that one image may hold, unpacked.
pub const MAX_TEXT: u64 = 256 << 20;

/// What a link with NVIDIA's device runtime gets in its place: see the head of the text.
const DEVICE_RUNTIME: &[u8] = include_bytes!("device_runtime.ptx");

/// What an image is, by its first bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// PTX as text.
    Ptx,
    /// The structure that compiled programs point to, with pointers to containers: see [`Wrapper`].
    Wrapper,
    /// A fat binary: see [`Container`].
    Container,
    /// An ELF file: GPU code, or an object of the host.
    Elf,
    /// What [`encode`] wrote.
    Linked,
    /// An archive of objects, a static library.
    Archive,
    /// NVVM's bitcode.
    Bitcode,
    /// NVIDIA's intermediate code for optimization at link time.
    LtoIr,
}

/// What `bytes` are; `None` if they are nothing of this kind. The first 64 bytes suffice.
pub fn recognize(bytes: &[u8]) -> Option<Kind> {
    let magics: [(&[u8], Kind); 8] = [
        (&container::WRAPPER_MAGIC.to_le_bytes(), Kind::Wrapper),
        (&container::MAGIC.to_le_bytes(), Kind::Container),
        (b"\x7fELF", Kind::Elf),
        (linked::MAGIC, Kind::Linked),
        (b"!<arch>\n", Kind::Archive),
        (b"BC\xc0\xde", Kind::Bitcode),
        (b"\xde\xc0\x17\x0b", Kind::Bitcode),
        (b"\xed\x43\x4e\x7f", Kind::LtoIr),
    ];
    let known = magics.iter().find(|(magic, _)| bytes.starts_with(magic));
    known
        .map(|&(_, kind)| kind)
        .or_else(|| is_text(bytes).then_some(Kind::Ptx))
}

/// Whether it begins as text does. What else PTX must be is the parser's to say.
fn is_text(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(64)];
    let head = head.split(|&byte| byte == 0).next().unwrap_or(head);
    let is_control =
        |byte: &u8| (*byte < b' ' && !byte.is_ascii_whitespace() && *byte != 0x0b) || *byte == 0x7f;
    !head.trim_ascii().is_empty() && !head.iter().any(is_control)
}

/// Why the PTX is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// To be loaded: objects and libraries of the host are no images.
    Load,
    /// To be linked.
    Link,
}

/// The PTX modules in an image: one of each fat binary. `name` stands for the image in messages and
/// in the modules' names.
pub fn modules(
    name: &str,
    bytes: &[u8],
    capability: Capability,
    purpose: Purpose,
) -> Result<Vec<PtxModule>, Error> {
    let mut budget = MAX_TEXT;
    match (recognize(bytes), purpose) {
        (Some(Kind::Ptx), _) => Ok(vec![PtxModule::new(name, text_of(bytes))]),
        (Some(Kind::Container), _) => from_containers(name, &[bytes], capability, &mut budget),
        (Some(Kind::Linked), _) => linked_modules(bytes),
        (Some(Kind::Elf), _) if let Some(sm) = elf_sm(bytes) => Err(Error::Cubin { sm }),
        (Some(Kind::Archive), Purpose::Link) if object::is_device_runtime(bytes) => {
            Ok(vec![PtxModule::new(name, DEVICE_RUNTIME.to_vec())])
        }
        (Some(Kind::Elf | Kind::Archive), Purpose::Link) => {
            let sections = fat_sections(bytes)?;
            if sections.is_empty() {
                return Err(Error::NoFatBinary);
            }
            from_containers(name, &sections, capability, &mut budget)
        }
        (Some(Kind::Bitcode), _) => Err(Error::Intermediate("NVVM bitcode")),
        (Some(Kind::LtoIr), _) => Err(Error::Intermediate("LTO-IR")),
        // A wrapper is only pointers, which the caller follows.
        (Some(Kind::Wrapper), _) => Err(Error::Wrapper),
        (Some(Kind::Elf | Kind::Archive) | None, _) => Err(Error::NotAnImage),
    }
}

/// PTX as it is, without the NUL that ends it and what lies behind.
fn text_of(bytes: &[u8]) -> Vec<u8> {
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or(bytes);
    text.to_vec()
}

/// The chosen PTX of each container in each of the sections, in which they lie one behind the
/// other.
fn from_containers(
    name: &str,
    sections: &[&[u8]],
    capability: Capability,
    budget: &mut u64,
) -> Result<Vec<PtxModule>, Error> {
    let mut modules = Vec::new();
    for section in sections {
        let mut rest = *section;
        while let Some((container, behind)) = Container::split_first(rest)? {
            let text = choose::choose_within(&container, capability, budget)?;
            let name = match (modules.len(), behind.is_empty() && sections.len() == 1) {
                (0, true) => name.to_owned(),
                (n, _) => format!("{name}#{}", n + 1),
            };
            modules.push(PtxModule::new(&name, text));
            rest = behind;
        }
    }
    match modules.is_empty() {
        true => Err(Error::NoFatBinary),
        false => Ok(modules),
    }
}
