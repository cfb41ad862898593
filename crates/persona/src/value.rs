//! Values of environment variables, as text.

use std::time::Duration;

/// `1`, `true`, `yes`, `on`, or their opposites; the empty text is a no.
pub(crate) fn flag(text: &str) -> Result<bool, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" | "" => Ok(false),
        _ => Err("is neither 1 nor 0".to_owned()),
    }
}

/// A number of bytes, with K, M, G or T for powers of 1024; `KiB` and the like are the same.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || "is not a size such as 512M or 8G".to_owned();
    let text = text.trim().to_ascii_uppercase();
    let text = text
        .strip_suffix("IB")
        .or(text.strip_suffix('B'))
        .unwrap_or(&text);
    let shift = match text.chars().last() {
        Some('K') => 10,
        Some('M') => 20,
        Some('G') => 30,
        Some('T') => 40,
        Some(_) => 0,
        None => return Err(wrong()),
    };
    let digits = if shift == 0 {
        text
    } else {
        &text[..text.len() - 1]
    };
    let number: u64 = digits.trim().parse().map_err(|_| wrong())?;
    number
        .checked_mul(1 << shift)
        .filter(|size| *size >= 1 << 20)
        .ok_or_else(|| "is not between 1M and 16 EiB".to_owned())
}

/// A whole number from `least` to `most`.
pub(crate) fn number(text: &str, least: u32, most: u32) -> Result<u32, String> {
    let number = text.trim().parse().ok();
    number
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| format!("is not a number from {least} to {most}"))
}

/// Seconds, with a fraction if need be; 0 is no limit.
pub(crate) fn seconds(text: &str) -> Result<Option<Duration>, String> {
    let seconds = text.trim().parse().ok();
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    match duration {
        None => Err("is not a number of seconds".to_owned()),
        Some(Duration::ZERO) => Ok(None),
        Some(duration) => Ok(Some(duration)),
    }
}

/// A version of CUDA, `13000` or `13.0`.
pub(crate) fn cuda_version(text: &str) -> Result<u32, String> {
    let version = match text.trim().split_once('.') {
        None => text.trim().parse().ok(),
        Some((major, minor)) => major
            .parse::<u32>()
            .ok()
            .zip(minor.parse::<u32>().ok())
            .and_then(|(major, minor)| {
                (minor < 100).then(|| major.saturating_mul(1000) + minor * 10)
            }),
    };
    version
        .filter(|version| (11_000..100_000).contains(version))
        .ok_or_else(|| "is not a version of CUDA such as 13000 or 13.0".to_owned())
}
