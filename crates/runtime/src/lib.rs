//! Device memory, faults and CTA scheduling.
