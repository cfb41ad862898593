//! Reading and writing the values of waiting lanes in their context slots.

use ptxjit_abi::Operand;
use ptxjit_ir::Type;

use ptxjit_abi::warp_ops::{Lanes, WARP};

/// Where slots lie.
#[derive(Copy, Clone, Debug)]
pub(crate) struct SlotLayout {
    /// Bytes of a gang's frame.
    pub(crate) frame: u32,
    /// Lanes of a gang.
    pub(crate) gang: u32,
}

/// Bytes of one lane's element.
fn element(ty: Type) -> usize {
    match ty {
        Type::B64 => 8,
        Type::B1 | Type::B8 | Type::B16 | Type::B32 => 4,
    }
}

impl SlotLayout {
    /// Where the element of a thread lies.
    fn place(self, thread: u32, offset: u32, ty: Type) -> std::ops::Range<usize> {
        let size = element(ty);
        let frame = (thread / self.gang) as usize * self.frame as usize;
        let start = frame + offset as usize + (thread % self.gang) as usize * size;
        start..start + size
    }

    /// The bytes of one thread's element.
    pub(crate) fn bytes(self, slots: &[u8], thread: u32, offset: u32, ty: Type) -> &[u8] {
        &slots[self.place(thread, offset, ty)]
    }

    /// A value; a predicate is 0 or 1.
    pub(crate) fn read(self, slots: &[u8], thread: u32, operand: Operand) -> u64 {
        let (offset, ty) = match operand {
            Operand::Const(value) => return value,
            Operand::Slot { offset, ty } => (offset, ty),
        };
        let bytes = self.bytes(slots, thread, offset, ty);
        match ty {
            Type::B64 => u64::from_ne_bytes(bytes.try_into().expect("an element of 8 bytes")),
            Type::B1 => u64::from(bytes.iter().any(|&byte| byte != 0)),
            Type::B8 | Type::B16 | Type::B32 => {
                u64::from(u32::from_ne_bytes(
                    bytes.try_into().expect("an element of 4 bytes"),
                )) & ty.mask()
            }
        }
    }

    /// Which lanes of the gang that starts at `first_thread` hold the same value as lane `lane`.
    /// The element of a lane that is not waiting is arbitrary.
    pub(crate) fn equal_lanes(
        self,
        slots: &[u8],
        first_thread: u32,
        offset: u32,
        ty: Type,
        lane: usize,
    ) -> u32 {
        let (gang, size) = (self.gang as usize, element(ty));
        let start = (first_thread / self.gang * self.frame + offset) as usize;
        let bytes = &slots[start..start + gang * size];
        let bits = |equal: &mut dyn Iterator<Item = bool>| {
            equal
                .enumerate()
                .fold(0, |mask, (lane, equal)| mask | u32::from(equal) << lane)
        };
        if size == 4 {
            let word = |lane: &[u8]| u32::from_ne_bytes([lane[0], lane[1], lane[2], lane[3]]);
            let wanted = word(&bytes[lane * 4..]);
            return bits(&mut bytes.chunks_exact(4).map(|lane| word(lane) == wanted));
        }
        let wanted = &bytes[lane * size..][..size];
        bits(&mut bytes.chunks_exact(size).map(|lane| lane == wanted))
    }

    /// Gives the lanes of `mask` in a gang the element of the first of them.
    pub(crate) fn spread(
        self,
        slots: &mut [u8],
        first_thread: u32,
        mask: u32,
        (offset, ty): (u32, Type),
    ) {
        let first = self.place(first_thread + mask.trailing_zeros(), offset, ty);
        for lane in ptxjit_abi::warp_ops::lanes(mask) {
            let to = self.place(first_thread + lane, offset, ty);
            slots.copy_within(first.clone(), to.start);
        }
    }

    /// The values of a warp's lanes. What lanes that are not waiting get is arbitrary.
    pub(crate) fn gather(self, slots: &[u8], warp: usize, operand: Operand) -> Lanes {
        let (offset, ty) = match operand {
            Operand::Const(value) => return [value; WARP],
            Operand::Slot { offset, ty } => (offset, ty),
        };
        let mut values = [0; WARP];
        let (gang, size) = (self.gang as usize, element(ty));
        for (idx, values) in values.chunks_exact_mut(gang).enumerate() {
            let start = (warp * WARP / gang + idx) * self.frame as usize + offset as usize;
            // The last warp may have fewer gangs.
            let Some(bytes) = slots.get(start..start + gang * size) else {
                break;
            };
            for (value, bytes) in values.iter_mut().zip(bytes.chunks_exact(size)) {
                let word = |bytes: &[u8]| {
                    u64::from(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
                };
                *value = match ty {
                    Type::B64 => word(bytes) | word(&bytes[4..]) << 32,
                    Type::B1 => u64::from(word(bytes) != 0),
                    Type::B8 | Type::B16 | Type::B32 => word(bytes) & ty.mask(),
                };
            }
        }
        values
    }

    /// Stores the values of the lanes of `group`.
    pub(crate) fn scatter(
        self,
        slots: &mut [u8],
        warp: usize,
        group: u32,
        (offset, ty): (u32, Type),
        values: &Lanes,
    ) {
        if group != u32::MAX || ty == Type::B64 {
            for lane in ptxjit_abi::warp_ops::lanes(group) {
                self.write(
                    slots,
                    (warp * WARP) as u32 + lane,
                    offset,
                    ty,
                    values[lane as usize],
                );
            }
            return;
        }
        let gang = self.gang as usize;
        for (idx, values) in values.chunks_exact(gang).enumerate() {
            let start = (warp * WARP / gang + idx) * self.frame as usize + offset as usize;
            for (bytes, &value) in slots[start..start + gang * 4]
                .chunks_exact_mut(4)
                .zip(values)
            {
                let word = match ty {
                    Type::B1 => ((value & 1) as u32).wrapping_neg(),
                    Type::B8 | Type::B16 | Type::B32 | Type::B64 => (value & ty.mask()) as u32,
                };
                bytes.copy_from_slice(&word.to_ne_bytes());
            }
        }
    }

    /// Stores a value; of a predicate only the lowest bit counts.
    pub(crate) fn write(self, slots: &mut [u8], thread: u32, offset: u32, ty: Type, value: u64) {
        let bytes = &mut slots[self.place(thread, offset, ty)];
        match ty {
            Type::B64 => bytes.copy_from_slice(&value.to_ne_bytes()),
            Type::B1 => bytes.fill(if value & 1 != 0 { 0xff } else { 0 }),
            Type::B8 | Type::B16 | Type::B32 => {
                bytes.copy_from_slice(&((value & ty.mask()) as u32).to_ne_bytes())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_warps_agree_with_single_lanes() {
        for gang in [1, 4, 8, 16, 32] {
            let layout = SlotLayout {
                frame: gang * 16,
                gang,
            };
            for (ty, group) in [Type::B1, Type::B16, Type::B32, Type::B64]
                .into_iter()
                .flat_map(|ty| [(ty, u32::MAX), (ty, 0x0f0f_3001)])
            {
                let values: Lanes = std::array::from_fn(|lane| {
                    (lane as u64).wrapping_mul(0x1234_5678_9abc_def1) & ty.mask()
                });
                let (mut whole, mut single) = (vec![0x55; 64 * 16], vec![0x55; 64 * 16]);
                layout.scatter(&mut whole, 1, group, (gang * 4, ty), &values);
                for lane in ptxjit_abi::warp_ops::lanes(group) {
                    layout.write(&mut single, 32 + lane, gang * 4, ty, values[lane as usize]);
                }
                assert_eq!(whole, single, "gang {gang} {ty}");
                let operand = Operand::Slot {
                    offset: gang * 4,
                    ty,
                };
                let gathered = layout.gather(&whole, 1, operand);
                for lane in 0..32 {
                    assert_eq!(
                        gathered[lane as usize],
                        layout.read(&whole, 32 + lane, operand),
                        "gang {gang} {ty}"
                    );
                }
            }
        }
    }

    #[test]
    fn values_round_trip_without_touching_neighbours() {
        let layout = SlotLayout { frame: 96, gang: 4 };
        let mut slots = vec![0u8; 96 * 2];
        for (offset, ty, value) in [
            (0, Type::B64, u64::MAX - 5),
            (32, Type::B32, 0x8000_0001),
            (48, Type::B16, 0xffff),
            (64, Type::B1, 1),
            (80, Type::B8, 0x80),
        ] {
            layout.write(&mut slots, 6, offset, ty, value);
            assert_eq!(
                layout.read(&slots, 6, Operand::Slot { offset, ty }),
                value,
                "{ty}"
            );
            for other in [4, 5, 7] {
                assert_eq!(
                    layout.read(&slots, other, Operand::Slot { offset, ty }),
                    0,
                    "{ty}"
                );
            }
        }
        assert!(slots[..96].iter().all(|&byte| byte == 0));
        let gathered = layout.gather(
            &slots,
            0,
            Operand::Slot {
                offset: 32,
                ty: Type::B32,
            },
        );
        assert_eq!((gathered[5], gathered[6], gathered[8]), (0, 0x8000_0001, 0));
        assert_eq!(slots[96 + 64 + 8..96 + 64 + 12], [0xff; 4]);
    }
}
