//! Branches, loops, switches, and ways out of them.
//!
//! Where a statement's place says which lanes are there together, so do the places inside: each
//! branch first finds out, by a vote of the lanes that reach it, who goes where. Loops whose
//! lanes leave and go on in any way have no such mask inside.

use super::generate::{Gen, Place};
use super::tree::Node;

/// A statement with bodies.
pub fn random(g: &mut Gen, place: &Place) -> Node {
    let may_loop = place.loop_depth < 3 && (g.current.is_none() || place.loop_depth == 0);
    match g.rng.below(12) {
        0..3 => divergent_if(g, place),
        3 => uniform_if(g, place),
        4 => switch(g, place),
        5 if may_loop => uniform_loop(g, place),
        6 | 7 if may_loop => counted_loop(g, place),
        8 | 9 if may_loop => free_loop(g, place),
        10 if may_loop => irreducible(g, place),
        11 => overlapping(g, place),
        _ => divergent_if(g, place),
    }
}

/// Makes sure that a predicate varies in interesting ways: a register, or a fresh comparison.
fn condition(g: &mut Gen) -> (String, String) {
    if g.rng.chance(50) {
        return (String::new(), g.reg('p'));
    }
    let (p, r) = (g.temp("pred"), g.reg('r'));
    let k = g.rng.below(32);
    let text = match g.rng.below(4) {
        0 if g.current.is_none() => format!("    setp.lt.u32 {p}, %lane, {k};\n"),
        1 if g.current.is_none() => format!("    setp.ge.u32 {p}, %gt, {k};\n"),
        2 => {
            let t = g.temp("b32");
            format!("    and.b32 {t}, {r}, 3;\n    setp.eq.u32 {p}, {t}, 1;\n")
        }
        _ => format!("    setp.lt.s32 {p}, {r}, {k};\n"),
    };
    (text, p)
}

fn divergent_if(g: &mut Gen, place: &Place) -> Node {
    let id = g.id();
    // The condition is copied, since a body may change the predicate.
    let (mut head, cond) = condition(g);
    let p = g.temp("pred");
    head += &format!("    mov.pred {p}, {cond};\n");
    let (mut then_mask, mut else_mask) = (None, None);
    if let Some(mask) = &place.mask {
        let (yes, no) = (g.temp("b32"), g.temp("b32"));
        head += &format!(
            "    vote.sync.ballot.b32 {yes}, {p}, {mask};\n    vote.sync.ballot.b32 {no}, !{p}, {mask};\n"
        );
        (then_mask, else_mask) = (Some(yes), Some(no));
    }
    let meet = place.uniform && g.rng.chance(30);
    let barrier = if meet {
        format!("    barrier.sync {};\n", 1 + g.rng.below(3))
    } else {
        String::new()
    };
    let then_body = g.body(&place.divergent(then_mask.clone()));
    let then_rest = if meet {
        g.body(&place.divergent(then_mask))
    } else {
        Vec::new()
    };
    if !meet && g.rng.chance(40) {
        return Node::text(format!("{head}    @!{p} bra END_{id};\n"))
            .body(then_body)
            .with(format!("END_{id}:\n"));
    }
    let else_body = g.body(&place.divergent(else_mask));
    Node::text(format!("{head}    @{p} bra THEN_{id};\n"))
        .body(else_body)
        .with(format!("{barrier}    bra END_{id};\nTHEN_{id}:\n"))
        .body(then_body)
        .with(barrier)
        .body(then_rest)
        .with(format!("END_{id}:\n"))
}

/// A branch that all threads of a CTA take the same way.
fn uniform_if(g: &mut Gen, place: &Place) -> Node {
    if g.current.is_some() {
        return divergent_if(g, place);
    }
    let (id, p) = (g.id(), g.temp("pred"));
    let (u, k) = (g.rng.below(4), g.rng.below(4));
    let cmp = *g.rng.pick(&["eq", "ne", "lt", "gt"]);
    let uni = if g.rng.chance(30) { ".uni" } else { "" };
    let (a, b) = (g.body(&place.nested()), g.body(&place.nested()));
    Node::text(format!(
        "    setp.{cmp}.u32 {p}, %u{u}, {k};\n    @{p} bra{uni} THEN_{id};\n"
    ))
    .body(a)
    .with(format!("    bra.uni END_{id};\nTHEN_{id}:\n"))
    .body(b)
    .with(format!("END_{id}:\n"))
}

fn switch(g: &mut Gen, place: &Place) -> Node {
    let (id, t, r) = (g.id(), g.temp("b32"), g.reg('r'));
    let n = 2 + g.rng.below(3);
    let mut head = format!("    rem.u32 {t}, {r}, {n};\n");
    let mask = place.mask.as_ref().map(|mask| {
        let same = g.temp("b32");
        head += &format!("    match.any.sync.b32 {same}, {t}, {mask};\n");
        same
    });
    let labels: Vec<String> = (0..n).map(|k| format!("CASE_{id}_{k}")).collect();
    head += &format!(
        "TS_{id}: .branchtargets {};\n    brx.idx {t}, TS_{id};\n",
        labels.join(", ")
    );
    let mut node = Node::text(head);
    for label in &labels {
        // Falling through to the next case joins lanes that the mask does not know.
        let ends = mask.is_some() || g.rng.chance(60);
        let body = g.body(&place.divergent(mask.clone()));
        let end = if ends {
            format!("    bra END_{id};\n")
        } else {
            String::new()
        };
        node = node.with(format!("{label}:\n")).body(body).with(end);
    }
    node.with(format!("END_{id}:\n"))
}

/// A loop that all threads of a CTA go through equally often.
fn uniform_loop(g: &mut Gen, place: &Place) -> Node {
    if g.current.is_some() {
        return counted_loop(g, place);
    }
    let (id, c, p, bound) = (g.id(), g.temp("b32"), g.temp("pred"), g.temp("b32"));
    let limit = match g.rng.below(3) {
        0 => format!("    mov.u32 {bound}, {};\n", g.rng.below(5)),
        _ => format!("    and.b32 {bound}, %u{}, 3;\n", g.rng.below(4)),
    };
    let mut inside = place.nested();
    inside.loop_depth += 1;
    let body = g.body(&inside);
    let step = if g.rng.chance(40) {
        format!("    add.u32 %u{0}, %u{0}, {c};\n", g.rng.below(4))
    } else {
        String::new()
    };
    let step = if place.uniform { step } else { String::new() };
    let node = Node::text(format!("{limit}    mov.u32 {c}, 0;\n"));
    if g.rng.chance(50) {
        node.with(format!("    setp.ge.u32 {p}, {c}, {bound};\n    @{p} bra END_{id};\nHEAD_{id}:\n"))
            .body(body)
            .with(format!(
                "{step}    add.u32 {c}, {c}, 1;\n    setp.lt.u32 {p}, {c}, {bound};\n    @{p} bra HEAD_{id};\nEND_{id}:\n"
            ))
    } else {
        node.with(format!(
            "HEAD_{id}:\n    setp.ge.u32 {p}, {c}, {bound};\n    @{p} bra END_{id};\n"
        ))
        .body(body)
        .with(format!(
            "{step}    add.u32 {c}, {c}, 1;\n    bra.uni HEAD_{id};\nEND_{id}:\n"
        ))
    }
}

/// The number of turns of a loop, different from lane to lane, in a fresh register.
fn turns(g: &mut Gen) -> (String, String) {
    let (t, r) = (g.temp("b32"), g.reg('r'));
    let source = match g.rng.below(3) {
        0 if g.current.is_none() => "%ct".to_owned(),
        _ => r,
    };
    let mask = if g.current.is_some() {
        3
    } else {
        *g.rng.pick(&[1, 3, 7])
    };
    (format!("    and.b32 {t}, {source}, {mask};\n"), t)
}

/// A loop with different numbers of turns, whose lanes know each other. Lanes may leave, and then
/// go on, at fixed points.
fn counted_loop(g: &mut Gen, place: &Place) -> Node {
    let (id, c, p) = (g.id(), g.temp("b32"), g.temp("pred"));
    let (mut head, bound) = turns(g);
    head += &format!("    mov.u32 {c}, 0;\n");
    let mask = place.mask.as_ref().map(|outer| {
        let mask = g.temp("b32");
        head += &format!("    mov.b32 {mask}, {outer};\n");
        mask
    });
    head += &format!("HEAD_{id}:\n    setp.ge.u32 {p}, {c}, {bound};\n");
    head += &vote_out(&p, mask.as_deref());
    head += &format!("    @{p} bra END_{id};\n");
    let mut inside = place.divergent(mask.clone());
    inside.loop_depth += 1;
    let mut node = Node::text(head).body(g.body(&inside));
    if g.rng.chance(40) {
        let (text, cond) = condition(g);
        let left = g.temp("pred");
        let vote = vote_out(&left, mask.as_deref());
        let leave =
            format!("{text}    mov.pred {left}, {cond};\n{vote}    @{left} bra END_{id};\n");
        node = node.with(leave).body(g.body(&inside));
    }
    if g.rng.chance(40) {
        let (text, cond) = condition(g);
        let skip = g.temp("pred");
        let mut skipped = format!("{text}    mov.pred {skip}, {cond};\n");
        let rest = mask.as_ref().map(|mask| {
            let rest = g.temp("b32");
            skipped += &format!("    vote.sync.ballot.b32 {rest}, !{skip}, {mask};\n");
            rest
        });
        skipped += &format!("    @{skip} bra NEXT_{id};\n");
        let mut after = inside.clone();
        after.mask = rest;
        node = node.with(skipped).body(g.body(&after));
    }
    node.with(format!(
        "NEXT_{id}:\n    add.u32 {c}, {c}, 1;\n    bra HEAD_{id};\nEND_{id}:\n"
    ))
}

/// Takes the lanes for which `p` is true out of the mask.
fn vote_out(p: &str, mask: Option<&str>) -> String {
    mask.map_or(String::new(), |mask| {
        format!("    vote.sync.ballot.b32 {mask}, !{p}, {mask};\n")
    })
}

/// A loop that lanes leave from anywhere, also to enclosing loops of this kind, and whose next turn
/// they begin anywhere.
fn free_loop(g: &mut Gen, place: &Place) -> Node {
    let (id, c, p) = (g.id(), g.temp("b32"), g.temp("pred"));
    let (mut head, bound) = turns(g);
    head += &format!("    mov.u32 {c}, 0;\nHEAD_{id}:\n");
    let mut inside = place.divergent(None);
    inside.loop_depth += 1;
    if place.mask.is_some() {
        // Lanes outside wait for those inside, so nobody may go further out.
        inside.targets.clear();
    }
    inside
        .targets
        .extend([format!("END_{id}"), format!("NEXT_{id}")]);
    let body = g.body(&inside);
    let tail = format!(
        "NEXT_{id}:\n    add.u32 {c}, {c}, 1;\n    setp.le.u32 {p}, {c}, {bound};\n    @{p} bra HEAD_{id};\nEND_{id}:\n"
    );
    Node::text(head).body(body).with(tail)
}

/// A loop with two entries.
fn irreducible(g: &mut Gen, place: &Place) -> Node {
    let (id, c, p) = (g.id(), g.temp("b32"), g.temp("pred"));
    let (mut head, bound) = turns(g);
    let (text, cond) = condition(g);
    head += &format!("    mov.u32 {c}, 0;\n{text}    @{cond} bra MIDDLE_{id};\nHEAD_{id}:\n");
    let mut inside = place.divergent(None);
    inside.loop_depth += 1;
    if place.mask.is_some() {
        inside.targets.clear();
    }
    inside
        .targets
        .extend([format!("END_{id}"), format!("MIDDLE_{id}")]);
    // Only the second half may go to the middle again: it must pass the counter. Jumps there could
    // go on for ever.
    inside.targets.pop();
    let (a, b) = (g.body(&inside), g.body(&inside));
    Node::text(head).body(a).with(format!("MIDDLE_{id}:\n")).body(b).with(format!(
        "    add.u32 {c}, {c}, 1;\n    setp.le.u32 {p}, {c}, {bound};\n    @{p} bra HEAD_{id};\nEND_{id}:\n"
    ))
}

/// Branches that are not nested: a jump from one side into the other.
fn overlapping(g: &mut Gen, place: &Place) -> Node {
    let id = g.id();
    let ((first, a), (second, b)) = (condition(g), condition(g));
    let inside = Place {
        targets: if place.mask.is_some() {
            Vec::new()
        } else {
            place.targets.clone()
        },
        ..place.divergent(None)
    };
    Node::text(format!("{first}    @{a} bra LEFT_{id};\n"))
        .body(g.body(&inside))
        .with(format!("{second}    @{b} bra SHARED_{id};\n"))
        .body(g.body(&inside))
        .with(format!("    bra END_{id};\nLEFT_{id}:\n"))
        .body(g.body(&inside))
        .with(format!("SHARED_{id}:\n"))
        .body(g.body(&inside))
        .with(format!("END_{id}:\n"))
}

/// A way out: of the thread, the function, or a loop.
pub fn leave(g: &mut Gen, place: &Place) -> Option<Node> {
    let (text, cond) = condition(g);
    if !place.targets.is_empty() && g.rng.chance(80) {
        let target = g.rng.pick(&place.targets).clone();
        return Some(Node::text(format!("{text}    @{cond} bra {target};\n")));
    }
    if g.current.is_some() && (place.mask.is_none() || place.depth == 0) {
        return None;
    }
    if !g.exits || g.current.is_some() {
        return None;
    }
    let how = *g.rng.pick(&["exit", "exit", "ret"]);
    let r = g.reg('r');
    Some(Node::text(format!(
        "{text}    and.b32 %a0, {r}, 7;\n    setp.eq.and.u32 %p0, %a0, 0, {cond};\n    @%p0 {how};\n"
    )))
}
