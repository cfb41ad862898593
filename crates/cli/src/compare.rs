//! Comparing what a launch left behind with what was expected.

use std::cmp::Ordering;

use crate::case::{LineOrder, Stdout};
use crate::dtype::{DType, Number};
use crate::npy::Array;

/// How close is close enough: `|got - want| <= atol + rtol * |want|`; zero twice means equal bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tolerance {
    pub rtol: f64,
    pub atol: f64,
    /// Compare as multisets.
    pub sorted: bool,
    /// Fraction of the elements that may differ.
    pub max_mismatch: f64,
}

/// How many differing elements a failure shows.
const SHOWN: usize = 5;

/// Nothing if `got` (the bytes of a buffer of type `dtype`) is as wanted, else the differences in
/// words.
pub fn buffers(
    name: &str,
    dtype: DType,
    got: &[u8],
    want: &Array,
    tolerance: Tolerance,
) -> Result<(), String> {
    let name = ptxjit::escape(name);
    let widened = dtype == DType::Bf16 && want.dtype == DType::F32;
    if dtype != want.dtype && !widened {
        return Err(format!(
            "buffer `{name}` is {dtype}, the expectation {}",
            want.dtype
        ));
    }
    let mut got = elements(dtype, got);
    let mut want = elements(want.dtype, &want.bytes);
    if got.len() != want.len() {
        return Err(format!(
            "buffer `{name}` has {} elements, the expectation {}",
            got.len(),
            want.len()
        ));
    }
    if tolerance.sorted {
        got.sort_by(order);
        want.sort_by(order);
    }
    let pairs = got.iter().zip(&want).enumerate();
    let differing: Vec<_> = pairs
        .filter(|&(_, (&got, &want))| !close(got, want, tolerance))
        .collect();
    let allowed = tolerance.max_mismatch * want.len() as f64;
    if differing.len() as f64 <= allowed {
        return Ok(());
    }
    let mut text = format!(
        "buffer `{name}`: {} of {} elements differ",
        differing.len(),
        want.len()
    );
    if tolerance.max_mismatch > 0.0 {
        text += &format!(", {} may", allowed.floor());
    }
    for &(idx, (got, want)) in differing.iter().take(SHOWN) {
        text += &format!("\n  [{idx}] got {}, expected {}", show(*got), show(*want));
    }
    if differing.len() > SHOWN {
        text += "\n  …";
    }
    Err(text)
}

/// Nothing if the device printed the wanted lines.
pub fn stdout(got: &str, want: &Stdout) -> Result<(), String> {
    let mut got: Vec<&str> = got.lines().collect();
    let mut lines: Vec<&str> = want.lines.iter().map(String::as_str).collect();
    if want.order == LineOrder::Any {
        got.sort_unstable();
        lines.sort_unstable();
    }
    if got == lines {
        return Ok(());
    }
    let order = if want.order == LineOrder::Any {
        " (in any order)"
    } else {
        ""
    };
    let first = (0..)
        .find(|&idx| got.get(idx) != lines.get(idx))
        .expect("the lists differ");
    let line = |lines: &[&str]| {
        lines
            .get(first)
            .map_or("no line".to_owned(), |line| format!("{line:?}"))
    };
    Err(format!(
        "device output{order}: {} lines, expected {}; the first difference: got {}, expected {}",
        got.len(),
        lines.len(),
        line(&got),
        line(&lines)
    ))
}

fn elements(dtype: DType, bytes: &[u8]) -> Vec<Number> {
    bytes
        .chunks_exact(dtype.size())
        .map(|element| dtype.decode(element))
        .collect()
}

/// Orders the elements of one buffer; NaNs by sign and payload, so that equal multisets stay equal.
fn order(a: &Number, b: &Number) -> Ordering {
    match (*a, *b) {
        (Number::Int(a), Number::Int(b)) => a.cmp(&b),
        (a, b) => a.as_f64().total_cmp(&b.as_f64()),
    }
}

fn close(got: Number, want: Number, tolerance: Tolerance) -> bool {
    let Tolerance { rtol, atol, .. } = tolerance;
    match (got, want) {
        (Number::Int(got), Number::Int(want)) if rtol == 0.0 => {
            got == want || (got - want).unsigned_abs() as f64 <= atol
        }
        (got, want) => {
            let (got, want) = (got.as_f64(), want.as_f64());
            // Arithmetic NaNs are one class: hosts and devices choose different payloads.
            let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
            if rtol == 0.0 && atol == 0.0 {
                return same;
            }
            same || got == want
                || (got - want).abs() <= atol + rtol * want.abs() && want.is_finite()
        }
    }
}

fn show(number: Number) -> String {
    match number {
        Number::Int(value) => value.to_string(),
        Number::Float(value) => format!("{value:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(got: &[f32], want: &[f32], tolerance: Tolerance) -> Result<(), String> {
        let bytes = |values: &[f32]| {
            values
                .iter()
                .flat_map(|x| x.to_le_bytes())
                .collect::<Vec<u8>>()
        };
        buffers(
            "x",
            DType::F32,
            &bytes(got),
            &Array {
                dtype: DType::F32,
                bytes: bytes(want),
            },
            tolerance,
        )
    }

    #[test]
    fn tolerances() {
        let exact = Tolerance::default();
        let loose = Tolerance {
            rtol: 1e-3,
            ..exact
        };
        assert!(check(&[1.0, f32::NAN], &[1.0, -f32::NAN], exact).is_ok());
        assert!(check(&[0.0], &[-0.0], exact).is_err());
        assert!(check(&[0.0], &[-0.0], loose).is_ok());
        assert!(check(&[1.0005], &[1.0], loose).is_ok());
        assert!(check(&[1.002], &[1.0], loose).is_err());
        assert!(check(&[f32::INFINITY], &[f32::INFINITY], loose).is_ok());
        assert!(check(&[f32::MAX], &[f32::INFINITY], loose).is_err());
        assert!(check(&[f32::NAN], &[1.0], loose).is_err());
        assert!(check(&[1.0], &[f32::NAN], loose).is_err());
        assert!(check(&[2.0, 1.0], &[1.0, 2.0], exact).is_err());
        assert!(
            check(
                &[2.0, 1.0],
                &[1.0, 2.0],
                Tolerance {
                    sorted: true,
                    ..exact
                }
            )
            .is_ok()
        );
        assert!(
            check(
                &[1.0, 9.0],
                &[1.0, 2.0],
                Tolerance {
                    max_mismatch: 0.5,
                    ..exact
                }
            )
            .is_ok()
        );
        assert!(
            check(
                &[1.0, 9.0],
                &[1.0, 2.0],
                Tolerance {
                    max_mismatch: 0.49,
                    ..exact
                }
            )
            .is_err()
        );
        assert!(check(&[1.0], &[1.0, 2.0], exact).is_err());
    }

    #[test]
    fn report() {
        let text = check(&[1.0, 2.0, 3.5], &[1.0, 2.0, 3.0], Tolerance::default()).unwrap_err();
        assert_eq!(
            text,
            "buffer `x`: 1 of 3 elements differ\n  [2] got 3.5, expected 3.0"
        );
    }

    #[test]
    fn bf16_expectations_are_f32() {
        let want = Array {
            dtype: DType::F32,
            bytes: 1.5f32.to_le_bytes().to_vec(),
        };
        assert!(buffers("x", DType::Bf16, &[0xc0, 0x3f], &want, Tolerance::default()).is_ok());
        assert!(buffers("x", DType::F16, &[0xc0, 0x3f], &want, Tolerance::default()).is_err());
    }

    #[test]
    fn output_lines() {
        let want = |order| Stdout {
            lines: vec!["b".into(), "a".into()],
            order,
        };
        assert!(stdout("a\nb\n", &want(LineOrder::Any)).is_ok());
        assert!(stdout("a\nb\n", &want(LineOrder::Exact)).is_err());
        assert!(stdout("b\na\n", &want(LineOrder::Exact)).is_ok());
        assert!(stdout("b\n", &want(LineOrder::Any)).is_err());
    }
}
