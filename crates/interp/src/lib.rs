//! The plain, slow meaning of the IR: the oracle.
