//! A part of the tests, for machines that share them: every test is in exactly one shard, and all
//! machines agree in which.

use std::collections::HashMap;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;

use crate::paths::shown;

/// Shard `index` of `count`, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    pub index: usize,
    pub count: usize,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let numbers = text.split_once('/').and_then(|(index, count)| {
            let number = |text: &str| text.parse::<u32>().ok().map(|n| n as usize);
            Some((number(index)?, number(count)?))
        });
        let (index, count) = numbers.ok_or("expected I/N, such as 1/4")?;
        if count == 0 || !(1..=count).contains(&index) {
            return Err(format!("there is no shard {index} of {count}"));
        }
        Ok(Shard { index, count })
    }
}

/// Milliseconds that tests took earlier, by name.
pub type Timings = HashMap<String, f64>;

impl Shard {
    /// Which of the tests called `names` are in this shard. Without times, each test goes to the
    /// shard after that of the one before it: neighbours are often builds of the same source, and
    /// take as long.
    pub fn choose(self, names: &[&str], timings: &Timings) -> Vec<bool> {
        if timings.is_empty() {
            let is_mine = |idx: usize| idx % self.count == self.index - 1;
            return (0..names.len()).map(is_mine).collect();
        }
        self.balanced(names, timings)
    }

    /// The longest test first, each to the shard that has the least to do. A test without a time
    /// counts as the average.
    fn balanced(self, names: &[&str], timings: &Timings) -> Vec<bool> {
        let known: Vec<f64> = names
            .iter()
            .filter_map(|&name| timings.get(name).copied())
            .collect();
        let average = known.iter().sum::<f64>() / known.len().max(1) as f64;
        let time = |idx: usize| timings.get(names[idx]).copied().unwrap_or(average);
        let mut order: Vec<usize> = (0..names.len()).collect();
        // The sort keeps the order of equal times, so that all machines get the same.
        order.sort_by(|&a, &b| time(b).total_cmp(&time(a)));
        // Shards without any test need no entry.
        let mut loads = vec![(0.0f64, 0usize); self.count.min(names.len())];
        let mut chosen = vec![false; names.len()];
        for idx in order {
            let least = (0..loads.len())
                .min_by(|&a, &b| {
                    loads[a]
                        .0
                        .total_cmp(&loads[b].0)
                        .then(loads[a].1.cmp(&loads[b].1))
                })
                .expect("there is a shard for the test");
            // Tests of no time at all are spread, too.
            loads[least].0 += time(idx);
            loads[least].1 += 1;
            chosen[idx] = least == self.index - 1;
        }
        chosen
    }
}

/// Adds the times of a report, as `--json` or `--junit` writes it. Of tests with the same name, the
/// longest counts.
pub fn read_timings(path: &Path, timings: &mut Timings) -> Result<()> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", shown(path)))?;
    let times = if text.trim_start().starts_with('<') {
        junit_times(&text)
    } else {
        json_times(&text)
    };
    let times = times.with_context(|| format!("{} is no report of tests", shown(path)))?;
    for (name, ms) in times {
        ensure!(
            ms.is_finite() && ms >= 0.0,
            "{}: {ms} is no time",
            shown(path)
        );
        let entry = timings.entry(name).or_default();
        *entry = entry.max(ms);
    }
    Ok(())
}

fn json_times(text: &str) -> Result<Vec<(String, f64)>> {
    let document: Value = serde_json::from_str(text)?;
    let tests = document["tests"]
        .as_array()
        .ok_or_else(|| anyhow!("it has no list `tests`"))?;
    let time = |test: &Value| Some((test["name"].as_str()?.to_owned(), test["ms"].as_f64()?));
    tests
        .iter()
        .map(|test| time(test).ok_or_else(|| anyhow!("a test without name or time: {test}")))
        .collect()
}

/// Names and times of the `testcase` elements. XML's other parts have no meaning here.
fn junit_times(text: &str) -> Result<Vec<(String, f64)>> {
    ensure!(text.contains("<testsuite"), "it has no testsuite");
    let mut times = Vec::new();
    for element in text.split("<testcase").skip(1) {
        let (name, time) = (attribute(element, "name"), attribute(element, "time"));
        let seconds = time.and_then(|time| time.parse::<f64>().ok());
        let (Some(name), Some(seconds)) = (name, seconds) else {
            return Err(anyhow!("a testcase without name or time"));
        };
        times.push((name, seconds * 1e3));
    }
    Ok(times)
}

/// The value of an attribute of the element that `text` begins in.
fn attribute(text: &str, wanted: &str) -> Option<String> {
    let mut rest = text.trim_start();
    loop {
        let (name, after) = rest.split_once('=')?;
        let after = after.trim_start();
        let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let (value, after) = after[1..].split_once(quote)?;
        if name.trim() == wanted {
            return Some(unescape(value));
        }
        rest = after.trim_start();
        if rest.starts_with(['>', '/']) {
            return None;
        }
    }
}

/// XML's five named characters; the ampersand last, so that nothing is replaced twice.
fn unescape(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&apos;", "'")
        .replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        assert_eq!("2/3".parse(), Ok(Shard { index: 2, count: 3 }));
        for text in [
            "", "1", "0/3", "4/3", "1/0", "0/0", "-1/3", "1/3/5", "a/b", "1/ 3",
        ] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }

    fn chosen(count: usize, names: &[&str], timings: &Timings) -> Vec<Vec<usize>> {
        let of = |index| {
            let chosen = Shard { index, count }.choose(names, timings);
            (0..names.len()).filter(|&idx| chosen[idx]).collect()
        };
        (1..=count).map(of).collect()
    }

    #[test]
    fn every_test_is_in_one_shard() {
        let names: Vec<String> = (0..23).map(|idx| format!("test {idx}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let some: Timings = names[..15]
            .iter()
            .enumerate()
            .map(|(idx, name)| (name.to_string(), (idx * idx % 7) as f64))
            .collect();
        for timings in [Timings::new(), some] {
            for count in 1..30 {
                let mut all = chosen(count, &names, &timings).concat();
                all.sort_unstable();
                assert_eq!(all, (0..23).collect::<Vec<_>>(), "{count} shards");
            }
        }
        assert_eq!(chosen(3, &[], &Timings::new()), [[0usize; 0]; 3]);
    }

    #[test]
    fn by_order_and_by_time() {
        let names = ["a", "b", "c", "d", "e"];
        assert_eq!(
            chosen(2, &names, &Timings::new()),
            [vec![0, 2, 4], vec![1, 3]]
        );
        let times = [("a", 9.0), ("b", 3.0), ("c", 3.0), ("d", 2.0)];
        let timings = times.map(|(name, ms)| (name.to_owned(), ms)).into();
        // The average is 4.25: a (9) | e (4.25), b (3), c (3); then d (2) goes where 9 is less than
        // 10.25.
        assert_eq!(chosen(2, &names, &timings), [vec![0, 3], vec![1, 2, 4]]);
    }

    #[test]
    fn reports() {
        let json = r#"{"passed": 1, "tests": [{"name": "a/b<", "ms": 12.5}]}"#;
        assert_eq!(json_times(json).unwrap(), [("a/b<".to_owned(), 12.5)]);
        let xml = "<testsuites><testsuite name=\"x\"><testcase classname='a' name=\"a/&amp;lt;b&lt;\" time=\"0.25\"/>\n\
                   <testcase time='2' name='c'>\n<failure message=\"name=\">x</failure></testcase></testsuite></testsuites>";
        let want = [("a/&lt;b<".to_owned(), 250.0), ("c".to_owned(), 2000.0)];
        assert_eq!(junit_times(xml).unwrap(), want);
        for text in ["", "{}", "[1]", r#"{"tests": [{"name": "x"}]}"#] {
            assert!(json_times(text).is_err(), "{text}");
        }
        for text in ["<x/>", "<testsuite><testcase name=\"x\"/></testsuite>"] {
            assert!(junit_times(text).is_err(), "{text}");
        }
    }
}
