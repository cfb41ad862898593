//! What a random kernel is launched with: its shape, its data, and the line of a file that says so.

use anyhow::{Context, Result, ensure};
use ptxjit::Dim3;

use super::rng::Rng;

/// Bytes that the kernel reads at random.
const INPUT_BYTES: usize = 4096;

/// Floats that the kernel reads.
const INPUT_FLOATS: usize = 1024;

/// A launch of the kernel `k` of a random program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads per block.
    pub block: [u32; 3],
    /// What the contents of the buffers are drawn from.
    pub data: u64,
}

/// How the bytes of a buffer are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Bit for bit.
    Bits,
    /// Floats of this many bytes, whose NaNs are all alike.
    Floats(usize),
}

/// A buffer argument before the launch.
#[derive(Clone, Debug)]
pub struct Input {
    /// Name of the parameter.
    pub name: &'static str,
    /// What is in it.
    pub bytes: Vec<u8>,
    /// How it is compared afterwards.
    pub contents: Contents,
}

impl Case {
    /// The launch for this seed.
    pub fn random(seed: u64) -> Case {
        const BLOCKS: [[u32; 3]; 16] = [
            [32, 1, 1],
            [64, 1, 1],
            [33, 1, 1],
            [7, 1, 1],
            [1, 1, 1],
            [48, 1, 1],
            [70, 1, 1],
            [96, 1, 1],
            [128, 1, 1],
            [8, 8, 1],
            [16, 2, 1],
            [5, 7, 1],
            [4, 4, 3],
            [3, 5, 5],
            [32, 2, 1],
            [40, 2, 1],
        ];
        const GRIDS: [[u32; 3]; 5] = [[1, 1, 1], [1, 1, 1], [2, 1, 1], [3, 1, 1], [2, 2, 1]];
        let mut rng = Rng::new(seed ^ 0x5eed);
        Case {
            grid: *rng.pick(&GRIDS),
            block: *rng.pick(&BLOCKS),
            data: rng.next() % 1_000_000,
        }
    }

    /// The line that [`Case::parse`] finds in a file.
    pub fn line(&self) -> String {
        let dims = |d: [u32; 3]| format!("{},{},{}", d[0], d[1], d[2]);
        format!(
            "// fuzz: grid={} block={} data={}",
            dims(self.grid),
            dims(self.block),
            self.data
        )
    }

    /// The launch that a file names.
    pub fn parse(text: &str) -> Result<Case> {
        let line = text.lines().find_map(|line| line.strip_prefix("// fuzz:"));
        let mut case = Case {
            grid: [1; 3],
            block: [1; 3],
            data: 0,
        };
        for word in line
            .context("no line begins with `// fuzz:`")?
            .split_whitespace()
        {
            let (key, value) = word.split_once('=').context("expected `key=value`")?;
            match key {
                "grid" => case.grid = dims(value)?,
                "block" => case.block = dims(value)?,
                "data" => case.data = value.parse()?,
                _ => anyhow::bail!("`{key}` is not known"),
            }
        }
        Ok(case)
    }

    /// Threads of the grid.
    pub fn threads(&self) -> usize {
        (Dim3(self.grid).count() * Dim3(self.block).count()) as usize
    }

    /// The buffers in the order of the parameters.
    pub fn inputs(&self) -> Vec<Input> {
        let n = self.threads();
        let mut rng = Rng::new(self.data);
        let input = (0..INPUT_BYTES / 4)
            .flat_map(|_| (rng.integer() as i32).to_le_bytes())
            .collect();
        let floats = (0..INPUT_FLOATS)
            .flat_map(|_| rng.float_bits().to_le_bytes())
            .collect();
        // The first counters begin anywhere, the others with zero.
        let counters = (0..64u64)
            .flat_map(|idx| if idx < 40 { rng.next() } else { 0 }.to_le_bytes())
            .collect();
        let bits = |name, bytes| Input {
            name,
            bytes,
            contents: Contents::Bits,
        };
        let per_thread = |name, bytes: usize, contents| Input {
            name,
            bytes: vec![0; bytes * n],
            contents,
        };
        vec![
            bits("in", input),
            Input {
                name: "fin",
                bytes: floats,
                contents: Contents::Floats(4),
            },
            per_thread("own", 128, Contents::Bits),
            per_thread("fown", 64, Contents::Floats(4)),
            per_thread("gown", 64, Contents::Floats(8)),
            per_thread("soa", 112, Contents::Bits),
            per_thread("outi", 76, Contents::Bits),
            per_thread("outf", 24, Contents::Floats(4)),
            per_thread("outg", 24, Contents::Floats(8)),
            per_thread("outq", 16, Contents::Floats(2)),
            bits("acc", counters),
        ]
    }

    /// The scalar arguments behind the buffers: a number, a float, and an array.
    pub fn scalars(&self) -> (u32, f32, Vec<u8>) {
        let mut rng = Rng::new(self.data ^ 0xa5a5);
        let array = (0..8)
            .flat_map(|_| (rng.integer() as i32).to_le_bytes())
            .collect();
        (
            rng.below(8) as u32,
            rng.below(100) as f32 / 4.0 - 10.0,
            array,
        )
    }
}

fn dims(text: &str) -> Result<[u32; 3]> {
    let values = text
        .split(',')
        .map(str::parse)
        .collect::<Result<Vec<u32>, _>>()?;
    ensure!(values.len() == 3, "expected three numbers");
    Ok([values[0], values[1], values[2]])
}

/// The first difference between two results, if there is one.
pub fn difference(inputs: &[Input], want: &[Vec<u8>], got: &[Vec<u8>]) -> Option<String> {
    for ((input, want), got) in inputs.iter().zip(want).zip(got) {
        let size = match input.contents {
            Contents::Bits => 4,
            Contents::Floats(size) => size,
        };
        for (idx, (a, b)) in want.chunks(size).zip(got.chunks(size)).enumerate() {
            let both_nan = input.contents != Contents::Bits && is_nan(a) && is_nan(b);
            if a != b && !both_nan {
                let hex = |bytes: &[u8]| {
                    bytes
                        .iter()
                        .rev()
                        .map(|byte| format!("{byte:02x}"))
                        .collect::<String>()
                };
                return Some(format!(
                    "{}[byte {}]: {} expected, {} computed",
                    input.name,
                    idx * size,
                    hex(a),
                    hex(b)
                ));
            }
        }
    }
    None
}

fn is_nan(bytes: &[u8]) -> bool {
    match *bytes {
        [a, b] => u16::from_le_bytes([a, b]) & 0x7fff > 0x7c00,
        [a, b, c, d] => f32::from_le_bytes([a, b, c, d]).is_nan(),
        [a, b, c, d, e, f, g, h] => f64::from_le_bytes([a, b, c, d, e, f, g, h]).is_nan(),
        _ => false,
    }
}
