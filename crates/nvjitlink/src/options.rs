//! The options of `nvJitLinkCreate`.

use ptxjit_image::{Capability, Suffix};

use crate::linker::Status;

/// Options without a value that change machine code, or say what ours never does.
const IGNORED: &[&str] = &[
    "-g",
    "-lineinfo",
    "-lto",
    "-no-cache",
    "-optimize-unused-variables",
    "-r",
    "-time",
    "-verbose",
];

/// Options of the form `-name=value`, likewise.
const IGNORED_WITH_VALUE: &[&str] = &[
    "-Xnvvm",
    "-Xptxas",
    "-device-stack-protector",
    "-fma",
    "-ftz",
    "-jump-table-density",
    "-kernels-used",
    "-maxrregcount",
    "-prec-div",
    "-prec-sqrt",
    "-split-compile",
    "-split-compile-extended",
    "-variables-used",
];

/// What the options say that matters here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Options {
    /// Of `-arch`.
    pub capability: Capability,
    /// Whether PTX is wanted as a result: `-ptx`.
    pub wants_ptx: bool,
}

impl Options {
    /// Reads the options; a failure has a line for the error log.
    pub(crate) fn parse(words: &[String]) -> Result<Options, (Status, String)> {
        let mut capability = None;
        let mut wants_ptx = false;
        for word in words {
            match word.split_once('=') {
                Some(("-arch", arch)) => capability = Some(parse_arch(arch)?),
                Some((name, _)) if IGNORED_WITH_VALUE.contains(&name) => {}
                None if word == "-ptx" => wants_ptx = true,
                None if IGNORED.contains(&word.as_str()) || is_level(word) => {}
                Some(_) | None => {
                    let text = format!("unrecognized option `{word}`");
                    return Err((Status::UnrecognizedOption, text));
                }
            }
        }
        let missing = || {
            (
                Status::MissingArch,
                "option `-arch=sm_NN` is missing".to_owned(),
            )
        };
        Ok(Options {
            capability: capability.ok_or_else(missing)?,
            wants_ptx,
        })
    }
}

/// `-O0` to `-O3`
fn is_level(word: &str) -> bool {
    matches!(word, "-O0" | "-O1" | "-O2" | "-O3")
}

/// `sm_80`, `compute_90a`
fn parse_arch(arch: &str) -> Result<Capability, (Status, String)> {
    let wrong = || {
        let text = format!("`{arch}` of option `-arch` is no architecture such as `sm_80`");
        (Status::UnrecognizedArch, text)
    };
    let number = ["sm_", "compute_", "lto_"]
        .iter()
        .find_map(|prefix| arch.strip_prefix(prefix));
    let number = number.ok_or_else(wrong)?;
    // A letter allows more instructions, which are not looked at here.
    let letters = [Suffix::Specific.letter(), Suffix::Family.letter()];
    let number = letters
        .iter()
        .find_map(|letter| number.strip_suffix(letter))
        .unwrap_or(number);
    let sm = number.parse().map_err(|_| wrong())?;
    Ok(Capability::from_sm(sm))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Options, Status> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        Options::parse(&words).map_err(|(status, _)| status)
    }

    #[test]
    fn options() {
        let words = [
            "-arch=sm_90a",
            "-O3",
            "-lto",
            "-ptx",
            "-maxrregcount=32",
            "-time",
            "-Xptxas=-v",
        ];
        let options = parse(&words).unwrap();
        assert_eq!(options.capability, Capability::from_sm(90));
        assert!(options.wants_ptx);
        assert_eq!(parse(&["-O3"]), Err(Status::MissingArch));
        assert_eq!(
            parse(&["-arch=sm_80", "-O4"]),
            Err(Status::UnrecognizedOption)
        );
        assert_eq!(
            parse(&["-arch=sm_80", "nonsense"]),
            Err(Status::UnrecognizedOption)
        );
        assert_eq!(parse(&["-arch=ampere"]), Err(Status::UnrecognizedArch));
        assert_eq!(parse(&["-arch=sm_"]), Err(Status::UnrecognizedArch));
    }
}
