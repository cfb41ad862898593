//! The log of what calls have to say. Its tests are one, since a process has one log.

use std::sync::{Arc, Mutex};

use ptxjit_driver::types::{CUresult, HostPtr};
use ptxjit_driver::{context, image::jit, logs, module};

fn address<T>(value: &mut T) -> HostPtr {
    HostPtr(std::ptr::from_mut(value) as u64)
}

/// Loads what is no PTX, which leaves an entry.
fn refused() {
    let text = c".version 8.0\n.target sm_80\nnonsense";
    let result = module::load_data(HostPtr(text.as_ptr() as u64), jit::Options::NONE);
    assert!(result.is_err());
}

#[test]
fn entries_are_kept_and_told_of() {
    ptxjit_driver::init(0).unwrap();
    context::create(0, 0, 3020).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let copy = told.clone();
    let handle = logs::register(move |entry| copy.lock().unwrap().push(entry.to_owned())).unwrap();
    let mut iterator = logs::current(0).unwrap();
    refused();
    logs::unregister(handle).unwrap();
    assert_eq!(logs::unregister(handle), Err(CUresult::INVALID_VALUE));
    refused();
    let told = told.lock().unwrap();
    assert_eq!(told.len(), 1);
    assert!(told[0].starts_with("CUDA_ERROR_INVALID_PTX: "), "{told:?}");

    let (mut buffer, mut size) = ([0_u8; 4096], 4096_usize);
    let at = address(&mut iterator);
    logs::dump_to_memory(at, address(&mut buffer), address(&mut size), 0).unwrap();
    assert_eq!(buffer[size], 0);
    let text = String::from_utf8_lossy(&buffer[..size]);
    assert_eq!(
        text.matches("CUDA_ERROR_INVALID_PTX: ").count(),
        2,
        "{text}"
    );
    // The iterator has seen them.
    assert_eq!(Ok(iterator), logs::current(0));

    // A buffer that is too small has the end, and more entries than are kept are said to be gone.
    for _ in 0..100 {
        refused();
    }
    let (mut small, mut room) = ([1_u8; 16], 16_usize);
    let to = address(&mut small);
    logs::dump_to_memory(HostPtr::NULL, to, address(&mut room), 0).unwrap();
    assert_eq!((small[14], small[15]), (b'\n', 0));
    refused();
    let (mut all, mut room) = (vec![0_u8; 1 << 20], 1_usize << 20);
    let to = HostPtr(all.as_mut_ptr() as u64);
    logs::dump_to_memory(address(&mut iterator), to, address(&mut room), 0).unwrap();
    assert!(all.starts_with(b"older entries are gone\n"));
    assert_eq!(logs::current(1), Err(CUresult::INVALID_VALUE));
}
