//! What instructions access in memory.

use crate::entities::Value;
use crate::inst::InstData;
use crate::types::Space;

/// What a load or a store accesses: so many bytes from `addr + offset` on.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    /// The state space.
    pub space: Space,
    /// The address.
    pub addr: Value,
    /// Bytes that are added to it.
    pub offset: i32,
    /// Bytes of all elements together.
    pub bytes: u32,
}

impl InstData {
    /// The address of an access or a prefetch.
    pub const fn address(&self) -> Option<Value> {
        if let InstData::Load { addr, .. }
        | InstData::MaskedLoad { addr, .. }
        | InstData::Store { addr, .. }
        | InstData::Atomic { addr, .. }
        | InstData::Prefetch { addr, .. } = *self
        {
            Some(addr)
        } else {
            None
        }
    }

    /// What a load or a store accesses.
    #[expect(clippy::wildcard_enum_match_arm, reason = "others are neither")]
    pub fn access(&self) -> Option<Access> {
        let (space, addr, offset, ty, n) = match *self {
            InstData::Load {
                space,
                addr,
                offset,
                ty,
                n,
                ..
            } => (space, addr, offset, ty, u32::from(n)),
            InstData::MaskedLoad {
                space,
                addr,
                offset,
                ty,
                ..
            } => (space, addr, offset, ty, 1),
            InstData::Store {
                space,
                addr,
                offset,
                ty,
                ref args,
                ..
            } => (space, addr, offset, ty, args.len() as u32),
            _ => return None,
        };
        let bytes = ty.bytes() * n;
        Some(Access {
            space,
            addr,
            offset,
            bytes,
        })
    }
}
