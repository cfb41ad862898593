//! Approximations in f32: the largest errors over all inputs, in each range for which the ISA has a
//! bound.
//!
//! References are the standard library's functions in f64, whose own error (2^-52 or so) is nothing
//! beside the bounds.

use super::format::flush;
use super::sweep::{self, Chunk, Inputs, Sweep};
use super::{Args, Row};

/// How a result may differ from the reference.
#[derive(Copy, Clone)]
enum Bound {
    Ulp(f64),
    /// In the tables below the exponent of a power of two.
    Absolute(f64),
    /// Likewise.
    Relative(f64),
    /// The ISA gives none.
    Unbounded,
}

impl Bound {
    /// The same with the number itself for the exponent of two.
    fn evaluated(self) -> Bound {
        match self {
            Bound::Absolute(exponent) => Bound::Absolute(exponent.exp2()),
            Bound::Relative(exponent) => Bound::Relative(exponent.exp2()),
            Bound::Ulp(_) | Bound::Unbounded => self,
        }
    }
}

/// Inputs up to a number and what holds for them.
struct Zone {
    /// The largest; in the last zone everything else, infinities and NaNs among it.
    upto: f64,
    name: &'static str,
    bound: Bound,
}

/// An instruction in f32, with and without `.ftz` if it has that.
struct Approximation {
    /// The instruction's section in the ISA.
    name: &'static str,
    instructions: &'static [&'static str],
    function: fn(f64) -> f64,
    /// Inputs up to this size have a result that only rises or only falls with it.
    monotonic: f64,
    /// By the input's size, rising.
    zones: &'static [Zone],
}

const fn zone(upto: f64, name: &'static str, bound: Bound) -> Zone {
    Zone { upto, name, bound }
}

/// Bits of 512, above 100π.
const THIN: u32 = 0x4400_0000;

const TURN: f64 = std::f64::consts::TAU;

const TRIGONOMETRIC: &[Zone] = &[
    zone(TURN, "to 2π", Bound::Absolute(-20.5)),
    zone(50.0 * TURN, "to 100π", Bound::Absolute(-14.7)),
    zone(f64::INFINITY, "beyond", Bound::Unbounded),
];

const APPROXIMATIONS: [Approximation; 8] = [
    Approximation {
        name: "sin",
        instructions: &["sin.approx.f32", "sin.approx.ftz.f32"],
        function: f64::sin,
        monotonic: 1.5,
        zones: TRIGONOMETRIC,
    },
    Approximation {
        name: "cos",
        instructions: &["cos.approx.f32", "cos.approx.ftz.f32"],
        function: f64::cos,
        monotonic: 3.0,
        zones: TRIGONOMETRIC,
    },
    Approximation {
        name: "lg2",
        instructions: &["lg2.approx.f32", "lg2.approx.ftz.f32"],
        function: f64::log2,
        monotonic: f64::INFINITY,
        zones: &[
            zone(0.5, "to 0.5", Bound::Relative(-22.0)),
            // The next to 2, as the ISA leaves out the ends.
            zone(2.0 - f32::EPSILON as f64, "between", Bound::Absolute(-22.0)),
            zone(f64::INFINITY, "from 2", Bound::Relative(-22.0)),
        ],
    },
    Approximation {
        name: "ex2",
        instructions: &["ex2.approx.f32", "ex2.approx.ftz.f32"],
        function: f64::exp2,
        monotonic: f64::INFINITY,
        zones: &[zone(f64::INFINITY, "all", Bound::Ulp(2.0))],
    },
    Approximation {
        name: "tanh",
        instructions: &["tanh.approx.f32"],
        function: f64::tanh,
        monotonic: f64::INFINITY,
        zones: &[zone(f64::INFINITY, "all", Bound::Relative(-11.0))],
    },
    Approximation {
        name: "rcp",
        instructions: &["rcp.approx.f32", "rcp.approx.ftz.f32"],
        function: f64::recip,
        monotonic: f64::INFINITY,
        zones: &[zone(f64::INFINITY, "all", Bound::Ulp(1.0))],
    },
    Approximation {
        name: "sqrt",
        instructions: &["sqrt.approx.f32", "sqrt.approx.ftz.f32"],
        function: f64::sqrt,
        monotonic: f64::INFINITY,
        zones: &[zone(f64::INFINITY, "all", Bound::Relative(-23.0))],
    },
    Approximation {
        name: "rsqrt",
        instructions: &["rsqrt.approx.f32", "rsqrt.approx.ftz.f32"],
        function: |x| 1.0 / x.sqrt(),
        monotonic: f64::INFINITY,
        zones: &[zone(f64::INFINITY, "all", Bound::Relative(-22.9))],
    },
];

/// Everything in this file; whether all is right.
pub(super) fn check(args: &Args) -> bool {
    let mut good = true;
    for approximation in &APPROXIMATIONS {
        let is_wanted = args.names.is_empty()
            || args.names.iter().any(|name| {
                let mut instructions = approximation.instructions.iter();
                approximation.name == name || instructions.any(|ins| ins.starts_with(name))
            });
        if is_wanted {
            good &= measure(args, approximation);
        }
    }
    good
}

fn measure(args: &Args, approximation: &Approximation) -> bool {
    let body: String = approximation
        .instructions
        .iter()
        .enumerate()
        .map(|(n, ins)| {
            format!(
                "{{ .reg .f32 %f<3>; mov.b32 %f1, %r1; {ins} %f2, %f1; mov.b32 %out{n}, %f2; }}\n"
            )
        })
        .collect();
    let sweep = Sweep {
        name: approximation.name,
        body: &body,
        words: approximation.instructions.len(),
        // Where the ISA promises nothing and numbers are largest, a part of the inputs must do.
        inputs: match approximation.zones.last() {
            Some(zone) if matches!(zone.bound, Bound::Unbounded) => Inputs::ThinFrom(THIN),
            _ => Inputs::All(32),
        },
    };
    let swept = sweep::run(args, &sweep, &|found: &mut Found, chunk| {
        approximation.check(chunk, found);
    });
    let n_zones = approximation.zones.len();
    let mut good = swept.gangs_agree();
    for (n, ins) in approximation.instructions.iter().enumerate() {
        for (m, zone) in approximation.zones.iter().enumerate() {
            let states = swept.states.iter();
            let worst = states
                .filter_map(|found| found.0.get(n * n_zones + m))
                .fold(Worst::default(), Worst::merged);
            let bound = match zone.bound {
                Bound::Ulp(bound) => format!("{bound} ulp"),
                Bound::Absolute(bound) => format!("absolute 2^{bound}"),
                Bound::Relative(bound) => format!("relative 2^{bound}"),
                Bound::Unbounded => "none".to_owned(),
            };
            let first = worst
                .first_wrong
                .map_or(String::new(), |(x, y)| format!("{x:08x} -> {y:08x}"));
            args.print(&Row {
                name: ins,
                what: zone.name,
                error: &format!(
                    "{:.4} ulp at {:08x}, absolute 2^{:.2}, relative 2^{:.2}",
                    worst.ulp,
                    worst.at,
                    worst.absolute.log2(),
                    worst.relative.log2()
                ),
                bound: &format!("{bound} ({})", approximation.name),
                wrong: worst.wrong,
                first: &first,
                gangs: &swept.gangs(),
                wall: swept.wall,
            });
            good &= worst.wrong == 0;
        }
    }
    good
}

/// The largest errors seen, of each instruction and zone.
#[derive(Default)]
struct Found(Vec<Worst>);

#[derive(Clone, Default)]
struct Worst {
    ulp: f64,
    absolute: f64,
    relative: f64,
    /// Input of the largest error in ulp.
    at: u32,
    /// Results that break the bound or are of another class (NaN, infinity, zero).
    wrong: u64,
    first_wrong: Option<(u32, u32)>,
}

/// The distance of f32 numbers in the binade of `x`.
fn ulp_of(x: f64) -> f64 {
    const EXPONENT: u64 = 0x7ff0_0000_0000_0000;
    let binade = f64::from_bits(x.to_bits() & EXPONENT);
    const STEP: f64 = 1.0 / (1u64 << 23) as f64;
    binade.max(f32::MIN_POSITIVE as f64) * STEP
}

/// Inputs looked at together.
const BLOCK: usize = 32;

impl Approximation {
    fn check(&self, chunk: &Chunk, found: &mut Found) {
        let n_zones = self.zones.len();
        found
            .0
            .resize(self.instructions.len() * n_zones, Worst::default());
        let bounds: Vec<Bound> = self
            .zones
            .iter()
            .map(|zone| zone.bound.evaluated())
            .collect();
        let (mut start, mut wants) = (0, [0.0; BLOCK]);
        while start < chunk.count {
            let end = (start + BLOCK).min(chunk.count);
            let ends = [start, end - 1];
            let zones = ends.map(|i| self.zone(chunk.input(i)));
            let is_flat = |n: usize| {
                let results = &chunk.word(n)[start..end];
                results.iter().all(|&result| result == results[0])
            };
            // Where the reference is monotonic and all results are the same, the ends are off most.
            let is_monotonic = chunk.is_dense()
                && zones[0] == zones[1]
                && ends
                    .iter()
                    .all(|&i| f64::from(f32::from_bits(chunk.input(i))).abs() <= self.monotonic);
            let all_flat = is_monotonic && (0..self.instructions.len()).all(is_flat);
            let step = if all_flat { BLOCK - 1 } else { 1 };
            for i in (start..end).step_by(step) {
                wants[i - start] = (self.function)(f64::from(f32::from_bits(chunk.input(i))));
            }
            for n in 0..self.instructions.len() {
                let results = chunk.word(n);
                for i in (start..end).step_by(step) {
                    let input = chunk.input(i);
                    let zone = if zones[0] == zones[1] {
                        zones[0]
                    } else {
                        self.zone(input)
                    };
                    let x = f32::from_bits(input);
                    let want = if n == 1 && x.is_subnormal() {
                        (self.function)(f64::from(flush(x)))
                    } else {
                        wants[i - start]
                    };
                    let worst = &mut found.0[n * n_zones + zone];
                    worst.note(
                        bounds[zone],
                        n == 1,
                        input,
                        want,
                        f32::from_bits(results[i]),
                    );
                }
            }
            start = end;
        }
    }

    fn zone(&self, input: u32) -> usize {
        let x = f64::from(f32::from_bits(input)).abs();
        let others = self.zones[..self.zones.len() - 1].iter();
        others
            .take_while(|zone| x > zone.upto || x.is_nan())
            .count()
    }
}

impl Worst {
    #[inline]
    fn note(&mut self, bound: Bound, ftz: bool, input: u32, want: f64, got: f32) {
        let nearest = if ftz { flush(want as f32) } else { want as f32 };
        let is_ordinary = |x: f32| x.is_finite() && x.abs() > f32::MIN_POSITIVE;
        if !is_ordinary(nearest) || !is_ordinary(got) {
            match self.special(ftz, want, nearest, got) {
                Class::Right => return,
                Class::Wrong => return self.mark(input, got),
                Class::Near => {}
            }
        }
        // Infinity stands where the next number would.
        let value = if got.is_infinite() {
            2f64.powi(128).copysign(f64::from(got))
        } else {
            f64::from(got)
        };
        let (error, size, ulp) = ((value - want).abs(), want.abs(), ulp_of(want));
        self.absolute = self.absolute.max(error);
        if error > self.relative * size {
            self.relative = error / size;
        }
        if error > self.ulp * ulp {
            (self.ulp, self.at) = (error / ulp, input);
        }
        let is_broken = match bound {
            Bound::Ulp(bound) => error > bound * ulp,
            Bound::Absolute(bound) => error > bound,
            Bound::Relative(bound) => error > bound * size,
            Bound::Unbounded => false,
        };
        if is_broken {
            self.mark(input, got);
        }
    }

    /// Results that are not numbers to measure.
    fn special(&self, ftz: bool, want: f64, nearest: f32, got: f32) -> Class {
        let same = got.to_bits() == nearest.to_bits() || (got.is_nan() && nearest.is_nan());
        let is_special = !nearest.is_finite() || nearest == 0.0;
        if same && is_special {
            return Class::Right;
        }
        if got.is_nan() || nearest.is_nan() || want.is_infinite() || want == 0.0 {
            return Class::Wrong;
        }
        // Where a result is flushed, one that is off by a little may be, too.
        let is_least = got.abs() == f32::MIN_POSITIVE && nearest == 0.0;
        let is_flushed = got == 0.0 && want.abs() < f64::from(f32::MIN_POSITIVE) * (1.0 + 1e-6);
        if ftz && (is_least || is_flushed) && got.is_sign_negative() == want.is_sign_negative() {
            return Class::Right;
        }
        if ftz && got.is_subnormal() {
            return Class::Wrong;
        }
        Class::Near
    }

    #[cold]
    fn mark(&mut self, input: u32, got: f32) {
        self.wrong += 1;
        self.first_wrong.get_or_insert((input, got.to_bits()));
    }

    fn merged(mut self, other: &Worst) -> Worst {
        if other.ulp > self.ulp {
            (self.ulp, self.at) = (other.ulp, other.at);
        }
        self.absolute = self.absolute.max(other.absolute);
        self.relative = self.relative.max(other.relative);
        self.wrong += other.wrong;
        self.first_wrong = self.first_wrong.or(other.first_wrong);
        self
    }
}

enum Class {
    Right,
    Wrong,
    /// A number whose error counts.
    Near,
}
