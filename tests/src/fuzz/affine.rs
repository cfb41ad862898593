//! Kernels whose addresses are functions of the thread's numbers, for the proofs that spare
//! sanitizers their checks: strides that fit and strides that do not quite, guards, loops with and
//! without barriers, buffers that overlap, blocks of odd shapes, copies, and what lanes of a warp
//! do together.
//!
//! Nothing is race-free by construction. [`check`] asks the exact detectors what there is, and
//! compiled code of every gang width must say the same, whatever was proven.

use std::fmt::Write;

use ptxjit::sanitize::{Checks, Finding};
use ptxjit::{Device, Engine, Error, Module};

use super::rng::Rng;

mod waits;

const GANGS: [u32; 3] = [1, 8, 32];

/// Words of the buffer, and of shared memory.
const WORDS: u32 = 4096;
const SHARED: u32 = 1024;

/// A kernel with its launch.
pub struct Program {
    /// The PTX.
    pub text: String,
    /// CTAs.
    pub grid: [u32; 3],
    /// Threads of a CTA.
    pub block: [u32; 3],
    /// Where the second and the third pointer lead, in words of the buffer.
    pub starts: [u32; 2],
    /// A number that the kernel is given.
    pub n: u32,
    /// What is asked of it.
    pub checks: Checks,
}

/// How often the launches of a program were judged by compiled code, and by proofs alone.
#[derive(Copy, Clone, Default, Debug)]
pub struct Judged {
    /// Nothing to find.
    pub screened: usize,
    /// Known before.
    pub proven: usize,
}

/// A kernel in the making.
struct Kernel {
    rng: Rng,
    lines: String,
    n_names: u32,
    block: [u32; 3],
    grid: [u32; 3],
    /// A variable of a loop, where there is one.
    counters: Vec<String>,
    /// All threads of a CTA are here.
    is_uniform: bool,
    /// All lanes of the warps that are here are.
    is_whole: bool,
    /// It has what few kernels have.
    has_rare: bool,
    /// Most indices are functions that tell threads apart, so that many kernels are clean.
    is_tame: bool,
}

const HEADER: &str = "\
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
.shared .align 16 .b8 s[4096];
.reg .b32 %x, %y, %bx, %by, %nx, %ny, %t, %g, %n, %v, %acc;
.reg .b64 %a, %b, %c;
ld.param.u64 %a, [a];
ld.param.u64 %b, [b];
ld.param.u64 %c, [c];
ld.param.u32 %n, [n];
mov.u32 %x, %tid.x;
mov.u32 %y, %tid.y;
mov.u32 %bx, %ctaid.x;
mov.u32 %by, %ctaid.y;
mov.u32 %nx, %ntid.x;
mov.u32 %ny, %ntid.y;
mad.lo.u32 %t, %y, %nx, %x;
mul.lo.u32 %g, %nx, %ny;
mad.lo.u32 %g, %bx, %g, %t;
mov.u32 %acc, %g;
";

impl Kernel {
    fn line(&mut self, text: impl AsRef<str>) {
        self.lines.push_str(text.as_ref());
        self.lines.push('\n');
    }

    fn reg(&mut self, ty: &str) -> String {
        self.n_names += 1;
        let name = format!("%r{}", self.n_names);
        self.line(format!(".reg .{ty} {name};"));
        name
    }

    fn label(&mut self) -> String {
        self.n_names += 1;
        format!("L{}", self.n_names)
    }

    fn constant(&mut self) -> u32 {
        let threads = self.block.iter().product();
        *self.rng.pick(&[
            0,
            1,
            2,
            3,
            4,
            5,
            8,
            16,
            31,
            32,
            33,
            63,
            64,
            threads,
            threads - 1,
        ])
    }

    /// A number that the thread's place decides, mostly.
    fn source(&mut self) -> String {
        if let Some(counter) = self.counters.last().cloned()
            && self.rng.chance(35)
        {
            return counter;
        }
        let names = [
            "%t", "%t", "%t", "%g", "%g", "%g", "%x", "%y", "%bx", "%by", "%n",
        ];
        (*self.rng.pick(&names)).to_owned()
    }

    /// An index of each thread's own, if the limit allows that.
    fn own_index(&mut self, is_shared: bool, limit: u32) -> String {
        let own = if is_shared { "%t" } else { "%g" };
        let index = self.reg("b32");
        let (k, mask) = (self.constant(), 1 << self.rng.below(6));
        if self.has_rare && self.is_whole && self.rng.chance(10) {
            let other = self.shuffled(own);
            self.line(format!("and.b32 {index}, {other}, {};", limit - 1));
            return index;
        }
        let line = match self.rng.below(7) {
            0 => format!("add.u32 {index}, {own}, {k};"),
            4 => {
                let high = self.reg("b32");
                self.line(format!(
                    "shr.u32 {high}, {own}, 3; and.b32 {high}, {high}, 7;"
                ));
                format!("xor.b32 {index}, {own}, {high};")
            }
            1 => format!("xor.b32 {index}, {own}, {mask};"),
            2 => format!("mad.lo.u32 {index}, {own}, 2, {k};"),
            3 => format!("sub.u32 {index}, {}, {own};", limit / 2),
            _ => format!("mov.u32 {index}, {own};"),
        };
        self.line(line);
        if let Some(counter) = self.counters.last().cloned()
            && self.rng.chance(40)
        {
            let stride = 1 << (6 + self.rng.below(2));
            self.line(format!("mad.lo.u32 {index}, {counter}, {stride}, {index};"));
        }
        self.line(format!("and.b32 {index}, {index}, {};", limit - 1));
        index
    }

    /// The place of a thread's own index in rows of a tile, perhaps another column of the row.
    fn row_index(&mut self, is_shared: bool, limit: u32) -> String {
        let own = self.own_index(is_shared, limit / 2);
        let columns = 3 + self.rng.below(limit as usize / 2 - 3).min(60) as u32;
        let [row, start, column, index] = [(); 4].map(|()| self.reg("b32"));
        let sign = if self.rng.chance(50) { "s" } else { "u" };
        self.line(format!(
            "div.{sign}32 {row}, {own}, {columns}; mul.lo.u32 {start}, {row}, {columns}; \
             sub.u32 {column}, {own}, {start};"
        ));
        if self.rng.chance(60) {
            let moved = self.rng.below(5) as i32 - 2;
            self.line(format!(
                "add.s32 {column}, {column}, {moved}; max.s32 {column}, {column}, 0; \
                 min.s32 {column}, {column}, {};",
                columns - 1
            ));
        }
        self.line(format!("mad.lo.u32 {index}, {row}, {columns}, {column};"));
        index
    }

    /// An index; with some luck each thread has its own.
    fn index(&mut self, is_shared: bool, limit: u32) -> String {
        if limit >= 16 && self.rng.chance(8) {
            return self.row_index(is_shared, limit);
        }
        if self.is_tame && self.rng.chance(92) {
            return self.own_index(is_shared, limit);
        }
        let mut value = self.source();
        for _ in 0..self.rng.below(3) {
            let next = self.reg("b32");
            let (k, other) = (self.constant(), self.source());
            if self.has_rare && self.is_whole && self.rng.chance(15) {
                value = self.shuffled(&value);
                continue;
            }
            let op = match self.rng.below(13) {
                0 => format!("add.u32 {next}, {value}, {k}"),
                1 => format!("add.u32 {next}, {value}, {other}"),
                2 => format!("mad.lo.u32 {next}, {value}, {k}, {other}"),
                3 => format!("mul.lo.u32 {next}, {value}, {}", 1 + self.rng.below(4)),
                4 => format!("sub.u32 {next}, {k}, {value}"),
                5 => format!("xor.b32 {next}, {value}, {k}"),
                6 => format!("and.b32 {next}, {value}, {k}"),
                7 => format!("shr.u32 {next}, {value}, {}", self.rng.below(6)),
                8 => format!("rem.u32 {next}, {value}, {}", 1 + k),
                9 => format!("div.u32 {next}, {value}, {}", 1 + k),
                10 => format!("mad.lo.u32 {next}, {other}, %nx, {value}"),
                11 => format!("xor.b32 {next}, {value}, {other}"),
                _ => format!("min.u32 {next}, {value}, {k}"),
            };
            self.line(format!("{op};"));
            value = next;
        }
        let inside = self.reg("b32");
        match self.rng.below(3) {
            0 => self.line(format!("min.u32 {inside}, {value}, {};", limit - 1)),
            1 => self.line(format!("rem.u32 {inside}, {value}, {limit};")),
            _ => self.line(format!("and.b32 {inside}, {value}, {};", limit - 1)),
        }
        inside
    }

    /// An address with the state space of its instruction, and the size of the access.
    fn place(&mut self) -> (&'static str, String, u32) {
        let sizes: &[u32] = match self.is_tame && self.rng.chance(95) {
            true => &[4],
            false => &[1, 2, 4, 4, 4, 4, 4, 4, 8],
        };
        let bytes = *self.rng.pick(sizes);
        let is_shared = self.rng.chance(50);
        let words = if is_shared { SHARED } else { WORDS / 4 };
        let addr = self.address(is_shared, words * 4 / bytes, bytes);
        let space = match is_shared {
            true => "shared",
            false if self.rng.chance(20) => "generic",
            false => "global",
        };
        (space, addr, bytes)
    }

    /// The address of one of so many elements in shared memory or in the buffer.
    fn address(&mut self, is_shared: bool, limit: u32, bytes: u32) -> String {
        let index = self.index(is_shared, limit);
        let addr = self.reg("b64");
        self.line(format!("mul.wide.u32 {addr}, {index}, {bytes};"));
        if is_shared {
            let base = self.reg("b64");
            self.line(format!("mov.u64 {base}, s;"));
            self.line(format!("add.u64 {addr}, {addr}, {base};"));
            return addr;
        }
        let pointer = *self.rng.pick(&["%a", "%a", "%b", "%c"]);
        self.line(format!("add.u64 {addr}, {addr}, {pointer};"));
        addr
    }

    fn access(&mut self) {
        let (space, addr, bytes) = self.place();
        let space = if space == "generic" {
            String::new()
        } else {
            format!(".{space}")
        };
        let bits = 8 * bytes;
        let kind = self.rng.below(8);
        if kind == 0 && bytes == 4 {
            self.line(format!("atom{space}.add.u32 %v, [{addr}], 1;"));
            return;
        }
        let wide = self.reg(match bytes {
            1 | 2 => "b16",
            4 => "b32",
            _ => "b64",
        });
        if kind < 4 {
            self.line(format!("ld{space}.u{bits} {wide}, [{addr}];"));
            if bytes == 4 && self.rng.chance(50) {
                self.line(format!("add.u32 %acc, %acc, {wide};"));
            }
            return;
        }
        match bytes {
            4 => self.line(format!("mov.b32 {wide}, %t;")),
            8 => self.line(format!("cvt.u64.u32 {wide}, %t;")),
            _ => self.line(format!("cvt.u16.u32 {wide}, %t;")),
        }
        self.line(format!("st{space}.u{bits} [{addr}], {wide};"));
    }

    /// A condition, as a predicate.
    fn condition(&mut self) -> String {
        let pred = self.reg("pred");
        let (a, k) = (self.source(), self.constant());
        let op = *self
            .rng
            .pick(&["lt.u32", "ge.u32", "eq.u32", "ne.u32", "lt.s32", "gt.s32"]);
        let other = if self.rng.chance(30) {
            self.source()
        } else {
            k.to_string()
        };
        self.line(format!("setp.{op} {pred}, {a}, {other};"));
        pred
    }

    fn statement(&mut self, depth: u32) {
        if self.has_rare && self.rng.chance(35) {
            return self.rare();
        }
        let choice = self.rng.below(if depth == 0 { 6 } else { 12 });
        match choice {
            0..=4 => self.access(),
            5 | 6 if self.is_uniform => self.line("bar.sync 0;"),
            5 | 6 => self.access(),
            7 | 8 => self.branch(depth),
            _ => self.repeat(depth),
        }
    }

    fn statements(&mut self, depth: u32) {
        for _ in 0..1 + self.rng.below(4) {
            self.statement(depth);
        }
    }

    fn branch(&mut self, depth: u32) {
        let was = (self.is_uniform, self.is_whole);
        self.is_uniform = false;
        let (pred, end) = match self.is_whole && self.has_rare && self.rng.chance(50) {
            true => (self.condition_of_warp(), self.label()),
            false => {
                self.is_whole = false;
                (self.condition(), self.label())
            }
        };
        self.line(format!("@{pred} bra {end};"));
        self.statements(depth - 1);
        if self.rng.chance(40) {
            let join = self.label();
            self.line(format!("bra {join};"));
            self.line(format!("{end}:"));
            self.statements(depth - 1);
            self.line(format!("{join}:"));
        } else {
            self.line(format!("{end}:"));
        }
        (self.is_uniform, self.is_whole) = was;
    }

    /// A condition of the warp's number.
    fn condition_of_warp(&mut self) -> String {
        let (pred, warp) = (self.reg("pred"), self.reg("b32"));
        self.line(format!("shr.u32 {warp}, %t, 5;"));
        let (op, k) = (
            *self.rng.pick(&["lt.u32", "eq.u32", "ne.u32"]),
            self.rng.below(3),
        );
        self.line(format!("setp.{op} {pred}, {warp}, {k};"));
        pred
    }

    fn repeat(&mut self, depth: u32) {
        let counter = self.reg("b32");
        let (again, end) = (self.label(), self.label());
        let pred = self.reg("pred");
        let was = (self.is_uniform, self.is_whole);
        // Of a thread's own number of iterations, or of all threads' one.
        let (start, step, limit) = match self.rng.below(3) {
            0 => {
                (self.is_uniform, self.is_whole) = (false, false);
                (
                    "%t".to_owned(),
                    "%nx".to_owned(),
                    self.constant().to_string(),
                )
            }
            1 => (
                "0".to_owned(),
                "1".to_owned(),
                (1 + self.rng.below(6)).to_string(),
            ),
            _ => {
                let limit = 1 + self.rng.below(5) as u32;
                (
                    "0".to_owned(),
                    self.block[0].to_string(),
                    (limit * self.block[0]).to_string(),
                )
            }
        };
        self.line(format!("mov.u32 {counter}, {start};"));
        self.line(format!("{again}: setp.ge.u32 {pred}, {counter}, {limit};"));
        self.line(format!("@{pred} bra {end};"));
        self.counters.push(counter.clone());
        self.statements(depth - 1);
        self.counters.pop();
        self.line(format!("add.u32 {counter}, {counter}, {step};"));
        self.line(format!("bra {again};"));
        self.line(format!("{end}:"));
        (self.is_uniform, self.is_whole) = was;
    }

    /// Gives all of shared memory a value.
    fn fill(&mut self) {
        let (at, again, pred) = (self.reg("b32"), self.label(), self.reg("pred"));
        let (base, threads) = (self.reg("b32"), self.block.iter().product::<u32>());
        self.line(format!(
            "mov.u32 {base}, s; shl.b32 {at}, %t, 2; add.u32 {at}, {at}, {base};"
        ));
        self.line(format!("add.u32 {base}, {base}, {};", 4 * SHARED));
        self.line(format!("{again}: st.shared.u32 [{at}], 0;"));
        self.line(format!("add.u32 {at}, {at}, {};", 4 * threads));
        self.line(format!("setp.lt.u32 {pred}, {at}, {base};"));
        self.line(format!("@{pred} bra {again};"));
        self.line("bar.sync 0;");
    }
}

/// The kernel of a seed.
pub fn program(seed: u64) -> Program {
    let mut rng = Rng::new(seed ^ 0x00af_f17e);
    let block = *rng.pick(&[
        [32, 1, 1],
        [64, 1, 1],
        [64, 1, 1],
        [16, 4, 1],
        [8, 8, 1],
        [96, 1, 1],
        [40, 1, 1],
        [12, 5, 1],
        [1, 1, 1],
    ]);
    let grid = *rng.pick(&[[1, 1, 1], [2, 1, 1], [3, 1, 1], [2, 2, 1]]);
    let starts = *rng.pick(&[
        [0, 0],
        [1024, 2048],
        [1024, 2048],
        [2048, 2048],
        [1024, 1056],
    ]);
    let n = *rng.pick(&[1, 3, 32, 64, 100, 0xffff_fff0]);
    let is_tame = rng.chance(70);
    let has_rare = rng.chance(60);
    let checks = Checks {
        race: true,
        init: rng.chance(60),
        mem: rng.chance(30),
        sync: rng.chance(30),
        ..Checks::default()
    };
    let mut kernel = Kernel {
        rng,
        lines: String::new(),
        n_names: 0,
        block,
        grid,
        counters: Vec::new(),
        is_uniform: true,
        is_whole: block.iter().product::<u32>().is_multiple_of(32),
        has_rare,
        is_tame,
    };
    if kernel.rng.chance(60) {
        kernel.fill();
    }
    for _ in 0..1 + kernel.rng.below(5) {
        kernel.statement(2);
    }
    let mut text = String::new();
    let (body, _) = (&kernel.lines, kernel.grid);
    let _ = write!(
        text,
        "{HEADER}{body}.reg .b64 %own;\nmul.wide.u32 %own, %g, 4;\nadd.u64 %own, %own, %c;\n\
         st.global.u32 [%own+4096], %acc;\nret;\n}}\n"
    );
    Program {
        text,
        grid,
        block,
        starts,
        n,
        checks,
    }
}

/// Findings, how the launch was judged if it ended, and the words that it left.
type Outcome = (Vec<Finding>, Option<Judged>, Vec<u32>);

fn run(
    device: &Device,
    program: &Program,
    engine: Engine,
    gang: Option<u32>,
) -> Result<Outcome, Error> {
    let module = Module::from_source(device, "affine.ptx", program.text.as_str())?;
    let words: Vec<u32> = (0..WORDS).collect();
    let data = device.alloc_from(&words)?;
    let at = |word: u32| data.address() + 4 * u64::from(word);
    let launch = module.only_kernel()?.launch();
    let launch = launch.grid(program.grid).block(program.block);
    let launch = launch
        .arg(at(0))
        .arg(at(program.starts[0]))
        .arg(at(program.starts[1]));
    let launch = launch.arg(program.n).uses(&data).sanitize(program.checks);
    let launch = match gang {
        Some(gang) => launch.gang(gang).threads(2),
        None => launch,
    };
    let report = launch.report();
    let stats = launch.engine(engine).run()?;
    let judged = stats.is_screened.then(|| Judged {
        screened: 1,
        proven: stats.is_proven.into(),
    });
    Ok((report.findings(), judged, data.read()?))
}

/// What was wrong with a kernel, or how its launches were judged.
pub fn check(device: &Device, seed: u64) -> Result<Judged, String> {
    let program = program(seed);
    let told = |what: &str, err: Error| format!("{what}: {err}");
    let (exact, _, words) =
        run(device, &program, Engine::Interp, None).map_err(|err| told("exact", err))?;
    let keys = |findings: &[Finding]| -> Vec<_> {
        let mut keys: Vec<_> = findings.iter().map(Finding::key).collect();
        keys.sort();
        keys
    };
    let mut sum = Judged::default();
    // Proofs do not depend on the gang's width.
    let one = GANGS[seed as usize % GANGS.len()];
    let gangs = GANGS
        .into_iter()
        .filter(|&gang| gang == one || seed.is_multiple_of(8));
    for gang in gangs {
        let found = run(device, &program, Engine::Jit, Some(gang));
        let (found, judged, now) = found.map_err(|err| told(&format!("gang {gang}"), err))?;
        let judged = judged.unwrap_or_default();
        sum.screened += judged.screened;
        sum.proven += judged.proven;
        if keys(&found) != keys(&exact) {
            let texts = [&found, &exact]
                .map(|findings| findings.iter().map(Finding::render).collect::<String>());
            return Err(format!(
                "gang {gang} finds\n{}and not\n{}",
                texts[0], texts[1]
            ));
        }
        // What was never written may be anything.
        if exact.is_empty() && program.checks.init && words != now {
            return Err(format!("gang {gang} leaves other contents"));
        }
    }
    Ok(sum)
}
