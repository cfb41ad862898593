//! Counters in programs that tell what was run ([`Counters`](ptxjit_ir::Counters)).
//!
//! Instructions that the same threads execute share a counter: it stands before the first of them.
//! A label, a branch, a call and an instruction under whose guard threads end begin another, since
//! the threads that go on may be others. A condition has a counter of the threads for which its
//! predicate is true; how many it was false for is the difference. A branch by an index has one for
//! each target.

use ptxjit_ir::{
    Block, CompareOp, Counted, FuncId, InstData, IntBinaryOp, Sides, SrcLoc, Type, Value,
};

use super::Translator;

/// Where a body's counters are.
#[derive(Default)]
pub(super) struct Counting {
    /// The counter of the threads that are here, while they are in this block.
    here: Option<(Block, u32)>,
    /// Counters of predicates among these threads.
    predicates: Vec<(Value, u32)>,
    /// The statement at hand.
    statement: Option<SrcLoc>,
}

impl Translator<'_> {
    /// Counts how often a function begins.
    pub(super) fn count_function(&mut self, id: FuncId) {
        let Some(counter) = self.counter_here() else {
            return;
        };
        if let Some(counters) = &mut self.tables.counters {
            counters.functions.insert(id, counter);
        }
    }

    /// Counts the threads that come to the statement at hand.
    pub(super) fn count_statement(&mut self) {
        let Some(reached) = self.counter_here() else {
            return;
        };
        let loc = SrcLoc(self.at);
        self.counting.statement = Some(loc);
        if let Some(counters) = &mut self.tables.counters {
            let counted = Counted {
                reached,
                guard: None,
                choice: None,
            };
            counters.statements.insert(loc, counted);
        }
    }

    /// The counter of the threads that are here.
    fn counter_here(&mut self) -> Option<u32> {
        let block = self.builder.current_block();
        match self.counting.here {
            Some((of, counter)) if of == block => Some(counter),
            Some(_) | None => {
                let counter = self.new_counter(None)?;
                self.counting.here = Some((block, counter));
                self.counting.predicates.clear();
                Some(counter)
            }
        }
    }

    /// Puts a counter here, if the program is to have any.
    fn new_counter(&mut self, cond: Option<Value>) -> Option<u32> {
        let counters = self.tables.counters.as_mut()?;
        let counter = counters.n;
        counters.n += 1;
        let sides = cond.is_some();
        self.ins_void(InstData::Count {
            counter,
            cond,
            sides,
        });
        Some(counter)
    }

    /// The same threads go on in whatever block the instruction at hand has led to.
    pub(super) fn keep_counting(&mut self) {
        if let Some((block, _)) = &mut self.counting.here {
            *block = self.builder.current_block();
        }
    }

    /// From here on there may be fewer threads, or others.
    pub(super) fn restart_counting(&mut self) {
        self.counting.here = None;
    }

    /// Counts the sides of the guard of the statement at hand.
    pub(super) fn count_guard(&mut self, predicate: Value, is_negated: bool) {
        let sides = self.count_sides(predicate, is_negated);
        if let (Some(sides), Some(counted)) = (sides, self.counted()) {
            counted.guard = Some(sides);
        }
    }

    /// Counts the sides of a choice between two values, for the threads that make it.
    pub(crate) fn count_choice(&mut self, predicate: Value) {
        if self.tables.counters.is_none() {
            return;
        }
        let made = match self.guard {
            Some(guard) => self.binary(IntBinaryOp::And, guard, predicate),
            None => predicate,
        };
        let sides = self.count_sides(made, false);
        if let (Some(sides), Some(counted)) = (sides, self.counted()) {
            counted.choice = Some(sides);
        }
    }

    /// Counts the threads that go to each of `n` targets of the branch at hand.
    pub(super) fn count_targets(&mut self, index: Value, n: usize) {
        let Some(loc) = self.counting.statement else {
            return;
        };
        if self.tables.counters.is_none() {
            return;
        }
        let mut targets = Vec::with_capacity(n);
        for target in 0..n {
            let target = self.iconst(Type::B32, target as u64);
            let goes = self.compare(CompareOp::Eq, index, target);
            let goes = match self.guard {
                Some(guard) => self.binary(IntBinaryOp::And, guard, goes),
                None => goes,
            };
            targets.extend(self.new_counter(Some(goes)));
        }
        if let Some(counters) = &mut self.tables.counters {
            counters.tables.insert(loc, targets);
        }
    }

    fn count_sides(&mut self, predicate: Value, is_negated: bool) -> Option<Sides> {
        let known = self.counting.predicates.iter();
        let known = known.copied().find(|&(of, _)| of == predicate);
        let counter = match known {
            Some((_, counter)) => counter,
            None => {
                let counter = self.new_counter(Some(predicate))?;
                self.counting.predicates.push((predicate, counter));
                counter
            }
        };
        Some(Sides {
            counter,
            is_negated,
        })
    }

    fn counted(&mut self) -> Option<&mut Counted> {
        let statement = self.counting.statement?;
        let counters = self.tables.counters.as_mut()?;
        counters.statements.get_mut(&statement)
    }
}
