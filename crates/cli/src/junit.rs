//! Test results as JUnit XML, the form that CI systems read.

use std::fmt::Write;
use std::time::Duration;

/// One test for the report.
pub(crate) struct Entry<'a> {
    /// The folder of the case.
    pub(crate) suite: &'a str,
    pub(crate) name: &'a str,
    pub(crate) time: Duration,
    pub(crate) outcome: Outcome<'a>,
}

pub(crate) enum Outcome<'a> {
    Passed,
    Failed(&'a str),
    Skipped(&'a str),
}

/// The whole document.
pub(crate) fn document(entries: &[Entry<'_>]) -> String {
    let count = |wanted: fn(&Outcome<'_>) -> bool| {
        entries
            .iter()
            .filter(|entry| wanted(&entry.outcome))
            .count()
    };
    let failed = count(|outcome| matches!(outcome, Outcome::Failed(_)));
    let skipped = count(|outcome| matches!(outcome, Outcome::Skipped(_)));
    let time: Duration = entries.iter().map(|entry| entry.time).sum();
    let totals = format!(
        "name=\"ptxjit\" tests=\"{}\" failures=\"{failed}\" errors=\"0\" skipped=\"{skipped}\" time=\"{:.3}\"",
        entries.len(),
        time.as_secs_f64()
    );
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    write!(xml, "<testsuites {totals}>\n<testsuite {totals}>\n").expect("strings take all writes");
    for entry in entries {
        push_entry(&mut xml, entry);
    }
    xml.push_str("</testsuite>\n</testsuites>\n");
    xml
}

fn push_entry(xml: &mut String, entry: &Entry<'_>) {
    let (suite, name) = (escape(entry.suite), escape(entry.name));
    let time = entry.time.as_secs_f64();
    write!(
        xml,
        "<testcase classname=\"{suite}\" name=\"{name}\" time=\"{time:.3}\""
    )
    .expect("strings take all writes");
    let (tag, text) = match entry.outcome {
        Outcome::Passed => return xml.push_str("/>\n"),
        Outcome::Failed(text) => ("failure", text),
        Outcome::Skipped(text) => ("skipped", text),
    };
    let message = escape(text.lines().next().unwrap_or(""));
    let text = escape(text);
    write!(
        xml,
        ">\n<{tag} message=\"{message}\">{text}</{tag}>\n</testcase>\n"
    )
    .expect("strings take all writes");
}

/// XML 1.0 has no way to write most control characters, not even escaped.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document() {
        let entry = |name, outcome| Entry {
            suite: "s",
            name,
            time: Duration::from_millis(1500),
            outcome,
        };
        let xml = document(&[
            entry("a", Outcome::Passed),
            entry("b<", Outcome::Failed("x & y\n\u{1b}\"z\"")),
            entry("c", Outcome::Skipped("`wmma`")),
        ]);
        let totals = r#"name="ptxjit" tests="3" failures="1" errors="0" skipped="1" time="4.500""#;
        let want = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {totals}>\n<testsuite {totals}>\n\
             <testcase classname=\"s\" name=\"a\" time=\"1.500\"/>\n\
             <testcase classname=\"s\" name=\"b&lt;\" time=\"1.500\">\n\
             <failure message=\"x &amp; y\">x &amp; y\n\u{fffd}&quot;z&quot;</failure>\n</testcase>\n\
             <testcase classname=\"s\" name=\"c\" time=\"1.500\">\n\
             <skipped message=\"`wmma`\">`wmma`</skipped>\n</testcase>\n</testsuite>\n</testsuites>\n"
        );
        assert_eq!(xml, want);
    }
}
