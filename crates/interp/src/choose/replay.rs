//! Recording the choices of a schedule, and making them again.

use std::fmt;
use std::str::FromStr;

use super::{Chooser, Departed, Event, NextCta, NextGroup, Task};

/// A choice, and what followed from it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Turn {
    /// A CTA was started, the last of those left or the first.
    Start {
        /// Whether it was the last.
        last: bool,
    },
    /// Lanes ran.
    Run {
        /// Linear number of the CTA in the grid.
        cta: u32,
        /// Number of the group of lanes in the CTA.
        group: u32,
        /// The lanes.
        lanes: u32,
        /// Preemption points that they passed before they stopped at one, or waited, or ended.
        passed: u32,
    },
}

/// The choices of a launch in their order; of equal ones that follow each other, one and their
/// number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Turns(Vec<(Turn, u32)>);

impl Turns {
    fn push(&mut self, turn: Turn) {
        match self.0.last_mut() {
            Some((last, count)) if *last == turn && *count < u32::MAX => *count += 1,
            _ => self.0.push((turn, 1)),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Words with spaces between them: `+` starts the first CTA, `-` the last, `CTA.GROUP/LANES:PASSED`
/// runs lanes; `*N` repeats.
impl fmt::Display for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (idx, (turn, count)) in self.0.iter().enumerate() {
            if idx > 0 {
                f.write_str(" ")?;
            }
            match turn {
                Turn::Start { last: false } => f.write_str("+")?,
                Turn::Start { last: true } => f.write_str("-")?,
                Turn::Run {
                    cta,
                    group,
                    lanes,
                    passed,
                } => {
                    write!(f, "{cta}.{group}")?;
                    if *lanes != u32::MAX {
                        write!(f, "/{lanes:x}")?;
                    }
                    if *passed != 0 {
                        write!(f, ":{passed}")?;
                    }
                }
            }
            if *count > 1 {
                write!(f, "*{count}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for Turns {
    type Err = String;

    fn from_str(text: &str) -> Result<Turns, String> {
        let turns = text.split_whitespace().map(|word| {
            let (turn, count) = word.split_once('*').unwrap_or((word, "1"));
            let parsed = count.parse().ok().filter(|&count: &u32| count > 0);
            parsed
                .and_then(|count| Some((turn_of(turn)?, count)))
                .ok_or_else(|| format!("`{word}` is no choice"))
        });
        turns.collect::<Result<_, _>>().map(Turns)
    }
}

fn turn_of(word: &str) -> Option<Turn> {
    match word {
        "+" => return Some(Turn::Start { last: false }),
        "-" => return Some(Turn::Start { last: true }),
        _ => {}
    }
    let (word, passed) = match word.split_once(':') {
        Some((word, passed)) => (word, passed.parse().ok()?),
        None => (word, 0),
    };
    let (word, lanes) = match word.split_once('/') {
        Some((word, lanes)) => (word, u32::from_str_radix(lanes, 16).ok()?),
        None => (word, u32::MAX),
    };
    let (cta, group) = word.split_once('.')?;
    Some(Turn::Run {
        cta: cta.parse().ok()?,
        group: group.parse().ok()?,
        lanes,
        passed,
    })
}

/// Keeps the choices of another chooser.
pub(crate) struct Recorder {
    inner: Box<dyn Chooser>,
    turns: Turns,
    /// The last choice, which may go on.
    open: Option<Turn>,
    cta: u32,
}

impl Recorder {
    pub(crate) fn new(inner: Box<dyn Chooser>) -> Recorder {
        Recorder {
            inner,
            turns: Turns::default(),
            open: None,
            cta: 0,
        }
    }

    fn close(&mut self) {
        if let Some(turn) = self.open.take() {
            self.turns.push(turn);
        }
    }
}

impl Chooser for Recorder {
    fn next_cta(
        &mut self,
        may_start: bool,
        tasks: &dyn Fn() -> Vec<Task>,
    ) -> Result<NextCta, Departed> {
        let next = self.inner.next_cta(may_start, tasks)?;
        self.close();
        match next {
            NextCta::Everyone => {}
            NextCta::One(cta) => self.cta = cta,
            NextCta::Start { last } => self.turns.push(Turn::Start { last }),
        }
        Ok(next)
    }

    fn next_group(&mut self, tasks: &dyn Fn() -> Vec<Task>) -> Result<NextGroup, Departed> {
        let next = self.inner.next_group(tasks)?;
        if let NextGroup::One { group, lanes } = next {
            self.open = Some(Turn::Run {
                cta: self.cta,
                group,
                lanes,
                passed: 0,
            });
        }
        Ok(next)
    }

    fn stop_here(&mut self, task: Task) -> bool {
        let stops = self.inner.stop_here(task);
        if let (false, Some(Turn::Run { passed, .. })) = (stops, &mut self.open) {
            *passed += 1;
        }
        stops
    }

    fn note(&mut self, event: Event) {
        self.inner.note(event);
    }

    fn turns(&mut self) -> Turns {
        self.close();
        std::mem::take(&mut self.turns)
    }
}

/// Makes recorded choices.
pub(crate) struct Replay {
    turns: Vec<(Turn, u32)>,
    /// Which is next, and how often it was repeated already.
    at: (usize, u32),
    /// What the lanes that run may still pass.
    left: u32,
}

impl Replay {
    pub(crate) fn new(turns: &Turns) -> Replay {
        Replay {
            turns: turns.0.clone(),
            at: (0, 0),
            left: 0,
        }
    }

    fn peek(&self) -> Result<Turn, Departed> {
        self.turns
            .get(self.at.0)
            .map(|&(turn, _)| turn)
            .ok_or(Departed)
    }

    fn advance(&mut self) {
        let (idx, repeated) = self.at;
        self.at = match self.turns.get(idx) {
            Some(&(_, count)) if repeated + 1 < count => (idx, repeated + 1),
            _ => (idx + 1, 0),
        };
    }
}

impl Chooser for Replay {
    fn next_cta(
        &mut self,
        may_start: bool,
        tasks: &dyn Fn() -> Vec<Task>,
    ) -> Result<NextCta, Departed> {
        // The deterministic schedule has no choices.
        if self.turns.is_empty() {
            return Ok(match may_start {
                true => NextCta::Start { last: false },
                false => NextCta::Everyone,
            });
        }
        match self.peek()? {
            Turn::Start { last } if may_start => {
                self.advance();
                Ok(NextCta::Start { last })
            }
            Turn::Run { cta, .. } if tasks().iter().any(|task| task.cta == cta) => {
                Ok(NextCta::One(cta))
            }
            Turn::Start { .. } | Turn::Run { .. } => Err(Departed),
        }
    }

    fn next_group(&mut self, tasks: &dyn Fn() -> Vec<Task>) -> Result<NextGroup, Departed> {
        if self.turns.is_empty() {
            return Ok(NextGroup::Everyone);
        }
        let Turn::Run {
            group,
            lanes,
            passed,
            ..
        } = self.peek()?
        else {
            return Err(Departed);
        };
        let is_there = |task: &Task| task.group == group && lanes & !task.lanes == 0;
        if !tasks().iter().any(is_there) {
            return Err(Departed);
        }
        self.advance();
        self.left = passed;
        Ok(NextGroup::One { group, lanes })
    }

    fn stop_here(&mut self, _task: Task) -> bool {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                false
            }
            None => true,
        }
    }

    fn note(&mut self, _event: Event) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text() {
        let run = |cta, group, lanes, passed| Turn::Run {
            cta,
            group,
            lanes,
            passed,
        };
        let mut turns = Turns::default();
        turns.push(Turn::Start { last: true });
        turns.push(Turn::Start { last: false });
        turns.push(run(3, 0, u32::MAX, 0));
        turns.push(run(3, 0, u32::MAX, 0));
        turns.push(run(3, 7, 0xff, 12));
        let text = "- + 3.0*2 3.7/ff:12";
        assert_eq!(turns.to_string(), text);
        assert_eq!(text.parse(), Ok(turns));
        assert_eq!("".parse(), Ok(Turns::default()));
        for text in [
            "x", "1", "1.", ".1", "1.1*", "1.1*0", "1.1/g", "1.1:-1", "+1",
        ] {
            assert!(text.parse::<Turns>().is_err(), "{text}");
        }
    }
}
