//! Encodings of 256 bits, put in the place of others that are as long.

use super::pairs::Signs;

/// What a shuffle stands for.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum StandIn {
    Join,
    Second,
    Exchange,
}

impl Signs {
    /// What a `vpalignr` stands for, by the amount that it shifts.
    pub(super) fn stands_for(self, bytes: &[u8]) -> Option<StandIn> {
        let all = [
            (self.join, StandIn::Join),
            (self.second, StandIn::Second),
            (self.exchange, StandIn::Exchange),
        ];
        let is_meant = |&(by, _): &(u8, StandIn)| bytes.last() == Some(&by);
        all.into_iter().find(is_meant).map(|(_, stand_in)| stand_in)
    }
}

impl StandIn {
    pub(super) fn encode(self, bytes: &mut [u8]) {
        match self {
            StandIn::Join => join_halves(bytes),
            StandIn::Second => take_second(bytes),
            StandIn::Exchange => exchange_quarters(bytes),
        }
    }
}

/// Makes an instruction with a VEX or EVEX prefix one of 256 bits.
pub(super) fn set_wide(bytes: &mut [u8]) {
    match bytes[0] {
        0xc5 => bytes[1] |= 0b100,
        0xc4 => bytes[2] |= 0b100,
        _ => bytes[3] |= 0b10_0000,
    }
}

/// Makes `66 [REX] 0f 6f`, `f3 [REX] 0f 6f` and the same with `7f` instructions with a VEX prefix
/// of 256 bits, which are equally long.
pub(super) fn encode_move(bytes: &mut [u8]) {
    // Of the prefixes: 1 for 66, 2 for f3.
    let prefix = if bytes[0] == 0x66 { 0b01 } else { 0b10 };
    // No further operand, 256 bits.
    let rest = 0b0111_1100 | prefix;
    if bytes[1] & 0xf0 == 0x40 {
        let rex = bytes[1];
        bytes[0] = 0xc4;
        // The bits of the registers, inverted, then the map of instructions.
        bytes[1] = (!rex & 0b111) << 5 | 1;
        bytes[2] = rest;
    } else {
        bytes[0] = 0xc5;
        bytes[1] = 0b1000_0000 | rest;
    }
}

/// Makes one instruction of 256 bits of a load, of so many bytes, and the broadcast of what was
/// loaded behind it, which Cranelift keeps apart if several instructions use it.
pub(super) fn broadcast_from_memory(code: &mut [u8], load: usize) {
    let old = code[..load].to_vec();
    // The inverted bits that extend the registers of the value and of the address, behind the
    // prefix; then what follows the opcode.
    let (extensions, operands) = match old[0] {
        0xc5 => (old[1] & 0x80 | 0x60, &old[3..]),
        _ => (old[1] & 0xe0, &old[4..]),
    };
    let len = 4 + operands.len();
    // Prefixes of segments, which mean nothing here, fill the rest: no instruction of its own.
    let (rest, new) = code.split_at_mut(code.len() - len);
    rest.fill(0x3e);
    new[..4].copy_from_slice(&[0xc4, extensions | 2, 0x7d, 0x18]);
    new[4..].copy_from_slice(operands);
}

/// Makes a `vpalignr` the `vinserti128` that joins two halves.
fn join_halves(bytes: &mut [u8]) {
    set_wide(bytes);
    bytes[3] = 0x38;
    bytes[bytes.len() - 1] = 1;
}

/// Makes `vpalignr r, x, x, n` a `vextracti128 r, x, 1`.
fn take_second(bytes: &mut [u8]) {
    let (prefix, modrm) = (bytes[1], bytes[4]);
    // The two fields for registers change places.
    let (r, b) = (prefix >> 7 & 1, prefix >> 5 & 1);
    bytes[1] = prefix & 0b0101_1111 | b << 7 | r << 5;
    bytes[2] = 0b0111_1101;
    bytes[3] = 0x39;
    bytes[4] = 0b1100_0000 | (modrm & 0b111) << 3 | modrm >> 3 & 0b111;
    bytes[5] = 1;
}

/// Makes `vpalignr r, x, x, n` a `vpermq r, x, 0b11_01_10_00`.
fn exchange_quarters(bytes: &mut [u8]) {
    bytes[2] = 0b1111_1101;
    bytes[3] = 0x00;
    bytes[5] = 0b1101_1000;
}

#[cfg(test)]
mod tests {
    use super::{broadcast_from_memory, encode_move, exchange_quarters, set_wide, take_second};

    /// Instructions before and after, as an assembler writes them.
    fn check(change: fn(&mut [u8]), before: &[u8], after: &[u8]) {
        let mut code = before.to_vec();
        change(&mut code);
        assert_eq!(code, after);
    }

    #[test]
    fn moves_get_the_later_prefix() {
        // movdqa xmm0, xmm1; movdqa xmm8, xmm9; movdqu [rsp + 0x80], xmm8.
        check(
            encode_move,
            &[0x66, 0x0f, 0x6f, 0xc1],
            &[0xc5, 0xfd, 0x6f, 0xc1],
        );
        check(
            encode_move,
            &[0x66, 0x45, 0x0f, 0x6f, 0xc1],
            &[0xc4, 0x41, 0x7d, 0x6f, 0xc1],
        );
        check(
            encode_move,
            &[0xf3, 0x44, 0x0f, 0x7f, 0x84, 0x24, 0x80, 0, 0, 0],
            &[0xc4, 0x61, 0x7e, 0x7f, 0x84, 0x24, 0x80, 0, 0, 0],
        );
    }

    #[test]
    fn scalars_are_broadcast_from_memory() {
        // vmovss xmm2, [rdi + 4]; vbroadcastss xmm2, xmm2 becomes vbroadcastss ymm2, [rdi + 4].
        check(
            |code| broadcast_from_memory(code, 5),
            &[0xc5, 0xfa, 0x10, 0x57, 0x04, 0xc4, 0xe2, 0x79, 0x18, 0xd2],
            &[0x3e, 0x3e, 0x3e, 0x3e, 0xc4, 0xe2, 0x7d, 0x18, 0x57, 0x04],
        );
        // vmovss xmm9, [r14 + r10]; vbroadcastss xmm9, xmm9 becomes vbroadcastss ymm9, [r14 + r10].
        check(
            |code| broadcast_from_memory(code, 6),
            &[
                0xc4, 0x01, 0x7a, 0x10, 0x0c, 0x16, 0xc4, 0x42, 0x79, 0x18, 0xc9,
            ],
            &[
                0x3e, 0x3e, 0x3e, 0x3e, 0x3e, 0xc4, 0x02, 0x7d, 0x18, 0x0c, 0x16,
            ],
        );
    }

    #[test]
    fn the_second_half_is_taken_out() {
        // vpalignr xmm8, xmm1, xmm1, 13 becomes vextracti128 xmm8, ymm1, 1.
        check(
            take_second,
            &[0xc4, 0x63, 0x71, 0x0f, 0xc1, 0x0d],
            &[0xc4, 0xc3, 0x7d, 0x39, 0xc8, 0x01],
        );
    }

    #[test]
    fn quarters_are_exchanged() {
        // vpalignr xmm8, xmm1, xmm1, 13 becomes vpermq ymm8, ymm1, 0xd8.
        check(
            exchange_quarters,
            &[0xc4, 0x63, 0x71, 0x0f, 0xc1, 0x0d],
            &[0xc4, 0x63, 0xfd, 0x00, 0xc1, 0xd8],
        );
    }

    #[test]
    fn prefixes_say_how_wide() {
        // vaddps xmm0, xmm1, xmm2; vpmulld xmm0, xmm1, xmm9; vpmullq xmm0, xmm1, xmm2;
        // vpmovzxbw xmm0, [r9 + rax], which becomes vpmovzxbw ymm0, [r9 + rax].
        check(
            set_wide,
            &[0xc5, 0xf0, 0x58, 0xc2],
            &[0xc5, 0xf4, 0x58, 0xc2],
        );
        check(
            set_wide,
            &[0xc4, 0xc2, 0x71, 0x40, 0xc1],
            &[0xc4, 0xc2, 0x75, 0x40, 0xc1],
        );
        check(
            set_wide,
            &[0x62, 0xf2, 0xf5, 0x08, 0x40, 0xc2],
            &[0x62, 0xf2, 0xf5, 0x28, 0x40, 0xc2],
        );
        check(
            set_wide,
            &[0xc4, 0xc2, 0x79, 0x30, 0x04, 0x01],
            &[0xc4, 0xc2, 0x7d, 0x30, 0x04, 0x01],
        );
    }
}
