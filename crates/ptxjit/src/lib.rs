//! Runs CUDA-compiled PTX on CPUs.
