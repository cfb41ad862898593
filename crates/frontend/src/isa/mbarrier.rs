//! `mbarrier`. PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier". Checked, not executable yet.

use crate::ast::OperandKind;
use crate::diag::Diagnostic;
use crate::translate::{Inst, Translator};

use super::desc::{A, ADDR, ANY, D, DP, Gate, InstDesc, Opd, since, unsupported};
use super::modifiers::Mod;
use super::types::PtxType as T;

const TYPE: &[&[T]] = &[&[T::B64]];
const OWN: &[Mod] = &[Mod::Shared, Mod::SharedCta];
const SCOPE: &[Mod] = &[Mod::Cta, Mod::Cluster];
const ARRIVE_SEM: &[Mod] = &[Mod::Release, Mod::Relaxed];
const WAIT_SEM: &[Mod] = &[Mod::Acquire, Mod::Relaxed];
const COUNT: Opd = A.is(T::U32);
const STATE: Opd = D.sink();

const OLD: &[Gate] = &[
    since(7, 0, 80),
    since(7, 8, 80).mods(&[Mod::SharedCta]),
    since(8, 0, 90).mods(&[Mod::Cluster, Mod::SharedCluster]),
    since(8, 6, 90).mods(&[Mod::Relaxed]),
];
const TX: &[Gate] = &[since(8, 0, 90)];
const REMOTE: &[Gate] = &[since(8, 0, 90), since(8, 6, 90).mods(&[Mod::Relaxed])];
const WAIT: &[Gate] = &[
    since(7, 0, 80),
    since(7, 1, 80).mods(&[Mod::Parity]),
    since(7, 8, 90).mods(&[Mod::TryWait]),
    since(7, 8, 80).mods(&[Mod::SharedCta]),
    since(8, 0, 90).mods(&[Mod::Cluster]),
    since(8, 6, 90).mods(&[Mod::Relaxed]),
];

const fn mbarrier(operands: &'static [Opd]) -> InstDesc {
    unsupported("mbarrier", operands)
        .types(TYPE)
        .check(check_scope)
}

const ARRIVE: &[&[Mod]] = &[&[Mod::Arrive, Mod::ArriveDrop]];
const TX_OPTIONS: &[&[Mod]] = &[
    &[Mod::Relaxed],
    SCOPE,
    &[Mod::Shared, Mod::SharedCta, Mod::SharedCluster],
];

pub const TABLE: &[InstDesc] = &[
    mbarrier(&[ADDR, COUNT])
        .with(&[Mod::Init])
        .optional(&[OWN])
        .gates(OLD)
        .check(check_init),
    mbarrier(&[ADDR])
        .with(&[Mod::Inval])
        .optional(&[OWN])
        .gates(OLD),
    mbarrier(&[ADDR, COUNT])
        .choose(&[&[Mod::ExpectTx, Mod::CompleteTx]])
        .optional(TX_OPTIONS)
        .gates(TX),
    mbarrier(&[STATE, ADDR, COUNT.opt()])
        .choose(ARRIVE)
        .optional(&[ARRIVE_SEM, SCOPE, OWN])
        .gates(OLD)
        .check(check_count),
    mbarrier(&[ANY, ADDR, COUNT.opt()])
        .with(&[Mod::SharedCluster])
        .choose(ARRIVE)
        .optional(&[ARRIVE_SEM, SCOPE])
        .gates(REMOTE)
        .check(check_remote),
    mbarrier(&[STATE, ADDR, COUNT])
        .with(&[Mod::ExpectTx])
        .choose(ARRIVE)
        .optional(&[ARRIVE_SEM, SCOPE, OWN])
        .gates(REMOTE),
    mbarrier(&[ANY, ADDR, COUNT])
        .with(&[Mod::ExpectTx, Mod::SharedCluster])
        .choose(ARRIVE)
        .optional(&[ARRIVE_SEM, SCOPE])
        .gates(REMOTE)
        .check(check_remote),
    mbarrier(&[STATE, ADDR, COUNT])
        .with(&[Mod::NoComplete])
        .choose(ARRIVE)
        .optional(&[&[Mod::Release], &[Mod::Cta], OWN])
        .gates(OLD),
    mbarrier(&[DP, ADDR, A])
        .with(&[Mod::TestWait])
        .optional(&[WAIT_SEM, SCOPE, OWN])
        .gates(WAIT),
    mbarrier(&[DP, ADDR, COUNT])
        .with(&[Mod::TestWait, Mod::Parity])
        .optional(&[WAIT_SEM, SCOPE, OWN])
        .gates(WAIT),
    mbarrier(&[DP, ADDR, A, COUNT.opt()])
        .with(&[Mod::TryWait])
        .optional(&[WAIT_SEM, SCOPE, OWN])
        .gates(WAIT),
    mbarrier(&[DP, ADDR, COUNT, COUNT.opt()])
        .with(&[Mod::TryWait, Mod::Parity])
        .optional(&[WAIT_SEM, SCOPE, OWN])
        .gates(WAIT),
    mbarrier(&[D.is(T::U32), A])
        .with(&[Mod::PendingCount])
        .gates(&[since(7, 0, 80)]),
    unsupported("cp", &[ADDR])
        .with(&[Mod::Async, Mod::Mbarrier, Mod::Arrive])
        .types(TYPE)
        .optional(&[&[Mod::Noinc], OWN])
        .gates(&[since(7, 0, 80), since(7, 8, 80).mods(&[Mod::SharedCta])]),
];

/// A constant count must be one that a barrier can have.
fn check_init<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    match inst.operand(1).map(|operand| &operand.kind) {
        Some(OperandKind::Constant(_)) => {
            let count = t.src_const(inst, 1)?;
            if (1..1 << 20).contains(&count) {
                return Ok(());
            }
            Err(inst.operand_error(
                1,
                format!(
                    "{count} is out of range: a barrier counts 1 to {}",
                    (1 << 20) - 1
                ),
            ))
        }
        _ => Ok(()),
    }
}

/// How an operation is ordered is written together with its scope.
fn check_scope<'m>(_: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    match inst.pick(&[Mod::Acquire, Mod::Release, Mod::Relaxed]) {
        Some(m) if inst.pick(SCOPE).is_none() => Err(inst.error(format!(
            "`.{}` on `mbarrier` needs a scope: `.cta` or `.cluster`",
            m.name()
        ))),
        None if inst.pick(SCOPE).is_some() => Err(inst.error(
            "a scope on `mbarrier` needs an ordering: `.acquire`, `.release` or `.relaxed`",
        )),
        Some(_) | None => Ok(()),
    }
}

/// Without `.noComplete`, a count needs `sm_90`; `_` as state needs PTX 7.1.
fn check_count<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    check_scope(t, inst)?;
    if inst.n_operands() == 3 {
        super::target::require(t, inst, &since(7, 8, 90), "a count on `mbarrier.arrive`")?;
    }
    if matches!(
        inst.operand(0).map(|operand| &operand.kind),
        Some(OperandKind::Sink)
    ) {
        super::target::require(t, inst, &since(7, 1, 80), "`_` as state")?;
    }
    Ok(())
}

/// The state of a barrier in another CTA cannot be had.
fn check_remote<'m>(t: &mut Translator<'m>, inst: &Inst<'m>) -> Result<(), Diagnostic> {
    check_scope(t, inst)?;
    match inst.operand(0).map(|operand| &operand.kind) {
        Some(OperandKind::Sink) => Ok(()),
        _ => Err(inst.operand_error(
            0,
            "the state of a remote barrier cannot be had: `_` must stand here",
        )),
    }
}
