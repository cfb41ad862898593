//! Suppressions: findings that are known, one per line of a text.
//!
//! `KIND [kernel=GLOB] [function=GLOB] [source=GLOB[:A-B]] [object=GLOB]`; `#` begins a comment.
//! All fields that are given must match one access of the finding.

use std::str::FromStr;

use crate::sanitize::{Finding, FindingKind, SourcePlace};

/// One line.
#[derive(Clone, Debug)]
pub struct Suppression {
    text: String,
    kind: String,
    kernel: Option<String>,
    source: Option<(String, Option<(u32, u32)>)>,
    object: Option<String>,
}

impl FromStr for Suppression {
    type Err = String;

    fn from_str(line: &str) -> Result<Suppression, String> {
        let mut words = line.split_whitespace();
        let kind = words.next().unwrap_or("").to_owned();
        if !FindingKind::ALL.iter().any(|known| known.name() == kind) {
            return Err(format!("`{kind}` is no kind of finding"));
        }
        let mut suppression = Suppression {
            text: line.to_owned(),
            kind,
            kernel: None,
            source: None,
            object: None,
        };
        for word in words {
            let Some((field, value)) = word.split_once('=') else {
                return Err(format!("`{word}` is none of {FIELDS}"));
            };
            match field {
                // Kernels are the functions that are known by name.
                "kernel" | "function" => suppression.kernel = Some(value.to_owned()),
                "object" => suppression.object = Some(value.to_owned()),
                "source" => suppression.source = Some(source(value)?),
                other => return Err(format!("`{other}=` is none of {FIELDS}")),
            }
        }
        Ok(suppression)
    }
}

const FIELDS: &str = "kernel=, function=, source=, object=";

fn source(value: &str) -> Result<(String, Option<(u32, u32)>), String> {
    let Some((file, lines)) = value.rsplit_once(':') else {
        return Ok((value.to_owned(), None));
    };
    let (first, last) = lines.split_once('-').unwrap_or((lines, lines));
    let number = |text: &str| {
        let parsed = text.parse::<u32>();
        parsed.map_err(|_| format!("`{text}` is no line"))
    };
    Ok((file.to_owned(), Some((number(first)?, number(last)?))))
}

impl Suppression {
    /// Reads the lines of a text; an error names its line.
    pub fn parse_all(text: &str) -> Result<Vec<Suppression>, String> {
        let lines = text.lines().enumerate().map(|(idx, line)| {
            let line = line.split('#').next().unwrap_or("").trim();
            (idx + 1, line)
        });
        let lines = lines.filter(|(_, line)| !line.is_empty());
        lines
            .map(|(number, line)| line.parse().map_err(|why| format!("line {number}: {why}")))
            .collect()
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the finding is meant.
    pub fn matches(&self, finding: &Finding) -> bool {
        let is_kind = self.kind == finding.kind.name();
        let fits = |glob: &Option<String>, text: &str| {
            glob.as_ref().is_none_or(|glob| matches_glob(glob, text))
        };
        let object = finding.object.as_ref().map_or("", |object| &object.name);
        let at = |place: &SourcePlace| match &self.source {
            None => true,
            Some((file, lines)) => {
                let name = place.file.rsplit('/').next().unwrap_or("");
                let is_file = matches_glob(file, &place.file) || matches_glob(file, name);
                is_file && lines.is_none_or(|(first, last)| (first..=last).contains(&place.line))
            }
        };
        let mut accesses = finding.accesses.iter();
        let is_there = self.source.is_none()
            || accesses.any(|access| access.stack.iter().chain([&access.ptx]).any(at));
        is_kind && fits(&self.kernel, &finding.kernel) && fits(&self.object, object) && is_there
    }
}

/// `*` stands for any text, `?` for any character.
fn matches_glob(glob: &str, text: &str) -> bool {
    let mut rest = text.chars();
    let mut pattern = glob.chars();
    loop {
        match pattern.next() {
            None => return rest.next().is_none(),
            Some('*') => {
                let tail = pattern.as_str();
                let text = rest.as_str();
                let starts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
                return starts.into_iter().any(|at| matches_glob(tail, &text[at..]));
            }
            Some('?') => {
                if rest.next().is_none() {
                    return false;
                }
            }
            Some(c) => {
                if rest.next() != Some(c) {
                    return false;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        for (glob, text, fits) in [
            ("*", "", true),
            ("red*", "reduce", true),
            ("*duce", "reduce", true),
            ("r?duce", "reduce", true),
            ("r*d*e", "reduce", true),
            ("red", "reduce", false),
            ("*x*", "reduce", false),
            ("?", "", false),
        ] {
            assert_eq!(matches_glob(glob, text), fits, "{glob} {text}");
        }
    }

    #[test]
    fn broken_lines_are_refused_with_the_reason() {
        let message = |line: &str| line.parse::<Suppression>().unwrap_err();
        assert!(message("races").contains("`races` is no kind of finding"));
        assert!(message("race kernel").contains("`kernel` is none of"));
        assert!(message("race source=a.cu:x").contains("`x` is no line"));
        assert!(
            "race kernel=k source=a.cu:3-5 object=s"
                .parse::<Suppression>()
                .is_ok()
        );
    }
}
