//! The plan as text, for `ptxjit dump --after vectorize` and for snapshot tests.

use std::fmt::Write;

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Function, Inst, Value, print};

use crate::heuristics::Acted;
use crate::{Because, Node, Plan, SingleLane, Variability, Wait, WaitKind, Yield};

/// The whole plan: the nodes in layout order with all decisions about them, and their instructions
/// with the variability of the results. `acted` also counts what the code generator has decided.
pub fn plan(func: &Function, plan: &Plan, acted: &Acted) -> String {
    let mut out = summary(func, plan, acted);
    for (pos, node) in plan.order.nodes.iter().enumerate() {
        match *node {
            Node::LoopEnd(header) => loop_end(&mut out, plan, pos, header),
            Node::Block(block) => self::block(&mut out, func, plan, (pos, block)),
        }
    }
    out
}

fn loop_end(out: &mut String, plan: &Plan, pos: usize, header: Block) {
    let _ = write!(out, "\n{pos}: end of the loop of {header}");
    lanes(out, plan, pos);
    let _ = match plan.yields[header] {
        Some(Yield::Spin(cost)) => write!(out, ", yields (cost {cost})"),
        Some(Yield::StripMine(n)) => write!(out, ", strip-mined by {n}"),
        None => Ok(()),
    };
    out.push('\n');
}

/// Gang width, which heuristics acted, and totals.
pub fn summary(func: &Function, plan: &Plan, acted: &Acted) -> String {
    let (mut uniform, mut affine, mut varying) = (0, 0, 0);
    for value in plan.order.blocks().flat_map(|block| func.defined_in(block)) {
        match plan.variability[value] {
            Variability::Uniform => uniform += 1,
            Variability::Affine { .. } => affine += 1,
            Variability::Varying => varying += 1,
        }
    }
    let count = |of: &SecondaryMap<Block, bool>| {
        let blocks = plan.order.blocks();
        blocks.filter(|&block| of[block]).count()
    };
    let (divergent, cold) = (count(&plan.divergent), count(&plan.cold));
    format!(
        "gang {}\nacted: {}\n{} nodes, {divergent} divergent branches, {} waits, {cold} cold blocks\n\
         {uniform} uniform, {affine} affine, {varying} varying values\n",
        plan.gang,
        acted,
        plan.order.nodes.len(),
        plan.waits.len() - 1,
    )
}

fn block(out: &mut String, func: &Function, plan: &Plan, (pos, block): (usize, Block)) {
    let data = &func.blocks[block];
    let _ = write!(out, "\n{pos}: {block}");
    lanes(out, plan, pos);
    if plan.cold[block] {
        out.push_str(", cold");
    }
    let mut regions = plan.lane_loops.iter();
    let in_loop = regions.any(|region| region.range.contains(&pos));
    match plan.single_lane[block] {
        SingleLane::No => {}
        _ if in_loop => out.push_str(", in a lane loop"),
        SingleLane::Root | SingleLane::Inner => out.push_str(", a single lane"),
    }
    out.push('\n');
    if let Some(number) = plan.wait_of[block] {
        wait(out, number, &plan.waits[number as usize]);
    }
    if let Some(inputs) = &plan.affine_inputs[block] {
        for (value, variability) in &inputs.inputs {
            let _ = writeln!(
                out,
                "  version if {value} is {}",
                self::variability(*variability)
            );
        }
    }
    for &param in &data.params {
        let _ = writeln!(out, "  {param}: {}", of_value(plan, param));
    }
    for &inst in &data.insts {
        instruction(out, func, plan, inst);
    }
    let divergent = match plan.divergent[block] {
        true => "  ; divergent",
        false => "",
    };
    let _ = writeln!(out, "  {}{divergent}", print::terminator(&data.term).trim());
}

fn wait(out: &mut String, number: u32, wait: &Wait) {
    let why = why_waits(wait.kind);
    let live: Vec<String> = wait.live.iter().map(Value::to_string).collect();
    let live = live.join(", ");
    let _ = writeln!(out, "  resume point {number} ({why}) saves [{live}]");
}

fn instruction(out: &mut String, func: &Function, plan: &Plan, inst: Inst) {
    let node = &func.insts[inst];
    let text = print::inst(func, inst);
    let _ = write!(out, "  {}", text.trim());
    let results = node.results.iter();
    let results: Vec<String> = results.map(|&result| of_value(plan, result)).collect();
    if !results.is_empty() {
        let _ = write!(out, "  ; {}", results.join("; "));
    }
    if let Some(access) = node.data.access()
        && let Some(stride) = plan.speculated[access.addr]
    {
        let _ = write!(out, "  ; speculated stride {stride}");
    }
    out.push('\n');
}

/// Where the lanes of a node come from, and where others may be pending.
fn lanes(out: &mut String, plan: &Plan, pos: usize) {
    if let Some(from) = plan.reconvergence.straight[pos] {
        let _ = write!(out, ", lanes of {from}");
    } else if let Some(from) = plan.reconvergence.over_strip_mined[pos] {
        let _ = write!(out, ", lanes of {from} if all run");
    }
    if plan.maybe_empty[pos] {
        out.push_str(", may have none");
    }
    if !plan.pending[pos].is_empty() {
        let pending: Vec<String> = plan.pending[pos].iter().map(usize::to_string).collect();
        let _ = write!(out, ", pending at {}", pending.join(" "));
    }
}

/// Why lanes wait at a resume point.
pub fn why_waits(kind: WaitKind) -> &'static str {
    match kind {
        WaitKind::Entry => "entry",
        WaitKind::Ready => "continuation",
        WaitKind::Inst(_) => "instruction",
        WaitKind::Yield => "yield",
        WaitKind::StripMine => "strip-mined",
    }
}

/// The variability of a value, its reason and its range.
pub fn of_value(plan: &Plan, value: Value) -> String {
    let because = match plan.because[value] {
        Because::NotVarying => String::new(),
        Because::Source => " by itself".to_owned(),
        Because::Operand(operand) => format!(" because of {operand}"),
        Because::Merge(block) => format!(" because diverged lanes meet at {block}"),
        Because::MayWrap => " because its index may wrap".to_owned(),
    };
    let bounds = match plan.bounds[value] {
        Some((lo, hi)) => format!(" in {lo}..={hi}"),
        None => String::new(),
    };
    match plan.variability[value] {
        Variability::Varying => format!("varying{because}"),
        other @ (Variability::Uniform | Variability::Affine { .. }) => variability(other) + &bounds,
    }
}

/// A variability as text.
pub fn variability(variability: Variability) -> String {
    let may_wrap = variability.may_wrap().map_or("", |_| ", may wrap");
    match variability {
        Variability::Uniform => "uniform".to_owned(),
        Variability::Affine { stride, .. } => format!("affine {stride}{may_wrap}"),
        Variability::Varying => "varying".to_owned(),
    }
}
