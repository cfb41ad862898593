//! Instructions whose result is exactly known, in groups that one kernel tries together.
//!
//! The kernel adds up the results of all forms of a group, each times an odd number of its own. So
//! a single wrong result always shows in the sum, and several do but for one case in 2^32. If a sum
//! is wrong, each form runs alone.
//!
//! Rounding is monotonic: where the references at both ends of a range of inputs agree, they agree
//! everywhere in between. So ranges of inputs with one result are found by halving, and most
//! results are compared with a constant.

use super::sweep::{self, CHUNK, Chunk, Inputs, Sweep};
use super::{Args, Row};

/// Odd numbers, the first one.
fn factors() -> impl Iterator<Item = u32> {
    std::iter::successors(Some(1u32), |factor| Some(factor.wrapping_mul(0x9E37_79B1)))
}

/// One instruction.
pub(super) struct Form {
    pub(super) name: String,
    /// PTX from the input `%r1` to the result `%r2`, and for results of 64 bits its upper word
    /// `%r3`, with registers of its own.
    pub(super) code: String,
    pub(super) is_wide: bool,
    /// Runs over all f32 numbers only with `--all`, otherwise over [`Inputs::Edges`]: it is slow,
    /// or differs little from another form.
    pub(super) on_edges: bool,
}

/// Writes the results of all forms for an input.
pub(super) type Wants = Box<dyn Fn(u32, &mut [u64]) + Sync>;

pub(super) struct Group {
    pub(super) name: String,
    /// Bits of the inputs.
    pub(super) bits: u32,
    /// Within an aligned range of so many inputs, every reference goes one way.
    pub(super) grain: u32,
    /// PTX before the forms.
    pub(super) prelude: String,
    pub(super) forms: Vec<Form>,
    pub(super) wants: Wants,
}

/// What a worker found.
#[derive(Default)]
struct Found {
    wrong: u64,
    first: Option<(u32, u32, u32)>,
    low: Vec<u64>,
    high: Vec<u64>,
}

impl Group {
    /// Runs the forms whose names begin with one of `args.names`, or all if the group's does; each
    /// alone if something was wrong.
    pub(super) fn run(&self, args: &Args) -> bool {
        let names = &args.names;
        let whole = names.is_empty() || names.contains(&self.name);
        let is_wanted = |&n: &usize| {
            whole
                || names
                    .iter()
                    .any(|name| self.forms[n].name.starts_with(name))
        };
        let wanted: Vec<usize> = (0..self.forms.len()).filter(is_wanted).collect();
        let name = match wanted[..] {
            [] => return true,
            [one] => &self.forms[one].name,
            _ => &self.name,
        };
        let (edges, full): (Vec<usize>, Vec<usize>) = wanted
            .into_iter()
            .partition(|&n| self.forms[n].on_edges && !args.all);
        let mut good = true;
        for (which, inputs) in [(full, Inputs::All(self.bits)), (edges, Inputs::Edges)] {
            if which.is_empty() {
                continue;
            }
            let is_right = self.run_some(args, &which, inputs, name);
            good &= is_right;
            if !is_right && which.len() > 1 {
                for n in which {
                    self.run_some(args, &[n], inputs, &self.forms[n].name);
                }
            }
        }
        good
    }

    fn run_some(&self, args: &Args, which: &[usize], inputs: Inputs, name: &str) -> bool {
        let body = self.body(which);
        let sweep = Sweep {
            name,
            body: &body,
            words: 1,
            inputs,
        };
        let swept = sweep::run(args, &sweep, &|found: &mut Found, chunk| {
            self.check(which, chunk, found);
        });
        let wrong: u64 = swept.states.iter().map(|found| found.wrong).sum();
        let first = swept.states.iter().find_map(|found| found.first);
        let first = first.map_or(String::new(), |(input, got, want)| {
            let what = if which.len() == 1 { "" } else { " (folded)" };
            format!("{input:08x} -> {got:08x}, not {want:08x}{what}")
        });
        args.print(&Row {
            name,
            what: &match which.len() {
                1 => "1 form".to_owned(),
                n => format!("{n} forms"),
            },
            error: &format!("{} inputs", swept.inputs),
            bound: "exact",
            wrong,
            first: &first,
            gangs: &swept.gangs(),
            wall: swept.wall,
        });
        wrong == 0 && swept.gangs_agree()
    }

    fn body(&self, which: &[usize]) -> String {
        let mut body = format!("{}\nmov.u32 %out0, 0;\n", self.prelude);
        let mut factors = factors();
        for &n in which {
            let Form { code, is_wide, .. } = &self.forms[n];
            body += &format!("{{ {REGISTERS}\n{code}\n");
            for word in ["%r2", "%r3"].iter().take(1 + usize::from(*is_wide)) {
                let factor = factors.next().unwrap_or(1);
                body += &format!("mad.lo.u32 %out0, {word}, {factor}, %out0;\n");
            }
            body += "}\n";
        }
        body
    }

    fn fold(&self, which: &[usize], wants: &[u64]) -> u32 {
        let mut factors = factors();
        let mut sum = 0u32;
        let mut add = |word: u32| {
            let factor = factors.next().unwrap_or(1);
            sum = sum.wrapping_add(word.wrapping_mul(factor));
        };
        for &n in which {
            add(wants[n] as u32);
            if self.forms[n].is_wide {
                add((wants[n] >> 32) as u32);
            }
        }
        sum
    }

    fn check(&self, which: &[usize], chunk: &Chunk, found: &mut Found) {
        found.low.resize(self.forms.len(), 0);
        found.high.resize(self.forms.len(), 0);
        let grain = if chunk.is_dense() { self.grain } else { 1 };
        let mut at = 0;
        while at < chunk.count {
            let end = (at + grain.min(CHUNK) as usize).min(chunk.count);
            self.range(which, chunk, at, end, found);
            at = end;
        }
    }

    /// Checks the inputs from `start` to before `end`.
    fn range(&self, which: &[usize], chunk: &Chunk, start: usize, end: usize, found: &mut Found) {
        (self.wants)(chunk.input(start), &mut found.low);
        let want = self.fold(which, &found.low);
        if end - start > 1 {
            (self.wants)(chunk.input(end - 1), &mut found.high);
        }
        if end - start == 1 || found.low == found.high {
            let results = &chunk.word(0)[start..end];
            let wrong = results.iter().filter(|&&result| result != want).count();
            if wrong != 0 {
                found.wrong += wrong as u64;
                let pairs = (start..end).zip(results);
                let first = pairs.into_iter().find(|&(_, &result)| result != want);
                let first = first.map(|(i, &result)| (chunk.input(i), result, want));
                found.first = found.first.or(first);
            }
        } else if end - start <= 16 {
            for i in start..end {
                self.range(which, chunk, i, i + 1, found);
            }
        } else {
            let middle = start + (end - start) / 2;
            self.range(which, chunk, start, middle, found);
            self.range(which, chunk, middle, end, found);
        }
    }
}

/// Registers of each form. `%r2` and `%r3` are the form's as well.
const REGISTERS: &str = ".reg .b8 %b<3>; .reg .b16 %h<3>; .reg .b32 %t<4>; .reg .f32 %f<5>; .reg .f64 %d<3>; .reg .b64 %q<3>; .reg .pred %p<2>;";
