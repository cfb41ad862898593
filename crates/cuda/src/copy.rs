//! Copies and memsets.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use ptxjit_driver::memory::{copy, fill};
use ptxjit_driver::types::{CUdeviceptr, CUstream};

use crate::call::exports;

exports! {
    /// Copies to a device.
    fn cuMemcpyHtoD_v2(to: CUdeviceptr, from: u64, size: usize) or cuMemcpyHtoD_v2_ptds {
        copy::to_device(to, from, size)
    }

    /// Copies from a device.
    fn cuMemcpyDtoH_v2(to: u64, from: CUdeviceptr, size: usize) or cuMemcpyDtoH_v2_ptds {
        copy::to_host(to, from, size)
    }

    /// Copies between devices.
    fn cuMemcpyDtoD_v2(to: CUdeviceptr, from: CUdeviceptr, size: usize) or cuMemcpyDtoD_v2_ptds {
        copy::on_device(to, from, size)
    }

    /// Copies to a device.
    fn cuMemcpyHtoDAsync_v2(
        to: CUdeviceptr, from: u64, size: usize, stream: CUstream,
    ) or cuMemcpyHtoDAsync_v2_ptsz {
        copy::to_device_async(to, from, size, stream)
    }

    /// Copies from a device.
    fn cuMemcpyDtoHAsync_v2(
        to: u64, from: CUdeviceptr, size: usize, stream: CUstream,
    ) or cuMemcpyDtoHAsync_v2_ptsz {
        copy::to_host_async(to, from, size, stream)
    }

    /// Copies between devices.
    fn cuMemcpyDtoDAsync_v2(
        to: CUdeviceptr, from: CUdeviceptr, size: usize, stream: CUstream,
    ) or cuMemcpyDtoDAsync_v2_ptsz {
        copy::on_device_async(to, from, size, stream)
    }

    /// Copies from anywhere to anywhere.
    fn cuMemcpy(to: u64, from: u64, size: usize) or cuMemcpy_ptds {
        copy::unified(to, from, size)
    }

    /// Copies from anywhere to anywhere.
    fn cuMemcpyAsync(to: u64, from: u64, size: usize, stream: CUstream) or cuMemcpyAsync_ptsz {
        copy::unified_async(to, from, size, stream)
    }

    /// Sets values.
    fn cuMemsetD8_v2(to: CUdeviceptr, value: u8, count: usize) or cuMemsetD8_v2_ptds {
        fill::fill(to, u32::from(value), 1, count)
    }

    /// Sets values.
    fn cuMemsetD8Async(
        to: CUdeviceptr, value: u8, count: usize, stream: CUstream,
    ) or cuMemsetD8Async_ptsz {
        fill::fill_async(to, u32::from(value), 1, count, stream)
    }

    /// Sets rows of values.
    fn cuMemsetD2D8_v2(
        to: CUdeviceptr, pitch: usize, value: u8, width: usize, height: usize,
    ) or cuMemsetD2D8_v2_ptds {
        fill::fill_2d(to, pitch, u32::from(value), 1, (width, height))
    }

    /// Sets rows of values.
    fn cuMemsetD2D8Async(
        to: CUdeviceptr, pitch: usize, value: u8, width: usize, height: usize, stream: CUstream,
    ) or cuMemsetD2D8Async_ptsz {
        fill::fill_2d_async(to, pitch, u32::from(value), 1, (width, height), stream)
    }

    /// Sets values.
    fn cuMemsetD16_v2(to: CUdeviceptr, value: u16, count: usize) or cuMemsetD16_v2_ptds {
        fill::fill(to, u32::from(value), 2, count)
    }

    /// Sets values.
    fn cuMemsetD16Async(
        to: CUdeviceptr, value: u16, count: usize, stream: CUstream,
    ) or cuMemsetD16Async_ptsz {
        fill::fill_async(to, u32::from(value), 2, count, stream)
    }

    /// Sets rows of values.
    fn cuMemsetD2D16_v2(
        to: CUdeviceptr, pitch: usize, value: u16, width: usize, height: usize,
    ) or cuMemsetD2D16_v2_ptds {
        fill::fill_2d(to, pitch, u32::from(value), 2, (width, height))
    }

    /// Sets rows of values.
    fn cuMemsetD2D16Async(
        to: CUdeviceptr, pitch: usize, value: u16, width: usize, height: usize, stream: CUstream,
    ) or cuMemsetD2D16Async_ptsz {
        fill::fill_2d_async(to, pitch, u32::from(value), 2, (width, height), stream)
    }

    /// Sets values.
    fn cuMemsetD32_v2(to: CUdeviceptr, value: u32, count: usize) or cuMemsetD32_v2_ptds {
        fill::fill(to, value, 4, count)
    }

    /// Sets values.
    fn cuMemsetD32Async(
        to: CUdeviceptr, value: u32, count: usize, stream: CUstream,
    ) or cuMemsetD32Async_ptsz {
        fill::fill_async(to, value, 4, count, stream)
    }

    /// Sets rows of values.
    fn cuMemsetD2D32_v2(
        to: CUdeviceptr, pitch: usize, value: u32, width: usize, height: usize,
    ) or cuMemsetD2D32_v2_ptds {
        fill::fill_2d(to, pitch, value, 4, (width, height))
    }

    /// Sets rows of values.
    fn cuMemsetD2D32Async(
        to: CUdeviceptr, pitch: usize, value: u32, width: usize, height: usize, stream: CUstream,
    ) or cuMemsetD2D32Async_ptsz {
        fill::fill_2d_async(to, pitch, value, 4, (width, height), stream)
    }
}
