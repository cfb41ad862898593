//! Functions: what they keep for launches by the calls of old, and what is asked of them.

use ptxjit_driver::memory::{alloc, copy};
use ptxjit_driver::types::{
    CUfunction, CUfunction_attribute, CUkernel, CUresult, CUstream, CUtexref,
};
use ptxjit_driver::{function, launch_state, library, occupancy};

use crate::common;
use crate::kernel::increment;

#[test]
fn blocks_have_as_much_shared_memory_as_launches_may_ask_for() {
    common::context();
    let function = increment();
    let shared = || occupancy::available_shared(function, 1, 64).unwrap();
    assert_eq!(shared(), 48 << 10, "more must be asked for");
    let most = CUfunction_attribute::MAX_DYNAMIC_SHARED_SIZE_BYTES;
    function::set_attribute(function, most, 100 << 10).unwrap();
    assert_eq!(shared(), 100 << 10);
    // Of the 164 KiB of a multiprocessor, each block of four has a quarter less what the system
    // takes.
    let of_four = occupancy::available_shared(function, 4, 64);
    assert_eq!(of_four, Ok(40 << 10));
}

#[test]
fn no_function_has_no_name() {
    common::context();
    let invalid = Err(CUresult::INVALID_VALUE);
    assert_eq!(function::name(CUfunction::NULL), invalid);
    assert_eq!(library::get_name(CUkernel::NULL), invalid);
}

#[test]
fn a_function_keeps_what_its_launches_need() {
    common::context();
    let function = increment();
    let number = alloc::alloc(4).unwrap();
    let read = || {
        let mut value = 0_u32;
        copy::to_host(&raw mut value as u64, number, 4).unwrap();
        value
    };
    let launch = || launch_state::run(function, [1; 2], CUstream::NULL);
    let five = 5_u32;
    copy::to_device(number, &raw const five as u64, 4).unwrap();
    let invalid = Err(CUresult::INVALID_VALUE);
    assert_eq!(launch(), invalid, "nothing was set");
    launch_state::set_param_bytes(function, 0, &raw const number as u64, 8).unwrap();
    launch_state::set_param_size(function, 4).unwrap();
    assert_eq!(launch(), invalid, "half of the address is not passed");
    launch_state::set_param_size(function, 8).unwrap();
    launch_state::set_block(function, [1; 3]).unwrap();
    launch_state::set_shared(function, 64).unwrap();
    launch().unwrap();
    assert_eq!(read(), 6);
    launch().unwrap();
    assert_eq!(read(), 7, "all is as it was");
    for (offset, word) in [(0, number as u32), (4, (number >> 32) as u32)] {
        launch_state::set_param_word(function, offset, word).unwrap();
    }
    launch().unwrap();
    assert_eq!(read(), 8);

    for block in [[0, 1, 1], [-1, 1, 1], [2048, 1, 1], [64, 64, 1]] {
        assert_eq!(launch_state::set_block(function, block), invalid);
    }
    assert_eq!(launch_state::set_shared(function, 64 << 10), invalid);
    assert_eq!(launch_state::set_param_word(function, -4, 0), invalid);
    assert_eq!(launch_state::set_param_word(function, 4094, 0), invalid);
    assert_eq!(launch_state::set_param_size(function, 5000), invalid);
    let at = &raw const number as u64;
    assert_eq!(
        launch_state::set_param_bytes(function, 0, at, 5000),
        invalid
    );
    assert_eq!(launch_state::set_param_bytes(function, 0, 8, 8), invalid);
    let grid = launch_state::run(function, [0, 1], CUstream::NULL);
    assert_eq!(grid, invalid);
    assert!(launch_state::set_texture(function, -1, CUtexref(7)).is_err());
    assert!(launch_state::set_block(CUfunction(7), [1; 3]).is_err());
    launch().unwrap();
    assert_eq!(read(), 9, "what is refused changes nothing");
}
