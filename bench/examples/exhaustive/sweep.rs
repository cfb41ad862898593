//! Runs one kernel over a range of inputs at every gang width, on all processors, and compares the
//! widths byte for byte.
//!
//! The range is cut into chunks whose results stay in a processor's cache. Each worker thread has a
//! device of its own that launches with one thread, takes a few chunks at a time, runs them at all
//! widths, and hands the results of the first width to the check.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ptxjit::{Buffer, Device, Kernel, Module};

use super::Args;

/// Inputs per launch. Chunks start at multiples of this, so none holds numbers of both signs, or
/// NaNs and others than an infinity.
pub(super) const CHUNK: u32 = 1 << 16;

/// Chunks that a worker takes at once.
const PIECE: u64 = 64;

/// The inputs of a run.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(super) enum Inputs {
    /// All numbers of so many bits.
    All(u32),
    /// All numbers of 32 bits; from this magnitude on, a sixteenth of the chunks.
    ThinFrom(u32),
    /// All upper 21 bits, each with four forms of the lower ones: none, the lowest, all, and
    /// something else. A format narrower than f32 keeps at most 19 bits of it and the next one
    /// decides: each rounding is tried with nothing, little and most below that bit.
    Edges,
}

/// Bits of an edge that vary freely, as a shift.
const EDGE_SHIFT: u32 = 11;

/// What to run: `body` makes `words` results `%out0`, `%out1`, … of `%r1`, the input.
pub(super) struct Sweep<'a> {
    pub(super) name: &'a str,
    pub(super) body: &'a str,
    pub(super) words: usize,
    pub(super) inputs: Inputs,
}

/// Results of one launch.
pub(super) struct Chunk<'a> {
    base: u32,
    /// From an input to the next; 0 for edges.
    stride: u32,
    /// Words of each result in the buffer.
    len: usize,
    /// Inputs that count.
    pub(super) count: usize,
    results: &'a [u32],
}

const EDGE_FACTOR: u32 = 0x9E37_79B1;

impl Chunk<'_> {
    pub(super) fn input(&self, i: usize) -> u32 {
        if self.stride == 0 {
            let n = self.base + i as u32;
            let upper = n >> 2;
            let any = upper.wrapping_mul(EDGE_FACTOR) >> (32 - EDGE_SHIFT);
            return upper << EDGE_SHIFT | [0, 1, any, 0x7ff][n as usize & 3];
        }
        self.base.wrapping_add((i as u32).wrapping_mul(self.stride))
    }

    pub(super) fn word(&self, n: usize) -> &[u32] {
        &self.results[n * self.len..][..self.count]
    }

    /// Whether the inputs are consecutive.
    pub(super) fn is_dense(&self) -> bool {
        self.stride == 1
    }
}

/// What one gang width gave otherwise than the first of them.
#[derive(Clone, Default)]
pub(super) struct Differences {
    words: u64,
    first: Option<(u32, u32, u32)>,
}

/// What a run found: one state per worker.
pub(super) struct Swept<S> {
    pub(super) states: Vec<S>,
    pub(super) inputs: u64,
    gangs: Vec<(u32, Differences)>,
    pub(super) wall: Duration,
}

impl<S> Swept<S> {
    pub(super) fn gangs_agree(&self) -> bool {
        self.gangs.iter().all(|(_, found)| found.words == 0)
    }

    /// Says in a few words whether the gang widths agree.
    pub(super) fn gangs(&self) -> String {
        let widths: Vec<String> = self
            .gangs
            .iter()
            .map(|(gang, _)| gang.to_string())
            .collect();
        let differing = self.gangs.iter().filter(|(_, found)| found.words != 0);
        let differing: String = differing
            .map(|(gang, found)| {
                let (input, got, other) = found.first.unwrap_or_default();
                let words = found.words;
                format!(
                    "; gang {gang}: {words} differ, first {input:08x} -> {got:08x}, not {other:08x}"
                )
            })
            .collect();
        match (self.gangs.len(), differing.is_empty()) {
            (1, _) => format!("gang {} only", widths[0]),
            (_, true) => format!("gangs {} same", widths.join(",")),
            (_, false) => format!("gangs {} DIFFER{differing}", widths.join(",")),
        }
    }
}

/// Hands the results for all inputs to `each`, chunk by chunk, with the state of the worker that
/// made them.
pub(super) fn run<S: Default + Send>(
    args: &Args,
    sweep: &Sweep,
    each: &(dyn Fn(&mut S, &Chunk) + Sync),
) -> Swept<S> {
    let start = Instant::now();
    let (stride, inputs) = match sweep.inputs {
        Inputs::Edges => (0, 4u64 << (32 - EDGE_SHIFT)),
        Inputs::All(bits) if bits < 32 => (1, 1 << bits),
        Inputs::All(_) | Inputs::ThinFrom(_) => {
            (args.stride, (1u64 << 32).div_ceil(u64::from(args.stride)))
        }
    };
    let part = if sweep.inputs == Inputs::Edges {
        1
    } else {
        u64::from(args.part)
    };
    let thin_from = match sweep.inputs {
        Inputs::ThinFrom(magnitude) if !args.all => magnitude,
        _ => u32::MAX,
    };
    let next = AtomicU64::new(0);
    let pieces = inputs.div_ceil(u64::from(CHUNK) * PIECE);
    let n_workers = (args.threads as u64).min(pieces);
    let workers: Vec<(S, u64, Vec<Differences>)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..n_workers)
            .map(|_| {
                scope.spawn(|| {
                    let mut worker = Worker::new(args, sweep, stride);
                    let mut state = S::default();
                    loop {
                        let piece = next.fetch_add(1, Ordering::Relaxed);
                        if piece >= pieces {
                            return (state, worker.inputs, worker.found);
                        }
                        for chunk in piece * PIECE..(piece + 1) * PIECE {
                            let at = chunk * u64::from(CHUNK);
                            let magnitude = (at * u64::from(stride)) as u32 & (u32::MAX >> 1);
                            let is_thin = magnitude >= thin_from && chunk % 16 != 0;
                            if at < inputs && !is_thin && chunk.is_multiple_of(part) {
                                worker.chunk(at, inputs - at, &mut state, each);
                            }
                        }
                    }
                })
            })
            .collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined
            .map(|result| result.expect("it does not panic"))
            .collect()
    });
    let mut gangs: Vec<(u32, Differences)> = args
        .gangs
        .iter()
        .map(|&gang| (gang, Differences::default()))
        .collect();
    let mut states = Vec::new();
    let mut inputs = 0;
    for (state, count, found) in workers {
        states.push(state);
        inputs += count;
        for ((_, sum), found) in gangs.iter_mut().zip(found) {
            sum.words += found.words;
            sum.first = sum.first.or(found.first);
        }
    }
    Swept {
        states,
        inputs,
        gangs,
        wall: start.elapsed(),
    }
}

struct Worker<'a> {
    name: &'a str,
    gangs: &'a [u32],
    kernel: Kernel,
    out: Buffer<u32>,
    len: u32,
    stride: u32,
    inputs: u64,
    found: Vec<Differences>,
}

impl<'a> Worker<'a> {
    fn new(args: &'a Args, sweep: &Sweep<'a>, stride: u32) -> Worker<'a> {
        let device = Device::with_threads(1).expect("a device");
        let len = match sweep.inputs {
            Inputs::All(bits) => CHUNK.min(1 << bits.min(31)),
            Inputs::ThinFrom(_) | Inputs::Edges => CHUNK,
        };
        let stores: String = (0..sweep.words)
            .map(|n| {
                format!(
                    "st.global.u32 [%rd1 + {}], %out{n};\n",
                    n * len as usize * 4
                )
            })
            .collect();
        let input = match sweep.inputs {
            Inputs::Edges => EDGE,
            Inputs::All(_) | Inputs::ThinFrom(_) => "mad.lo.u32 %r1, %r3, %r7, %r6;",
        };
        let body = format!("{input}\n.reg .b32 %out<{}>;\n{}", sweep.words, sweep.body);
        Worker {
            name: sweep.name,
            gangs: &args.gangs,
            kernel: kernel(&device, sweep.name, &body, &stores),
            out: device.alloc(sweep.words * len as usize).expect("memory"),
            len,
            stride,
            inputs: 0,
            found: vec![Differences::default(); args.gangs.len()],
        }
    }

    fn launch(&self, gang: u32, base: u32) -> Vec<u32> {
        let block = self.len.min(256);
        self.kernel
            .launch()
            .grid(self.len / block)
            .block(block)
            .arg(&self.out)
            .arg(base)
            .arg(self.stride)
            .gang(gang)
            .eager(true)
            .run()
            .unwrap_or_else(|error| panic!("{}: {error}", self.name));
        self.out.read().expect("results")
    }

    fn chunk<S>(&mut self, at: u64, left: u64, state: &mut S, each: &dyn Fn(&mut S, &Chunk)) {
        let base = (at * u64::from(self.stride.max(1))) as u32;
        let results = self.launch(self.gangs[0], base);
        let chunk = Chunk {
            base,
            stride: self.stride,
            len: self.len as usize,
            count: left.min(u64::from(self.len)) as usize,
            results: &results,
        };
        for (n, &gang) in self.gangs.iter().enumerate().skip(1) {
            let other = self.launch(gang, base);
            if other != results {
                let found = &mut self.found[n];
                let pairs = results.iter().zip(&other).enumerate();
                for (i, (&one, &other)) in pairs.filter(|(_, (one, other))| one != other) {
                    found.words += 1;
                    let input = chunk.input(i % self.len as usize);
                    found.first.get_or_insert((input, other, one));
                }
            }
        }
        self.inputs += chunk.count as u64;
        each(state, &chunk);
    }
}

/// The input of number `%r3 + %r6` among the edges, as [`Chunk::input`] has it.
const EDGE: &str = ".reg .pred %low, %mid, %high; add.u32 %r1, %r3, %r6; and.b32 %r4, %r1, 3; shr.u32 %r1, %r1, 2; \
     setp.eq.u32 %low, %r4, 1; setp.eq.u32 %mid, %r4, 2; setp.eq.u32 %high, %r4, 3; mul.lo.u32 %r5, %r1, 0x9E3779B1; \
     shr.u32 %r5, %r5, 21; selp.b32 %r4, 1, 0, %low; selp.b32 %r4, %r5, %r4, %mid; selp.b32 %r4, 0x7ff, %r4, %high; \
     shl.b32 %r1, %r1, 11; or.b32 %r1, %r1, %r4;";

/// A kernel whose `body` makes `%r1`, the input of this thread (number `%r3` of the launch, whose
/// first is `%r6` and whose stride is `%r7`), and the results; `stores` put these away.
fn kernel(device: &Device, name: &str, body: &str, stores: &str) -> Kernel {
    let ptx = format!(
        ".version 9.0\n.target sm_100a\n.address_size 64\n
.visible .entry k(.param .u64 out, .param .u32 base, .param .u32 stride)
{{
    .reg .b32 %r<8>;
    .reg .b64 %rd<3>;
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %tid.x;
    mad.lo.u32 %r3, %r3, %r4, %r5;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r6, [base];
    ld.param.u32 %r7, [stride];
    mul.wide.u32 %rd2, %r3, 4;
    add.u64 %rd1, %rd1, %rd2;
    {body}
    {stores}
    ret;
}}
"
    );
    let module = Module::from_source(device, "exhaustive.ptx", &ptx)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    module.kernel("k").expect("it is there")
}
