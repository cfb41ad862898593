//! Links.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use ptxjit_driver::image::jit::Options;
use ptxjit_driver::link;
use ptxjit_driver::types::{CUjitInputType, CUlinkState, HostPtr};

use crate::call::{Out, exports};

exports! {
    /// Begins a link.
    fn cuLinkCreate_v2(count: u32, keys: HostPtr, values: HostPtr, out: Out<CUlinkState>) {
        let options = Options { count, keys, values };
        out.fill(|| link::create(options))
    }

    /// Adds an input from memory.
    fn cuLinkAddData_v2(
        state: CUlinkState, kind: CUjitInputType, data: HostPtr, size: usize, name: HostPtr,
        count: u32, keys: HostPtr, values: HostPtr,
    ) {
        let options = Options { count, keys, values };
        link::add_data(state, kind, data, size, name, options)
    }

    /// Adds an input from a file.
    fn cuLinkAddFile_v2(
        state: CUlinkState, kind: CUjitInputType, path: HostPtr, count: u32, keys: HostPtr,
        values: HostPtr,
    ) {
        let options = Options { count, keys, values };
        link::add_file(state, kind, path, options)
    }

    /// Ends a link and gives its image.
    fn cuLinkComplete(state: CUlinkState, image: Out<u64>, size: Out<usize>) {
        let found = link::complete(state)?;
        image.put(found.0)?;
        size.put_if_wanted(found.1)
    }

    /// Takes a link and its image away.
    fn cuLinkDestroy(state: CUlinkState) {
        link::destroy(state)
    }

    /// [`cuLinkCreate_v2`], with the layout of option values that has not changed on hosts of 64
    /// bits.
    fn cuLinkCreate(count: u32, keys: HostPtr, values: HostPtr, out: Out<CUlinkState>) {
        let options = Options { count, keys, values };
        out.fill(|| link::create(options))
    }

    /// [`cuLinkAddData_v2`].
    fn cuLinkAddData(
        state: CUlinkState, kind: CUjitInputType, data: HostPtr, size: usize, name: HostPtr,
        count: u32, keys: HostPtr, values: HostPtr,
    ) {
        let options = Options { count, keys, values };
        link::add_data(state, kind, data, size, name, options)
    }

    /// [`cuLinkAddFile_v2`].
    fn cuLinkAddFile(
        state: CUlinkState, kind: CUjitInputType, path: HostPtr, count: u32, keys: HostPtr,
        values: HostPtr,
    ) {
        let options = Options { count, keys, values };
        link::add_file(state, kind, path, options)
    }
}
