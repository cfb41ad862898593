//! The header of a NumPy file: a Python dictionary with the keys `descr`, `fortran_order` and
//! `shape`.
//!
//! NumPy evaluates it as a Python literal, and then checks keys and types. What is accepted here is
//! a part of what NumPy accepts: all that it and other writers are known to write, and nothing that
//! it refuses.

use anyhow::{Context, Result, anyhow, bail, ensure};

/// Characters that NumPy's reader takes at most.
const MOST_CHARS: usize = 10_000;

/// Dimensions that an array of NumPy's can have.
const MOST_DIMS: usize = 64;

/// What a header says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) descr: String,
    pub(crate) is_fortran: bool,
    pub(crate) shape: Vec<usize>,
}

/// Splits a file into version, header and data. None if it does not have all of the header.
pub(crate) fn split(file: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let rest = file.strip_prefix(b"\x93NUMPY")?;
    let (&[major, minor], rest) = rest.split_first_chunk::<2>()?;
    let (len, rest) = match (major, minor) {
        (1, 0) => {
            let (len, rest) = rest.split_first_chunk::<2>()?;
            (usize::from(u16::from_le_bytes(*len)), rest)
        }
        (2 | 3, 0) => {
            let (len, rest) = rest.split_first_chunk::<4>()?;
            (u32::from_le_bytes(*len) as usize, rest)
        }
        _ => return None,
    };
    let (header, data) = rest.split_at_checked(len)?;
    Some((major, header, data))
}

/// Reads the header of a file of version `major`.
pub(crate) fn parse(major: u8, header: &[u8]) -> Result<Header> {
    let text: String = match major {
        // Latin-1, whose bytes are the first characters of Unicode.
        1 | 2 => header.iter().map(|&byte| char::from(byte)).collect(),
        _ => String::from_utf8(header.to_vec()).context("the header is not UTF-8")?,
    };
    ensure!(
        text.chars().count() <= MOST_CHARS,
        "the header has more than {MOST_CHARS} characters"
    );
    let mut reader = Reader {
        rest: &text,
        // Python 2 wrote an `L` behind some numbers, which NumPy drops in files of these versions.
        has_long: major < 3,
    };
    reader
        .dictionary()
        .with_context(|| format!("at byte {} of the header", text.len() - reader.rest.len()))
}

struct Reader<'a> {
    rest: &'a str,
    has_long: bool,
}

impl<'a> Reader<'a> {
    fn dictionary(&mut self) -> Result<Header> {
        // In front of the brace a line feed would be an indentation to Python.
        self.rest = self.rest.trim_start_matches([' ', '\t']);
        let (mut descr, mut is_fortran, mut shape) = (None, None, None);
        ensure!(self.rest.starts_with('{'), "expected `{{`");
        self.expect('{')?;
        while !self.takes('}') {
            let key = self.string()?;
            self.expect(':')?;
            let is_first = match key {
                "descr" => descr.replace(self.string()?.to_owned()).is_none(),
                "fortran_order" => is_fortran.replace(self.boolean()?).is_none(),
                "shape" => shape.replace(self.shape()?).is_none(),
                _ => bail!("the key {key:?} is none of descr, fortran_order and shape"),
            };
            ensure!(is_first, "the key {key:?} is there twice");
            if !self.takes(',') {
                self.expect('}')?;
                break;
            }
        }
        self.skip_space();
        ensure!(self.rest.is_empty(), "text behind the dictionary");
        Ok(Header {
            descr: descr.ok_or_else(|| anyhow!("no descr"))?,
            is_fortran: is_fortran.ok_or_else(|| anyhow!("no fortran_order"))?,
            shape: shape.ok_or_else(|| anyhow!("no shape"))?,
        })
    }

    fn skip_space(&mut self) {
        self.rest = self
            .rest
            .trim_start_matches([' ', '\t', '\n', '\r', '\x0c']);
    }

    /// Whether `c` comes next; if so, it is taken.
    fn takes(&mut self, c: char) -> bool {
        self.skip_space();
        let rest = self.rest.strip_prefix(c);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, c: char) -> Result<()> {
        ensure!(self.takes(c), "expected `{c}`");
        Ok(())
    }

    /// A string without escapes.
    fn string(&mut self) -> Result<&'a str> {
        self.skip_space();
        let quote = self.rest.chars().next().filter(|c| matches!(c, '\'' | '"'));
        let quote = quote.ok_or_else(|| anyhow!("expected a string"))?;
        let inner = &self.rest[1..];
        let (text, rest) = inner
            .split_once(quote)
            .ok_or_else(|| anyhow!("a string without an end"))?;
        let is_plain = text
            .chars()
            .all(|c| c.is_ascii_graphic() && c != '\\' || c == ' ');
        ensure!(is_plain, "a string with unusual characters");
        self.rest = rest;
        // Python joins strings that follow each other, and three quotes begin another kind.
        self.skip_space();
        ensure!(!self.rest.starts_with(['\'', '"']), "two strings in a row");
        Ok(text)
    }

    fn boolean(&mut self) -> Result<bool> {
        match self.word() {
            "True" => Ok(true),
            "False" => Ok(false),
            _ => bail!("fortran_order is neither True nor False"),
        }
    }

    /// Letters, digits and underscores.
    fn word(&mut self) -> &'a str {
        self.skip_space();
        let is_end = |c: char| !(c.is_alphanumeric() || c == '_');
        let (word, rest) = self
            .rest
            .split_at(self.rest.find(is_end).unwrap_or(self.rest.len()));
        self.rest = rest;
        word
    }

    /// A tuple of numbers. Of one number it needs a comma, or it would be that number.
    fn shape(&mut self) -> Result<Vec<usize>> {
        ensure!(self.takes('('), "the shape is not a tuple");
        let mut shape = Vec::new();
        while !self.takes(')') {
            shape.push(self.number()?);
            if !self.takes(',') {
                self.expect(')')?;
                ensure!(shape.len() > 1, "the shape is not a tuple");
                break;
            }
        }
        ensure!(
            shape.len() <= MOST_DIMS,
            "the shape has more than {MOST_DIMS} dimensions"
        );
        Ok(shape)
    }

    fn number(&mut self) -> Result<usize> {
        let word = self.word();
        let digits = match word.strip_suffix('L') {
            Some(digits) if self.has_long => digits,
            _ => word,
        };
        let is_decimal = digits.bytes().all(|c| c.is_ascii_digit());
        let has_leading_zero = digits.len() > 1 && digits.starts_with('0');
        ensure!(
            is_decimal && !digits.is_empty() && !has_leading_zero,
            "{word:?} is not a dimension"
        );
        // NumPy's dimensions are signed.
        let number = digits.parse::<isize>();
        Ok(number.with_context(|| format!("{word:?} is not a dimension"))? as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(text: &str) -> Option<Header> {
        parse(1, text.as_bytes()).ok()
    }

    /// Both lists were given to NumPy 2.4's `numpy.load`, which loads the first and refuses the
    /// second.
    #[test]
    fn as_numpy_has_it() {
        let of = |shape: &[usize], is_fortran| {
            Some(Header {
                descr: "<f4".to_owned(),
                is_fortran,
                shape: shape.to_vec(),
            })
        };
        for (text, want) in [
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n",
                of(&[3], false),
            ),
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}",
                of(&[3], false),
            ),
            (
                " \t{\"shape\":(),\"descr\":\"<f4\",\"fortran_order\":True}  \n",
                of(&[], true),
            ),
            (
                "{\n'shape' : ( 2 ,\n3 ),'fortran_order':False,'descr':'<f4',}",
                of(&[2, 3], false),
            ),
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (3L, 0)}",
                of(&[3, 0], false),
            ),
        ] {
            assert_eq!(header(text), want, "{text}");
        }
        for text in REFUSED {
            assert_eq!(header(text), None, "{text}");
        }
        assert!(
            parse(
                3,
                b"{'descr': '<f4', 'fortran_order': False, 'shape': (3L,)}"
            )
            .is_err()
        );
        assert!(
            parse(
                3,
                b"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}\xff"
            )
            .is_err()
        );
        let long = format!(
            "{{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}}{:>10000}",
            ""
        );
        assert_eq!(header(&long), None);
        let dims = format!(
            "{{'descr': '<f4', 'fortran_order': False, 'shape': ({})}}",
            "1,".repeat(65)
        );
        assert_eq!(header(&dims), None);
    }

    const REFUSED: [&str; 29] = [
        "",
        "{}",
        "[]",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': [3]}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (03,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3.0,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': ('3',)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} x",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}{}",
        "\n {'descr': '<f4', 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '<f4' 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '<f4', 'fortran_order': Falsehood, 'shape': (3,)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (3,)}",
        "{'descr': '<f4', 'fortran_order': 'False', 'shape': (3,)}",
        "{'descr': '<f4', 'fortran_order': None, 'shape': (3,)}",
        "{'descr': '<f4', 'shape': (3,)}",
        "{'fortran_order': False, 'shape': (3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'more': 1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), '': ''}",
        "{'descr': '<f4, 'fortran_order': False, 'shape': (3,)}",
        "{descr: '<f4', 'fortran_order': False, 'shape': (3,)}",
        "x{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}",
    ];
}
