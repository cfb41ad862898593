//! Tensor maps in case files and on the command line.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail, ensure};
use ptxjit::{ElementType, TensorMap, TensorMapBuilder, escape};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::paths::shown;

/// The fields of a map, and the memory that it describes: a buffer of the case, or of the command
/// line an argument or data of its own. Numbers are checked when the map is made, which names their
/// fields.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MapDecl {
    #[serde(default)]
    mode: Mode,
    pub buffer: Option<String>,
    pub arg: Option<usize>,
    pub data: Option<String>,
    #[serde(default)]
    byte_offset: i64,
    dtype: String,
    dims: Vec<i64>,
    #[serde(default)]
    strides_bytes: Vec<i64>,
    r#box: Option<Vec<i64>>,
    element_strides: Option<Vec<i64>>,
    interleave: Option<String>,
    swizzle: Option<String>,
    l2_promotion: Option<String>,
    oob_fill: Option<String>,
    lower: Option<Vec<i64>>,
    upper: Option<Vec<i64>>,
    channels_per_pixel: Option<i64>,
    pixels_per_column: Option<i64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    #[default]
    Tiled,
    Im2col,
    Im2colWide,
}

/// A map as an argument of the command line: its JSON text, or a file that holds it.
#[derive(Clone, Debug, PartialEq)]
pub enum MapSource {
    Fields(Box<MapDecl>),
    File(PathBuf),
}

impl MapSource {
    pub fn parse(text: &str) -> Result<MapSource> {
        match text.strip_prefix('@') {
            Some(path) => Ok(MapSource::File(path.into())),
            None => {
                // Who parses arguments shows the outermost error alone.
                let fields = serde_json::from_str(text)
                    .map_err(|err| anyhow!("not the fields of a tensor map: {err}"))?;
                Ok(MapSource::Fields(Box::new(fields)))
            }
        }
    }

    pub fn read(&self) -> Result<MapDecl> {
        match self {
            MapSource::Fields(decl) => Ok(MapDecl::clone(decl)),
            MapSource::File(path) => {
                let context = || format!("cannot read {}", shown(path));
                let text = std::fs::read_to_string(path).with_context(context)?;
                let context = || format!("{} is no tensor map", shown(path));
                serde_json::from_str(&text).with_context(context)
            }
        }
    }
}

/// A map of a case as an argument: a name, or the fields themselves.
#[derive(Debug)]
pub enum MapArg {
    Named(String),
    Fields(Box<MapDecl>),
}

impl MapArg {
    pub fn parse(fields: &Map<String, Value>) -> Result<MapArg> {
        let Some(name) = fields.get("name") else {
            let decl = serde_json::from_value(Value::Object(fields.clone()));
            return Ok(MapArg::Fields(Box::new(
                decl.context("a tensor map argument")?,
            )));
        };
        let only = fields.len() == 1;
        match name {
            Value::String(name) if only => Ok(MapArg::Named(name.clone())),
            Value::String(_) => bail!("a tensor map argument has a `name` or fields, not both"),
            _ => bail!("the `name` of a tensor map argument is no string"),
        }
    }
}

/// A map to make, and the buffer that it describes.
#[derive(Debug)]
pub struct PlanMap {
    /// What to call it.
    pub name: String,
    pub decl: MapDecl,
    pub buffer: usize,
}

impl PlanMap {
    /// The map, of a buffer at an address.
    pub fn encode(&self, address: u64) -> Result<TensorMap> {
        let map = self.decl.encode(address);
        map.with_context(|| format!("tensor map `{}`", escape(&self.name)))
    }
}

impl MapDecl {
    /// The map, of a buffer at an address.
    pub fn encode(&self, address: u64) -> Result<TensorMap> {
        Ok(self.builder(address)?.encode()?)
    }

    fn builder(&self, address: u64) -> Result<TensorMapBuilder> {
        let dtype = ElementType::from_name(&self.dtype)
            .ok_or_else(|| anyhow!("`dtype` has no value `{}`", escape(&self.dtype)))?;
        let address = address.wrapping_add_signed(self.byte_offset);
        let dims = numbers("dims", &self.dims)?;
        let strides = numbers("strides_bytes", &self.strides_bytes)?;
        self.check_mode()?;
        let mut map = match self.mode {
            Mode::Tiled => {
                let sides = numbers("box", needed("box", &self.r#box)?)?;
                TensorMap::tiled(address, dtype, &dims, &strides, &sides)
            }
            Mode::Im2col => {
                let lower: Vec<i32> = numbers("lower", needed("lower", &self.lower)?)?;
                let upper: Vec<i32> = numbers("upper", needed("upper", &self.upper)?)?;
                let [channels, pixels] = self.pixels()?;
                TensorMap::im2col(
                    address, dtype, &dims, &strides, &lower, &upper, channels, pixels,
                )
            }
            Mode::Im2colWide => {
                let lower = one("lower", needed("lower", &self.lower)?)?;
                let upper = one("upper", needed("upper", &self.upper)?)?;
                let [channels, pixels] = self.pixels()?;
                TensorMap::im2col_wide(
                    address, dtype, &dims, &strides, lower, upper, channels, pixels,
                )
            }
        };
        if let Some(steps) = &self.element_strides {
            map = map.element_strides(&numbers("element_strides", steps)?);
        }
        let names = [
            &self.interleave,
            &self.swizzle,
            &self.l2_promotion,
            &self.oob_fill,
        ];
        let [interleave, swizzle, l2_promotion, oob_fill] =
            names.map(|name| name.as_deref().unwrap_or("none"));
        Ok(map
            .interleave(interleave)
            .swizzle(swizzle)
            .l2_promotion(l2_promotion)
            .oob_fill(oob_fill))
    }

    /// Fields of another mode are wrong, not ignored.
    fn check_mode(&self) -> Result<()> {
        let of_pixels = [
            ("lower", self.lower.is_some()),
            ("upper", self.upper.is_some()),
            ("channels_per_pixel", self.channels_per_pixel.is_some()),
            ("pixels_per_column", self.pixels_per_column.is_some()),
        ];
        let of_boxes = [("box", self.r#box.is_some())];
        let others = match self.mode {
            Mode::Tiled => &of_pixels[..],
            Mode::Im2col | Mode::Im2colWide => &of_boxes[..],
        };
        match others.iter().find(|(_, is_there)| *is_there) {
            Some((field, _)) => bail!("`{field}` belongs to another mode"),
            None => Ok(()),
        }
    }

    fn pixels(&self) -> Result<[u32; 2]> {
        let channels = needed("channels_per_pixel", &self.channels_per_pixel)?;
        let pixels = needed("pixels_per_column", &self.pixels_per_column)?;
        Ok([
            number("channels_per_pixel", *channels)?,
            number("pixels_per_column", *pixels)?,
        ])
    }
}

fn needed<'a, T>(field: &str, value: &'a Option<T>) -> Result<&'a T> {
    value
        .as_ref()
        .ok_or_else(|| anyhow!("`{field}` is missing"))
}

pub(crate) fn numbers<T: TryFrom<i64>>(field: &str, values: &[i64]) -> Result<Vec<T>> {
    values.iter().map(|&value| number(field, value)).collect()
}

pub(crate) fn number<T: TryFrom<i64>>(field: &str, value: i64) -> Result<T> {
    T::try_from(value).map_err(|_| anyhow!("`{field}` is {value}, which is out of range"))
}

fn one(field: &str, values: &[i64]) -> Result<i32> {
    let &[value] = values else {
        bail!(
            "`{field}` has {} numbers: in the wide mode it has one",
            values.len()
        );
    };
    number(field, value)
}

/// Exactly one of the fields says what memory a map describes.
pub fn check_memory(decl: &MapDecl, on_command_line: bool) -> Result<()> {
    let is_right = match on_command_line {
        true => decl.buffer.is_none() && decl.arg.is_some() != decl.data.is_some(),
        false => decl.buffer.is_some() && decl.arg.is_none() && decl.data.is_none(),
    };
    let what = match on_command_line {
        true => "a tensor map on the command line has `arg` or `data`",
        false => "a tensor map of a case has a `buffer`",
    };
    ensure!(is_right, "{what}");
    Ok(())
}
