//! Runs the pest grammar (`grammar/ptx.pest`) and wraps what it returns.
//!
//! This is the only file that knows pest. The rest of `parse` walks [`Node`]s, whose spans are
//! offsets into the whole source although the grammar sees only a slice of it.
//!
//! PERF: with its feature `std`, pest asks for the size of the stack in every sequence, a tenth of
//! the time. So that is off, and the scan bounds how deep the text nests.

use std::borrow::Cow;

use pest::Parser;
use pest::error::{Error, ErrorVariant, InputLocation};
use pest::iterators::Pair;

use crate::diag::Diagnostic;
use crate::parse::{declare, scan};
use crate::source::{Source, Span};

#[derive(pest_derive::Parser)]
#[grammar = "../../../grammar/ptx.pest"]
struct PtxGrammar;

/// Directives of a body that are no declarations.
const STATEMENT_WORDS: [&str; 5] = [
    ".loc",
    ".pragma",
    ".branchtargets",
    ".calltargets",
    ".callprototype",
];

/// One matched rule.
#[derive(Clone)]
pub(super) struct Node<'a> {
    pair: Pair<'a, Rule>,
    base: u32,
}

impl<'a> Node<'a> {
    pub(super) fn rule(&self) -> Rule {
        self.pair.as_rule()
    }

    pub(super) fn text(&self) -> &'a str {
        self.pair.as_str()
    }

    pub(super) fn span(&self) -> Span {
        let span = self.pair.as_span();
        Span::new(
            self.base + offset(span.start()),
            self.base + offset(span.end()),
        )
    }

    pub(super) fn children(self) -> impl Iterator<Item = Node<'a>> {
        let base = self.base;
        self.pair.into_inner().map(move |pair| Node { pair, base })
    }

    /// The first part, which the rule must have.
    pub(super) fn child(self) -> Node<'a> {
        self.children()
            .next()
            .unwrap_or_else(|| unreachable!("the rule has a part"))
    }
}

/// A piece of the source as the grammar sees it: without comments.
pub(super) struct Piece<'a> {
    text: Cow<'a, str>,
    base: u32,
}

impl<'a> Piece<'a> {
    pub(super) fn new(source: &'a Source, span: Span) -> Result<Self, Diagnostic> {
        let text = scan::without_comments(source.slice(span));
        let text = text
            .and_then(|text| scan::check_nesting(text.as_bytes()).map(|()| text))
            .map_err(|err| err.shifted(span.start))?;
        Ok(Piece {
            text,
            base: span.start,
        })
    }

    /// Matches `rule` against the whole piece.
    pub(super) fn parse(&self, rule: Rule) -> Result<Node<'_>, Diagnostic> {
        match PtxGrammar::parse(rule, &self.text) {
            Ok(mut pairs) => {
                let pair = pairs
                    .next()
                    .unwrap_or_else(|| unreachable!("a match has its rule"));
                Ok(Node {
                    pair,
                    base: self.base,
                })
            }
            Err(err) => Err(explain(&err, rule, &self.text, self.base)),
        }
    }
}

fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Says in PTX terms what stood there and what was expected.
fn explain(err: &Error<Rule>, rule: Rule, text: &str, base: u32) -> Diagnostic {
    let at = match err.location {
        InputLocation::Pos(at) | InputLocation::Span((at, _)) => at,
    };
    let place = |start: usize, end: usize| Span::new(base + offset(start), base + offset(end));
    let token = token_end(text, at);
    let ErrorVariant::ParsingError { positives, .. } = &err.variant else {
        unreachable!("pest's own errors are about what was expected")
    };
    let last = text[..at].trim_end().len();
    if let Some(start) = unknown_word(rule, &text[..last]) {
        return declare::unknown_directive(&text[start..last], place(start, last));
    }
    if positives.contains(&Rule::semi) && text[last..at].contains('\n') {
        return Diagnostic::error("expected `;`")
            .label(place(last, last), "the statement does not end here");
    }
    // The end is of the line that is not complete.
    let (at, token, found) = match &text[at..token] {
        "" => (last, last, "the end".to_owned()),
        found => (at, token, format!("`{found}`")),
    };
    let message = match expected(positives).as_str() {
        "" => format!("unexpected {found}"),
        expected => format!("expected {expected}, found {found}"),
    };
    Diagnostic::error(message).label(place(at, token), "")
}

/// The start of the word that ends the text, if it made the grammar take something for a
/// declaration that is none.
fn unknown_word(rule: Rule, text: &str) -> Option<usize> {
    let start = text.rfind(|c: char| !c.is_ascii_alphanumeric() && !"_$".contains(c))?;
    let before = text[..start].trim_end();
    let is_statement = before.is_empty() || before.ends_with([';', '{', '}', ':']);
    let is_word = text[start..].starts_with('.') && text.len() > start + 1;
    let is_place = match rule {
        Rule::statements => is_statement,
        Rule::declaration_item => start == 0,
        _ => false,
    };
    let is_known =
        || declare::is_specifier(&text[start..]) || STATEMENT_WORDS.contains(&&text[start..]);
    (is_word && is_place && !is_known()).then_some(start)
}

/// The end of what a reader takes for one token.
fn token_end(text: &str, at: usize) -> usize {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_$%.".contains(c);
    let tail = &text[at..];
    let name = tail.find(|c| !is_name(c)).unwrap_or(tail.len());
    at + name.max(tail.chars().next().map_or(0, char::len_utf8))
}

/// The rules as words, each once, in the order of the table below.
fn expected(rules: &[Rule]) -> String {
    let mut words: Vec<&str> = rules.iter().filter_map(|&rule| describe(rule)).collect();
    words.sort_unstable();
    words.dedup();
    if words.contains(&"an operand") {
        words.retain(|word| !["a constant", "a name", "a number"].contains(word));
    }
    match words.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// What a rule is called in messages; `None` where naming it does not help.
fn describe(rule: Rule) -> Option<&'static str> {
    Some(match rule {
        Rule::ident | Rule::register | Rule::generic => "a name",
        Rule::number => "a number",
        Rule::warp_sz | Rule::parens | Rule::prefix | Rule::cast | Rule::cast_type => "a constant",
        Rule::expr | Rule::offset | Rule::mask | Rule::symbol_address | Rule::initializer => {
            "a constant"
        }
        Rule::string => "a string",
        Rule::word | Rule::plain_word | Rule::align | Rule::attribute | Rule::bank => "a directive",
        Rule::attribute_unified => "an attribute",
        Rule::semi => "`,` or `;`",
        Rule::close_bracket => "`]`",
        Rule::close_brace => "`}`",
        Rule::close_paren => "`)`",
        Rule::colon => "`:`",
        Rule::named | Rule::address | Rule::vector | Rule::list => "an operand",
        Rule::sink | Rule::not | Rule::negated => "an operand",
        Rule::selector => "a selector",
        Rule::instruction | Rule::mnemonic => "an instruction",
        Rule::suffix => "a modifier",
        Rule::guard | Rule::negation => "a guard",
        Rule::label => "a label",
        Rule::scope_begin => "`{`",
        Rule::scope_end => "`}`",
        Rule::function_kind => "`.entry` or `.func`",
        Rule::params => "`(`",
        Rule::param => "a parameter",
        Rule::function_directive => "a directive",
        Rule::declarator | Rule::target => "a name",
        Rule::declaration | Rule::declaration_item | Rule::loc | Rule::pragma => "a directive",
        Rule::branch_targets | Rule::call_targets | Rule::call_prototype => "a directive",
        Rule::debug_label | Rule::inlined => "a label",
        _ => return None,
    })
}
