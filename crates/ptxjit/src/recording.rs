//! Schedules that are kept in files and followed again.
//!
//! A file has two lines for each launch: what was launched and in what schedule, as `NAME=VALUE`
//! words, then the choices.

use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use ptxjit_interp::Turns;

use crate::{Error, Schedule, UsageRule};

/// The first line of a file, with the version of the format.
const MAGIC: &str = "ptxjit schedule 1";

/// The choices that schedules made in launches, in the order of these.
///
/// [`Options::record`](crate::Options::record) collects them,
/// [`Options::replay`](crate::Options::replay) makes launches follow them. As text
/// ([`Display`](fmt::Display), [`FromStr`]) they can be kept in a file. Clones share what they
/// have.
#[derive(Clone, Default, Debug)]
pub struct Recording(Arc<Mutex<State>>);

#[derive(Default, Debug)]
struct State {
    launches: Vec<(Launched, Turns)>,
    /// The launch that is followed next.
    next: usize,
}

/// What was launched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Launched {
    pub(crate) kernel: String,
    /// A hash of the module's texts.
    pub(crate) module: String,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) cluster: Option<[u32; 3]>,
    pub(crate) shared: u32,
    pub(crate) cooperative: bool,
    pub(crate) schedule: Schedule,
}

impl Recording {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, launched: Launched, turns: Turns) {
        self.lock().launches.push((launched, turns));
    }

    /// The schedule and the choices for the next launch, which must be the one that was recorded.
    pub(crate) fn follow(&self, launched: &Launched) -> Result<(Schedule, Turns), Error> {
        let mut state = self.lock();
        let n = state.launches.len();
        let Some((recorded, turns)) = state.launches.get(state.next) else {
            return Err(Error::usage(
                UsageRule::Recording,
                format!("the recorded schedule is of {n} launches, and there are more"),
            ));
        };
        if let Some(difference) = recorded.difference(launched) {
            return Err(Error::usage(
                UsageRule::Recording,
                format!("the recorded schedule is of another launch: {difference}"),
            ));
        }
        let result = (recorded.schedule, turns.clone());
        state.next += 1;
        Ok(result)
    }
}

impl Launched {
    /// In what a launch is not the one that was recorded. It names no schedule of its own.
    fn difference(&self, now: &Launched) -> Option<String> {
        let dims = |[x, y, z]: [u32; 3]| format!("({x}, {y}, {z})");
        let cluster = |shape: Option<[u32; 3]>| shape.map_or("none".to_owned(), dims);
        let differs = |what: &str, then: String, now: String| {
            (then != now).then(|| format!("its {what} is {then}, here it is {now}"))
        };
        let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
        let quoted = |name: &str| format!("`{name}`");
        differs("kernel", quoted(&self.kernel), quoted(&now.kernel))
            .or_else(|| {
                let is_other = self.module != now.module;
                is_other.then(|| "its module has another text".to_owned())
            })
            .or_else(|| differs("grid", dims(self.grid), dims(now.grid)))
            .or_else(|| differs("block", dims(self.block), dims(now.block)))
            .or_else(|| differs("cluster", cluster(self.cluster), cluster(now.cluster)))
            .or_else(|| {
                let (then, now) = (self.shared.to_string(), now.shared.to_string());
                differs("dynamic shared memory", then, now)
            })
            .or_else(|| differs("`cooperative`", yes(self.cooperative), yes(now.cooperative)))
    }
}

fn dims([x, y, z]: [u32; 3]) -> String {
    format!("{x},{y},{z}")
}

impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = format!("{MAGIC}\n");
        for (launch, turns) in &self.lock().launches {
            let cluster = launch.cluster.map_or("none".to_owned(), dims);
            writeln!(
                text,
                "kernel={} module={} grid={} block={} cluster={cluster} shared={} cooperative={} schedule={}",
                launch.kernel,
                launch.module,
                dims(launch.grid),
                dims(launch.block),
                launch.shared,
                launch.cooperative,
                launch.schedule,
            )?;
            writeln!(text, "{turns}")?;
        }
        f.write_str(&text)
    }
}

impl FromStr for Recording {
    type Err = String;

    fn from_str(text: &str) -> Result<Recording, String> {
        let mut lines = text.lines();
        if lines.next() != Some(MAGIC) {
            return Err(format!("the first line is not `{MAGIC}`"));
        }
        if !text.ends_with('\n') {
            return Err("the file is cut short".to_owned());
        }
        let lines: Vec<&str> = lines.collect();
        let launches = lines.chunks(2).enumerate().map(|(idx, pair)| {
            let at = |line: usize, why: String| format!("line {}: {why}", 2 * idx + 2 + line);
            let [head, turns] = pair else {
                return Err("the file is cut short".to_owned());
            };
            let launched = launched(head).map_err(|why| at(0, why))?;
            Ok((launched, turns.parse().map_err(|why| at(1, why))?))
        });
        let launches = launches.collect::<Result<_, _>>()?;
        let state = State { launches, next: 0 };
        Ok(Recording(Arc::new(Mutex::new(state))))
    }
}

/// Reads the line that says what was launched.
fn launched(line: &str) -> Result<Launched, String> {
    let words: Vec<(&str, &str)> = line
        .split(' ')
        .map(|word| {
            word.split_once('=')
                .ok_or_else(|| format!("`{word}` is no NAME=VALUE"))
        })
        .collect::<Result<_, _>>()?;
    let field = |name: &str| {
        let found = words.iter().find(|(it, _)| *it == name);
        let value = found.map(|&(_, value)| value);
        value.ok_or_else(|| format!("`{name}=` is missing"))
    };
    let wrong = |name: &str, value: &str| format!("`{name}={value}` makes no sense");
    let dims = |name: &str| {
        let value = field(name)?;
        let numbers = value
            .split(',')
            .map(str::parse)
            .collect::<Result<Vec<u32>, _>>();
        let dims = numbers
            .ok()
            .and_then(|list| <[u32; 3]>::try_from(list).ok());
        dims.ok_or_else(|| wrong(name, value))
    };
    let parse_schedule = |value: &str| value.parse().map_err(|_| wrong("schedule", value));
    let shared = field("shared")?;
    let cooperative = field("cooperative")?;
    Ok(Launched {
        kernel: field("kernel")?.to_owned(),
        module: field("module")?.to_owned(),
        grid: dims("grid")?,
        block: dims("block")?,
        cluster: match field("cluster")? {
            "none" => None,
            _ => Some(dims("cluster")?),
        },
        shared: shared.parse().map_err(|_| wrong("shared", shared))?,
        cooperative: cooperative
            .parse()
            .map_err(|_| wrong("cooperative", cooperative))?,
        schedule: parse_schedule(field("schedule")?)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Launched {
        Launched {
            kernel: "k".to_owned(),
            module: "12ab".to_owned(),
            grid: [2, 1, 1],
            block: [64, 1, 1],
            cluster: None,
            shared: 16,
            cooperative: false,
            schedule: Schedule::Pct { seed: 3, depth: 2 },
        }
    }

    #[test]
    fn text_and_back() {
        let recording = Recording::default();
        recording.push(some(), "+ 0.0:3 0.1/f*2".parse().unwrap());
        recording.push(some(), Turns::default());
        let text = recording.to_string();
        let read: Recording = text.parse().unwrap();
        assert_eq!(read.to_string(), text);
        assert_eq!(read.follow(&some()).unwrap().0, some().schedule);
        assert!(read.follow(&some()).unwrap().1.is_empty());
        let more = read.follow(&some()).unwrap_err().to_string();
        assert!(more.contains("2 launches"), "{more}");
        for cut in 1..text.len() {
            assert!(text[..cut].parse::<Recording>().is_err() || text[..cut].ends_with('\n'));
        }
    }

    #[test]
    fn other_launches() {
        type Change = fn(&mut Launched);
        let differences: [(&str, Change); 7] = [
            ("kernel is `k`, here it is `other`", |it| {
                it.kernel = "other".to_owned()
            }),
            ("another text", |it| it.module = "12ac".to_owned()),
            ("grid is (2, 1, 1), here it is (2, 2, 1)", |it| {
                it.grid[1] = 2
            }),
            ("block is (64, 1, 1)", |it| it.block[0] = 32),
            ("cluster is none, here it is (2, 1, 1)", |it| {
                it.cluster = Some([2, 1, 1])
            }),
            ("shared memory is 16, here it is 0", |it| it.shared = 0),
            ("`cooperative` is no, here it is yes", |it| {
                it.cooperative = true
            }),
        ];
        for (wanted, change) in differences {
            let recording = Recording::default();
            recording.push(some(), Turns::default());
            let mut now = some();
            change(&mut now);
            let text = recording.follow(&now).unwrap_err().to_string();
            assert!(text.contains(wanted), "{text}");
        }
    }
}
