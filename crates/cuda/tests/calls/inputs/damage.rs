//! Damage: to bytes of images, and to words of PTX.

use crate::images::PTX;
use crate::rng::Rng;

/// Words of PTX that change what a text means, put where they do not belong.
const WORDS: &[&str] = &[
    ".extern",
    ".visible",
    ".weak",
    ".common",
    ".global",
    ".const",
    ".shared",
    ".local",
    ".param",
    ".func",
    ".entry",
    ".align",
    ".b8",
    ".u64",
    ".f64",
    ".texref",
    ".noreturn",
    ".maxntid",
    ".alias",
    ".section",
    ".file",
    ".loc",
    ".version",
    ".target",
    ".address_size",
    ".attribute(.managed)",
    ".reqnctapercluster",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ",",
    ";",
    "=",
    "<",
    ">",
    "call",
    "ret",
    "bra",
    "bar.sync",
    "trap",
    "sm_90",
    "sm_10",
    "9.9",
    "/*",
    "//",
    "\"",
    "\n",
    "@",
    "generic(numbers)",
];

/// Numbers at limits of sizes, counts and alignments.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "3",
    "7",
    "128",
    "1025",
    "65536",
    "2147483648",
    "4294967296",
    "0x7fffffffffffffff",
    "18446744073709551615",
    "99999999999999999999",
    "0d7ff8000000000001",
];

/// Words that stand for 32 bits of a header.
const EXTREMES: [u32; 10] = [
    0,
    1,
    16,
    0x7f,
    0xff,
    0xffff,
    1 << 28,
    0x7fff_ffff,
    0x8000_0000,
    u32::MAX,
];

/// Some bytes less, more, or others: half of them in the first 160, where headers are.
pub(super) fn bytes(image: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..=rng.below(4) {
        if image.is_empty() {
            return;
        }
        let range = if rng.chance(50) { 160 } else { image.len() };
        let at = rng.below(range.min(image.len()));
        match rng.below(7) {
            0 => image[at] ^= 1 << rng.below(8),
            1 => image[at] = rng.next() as u8,
            2 | 3 => {
                let at = at & !3;
                let word = rng.pick(&EXTREMES).to_le_bytes();
                let len = word.len().min(image.len() - at);
                image[at..at + len].copy_from_slice(&word[..len]);
            }
            4 => image.truncate(at),
            5 => {
                let end = at + rng.below(64).min(image.len() - at);
                image.extend_from_within(at..end);
            }
            _ => {
                let end = at + rng.below(16).min(image.len() - at);
                image.drain(at..end);
            }
        }
    }
}

/// Words taken away, doubled, exchanged or replaced.
pub(super) fn text(ptx: &str, rng: &mut Rng) -> String {
    let mut words = words(ptx);
    for _ in 0..=rng.below(4) {
        let [at, other] = [(); 2].map(|()| rng.below(words.len()));
        match rng.below(7) {
            0 if words.len() > 1 => _ = words.remove(at),
            1 => words.insert(at, words[other]),
            2 => words.swap(at, other),
            3 => words[at] = rng.pick(WORDS),
            4 => words.insert(at, rng.pick(WORDS)),
            _ => {
                let is_number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
                let mut numbers = words.iter_mut().filter(|word| is_number(word));
                if let Some(number) = numbers.nth(rng.below(40)) {
                    *number = rng.pick(NUMBERS);
                }
            }
        }
    }
    words.concat()
}

/// Names and numbers, and single other characters.
fn words(text: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_$%.".contains(c);
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let len = match rest.find(|c| !is_name(c)) {
            Some(0) => first.len_utf8(),
            Some(len) => len,
            None => rest.len(),
        };
        let (word, after) = rest.split_at(len);
        words.push(word);
        rest = after;
    }
    words
}

/// The text of the module that all fuzzers load, damaged or not.
pub(super) fn module(is_damaged: bool, rng: &mut Rng) -> String {
    match is_damaged {
        true => text(PTX, rng),
        false => PTX.to_owned(),
    }
}
