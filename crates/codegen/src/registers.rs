//! The cost of a sequence of instructions on a machine with few registers: the accesses of memory
//! if each spill evicts the value whose next use is farthest away (Belady 1966), which is close to
//! the result of a good allocator.

use smallvec::SmallVec;

/// Accesses of memory, in vectors.
#[derive(Copy, Clone, Default, Debug)]
pub(crate) struct Traffic {
    /// First uses of values in memory.
    pub loads: usize,
    /// Values spilled, and reloaded.
    pub spills: usize,
}

impl Traffic {
    pub(crate) fn total(self) -> usize {
        self.loads + self.spills
    }
}

/// A value from its definition to its last use.
struct Held {
    /// Registers that it takes.
    weight: usize,
    /// Steps that use it, in order.
    uses: SmallVec<[usize; 4]>,
    /// How many of the uses are past.
    past: usize,
    in_memory: bool,
    in_register: bool,
    /// It has been in a register.
    was_loaded: bool,
}

impl Held {
    fn next_use(&self) -> Option<usize> {
        self.uses.get(self.past).copied()
    }
}

/// Steps, and the values that they use and make. Values that take no register are left out by
/// weight zero.
#[derive(Default)]
pub(crate) struct Sequence {
    values: Vec<Held>,
    /// The values that each step uses, and those that it defines.
    steps: Vec<(Positions, Positions)>,
}

/// Positions in [`Sequence::values`].
type Positions = SmallVec<[usize; 4]>;

impl Sequence {
    pub(crate) fn begin_step(&mut self) {
        self.steps.push(Default::default());
    }

    /// A value that lies in memory before it is used.
    pub(crate) fn enter(&mut self, weight: usize) -> usize {
        self.add(weight, true)
    }

    /// The step uses a value.
    pub(crate) fn used(&mut self, value: usize) {
        let at = self.steps.len() - 1;
        self.values[value].uses.push(at);
        self.steps[at].0.push(value);
    }

    /// The step defines a value.
    pub(crate) fn made(&mut self, weight: usize) -> usize {
        let value = self.add(weight, false);
        let at = self.steps.len() - 1;
        self.steps[at].1.push(value);
        value
    }

    fn add(&mut self, weight: usize, in_memory: bool) -> usize {
        self.values.push(Held {
            weight,
            uses: SmallVec::new(),
            past: 0,
            in_memory,
            in_register: false,
            was_loaded: !in_memory,
        });
        self.values.len() - 1
    }

    /// The accesses of memory with this many registers.
    pub(crate) fn traffic(mut self, registers: usize) -> Traffic {
        let mut traffic = Traffic::default();
        let mut held: Vec<usize> = Vec::new();
        for (at, (used, made)) in self.steps.iter().enumerate() {
            for &id in used.iter().chain(made) {
                let value = &mut self.values[id];
                while value.next_use().is_some_and(|next| next <= at) {
                    value.past += 1;
                }
                if value.in_register || value.weight == 0 {
                    continue;
                }
                if value.in_memory && value.was_loaded {
                    traffic.spills += value.weight;
                } else if value.in_memory {
                    traffic.loads += value.weight;
                }
                (value.in_register, value.was_loaded) = (true, true);
                held.push(id);
            }
            let is_busy = |id: &usize| used.contains(id) || made.contains(id);
            while held.iter().map(|&id| self.values[id].weight).sum::<usize>() > registers {
                let farthest = (0..held.len())
                    .filter(|&idx| !is_busy(&held[idx]))
                    .max_by_key(|&idx| self.values[held[idx]].next_use());
                let Some(idx) = farthest else { break };
                let value = &mut self.values[held.swap_remove(idx)];
                value.in_register = false;
                if !value.in_memory {
                    value.in_memory = true;
                    traffic.spills += value.weight;
                }
            }
            held.retain(|&id| self.values[id].next_use().is_some());
        }
        traffic
    }
}

#[cfg(test)]
mod tests {
    use super::Sequence;

    /// This many sums, to each of which is added this many times, all of them in turn.
    fn sums(n_sums: usize, iterations: usize) -> Sequence {
        let mut sequence = Sequence::default();
        let mut sums: Vec<usize> = (0..n_sums).map(|_| sequence.enter(1)).collect();
        for _ in 0..iterations {
            for sum in &mut sums {
                sequence.begin_step();
                sequence.used(*sum);
                *sum = sequence.made(1);
            }
        }
        sequence
    }

    #[test]
    fn what_fits_is_loaded_once() {
        let traffic = sums(4, 10).traffic(5);
        assert_eq!((traffic.loads, traffic.spills), (4, 0));
    }

    #[test]
    fn what_does_not_fit_is_put_aside_and_fetched() {
        // Six values in five registers, of which a step takes two: each iteration spills two sums,
        // and reloads them in the next.
        let few = sums(6, 10).traffic(5);
        let many = sums(12, 10).traffic(5);
        assert_eq!(few.loads, 6);
        assert!(
            few.spills > 0 && many.spills > 2 * few.spills,
            "{few:?} {many:?}"
        );
    }

    #[test]
    fn scalars_take_no_vector_registers() {
        let mut sequence = Sequence::default();
        let scalars: Vec<usize> = (0..20).map(|_| sequence.enter(0)).collect();
        for &scalar in scalars.iter().chain(&scalars) {
            sequence.begin_step();
            sequence.used(scalar);
        }
        assert_eq!(sequence.traffic(2).total(), 0);
    }
}
