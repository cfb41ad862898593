//! Modules.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use ptxjit_driver::image::jit::Options;
use ptxjit_driver::module;
use ptxjit_driver::types::{CUdeviceptr, CUfunction, CUmodule, CUresult, HostPtr};

use crate::call::{Out, exports};

exports! {
    /// Loads the image in a file.
    fn cuModuleLoad(out: Out<CUmodule>, path: HostPtr) {
        out.fill(|| module::load_file(path))
    }

    /// Loads an image.
    fn cuModuleLoadData(out: Out<CUmodule>, image: HostPtr) {
        out.fill(|| module::load_data(image, Options::NONE))
    }

    /// Loads an image, with options.
    fn cuModuleLoadDataEx(
        out: Out<CUmodule>, image: HostPtr, count: u32, keys: HostPtr, values: HostPtr,
    ) {
        let options = Options { count, keys, values };
        out.fill(|| module::load_data(image, options))
    }

    /// Loads a fat binary.
    fn cuModuleLoadFatBinary(out: Out<CUmodule>, image: HostPtr) {
        out.fill(|| module::load_data(image, Options::NONE))
    }

    /// Ends a module.
    fn cuModuleUnload(module: CUmodule) {
        module::unload(module)
    }

    /// Whether kernels are compiled when they are first asked for.
    fn cuModuleGetLoadingMode(out: Out<u32>) {
        out.fill(module::loading_mode)
    }

    /// The kernel with a name.
    fn cuModuleGetFunction(out: Out<CUfunction>, module: CUmodule, name: HostPtr) {
        out.fill(|| module::get_function(module, name))
    }

    /// The number of kernels.
    fn cuModuleGetFunctionCount(count: Out<u32>, module: CUmodule) {
        count.fill(|| module::function_count(module))
    }

    /// The first kernels.
    fn cuModuleEnumerateFunctions(out: Out<CUfunction>, count: u32, module: CUmodule) {
        out.put_all(&module::enumerate_functions(module, count)?)
    }

    /// Address and size of a variable.
    fn cuModuleGetGlobal_v2(
        address: Out<CUdeviceptr>, size: Out<usize>, module: CUmodule, name: HostPtr,
    ) {
        let found = module::get_global(module, name)?;
        if address.is_null() && size.is_null() {
            return Err(CUresult::INVALID_VALUE);
        }
        address.put_if_wanted(found.0)?;
        size.put_if_wanted(found.1)
    }
}
