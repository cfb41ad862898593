//! Memory of the process that is not device memory.

#![expect(unsafe_code, reason = "memory of the process is reached by address")]

/// Reads bytes anywhere in the process, if they can be read: the system copies them, so a wild address is no fault.
pub(crate) fn read_host(addr: u64, bytes: &mut [u8]) -> Option<()> {
    let local = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let remote = libc::iovec {
        iov_base: addr as *mut libc::c_void,
        iov_len: bytes.len(),
    };
    // SAFETY: writes to `bytes` only; what it reads is checked by the system.
    let n = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    (usize::try_from(n) == Ok(bytes.len())).then_some(())
}

#[cfg(test)]
mod tests {
    use super::read_host;

    #[test]
    fn reads_what_is_there() {
        let from = [1u8, 2, 3];
        let mut to = [0; 3];
        assert!(read_host(from.as_ptr() as u64, &mut to).is_some());
        assert_eq!(to, from);
        assert!(read_host(8, &mut to).is_none() && read_host(u64::MAX, &mut to).is_none());
    }
}
