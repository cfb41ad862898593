//! Rules against the meaning of the ops.
