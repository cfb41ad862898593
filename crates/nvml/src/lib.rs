//! `libnvidia-ml.so.1`: tells of the simulated devices what NVIDIA's management library tells of
//! real ones.
//!
//! All answers come from the persona and the environment; no engine is inside, and nothing is
//! measured. As with NVIDIA's, `CUDA_VISIBLE_DEVICES` has no say here. Functions that have no
//! sensible answer are in [`unsupported`].

mod abi;
mod device;
mod system;
mod unsupported;
