//! `--arg`: one kernel argument on the command line.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::contents::Contents;
use crate::dtype::{self, DType, Number};
use crate::fill;
use crate::paths::shown;
use crate::tensor_map::MapSource;
use crate::texture::{ObjectKind, SamplerDecl, Source, TextureDecl};

/// An argument as given, files not yet read.
#[derive(Clone, Debug, PartialEq)]
pub enum CliArg {
    /// The bytes of a scalar or structure.
    Value(Vec<u8>),
    /// A fresh buffer, passed by pointer.
    Buffer {
        dtype: DType,
        count: Option<usize>,
        init: BufferInit,
    },
    /// A tensor map, by value.
    TensorMap(MapSource),
    /// The handle of a texture or surface.
    Texture(ObjectKind, Source<TextureDecl>),
    /// The handle of a sampler.
    Sampler(Source<SamplerDecl>),
    /// The pointer of an earlier argument once more.
    Same(usize),
}

#[derive(Clone, Debug, PartialEq)]
pub enum BufferInit {
    Zeros,
    Uninit,
    Arange { start: Number, step: Number },
    Fill(Vec<u8>),
    Random { seed: u64, lo: Number, hi: Number },
    File(PathBuf),
}

impl FromStr for CliArg {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<CliArg> {
        let (ty, value) = text
            .split_once('=')
            .ok_or_else(|| anyhow!("`{text}` is not of the form TYPE=VALUE"))?;
        if ty == "bytes" {
            return Ok(CliArg::Value(dtype::parse_hex(value)?));
        }
        if ty == "tensormap" {
            return Ok(CliArg::TensorMap(MapSource::parse(value)?));
        }
        match ty {
            "tex" => return Ok(CliArg::Texture(ObjectKind::Texture, Source::parse(value)?)),
            "surf" => return Ok(CliArg::Texture(ObjectKind::Surface, Source::parse(value)?)),
            "sampler" => return Ok(CliArg::Sampler(Source::parse(value)?)),
            _ => {}
        }
        if ty == "same" {
            return Ok(CliArg::Same(value.parse().with_context(|| {
                format!("`{value}` is not an argument's index")
            })?));
        }
        if let Some((ty, count)) = ty.split_once('[') {
            let count = count.strip_suffix(']').and_then(|count| count.parse().ok());
            let count =
                count.ok_or_else(|| anyhow!("`{text}` needs a number of elements in brackets"))?;
            return buffer(ty, Some(count), value);
        }
        if value.starts_with('@') {
            return buffer(ty, None, value);
        }
        Ok(CliArg::Value(dtype::parse_scalar(ty, value)?))
    }
}

impl CliArg {
    /// Whether the argument is memory or an object that is passed otherwise than by pointer.
    pub fn is_no_pointer(&self) -> bool {
        matches!(
            self,
            CliArg::TensorMap(_) | CliArg::Texture(..) | CliArg::Sampler(_)
        )
    }
}

/// `SYMBOL=KIND={…}`
pub fn parse_binding(text: &str) -> Result<(String, CliArg)> {
    let (symbol, object) = text
        .split_once('=')
        .ok_or_else(|| anyhow!("`{text}` is not of the form SYMBOL=OBJECT"))?;
    Ok((symbol.to_owned(), object.parse()?))
}

fn buffer(ty: &str, count: Option<usize>, init: &str) -> Result<CliArg> {
    let dtype = DType::from_name(ty).ok_or_else(|| anyhow!("unknown element type `{ty}`"))?;
    let fits = count
        .unwrap_or(0)
        .checked_mul(dtype.size())
        .is_some_and(|size| size <= 1 << 46);
    ensure!(fits, "a buffer of that many elements is too large");
    let init = parse_init(dtype, init)?;
    Ok(CliArg::Buffer { dtype, count, init })
}

fn parse_init(dtype: DType, init: &str) -> Result<BufferInit> {
    if let Some(path) = init.strip_prefix('@') {
        return Ok(BufferInit::File(path.into()));
    }
    let mut parts = init.split(':');
    let kind = parts.next().unwrap_or("");
    let values: Vec<&str> = parts.collect();
    let number = |text: &str| dtype::parse_bound(dtype, text);
    match (kind, values.as_slice()) {
        ("zeros", []) => Ok(BufferInit::Zeros),
        ("uninit", []) => Ok(BufferInit::Uninit),
        ("arange", []) => Ok(BufferInit::Arange {
            start: Number::Int(0),
            step: Number::Int(1),
        }),
        ("arange", [start, step]) => Ok(BufferInit::Arange {
            start: number(start)?,
            step: number(step)?,
        }),
        ("fill", [value]) => Ok(BufferInit::Fill(dtype::parse_scalar(dtype.name(), value)?)),
        ("random", [seed, lo, hi]) => {
            let seed = seed
                .parse()
                .with_context(|| format!("`{seed}` is not a seed"))?;
            Ok(BufferInit::Random {
                seed,
                lo: number(lo)?,
                hi: number(hi)?,
            })
        }
        _ => bail!(
            "`{init}` is none of zeros, uninit, arange, arange:START:STEP, fill:VALUE, random:SEED:LO:HI, @FILE"
        ),
    }
}

/// The buffer's first contents (none if left uninitialised) and its number of elements.
pub fn contents(
    dtype: DType,
    count: Option<usize>,
    init: &BufferInit,
) -> Result<(Option<Contents>, usize)> {
    let n = count.unwrap_or(0);
    let bytes = match init {
        BufferInit::Zeros => return Ok((Some(fill::zeros(dtype, n)?), n)),
        BufferInit::Uninit => return Ok((None, n)),
        BufferInit::Arange { start, step } => fill::arange(dtype, n, *start, *step)?,
        BufferInit::Fill(value) => fill::fill(dtype, n, value)?,
        BufferInit::Random { seed, lo, hi } => fill::random(dtype, n, *seed, *lo, *hi)?,
        BufferInit::File(path) => {
            let is_numpy = path.extension().is_some_and(|ext| ext == "npy");
            let (contents, got) = if is_numpy {
                Contents::from_npy(path, dtype)?
            } else {
                Contents::from_raw(path, dtype)?
            };
            ensure!(
                count.is_none_or(|n| n == got),
                "{} has {got} elements, not {n}",
                shown(path)
            );
            return Ok((Some(contents), got));
        }
    };
    Ok((Some(Contents::Bytes(bytes)), n))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> CliArg {
        text.parse().unwrap_or_else(|err| panic!("{text}: {err:#}"))
    }

    #[test]
    fn forms() {
        assert_eq!(
            parse("u32=10000"),
            CliArg::Value(10000u32.to_le_bytes().to_vec())
        );
        assert_eq!(parse("bytes=0a0B"), CliArg::Value(vec![10, 11]));
        assert_eq!(parse("same=2"), CliArg::Same(2));
        let CliArg::Buffer { dtype, count, init } = parse("s16[3]=arange") else {
            panic!()
        };
        assert_eq!(
            contents(dtype, count, &init).unwrap(),
            (Some(Contents::Bytes(vec![0, 0, 1, 0, 2, 0])), 3)
        );
        let CliArg::Buffer { dtype, count, init } = parse("f16[2]=fill:-1.5") else {
            panic!()
        };
        assert_eq!(
            contents(dtype, count, &init).unwrap().0.unwrap(),
            Contents::Bytes(vec![0, 0xbe, 0, 0xbe])
        );
        let CliArg::Buffer { dtype, count, init } = parse("f32[4]=uninit") else {
            panic!()
        };
        assert_eq!(contents(dtype, count, &init).unwrap(), (None, 4));
        let CliArg::Buffer { dtype, count, init } = parse("u8[100]=random:1:250:256") else {
            panic!()
        };
        let Some(Contents::Bytes(bytes)) = contents(dtype, count, &init).unwrap().0 else {
            panic!()
        };
        assert!(bytes.iter().all(|&byte| byte >= 250));
        assert!(matches!(
            parse("f32=@x.npy"),
            CliArg::Buffer {
                count: None,
                init: BufferInit::File(_),
                ..
            }
        ));
    }

    #[test]
    fn refusals() {
        for text in [
            "u32",
            "u32=",
            "u32[=zeros",
            "u32[-1]=zeros",
            "u32[2]=ones",
            "u32[2]=fill",
            "u32[99999999999999999]=zeros",
            "b128[2]=zeros",
            "same=x",
            "bytes=0",
            "f32[2]=random:1:2",
        ] {
            assert!(text.parse::<CliArg>().is_err(), "{text}");
        }
    }
}
