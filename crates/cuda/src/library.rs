//! Libraries and their kernels.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use ptxjit_driver::image::jit::Options;
use ptxjit_driver::library;
use ptxjit_driver::types::{
    CUdeviceptr, CUfunction, CUfunction_attribute, CUkernel, CUlibrary, CUmodule, HostPtr,
};

use crate::call::{Out, exports};

exports! {
    /// Loads an image.
    fn cuLibraryLoadData(
        out: Out<CUlibrary>, code: HostPtr, keys: HostPtr, values: HostPtr, count: u32,
        _keys: HostPtr, _values: HostPtr, _count: u32,
    ) {
        let options = Options { count, keys, values };
        out.fill(|| library::load_data(code, options))
    }

    /// Loads the image in a file.
    fn cuLibraryLoadFromFile(
        out: Out<CUlibrary>, path: HostPtr, keys: HostPtr, values: HostPtr, count: u32,
        _keys: HostPtr, _values: HostPtr, _count: u32,
    ) {
        let options = Options { count, keys, values };
        out.fill(|| library::load_file(path, options))
    }

    /// Ends a library.
    fn cuLibraryUnload(library: CUlibrary) {
        library::unload(library)
    }

    /// The kernel with a name.
    fn cuLibraryGetKernel(out: Out<CUkernel>, library: CUlibrary, name: HostPtr) {
        out.fill(|| library::get_kernel(library, name))
    }

    /// The number of kernels.
    fn cuLibraryGetKernelCount(count: Out<u32>, library: CUlibrary) {
        count.fill(|| library::kernel_count(library))
    }

    /// The first kernels.
    fn cuLibraryEnumerateKernels(out: Out<CUkernel>, count: u32, library: CUlibrary) {
        out.put_all(&library::enumerate_kernels(library, count)?)
    }

    /// The module in the current context.
    fn cuLibraryGetModule(out: Out<CUmodule>, library: CUlibrary) {
        out.fill(|| library::get_module(library))
    }

    /// Address and size of a variable.
    fn cuLibraryGetGlobal(
        address: Out<CUdeviceptr>, size: Out<usize>, library: CUlibrary, name: HostPtr,
    ) {
        let found = library::get_global(library, name)?;
        address.put_if_wanted(found.0)?;
        size.put_if_wanted(found.1)
    }

    /// Address and size of a managed variable.
    fn cuLibraryGetManaged(
        address: Out<CUdeviceptr>, size: Out<usize>, library: CUlibrary, name: HostPtr,
    ) {
        let found = library::get_managed(library, name)?;
        address.put_if_wanted(found.0)?;
        size.put_if_wanted(found.1)
    }

    /// The function in the current context.
    fn cuKernelGetFunction(out: Out<CUfunction>, kernel: CUkernel) {
        out.fill(|| library::get_function(kernel))
    }

    /// The library.
    fn cuKernelGetLibrary(out: Out<CUlibrary>, kernel: CUkernel) {
        out.fill(|| library::get_library(kernel))
    }

    /// The name.
    fn cuKernelGetName(out: Out<u64>, kernel: CUkernel) {
        out.fill(|| library::get_name(kernel))
    }

    /// An attribute.
    fn cuKernelGetAttribute(
        out: Out<i32>, attribute: CUfunction_attribute, kernel: CUkernel, device: i32,
    ) {
        out.fill(|| library::attribute(kernel, attribute, device))
    }

    /// Sets an attribute.
    fn cuKernelSetAttribute(
        attribute: CUfunction_attribute, value: i32, kernel: CUkernel, device: i32,
    ) {
        library::set_attribute(kernel, attribute, value, device)
    }

    /// A hint.
    fn cuKernelSetCacheConfig(kernel: CUkernel, config: u32, device: i32) {
        library::set_cache_config(kernel, config, device)
    }

    /// Offset and size of a parameter.
    fn cuKernelGetParamInfo(kernel: CUkernel, idx: usize, offset: Out<usize>, size: Out<usize>) {
        let found = library::param(kernel, idx)?;
        offset.put(found.0)?;
        size.put_if_wanted(found.1)
    }

    /// The number of parameters.
    fn cuKernelGetParamCount(kernel: CUkernel, count: Out<usize>) {
        count.fill(|| library::param_count(kernel))
    }
}
