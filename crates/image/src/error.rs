//! Why an image gives no PTX.

/// Why an image gives no PTX.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No PTX, fat binary, object or linked image.
    #[error("this is no PTX, no fat binary and no other image of device code")]
    NotAnImage,
    /// An image that contradicts itself.
    #[error("the image is damaged: {0}")]
    Damaged(String),
    /// More text than [`crate::MAX_TEXT`].
    #[error("the image holds {0} bytes of PTX, more than the 268435456 that are read")]
    TooLarge(u64),
    /// Machine code for a GPU.
    #[error("this is machine code for sm_{sm}, which runs on GPUs only; {REMEDIES}")]
    Cubin {
        /// The GPU's number, 80 of `sm_80`.
        sm: u32,
    },
    /// A fat binary without PTX that the device can run.
    #[error("the fat binary has no PTX for compute capability {capability}; {found}; {REMEDIES}")]
    NoPtx {
        /// Of the device.
        capability: String,
        /// What there is.
        found: String,
    },
    /// An object or library without device code.
    #[error("there is no fat binary inside, and so no device code")]
    NoFatBinary,
    /// Intermediate code of NVIDIA's compilers.
    #[error("this is {0}, which only NVIDIA's compilers read; {REMEDIES}")]
    Intermediate(&'static str),
    /// Pointers instead of contents.
    #[error(
        "this is the wrapper of a fat binary, which holds pointers and not the fat binary itself"
    )]
    Wrapper,
}

/// How to get PTX from common compilers.
const REMEDIES: &str = "compile to PTX: nvcc `-gencode arch=compute_80,code=compute_80`, PyTorch extensions \
    `TORCH_CUDA_ARCH_LIST=\"8.0+PTX\"`, NVRTC `--gpu-architecture=compute_80` with `nvrtcGetPTX`; numba without nvJitLink \
    (`pip uninstall nvidia-nvjitlink-cu12`) or under `ptxjit exec`";

impl Error {
    /// Whether this is device code, but none that can be run here: a driver's
    /// `CUDA_ERROR_NO_BINARY_FOR_GPU`, where the others are `CUDA_ERROR_INVALID_IMAGE`.
    pub fn is_no_binary(&self) -> bool {
        match self {
            Error::Cubin { .. }
            | Error::NoPtx { .. }
            | Error::NoFatBinary
            | Error::Intermediate(_) => true,
            Error::NotAnImage | Error::Damaged(_) | Error::TooLarge(_) | Error::Wrapper => false,
        }
    }
}

pub(crate) fn damaged(what: impl Into<String>) -> Error {
    Error::Damaged(what.into())
}
