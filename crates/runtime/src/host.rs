//! Copies to and from memory of the host that may not be there.
//!
//! A client of the driver hands over host pointers that nothing vouches for. These copies end with
//! an error where an ordinary one would end the process: the fault handler ([`crate::fault`]) knows
//! the few instructions that copy and makes a faulting thread go on behind them.
//!
//! Reading any mapped byte is sound, since the copy is made by the processor and not by Rust code:
//! it sees some value, whatever another thread writes. Writing is as sound as the caller's right to
//! the target.

#![expect(
    unsafe_code,
    reason = "copies between addresses, with a landing place for faults"
)]

/// A copy met memory that is not mapped, or not accessible in that way. Bytes before it may have
/// been copied.
#[derive(Copy, Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("memory is not accessible")]
pub struct HostFault;

/// Copies `to.len()` bytes from an address.
pub fn read(from: u64, to: &mut [u8]) -> Result<(), HostFault> {
    // SAFETY: `to` is writable; what is not readable ends the copy.
    unsafe { copy(to.as_mut_ptr() as u64, from, to.len() as u64) }
}

/// Copies bytes to an address.
///
/// # Safety
///
/// The target holds nothing that Rust code relies on: it is the client's memory, device memory, or
/// not mapped.
pub unsafe fn write(to: u64, from: &[u8]) -> Result<(), HostFault> {
    // SAFETY: the caller vouches for the target; what is not writable ends the copy.
    unsafe { copy(to, from.as_ptr() as u64, from.len() as u64) }
}

/// Copies between addresses; ranges that overlap are copied upwards, byte by byte.
///
/// # Safety
///
/// As for [`write()`].
pub unsafe fn copy(to: u64, from: u64, len: u64) -> Result<(), HostFault> {
    // No range reaches the last byte of the address space, so none wraps.
    let wraps = |start: u64| start.checked_add(len).is_none();
    if wraps(to) || wraps(from) {
        return Err(HostFault);
    }
    if len == 0 {
        return Ok(());
    }
    crate::fault::install();
    // SAFETY: the caller vouches for the target.
    match unsafe { arch::copy(to, from, len) } {
        0 => Ok(()),
        _ => Err(HostFault),
    }
}

/// Fills bytes with a pattern of 1, 2 or 4 bytes, whose length divides `len`.
///
/// # Safety
///
/// As for [`write()`].
pub unsafe fn fill(to: u64, pattern: &[u8], len: u64) -> Result<(), HostFault> {
    const CHUNK: usize = 4096;
    let mut chunk = [0; CHUNK];
    for piece in chunk.chunks_exact_mut(pattern.len()) {
        piece.copy_from_slice(pattern);
    }
    let mut done = 0;
    while done < len {
        let size = (len - done).min(CHUNK as u64);
        // SAFETY: as promised by the caller.
        unsafe { write(to + done, &chunk[..size as usize])? };
        done += size;
    }
    Ok(())
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod arch {
    // Sizes of single values take one move: `rep movsb` needs some 30 cycles to start.
    std::arch::global_asm!(
        ".hidden ptxjit_guarded_copy",
        ".hidden ptxjit_guarded_copy_end",
        ".globl ptxjit_guarded_copy",
        ".globl ptxjit_guarded_copy_end",
        "ptxjit_guarded_copy:",
        "cmp rdx, 8",
        "je 2f",
        "cmp rdx, 4",
        "je 3f",
        "mov rcx, rdx",
        "rep movsb",
        "xor eax, eax",
        "ret",
        "2: mov rcx, qword ptr [rsi]",
        "mov qword ptr [rdi], rcx",
        "xor eax, eax",
        "ret",
        "3: mov ecx, dword ptr [rsi]",
        "mov dword ptr [rdi], ecx",
        "xor eax, eax",
        "ret",
        "ptxjit_guarded_copy_end:",
        "mov eax, 1",
        "ret",
    );

    unsafe extern "C" {
        fn ptxjit_guarded_copy(to: u64, from: u64, len: u64) -> u32;
        fn ptxjit_guarded_copy_end();
    }

    /// # Safety
    ///
    /// See [`super::copy`].
    pub(super) unsafe fn copy(to: u64, from: u64, len: u64) -> u32 {
        // SAFETY: the function keeps to the calling convention, and the direction flag is clear by
        // it.
        unsafe { ptxjit_guarded_copy(to, from, len) }
    }

    /// Where a thread goes on that has faulted at `pc`, if that is in the copy.
    pub(crate) fn landing(pc: usize) -> Option<usize> {
        let start = ptxjit_guarded_copy as *const () as usize;
        let end = ptxjit_guarded_copy_end as *const () as usize;
        (start..end).contains(&pc).then_some(end)
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod arch {
    /// # Safety
    ///
    /// See [`super::copy`].
    pub(super) unsafe fn copy(to: u64, from: u64, len: u64) -> u32 {
        let vec = |start: u64| libc::iovec {
            iov_base: start as *mut libc::c_void,
            iov_len: len as usize,
        };
        // SAFETY: the system checks both ranges; the caller vouches for the target.
        let copied =
            unsafe { libc::process_vm_readv(libc::getpid(), &vec(to), 1, &vec(from), 1, 0) };
        u32::from(copied != len as isize)
    }

    pub(crate) fn landing(_pc: usize) -> Option<usize> {
        None
    }
}

pub(crate) use arch::landing;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_copied() {
        let from: Vec<u8> = (0..100).collect();
        for len in [0, 1, 3, 4, 5, 8, 9, 100] {
            let mut to = vec![0; len];
            read(from.as_ptr() as u64, &mut to).unwrap();
            assert_eq!(to, from[..len]);
        }
        let mut words = [0u8; 12];
        // SAFETY: the array is this test's.
        unsafe { fill(words.as_mut_ptr() as u64, &[1, 2, 3, 4], 12).unwrap() };
        assert_eq!(words, [1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4]);
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        for len in [1, 4, 8, 100] {
            let mut to = vec![0; len];
            for from in [0, 8, 1 << 62, u64::MAX - 2, u64::MAX] {
                assert_eq!(
                    read(from, &mut to),
                    Err(HostFault),
                    "{len} bytes at {from:#x}"
                );
                // SAFETY: nothing is mapped there.
                assert_eq!(unsafe { write(from, &to) }, Err(HostFault));
            }
        }
    }

    #[test]
    fn a_copy_ends_where_the_memory_ends() {
        let page = 4096;
        // SAFETY: a fresh mapping of two pages, of which the second is then made inaccessible.
        let start = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let start = libc::mmap(
                std::ptr::null_mut(),
                2 * page,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            );
            assert_ne!(start, libc::MAP_FAILED);
            libc::mprotect(start.byte_add(page), page, libc::PROT_NONE);
            start as u64
        };
        let mut bytes = [0; 64];
        assert_eq!(read(start + page as u64 - 64, &mut bytes), Ok(()));
        assert_eq!(read(start + page as u64 - 63, &mut bytes), Err(HostFault));
        // SAFETY: the mapping is this test's.
        unsafe { libc::munmap(start as *mut libc::c_void, 2 * page) };
    }
}
