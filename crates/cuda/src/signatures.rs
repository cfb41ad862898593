//! What every implemented function takes, for tests that call all of them.
//!
//! The lists come from the macro that exports the functions, so no function is missing.

use std::ffi::c_void;

use crate::{
    array, callback, capture, context, copy, device, event, function, graph, graph_node, launch,
    library, link, logs, memop, memory, module, pointer, pool, settings, shape, start, stream,
    tensor_map, texture, texture_reference, vmm,
};

/// An exported function and its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Signature {
    /// The symbol.
    pub name: &'static str,
    /// Whether it may be called before `cuInit`.
    pub is_early: bool,
    /// Names and types of the parameters, as the source has them.
    pub parameters: &'static [(&'static str, &'static str)],
    address: Address,
}

/// An address of code.
#[derive(Clone, Copy, Debug)]
struct Address(*const c_void);

#[expect(unsafe_code, reason = "addresses of code go to any thread")]
mod shared {
    // SAFETY: the address is that of code, which is neither written nor freed.
    unsafe impl Sync for super::Address {}

    // SAFETY: as above.
    unsafe impl Send for super::Address {}
}

impl Signature {
    pub(crate) const fn new(
        name: &'static str,
        when: &'static str,
        parameters: &'static [(&'static str, &'static str)],
        address: *const c_void,
    ) -> Signature {
        Signature {
            name,
            // `early` or `fn`; constant evaluation compares no strings.
            is_early: when.as_bytes()[0] == b'e',
            parameters,
            address: Address(address),
        }
    }

    /// The address of the code.
    #[must_use]
    pub fn address(&self) -> *const c_void {
        self.address.0
    }
}

const ALL: &[&[Signature]] = &[
    array::SIGNATURES,
    callback::SIGNATURES,
    capture::SIGNATURES,
    context::SIGNATURES,
    copy::SIGNATURES,
    device::SIGNATURES,
    event::SIGNATURES,
    function::SIGNATURES,
    graph::SIGNATURES,
    graph_node::SIGNATURES,
    launch::SIGNATURES,
    library::SIGNATURES,
    link::SIGNATURES,
    logs::SIGNATURES,
    memop::SIGNATURES,
    memory::SIGNATURES,
    module::SIGNATURES,
    pointer::SIGNATURES,
    pool::SIGNATURES,
    settings::SIGNATURES,
    shape::SIGNATURES,
    start::SIGNATURES,
    stream::SIGNATURES,
    tensor_map::SIGNATURES,
    texture::SIGNATURES,
    texture_reference::SIGNATURES,
    vmm::SIGNATURES,
];

/// All implemented functions.
pub fn all() -> impl Iterator<Item = &'static Signature> {
    ALL.iter().copied().flatten()
}
