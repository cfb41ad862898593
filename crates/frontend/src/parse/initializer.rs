//! Initializers. The braces of large tables are walked by hand and plain integers read directly;
//! every other value goes through the grammar.

use crate::ast::{
    Expr, ExprKind, Field, FieldValue, Ident, Initializer, InitializerKind as Kind, Mask,
    SymbolAddress,
};
use crate::diag::Diagnostic;
use crate::parse::grammar::{Node, Piece, Rule};
use crate::parse::{expr, scan};
use crate::source::{Source, Span};

type Result<T> = std::result::Result<T, Diagnostic>;

/// Braces nest as deep as an array has dimensions.
const MAX_DEPTH: u32 = 64;

/// Parses the value that `range` holds.
pub(super) fn initializer(source: &Source, range: Span) -> Result<Initializer> {
    let mut reader = Reader {
        source,
        text: source.text().as_bytes(),
        at: range.start as usize,
        end: range.end as usize,
    };
    let value = reader.value(0)?;
    match reader.peek()? {
        None => Ok(value),
        Some(_) => {
            Err(Diagnostic::error("unexpected text after the initializer").label(reader.here(), ""))
        }
    }
}

struct Reader<'a> {
    source: &'a Source,
    text: &'a [u8],
    at: usize,
    end: usize,
}

impl Reader<'_> {
    /// The next byte that is not white space.
    fn peek(&mut self) -> Result<Option<u8>> {
        self.at = scan::skip_space(&self.text[..self.end], self.at)?;
        Ok(self.text[..self.end].get(self.at).copied())
    }

    fn here(&self) -> Span {
        scan::span(self.at, (self.at + 1).min(self.end))
    }

    fn value(&mut self, depth: u32) -> Result<Initializer> {
        if depth > MAX_DEPTH {
            return Err(Diagnostic::error("this is nested too deeply").label(self.here(), ""));
        }
        match self.peek()? {
            Some(b'{') => self.braces(depth),
            Some(_) | None => {
                let span = self.leaf_span()?;
                leaf(self.source, span)
            }
        }
    }

    fn braces(&mut self, depth: u32) -> Result<Initializer> {
        let open = self.at;
        self.at += 1;
        let kind = match self.integers()? {
            Some(values) => Kind::Integers(values.into_boxed_slice()),
            None => {
                self.at = open + 1;
                self.members(depth)?
            }
        };
        self.at += 1;
        Ok(Initializer {
            span: scan::span(open, self.at),
            kind,
        })
    }

    /// Reads up to the closing brace if only plain integers stand there.
    fn integers(&mut self) -> Result<Option<Vec<u64>>> {
        let mut values = Vec::new();
        while self.peek()? != Some(b'}') {
            let Some(value) = self.plain_integer()? else {
                return Ok(None);
            };
            values.push(value);
            match self.peek()? {
                Some(b',') => {
                    self.at += 1;
                    // A comma that nothing follows; `members` will say so.
                    if self.peek()? == Some(b'}') {
                        return Ok(None);
                    }
                }
                Some(b'}') => {}
                Some(_) | None => return Ok(None),
            }
        }
        values.shrink_to_fit();
        Ok(Some(values))
    }

    /// Takes an integer with or without a minus sign; `None` if something else stands here.
    fn plain_integer(&mut self) -> Result<Option<u64>> {
        let is_negative = self.peek()? == Some(b'-');
        let start = self.at + usize::from(is_negative);
        let tail = &self.text[start.min(self.end)..self.end];
        if !tail.first().is_some_and(u8::is_ascii_digit) {
            return Ok(None);
        }
        let len = tail
            .iter()
            .position(|&byte| !scan::is_follow(byte))
            .unwrap_or(tail.len());
        let span = scan::span(start, start + len);
        let ExprKind::Int { value, .. } = expr::number(self.source.slice(span), span)? else {
            return Ok(None);
        };
        self.at = start + len;
        Ok(Some(if is_negative {
            value.wrapping_neg()
        } else {
            value
        }))
    }

    /// Reads members of any kind up to the closing brace.
    fn members(&mut self, depth: u32) -> Result<Kind> {
        let mut values = Vec::new();
        let mut fields = Vec::new();
        while self.peek()? != Some(b'}') {
            if self.peek()? == Some(b'{') {
                values.push(self.value(depth + 1)?);
            } else {
                let span = self.leaf_span()?;
                match is_field(self.source.slice(span)) {
                    true => fields.push(field(self.source, span)?),
                    false => values.push(leaf(self.source, span)?),
                }
            }
            match self.peek()? {
                Some(b',') => {
                    self.at += 1;
                    if self.peek()? == Some(b'}') {
                        let message = "expected a constant, found `}`";
                        return Err(Diagnostic::error(message).label(self.here(), ""));
                    }
                }
                Some(b'}') => {}
                Some(_) | None => return Err(self.expected_comma()),
            }
        }
        match (values.first(), fields.is_empty()) {
            (Some(value), false) => {
                Err(Diagnostic::error("values and `name = value` do not mix").label(value.span, ""))
            }
            (None, false) => Ok(Kind::Fields(fields.into_boxed_slice())),
            (_, true) => Ok(Kind::List(values.into_boxed_slice())),
        }
    }

    fn expected_comma(&self) -> Diagnostic {
        Diagnostic::error("expected `,` or `}` in this initializer").label(self.here(), "")
    }

    /// The extent of a value without braces.
    fn leaf_span(&mut self) -> Result<Span> {
        let start = self.at;
        let mut depth = 0u32;
        let mut last = start;
        while let Some(byte) = self.peek()? {
            match byte {
                b',' | b'}' | b'{' if depth == 0 => break,
                b'(' => depth += 1,
                b')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.at += 1;
            last = self.at;
        }
        Ok(scan::span(start, last))
    }
}

/// A value without braces. Numbers, the mass of large tables, need no grammar.
fn leaf(source: &Source, span: Span) -> Result<Initializer> {
    let text = source.slice(span);
    let is_token = text
        .bytes()
        .all(|byte| scan::is_follow(byte) || byte == b'.');
    if is_token && text.starts_with(|c: char| c.is_ascii_digit()) {
        let constant = Expr {
            span,
            kind: expr::number(text, span)?,
        };
        return Ok(Initializer {
            span,
            kind: Kind::Constant(constant),
        });
    }
    let piece = Piece::new(source, span)?;
    leaf_node(piece.parse(Rule::initializer_leaf)?.child())
}

fn leaf_node(node: Node<'_>) -> Result<Initializer> {
    let span = node.span();
    let kind = match node.rule() {
        Rule::mask => Kind::Mask(Box::new(mask(node)?)),
        Rule::symbol_address => Kind::Address(Box::new(symbol_address(node)?)),
        _ => Kind::Constant(expr::expr(node)?),
    };
    Ok(Initializer { span, kind })
}

fn mask(node: Node<'_>) -> Result<Mask> {
    let mut parts = node.children();
    let (Some(number), Some(of)) = (parts.next(), parts.next()) else {
        unreachable!("a mask has a number and an operand");
    };
    let mask = expr::plain_integer(&number)?;
    let is_one_byte = (0..8).any(|byte| mask == 0xff << (8 * byte));
    if !is_one_byte {
        return Err(
            Diagnostic::error(format!("`{}` does not select one byte", number.text()))
                .label(number.span(), "masks are 0xff, 0xff00 and so on"),
        );
    }
    Ok(Mask {
        mask,
        of: leaf_node(of)?,
    })
}

fn symbol_address(node: Node<'_>) -> Result<SymbolAddress> {
    let mut address = SymbolAddress {
        symbol: Ident { span: node.span() },
        is_generic: false,
        offset: None,
    };
    for part in node.children() {
        match part.rule() {
            Rule::generic => {
                address.is_generic = true;
                address.symbol.span = part.child().span();
            }
            Rule::offset => address.offset = Some(expr::constant(part.child())?),
            _ => address.symbol.span = part.span(),
        }
    }
    Ok(address)
}

/// `name = value`, but not a comparison.
fn is_field(text: &str) -> bool {
    let name = text.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let after = name.trim_start();
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && after.starts_with('=')
        && !after.starts_with("==")
}

fn field(source: &Source, span: Span) -> Result<Field> {
    let piece = Piece::new(source, span)?;
    let mut parts = piece.parse(Rule::initializer_field)?.children();
    let (Some(name), Some(value)) = (parts.next(), parts.next()) else {
        unreachable!("a field has a name and a value");
    };
    let value = match value.rule() {
        Rule::ident => FieldValue::Name(Ident { span: value.span() }),
        _ => FieldValue::Constant(expr::expr(value)?),
    };
    Ok(Field {
        name: Ident { span: name.span() },
        value,
    })
}
