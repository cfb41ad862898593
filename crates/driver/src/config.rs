//! What the environment asks for.

/// Values of environment variables.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) report: Option<std::path::PathBuf>,
    pub(crate) quiet: bool,
    pub(crate) device_count: usize,
    pub(crate) memory: u64,
    pub(crate) compute_capability: (i32, i32),
    pub(crate) driver_version: i32,
}

impl Config {
    pub(crate) fn from_env() -> Config {
        Config {
            report: std::env::var_os("PTXJIT_REPORT").map(Into::into),
            quiet: std::env::var("PTXJIT_QUIET").is_ok_and(|value| value == "1"),
            device_count: 1,
            memory: 16 << 30,
            compute_capability: (8, 0),
            driver_version: 13000,
        }
    }
}
