//! From counters to lines.
//!
//! A counter tells how often a statement of the PTX was run, in each kernel that reaches it; these
//! add up. A line has many statements: as many threads have run it as its most run statement, and
//! copies of the line, inlined in several places or compiled into several functions, add up.

use std::collections::BTreeMap;

use ptxjit_frontend::translate::{FunctionStatements, Module, SourceLine, Statement};
use ptxjit_ir::{Counters, FuncId, Sides, SrcLoc};

use super::{Count, Counted, KernelCounts};

/// What is a file of.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum FileKind {
    /// PTX that was run.
    Ptx,
    /// A source that a `.file` of the PTX names.
    Source,
}

/// A file, and what was run of it.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct File {
    /// As the PTX, or the program that loaded the PTX, names it.
    pub name: String,
    /// What it is.
    pub kind: FileKind,
    /// The text of PTX.
    pub text: Option<String>,
    /// Lines with instructions.
    pub lines: BTreeMap<u32, Line>,
    /// Kernels and device functions that begin in it.
    pub functions: Vec<Function>,
    /// Guards and selections, in the order of their places.
    pub conditions: Vec<Condition>,
}

/// A line that has instructions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Line {
    /// Threads that have run it.
    pub threads: u64,
    /// Instructions of the PTX that it has, and those of them that were run by some thread.
    pub instructions: u32,
    /// See [`Line::instructions`].
    pub instructions_run: u32,
    /// Instructions times the threads that have run them.
    pub thread_instructions: u64,
    /// What warps did, if that was counted.
    pub warps: Option<Warps>,
    /// The lines of the PTX that it was compiled to, each with the index of its file; of PTX itself
    /// none.
    pub ptx: Vec<(String, u32)>,
}

/// What warps did on a line.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Warps {
    /// How often a warp has run it.
    pub executions: u64,
    /// How often with all the threads that the warp has.
    pub whole: u64,
    /// Instructions times the warps that have run them.
    pub instructions: u64,
}

impl Line {
    /// Whether all of its instructions were run.
    pub fn is_complete(&self) -> bool {
        self.instructions == self.instructions_run
    }

    /// Whether it was run, but never by a whole warp.
    pub fn is_never_whole(&self) -> bool {
        self.threads > 0 && self.warps.is_some_and(|warps| warps.whole == 0)
    }

    /// Of the 32 lanes of a warp, how many were active in the mean of its instructions.
    pub fn mean_active_lanes(&self) -> Option<f64> {
        let warps = self.warps.filter(|warps| warps.instructions > 0)?;
        Some(self.thread_instructions as f64 / warps.instructions as f64)
    }
}

/// A kernel or device function.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Function {
    /// Its name in the PTX.
    pub name: String,
    /// Where it begins.
    pub line: u32,
    /// Threads that have begun it; a thread that calls it twice counts twice.
    pub threads: u64,
}

/// Something that threads do or leave, by a predicate.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Condition {
    /// What depends on it.
    pub kind: ConditionKind,
    /// Its line in the file.
    pub line: u32,
    /// File and line of the instruction in the PTX.
    pub ptx: (String, u32),
    /// The function that has it.
    pub function: String,
    /// Threads that branched, executed the instruction or took the first value; and the others. Of
    /// a branch by an index those that went to each target.
    pub sides: Vec<u64>,
    /// The targets of a branch by an index.
    pub targets: Vec<String>,
    /// How often a warp came to it, if that was counted.
    pub warps: Option<u64>,
    /// How often the threads of a warp went both ways, if that was counted. Only branches make
    /// them.
    pub diverged: Option<u64>,
}

/// What depends on a condition.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum ConditionKind {
    /// `@p bra`.
    Branch,
    /// Any other instruction with a guard.
    Guard,
    /// `selp`.
    Select,
    /// `brx.idx`.
    Table,
}

impl ConditionKind {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            ConditionKind::Branch => "branch",
            ConditionKind::Guard => "guard",
            ConditionKind::Select => "select",
            ConditionKind::Table => "table",
        }
    }
}

/// What was counted at a statement, over all kernels.
#[derive(Clone, Default)]
pub(super) struct Hits {
    pub(super) reached: Count,
    guard: Option<Side>,
    choice: Option<Side>,
    /// Threads that went to each target.
    targets: Vec<u64>,
}

/// The threads on the first side of a condition, and the warps that went both ways.
#[derive(Copy, Clone, Default)]
struct Side {
    threads: u64,
    diverged: u64,
}

impl Hits {
    /// Threads that have executed the statement. A branch is executed by those that stay, too.
    pub(super) fn threads(&self, statement: &Statement) -> u64 {
        match self.guard {
            Some(side) if !statement.is_branch => side.threads,
            Some(_) | None => self.reached[0],
        }
    }
}

/// A file under construction, with what tells copies of its lines apart.
struct Draft {
    file: File,
    copies: BTreeMap<(u32, Copy), Line>,
}

/// A copy of a line: in which module and function, and where that was inlined.
type Copy = (usize, FuncId, Vec<(String, u32, u32)>);

/// What was run, by file.
pub(super) fn files<'a>(modules: impl Iterator<Item = &'a Counted>) -> Vec<File> {
    let mut drafts: BTreeMap<(FileKind, String), Draft> = BTreeMap::new();
    for (idx, module) in modules.enumerate() {
        let by_warps = module.kernels.values().all(|kernel| kernel.by_warps);
        for function in module.front.statements() {
            let mut place = Place {
                module: idx,
                front: &module.front,
                by_warps,
                drafts: &mut drafts,
            };
            place.function(&function, module.kernels.values());
        }
    }
    drafts.into_values().map(Draft::finish).collect()
}

/// Where what a function has run goes.
struct Place<'a> {
    module: usize,
    front: &'a Module,
    by_warps: bool,
    drafts: &'a mut BTreeMap<(FileKind, String), Draft>,
}

impl Place<'_> {
    fn function<'k>(
        &mut self,
        function: &FunctionStatements,
        kernels: impl Iterator<Item = &'k KernelCounts>,
    ) {
        let mut hits: BTreeMap<SrcLoc, Hits> = BTreeMap::new();
        let mut threads = 0;
        for kernel in kernels {
            let Some(counters) = &kernel.program.counters else {
                continue;
            };
            let begun = counters.functions.get(&function.func);
            threads += begun.map_or(0, |&counter| kernel.count(counter)[0]);
            for statement in &function.statements {
                let at = hits.entry(statement.loc).or_default();
                at.add(kernel, counters, statement.loc);
            }
        }
        self.begin(function, threads);
        for statement in &function.statements {
            let hits = hits.get(&statement.loc).cloned().unwrap_or_default();
            self.statement(function, statement, &hits);
        }
    }

    /// The function begins in the PTX, and where its first instruction that was not inlined is
    /// from.
    fn begin(&mut self, function: &FunctionStatements, threads: u64) {
        let at = |line| Function {
            name: function.name.clone(),
            line,
            threads,
        };
        let (file, line) = self.ptx(function.loc);
        self.draft(FileKind::Ptx, &file).functions.push(at(line));
        let mut own = function.statements.iter().filter(|it| it.stack.len() == 1);
        if let Some(first) = own.next() {
            let place = &first.stack[0];
            let draft = self.draft(FileKind::Source, &place.file);
            draft.functions.push(at(place.line));
        }
    }

    fn statement(&mut self, function: &FunctionStatements, statement: &Statement, hits: &Hits) {
        let ptx = self.ptx(statement.loc);
        let line = self.line(statement, hits);
        let copy = |stack: &[SourceLine]| {
            let outer = stack.iter().skip(1);
            let outer = outer.map(|at| (at.file.clone(), at.line, at.column));
            (self.module, function.func, outer.collect::<Vec<_>>())
        };
        let own = (copy(&[]), copy(&statement.stack));
        self.put((FileKind::Ptx, &ptx.0, ptx.1), own.0, line.clone());
        self.conditions(
            (FileKind::Ptx, &ptx.0, ptx.1),
            (function, statement),
            &ptx,
            hits,
        );
        // Line 0 is what compilers give code that is of no line.
        if let Some(at) = statement.stack.first().filter(|at| at.line > 0) {
            let place = (FileKind::Source, at.file.as_str(), at.line);
            let line = Line {
                ptx: vec![ptx.clone()],
                ..line
            };
            self.put(place, own.1, line);
            self.conditions(place, (function, statement), &ptx, hits);
        }
    }

    /// A line with a single statement.
    fn line(&self, statement: &Statement, hits: &Hits) -> Line {
        let threads = hits.threads(statement);
        let [_, executions, whole] = hits.reached;
        Line {
            threads,
            instructions: 1,
            instructions_run: u32::from(threads > 0),
            thread_instructions: threads,
            warps: self.by_warps.then_some(Warps {
                executions,
                whole,
                instructions: executions,
            }),
            ptx: Vec::new(),
        }
    }

    fn put(&mut self, (kind, file, line): (FileKind, &str, u32), copy: Copy, new: Line) {
        let draft = self.whole_draft(kind, file);
        let old = draft.copies.entry((line, copy)).or_default();
        old.join(new);
    }

    fn conditions(
        &mut self,
        (kind, file, line): (FileKind, &str, u32),
        (function, statement): (&FunctionStatements, &Statement),
        ptx: &(String, u32),
        hits: &Hits,
    ) {
        let by_warps = self.by_warps;
        let draft = self.draft(kind, file);
        let mut put = |kind: ConditionKind, side: Side, all: u64| {
            let can_diverge = by_warps && kind == ConditionKind::Branch;
            draft.conditions.push(Condition {
                kind,
                line,
                ptx: ptx.clone(),
                function: function.name.clone(),
                sides: vec![side.threads, all.saturating_sub(side.threads)],
                targets: Vec::new(),
                warps: by_warps.then_some(hits.reached[1]),
                diverged: can_diverge.then_some(side.diverged),
            });
        };
        let guard = match statement.is_branch {
            true => ConditionKind::Branch,
            false => ConditionKind::Guard,
        };
        if statement.is_guarded {
            put(guard, hits.guard.unwrap_or_default(), hits.reached[0]);
        }
        if statement.selects {
            let all = hits.threads(statement);
            put(ConditionKind::Select, hits.choice.unwrap_or_default(), all);
        }
        if !statement.targets.is_empty() {
            let mut sides = hits.targets.clone();
            sides.resize(statement.targets.len(), 0);
            draft.conditions.push(Condition {
                kind: ConditionKind::Table,
                line,
                ptx: ptx.clone(),
                function: function.name.clone(),
                sides,
                targets: statement.targets.clone(),
                warps: by_warps.then_some(hits.reached[1]),
                diverged: None,
            });
        }
    }

    fn ptx(&self, loc: SrcLoc) -> (String, u32) {
        let source = self.front.source();
        let file = source.file_name(source.file_at(loc.0)).to_owned();
        (file, self.front.position(loc).line)
    }

    fn draft(&mut self, kind: FileKind, name: &str) -> &mut File {
        &mut self.whole_draft(kind, name).file
    }

    fn whole_draft(&mut self, kind: FileKind, name: &str) -> &mut Draft {
        let source = self.front.source();
        let draft = self.drafts.entry((kind, name.to_owned()));
        draft.or_insert_with(|| {
            let mut files = 0..source.n_files();
            let file = files.find(|&file| kind == FileKind::Ptx && source.file_name(file) == name);
            Draft {
                file: File {
                    name: name.to_owned(),
                    kind,
                    text: file.map(|file| source.file_text(file).to_owned()),
                    lines: BTreeMap::new(),
                    functions: Vec::new(),
                    conditions: Vec::new(),
                },
                copies: BTreeMap::new(),
            }
        })
    }
}

impl Hits {
    /// Adds what a kernel has counted at a statement.
    pub(super) fn add(&mut self, kernel: &KernelCounts, counters: &Counters, loc: SrcLoc) {
        let Some(counted) = counters.statements.get(&loc) else {
            return;
        };
        let reached = kernel.count(counted.reached);
        for (sum, n) in self.reached.iter_mut().zip(reached) {
            *sum = sum.saturating_add(n);
        }
        let side = |sides: Sides, all: u64| {
            let [hits, diverged, _] = kernel.count(sides.counter);
            let threads = match sides.is_negated {
                true => all.saturating_sub(hits),
                false => hits,
            };
            Side { threads, diverged }
        };
        let add = |sum: &mut Option<Side>, sides: Option<Sides>| {
            let Some(sides) = sides else { return };
            let (sum, side) = (sum.get_or_insert_default(), side(sides, reached[0]));
            sum.threads = sum.threads.saturating_add(side.threads);
            sum.diverged = sum.diverged.saturating_add(side.diverged);
        };
        add(&mut self.guard, counted.guard);
        add(&mut self.choice, counted.choice);
        let targets = counters.tables.get(&loc).into_iter().flatten();
        for (idx, &counter) in targets.enumerate() {
            let [threads, ..] = kernel.count(counter);
            self.targets.resize(self.targets.len().max(idx + 1), 0);
            self.targets[idx] = self.targets[idx].saturating_add(threads);
        }
    }
}

impl Line {
    /// Takes in another statement of the same copy of the line.
    fn join(&mut self, other: Line) {
        let executions = |line: &Line| line.warps.map_or(0, |warps| warps.executions);
        let is_first = self.instructions == 0;
        if is_first || (other.threads, executions(&other)) > (self.threads, executions(self)) {
            let instructions = self.warps.map_or(0, |warps| warps.instructions);
            self.threads = other.threads;
            self.warps = other.warps.map(|warps| Warps {
                instructions: instructions + warps.instructions,
                ..warps
            });
        } else if let (Some(warps), Some(others)) = (&mut self.warps, other.warps) {
            warps.instructions += others.instructions;
        }
        self.add_instructions(other);
    }

    /// Takes in another copy of the line.
    fn add(&mut self, other: Line) {
        let is_first = self.instructions == 0;
        self.threads = self.threads.saturating_add(other.threads);
        self.warps = match (self.warps, other.warps) {
            (_, other) if is_first => other,
            (Some(a), Some(b)) => Some(Warps {
                executions: a.executions + b.executions,
                whole: a.whole + b.whole,
                instructions: a.instructions + b.instructions,
            }),
            _ => None,
        };
        self.add_instructions(other);
    }

    fn add_instructions(&mut self, other: Line) {
        self.instructions += other.instructions;
        self.instructions_run += other.instructions_run;
        self.thread_instructions = self
            .thread_instructions
            .saturating_add(other.thread_instructions);
        self.ptx.extend(other.ptx);
        self.ptx.sort();
        self.ptx.dedup();
    }
}

impl Draft {
    fn finish(self) -> File {
        let mut file = self.file;
        for ((line, _), copy) in self.copies {
            file.lines.entry(line).or_default().add(copy);
        }
        file.functions
            .sort_by(|a, b| (a.line, &a.name).cmp(&(b.line, &b.name)));
        file.functions.dedup_by(|b, a| {
            let is_same = (a.line, &a.name) == (b.line, &b.name);
            if is_same {
                a.threads = a.threads.saturating_add(b.threads);
            }
            is_same
        });
        file.conditions
            .sort_by(|a, b| (a.line, &a.ptx, &a.function).cmp(&(b.line, &b.ptx, &b.function)));
        file
    }
}
