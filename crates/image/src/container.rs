//! Fat binaries: the container, its entries, and the wrapper by which programs point to it.
//!
//! The layout was measured on what nvFatbin 12.9 and fatbinary 13 write; all numbers are
//! little-endian:
//!
//! ```text
//! container   u32 magic | u16 version = 1 | u16 header size = 16
//!             | u64 size of what follows | entries
//! entry    0  u16 kind | 2 u16 version | 4 u32 header size | 8 u32 payload size, padded | 12 u32
//!         16  u32 packed size, or 0 | 20 u32 place of the options
//!         24  u16 PTX minor | 26 u16 PTX major | 28 u32 sm
//!         32  u32 bits | 36 u32 length of the name | 40 u64 flags
//!         48  u64 | 56 u64 unpacked size | name, options
//! ```

use crate::decompress::{self, Packing};
use crate::error::{Error, damaged};

/// First word of a wrapper.
pub(crate) const WRAPPER_MAGIC: u32 = 0x4662_43b1;
/// First word of a container.
pub(crate) const MAGIC: u32 = 0xba55_ed50;
const HEADER: usize = 16;
/// Bytes of an entry's header that have a fixed meaning.
pub const ENTRY_HEADER: usize = 64;
/// Bytes of a [`Wrapper`] on hosts of 64 bits.
pub const WRAPPER_SIZE: usize = 24;

/// Flags of an entry.
const LZ4: u64 = 0x2000;
const ZSTD: u64 = 0x8000;
const SPECIFIC: u64 = 0x10_0000;
const FAMILY: u64 = 0x20_0000;

/// What compiled programs register: pointers, which only the process can follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wrapper {
    /// 1, or 2 if the fat binaries in `list` are to be linked.
    pub version: u32,
    /// Address of a container.
    pub data: u64,
    /// Version 2: address of a list of addresses of containers that ends with a null; else a file's
    /// name, or nothing.
    pub list: u64,
}

impl Wrapper {
    /// Reads the fields; `None` if it is no wrapper.
    pub fn parse(bytes: &[u8; WRAPPER_SIZE]) -> Option<Wrapper> {
        let word = |at| u32_at(bytes, at);
        let version = word(4)?;
        (word(0)? == WRAPPER_MAGIC && (1..=2).contains(&version)).then_some(Wrapper {
            version,
            data: u64_at(bytes, 8)?,
            list: u64_at(bytes, 16)?,
        })
    }
}

/// A fat binary.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Container<'a> {
    /// In written order.
    pub entries: Vec<Entry<'a>>,
}

/// What an entry holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryKind {
    /// PTX.
    Ptx,
    /// Machine code of a GPU.
    Cubin,
    /// Anything else, by its number: intermediate code, indices, relocatable pieces.
    Other(u16),
}

/// What follows the number of a target.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Suffix {
    /// Any later GPU, too.
    None,
    /// `f`: later GPUs of the family only.
    Family,
    /// `a`: this very GPU only.
    Specific,
}

impl Suffix {
    /// The letter.
    pub fn letter(self) -> &'static str {
        match self {
            Suffix::None => "",
            Suffix::Family => "f",
            Suffix::Specific => "a",
        }
    }
}

/// One version of the program in a container.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// What it is.
    pub kind: EntryKind,
    /// The target's number, 80 of `sm_80`.
    pub sm: u32,
    /// And its suffix, as the flags tell it.
    pub suffix: Suffix,
    /// Major and minor number of the PTX version.
    pub ptx_version: (u16, u16),
    /// The file that it was made from, if the compiler says so.
    pub name: &'a [u8],
    packing: Packing,
    unpacked_size: u64,
    payload: &'a [u8],
}

impl<'a> Container<'a> {
    /// The length of a container in bytes, from its first 16. For callers that have a pointer and
    /// no length.
    pub fn len_from_header(header: &[u8; HEADER]) -> Result<u64, Error> {
        let (magic, version, size) = (u32_at(header, 0), u16_at(header, 4), u64_at(header, 8));
        let header_size = u16_at(header, 6).map_or(0, u64::from);
        if magic != Some(MAGIC) {
            return Err(Error::NotAnImage);
        }
        if version != Some(1) || header_size < HEADER as u64 {
            return Err(damaged(format!(
                "a fat binary of version {} with a header of {header_size} bytes is not known",
                version.unwrap_or(0)
            )));
        }
        size.and_then(|size| size.checked_add(header_size))
            .ok_or_else(|| damaged("the size of the fat binary overflows"))
    }

    /// Reads a container that `bytes` begin with.
    pub fn parse(bytes: &'a [u8]) -> Result<Container<'a>, Error> {
        match Container::split_first(bytes)? {
            Some((container, _)) => Ok(container),
            None => Err(Error::NotAnImage),
        }
    }

    /// Reads the first of several containers; zeros may lie between them. Returns what is behind
    /// it, too.
    pub(crate) fn split_first(bytes: &'a [u8]) -> Result<Option<(Container<'a>, &'a [u8])>, Error> {
        let Some(start) = bytes.iter().position(|&byte| byte != 0) else {
            return Ok(None);
        };
        let bytes = &bytes[start..];
        let header = bytes
            .first_chunk::<HEADER>()
            .ok_or_else(|| damaged("the fat binary is cut off in its header"))?;
        let len = usize::try_from(Container::len_from_header(header)?).unwrap_or(usize::MAX);
        let header_size = u16_at(header, 6).map_or(HEADER, usize::from);
        let (Some(all), Some(behind)) = (bytes.get(header_size..len), bytes.get(len..)) else {
            return Err(damaged(format!(
                "the fat binary says that it has {len} bytes, and there are {}",
                bytes.len()
            )));
        };
        let mut entries = Vec::new();
        let mut rest = all;
        while !rest.iter().all(|&byte| byte == 0) {
            let (entry, behind) = Entry::split_first(rest)?;
            entries.push(entry);
            rest = behind;
        }
        let is_trailing = behind.iter().all(|&byte| byte == 0);
        let behind = if is_trailing { &[] } else { behind };
        Ok(Some((Container { entries }, behind)))
    }
}

impl<'a> Entry<'a> {
    fn split_first(bytes: &'a [u8]) -> Result<(Entry<'a>, &'a [u8]), Error> {
        let cut = || damaged("an entry of the fat binary is cut off");
        let head = bytes.get(..ENTRY_HEADER).ok_or_else(cut)?;
        let field = |at| u32_at(head, at).ok_or_else(cut);
        let (header_size, padded) = (field(4)? as usize, field(8)? as usize);
        if header_size < ENTRY_HEADER {
            return Err(damaged(format!(
                "an entry of the fat binary has a header of {header_size} bytes"
            )));
        }
        let header = bytes.get(..header_size).ok_or_else(cut)?;
        let end = header_size.checked_add(padded).ok_or_else(cut)?;
        let payload = bytes.get(header_size..end).ok_or_else(cut)?;
        let flags = u64_at(head, 40).ok_or_else(cut)?;
        let (packing, payload) = packing(flags, field(16)? as usize, payload)?;
        let name_len = field(36)? as usize;
        let entry = Entry {
            kind: match u16_at(head, 0).ok_or_else(cut)? {
                1 => EntryKind::Ptx,
                2 => EntryKind::Cubin,
                other => EntryKind::Other(other),
            },
            sm: field(28)?,
            suffix: match (flags & SPECIFIC != 0, flags & FAMILY != 0) {
                (true, _) => Suffix::Specific,
                (false, true) => Suffix::Family,
                (false, false) => Suffix::None,
            },
            ptx_version: (
                u16_at(head, 26).ok_or_else(cut)?,
                u16_at(head, 24).ok_or_else(cut)?,
            ),
            name: header
                .get(ENTRY_HEADER..ENTRY_HEADER.saturating_add(name_len))
                .unwrap_or_default(),
            packing,
            unpacked_size: u64_at(head, 56).ok_or_else(cut)?,
            payload,
        };
        Ok((entry, &bytes[end..]))
    }

    /// `PTX for sm_90a`, `machine code for sm_80`.
    pub(crate) fn describe(&self) -> String {
        let what = match self.kind {
            EntryKind::Ptx => "PTX".to_owned(),
            EntryKind::Cubin => "machine code".to_owned(),
            EntryKind::Other(kind) => format!("an entry of kind {kind}"),
        };
        format!("{what} for sm_{}{}", self.sm, self.suffix.letter())
    }

    /// The PTX, unpacked; its length is taken from `budget`. Where the compiler has left the
    /// `.version` line to the header, it is there again.
    pub(crate) fn text(&self, budget: &mut u64) -> Result<Vec<u8>, Error> {
        let mut text = decompress::run(self.packing, self.payload, self.unpacked_size, *budget)?;
        *budget -= text.len() as u64;
        let end = text.iter().position(|&byte| byte == 0);
        text.truncate(end.unwrap_or(text.len()));
        if !has_version(&text) {
            let (major, minor) = self.ptx_version;
            // Lines keep their numbers where the place of the old one is still there.
            let end = if text.starts_with(b"\n") { "" } else { "\n" };
            let line = format!(".version {major}.{minor}{end}");
            // A vector left to itself would grow to twice what it needs.
            text.reserve_exact(line.len());
            text.splice(..0, line.into_bytes());
        }
        Ok(text)
    }
}

fn packing(flags: u64, packed: usize, payload: &[u8]) -> Result<(Packing, &[u8]), Error> {
    let packing = match (flags & LZ4 != 0, flags & ZSTD != 0) {
        (false, false) => return Ok((Packing::None, payload)),
        (true, false) => Packing::Lz4,
        (false, true) => Packing::Zstd,
        (true, true) => return Err(damaged("an entry of the fat binary is packed in two ways")),
    };
    // Without a packed size the entry was too small to gain anything, and is as it is.
    if packed == 0 {
        return Ok((Packing::None, payload));
    }
    match payload.get(..packed) {
        Some(payload) => Ok((packing, payload)),
        None => Err(damaged(
            "an entry of the fat binary is larger than its place",
        )),
    }
}

/// Whether the first directive is `.version`.
fn has_version(text: &[u8]) -> bool {
    let mut rest = text.trim_ascii_start();
    loop {
        let skip = match rest {
            [b'/', b'/', ..] => rest.iter().position(|&byte| byte == b'\n'),
            [b'/', b'*', ..] => rest
                .windows(2)
                .skip(2)
                .position(|pair| pair == b"*/")
                .map(|at| at + 4),
            _ => return rest.starts_with(b".version"),
        };
        let Some(skip) = skip else { return false };
        rest = rest[skip..].trim_ascii_start();
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::has_version;

    #[test]
    fn the_version_line_may_be_missing() {
        assert!(has_version(
            b"\n// made by\n/* a */ .version 8.0\n.target sm_80"
        ));
        assert!(has_version(b".version 8.0"));
        assert!(!has_version(b"\n.target sm_80 // .version 8.0"));
        assert!(!has_version(b"// .version 8.0"));
        assert!(!has_version(b"/* .version 8.0"));
        assert!(!has_version(b"/*/ .version 8.0"));
        assert!(!has_version(b""));
    }
}
