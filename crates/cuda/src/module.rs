//! Modules and functions.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use ptxjit_driver::module;
use ptxjit_driver::types::{CUdeviceptr, CUfunction, CUmodule, HostPtr};

use crate::call::{Out, exports};

exports! {
    /// Loads the image in a file.
    fn cuModuleLoad(out: Out<CUmodule>, path: HostPtr) {
        out.fill(|| module::load_file(path))
    }

    /// Loads an image.
    fn cuModuleLoadData(out: Out<CUmodule>, image: HostPtr) {
        out.fill(|| module::load_data(image))
    }

    /// Ends a module.
    fn cuModuleUnload(module: CUmodule) {
        module::unload(module)
    }

    /// The kernel with a name.
    fn cuModuleGetFunction(out: Out<CUfunction>, module: CUmodule, name: HostPtr) {
        out.fill(|| module::get_function(module, name))
    }

    /// Address and size of a variable.
    fn cuModuleGetGlobal_v2(address: Out<CUdeviceptr>, size: Out<usize>, module: CUmodule, name: HostPtr) {
        let (base, bytes) = module::get_global(module, name)?;
        address.put_if_wanted(base)?;
        size.put_if_wanted(bytes)
    }
}
