//! Permutations of boxes in shared memory. PTX ISA, "Swizzling Modes".
//!
//! Each exchanges pieces of 16 bytes (or 8) within a line of 128 bytes. Which pieces follows from
//! the line's number, counted from the start of shared memory; so a box that does not begin where
//! the pattern does is permuted by the same rule, which is what the ISA's table of base offsets
//! says.

use super::map::{Atomicity, Swizzle, SwizzleMode};

/// Bytes of a line.
pub(crate) const LINE: usize = 128;

impl Swizzle {
    /// What is exchanged in a line: a byte goes to the position whose bits differ from its own in
    /// these.
    pub(crate) fn exchange(self, line: u64) -> usize {
        let line = line as usize;
        match (self.mode, self.atomicity) {
            (SwizzleMode::None, _) => 0,
            (SwizzleMode::B32 | SwizzleMode::B96, _) => (line & 1) << 4,
            (SwizzleMode::B64, _) => (line & 3) << 4,
            (SwizzleMode::B128, Atomicity::B16) => (line & 7) << 4,
            (SwizzleMode::B128, Atomicity::B32) => (line & 3) << 5,
            (SwizzleMode::B128, Atomicity::B32Flip8) => (line & 3) << 5 | (line & 1) << 3,
            (SwizzleMode::B128, Atomicity::B64) => (line & 1) << 6,
        }
    }

    /// Permutes whole lines in place, the first of which has the number `line`. Doing so again
    /// restores them.
    pub(crate) fn permute(self, line: u64, bytes: &mut [u8]) {
        if self.mode == SwizzleMode::None {
            return;
        }
        let (lines, _) = bytes.as_chunks_mut::<LINE>();
        for (n, bytes) in lines.iter_mut().enumerate() {
            let exchange = self.exchange(line + n as u64);
            if exchange != 0 {
                permute_line(bytes, exchange);
            }
        }
    }
}

fn permute_line(line: &mut [u8; LINE], exchange: usize) {
    const HALF: usize = 8;
    let old = *line;
    let (pieces, _) = old.as_chunks::<16>();
    let (places, _) = line.as_chunks_mut::<16>();
    let flips = exchange & HALF != 0;
    for (n, piece) in pieces.iter().enumerate() {
        // The position has three bits; the mask tells the compiler so.
        let mut piece = u128::from_le_bytes(*piece);
        if flips {
            piece = piece.rotate_left(64);
        }
        places[(n ^ exchange >> 4) & 7] = piece.to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces of lines, by their numbers, as the tables of the ISA show them.
    fn pieces(name: &str, n_lines: usize) -> Vec<String> {
        let swizzle = Swizzle::from_name(name).unwrap();
        let mut bytes: Vec<u8> = (0..n_lines * LINE).map(|at| (at / 16 % 8) as u8).collect();
        swizzle.permute(0, &mut bytes);
        let line = |line: &[u8]| {
            let pieces = line.iter().step_by(16);
            pieces.map(|&piece| char::from(b'0' + piece)).collect()
        };
        bytes.chunks(LINE).map(line).collect()
    }

    #[test]
    fn tables_of_the_isa() {
        assert_eq!(pieces("none", 2), ["01234567", "01234567"]);
        assert_eq!(pieces("32B", 2), ["01234567", "10325476"]);
        assert_eq!(pieces("96B", 2), ["01234567", "10325476"]);
        let of_64 = ["01234567", "10325476", "23016745", "32107654"];
        assert_eq!(pieces("64B", 4), of_64);
        let of_128 = [
            "01234567", "10325476", "23016745", "32107654", "45670123", "54761032", "67452301",
            "76543210",
        ];
        assert_eq!(pieces("128B", 8), of_128);
        let atoms_of_32 = ["01234567", "23016745", "45670123", "67452301"];
        assert_eq!(pieces("128B_ATOM_32B", 4), atoms_of_32);
        assert_eq!(pieces("128B_ATOM_64B", 2), ["01234567", "45670123"]);
    }

    #[test]
    fn halves_are_flipped_in_every_other_line() {
        let swizzle = Swizzle::from_name("128B_ATOM_32B_FLIP_8B").unwrap();
        let mut bytes: Vec<u8> = (0..2 * LINE).map(|at| (at / 8) as u8).collect();
        swizzle.permute(0, &mut bytes);
        let halves: Vec<u8> = bytes.iter().step_by(8).copied().collect();
        assert_eq!(halves[..16], (0..16).collect::<Vec<u8>>());
        assert_eq!(
            halves[16..],
            [
                21, 20, 23, 22, 17, 16, 19, 18, 29, 28, 31, 30, 25, 24, 27, 26
            ]
        );
    }

    #[test]
    fn a_permutation_undoes_itself() {
        for (swizzle, name) in Swizzle::ALL {
            let linear: Vec<u8> = (0..8 * LINE).map(|at| (at * 7 / 5) as u8).collect();
            let mut bytes = linear.clone();
            swizzle.permute(3, &mut bytes);
            swizzle.permute(3, &mut bytes);
            assert_eq!(bytes, linear, "{name}");
        }
    }
}
