//! The skeleton of a module: finds each item with the scan and parses its header with the grammar.
//!
//! The order of the module directives is checked here: `.version`, `.target`, `.address_size`,
//! then everything else.

use smallvec::SmallVec;

use crate::ast::{AddressSize, Alias, File, Ident, Item, Module, Section, Target, Version};
use crate::diag::Diagnostic;
use crate::parse::declare::{self, Scope};
use crate::parse::grammar::{Node, Piece, Rule};
use crate::parse::{arch, body, expr, function, scan};
use crate::source::{Source, Span};

type Result<T> = std::result::Result<T, Diagnostic>;

/// Parses everything but bodies and initializers of the module that `range` holds.
pub(super) fn module(source: &Source, range: Span) -> Result<Module> {
    if u32::try_from(source.text().len()).is_err() {
        return Err(Diagnostic::error("the module has 4 GiB or more"));
    }
    let mut reader = Reader {
        source,
        text: &source.text().as_bytes()[..range.end as usize],
        at: range.start as usize,
        errors: Vec::new(),
    };
    let version = reader.version()?;
    let warning = arch::check_version(version)?;
    let target = reader.target(version)?;
    let address_size = reader.address_size(version)?;
    let mut module = Module {
        version,
        target,
        address_size,
        items: Vec::new(),
        files: Vec::new(),
        sections: Vec::new(),
        pragmas: Vec::new(),
        warnings: warning.into_iter().collect(),
        errors: std::mem::take(&mut reader.errors),
    };
    // What stands before an error is of use: there may be more to tell about it.
    if let Err(error) = reader.items(&mut module) {
        module.errors.push(error);
    }
    module.items.shrink_to_fit();
    Ok(module)
}

/// The position in the text, always between items.
struct Reader<'a> {
    source: &'a Source,
    /// All up to the end of the module.
    text: &'a [u8],
    at: usize,
    /// What is wrong in the module directives, but does not keep the rest from being read.
    errors: Vec<Diagnostic>,
}

impl<'a> Reader<'a> {
    /// Goes to the next directive and returns its word, without taking it.
    fn peek(&mut self) -> Result<Option<&'a str>> {
        self.at = scan::skip_space(self.text, self.at)?;
        match self.text.get(self.at) {
            None => Ok(None),
            Some(b'.') => Ok(Some(self.word())),
            Some(b'@') if self.text[self.at..].starts_with(b"@@DWARF") => Ok(Some("@@DWARF")),
            Some(_) => Err(self.not_a_directive()),
        }
    }

    fn word(&self) -> &'a str {
        self.source
            .slice(scan::span(self.at, scan::word_end(self.text, self.at)))
    }

    fn not_a_directive(&self) -> Diagnostic {
        let tail = &self.text[self.at..];
        let len = tail
            .iter()
            .position(|&byte| !scan::is_follow(byte))
            .unwrap_or(tail.len());
        let span = scan::span(self.at, self.at + len.max(1));
        let found = self.source.slice(span);
        if tail[0].is_ascii_alphabetic() || tail[0] == b'@' {
            return Diagnostic::error("an instruction does not belong outside a function")
                .label(span, "");
        }
        if tail[0] == b'}' {
            return Diagnostic::error("this `}` closes nothing").label(span, "");
        }
        if !tail[0].is_ascii() {
            return Diagnostic::error("PTX is ASCII text").label(span, "");
        }
        Diagnostic::error(format!("expected a directive, found `{found}`")).label(span, "")
    }

    /// The text of a directive without terminator, up to the next one at most. The caller steps
    /// over as much of it as the grammar takes.
    fn open_directive(&self) -> Result<Piece<'a>> {
        let end = scan::open_directive_end(self.text, self.at)?;
        self.piece(scan::span(self.at, end))
    }

    /// Steps over what the grammar took.
    fn take<'n>(&mut self, node: Node<'n>) -> Node<'n> {
        self.at = node.span().end as usize;
        node
    }

    /// The extent of a directive up to its semicolon, and steps over it.
    fn closed_directive(&mut self, rule: Rule) -> Result<Span> {
        let start = self.at;
        let mut at = start;
        loop {
            at = match scan::next_delimiter(self.text, at)? {
                Some(found) if self.text[found] == b'{' => scan::braces_end(self.text, found)?,
                Some(found) if self.text[found] == b';' => {
                    self.at = found + 1;
                    return Ok(scan::span(start, self.at));
                }
                Some(found) => return Err(unbalanced(found)),
                None => return Err(self.unended(start, rule)),
            };
        }
    }

    /// A directive without end. If something else in it is wrong before that, it is the better
    /// thing to report.
    fn unended(&self, start: usize, rule: Rule) -> Diagnostic {
        let end = self.text.trim_ascii_end().len();
        let piece = self.piece(scan::span(start, end));
        match piece.and_then(|piece| piece.parse(rule).map(|_| ())) {
            Err(inner) if inner.span().is_some_and(|span| (span.end as usize) < end) => inner,
            Err(_) | Ok(()) => self.no_semicolon(start),
        }
    }

    fn piece(&self, span: Span) -> Result<Piece<'a>> {
        Piece::new(self.source, span)
    }

    fn no_semicolon(&self, start: usize) -> Diagnostic {
        let end = start + self.text[start..].trim_ascii_end().len();
        Diagnostic::error("expected `;`, found the end").label(scan::span(end, end), "")
    }

    // ---- module directives
    // -----------------------------------------------------------------------

    fn version(&mut self) -> Result<Version> {
        if self.peek()? != Some(".version") {
            return Err(Diagnostic::error("a module begins with `.version`").label(self.here(), ""));
        }
        let piece = self.open_directive()?;
        let node = self.take(piece.parse(Rule::version)?);
        let number = node.child();
        let parts = number.text().split_once('.');
        let parts = parts.and_then(|(major, minor)| Some((decimal(major)?, decimal(minor)?)));
        let (major, minor) = parts.ok_or_else(|| {
            Diagnostic::error(format!("`{}` is not a version", number.text()))
                .label(number.span(), "a version is written `major.minor`")
        })?;
        Ok(Version {
            span: number.span(),
            major,
            minor,
        })
    }

    fn target(&mut self, version: Version) -> Result<Target> {
        if self.peek()? != Some(".target") {
            return Err(
                Diagnostic::error("`.target` must follow `.version`").label(self.here(), "")
            );
        }
        let mut options = Options::default();
        let start = self.at;
        while self.peek()? == Some(".target") {
            let piece = self.open_directive()?;
            for name in self.take(piece.parse(Rule::target_directive)?).children() {
                options.add(name.text(), name.span(), version)?;
            }
        }
        self.errors.append(&mut options.errors);
        let span = scan::span(start, start + ".target".len());
        if options.has_map_f64_to_f32 && options.arch.is_some_and(|arch| arch.number >= 13) {
            self.errors.push(
                Diagnostic::error("`map_f64_to_f32` is for targets below sm_13").label(span, ""),
            );
        }
        let arch = options
            .arch
            .ok_or_else(|| Diagnostic::error("`.target` names no architecture").label(span, ""))?;
        Ok(Target {
            span: span.to(arch.span),
            arch,
            is_texmode_independent: options
                .texmode
                .is_some_and(|(is_independent, _)| is_independent),
            has_debug: options.has_debug,
            has_map_f64_to_f32: options.has_map_f64_to_f32,
        })
    }

    fn address_size(&mut self, version: Version) -> Result<Option<AddressSize>> {
        if self.peek()? != Some(".address_size") {
            return Ok(None);
        }
        let is_known = version.at_least(2, 3);
        let piece = self.open_directive()?;
        let node = self.take(piece.parse(Rule::address_size)?);
        if !is_known {
            self.errors
                .push(Diagnostic::error("`.address_size` needs PTX 2.3").label(node.span(), ""));
        }
        let span = node.span();
        let number = node.child();
        match expr::plain_integer(&number)? {
            bits @ (32 | 64) => Ok(Some(AddressSize {
                span,
                bits: bits as u32,
            })),
            _ => Err(Diagnostic::error("the address size is 32 or 64").label(number.span(), "")),
        }
    }

    fn here(&self) -> Span {
        let end = match self.text.get(self.at) {
            Some(b'.') => scan::word_end(self.text, self.at),
            Some(_) | None => self.at,
        };
        scan::span(self.at, end)
    }

    // ---- items
    // -----------------------------------------------------------------------------------

    fn items(&mut self, module: &mut Module) -> Result<()> {
        while let Some(word) = self.peek()? {
            self.item(word, module)?;
        }
        Ok(())
    }

    fn item(&mut self, word: &str, module: &mut Module) -> Result<()> {
        match word {
            ".file" => module.files.push(self.file()?),
            ".section" => module.sections.push(self.section()?),
            ".alias" => module.items.push(Item::Alias(self.alias()?)),
            ".pragma" => {
                let span = self.closed_directive(Rule::module_pragma)?;
                let piece = self.piece(span)?;
                let node = piece.parse(Rule::module_pragma)?;
                module.pragmas.push(function::pragma(node.child()));
            }
            "@@DWARF" => self.old_dwarf(module.version)?,
            ".version" | ".target" | ".address_size" => {
                return Err(Diagnostic::error(format!("`{word}` does not belong here"))
                    .label(self.here(), "")
                    .note("a module begins with one `.version`, `.target` and `.address_size`, in this order"));
            }
            ".loc" => {
                return Err(
                    Diagnostic::error("`.loc` belongs in a function body").label(self.here(), "")
                );
            }
            _ if self.is_function()? => self.function(module)?,
            _ => {
                let span = self.closed_directive(Rule::declaration_item)?;
                let piece = self.piece(span)?;
                let node = piece.parse(Rule::declaration_item)?.child();
                let scope = Scope::Module(module.version);
                declare::declaration(node, scope, |variable| {
                    module.items.push(Item::Variable(variable))
                })?;
            }
        }
        Ok(())
    }

    /// Does `.entry` or `.func` follow, after the linking directives?
    fn is_function(&self) -> Result<bool> {
        let mut at = self.at;
        while self.text.get(at) == Some(&b'.') {
            let end = scan::word_end(self.text, at);
            match &self.text[at..end] {
                b".entry" | b".func" => return Ok(true),
                word if declare::linkage(std::str::from_utf8(&word[1..]).unwrap_or(""))
                    .is_none() =>
                {
                    return Ok(false);
                }
                _ => at = scan::skip_space(self.text, end)?,
            }
        }
        Ok(false)
    }

    fn function(&mut self, module: &mut Module) -> Result<()> {
        let start = self.at;
        let mut at = start;
        // A semicolon ends a prototype, unless it is that of a `.pragma` before the body.
        let (header_end, body) = loop {
            match scan::next_delimiter(self.text, at)? {
                Some(found) if self.text[found] == b'{' => {
                    let end = scan::braces_end(self.text, found)
                        .map_err(|err| self.unclosed(found, err))?;
                    break (found, Some(scan::span(found, end)));
                }
                Some(found) if self.text[found] == b';' => {
                    let segment = self.source.slice(scan::span(at, found));
                    at = found + 1;
                    if !scan::without_comments(segment)?.contains(".pragma") {
                        break (at, None);
                    }
                }
                Some(found) => return Err(unbalanced(found)),
                None => return Err(self.no_semicolon(start)),
            }
        };
        let range = scan::span(start, header_end);
        let function = function::header(self.source, range, body, module.version)?;
        module.items.push(Item::Function(Box::new(function)));
        self.at = body.map_or(header_end, |body| body.end as usize);
        Ok(())
    }

    /// A body without end. If something else in it is wrong before that, it is the better thing to
    /// report.
    fn unclosed(&self, open: usize, err: Diagnostic) -> Diagnostic {
        let rest = scan::span(open, self.text.len() + 1);
        let Err(inner) = body::body(self.source, rest) else {
            return err;
        };
        let end = self.text.trim_ascii_end().len();
        match inner.span() {
            Some(span) if (span.end as usize) < end => inner,
            Some(_) | None => err,
        }
    }

    fn file(&mut self) -> Result<File> {
        let piece = self.open_directive()?;
        let node = self.take(piece.parse(Rule::file)?);
        let span = node.span();
        let mut parts = node.children();
        let (Some(index), Some(name)) = (parts.next(), parts.next()) else {
            unreachable!("`.file` has an index and a name");
        };
        let mut number = || {
            parts
                .next()
                .map(|part| expr::plain_integer(&part))
                .transpose()
        };
        let (timestamp, size) = (number()?, number()?);
        let name = function::unquoted(name.span());
        Ok(File {
            span,
            index: expr::plain_u32(&index)?,
            name,
            timestamp,
            size,
        })
    }

    fn section(&mut self) -> Result<Section> {
        let start = self.at;
        let open =
            scan::next_delimiter(self.text, start)?.filter(|&found| self.text[found] == b'{');
        let open = open.ok_or_else(|| {
            Diagnostic::error("a `.section` has its contents in braces").label(self.here(), "")
        })?;
        let name = self
            .piece(scan::span(start, open))?
            .parse(Rule::section)?
            .child()
            .span();
        self.at = scan::braces_end(self.text, open)?;
        Ok(Section {
            span: scan::span(start, self.at),
            name,
            contents: scan::span(open + 1, self.at - 1),
        })
    }

    fn alias(&mut self) -> Result<Alias> {
        let span = self.closed_directive(Rule::alias)?;
        let piece = self.piece(span)?;
        let names = piece.parse(Rule::alias)?.children();
        let names: SmallVec<[Ident; 2]> = names
            .filter(|part| part.rule() == Rule::ident)
            .map(|part| Ident { span: part.span() })
            .collect();
        Ok(Alias {
            span,
            name: names[0],
            target: names[1],
        })
    }

    /// One line of the DWARF of PTX 1.x.
    fn old_dwarf(&mut self, version: Version) -> Result<()> {
        let tail = &self.text[self.at..];
        let end = self.at
            + tail
                .iter()
                .position(|&byte| byte == b'\n')
                .unwrap_or(tail.len());
        if version.at_least(2, 0) {
            return Err(Diagnostic::error("`@@DWARF` ended with PTX 2.0")
                .label(scan::span(self.at, end), ""));
        }
        self.at = end;
        Ok(())
    }
}

/// What the `.target` directives have said so far.
#[derive(Default)]
struct Options {
    arch: Option<crate::ast::Arch>,
    /// Independent or not, and where it was said.
    texmode: Option<(bool, Span)>,
    has_debug: bool,
    has_map_f64_to_f32: bool,
    errors: Vec<Diagnostic>,
}

impl Options {
    fn add(&mut self, name: &str, span: Span, version: Version) -> Result<()> {
        match name {
            "texmode_independent" | "texmode_unified" => {
                let is_independent = name == "texmode_independent";
                if let Some((before, at)) = self.texmode
                    && before != is_independent
                {
                    return Err(Diagnostic::error("the texturing modes exclude each other")
                        .label(span, "")
                        .label(at, ""));
                }
                self.texmode = Some((is_independent, span));
            }
            "debug" => self.has_debug = true,
            "map_f64_to_f32" => self.has_map_f64_to_f32 = true,
            _ => {
                let arch = arch::parse(name, span).ok_or_else(|| arch::unknown(name, span))?;
                self.errors.extend(arch::check(arch, name, version).err());
                // Of several, the module needs the features of the highest.
                self.arch = self
                    .arch
                    .filter(|before| before.number > arch.number)
                    .or(Some(arch));
            }
        }
        Ok(())
    }
}

/// Digits only, as the parts of a version are.
fn decimal(text: &str) -> Option<u32> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten()
}

fn unbalanced(at: usize) -> Diagnostic {
    Diagnostic::error("this `}` closes nothing").label(scan::span(at, at + 1), "")
}
