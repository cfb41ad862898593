//! Kernels whose threads exchange values: race-free by construction, or with one race put in.
//!
//! A kernel is a sequence of *patterns*: some threads write memory that nothing else uses,
//! something orders them, others read it. There are barriers, named barriers, arrivals, warp
//! barriers, flags with all kinds of releases and acquires, counters, double buffers, mbarriers and
//! asynchronous copies. A pattern orders its own accesses and no others can: its flag is its own,
//! and a barrier before or behind it is before or behind all of it. So a pattern whose order is
//! taken away has a race, whatever the rest of the kernel does; and that is found in every order in
//! which both accesses happen.
//!
//! [`check`] runs a kernel under all sanitizers. The interpreter must find the race, and nothing
//! else; and launches that are screened by compiled code, of every gang width, must say the same.

use std::collections::BTreeSet;
use std::ops::Range;

use ptxjit::sanitize::{Checks, Finding, FindingKind, Reason, Severity};
use ptxjit::{Device, Engine, Error, Module};

use super::patterns;
use super::rng::Rng;

const GANGS: [u32; 5] = [1, 4, 8, 16, 32];

/// Most patterns of a kernel.
const PATTERNS: usize = 6;

/// Bytes of the buffers.
const DATA: usize = 1 << 16;
const FLAGS: usize = 1 << 12;

/// Bytes of shared memory, as in the text's header.
pub(super) const SHARED: u32 = 1 << 15;

/// Mbarriers that the text has.
pub(super) const MBARRIERS: u32 = 4;

/// A kernel with its launch.
pub struct Program {
    /// The PTX.
    pub text: String,
    /// Blocks.
    pub grid: u32,
    /// Threads of a block.
    pub block: u32,
    /// Lines of the pattern with the race, if there is one.
    pub race: Option<Range<u32>>,
}

/// A kernel in the making.
pub(super) struct Kernel {
    pub(super) rng: Rng,
    pub(super) grid: u32,
    pub(super) block: u32,
    lines: Vec<String>,
    n_names: u32,
    /// Bytes in use.
    data: u32,
    flags: u32,
    shared: u32,
    /// The next barrier that nothing has used; the first ones are for all threads and for groups.
    pub(super) barrier: u32,
    /// Mbarriers in use, of [`MBARRIERS`].
    pub(super) n_mbarriers: u32,
}

/// What stands before the first line of a pattern: the thread of the block is `%t` and of the grid
/// `%g`, the block `%b`; `%p` and `%f` lead to data and flags, `%k` counts writes,
/// `%acc` keeps what is read.
const HEADER: &str = "\
.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 data, .param .u64 flags, .param .u64 out)
{
.shared .align 16 .b8 s[32768];
.shared .align 8 .b64 m[4];
.reg .b32 %t, %g, %b, %n, %k, %acc;
.reg .b64 %p, %f, %o, %own;
ld.param.u64 %p, [data];
ld.param.u64 %f, [flags];
ld.param.u64 %o, [out];
mov.u32 %t, %tid.x;
mov.u32 %b, %ctaid.x;
mov.u32 %n, %ntid.x;
mad.lo.u32 %g, %b, %n, %t;
mov.u32 %acc, %g;
mov.u32 %k, 0;
";

const FOOTER: &str = "\
mul.wide.u32 %own, %g, 4;
add.u64 %own, %own, %o;
st.global.u32 [%own], %acc;
ret;
}
";

impl Kernel {
    /// Adds a line.
    pub(super) fn line(&mut self, text: impl Into<String>) {
        self.lines.push(text.into());
    }

    fn name(&mut self, kind: &str, ty: &str) -> String {
        self.n_names += 1;
        let name = format!("%{kind}{}", self.n_names);
        self.line(format!(".reg .{ty} {name};"));
        name
    }

    /// A new register of 32 bits.
    pub(super) fn reg(&mut self) -> String {
        self.name("r", "b32")
    }

    /// A new register of 16 bits.
    pub(super) fn half(&mut self) -> String {
        self.name("h", "b16")
    }

    /// A new register of 64 bits.
    pub(super) fn wide(&mut self) -> String {
        self.name("d", "b64")
    }

    /// A new predicate.
    pub(super) fn pred(&mut self) -> String {
        self.name("q", "pred")
    }

    /// A new label.
    pub(super) fn label(&mut self) -> String {
        self.n_names += 1;
        format!("L{}", self.n_names)
    }

    /// Bytes of data that nothing else uses, at this offset.
    pub(super) fn data(&mut self, bytes: u32) -> u32 {
        let at = self.data;
        self.data = (at + bytes).next_multiple_of(16);
        assert!(self.data as usize <= DATA, "patterns are small");
        at
    }

    /// A flag, likewise.
    pub(super) fn flag(&mut self) -> u32 {
        let at = self.flags;
        self.flags += 16;
        at
    }

    /// Bytes of shared memory that nothing uses at the same time. A barrier makes room.
    pub(super) fn shared(&mut self, bytes: u32) -> u32 {
        if self.shared + bytes > SHARED || (self.shared > 0 && self.rng.chance(30)) {
            self.line("bar.sync 0;");
            self.shared = 0;
        }
        let at = self.shared;
        self.shared = (at + bytes).next_multiple_of(16);
        at
    }

    /// Threads of the grid.
    pub(super) fn threads(&self) -> u32 {
        self.grid * self.block
    }

    /// Whether all warps are whole.
    pub(super) fn has_whole_warps(&self) -> bool {
        self.block.is_multiple_of(32)
    }

    /// One of some words.
    pub(super) fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        let idx = self.rng.below(words.len());
        words[idx]
    }

    fn n_lines(&self) -> u32 {
        (HEADER.lines().count() + self.lines.len()) as u32
    }
}

/// The kernel of a seed; every other one has a race.
pub fn program(seed: u64) -> Program {
    let mut rng = Rng::new(seed ^ 0x0005_4e4c);
    let grid = 1 + rng.below(3) as u32;
    let block = *rng.pick(&[32, 64, 64, 96, 128, 128, 48, 40]);
    let n_patterns = 1 + rng.below(PATTERNS);
    let racy = rng.chance(50).then(|| rng.below(n_patterns));
    // Many kernels have only what compiled code can judge by itself.
    let is_simple = rng.chance(50);
    let mut kernel = Kernel {
        rng,
        grid,
        block,
        lines: Vec::new(),
        n_names: 0,
        data: 0,
        flags: 0,
        shared: 0,
        barrier: 3,
        n_mbarriers: 0,
    };
    let mut race = None;
    for idx in 0..n_patterns {
        let start = kernel.n_lines() + 1;
        let is_racy = racy == Some(idx);
        patterns::add(&mut kernel, is_simple, is_racy);
        if is_racy {
            race = Some(start..kernel.n_lines() + 1);
        }
    }
    let lines = kernel.lines.join("\n");
    Program {
        text: format!("{HEADER}{lines}\n{FOOTER}"),
        grid,
        block,
        race,
    }
}

/// What tells findings from each other.
type Keys = BTreeSet<(FindingKind, Vec<(String, u32)>, String)>;

fn run(
    device: &Device,
    program: &Program,
    engine: Engine,
    shape: Option<(u32, usize)>,
) -> Result<(Vec<Finding>, bool), Error> {
    let checks = Checks {
        mem: true,
        race: true,
        init: true,
        sync: true,
        ..Checks::default()
    };
    let module = Module::from_source(device, "sync.ptx", program.text.as_str())?;
    let data = device.alloc_from(&vec![1u8; DATA])?;
    let flags = device.alloc_from(&vec![0u8; FLAGS])?;
    let out = device.alloc::<u32>((program.grid * program.block) as usize)?;
    let launch = module.only_kernel()?.launch();
    let launch = launch.grid(program.grid).block(program.block);
    let launch = launch.arg(&data).arg(&flags).arg(&out).sanitize(checks);
    let launch = match shape {
        Some((gang, threads)) => launch.gang(gang).threads(threads),
        None => launch,
    };
    let report = launch.report();
    let stats = launch.engine(engine).run()?;
    Ok((report.findings(), stats.is_screened))
}

fn keys(findings: &[Finding]) -> Keys {
    findings.iter().map(Finding::key).collect()
}

/// What was wrong with a kernel, or how many widths were screened.
pub fn check(device: &Device, seed: u64) -> Result<usize, String> {
    let program = program(seed);
    let told = |what: &str, err: Error| format!("{what}: {err}");
    let (exact, _) =
        run(device, &program, Engine::Interp, None).map_err(|err| told("exact", err))?;
    judge(&program, &exact)?;
    let wanted = keys(&exact);
    let mut n_screened = 0;
    for (idx, gang) in GANGS.into_iter().enumerate() {
        let threads = 1 + (seed as usize + idx) % 2;
        let shape = format!("gang {gang}, {threads} workers");
        let found = run(device, &program, Engine::Jit, Some((gang, threads)));
        let (found, is_screened) = found.map_err(|err| told(&shape, err))?;
        n_screened += usize::from(is_screened);
        if keys(&found) != wanted {
            let (found, exact) = (render(&found), render(&exact));
            return Err(format!("{shape} finds\n{found}and not\n{exact}"));
        }
    }
    Ok(n_screened)
}

fn render(findings: &[Finding]) -> String {
    findings.iter().map(Finding::render).collect()
}

/// Whether findings are what the kernel was made to have.
fn judge(program: &Program, findings: &[Finding]) -> Result<(), String> {
    let Some(lines) = &program.race else {
        return match findings {
            [] => Ok(()),
            _ => Err(format!("a kernel without races has\n{}", render(findings))),
        };
    };
    let is_race = |finding: &&Finding| finding.kind == FindingKind::Race;
    let is_inside = |finding: &Finding| {
        let mut inside = (finding.accesses.iter()).map(|it| lines.contains(&it.ptx.line));
        // A copy that is not waited for may be in conflict with what comes later.
        match finding.reason == Some(Reason::Async) {
            true => inside.any(|it| it),
            false => inside.all(|it| it),
        }
    };
    let races: Vec<&Finding> = findings.iter().filter(is_race).collect();
    if let Some(other) = races.iter().find(|finding| !is_inside(finding)) {
        let text = other.render();
        return Err(format!("outside of lines {lines:?} there is\n{text}"));
    }
    // A copy may bring the bytes that are there already.
    let is_found = |finding: &Finding| {
        finding.severity == Severity::Error
            || (finding.notes.iter()).any(|note| note.contains("the value that is there already"))
    };
    match races.into_iter().any(is_found) {
        true => Ok(()),
        false => {
            let text = render(findings);
            Err(format!("no race is found in lines {lines:?}, but\n{text}"))
        }
    }
}
