//! Schedules without memory of what ran: in order, in turn, at random.

use super::{Chooser, Departed, Event, NextCta, NextGroup, Rng, Task};

/// Everyone as far as it gets.
pub(super) struct InOrder;

impl Chooser for InOrder {
    fn next_cta(
        &mut self,
        may_start: bool,
        _tasks: &dyn Fn() -> Vec<Task>,
    ) -> Result<NextCta, Departed> {
        Ok(match may_start {
            true => NextCta::Start { last: false },
            false => NextCta::Everyone,
        })
    }

    fn next_group(&mut self, _tasks: &dyn Fn() -> Vec<Task>) -> Result<NextGroup, Departed> {
        Ok(NextGroup::Everyone)
    }

    fn stop_here(&mut self, _task: Task) -> bool {
        false
    }

    fn note(&mut self, _event: Event) {}
}

/// One group of one warp after the other.
#[derive(Default)]
pub(super) struct RoundRobin {
    /// The CTA and the group that ran last.
    last: Option<(u32, u32)>,
}

impl RoundRobin {
    /// The first task after the one that ran last, around the end.
    fn next(&self, tasks: &[Task]) -> Option<Task> {
        let after = tasks
            .iter()
            .find(|task| Some((task.cta, task.group)) > self.last);
        after.or(tasks.first()).copied()
    }
}

impl Chooser for RoundRobin {
    fn next_cta(
        &mut self,
        may_start: bool,
        tasks: &dyn Fn() -> Vec<Task>,
    ) -> Result<NextCta, Departed> {
        if may_start {
            return Ok(NextCta::Start { last: false });
        }
        let next = self.next(&tasks()).ok_or(Departed)?;
        Ok(NextCta::One(next.cta))
    }

    fn next_group(&mut self, tasks: &dyn Fn() -> Vec<Task>) -> Result<NextGroup, Departed> {
        let Task { cta, group, lanes } = self.next(&tasks()).ok_or(Departed)?;
        self.last = Some((cta, group));
        Ok(NextGroup::One { group, lanes })
    }

    fn stop_here(&mut self, _task: Task) -> bool {
        true
    }

    fn note(&mut self, _event: Event) {}
}

/// Any task, with equal probability.
pub(super) struct Random(pub(super) Rng);

impl Random {
    /// Of so many times lanes of a group are chosen once without the others: lanes may diverge
    /// anywhere.
    const PARTS: u64 = 32;

    fn any<T: Copy>(&mut self, list: &[T]) -> Result<T, Departed> {
        let idx = self.0.below(list.len() as u64) as usize;
        list.get(idx).copied().ok_or(Departed)
    }
}

impl Chooser for Random {
    fn next_cta(
        &mut self,
        may_start: bool,
        tasks: &dyn Fn() -> Vec<Task>,
    ) -> Result<NextCta, Departed> {
        if may_start {
            let last = self.0.below(2) == 1;
            return Ok(NextCta::Start { last });
        }
        Ok(NextCta::One(self.any(&tasks())?.cta))
    }

    fn next_group(&mut self, tasks: &dyn Fn() -> Vec<Task>) -> Result<NextGroup, Departed> {
        let Task { group, lanes, .. } = self.any(&tasks())?;
        let some = match self.0.below(Random::PARTS) {
            0 => lanes & self.0.next() as u32,
            _ => lanes,
        };
        let lanes = if some == 0 { lanes } else { some };
        Ok(NextGroup::One { group, lanes })
    }

    fn stop_here(&mut self, _task: Task) -> bool {
        true
    }

    fn note(&mut self, _event: Event) {}
}
