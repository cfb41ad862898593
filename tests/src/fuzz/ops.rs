//! The instructions that only compute, as templates.
//!
//! `$=r` is a register to write, `$r` one to read, `$R` a register or a constant. The letter is the
//! pool: `r` 32, `d` 64 and `h` 16 bits, `p` predicates, `f` f32, `g` f64, `q` f16, `v` f16x2. `$k`
//! is a constant below 32, `$l` one below 256. `{z}` is `.ftz` or nothing, `{rnd}` a rounding,
//! `{ci}`, `{cu}` and `{cf}` are comparisons, `{bool}` combines predicates.
//!
//! Results are the same everywhere but for the sign and payload of NaNs, which is why floats and
//! integers do not share pools.

use super::rng::Rng;

/// Registers in the pool of this letter.
pub fn pool_size(class: char) -> usize {
    match class {
        'r' => 8,
        'd' | 'h' | 'p' => 4,
        'f' => 6,
        'g' | 'q' => 3,
        _ => 2,
    }
}

const INT: &[&str] = &[
    "add.s32 $=r, $r, $R",
    "sub.s32 $=r, $R, $r",
    "add.sat.s32 $=r, $r, $R",
    "sub.sat.s32 $=r, $r, $R",
    "mul.lo.s32 $=r, $r, $R",
    "mul.hi.s32 $=r, $r, $R",
    "mul.hi.u32 $=r, $r, $R",
    "mad.lo.s32 $=r, $r, $R, $r",
    "mad.hi.u32 $=r, $r, $r, $R",
    "mad.hi.sat.s32 $=r, $r, $r, $r",
    "mul.wide.s32 $=d, $r, $R",
    "mul.wide.u32 $=d, $r, $R",
    "mad.wide.s32 $=d, $r, $r, $d",
    "mul24.lo.s32 $=r, $r, $r",
    "mul24.hi.u32 $=r, $r, $r",
    "sad.s32 $=r, $r, $r, $r",
    "sad.u32 $=r, $r, $r, $r",
    "div.s32 $=r, $r, $R",
    "div.u32 $=r, $r, $R",
    "rem.s32 $=r, $r, $R",
    "rem.u32 $=r, $R, $r",
    "abs.s32 $=r, $r",
    "neg.s32 $=r, $r",
    "min.s32 $=r, $r, $R",
    "max.s32 $=r, $r, $R",
    "min.u32 $=r, $r, $R",
    "max.u32 $=r, $r, $R",
    "max.relu.s32 $=r, $r, $r",
    "popc.b32 $=r, $r",
    "popc.b64 $=r, $d",
    "clz.b32 $=r, $r",
    "clz.b64 $=r, $d",
    "bfind.u32 $=r, $r",
    "bfind.s32 $=r, $r",
    "bfind.shiftamt.s64 $=r, $d",
    "brev.b32 $=r, $r",
    "brev.b64 $=d, $d",
    "bfe.u32 $=r, $r, $k, $k",
    "bfe.s32 $=r, $r, $r, $k",
    "bfe.s64 $=d, $d, $k, $r",
    "bfi.b32 $=r, $r, $r, $k, $k",
    "bfi.b32 $=r, $r, $r, $r, $k",
    "bfi.b64 $=d, $d, $d, $r, $r",
    "fns.b32 $=r, $r, $k, 1",
    "szext.wrap.s32 $=r, $r, $r",
    "bmsk.clamp.b32 $=r, $r, $k",
    "dp4a.s32.u32 $=r, $r, $r, $r",
    "dp4a.u32.u32 $=r, $r, $r, $r",
    "dp2a.lo.s32.s32 $=r, $r, $r, $r",
    "add.u16x2 $=r, $r, $r",
    "min.s16x2 $=r, $r, $r",
    "max.u16x2 $=r, $r, $r",
    "vadd4.s32.s32.s32.sat $=r, $r, $r, $r",
    "vabsdiff4.u32.u32.u32.add $=r, $r, $r, $r",
    "and.b32 $=r, $r, $R",
    "or.b32 $=r, $r, $R",
    "xor.b32 $=r, $r, $R",
    "not.b32 $=r, $r",
    "cnot.b32 $=r, $r",
    "lop3.b32 $=r, $r, $r, $r, $l",
    "shf.l.wrap.b32 $=r, $r, $r, $R",
    "shf.r.clamp.b32 $=r, $r, $r, $R",
    "shl.b32 $=r, $r, $R",
    "shl.b32 $=r, $r, $k",
    "shr.u32 $=r, $r, $k",
    "shr.s32 $=r, $r, $R",
    "shr.u32 $=r, $r, $r",
    "prmt.b32 $=r, $r, $r, $r",
    "prmt.b32.rc16 $=r, $r, $r, $r",
    "add.s64 $=d, $d, $D",
    "sub.s64 $=d, $d, $d",
    "mul.lo.s64 $=d, $d, $D",
    "mul.hi.u64 $=d, $d, $d",
    "mul.hi.s64 $=d, $d, $d",
    "mad.lo.s64 $=d, $d, $d, $d",
    "div.s64 $=d, $d, $d",
    "div.u64 $=d, $d, $D",
    "rem.s64 $=d, $d, $D",
    "rem.u64 $=d, $d, $d",
    "min.s64 $=d, $d, $d",
    "max.u64 $=d, $d, $d",
    "abs.s64 $=d, $d",
    "neg.s64 $=d, $d",
    "and.b64 $=d, $d, $D",
    "xor.b64 $=d, $d, $d",
    "not.b64 $=d, $d",
    "shl.b64 $=d, $d, $R",
    "shr.s64 $=d, $d, $r",
    "shr.u64 $=d, $d, $k",
    "add.s16 $=h, $h, $H",
    "sub.u16 $=h, $h, $h",
    "mul.lo.s16 $=h, $h, $h",
    "mul.hi.u16 $=h, $h, $h",
    "mul.hi.s16 $=h, $h, $h",
    "mul.wide.s16 $=r, $h, $h",
    "mad.lo.u16 $=h, $h, $h, $h",
    "div.s16 $=h, $h, $h",
    "rem.u16 $=h, $h, $h",
    "min.s16 $=h, $h, $h",
    "max.u16 $=h, $h, $h",
    "abs.s16 $=h, $h",
    "and.b16 $=h, $h, $h",
    "not.b16 $=h, $h",
    "shl.b16 $=h, $h, $k",
    "shr.s16 $=h, $h, $r",
    "shr.u16 $=h, $h, $k",
];

const PREDICATE: &[&str] = &[
    "setp.{ci}.s32 $=p, $r, $R",
    "setp.{cu}.u32 $=p, $r, $R",
    "setp.{ci}.s64 $=p, $d, $D",
    "setp.{cu}.u64 $=p, $d, $d",
    "setp.{ci}.s16 $=p, $h, $H",
    "setp.{cu}.u16 $=p, $h, $h",
    "setp.{ci}.{bool}.s32 $=p, $r, $R, $p",
    "setp.{cu}.{bool}.u32 $=p, $r, $R, !$p",
    "setp.{cf}{z}.f32 $=p, $f, $F",
    "setp.{cf}.f64 $=p, $g, $g",
    "setp.{cf}.{bool}{z}.f32 $=p, $f, $F, $p",
    "setp.{cf}.f16 $=p, $q, $q",
    "testp.subnormal.f32 $=p, $f",
    "testp.number.f64 $=p, $g",
    "and.pred $=p, $p, $p",
    "or.pred $=p, $p, $p",
    "xor.pred $=p, $p, $p",
    "not.pred $=p, $p",
    "selp.b32 $=r, $r, $R, $p",
    "selp.b64 $=d, $d, $d, $p",
    "selp.b16 $=h, $h, $h, $p",
    "selp.f32 $=f, $f, $F, $p",
    "selp.f64 $=g, $g, $g, $p",
    "slct.s32.s32 $=r, $r, $r, $r",
    "slct.u64.s32 $=d, $d, $d, $r",
    "slct.f32.s32 $=f, $f, $f, $r",
    "slct{z}.s32.f32 $=r, $r, $r, $f",
    "set.{ci}.s32.s32 $=r, $r, $R",
    "set.{cf}{z}.u32.f32 $=r, $f, $f",
    "set.{cu}.f32.u32 $=f, $r, $r",
    "mov.b32 $=r, $R",
    "mov.b64 $=d, $D",
    "mov.pred $=p, $p",
    "mov.f32 $=f, $F",
    "mov.b32 $=f, $r",
    "mov.b64 $=d, {$r, $r}",
    "mov.b64 {$=r, $=r}, $d",
    "mov.b32 $=r, {$h, $h}",
    "mov.b32 {$=h, $=h}, $r",
    "mov.b64 $=g, $d",
    "mov.b32 $=v, {$q, $q}",
    "mov.b16 $=q, $h",
];

const FLOAT: &[&str] = &[
    "add{rnd}{z}.f32 $=f, $f, $F",
    "sub{z}.f32 $=f, $f, $f",
    "mul{rnd}{z}.f32 $=f, $f, $F",
    "mul{z}.sat.f32 $=f, $f, $f",
    "fma{rnd}{z}.f32 $=f, $f, $f, $f",
    "fma.rn{z}.sat.f32 $=f, $f, $f, $f",
    "mad.rn{z}.f32 $=f, $f, $F, $f",
    "div{rnd}{z}.f32 $=f, $f, $f",
    "rcp{rnd}{z}.f32 $=f, $f",
    "sqrt{rnd}{z}.f32 $=f, $f",
    "abs{z}.f32 $=f, $f",
    "neg{z}.f32 $=f, $f",
    "min{z}.f32 $=f, $f, $F",
    "max{z}.f32 $=f, $f, $f",
    "min{z}.NaN.f32 $=f, $f, $f",
    "max{z}.NaN.f32 $=f, $f, $f",
    "add{rnd}.f64 $=g, $g, $g",
    "sub.rn.f64 $=g, $g, $g",
    "mul{rnd}.f64 $=g, $g, $g",
    "fma{rnd}.f64 $=g, $g, $g, $g",
    "div.rn.f64 $=g, $g, $g",
    "rcp.rn.f64 $=g, $g",
    "sqrt{rnd}.f64 $=g, $g",
    "abs.f64 $=g, $g",
    "neg.f64 $=g, $g",
    "min.f64 $=g, $g, $g",
    "max.f64 $=g, $g, $g",
    "add.f16 $=q, $q, $q",
    "mul.sat.f16 $=q, $q, $q",
    "fma.rn.f16 $=q, $q, $q, $q",
    "fma.rn.relu.f16 $=q, $q, $q, $q",
    "min.f16 $=q, $q, $q",
    "max.NaN.f16 $=q, $q, $q",
    "neg.f16 $=q, $q",
    "add.f16x2 $=v, $v, $v",
    "sub.f16x2 $=v, $v, $v",
    "mul.f16x2 $=v, $v, $v",
    "fma.rn.f16x2 $=v, $v, $v, $v",
    "max.f16x2 $=v, $v, $v",
    "cvt{rnd}{z}.f32.s32 $=f, $r",
    "cvt.rn.f32.u32 $=f, $r",
    "cvt.rn.f32.u64 $=f, $d",
    "cvt.rz.f32.s64 $=f, $d",
    "cvt.rn.f64.s32 $=g, $r",
    "cvt.rn.f64.u64 $=g, $d",
    "cvt{z}.rzi.s32.f32 $=r, $f",
    "cvt{z}.rni.u32.f32 $=r, $f",
    "cvt.rmi.s64.f32 $=d, $f",
    "cvt.rpi.u64.f32 $=d, $f",
    "cvt.rzi.s32.f64 $=r, $g",
    "cvt.rni.u64.f64 $=d, $g",
    "cvt.rzi.u16.f32 $=h, $f",
    "cvt.rzi.s8.f32 $=r, $f",
    "cvt{rnd}.f32.f64 $=f, $g",
    "cvt{z}.f64.f32 $=g, $f",
    "cvt{z}.rni.f32.f32 $=f, $f",
    "cvt.rmi.f64.f64 $=g, $g",
    "cvt{z}.sat.f32.f32 $=f, $f",
    "cvt.rn.f16.f32 $=q, $f",
    "cvt.rz.f16.f64 $=q, $g",
    "cvt.f32.f16 $=f, $q",
    "cvt.rzi.s32.f16 $=r, $q",
    "cvt.rn.f16.s32 $=q, $r",
    "cvt.rn.f16x2.f32 $=v, $f, $f",
    "cvt.u32.u16 $=r, $h",
    "cvt.s32.s16 $=r, $h",
    "cvt.s32.s8 $=r, $r",
    "cvt.u32.u8 $=r, $r",
    "cvt.s64.s32 $=d, $r",
    "cvt.u64.u32 $=d, $r",
    "cvt.u32.u64 $=r, $d",
    "cvt.u16.u32 $=h, $r",
    "cvt.sat.s16.s32 $=h, $r",
    "cvt.sat.u8.s32 $=r, $r",
    "cvt.sat.u32.s64 $=r, $d",
    "cvt.s16.s8 $=h, $h",
];

/// What a program's f32 instructions do with subnormal numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ftz {
    /// Keep them.
    None,
    /// Some flush, some do not.
    Mixed,
    /// All flush.
    All,
}

/// An instruction that computes, without guard and semicolon.
pub fn random(rng: &mut Rng, ftz: Ftz) -> String {
    let table = match rng.below(10) {
        0..4 => INT,
        4..7 => PREDICATE,
        _ => FLOAT,
    };
    let template = *rng.pick(table);
    fill(rng, template, ftz)
}

/// Puts registers and constants into a template.
pub fn fill(rng: &mut Rng, template: &str, ftz: Ftz) -> String {
    let mut text = template.to_owned();
    let choices: [(&str, &[&str]); 5] = [
        ("{rnd}", &[".rn", ".rn", ".rn", ".rz", ".rm", ".rp"]),
        ("{ci}", &["eq", "ne", "lt", "le", "gt", "ge"]),
        (
            "{cu}",
            &["eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"],
        ),
        (
            "{cf}",
            &[
                "eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu",
                "num", "nan",
            ],
        ),
        ("{bool}", &["and", "or", "xor"]),
    ];
    for (name, values) in choices {
        let value: &str = rng.pick::<&str>(values);
        text = text.replace(name, value);
    }
    let flush = ftz == Ftz::All || (ftz == Ftz::Mixed && rng.chance(50));
    text = text.replace("{z}", if flush { ".ftz" } else { "" });
    operands(rng, &text)
}

fn operands(rng: &mut Rng, text: &str) -> String {
    let mut out = String::new();
    // A vector of results must not name a register twice.
    let mut written: Vec<String> = Vec::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '$' {
            out.push(c);
            continue;
        }
        let class = chars.next().unwrap_or('r');
        if class == '=' {
            let class = chars.next().unwrap_or('r');
            let mut reg = register(rng, class);
            while written.contains(&reg) {
                reg = register(rng, class);
            }
            out.push_str(&reg);
            written.push(reg);
        } else {
            out.push_str(&source(rng, class));
        }
    }
    out
}

fn source(rng: &mut Rng, class: char) -> String {
    match class {
        'k' => rng.below(32).to_string(),
        'l' => rng.below(256).to_string(),
        'F' if rng.chance(50) => format!("0f{:08X}", rng.float_bits()),
        'R' | 'D' if rng.chance(50) => rng.integer().to_string(),
        'H' if rng.chance(50) => i64::from(rng.integer() as i16).to_string(),
        class => register(rng, class.to_ascii_lowercase()),
    }
}

/// A register of a pool.
pub fn register(rng: &mut Rng, class: char) -> String {
    format!("%{class}{}", rng.below(pool_size(class)))
}
