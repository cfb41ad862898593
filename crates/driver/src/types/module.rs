//! Modules, libraries, functions and the compilation of images.

use super::handle::HostPtr;
use super::raw::{c_enums, c_structs};

c_enums! {
    /// What `cuFuncGetAttribute` can tell of a function.
    CUfunction_attribute(u32, "CU_FUNC_ATTRIBUTE_") {
        MAX_THREADS_PER_BLOCK = 0,
        SHARED_SIZE_BYTES = 1,
        CONST_SIZE_BYTES = 2,
        LOCAL_SIZE_BYTES = 3,
        NUM_REGS = 4,
        PTX_VERSION = 5,
        BINARY_VERSION = 6,
        CACHE_MODE_CA = 7,
        MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
        PREFERRED_SHARED_MEMORY_CARVEOUT = 9,
        CLUSTER_SIZE_MUST_BE_SET = 10,
        REQUIRED_CLUSTER_WIDTH = 11,
        REQUIRED_CLUSTER_HEIGHT = 12,
        REQUIRED_CLUSTER_DEPTH = 13,
        NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14,
        CLUSTER_SCHEDULING_POLICY_PREFERENCE = 15,
        DEVICE_NODE_UPDATE_SUPPORTED = 16,
        SHARED_MEMORY_MODE = 17,
        MAX = 18,
    }

    /// Shares of shared memory that have names; others are percentages.
    CUshared_carveout(i32, "CU_SHAREDMEM_CARVEOUT_") {
        DEFAULT = -1,
        MAX_SHARED = 100,
        MAX_L1 = 0,
    }

    /// Whether a function was loaded.
    CUfunctionLoadingState(u32, "CU_FUNCTION_LOADING_STATE_") {
        UNLOADED = 0,
        LOADED = 1,
        MAX = 2,
    }

    /// When functions are loaded.
    CUmoduleLoadingMode(u32, "CU_MODULE_") {
        EAGER_LOADING = 1,
        LAZY_LOADING = 2,
    }

    /// Options of compilation and linking.
    CUjit_option(u32, "CU_JIT_") {
        MAX_REGISTERS = 0,
        THREADS_PER_BLOCK = 1,
        WALL_TIME = 2,
        INFO_LOG_BUFFER = 3,
        INFO_LOG_BUFFER_SIZE_BYTES = 4,
        ERROR_LOG_BUFFER = 5,
        ERROR_LOG_BUFFER_SIZE_BYTES = 6,
        OPTIMIZATION_LEVEL = 7,
        TARGET_FROM_CUCONTEXT = 8,
        TARGET = 9,
        FALLBACK_STRATEGY = 10,
        GENERATE_DEBUG_INFO = 11,
        LOG_VERBOSE = 12,
        GENERATE_LINE_INFO = 13,
        CACHE_MODE = 14,
        NEW_SM3X_OPT = 15,
        FAST_COMPILE = 16,
        GLOBAL_SYMBOL_NAMES = 17,
        GLOBAL_SYMBOL_ADDRESSES = 18,
        GLOBAL_SYMBOL_COUNT = 19,
        LTO = 20,
        FTZ = 21,
        PREC_DIV = 22,
        PREC_SQRT = 23,
        FMA = 24,
        REFERENCED_KERNEL_NAMES = 25,
        REFERENCED_KERNEL_COUNT = 26,
        REFERENCED_VARIABLE_NAMES = 27,
        REFERENCED_VARIABLE_COUNT = 28,
        OPTIMIZE_UNUSED_DEVICE_VARIABLES = 29,
        POSITION_INDEPENDENT_CODE = 30,
        MIN_CTA_PER_SM = 31,
        MAX_THREADS_PER_BLOCK = 32,
        OVERRIDE_DIRECTIVE_VALUES = 33,
        SPLIT_COMPILE = 34,
        BINARY_LOADER_THREAD_COUNT = 35,
        NUM_OPTIONS = 36,
    }

    /// Targets of compilation.
    CUjit_target(u32, "CU_TARGET_") {
        COMPUTE_30 = 0x1e,
        COMPUTE_32 = 0x20,
        COMPUTE_35 = 0x23,
        COMPUTE_37 = 0x25,
        COMPUTE_50 = 0x32,
        COMPUTE_52 = 0x34,
        COMPUTE_53 = 0x35,
        COMPUTE_60 = 0x3c,
        COMPUTE_61 = 0x3d,
        COMPUTE_62 = 0x3e,
        COMPUTE_70 = 0x46,
        COMPUTE_72 = 0x48,
        COMPUTE_75 = 0x4b,
        COMPUTE_80 = 0x50,
        COMPUTE_86 = 0x56,
        COMPUTE_87 = 0x57,
        COMPUTE_89 = 0x59,
        COMPUTE_90 = 0x5a,
        COMPUTE_100 = 0x64,
        COMPUTE_101 = 0x65,
        COMPUTE_103 = 0x67,
        COMPUTE_107 = 0x6b,
        COMPUTE_110 = 0x6e,
        COMPUTE_120 = 0x78,
        COMPUTE_121 = 0x79,
        COMPUTE_90A = 0x1_005a,
        COMPUTE_100A = 0x1_0064,
        COMPUTE_101A = 0x1_0065,
        COMPUTE_103A = 0x1_0067,
        COMPUTE_107A = 0x1_006b,
        COMPUTE_110A = 0x1_006e,
        COMPUTE_120A = 0x1_0078,
        COMPUTE_121A = 0x1_0079,
        COMPUTE_100F = 0x2_0064,
        COMPUTE_101F = 0x2_0065,
        COMPUTE_103F = 0x2_0067,
        COMPUTE_107F = 0x2_006b,
        COMPUTE_110F = 0x2_006e,
        COMPUTE_120F = 0x2_0078,
        COMPUTE_121F = 0x2_0079,
    }

    /// What is tried first if an image has PTX and machine code.
    CUjit_fallback(u32, "CU_") {
        PREFER_PTX = 0,
        PREFER_BINARY = 1,
    }

    /// Caching of global loads.
    CUjit_cacheMode(u32, "CU_JIT_CACHE_OPTION_") {
        NONE = 0,
        CG = 1,
        CA = 2,
    }

    /// Kinds of input to the linker.
    CUjitInputType(u32, "CU_JIT_") {
        INPUT_CUBIN = 0,
        INPUT_PTX = 1,
        INPUT_FATBINARY = 2,
        INPUT_OBJECT = 3,
        INPUT_LIBRARY = 4,
        INPUT_NVVM = 5,
        NUM_INPUT_TYPES = 6,
    }

    /// Options of loading a library.
    CUlibraryOption(u32, "CU_LIBRARY_") {
        HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE = 0,
        BINARY_IS_PRESERVED = 1,
        NUM_OPTIONS = 2,
    }
}

c_structs! {
    /// The value of [`CUlibraryOption::HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE`].
    #[derive(Eq)]
    CUlibraryHostUniversalFunctionAndDataTable {
        functionTable: HostPtr,
        functionWindowSize: usize,
        dataTable: HostPtr,
        dataWindowSize: usize,
    }
}
