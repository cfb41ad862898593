//! Notes on a plan for `dump`.

use ptxjit_ir::{Function, InstData};
use ptxjit_vectorize::{Because, Plan, SingleLane, Variability, WaitKind};

/// What is varying and why, where lanes diverge and where they wait; and why registers were
/// allocated in one pass, if they had to be.
#[expect(clippy::wildcard_enum_match_arm, reason = "others print as they are")]
pub(crate) fn of(func: &Function, plan: &Plan, one_pass: Option<String>) -> Vec<String> {
    let one_pass = one_pass.map(|why| format!("registers are allocated in one pass: {why}"));
    let mut notes = Vec::from_iter(one_pass);
    for (number, wait) in plan.waits.iter().enumerate() {
        let why = match wait.kind {
            WaitKind::Entry => "entry".to_owned(),
            WaitKind::Ready => "function entry or continuation of a call".to_owned(),
            WaitKind::Yield => "loop that may wait for other threads".to_owned(),
            WaitKind::StripMine => "strip-mined loop".to_owned(),
            WaitKind::Inst(inst) => match &func.insts[inst].data {
                InstData::Barrier { op, .. } => format!("barrier.{op}"),
                InstData::Warp { op, .. } => format!("{op}"),
                other => format!("{other:?}"),
            },
        };
        notes.push(format!(
            "resume point {number} at {}: {why}, {} live values",
            wait.block,
            wait.live.len()
        ));
    }
    for (block, data) in func.blocks.iter() {
        if plan.divergent[block] {
            notes.push(format!("{block} ends with a divergent branch"));
        }
        let pos = plan.order.block_pos[block].map(|pos| pos as usize);
        let mut regions = plan.lane_loops.iter();
        if pos.is_some_and(|pos| regions.any(|region| region.range.contains(&pos))) {
            notes.push(format!("{block}: in a lane loop"));
        } else if plan.single_lane[block] != SingleLane::No {
            notes.push(format!("{block}: a single lane at a time"));
        }
        for &inst in &data.insts {
            for &result in &func.insts[inst].results {
                notes.push(format!("{result} is {}", variability(plan, result)));
            }
        }
        for &param in &data.params {
            notes.push(format!(
                "{param} (parameter of {block}) is {}",
                variability(plan, param)
            ));
        }
    }
    notes
}

fn variability(plan: &Plan, value: ptxjit_ir::Value) -> String {
    match plan.variability[value] {
        Variability::Uniform => "uniform".to_owned(),
        Variability::Affine {
            stride,
            may_wrap: None,
            ..
        } => format!("affine, {stride} per lane"),
        Variability::Affine {
            stride,
            may_wrap: Some(_),
            ..
        } => format!("affine, {stride} per lane unless an index wraps"),
        Variability::Varying => match plan.because[value] {
            Because::Operand(operand) => format!("varying, since {operand} is"),
            Because::Merge(block) => format!("varying: diverged lanes meet at {block}"),
            Because::MayWrap => {
                "varying: used as a number, and from an index that may wrap".to_owned()
            }
            Because::Source | Because::NotVarying => "varying: each lane has its own".to_owned(),
        },
    }
}
