//! Damaged PTX: real text with lines, words and bytes changed, and text that never was PTX.

use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Result, ensure};
use ptxjit::check_text;

use super::rng::Rng;
use crate::files_below;

/// Words that mean something in PTX, to be put where they do not belong.
const WORDS: [&str; 48] = [
    ".version",
    ".target",
    ".address_size",
    ".entry",
    ".func",
    ".reg",
    ".param",
    ".global",
    ".shared",
    ".local",
    ".const",
    ".align",
    ".b8",
    ".b32",
    ".u64",
    ".f32",
    ".pred",
    ".v4",
    ".extern",
    ".visible",
    ".weak",
    ".maxntid",
    ".loc",
    ".file",
    ".section",
    ".pragma",
    ".branchtargets",
    ".callprototype",
    "bra",
    "call",
    "ret",
    "mov",
    "ld",
    "st",
    "setp",
    "@%p1",
    "%r1",
    "%rd0",
    "_",
    "0x",
    "0f3F800000",
    "1e999",
    "99999999999999999999999",
    "-",
    "{",
    "}",
    "\"",
    "/*",
];

/// Characters that lexers stumble over.
const CHARS: [&str; 24] = [
    "(", ")", "[", "]", "{", "}", ",", ";", ":", "|", "<", ">", "=", "+", "-", "\"", "'", "\\",
    "/*", "//", "\0", "\u{feff}", "é", "%",
];

/// A damaged copy of `text`.
pub fn damage(rng: &mut Rng, text: &str) -> String {
    let mut bytes = text.to_owned();
    for _ in 0..=rng.below(4) {
        bytes = step(rng, bytes);
    }
    bytes
}

fn step(rng: &mut Rng, text: String) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        return rng.pick(&WORDS).repeat(3);
    }
    let (at, other) = (rng.below(lines.len()), rng.below(lines.len()));
    match rng.below(10) {
        0 => {
            lines.remove(at);
        }
        1 => lines.insert(at, lines[other]),
        2 => lines.swap(at, other),
        3 => {
            let end = (at + rng.below(20)).min(lines.len());
            lines.drain(at..end);
        }
        4 => return cut(rng, &text),
        5 => return nest(rng, &text),
        6 | 7 => return replace_word(rng, &text),
        8 => return insert(rng, &text, &CHARS),
        _ => return insert(rng, &text, &WORDS),
    }
    lines.join("\n")
}

/// A place between two characters.
fn place(rng: &mut Rng, text: &str) -> usize {
    let mut at = rng.below(text.len() + 1);
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn cut(rng: &mut Rng, text: &str) -> String {
    let (a, b) = (place(rng, text), place(rng, text));
    let (a, b) = (a.min(b), a.max(b));
    let keep_start = rng.chance(50);
    if keep_start {
        format!("{}{}", &text[..a], &text[b..])
    } else {
        text[a..b].to_owned()
    }
}

/// Many brackets or signs in a row: recursion must have a limit.
fn nest(rng: &mut Rng, text: &str) -> String {
    let at = place(rng, text);
    let what = *rng.pick(&[
        "(", "{", "[", "-", "!", "~", "{ ", "(0 + ", "1 ? ", "%a, ", ".v4 ",
    ]);
    let n = *rng.pick(&[3, 300, 30_000]);
    format!("{}{}{}", &text[..at], what.repeat(n), &text[at..])
}

fn insert(rng: &mut Rng, text: &str, words: &[&str]) -> String {
    let at = place(rng, text);
    format!("{} {} {}", &text[..at], rng.pick(words), &text[at..])
}

/// Puts another word of the text, or one of ours, where a word is.
fn replace_word(rng: &mut Rng, text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "._%$".contains(c);
    let spans: Vec<&str> = text
        .split(|c| !is_word(c))
        .filter(|word| !word.is_empty())
        .collect();
    if spans.is_empty() {
        return text.to_owned();
    }
    let old = *rng.pick(&spans);
    let new = if rng.chance(70) {
        *rng.pick(&spans)
    } else {
        *rng.pick(&WORDS)
    };
    // Words are parts of the text, so their addresses tell where they stand.
    let at = old.as_ptr() as usize - text.as_ptr() as usize;
    format!("{}{new}{}", &text[..at], &text[at + old.len()..])
}

/// Text that was never PTX.
pub fn junk(rng: &mut Rng) -> String {
    let mut text = String::new();
    if rng.chance(70) {
        text += ".version 8.0\n.target sm_90\n.address_size 64\n";
    }
    for _ in 0..rng.below(200) {
        let word = match rng.below(3) {
            0 => *rng.pick(&CHARS),
            _ => *rng.pick(&WORDS),
        };
        text += word;
        text += *rng.pick(&["", " ", "\n"]);
    }
    text
}

/// Some changes that most PTX survives, so that what comes behind the parser is reached.
pub fn touch(rng: &mut Rng, text: &str) -> String {
    replace_word(rng, text)
}

/// Gives damaged text to `ptxjit::check_text`.
#[derive(Debug)]
pub struct Checker {
    sources: Vec<String>,
    limit: Duration,
}

/// Longer files are left out: what is wrong with one can be found with a short one.
const MAX_SOURCE: u64 = 60_000;

impl Checker {
    /// Damages the PTX files below `folders`.
    pub fn new(folders: &[PathBuf]) -> Result<Checker> {
        let mut sources = Vec::new();
        for path in folders
            .iter()
            .flat_map(|folder| files_below(folder, ".ptx"))
        {
            if path.metadata()?.len() <= MAX_SOURCE {
                sources.push(String::from_utf8_lossy(&std::fs::read(&path)?).into_owned());
            }
        }
        ensure!(!sources.is_empty(), "there is no PTX in these folders");
        Ok(Checker {
            sources,
            limit: Duration::from_secs(5),
        })
    }

    /// Allows this much time for a text.
    pub fn with_limit(self, limit: Duration) -> Checker {
        Checker { limit, ..self }
    }

    /// The text of `seed`.
    pub fn text(&self, seed: u64) -> String {
        let mut rng = Rng::new(seed);
        let source = &self.sources[rng.below(self.sources.len())];
        match rng.below(10) {
            0 => junk(&mut rng),
            1..4 => touch(&mut rng, source),
            _ => damage(&mut rng, source),
        }
    }

    /// Checks the text of `seed`; it comes back with what was wrong.
    pub fn run(&self, seed: u64) -> Result<(), (String, String)> {
        let text = self.text(seed);
        let (sender, receiver) = mpsc::channel();
        let copy = text.clone();
        // A thread, so that one that never ends can be left behind.
        let thread = std::thread::spawn(move || {
            let found = check_text("fuzz.ptx", copy);
            // Messages are drawn too: spans must lie inside the text.
            let _ = sender.send(found.to_string().len());
        });
        match receiver.recv_timeout(self.limit) {
            Ok(_) => Ok(()),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                Err((text, format!("takes more than {:?}", self.limit)))
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let panic = thread.join().err();
                let message = panic.and_then(|panic| panic.downcast_ref::<String>().cloned());
                Err((text, format!("panics: {}", message.unwrap_or_default())))
            }
        }
    }
}
