//! ELF files and archives: whether they are GPU code, and the fat binaries in objects of the host.

use object::read::archive::ArchiveFile;
use object::{Object as _, ObjectSection as _};

use crate::container::u32_at;
use crate::error::{Error, damaged};

/// The machine number of NVIDIA's GPUs.
const EM_CUDA: [u8; 2] = 190u16.to_le_bytes();

/// Where nvcc puts fat binaries: code of whole programs, and relocatable code (`-rdc=true`).
const SECTIONS: [&str; 2] = [".nv_fatbin", "__nv_relfatbin"];

/// The target number of GPU code in ELF form; `None` if it is none.
pub fn elf_sm(bytes: &[u8]) -> Option<u32> {
    // The class, 64 or 32 bits, moves `e_flags`.
    let flags_at = match *bytes.get(4)? {
        2 => 48,
        1 => 36,
        _ => return None,
    };
    if !bytes.starts_with(b"\x7fELF") || bytes.get(18..20)? != EM_CUDA {
        return None;
    }
    let flags = u32_at(bytes, flags_at)?;
    // ABI version 8, since CUDA 13, has moved the number up by a byte.
    Some(match *bytes.get(8)? {
        0..=7 => flags & 0xff,
        _ => flags >> 8 & 0xffff,
    })
}

/// The contents of all sections with fat binaries, of an object or of all objects in an archive.
/// Members of an archive that are no objects are left out, as a linker leaves them out.
pub fn fat_sections(bytes: &[u8]) -> Result<Vec<&[u8]>, Error> {
    if !bytes.starts_with(b"!<arch>\n") {
        return in_object(bytes);
    }
    let archive = ArchiveFile::parse(bytes).map_err(|err| damaged(err.to_string()))?;
    let mut sections = Vec::new();
    for member in archive.members() {
        let data = member.and_then(|member| member.data(bytes));
        let data = data.map_err(|err| damaged(err.to_string()))?;
        if data.starts_with(b"\x7fELF") {
            sections.extend(in_object(data)?);
        }
    }
    Ok(sections)
}

/// Whether an archive is NVIDIA's device runtime, `libcudadevrt.a`.
pub(crate) fn is_device_runtime(bytes: &[u8]) -> bool {
    let archive = ArchiveFile::parse(bytes).ok();
    let mut members = archive.iter().flat_map(ArchiveFile::members);
    members.any(|member| member.is_ok_and(|member| member.name() == b"cuda_device_runtime.o"))
}

fn in_object(bytes: &[u8]) -> Result<Vec<&[u8]>, Error> {
    let file = object::File::parse(bytes).map_err(|err| damaged(err.to_string()))?;
    let sections = file.sections().filter(|section| {
        let name = section.name().unwrap_or_default();
        SECTIONS.contains(&name)
    });
    sections
        .map(|section| section.data().map_err(|err| damaged(err.to_string())))
        .collect()
}
