//! Which PTX version and target a form needs, and whether the module has them.

use crate::ast::{Arch, ArchSuffix};
use crate::diag::Diagnostic;
use crate::translate::{Inst, Translator};

use super::desc::{Gate, Sm, When};

/// Checks the gates of an instruction's row.
pub(super) fn check(t: &Translator<'_>, inst: &Inst<'_>) -> Result<(), Diagnostic> {
    for gate in inst.desc.gates {
        if let Some(what) = applies(gate, inst) {
            check_gate(t, inst, gate, &what)?;
        }
    }
    Ok(())
}

/// What the gate is about, if the instruction has it.
fn applies(gate: &Gate, inst: &Inst<'_>) -> Option<String> {
    match gate.when {
        When::Always => Some(format!("`{}`", inst.name)),
        When::Mods(mods) => inst
            .pick(mods)
            .map(|m| format!("`.{}` on `{}`", m.name(), inst.desc.opcode)),
        When::Types(types) => {
            let ty = inst.types.iter().find(|ty| types.contains(ty))?;
            Some(format!("type `.{}` on `{}`", ty.name(), inst.desc.opcode))
        }
    }
}

/// Checks a gate for `what`, which no list describes.
pub(super) fn require(
    t: &Translator<'_>,
    inst: &Inst<'_>,
    gate: &Gate,
    what: &str,
) -> Result<(), Diagnostic> {
    check_gate(t, inst, gate, what)
}

fn check_gate(
    t: &Translator<'_>,
    inst: &Inst<'_>,
    gate: &Gate,
    what: &str,
) -> Result<(), Diagnostic> {
    let (version, arch) = (t.version(), t.arch());
    let (major, minor) = gate.ptx;
    if !version.at_least(major, minor) {
        let message = format!(
            "{what} needs PTX {major}.{minor}, but `.version` is {}.{}",
            version.major, version.minor
        );
        return Err(inst.error(message));
    }
    if !exists_on(gate.sm, arch) {
        let needs = match gate.sm {
            Sm::Any => return Ok(()),
            Sm::Min(n) => format!("sm_{n} or higher"),
            Sm::OneOf(archs) => archs
                .iter()
                .map(|arch| format!("sm_{arch}"))
                .collect::<Vec<_>>()
                .join(", "),
        };
        return Err(inst.error(format!(
            "{what} needs target {needs}, but `.target` is {}",
            arch_name(arch)
        )));
    }
    Ok(())
}

/// `sm_90a`
pub(crate) fn arch_name(arch: Arch) -> String {
    let suffix = match arch.suffix {
        ArchSuffix::None => "",
        ArchSuffix::Specific => "a",
        ArchSuffix::Family => "f",
    };
    format!("sm_{}{suffix}", arch.number)
}

/// Whether a feature of `sm` exists on `arch`.
pub(crate) fn exists_on(sm: Sm, arch: Arch) -> bool {
    match sm {
        Sm::Any => true,
        Sm::Min(n) => arch.number >= n,
        Sm::OneOf(archs) => archs.iter().any(|name| has_features_of(arch, name)),
    }
}

/// Whether `arch` has the features of an architecture-specific (`100a`) or family-specific (`100f`)
/// target: the first only itself, the second every member of its family (the same tens digit) from
/// its number on, in its `f` and `a` targets.
fn has_features_of(arch: Arch, name: &str) -> bool {
    let (number, is_family) = match (name.strip_suffix('a'), name.strip_suffix('f')) {
        (Some(number), _) => (number, false),
        (None, Some(number)) => (number, true),
        (None, None) => return name.parse().is_ok_and(|number: u32| arch.number >= number),
    };
    let Ok(number) = number.parse::<u32>() else {
        return false;
    };
    match arch.suffix {
        ArchSuffix::None => false,
        ArchSuffix::Specific | ArchSuffix::Family if is_family => {
            arch.number >= number && arch.number / 10 == number / 10
        }
        ArchSuffix::Specific => arch.number == number,
        ArchSuffix::Family => false,
    }
}
