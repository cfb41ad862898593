//! What the tests of this binary share: a driver with two devices, contexts, and streams that wait
//! for the test.

use std::ffi::c_void;
use std::sync::Once;
use std::sync::mpsc::{Sender, channel};

use ptxjit_driver::types::{CUcontext, CUstream, CUstream_flags, HostPtr};
use ptxjit_driver::{context, init, stream};

/// Bytes of memory of each device.
pub(crate) const MEMORY: usize = 1 << 30;

/// Initializes the driver. All tests of the process share its devices.
#[expect(unsafe_code, reason = "sets environment variables")]
pub(crate) fn start() {
    static START: Once = Once::new();
    START.call_once(|| {
        let variables = [
            ("PTXJIT_DEVICE_COUNT", "2"),
            ("PTXJIT_DEVICE_MEMORY", "1G"),
            ("PTXJIT_QUIET", "1"),
            ("PTXJIT_TIMEOUT", "20"),
        ];
        for (name, value) in variables {
            // SAFETY: all tests call this before anything reads the environment,
            // but through std, which has a lock.
            unsafe { std::env::set_var(name, value) };
        }
        init(0).unwrap();
    });
}

/// A context of this test, current on its thread, on a device.
pub(crate) fn context_on(device: i32) -> CUcontext {
    start();
    context::create(0, device, 3020).unwrap()
}

/// Likewise, on the first device.
pub(crate) fn context() -> CUcontext {
    context_on(0)
}

/// A stream that takes no part in the order of the default stream.
pub(crate) fn stream() -> CUstream {
    stream::create(CUstream_flags::NON_BLOCKING.0, 0).unwrap()
}

/// Has a stream call a closure, as programs have it call functions.
#[expect(
    unsafe_code,
    reason = "gives a closure back that went through C's types"
)]
pub(crate) fn launch_host(stream: CUstream, call: impl FnOnce() + Send + 'static) {
    type Call = Box<dyn FnOnce() + Send>;
    extern "C" fn run(data: *mut c_void) {
        // SAFETY: the driver calls each function once, with the argument that it was given below.
        let call = unsafe { Box::from_raw(data.cast::<Call>()) };
        call();
    }
    let data = Box::into_raw(Box::new(Box::new(call) as Call));
    let function = HostPtr(run as *const () as u64);
    stream::callback::launch_host(stream, function, HostPtr(data as u64)).unwrap();
}

/// Has a stream wait until the result is dropped or something is sent.
pub(crate) fn block(stream: CUstream) -> Sender<()> {
    let (sender, receiver) = channel::<()>();
    launch_host(stream, move || {
        let _ = receiver.recv();
    });
    sender
}
