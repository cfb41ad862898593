//! Functions that are about no device: initialization, versions, results.
#![expect(
    unsafe_code,
    reason = "exports symbols under the names that clients look up"
)]

use std::ffi::c_char;

use ptxjit_persona::Config;

use crate::abi::{Out, OutText, Return, exports, initialize, shut_down};

exports! {
    /// Initializes the library; calls are counted.
    always fn nvmlInit() {
        initialize();
        Ok(())
    }

    /// Initializes the library.
    always fn nvmlInit_v2() {
        initialize();
        Ok(())
    }

    /// Initializes the library. No flag changes anything here: devices are always attached.
    always fn nvmlInitWithFlags(_flags: u32) {
        initialize();
        Ok(())
    }

    /// Ends what an initialization began.
    always fn nvmlShutdown() {
        shut_down()
    }

    /// The version of the driver, such as 580.00.
    initialized fn nvmlSystemGetDriverVersion(version: OutText, length: u32) {
        version.put(length, Config::get().driver_version_text())
    }

    /// The version of this library: NVIDIA's has the major version of CUDA before the driver's.
    initialized fn nvmlSystemGetNVMLVersion(version: OutText, length: u32) {
        let config = Config::get();
        let text = format!("{}.{}", config.driver_version / 1000, config.driver_version_text());
        version.put(length, &text)
    }

    /// The version of CUDA that the driver has.
    initialized fn nvmlSystemGetCudaDriverVersion(version: Out<i32>) {
        version.put(cuda_version())
    }

    /// The version of CUDA that the driver has.
    initialized fn nvmlSystemGetCudaDriverVersion_v2(version: Out<i32>) {
        version.put(cuda_version())
    }
}

fn cuda_version() -> i32 {
    i32::try_from(Config::get().driver_version).unwrap_or(i32::MAX)
}

/// What a result means.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvmlErrorString(result: Return) -> *const c_char {
    let text = match result.0 {
        0 => c"Success",
        1 => c"Uninitialized",
        2 => c"Invalid Argument",
        3 => c"Not Supported",
        4 => c"Insufficient Permissions",
        5 => c"Already Initialized",
        6 => c"Not Found",
        7 => c"Insufficient Size",
        8 => c"Insufficient External Power",
        9 => c"Driver Not Loaded",
        10 => c"Timeout",
        11 => c"Interrupt Request Issue",
        12 => c"NVML Shared Library Not Found",
        13 => c"Function Not Found",
        14 => c"Corrupted infoROM",
        15 => c"GPU is lost",
        16 => c"GPU requires reset",
        17 => c"The operating system has blocked the request.",
        18 => c"RM has detected an NVML/RM version mismatch.",
        19 => c"GPU is currently in use",
        20 => c"Insufficient Memory",
        21 => c"No data",
        22 => c"The requested vgpu operation is not available on the target device because ECC is enabled",
        23 => c"Ran out of critical resources, other than memory",
        24 => c"The requested frequency is not supported",
        25 => c"Argument version mismatch",
        26 => c"The requested functionality has been deprecated",
        27 => c"The system is not ready for the request",
        28 => c"No GPUs were found",
        29 => c"Resource not in correct state to perform requested operation",
        30 => c"Reset not supported for given device/parameters",
        _ => c"Unknown Error",
    };
    text.as_ptr()
}
