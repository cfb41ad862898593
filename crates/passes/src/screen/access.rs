//! The accesses of a program to memory that threads share.

use ptxjit_ir::{Function, InstData, Program, Space, Value};

use super::instrument::Sites;

/// What the accesses of a function that have tags have in common.
#[derive(Copy, Clone)]
pub(super) struct Facts {
    pub(super) granule: u32,
    /// Something is written.
    pub(super) writes: bool,
    pub(super) atomics: bool,
    /// There are such accesses.
    pub(super) has_tags: bool,
    /// Generic addresses may be those of windows.
    pub(super) windows: bool,
}

/// Whether a function writes memory that threads share.
pub(super) fn writes(func: &Function) -> bool {
    let insts = func.blocks.values().flat_map(|block| &block.insts);
    let mut accesses = insts.filter_map(|&inst| Access::of(func, &func.insts[inst].data));
    accesses.any(|access| access.kind != Kind::Load)
}

impl Facts {
    pub(super) fn of(program: &Program, func: &Function, sites: &Sites) -> Facts {
        let has_shared = program.vars.values().any(|var| var.space == Space::Shared);
        let mut facts = Facts {
            granule: 4,
            writes: false,
            atomics: false,
            has_tags: false,
            windows: has_shared || !func.slots.is_empty(),
        };
        for &inst in func.blocks.values().flat_map(|block| &block.insts) {
            let data = &func.insts[inst].data;
            facts.windows |= matches!(data, InstData::ToGeneric { .. });
            let Some(access) = Access::of(func, data) else {
                continue;
            };
            let need = sites.needs.get(&inst);
            if need.is_none_or(|need| !need.race && !need.init && !need.note) {
                continue;
            }
            facts.has_tags = true;
            facts.granule = facts.granule.min(access.bytes);
            facts.writes |= access.kind != Kind::Load;
            facts.atomics |= access.kind == Kind::Atomic;
        }
        facts
    }
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Load,
    Store,
    Atomic,
}

/// An access to memory that threads share.
#[derive(Copy, Clone)]
pub(super) struct Access {
    pub(super) kind: Kind,
    pub(super) space: Space,
    pub(super) addr: Value,
    pub(super) offset: i32,
    pub(super) bytes: u32,
}

impl Access {
    pub(super) fn of(func: &Function, data: &InstData) -> Option<Access> {
        let (kind, space, addr, offset, bytes) = if let InstData::Load {
            space,
            ty,
            n,
            addr,
            offset,
            ..
        } = *data
        {
            (Kind::Load, space, addr, offset, ty.bytes() * u32::from(n))
        } else if let InstData::Store {
            space,
            addr,
            offset,
            ref args,
            ..
        } = *data
        {
            let bytes = args.iter().map(|&arg| func.ty(arg).bytes()).sum();
            (Kind::Store, space, addr, offset, bytes)
        } else if let InstData::Atomic {
            space,
            addr,
            offset,
            fmt,
            ..
        } = *data
        {
            (Kind::Atomic, space, addr, offset, fmt.ty().bytes())
        } else {
            return None;
        };
        let is_common = matches!(space, Space::Generic | Space::Global | Space::Shared);
        is_common.then_some(Access {
            kind,
            space,
            addr,
            offset,
            bytes,
        })
    }
}
