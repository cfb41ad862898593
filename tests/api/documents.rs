//! Findings as text, JSON and SARIF.

use ptxjit::sanitize::{
    AccessOp, Checks, Finding, FindingKind, FoundAccess, Severity, SourcePlace, Style, json, sarif,
    text,
};

fn finding() -> Finding {
    let message = "a thread writes what another one reads, and nothing orders the two of them";
    let (kind, severity) = (FindingKind::Race, Severity::Warning);
    let mut finding = Finding::new(kind, severity, "k", message.to_owned());
    let place = SourcePlace {
        file: "/a b/c%d.cu".to_owned(),
        line: 7,
        column: 2,
    };
    let call = "cuMemcpyHtoD_v2";
    let access = FoundAccess::by_program(AccessOp::Store, call, vec![place]);
    finding.accesses.push(access);
    finding
}

fn drawn(width: usize) -> String {
    let style = Style {
        width: Some(width),
        ..Style::default()
    };
    text(&[finding()], style)
}

#[test]
fn lines_fit_where_words_do() {
    let plain = "race (warning): kernel `k`: a thread writes what another one reads, and nothing orders the two of them\n  \
                 --> `cuMemcpyHtoD_v2`\n   = written by the program at /a b/c%d.cu:7:2\n\n";
    assert_eq!(text(&[finding()], Style::default()), plain);
    assert_eq!(drawn(200), plain);
    let narrow = "race (warning): kernel `k`: a thread\n    writes what another one reads, and\n    \
                  nothing orders the two of them\n  --> `cuMemcpyHtoD_v2`\n   = written by the program at /a\n       b/c%d.cu:7:2\n\n";
    assert_eq!(drawn(40), narrow);
    // A word that is too long stays whole.
    assert!(drawn(12).contains("`cuMemcpyHtoD_v2`"));
}

#[test]
fn colors_tell_what_kind_it_is() {
    let style = Style {
        color: true,
        ..Style::default()
    };
    let drawn = text(&[finding()], style);
    let mut lines = drawn.lines();
    let mut starts = |start: &str| {
        let line = lines.next().unwrap();
        assert!(line.starts_with(start), "{line:?}");
    };
    starts("\x1b[1;33mrace (warning):\x1b[0m kernel `k`: a");
    starts("\x1b[1;34m  -->\x1b[0m `cuMemcpyHtoD_v2`");
    starts("\x1b[1;34m   =\x1b[0m written by");
}

#[test]
fn calls_of_a_program_have_no_thread() {
    let checks = Checks {
        mem: true,
        leak: true,
        ..Checks::default()
    };
    let document: serde_json::Value =
        serde_json::from_str(&json(checks, &[finding()], 2, true)).unwrap();
    assert_eq!(document["checks"], serde_json::json!(["mem", "leak"]));
    assert_eq!(document["suppressed"], 2);
    assert_eq!(document["truncated"], true);
    let access = &document["findings"][0]["accesses"][0];
    let place = serde_json::json!({"file": "/a b/c%d.cu", "line": 7, "column": 2});
    let wanted = serde_json::json!({
        "op": "store", "call": "cuMemcpyHtoD_v2", "source": place,
        "stack": [{"function": null, "source": place}],
    });
    assert_eq!(access, &wanted);
}

#[test]
fn paths_are_references_in_sarif() {
    let document: serde_json::Value = serde_json::from_str(&sarif(&[finding()])).unwrap();
    let result = &document["runs"][0]["results"][0];
    assert_eq!(result["level"], "warning");
    let place = &result["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "/a%20b/c%25d.cu");
    assert_eq!(place["region"]["startLine"], 7);
}
