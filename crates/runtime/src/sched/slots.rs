//! Reading and writing the values of waiting lanes in their context slots.

use ptxjit_codegen::Operand;
use ptxjit_ir::Type;

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
                u64::from(u32::from_ne_bytes(bytes.try_into().expect("an element of 4 bytes"))) & ty.mask()
            }
        }
    }

    /// Stores a value; of a predicate only the lowest bit counts.
    pub(crate) fn write(self, slots: &mut [u8], thread: u32, offset: u32, ty: Type, value: u64) {
        let bytes = &mut slots[self.place(thread, offset, ty)];
        match ty {
            Type::B64 => bytes.copy_from_slice(&value.to_ne_bytes()),
            Type::B1 => bytes.fill(if value & 1 != 0 { 0xff } else { 0 }),
            Type::B8 | Type::B16 | Type::B32 => bytes.copy_from_slice(&((value & ty.mask()) as u32).to_ne_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_round_trip_without_touching_neighbours() {
        let layout = SlotLayout { frame: 96, gang: 4 };
        let mut slots = vec![0u8; 96 * 2];
        for (offset, ty, value) in
            [(0, Type::B64, u64::MAX - 5), (32, Type::B32, 0x8000_0001), (48, Type::B16, 0xffff), (64, Type::B1, 1), (80, Type::B8, 0x80)]
        {
            layout.write(&mut slots, 6, offset, ty, value);
            assert_eq!(layout.read(&slots, 6, Operand::Slot { offset, ty }), value, "{ty}");
            for other in [4, 5, 7] {
                assert_eq!(layout.read(&slots, other, Operand::Slot { offset, ty }), 0, "{ty}");
            }
        }
        assert!(slots[..96].iter().all(|&byte| byte == 0));
        assert_eq!(slots[96 + 64 + 8..96 + 64 + 12], [0xff; 4]);
    }
}
