//! `// launch:` lines.
//!
//! ```text
//! k<<<GRID, BLOCK>>>(ARG, …) => BUFFER, …
//! k<<<GRID, BLOCK, SHARED_BYTES>>>(…)
//! GRID, BLOCK  N or (X, Y) or (X, Y, Z)
//! ARG          NAME = TYPE[CONTENTS] for a buffer,
//!              NAME = NUMBER for a scalar of the parameter's type,
//!              NAME = &OTHER + BYTES for a pointer into a buffer named before,
//!              NAME = tensormap{"buffer": "OTHER", …} for a tensor map of one,
//!                with the fields of a case file's,
//!              NAME = texture{"buffer": "OTHER", …} or surface{…} for the handle of an image that
//!                lies in one, likewise,
//!              NAME = sampler{…}
//! BUFFER       NAME = TYPE[CONTENTS] and then, as in `run:` lines, `ulp 2`, …
//! CONTENTS     N: so many zeros; V, V, …: these values (`V,` for one);
//!              N: fill V; N: arange; N: arange START STEP
//! ```

use anyhow::{Context, Result, bail, ensure};
use ptxjit_cli::tensor_map::MapDecl;
use ptxjit_cli::texture::{ObjectKind, SamplerDecl, TextureDecl};
use std::time::Duration;

use crate::value::{Expected, Kind, split_top};

/// One launch with its inputs and what it must leave behind.
#[derive(Debug)]
pub(crate) struct LaunchLine {
    pub(crate) line: usize,
    pub(crate) text: String,
    pub(crate) kernel: String,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
    pub(crate) options: LaunchOptions,
    pub(crate) args: Vec<Arg>,
    pub(crate) want: Vec<WantedBuffer>,
    /// The error that must end the launch.
    pub(crate) traps: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LaunchOptions {
    pub(crate) memcheck: bool,
    pub(crate) cooperative: bool,
    pub(crate) cluster: Option<[u32; 3]>,
    pub(crate) timeout: Option<Duration>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Arg {
    pub(crate) name: String,
    pub(crate) value: ArgValue,
}

#[derive(Debug, PartialEq)]
pub(crate) enum ArgValue {
    Buffer(Vec<u8>),
    /// Text of a scalar; the parameter says its type.
    Scalar(String),
    /// A pointer into the buffer of that name.
    Pointer(String, i64),
    /// A tensor map of the buffer that it names.
    TensorMap(Box<MapDecl>),
    /// A texture or a surface of the buffer that it names.
    Image(ObjectKind, Box<TextureDecl>),
    Sampler(Box<SamplerDecl>),
}

#[derive(Debug)]
pub(crate) struct WantedBuffer {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) values: Vec<Expected>,
}

impl LaunchLine {
    pub(crate) fn parse(line: usize, options: &str, text: &str) -> Result<LaunchLine> {
        let (call, want) = match text.split_once("=>") {
            Some((call, want)) => (call.trim(), split_top(want)),
            None => (text, Vec::new()),
        };
        let (kernel, rest) = call
            .split_once("<<<")
            .context("expected `kernel<<<grid, block>>>(…)`")?;
        let (config, args) = rest.split_once(">>>").context("expected `>>>`")?;
        let args = args
            .trim()
            .strip_prefix('(')
            .and_then(|args| args.strip_suffix(')'));
        let args = args.context("expected `(arguments)` after `>>>`")?;
        let config = split_top(config);
        ensure!(
            (2..=3).contains(&config.len()),
            "expected `<<<grid, block>>>` or `<<<grid, block, shared bytes>>>`"
        );
        Ok(LaunchLine {
            line,
            text: text.to_owned(),
            kernel: kernel.trim().to_owned(),
            grid: dims(&config[0])?,
            block: dims(&config[1])?,
            shared: config
                .get(2)
                .map_or(Ok(0), |shared| shared.parse())
                .context("bytes of shared memory")?,
            options: LaunchOptions::parse(options)?,
            args: split_top(args)
                .iter()
                .map(|arg| Arg::parse(arg))
                .collect::<Result<_>>()?,
            want: want
                .iter()
                .map(|want| WantedBuffer::parse(want))
                .collect::<Result<_>>()?,
            traps: None,
        })
    }
}

impl LaunchOptions {
    fn parse(text: &str) -> Result<LaunchOptions> {
        let mut options = LaunchOptions::default();
        for word in text.split_whitespace() {
            match word.split_once('=') {
                None if word == "memcheck" => options.memcheck = true,
                None if word == "cooperative" => options.cooperative = true,
                Some(("timeout", seconds)) => {
                    options.timeout = Some(Duration::try_from_secs_f64(seconds.parse()?)?)
                }
                Some(("cluster", size)) => options.cluster = Some(dims(size)?),
                _ => bail!("unknown option `{word}`"),
            }
        }
        Ok(options)
    }
}

/// `N`, `(X, Y)`, `(X, Y, Z)`
fn dims(text: &str) -> Result<[u32; 3]> {
    let inner = text.trim();
    let inner = inner
        .strip_prefix('(')
        .and_then(|inner| inner.strip_suffix(')'))
        .unwrap_or(inner);
    let given = inner
        .split(',')
        .map(|dim| dim.trim().parse::<u32>())
        .collect::<Result<Vec<_>, _>>();
    let given = given.with_context(|| format!("`{text}` is not a size"))?;
    ensure!(given.len() <= 3, "`{text}` has more than three dimensions");
    let mut dims = [1; 3];
    dims[..given.len()].copy_from_slice(&given);
    Ok(dims)
}

impl Arg {
    fn parse(text: &str) -> Result<Arg> {
        let (name, value) = text
            .split_once('=')
            .with_context(|| format!("`{text}` is not of the form NAME = VALUE"))?;
        let value = value.trim();
        let value = if let Some(fields) = value.strip_prefix("tensormap") {
            ArgValue::TensorMap(serde_json::from_str(fields).context("a tensor map")?)
        } else if let Some(fields) = value.strip_prefix("texture") {
            let decl = serde_json::from_str(fields).context("a texture")?;
            ArgValue::Image(ObjectKind::Texture, decl)
        } else if let Some(fields) = value.strip_prefix("surface") {
            let decl = serde_json::from_str(fields).context("a surface")?;
            ArgValue::Image(ObjectKind::Surface, decl)
        } else if let Some(fields) = value.strip_prefix("sampler") {
            ArgValue::Sampler(serde_json::from_str(fields).context("a sampler")?)
        } else if let Some(pointer) = value.strip_prefix('&') {
            let (buffer, offset) = pointer.split_once('+').unwrap_or((pointer, "0"));
            ArgValue::Pointer(
                buffer.trim().to_owned(),
                offset.trim().parse().context("a pointer's offset")?,
            )
        } else if let Some((ty, contents)) = array(value) {
            let (kind, values) = contents_of(ty, contents)?;
            let mut bytes = Vec::new();
            for value in &values {
                let bits = kind.parse(value)?;
                bytes.extend_from_slice(&bits.to_le_bytes()[..element_size(kind)?]);
            }
            ArgValue::Buffer(bytes)
        } else {
            ArgValue::Scalar(value.to_owned())
        };
        Ok(Arg {
            name: name.trim().to_owned(),
            value,
        })
    }
}

impl WantedBuffer {
    fn parse(text: &str) -> Result<WantedBuffer> {
        let (name, value) = text
            .split_once('=')
            .with_context(|| format!("`{text}` is not of the form NAME = VALUES"))?;
        let (inside, suffix) = value.rsplit_once(']').context("expected `TYPE[…]`")?;
        let (ty, contents) = inside.split_once('[').context("expected `TYPE[…]`")?;
        let (kind, values) = contents_of(ty.trim(), contents)?;
        element_size(kind)?;
        let values = Expected::parse_list(&format!("({}){suffix}", values.join(",")))?;
        Ok(WantedBuffer {
            name: name.trim().to_owned(),
            kind,
            values,
        })
    }
}

/// `TYPE[CONTENTS]`
fn array(text: &str) -> Option<(&str, &str)> {
    let (ty, contents) = text.strip_suffix(']')?.split_once('[')?;
    Some((ty.trim(), contents))
}

pub(crate) fn element_size(kind: Kind) -> Result<usize> {
    ensure!(kind != Kind::Pred, "memory holds no predicates");
    Ok(kind.bits() as usize / 8)
}

fn contents_of(ty: &str, contents: &str) -> Result<(Kind, Vec<String>)> {
    let kind = Kind::of(ty).with_context(|| format!("unknown type `{ty}`"))?;
    let contents = contents.trim();
    if let Some((count, rule)) = contents.split_once(':') {
        let count = count
            .trim()
            .parse::<usize>()
            .context("number of elements")?;
        let words: Vec<&str> = rule.split_whitespace().collect();
        let values = match words.as_slice() {
            ["fill", value] => vec![(*value).to_owned(); count],
            ["arange"] => (0..count).map(|idx| idx.to_string()).collect(),
            ["arange", start, step] => {
                let (start, step): (i64, i64) = (start.parse()?, step.parse()?);
                (0..count as i64)
                    .map(|idx| (start + idx * step).to_string())
                    .collect()
            }
            _ => bail!("`{rule}` is none of `fill V`, `arange`, `arange START STEP`"),
        };
        return Ok((kind, values));
    }
    if let Ok(count) = contents.parse::<usize>() {
        return Ok((kind, vec!["0".to_owned(); count]));
    }
    let mut values = split_top(contents);
    if values.last().is_some_and(String::is_empty) {
        values.pop();
    }
    ensure!(!values.is_empty(), "an empty buffer");
    Ok((kind, values))
}

/// Called by `main`.
pub(crate) mod tests {
    use super::*;

    pub(crate) fn a_launch() {
        let launch = LaunchLine::parse(
            7,
            " memcheck timeout=0.5",
            "k<<<(2,1,1), 64, 128>>>(in = s32[1, 2], n = 5, p = &in + 4, out = s32[2]) => out = f32[3: fill 1.5] ulp 1",
        )
        .unwrap();
        assert_eq!(
            (launch.grid, launch.block, launch.shared),
            ([2, 1, 1], [64, 1, 1], 128)
        );
        assert!(
            launch.options.memcheck && launch.options.timeout == Some(Duration::from_millis(500))
        );
        assert_eq!(
            launch.args[0].value,
            ArgValue::Buffer(vec![1, 0, 0, 0, 2, 0, 0, 0])
        );
        assert_eq!(launch.args[1].value, ArgValue::Scalar("5".into()));
        assert_eq!(launch.args[2].value, ArgValue::Pointer("in".into(), 4));
        assert_eq!(launch.args[3].value, ArgValue::Buffer(vec![0; 8]));
        assert_eq!(launch.want[0].values.len(), 3);
        let one = LaunchLine::parse(1, "", "k<<<1, 1>>>(x = u8[7,]) => x = u8[8,]").unwrap();
        assert_eq!(one.args[0].value, ArgValue::Buffer(vec![7]));
        assert_eq!(one.want[0].values[0].text, "8");
    }

    pub(crate) fn refusals() {
        for text in [
            "k",
            "k<<<1>>>()",
            "k<<<1, 1>>>",
            "k<<<1, x>>>()",
            "k<<<1, 1>>>(x)",
            "k<<<1, 1>>>(x = q[1, 2])",
        ] {
            assert!(LaunchLine::parse(1, "", text).is_err(), "{text}");
        }
        assert!(LaunchLine::parse(1, "fast", "k<<<1, 1>>>()").is_err());
    }
}
