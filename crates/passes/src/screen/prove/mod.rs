//! Proofs, for one launch, that accesses need not be looked at when the code runs.
//!
//! All that a launch is given is known before it starts: its shape, its parameters, where
//! allocations lie. With these the code is followed once, for all threads together
//! ([`walk`]), down to the addresses of accesses as functions of the thread ([`form`]). Two
//! accesses of one object, one of them a write, are in order if the same thread makes them, or if
//! barriers lie between them in one CTA; for all others it is shown that they touch different bytes
//! ([`pairs`]). What cannot be shown is flagged, and compiled code looks at it.
//!
//! **Ensures**: if none of the accesses that are not flagged is in conflict with another access,
//! flagged or not, but for pairs that are both flagged. So tags for flagged accesses alone notice
//! what tags for all would. An access whose address is not known is flagged with all that it may
//! conflict with, unless it is derived from a pointer to an allocation: then code tests whether it
//! stays in it, and conflicts are looked for there. If nothing at all is flagged, no access is out
//! of bounds or misaligned either, and the launch needs no instrumentation.

mod copies;
mod covered;
mod eval;
mod form;
mod log;
mod pairs;
mod plan;
mod region;
mod summary;
mod tables;
mod walk;

use std::collections::BTreeMap;

use ptxjit_ir::{Inst, Program, SharedLayout, Space, VarId};

use self::form::{DIGITS, Form};
use self::region::Region;
use self::walk::Walk;
use super::admit::Wanted;
use super::loads::Kept;

pub(super) use self::plan::Plan;

/// Why nothing is proven.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Unproven(pub &'static str);

/// What is known of a launch.
#[derive(Debug)]
pub struct Launched<'a> {
    /// Threads of a CTA, and CTAs.
    pub block: [u32; 3],
    /// CTAs of the grid.
    pub grid: [u32; 3],
    /// The parameters' bytes.
    pub params: &'a [u8],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// Live allocations of device memory, by start and size, in ascending order.
    pub blocks: &'a [(u64, u64)],
    /// Those that are not written as a whole.
    pub unwritten: &'a [(u64, u64)],
    /// Addresses of variables in device memory, and offsets of those in constant memory.
    pub vars: &'a BTreeMap<VarId, u64>,
}

/// What must be checked of an access when the code runs.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Need {
    /// It may be in conflict with another.
    pub(super) race: bool,
    /// It may read what was never written.
    pub(super) init: bool,
    /// It leaves its tag, by which memory can be put back.
    pub(super) note: bool,
    /// It must stay in an allocation, by start and size.
    pub(super) bounds: Option<(u64, u64)>,
}

/// What must be checked of a launch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Needs {
    /// Accesses of which something must be checked.
    pub(super) sites: Vec<(Inst, Need)>,
    /// The launch has nothing to find, and cannot fail for an access.
    pub is_clean: bool,
    /// Bytes of device memory that were not written before, and are then: start and length.
    pub written: Vec<(u64, u64)>,
    /// The allocations that the launch can write, by start and size in ascending order, if that is
    /// known.
    pub stores: Option<Vec<(u64, u64)>>,
}

impl Needs {
    /// What tells apart the code that checks for such needs.
    pub fn key(&self) -> Vec<(u32, [bool; 4])> {
        let sites = self.sites.iter().map(|(inst, need)| {
            let flags = [need.race, need.init, need.note, need.bounds.is_some()];
            (inst.as_u32(), flags)
        });
        sites.collect()
    }

    /// The allocations that accesses must stay in, in the order of [`Needs::key`].
    pub fn bounds(&self) -> impl Iterator<Item = (u64, u64)> {
        self.sites.iter().filter_map(|(_, need)| need.bounds)
    }
}

/// The digits of places in a grid, and the numbers of threads and CTAs as forms of them.
#[derive(Debug)]
struct Shape {
    block: [u32; 3],
    grid: [u32; 3],
    tid: [Form; 3],
    ctaid: [Form; 3],
    is_cta: [bool; DIGITS],
    /// Threads of a CTA.
    threads: u32,
    /// By how much digits of threads count in the thread's number in its CTA; 0 for those of CTAs.
    weights: [i64; DIGITS],
    /// The digits that tell a thread's lane, if those are not mixed with digits of its warp.
    lanes: Option<[bool; DIGITS]>,
    all: Region,
}

/// What the walk knows of a launch.
struct Facts<'a> {
    wanted: Wanted,
    shape: Shape,
    params: &'a [u8],
    blocks: &'a [(u64, u64)],
    unwritten: &'a [(u64, u64)],
    vars: &'a BTreeMap<VarId, u64>,
    layout: SharedLayout,
    /// Variables of shared memory, by start and size.
    shared: Vec<(u64, u64)>,
    /// The same of constant memory.
    consts: Vec<(u64, u64)>,
}

/// What must be checked of a launch of the program, whose loads were kept.
pub(super) fn run(
    program: &Program,
    plan: &Plan,
    kept: &Kept,
    wanted: Wanted,
    launched: &Launched<'_>,
) -> Result<Needs, Unproven> {
    let func = &program.functions[&program.entry];
    let shape = Shape::new(launched).ok_or(Unproven("it has too many threads"))?;
    // Findings are those of the interpreter, which keeps variables apart where bounds are exact.
    let layout = match wanted.mem {
        true => SharedLayout::apart(program),
        false => SharedLayout::new(program),
    };
    let mut shared: Vec<(u64, u64)> = layout
        .objects
        .iter()
        .map(|&(start, size)| (start.into(), size.into()))
        .collect();
    if launched.shared > 0 {
        shared.push((layout.static_size.into(), launched.shared.into()));
    }
    let facts = Facts {
        wanted,
        shape,
        params: launched.params,
        blocks: launched.blocks,
        unwritten: launched.unwritten,
        vars: launched.vars,
        consts: consts(program, launched),
        layout,
        shared,
    };
    let mut walk = Walk::new(func, plan, &facts, kept);
    walk.run()?;
    walk.log.needs(&facts, &walk.tables, &plan.in_copies)
}

/// Variables of constant memory, by start and size.
fn consts(program: &Program, launched: &Launched<'_>) -> Vec<(u64, u64)> {
    let vars = program.vars.iter();
    let consts = vars.filter(|(_, var)| var.space == Space::Const);
    consts
        .filter_map(|(id, var)| Some((*launched.vars.get(id)?, var.size)))
        .collect()
}

impl Shape {
    /// None if there are more digits than have room.
    fn new(launched: &Launched<'_>) -> Option<Shape> {
        let mut extents = [1; DIGITS];
        let mut is_cta = [false; DIGITS];
        let mut weights = [0; DIGITS];
        let (mut next, mut weight) = (0, 1);
        let mut digit = |extent: u32, of_cta: bool, form: &mut Form, by: i64| {
            if extent > 1 {
                *extents.get_mut(next)? = extent.into();
                is_cta[next] = of_cta;
                form.c[next] = by;
                if !of_cta {
                    weights[next] = weight;
                    weight *= i64::from(extent);
                }
                next += 1;
            }
            Some(())
        };
        let (mut tid, mut ctaid) = ([Form::constant(0); 3], [Form::constant(0); 3]);
        for (&n, form) in launched.block.iter().zip(&mut tid) {
            let bits = n.trailing_zeros();
            for bit in 0..bits {
                digit(2, false, form, 1 << bit)?;
            }
            digit(n >> bits, false, form, 1 << bits)?;
        }
        for (&n, form) in launched.grid.iter().zip(&mut ctaid) {
            digit(n, true, form, 1)?;
        }
        let mut shape = Shape {
            block: launched.block,
            grid: launched.grid,
            tid,
            ctaid,
            is_cta,
            threads: u32::try_from(weight).ok()?,
            weights,
            lanes: None,
            all: Region::whole(&extents),
        };
        shape.lanes = shape.lanes();
        Some(shape)
    }
}

impl Facts<'_> {
    /// The object that holds all of a range.
    fn object(&self, is_shared: bool, min: i128, end: i128) -> Option<usize> {
        let objects = if is_shared { &self.shared } else { self.blocks };
        let at = u64::try_from(min).ok()?;
        let idx = objects
            .partition_point(|&(start, _)| start <= at)
            .checked_sub(1)?;
        let (start, size) = objects[idx];
        (end <= i128::from(start) + i128::from(size)).then_some(idx)
    }

    /// Whether accesses to a window that is only read, by offset in it, are aligned and stay in
    /// what lies there.
    fn is_readable(&self, space: Space, form: &Form, region: &Region, bytes: u32) -> bool {
        let (min, max) = region.bounds(form);
        let end = max + i128::from(bytes);
        let holds = |&(start, size): &(u64, u64)| {
            i128::from(start) <= min && end <= i128::from(start) + i128::from(size)
        };
        let is_inside = match space {
            Space::Const => self.consts.iter().any(holds),
            Space::Param => holds(&(0, self.params.len() as u64)),
            Space::Generic
            | Space::Global
            | Space::Shared
            | Space::SharedCluster
            | Space::Local => false,
        };
        is_inside && log::is_aligned(form, region, bytes)
    }

    /// The mark of an address: one more than the number of the allocation that it lies in, or 0.
    fn near(&self, addr: u64) -> u32 {
        let at = i128::from(addr);
        let idx = self.object(false, at, at);
        idx.and_then(|idx| u32::try_from(idx + 1).ok()).unwrap_or(0)
    }

    fn var_form(&self, var: VarId, offset: i64) -> Option<Form> {
        if let Some(&at) = self.layout.offsets.get(&var) {
            return Form::constant(at.into()).plus(offset.into());
        }
        let &at = self.vars.get(&var)?;
        let form = Form::constant(at.into()).plus(offset.into())?;
        Some(Form {
            near: self.near(at),
            ..form
        })
    }
}
