//! PTX versions and target architectures: which exist, and since when.
//!
//! The tables are the "Release History" and the "PTX ISA Notes" of `.target`. What is newer than
//! they are is let through, with a warning where a warning can be shown.

use crate::ast::{Arch, ArchSuffix, Version};
use crate::diag::Diagnostic;
use crate::source::Span;

/// The last minor version of each major version that is complete.
const LAST_MINOR: &[(u32, u32)] = &[
    (1, 5),
    (2, 3),
    (3, 2),
    (4, 3),
    // The table stops at 5.0, but ptxas takes 5.1.
    (5, 1),
    (6, 5),
    (7, 8),
    (8, 8),
];

/// The newest version that we know.
const NEWEST: (u32, u32) = (9, 0);

/// The newest `.version` that is read, major and minor: that of the assembler of CUDA 13.5.
///
/// A minor version adds to the ones before it and changes nothing in them; an instruction that a
/// version later than 9.0 added is refused where it stands, by its name.
pub const NEWEST_VERSION: (u32, u32) = (9, 5);

/// An architecture and the PTX versions that brought it, its `a` and its `f` variant.
struct KnownArch {
    number: u32,
    plain: (u32, u32),
    specific: Option<(u32, u32)>,
    family: Option<(u32, u32)>,
}

const fn plain(number: u32, major: u32, minor: u32) -> KnownArch {
    KnownArch {
        number,
        plain: (major, minor),
        specific: None,
        family: None,
    }
}

const fn with_variants(
    number: u32,
    plain: (u32, u32),
    specific: (u32, u32),
    family: Option<(u32, u32)>,
) -> KnownArch {
    KnownArch {
        number,
        plain,
        specific: Some(specific),
        family,
    }
}

const ARCHES: &[KnownArch] = &[
    plain(10, 1, 0),
    plain(11, 1, 0),
    plain(12, 1, 2),
    plain(13, 1, 2),
    plain(20, 2, 0),
    // Not in the tables, but nvcc of that time knew it.
    plain(21, 2, 0),
    plain(30, 3, 0),
    plain(32, 4, 0),
    plain(35, 3, 1),
    plain(37, 4, 1),
    plain(50, 4, 0),
    plain(52, 4, 1),
    plain(53, 4, 2),
    plain(60, 5, 0),
    plain(61, 5, 0),
    plain(62, 5, 0),
    plain(70, 6, 0),
    plain(72, 6, 1),
    plain(75, 6, 3),
    plain(80, 7, 0),
    plain(86, 7, 1),
    plain(87, 7, 4),
    plain(88, 9, 0),
    plain(89, 7, 8),
    with_variants(90, (7, 8), (8, 0), None),
    with_variants(100, (8, 6), (8, 6), Some((8, 8))),
    with_variants(101, (8, 6), (8, 6), Some((8, 8))),
    with_variants(103, (8, 8), (8, 8), Some((8, 8))),
    with_variants(110, (9, 0), (9, 0), Some((9, 0))),
    with_variants(120, (8, 7), (8, 7), Some((8, 8))),
    with_variants(121, (8, 8), (8, 8), Some((8, 8))),
];

/// Refuses versions that never existed; returns a warning for those that we do not know yet.
pub(super) fn check_version(version: Version) -> Result<Option<Diagnostic>, Diagnostic> {
    let Version { major, minor, span } = version;
    if (major, minor) > NEWEST_VERSION {
        let (last_major, last_minor) = NEWEST_VERSION;
        return Err(Diagnostic::error(format!(
            "PTX {major}.{minor} is newer than any version that this build has heard of"
        ))
        .label(span, format!("at most {last_major}.{last_minor}")));
    }
    if (major, minor) > NEWEST {
        let warning = Diagnostic::warning(format!(
            "PTX {major}.{minor} is newer than this build knows"
        ));
        return Ok(Some(warning.label(
            span,
            format!("the newest known is {}.{}", NEWEST.0, NEWEST.1),
        )));
    }
    let exists = LAST_MINOR
        .iter()
        .any(|&(of, last)| of == major && minor <= last);
    if exists || (major, minor) == NEWEST {
        return Ok(None);
    }
    Err(Diagnostic::error(format!("there is no PTX version {major}.{minor}")).label(span, ""))
}

/// Reads `sm_90a`; `None` if it does not have that form.
pub(super) fn parse(text: &str, span: Span) -> Option<Arch> {
    let rest = text
        .strip_prefix("sm_")
        .or_else(|| text.strip_prefix("compute_"))?;
    let (digits, suffix) = match (rest.strip_suffix('a'), rest.strip_suffix('f')) {
        (Some(digits), _) => (digits, ArchSuffix::Specific),
        (None, Some(digits)) => (digits, ArchSuffix::Family),
        (None, None) => (rest, ArchSuffix::None),
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.parse().ok().filter(|_| is_number)?;
    Some(Arch {
        span,
        number,
        suffix,
    })
}

/// Does this architecture exist in this PTX version?
pub(super) fn check(arch: Arch, text: &str, version: Version) -> Result<(), Diagnostic> {
    let newest = ARCHES.iter().map(|known| known.number).max();
    let Some(known) = ARCHES.iter().find(|known| known.number == arch.number) else {
        return match newest {
            // Versions that we do not know may know more.
            Some(newest) if arch.number > newest && version.at_least(NEWEST.0, NEWEST.1 + 1) => {
                Ok(())
            }
            _ => Err(unknown(text, arch.span)),
        };
    };
    let since = match arch.suffix {
        ArchSuffix::None => Some(known.plain),
        ArchSuffix::Specific => known.specific,
        ArchSuffix::Family => known.family,
    };
    let (major, minor) = since.ok_or_else(|| unknown(text, arch.span))?;
    if version.at_least(major, minor) {
        return Ok(());
    }
    Err(
        Diagnostic::error(format!("target `{text}` needs PTX {major}.{minor}"))
            .label(arch.span, "")
            .label(
                version.span,
                format!("this is PTX {}.{}", version.major, version.minor),
            ),
    )
}

/// For what is neither an architecture nor an option.
pub(super) fn unknown(text: &str, span: Span) -> Diagnostic {
    Diagnostic::error(format!("unknown target `{text}`")).label(span, "")
}
