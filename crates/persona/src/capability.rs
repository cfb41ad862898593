//! Compute capabilities and the limits that go with them, from the table of technical
//! specifications in the CUDA C++ Programming Guide.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// A compute capability, such as 8.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Capability {
    /// The number before the point.
    pub major: u32,
    /// The digit after the point.
    pub minor: u32,
}

impl FromStr for Capability {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.trim().split_once('.');
        let capability = parts.and_then(|(major, minor)| {
            let minor = minor.parse().ok().filter(|minor| *minor < 10)?;
            Some(Self {
                major: major.parse().ok()?,
                minor,
            })
        });
        let capability = capability
            .ok_or_else(|| format!("`{text}` is not a compute capability such as 8.0"))?;
        if capability < LIMITS[0].0 {
            return Err(format!(
                "compute capability {text} is below {}",
                LIMITS[0].0
            ));
        }
        Ok(capability)
    }
}

impl TryFrom<String> for Capability {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// What a multiprocessor of some capability holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Threads that a multiprocessor can hold.
    pub threads: u32,
    /// Blocks that a multiprocessor can hold.
    pub blocks: u32,
    /// Shared memory of a multiprocessor, in KiB.
    pub shared_kib: u32,
    /// Shared memory that a block can ask for, in KiB.
    pub optin_kib: u32,
    /// Units for 32-bit floats.
    pub cores: u32,
    /// How much slower 64-bit floats are than 32-bit ones.
    pub double_ratio: u32,
}

const fn row(
    (major, minor): (u32, u32),
    [threads, blocks]: [u32; 2],
    [shared_kib, optin_kib]: [u32; 2],
    [cores, double_ratio]: [u32; 2],
) -> (Capability, Limits) {
    let limits = Limits {
        threads,
        blocks,
        shared_kib,
        optin_kib,
        cores,
        double_ratio,
    };
    (Capability { major, minor }, limits)
}

/// Threads and blocks; shared memory and what a block can have of it; units and their ratio.
const LIMITS: &[(Capability, Limits)] = &[
    row((3, 5), [2048, 16], [48, 48], [192, 3]),
    row((5, 0), [2048, 32], [64, 48], [128, 32]),
    row((5, 2), [2048, 32], [96, 48], [128, 32]),
    row((5, 3), [2048, 32], [64, 48], [128, 32]),
    row((6, 0), [2048, 32], [64, 48], [64, 2]),
    row((6, 1), [2048, 32], [96, 48], [128, 32]),
    row((6, 2), [2048, 32], [64, 48], [128, 32]),
    row((7, 0), [2048, 32], [96, 96], [64, 2]),
    row((7, 2), [2048, 32], [96, 96], [64, 2]),
    row((7, 5), [1024, 16], [64, 64], [64, 32]),
    row((8, 0), [2048, 32], [164, 163], [64, 2]),
    row((8, 6), [1536, 16], [100, 99], [128, 64]),
    row((8, 7), [1536, 16], [164, 163], [128, 64]),
    row((8, 9), [1536, 24], [100, 99], [128, 64]),
    row((9, 0), [2048, 32], [228, 227], [128, 2]),
    row((10, 0), [2048, 32], [228, 227], [128, 2]),
    row((10, 3), [2048, 32], [228, 227], [128, 64]),
    row((11, 0), [1536, 24], [228, 227], [128, 64]),
    row((12, 0), [1536, 24], [100, 99], [128, 64]),
    row((12, 1), [1536, 24], [100, 99], [128, 64]),
];

impl Capability {
    /// The limits of this capability, or of the newest known one before it.
    #[must_use]
    pub fn limits(self) -> Limits {
        let known = LIMITS.iter().rev().find(|(known, _)| *known <= self);
        known.unwrap_or(&LIMITS[0]).1
    }

    /// Whether blocks can form clusters, and tensor maps exist.
    #[must_use]
    pub fn has_clusters(self) -> bool {
        self.major >= 9
    }
}
