//! Coverage as pages to look at: a list of files, and for each PTX file a page that shows it beside
//! the sources that it was compiled from.
//!
//! The pages need nothing but themselves. States of lines are told by color and by their counts, so
//! that they can be told without color, too.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ptxjit::coverage::{Condition, ConditionKind, File, FileKind, Line};

use super::totals::{Totals, is_reached};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Pages, by the names of their files. The one that leads to the others comes last.
pub(super) fn pages(files: &[File]) -> Vec<(String, String)> {
    let mut pages: Vec<(String, String)> = Vec::new();
    let mut rows = String::new();
    let ptx = files.iter().filter(|file| file.kind == FileKind::Ptx);
    for (idx, ptx) in ptx.enumerate() {
        let sources: Vec<&File> = sources_of(ptx, files);
        let name = format!("{}-{idx}.html", plain(&ptx.name));
        rows += &row(&name, ptx);
        for source in &sources {
            rows += &row(&name, source);
        }
        pages.push((name, page(ptx, &sources)));
    }
    pages.push(("index.html".to_owned(), index(files, &rows)));
    pages
}

/// The sources that lines of a PTX file are from.
fn sources_of<'a>(ptx: &File, files: &'a [File]) -> Vec<&'a File> {
    let is_of = |line: &Line| line.ptx.iter().any(|(file, _)| *file == ptx.name);
    let sources = files.iter().filter(|file| file.kind == FileKind::Source);
    sources
        .filter(|file| file.lines.values().any(is_of))
        .collect()
}

/// A name of a file without what means something in addresses.
fn plain(name: &str) -> String {
    let name = Path::new(name).file_name().unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ['.', '-', '_'].contains(&c);
    let name = name.to_string_lossy();
    let name: String = name
        .chars()
        .map(|c| if is_plain(c) { c } else { '_' })
        .collect();
    name.trim_start_matches('.').to_owned()
}

fn document(title: &str, body: &str) -> String {
    let title = escaped(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{body}<script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

/// The list of files.
fn index(files: &[File], rows: &str) -> String {
    let totals: Totals = files.iter().map(Totals::of).sum();
    let body = format!(
        "<header><h1>Coverage</h1><div class=\"key\">Lines, and sides of branches, guards and selections, that threads have run.</div></header>\n\
         <main><table class=\"files\">\n<tr><th>File</th><th colspan=\"2\">Lines</th>\
         <th colspan=\"2\">Sides of conditions</th><th>Functions</th></tr>\n\
         {rows}<tr class=\"total\"><td>All</td>{}</tr>\n</table></main>\n",
        cells(&totals)
    );
    document("Coverage", &body)
}

fn row(page: &str, file: &File) -> String {
    let indent = match file.kind {
        FileKind::Source => "&emsp;",
        _ => "",
    };
    let (name, cells) = (escaped(&file.name), cells(&Totals::of(file)));
    format!("<tr><td>{indent}<a href=\"{page}\">{name}</a></td>{cells}</tr>\n")
}

fn cells(totals: &Totals) -> String {
    let share = |run: usize, all: usize| {
        let percent = match all {
            0 => return "<td class=\"n\"></td><td class=\"n\">none</td>".to_owned(),
            all => 100.0 * run as f64 / all as f64,
        };
        format!(
            "<td class=\"n\"><span class=\"bar\"><i style=\"width:{percent:.1}%\"></i></span>{percent:.1} %</td><td class=\"n\">{run} of {all}</td>"
        )
    };
    format!(
        "{}{}<td class=\"n\">{} of {}</td>",
        share(totals.lines_run, totals.lines),
        share(totals.sides_run, totals.sides),
        totals.functions_run,
        totals.functions
    )
}

/// A PTX file beside its sources.
fn page(ptx: &File, sources: &[&File]) -> String {
    let title = escaped(&ptx.name);
    let mut body = format!(
        "<header><h1>{title}</h1><div class=\"key\"><a href=\"index.html\">all files</a> &middot; threads: \
         <b style=\"background:var(--run)\">run</b> <b style=\"background:var(--partly)\">partly run</b> \
         <b style=\"background:var(--never)\">never run</b> &middot; lanes: active threads of a warp, in the mean, of 32 &middot; \
         click a line to find it on the other side</div></header>\n"
    );
    let class = match sources.is_empty() {
        true => "panes one",
        false => "panes",
    };
    body += &format!("<div class=\"{class}\">\n");
    if !sources.is_empty() {
        body += "<div class=\"pane\">\n";
        for (idx, source) in sources.iter().enumerate() {
            let text = source_text(&source.name, &ptx.name);
            let links = |line: u32| ptx_lines(source, line, &ptx.name);
            body += &pane(source, text.as_deref(), &format!("s{idx}-"), &links);
        }
        body += "</div>\n";
    }
    let back = lines_of_ptx(ptx, sources);
    let links = |line: u32| back.get(&line).cloned().unwrap_or_default();
    body += "<div class=\"pane\">\n";
    body += &pane(ptx, ptx.text.as_deref(), "p", &links);
    body += "</div>\n</div>\n";
    document(&ptx.name, &body)
}

/// The rows of the PTX that a line of the source was compiled to.
fn ptx_lines(source: &File, line: u32, ptx: &str) -> String {
    let places = source.lines.get(&line).into_iter().flat_map(|it| &it.ptx);
    let rows = places.filter(|(file, _)| file == ptx);
    let rows: Vec<String> = rows.map(|(_, line)| format!("p{line}")).collect();
    rows.join(" ")
}

/// For each line of the PTX the row of the source that it is from.
fn lines_of_ptx(ptx: &File, sources: &[&File]) -> BTreeMap<u32, String> {
    let mut rows = BTreeMap::new();
    for (idx, source) in sources.iter().enumerate() {
        for (number, line) in &source.lines {
            let places = line.ptx.iter().filter(|(file, _)| *file == ptx.name);
            rows.extend(places.map(|&(_, at)| (at, format!("s{idx}-{number}"))));
        }
    }
    rows
}

/// The text of a source, if it is where the PTX says, or beside the PTX.
fn source_text(name: &str, ptx: &str) -> Option<String> {
    let dir = Path::new(ptx).parent()?;
    let file = Path::new(name).file_name()?;
    let places = [PathBuf::from(name), dir.join(name), dir.join(file)];
    let found = places.iter().find_map(|path| std::fs::read(path).ok())?;
    Some(String::from_utf8_lossy(&found).into_owned())
}

/// A file with its counts. Without its text, the lines that have code.
fn pane(file: &File, text: Option<&str>, id: &str, links: &dyn Fn(u32) -> String) -> String {
    let name = escaped(&file.name);
    let totals = Totals::of(file);
    let mut out = format!(
        "<h2>{name}<small>{} of {} lines, {} of {} sides</small></h2>\n",
        totals.lines_run, totals.lines, totals.sides_run, totals.sides
    );
    let lines: Vec<(u32, &str)> = match text {
        Some(text) => (1..).zip(text.lines()).collect(),
        None => file.lines.keys().map(|&number| (number, "")).collect(),
    };
    if text.is_none() {
        out += "<div class=\"empty\">The text of this file was not found; these are the lines that have code.</div>\n";
    }
    out += "<table class=\"code\">\n";
    for (number, text) in lines {
        let line = file.lines.get(&number);
        out += &code_row(id, number, text, line, &links(number));
        // They are in the order of their lines.
        let first = file.conditions.partition_point(|it| it.line < number);
        let end = file.conditions.partition_point(|it| it.line <= number);
        out += &condition_rows(&file.conditions[first..end]);
    }
    out + "</table>\n"
}

fn code_row(id: &str, number: u32, text: &str, line: Option<&Line>, links: &str) -> String {
    let to = match links {
        "" => String::new(),
        rows => format!(" data-to=\"{rows}\""),
    };
    let text = escaped(text);
    let Some(line) = line else {
        return format!(
            "<tr id=\"{id}{number}\"{to}><td class=\"n\">{number}</td><td class=\"t\"></td><td class=\"n\"></td><td class=\"s\">{text}</td></tr>\n"
        );
    };
    let (class, threads) = (state(line), line.threads);
    let lanes = line.mean_active_lanes();
    let lanes = lanes.map_or(String::new(), |lanes| format!("{lanes:.1}"));
    let hint = format!(
        "{threads} threads; {} of {} instructions run",
        line.instructions_run, line.instructions
    );
    let tag = match line.is_never_whole() {
        true => "<span class=\"tag\">never a whole warp</span>",
        false => "",
    };
    format!(
        "<tr id=\"{id}{number}\" class=\"{class}\" title=\"{hint}\"{to}><td class=\"n\">{number}</td>\
         <td class=\"t\">{threads}</td><td class=\"n\">{lanes}</td><td class=\"s\">{text}{tag}</td></tr>\n"
    )
}

fn state(line: &Line) -> &'static str {
    match (line.threads, line.is_complete()) {
        (0, _) => "never",
        (_, false) => "partly",
        (_, true) => "run",
    }
}

/// The conditions of a line; those that say the same are told once.
fn condition_rows(conditions: &[Condition]) -> String {
    let mut texts: Vec<(String, usize)> = Vec::new();
    for condition in conditions {
        let text = condition_text(condition);
        match texts.iter_mut().find(|(other, _)| *other == text) {
            Some((_, n)) => *n += 1,
            None => texts.push((text, 1)),
        }
    }
    let row = |(text, n): &(String, usize)| {
        let times = match n {
            1 => String::new(),
            n => format!(" (&times; {n})"),
        };
        format!(
            "<tr><td></td><td class=\"t\"></td><td></td><td class=\"why\">{text}{times}</td></tr>\n"
        )
    };
    texts.iter().map(row).collect()
}

fn condition_text(condition: &Condition) -> String {
    let (kind, words): (_, Vec<String>) = match condition.kind {
        ConditionKind::Branch => ("branch", words(["taken by", "not taken by"])),
        ConditionKind::Select => ("selection", words(["first value for", "second value for"])),
        ConditionKind::Table => {
            let targets = condition.targets.iter().map(|it| escaped(it));
            ("branch", targets.map(|it| format!("to {it} by")).collect())
        }
        _ => ("guard", words(["true for", "false for"])),
    };
    if !is_reached(condition) {
        return format!("{kind}: <span class=\"zero\">never reached</span>");
    }
    let side = |word: &str, threads: u64| match threads {
        0 => format!("<span class=\"zero\">{word} none</span>"),
        n => format!("{word} {n}"),
    };
    let sides = words.iter().zip(&condition.sides);
    let sides: Vec<String> = sides.map(|(word, &threads)| side(word, threads)).collect();
    let mut text = format!("{kind}: {}", sides.join(", "));
    if let (Some(warps @ 1..), Some(diverged)) = (condition.warps, condition.diverged) {
        let share = 100.0 * diverged as f64 / warps as f64;
        let class = match diverged {
            0 => "",
            _ => " class=\"split\"",
        };
        text +=
            &format!("; <span{class}>{diverged} of {warps} warps diverge ({share:.0} %)</span>");
    }
    text
}

fn words(words: [&str; 2]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

/// Text for HTML, also within quotation marks.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\t' => out += "\t",
            c if c.is_control() => out += "&#xfffd;",
            c => out.push(c),
        }
    }
    out
}
