//! The start of a test that has a process, and so an environment, of its own.

/// Sets variables of the environment, and starts the driver.
#[expect(unsafe_code, reason = "sets environment variables")]
pub(crate) fn start(variables: &[(&str, &str)]) {
    for (name, value) in variables {
        // SAFETY: tests start here, once in a process, before anything reads the environment, but
        // through std, which has a lock.
        unsafe { std::env::set_var(name, value) };
    }
    ptxjit_driver::init(0).unwrap();
}
