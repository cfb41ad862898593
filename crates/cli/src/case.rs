//! Case files: launches of real kernels with their inputs and expected results.
//!
//! The model follows the format field by field; what the fields mean at run time is in
//! [`crate::session`] and [`crate::compare`].

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use ptxjit::escape;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::contents::Contents;
use crate::dtype::{DType, Number};
use crate::fill;
use crate::paths::{CaseDir, Outside, file_name, shown};
use crate::sanitize::Expected;
use crate::tensor_map::MapDecl;
use crate::texture::{BindingDecl, SamplerDecl, TextureDecl};

/// A `case.json`.
#[derive(Debug, Deserialize)]
pub struct CaseFile {
    pub name: String,
    #[serde(default)]
    pub title: String,
    /// Builds of one source, all with the same result.
    pub ptx: Vec<PtxFile>,
    pub cases: Vec<Case>,
    /// What sanitizers must find.
    #[serde(default)]
    pub expect: Option<Expected>,
    /// The folder that file names refer to.
    #[serde(skip)]
    pub dir: CaseDir,
}

/// One build.
#[derive(Debug, Deserialize)]
pub struct PtxFile {
    pub file: String,
    #[serde(default)]
    pub producer: String,
}

/// Buffers, launches and what must come out.
#[derive(Debug, Deserialize)]
pub struct Case {
    pub label: String,
    /// Name to description, in the order of the file.
    #[serde(default, deserialize_with = "ordered_buffers")]
    pub buffers: Vec<BufferDecl>,
    #[serde(default)]
    pub globals: Vec<Global>,
    #[serde(default, deserialize_with = "ordered_textures")]
    pub textures: Vec<(String, TextureDecl)>,
    #[serde(default)]
    pub samplers: HashMap<String, SamplerDecl>,
    #[serde(default)]
    pub bindings: Vec<BindingDecl>,
    #[serde(default)]
    pub tensormaps: HashMap<String, MapDecl>,
    pub launches: Vec<LaunchDecl>,
    /// Absent in cases that are only for timing.
    pub expect: Option<Vec<Expect>>,
    pub stdout: Option<Stdout>,
    #[serde(default)]
    pub stderr_contains: Vec<String>,
}

/// A buffer and its first contents.
#[derive(Debug)]
pub struct BufferDecl {
    pub name: String,
    pub dtype: DType,
    pub count: usize,
    pub init: Init,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Init {
    Zeros,
    /// Left as it is.
    Uninit,
    Fill {
        value: Value,
    },
    Arange {
        start: Value,
        step: Value,
    },
    File {
        npy: String,
    },
    Random {
        seed: u64,
        lo: Value,
        hi: Value,
    },
    /// Tensor maps of the case, one after the other.
    TensorMaps {
        names: Vec<String>,
    },
}

/// A module variable to set before the first launch.
#[derive(Debug, Deserialize)]
pub struct Global {
    pub symbol: String,
    pub dtype: DType,
    pub npy: String,
}

#[derive(Debug, Deserialize)]
pub struct LaunchDecl {
    pub kernel: String,
    #[serde(deserialize_with = "dims")]
    pub grid: [u32; 3],
    #[serde(deserialize_with = "dims")]
    pub block: [u32; 3],
    #[serde(default)]
    pub shared_bytes: u32,
    #[serde(default)]
    pub args: Vec<ArgDecl>,
    #[serde(default, deserialize_with = "optional_dims")]
    pub cluster: Option<[u32; 3]>,
    #[serde(default)]
    pub cooperative: bool,
    #[serde(default)]
    pub programmatic: bool,
    /// The CUDA error name that the launch must end with.
    pub expect_error: Option<String>,
    /// The file that holds this kernel, where a case needs several.
    pub ptx: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ArgDecl {
    Buffer {
        name: String,
        #[serde(default)]
        byte_offset: i64,
    },
    Bytes {
        hex: String,
        #[serde(default)]
        patch: Vec<Patch>,
    },
    Texture {
        name: String,
    },
    Surface {
        name: String,
    },
    Sampler {
        name: String,
    },
    TensorMap(Map<String, Value>),
    U8 {
        value: Value,
    },
    I8 {
        value: Value,
    },
    U16 {
        value: Value,
    },
    I16 {
        value: Value,
    },
    U32 {
        value: Value,
    },
    I32 {
        value: Value,
    },
    U64 {
        value: Value,
    },
    I64 {
        value: Value,
    },
    F16 {
        value: Value,
    },
    Bf16 {
        value: Value,
    },
    F32 {
        value: Value,
    },
    F64 {
        value: Value,
    },
}

/// What overwrites bytes of a structure.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Patch {
    pub offset: usize,
    pub tensormap: Option<String>,
    pub buffer: Option<String>,
    #[serde(default)]
    pub byte_offset: i64,
    pub texture: Option<String>,
    pub surface: Option<String>,
    pub sampler: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct Expect {
    pub buffer: String,
    pub npy: String,
    #[serde(default)]
    pub rtol: f64,
    #[serde(default)]
    pub atol: f64,
    /// Compare as multisets.
    #[serde(default)]
    pub sorted: bool,
    /// Fraction of the elements that may differ.
    #[serde(default)]
    pub max_mismatch: f64,
}

#[derive(Debug, Deserialize)]
pub struct Stdout {
    pub lines: Vec<String>,
    pub order: LineOrder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LineOrder {
    Any,
    Exact,
}

impl CaseFile {
    pub fn read(path: &Path, outside: Outside) -> Result<CaseFile> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", shown(path)))?;
        let mut file: CaseFile = serde_json::from_str(&text)
            .with_context(|| format!("{} is not a case file", shown(path)))?;
        file.dir = CaseDir::of(path, outside);
        Ok(file)
    }

    pub fn case(&self, label: &str) -> Option<&Case> {
        self.cases.iter().find(|case| case.label == label)
    }
}

impl Case {
    /// Whether every launch names its PTX file: then the files of the entry belong together.
    pub fn names_its_files(&self) -> bool {
        self.launches.iter().all(|launch| launch.ptx.is_some())
    }

    /// Checks that everything which is written to a file of its own, called by its name, can be.
    pub fn check_file_names(&self) -> Result<()> {
        for buffer in &self.buffers {
            file_name("buffer", &buffer.name)?;
        }
        for (name, _) in &self.textures {
            file_name("texture or surface", name)?;
        }
        Ok(())
    }

    pub fn buffer(&self, name: &str) -> Result<usize> {
        let position = self.buffers.iter().position(|buffer| buffer.name == name);
        position.ok_or_else(|| anyhow!("the case has no buffer `{}`", escape(name)))
    }
}

/// More than any machine that runs this has; keeps sizes from overflowing.
const MAX_BUFFER_BYTES: usize = 1 << 46;

impl BufferDecl {
    /// The first contents.
    pub fn contents(&self, dir: &CaseDir) -> Result<Contents> {
        let context = || format!("buffer `{}`", escape(&self.name));
        let fits = self
            .count
            .checked_mul(self.dtype.size())
            .is_some_and(|size| size <= MAX_BUFFER_BYTES);
        ensure!(fits, "buffer `{}` is too large", escape(&self.name));
        self.init
            .contents(self.dtype, self.count, dir)
            .with_context(context)
    }
}

impl Init {
    fn contents(&self, dtype: DType, count: usize, dir: &CaseDir) -> Result<Contents> {
        let bytes = match self {
            // A program that reads the contents all the same gets zeros.
            Init::Zeros | Init::Uninit => return fill::zeros(dtype, count),
            // The maps are written when their buffers have addresses.
            Init::TensorMaps { names } => {
                let (size, needed) = (dtype.size() * count, ptxjit::TensorMap::SIZE * names.len());
                ensure!(
                    size == needed,
                    "{} tensor maps take {needed} bytes, not {size}",
                    names.len()
                );
                return fill::zeros(dtype, count);
            }
            Init::Fill { value } => {
                let mut element = Vec::new();
                dtype.encode(number(value)?, &mut element)?;
                fill::fill(dtype, count, &element)
            }
            Init::Arange { start, step } => {
                fill::arange(dtype, count, number(start)?, number(step)?)
            }
            Init::Random { seed, lo, hi } => {
                fill::random(dtype, count, *seed, number(lo)?, number(hi)?)
            }
            Init::File { npy } => {
                let (contents, got) = Contents::from_npy(&dir.find(npy)?, dtype)?;
                ensure!(
                    got == count,
                    "{} has {got} elements, not {count}",
                    escape(npy)
                );
                return Ok(contents);
            }
        };
        Ok(Contents::Bytes(bytes?))
    }
}

impl ArgDecl {
    /// Type and value, if this is a plain scalar.
    pub fn scalar(&self) -> Option<(DType, &Value)> {
        Some(match self {
            ArgDecl::U8 { value } => (DType::U8, value),
            ArgDecl::I8 { value } => (DType::I8, value),
            ArgDecl::U16 { value } => (DType::U16, value),
            ArgDecl::I16 { value } => (DType::I16, value),
            ArgDecl::U32 { value } => (DType::U32, value),
            ArgDecl::I32 { value } => (DType::I32, value),
            ArgDecl::U64 { value } => (DType::U64, value),
            ArgDecl::I64 { value } => (DType::I64, value),
            ArgDecl::F16 { value } => (DType::F16, value),
            ArgDecl::Bf16 { value } => (DType::Bf16, value),
            ArgDecl::F32 { value } => (DType::F32, value),
            ArgDecl::F64 { value } => (DType::F64, value),
            ArgDecl::Buffer { .. } | ArgDecl::Bytes { .. } => return None,
            ArgDecl::Texture { .. } | ArgDecl::Surface { .. } | ArgDecl::Sampler { .. } => {
                return None;
            }
            ArgDecl::TensorMap(_) => return None,
        })
    }
}

/// A JSON number, or one of the strings that JSON needs for what is not a number.
pub fn number(value: &Value) -> Result<Number> {
    match value {
        Value::Number(number) => {
            let int = number
                .as_i64()
                .map(i128::from)
                .or(number.as_u64().map(i128::from));
            let float = || number.as_f64().map(Number::Float);
            int.map(Number::Int)
                .or_else(float)
                .ok_or_else(|| anyhow!("`{number}` is out of range"))
        }
        Value::Bool(value) => Ok(Number::Int(i128::from(*value))),
        Value::String(text) => {
            let float = text
                .parse::<f64>()
                .map_err(|_| anyhow!("`{text}` is not a number"))?;
            Ok(Number::Float(float))
        }
        Value::Null | Value::Array(_) | Value::Object(_) => bail!("`{value}` is not a number"),
    }
}

#[derive(Deserialize)]
struct RawBuffer {
    dtype: DType,
    count: usize,
    init: Init,
}

fn ordered_buffers<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<BufferDecl>, D::Error> {
    let map = Map::deserialize(deserializer)?;
    let buffer = |(name, value)| {
        let raw: RawBuffer = serde_json::from_value(value).map_err(serde::de::Error::custom)?;
        Ok(BufferDecl {
            name,
            dtype: raw.dtype,
            count: raw.count,
            init: raw.init,
        })
    };
    map.into_iter().map(buffer).collect()
}

fn ordered_textures<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<(String, TextureDecl)>, D::Error> {
    let map = Map::deserialize(deserializer)?;
    let texture = |(name, value): (String, Value)| {
        let decl = serde_json::from_value(value).map_err(|err| {
            serde::de::Error::custom(format!("texture `{}`: {err}", escape(&name)))
        })?;
        Ok((name, decl))
    };
    map.into_iter().map(texture).collect()
}

/// One to three dimensions; the rest is 1.
fn dims<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u32; 3], D::Error> {
    let given = Vec::<u32>::deserialize(deserializer)?;
    if given.is_empty() || given.len() > 3 {
        return Err(serde::de::Error::custom("expected one to three dimensions"));
    }
    let mut dims = [1; 3];
    dims[..given.len()].copy_from_slice(&given);
    Ok(dims)
}

fn optional_dims<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<[u32; 3]>, D::Error> {
    dims(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case() {
        let text = r#"{"name": "x", "ptx": [{"file": "x.ptx"}], "cases": [{"label": "small",
            "buffers": {"z": {"dtype": "i32", "count": 3, "init": {"kind": "arange", "start": -1, "step": 1}},
                        "a": {"dtype": "bf16", "count": 2, "init": {"kind": "fill", "value": 1.5}}},
            "launches": [{"kernel": "k", "grid": [2], "block": [32, 2, 1], "shared_bytes": 0, "args": [
                {"type": "buffer", "name": "a", "byte_offset": 2}, {"type": "f32", "value": 1}, {"type": "bytes",
                "align": 4, "hex": "00ff"}, {"type": "tensormap", "name": "m"}]}],
            "expect": [{"buffer": "z", "npy": "z.npy"}]}]}"#;
        let file: CaseFile = serde_json::from_str(text).unwrap();
        let case = file.case("small").unwrap();
        assert!(file.case("large").is_none());
        assert_eq!(case.buffers[0].name, "z");
        let bytes = |idx: usize| match case.buffers[idx].contents(&CaseDir::default()).unwrap() {
            Contents::Bytes(bytes) => bytes,
            other => panic!("{other:?}"),
        };
        assert_eq!(bytes(0)[..8], [255, 255, 255, 255, 0, 0, 0, 0]);
        assert_eq!(bytes(1), [0xc0, 0x3f, 0xc0, 0x3f]);
        assert_eq!(case.launches[0].grid, [2, 1, 1]);
        assert!(matches!(
            &case.launches[0].args[0],
            ArgDecl::Buffer { byte_offset: 2, .. }
        ));
        assert!(case.launches[0].args[1].scalar().is_some());
        assert!(case.launches[0].cluster.is_none());
        assert!(!case.names_its_files());
    }
}
