//! Names and texts of errors, and the last error.
#![expect(
    unsafe_code,
    reason = "exports functions under C's names, and reads a text of the driver"
)]

use std::ffi::{CStr, c_char};

use crate::call;
use crate::driver::cu;

/// A code, its name, and what it means; the texts of codes that the driver knows, too, are the
/// driver's.
type Row = (u32, &'static CStr, &'static CStr);

const ERRORS: &[Row] = &[
    (0, c"cudaSuccess", c"no error"),
    (1, c"cudaErrorInvalidValue", c""),
    (2, c"cudaErrorMemoryAllocation", c""),
    (3, c"cudaErrorInitializationError", c"initialization error"),
    (4, c"cudaErrorCudartUnloading", c"driver shutting down"),
    (5, c"cudaErrorProfilerDisabled", c""),
    (6, c"cudaErrorProfilerNotInitialized", c""),
    (7, c"cudaErrorProfilerAlreadyStarted", c""),
    (8, c"cudaErrorProfilerAlreadyStopped", c""),
    (
        9,
        c"cudaErrorInvalidConfiguration",
        c"invalid configuration argument",
    ),
    (10, c"cudaErrorVersionTranslation", c""),
    (12, c"cudaErrorInvalidPitchValue", c"invalid pitch argument"),
    (13, c"cudaErrorInvalidSymbol", c"invalid device symbol"),
    (16, c"cudaErrorInvalidHostPointer", c"invalid host pointer"),
    (
        17,
        c"cudaErrorInvalidDevicePointer",
        c"invalid device pointer",
    ),
    (18, c"cudaErrorInvalidTexture", c"invalid texture reference"),
    (
        19,
        c"cudaErrorInvalidTextureBinding",
        c"texture is not bound to a pointer",
    ),
    (
        20,
        c"cudaErrorInvalidChannelDescriptor",
        c"invalid channel descriptor",
    ),
    (
        21,
        c"cudaErrorInvalidMemcpyDirection",
        c"invalid copy direction for memcpy",
    ),
    (
        22,
        c"cudaErrorAddressOfConstant",
        c"cannot take the address of a constant",
    ),
    (
        23,
        c"cudaErrorTextureFetchFailed",
        c"fetch from texture failed",
    ),
    (
        24,
        c"cudaErrorTextureNotBound",
        c"cannot fetch from a texture that is not bound",
    ),
    (
        25,
        c"cudaErrorSynchronizationError",
        c"incorrect use of __syncthreads()",
    ),
    (
        26,
        c"cudaErrorInvalidFilterSetting",
        c"linear filtering is not supported for non-float types",
    ),
    (
        27,
        c"cudaErrorInvalidNormSetting",
        c"read as normalized float is not supported for 32-bit non-float types",
    ),
    (
        28,
        c"cudaErrorMixedDeviceExecution",
        c"device emulation mode and device execution mode cannot be mixed",
    ),
    (
        31,
        c"cudaErrorNotYetImplemented",
        c"feature is not yet implemented",
    ),
    (
        32,
        c"cudaErrorMemoryValueTooLarge",
        c"memory size or pointer value is too large",
    ),
    (
        34,
        c"cudaErrorStubLibrary",
        c"CUDA driver is a stub library",
    ),
    (
        35,
        c"cudaErrorInsufficientDriver",
        c"CUDA driver version is insufficient for CUDA runtime version",
    ),
    (
        36,
        c"cudaErrorCallRequiresNewerDriver",
        c"API call is not supported in the installed CUDA driver",
    ),
    (37, c"cudaErrorInvalidSurface", c"invalid surface reference"),
    (
        43,
        c"cudaErrorDuplicateVariableName",
        c"duplicate global variable looked up by string name",
    ),
    (
        44,
        c"cudaErrorDuplicateTextureName",
        c"duplicate texture looked up by string name",
    ),
    (
        45,
        c"cudaErrorDuplicateSurfaceName",
        c"duplicate surface looked up by string name",
    ),
    (
        46,
        c"cudaErrorDevicesUnavailable",
        c"all CUDA-capable devices are busy or unavailable",
    ),
    (
        49,
        c"cudaErrorIncompatibleDriverContext",
        c"incompatible driver context",
    ),
    (
        52,
        c"cudaErrorMissingConfiguration",
        c"__global__ function call is not configured",
    ),
    (
        53,
        c"cudaErrorPriorLaunchFailure",
        c"unspecified launch failure in a prior launch",
    ),
    (
        65,
        c"cudaErrorLaunchMaxDepthExceeded",
        c"launch would exceed the maximum depth of nested launches",
    ),
    (
        66,
        c"cudaErrorLaunchFileScopedTex",
        c"launch failed because the kernel uses file-scoped textures",
    ),
    (
        67,
        c"cudaErrorLaunchFileScopedSurf",
        c"launch failed because the kernel uses file-scoped surfaces",
    ),
    (
        68,
        c"cudaErrorSyncDepthExceeded",
        c"cannot synchronize below the nested limit",
    ),
    (
        69,
        c"cudaErrorLaunchPendingCountExceeded",
        c"launch would exceed the limit of pending launches",
    ),
    (
        98,
        c"cudaErrorInvalidDeviceFunction",
        c"invalid device function",
    ),
    (100, c"cudaErrorNoDevice", c""),
    (101, c"cudaErrorInvalidDevice", c""),
    (102, c"cudaErrorDeviceNotLicensed", c""),
    (
        103,
        c"cudaErrorSoftwareValidityNotEstablished",
        c"integrity checks failed",
    ),
    (
        127,
        c"cudaErrorStartupFailure",
        c"startup failure in the CUDA runtime",
    ),
    (200, c"cudaErrorInvalidKernelImage", c""),
    (201, c"cudaErrorDeviceUninitialized", c""),
    (205, c"cudaErrorMapBufferObjectFailed", c""),
    (206, c"cudaErrorUnmapBufferObjectFailed", c""),
    (207, c"cudaErrorArrayIsMapped", c""),
    (208, c"cudaErrorAlreadyMapped", c""),
    (209, c"cudaErrorNoKernelImageForDevice", c""),
    (210, c"cudaErrorAlreadyAcquired", c""),
    (211, c"cudaErrorNotMapped", c""),
    (212, c"cudaErrorNotMappedAsArray", c""),
    (213, c"cudaErrorNotMappedAsPointer", c""),
    (214, c"cudaErrorECCUncorrectable", c""),
    (215, c"cudaErrorUnsupportedLimit", c""),
    (216, c"cudaErrorDeviceAlreadyInUse", c""),
    (217, c"cudaErrorPeerAccessUnsupported", c""),
    (218, c"cudaErrorInvalidPtx", c""),
    (219, c"cudaErrorInvalidGraphicsContext", c""),
    (220, c"cudaErrorNvlinkUncorrectable", c""),
    (221, c"cudaErrorJitCompilerNotFound", c""),
    (222, c"cudaErrorUnsupportedPtxVersion", c""),
    (223, c"cudaErrorJitCompilationDisabled", c""),
    (224, c"cudaErrorUnsupportedExecAffinity", c""),
    (225, c"cudaErrorUnsupportedDevSideSync", c""),
    (226, c"cudaErrorContained", c""),
    (227, c"cudaErrorInsufficientLoaderVersion", c""),
    (300, c"cudaErrorInvalidSource", c""),
    (301, c"cudaErrorFileNotFound", c""),
    (302, c"cudaErrorSharedObjectSymbolNotFound", c""),
    (303, c"cudaErrorSharedObjectInitFailed", c""),
    (304, c"cudaErrorOperatingSystem", c""),
    (400, c"cudaErrorInvalidResourceHandle", c""),
    (401, c"cudaErrorIllegalState", c""),
    (402, c"cudaErrorLossyQuery", c""),
    (500, c"cudaErrorSymbolNotFound", c""),
    (600, c"cudaErrorNotReady", c""),
    (700, c"cudaErrorIllegalAddress", c""),
    (701, c"cudaErrorLaunchOutOfResources", c""),
    (702, c"cudaErrorLaunchTimeout", c""),
    (703, c"cudaErrorLaunchIncompatibleTexturing", c""),
    (704, c"cudaErrorPeerAccessAlreadyEnabled", c""),
    (705, c"cudaErrorPeerAccessNotEnabled", c""),
    (708, c"cudaErrorSetOnActiveProcess", c""),
    (709, c"cudaErrorContextIsDestroyed", c""),
    (710, c"cudaErrorAssert", c""),
    (711, c"cudaErrorTooManyPeers", c""),
    (712, c"cudaErrorHostMemoryAlreadyRegistered", c""),
    (713, c"cudaErrorHostMemoryNotRegistered", c""),
    (714, c"cudaErrorHardwareStackError", c""),
    (715, c"cudaErrorIllegalInstruction", c""),
    (716, c"cudaErrorMisalignedAddress", c""),
    (717, c"cudaErrorInvalidAddressSpace", c""),
    (718, c"cudaErrorInvalidPc", c""),
    (719, c"cudaErrorLaunchFailure", c""),
    (720, c"cudaErrorCooperativeLaunchTooLarge", c""),
    (721, c"cudaErrorTensorMemoryLeak", c""),
    (800, c"cudaErrorNotPermitted", c""),
    (801, c"cudaErrorNotSupported", c""),
    (802, c"cudaErrorSystemNotReady", c""),
    (803, c"cudaErrorSystemDriverMismatch", c""),
    (804, c"cudaErrorCompatNotSupportedOnDevice", c""),
    (805, c"cudaErrorMpsConnectionFailed", c""),
    (806, c"cudaErrorMpsRpcFailure", c""),
    (807, c"cudaErrorMpsServerNotReady", c""),
    (808, c"cudaErrorMpsMaxClientsReached", c""),
    (809, c"cudaErrorMpsMaxConnectionsReached", c""),
    (810, c"cudaErrorMpsClientTerminated", c""),
    (811, c"cudaErrorCdpNotSupported", c""),
    (812, c"cudaErrorCdpVersionMismatch", c""),
    (900, c"cudaErrorStreamCaptureUnsupported", c""),
    (901, c"cudaErrorStreamCaptureInvalidated", c""),
    (902, c"cudaErrorStreamCaptureMerge", c""),
    (903, c"cudaErrorStreamCaptureUnmatched", c""),
    (904, c"cudaErrorStreamCaptureUnjoined", c""),
    (905, c"cudaErrorStreamCaptureIsolation", c""),
    (906, c"cudaErrorStreamCaptureImplicit", c""),
    (907, c"cudaErrorCapturedEvent", c""),
    (908, c"cudaErrorStreamCaptureWrongThread", c""),
    (909, c"cudaErrorTimeout", c""),
    (910, c"cudaErrorGraphExecUpdateFailure", c""),
    (911, c"cudaErrorExternalDevice", c""),
    (912, c"cudaErrorInvalidClusterSize", c""),
    (913, c"cudaErrorFunctionNotLoaded", c""),
    (914, c"cudaErrorInvalidResourceType", c""),
    (915, c"cudaErrorInvalidResourceConfiguration", c""),
    (917, c"cudaErrorStreamDetached", c""),
    (918, c"cudaErrorGraphRecaptureFailure", c""),
    (919, c"cudaErrorFabricNotReady", c""),
    (999, c"cudaErrorUnknown", c""),
    (10000, c"cudaErrorApiFailureBase", c"api failure base"),
];

const UNKNOWN: &CStr = c"unrecognized error code";

fn row(code: u32) -> Option<&'static Row> {
    let found = ERRORS.binary_search_by_key(&code, |row| row.0);
    found.ok().map(|idx| &ERRORS[idx])
}

/// What a code means.
fn meaning(code: u32) -> &'static CStr {
    match row(code) {
        None => UNKNOWN,
        Some((_, name, text)) if text.is_empty() => of_driver(code).unwrap_or(name),
        Some((_, _, text)) => text,
    }
}

/// The driver's text for a code.
fn of_driver(code: u32) -> Option<&'static CStr> {
    let mut text = std::ptr::null::<c_char>();
    cu!(cuGetErrorString(code, &mut text)).ok()?;
    // SAFETY: the driver gives a string that stays as long as the process, or null.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

/// Likewise, for messages.
pub(crate) fn text(code: u32) -> String {
    meaning(code).to_string_lossy().into_owned()
}

/// The name of an error.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cudaGetErrorName(code: u32) -> *const c_char {
    row(code).map_or(UNKNOWN, |row| row.1).as_ptr()
}

/// What an error means.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cudaGetErrorString(code: u32) -> *const c_char {
    meaning(code).as_ptr()
}

/// The last error of the calling thread, which is forgotten unless it has left the context
/// unusable.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cudaGetLastError() -> u32 {
    call::take_last()
}

/// The last error of the calling thread.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cudaPeekAtLastError() -> u32 {
    call::peek_last()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_order_and_named_once() {
        assert!(ERRORS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let mut names: Vec<_> = ERRORS.iter().map(|row| row.1).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ERRORS.len());
    }
}
