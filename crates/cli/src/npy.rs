//! NumPy's file format, as far as one-dimensional and row-major data need it.
//!
//! Versions 1 to 3 are read, version 1 is written. Big-endian and Fortran-ordered arrays of several
//! dimensions are refused rather than silently misread. bfloat16 has no NumPy type: such data
//! travel as f32, see [`Array::into_dtype`].

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::dtype::DType;
use crate::npy_header::{self, Header, split};
use crate::paths::shown;

/// Elements with their type.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    pub dtype: DType,
    pub bytes: Vec<u8>,
}

impl Array {
    pub fn count(&self) -> usize {
        self.bytes.len() / self.dtype.size()
    }

    pub fn read(path: &Path) -> Result<Array> {
        let file = std::fs::read(path).with_context(|| format!("cannot read {}", shown(path)))?;
        parse(&file).with_context(|| format!("{} is not a usable NumPy file", shown(path)))
    }

    /// The same array for a buffer of type `dtype`: only f32 turns into bf16, anything else must
    /// match already.
    pub fn into_dtype(self, dtype: DType) -> Result<Array> {
        if self.dtype == DType::F32 && dtype == DType::Bf16 {
            let mut bytes = Vec::with_capacity(self.bytes.len() / 2);
            for element in self.bytes.chunks_exact(4) {
                dtype.encode_float(DType::F32.decode(element).as_f64(), &mut bytes);
            }
            return Ok(Array { dtype, bytes });
        }
        ensure!(
            is_same(self.dtype, dtype),
            "the file holds {}, the buffer {dtype}",
            self.dtype
        );
        Ok(Array { dtype, ..self })
    }
}

/// The file that holds `bytes` as a one-dimensional array of `dtype`; bf16 becomes f32.
pub fn format(dtype: DType, bytes: &[u8]) -> Vec<u8> {
    let mut file = header(dtype, bytes.len() / dtype.size());
    file.extend_from_slice(&data(dtype, bytes));
    file
}

/// Elements of `dtype` as they stand in files.
pub fn data(dtype: DType, bytes: &[u8]) -> Cow<'_, [u8]> {
    if dtype != DType::Bf16 {
        return Cow::Borrowed(bytes);
    }
    let mut wide = Vec::with_capacity(bytes.len() * 2);
    for element in bytes.chunks_exact(2) {
        DType::F32.encode_float(DType::Bf16.decode(element).as_f64(), &mut wide);
    }
    Cow::Owned(wide)
}

/// What comes before the data of a one-dimensional array.
pub fn header(dtype: DType, count: usize) -> Vec<u8> {
    let mut header = format!(
        "{{'descr': '{}', 'fortran_order': False, 'shape': ({count},), }}",
        descr(dtype)
    );
    // Magic, version and length take ten bytes; data shall start at a multiple of 64, after a line
    // feed.
    while !(10 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file
}

fn descr(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "<f8",
        DType::F32 | DType::Bf16 => "<f4",
        DType::F16 => "<f2",
        DType::I64 => "<i8",
        DType::U64 => "<u8",
        DType::I32 => "<i4",
        DType::U32 => "<u4",
        DType::I16 => "<i2",
        DType::U16 => "<u2",
        DType::I8 => "|i1",
        DType::U8 => "|u1",
    }
}

fn dtype_of(descr: &str) -> Option<DType> {
    let (order, name) = descr.split_at_checked(1)?;
    if !matches!(order, "<" | ">" | "=" | "|") {
        return None;
    }
    let dtype = match name {
        "f8" => DType::F64,
        "f4" => DType::F32,
        "f2" => DType::F16,
        "i8" => DType::I64,
        "u8" => DType::U64,
        "i4" => DType::I32,
        "u4" => DType::U32,
        "i2" => DType::I16,
        "u2" => DType::U16,
        "i1" => DType::I8,
        "u1" | "b1" => DType::U8,
        _ => return None,
    };
    let little = matches!(order, "<" | "=") || dtype.size() == 1;
    little.then_some(dtype)
}

/// Reads a whole file.
pub fn parse(file: &[u8]) -> Result<Array> {
    let (major, header, data) = split(file).ok_or_else(|| anyhow!("the header is damaged"))?;
    let header = npy_header::parse(major, header)?;
    Ok(Array {
        dtype: element_type(&header, data.len())?,
        bytes: data.to_vec(),
    })
}

/// Type, place and length of the data of a file, of which only the header is read. None for what is
/// no plain file, such as a pipe.
pub fn locate(path: &Path) -> Result<Option<(DType, u64, usize)>> {
    let context = || format!("cannot read {}", shown(path));
    let mut file = File::open(path).with_context(context)?;
    let meta = file.metadata().with_context(context)?;
    if !meta.is_file() {
        return Ok(None);
    }
    let mut head = Vec::new();
    file.by_ref()
        .take(MOST_HEADER)
        .read_to_end(&mut head)
        .with_context(context)?;
    let Some((major, header, data)) = split(&head) else {
        return Ok(None);
    };
    let start = (head.len() - data.len()) as u64;
    let len = usize::try_from(meta.len() - start).with_context(context)?;
    let dtype = npy_header::parse(major, header).and_then(|header| element_type(&header, len));
    let dtype = dtype.with_context(|| format!("{} is not a usable NumPy file", shown(path)))?;
    Ok(Some((dtype, start, len)))
}

/// Headers of simple arrays are shorter.
const MOST_HEADER: u64 = 4096;

/// Whether data of one type are data of the other as they are. The bits of a bf16 may come as u16.
pub fn is_same(file: DType, buffer: DType) -> bool {
    file == buffer || (file == DType::U16 && buffer == DType::Bf16)
}

/// Checks a header of a file with so many bytes of data.
fn element_type(header: &Header, len: usize) -> Result<DType> {
    let descr = &header.descr;
    let dtype =
        dtype_of(descr).ok_or_else(|| anyhow!("elements of type `{descr}` are not known"))?;
    if header.is_fortran && header.shape.len() > 1 {
        bail!("the array is in Fortran order; save numpy.ascontiguousarray of it");
    }
    // Like NumPy, as if no dimension were zero: an empty array must not have dimensions of any size
    // either.
    let mut dims = header.shape.iter();
    let most = dims.try_fold(dtype.size(), |size, &n| size.checked_mul(n.max(1)));
    ensure!(
        most.is_some_and(|size| isize::try_from(size).is_ok()),
        "the shape is too large"
    );
    let size = header.shape.iter().product::<usize>() * dtype.size();
    ensure!(
        size == len,
        "the shape does not fit the {len} bytes of data"
    );
    Ok(dtype)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let bytes: Vec<u8> = [1f32, -2.5, f32::INFINITY]
            .iter()
            .flat_map(|x| x.to_le_bytes())
            .collect();
        let file = format(DType::F32, &bytes);
        assert!((file.len() - bytes.len()).is_multiple_of(64));
        let array = parse(&file).unwrap();
        assert_eq!(
            array,
            Array {
                dtype: DType::F32,
                bytes
            }
        );
        assert_eq!(
            array.into_dtype(DType::Bf16).unwrap().bytes,
            [0x80, 0x3f, 0x20, 0xc0, 0x80, 0x7f]
        );
        assert_eq!(parse(&format(DType::U8, &[])).unwrap().count(), 0);
    }

    #[test]
    fn numpy_header() {
        let mut file = b"\x93NUMPY\x01\x00\x46\x00".to_vec();
        let header = "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 1), }";
        file.extend(format!("{header:<69}\n").bytes());
        file.extend([1, 0, 255, 255]);
        assert_eq!(
            parse(&file).unwrap(),
            Array {
                dtype: DType::I16,
                bytes: vec![1, 0, 255, 255]
            }
        );
    }

    #[test]
    fn damaged() {
        let good = format(DType::I32, &[0; 8]);
        for end in 0..good.len() {
            assert!(parse(&good[..end]).is_err());
        }
        let text = |from: &str, to: &str| String::from_utf8_lossy(&good[10..]).replace(from, to);
        for (from, to) in [
            ("<i4", ">i4"),
            ("<i4", "O"),
            ("(2,)", "(99999999999999999999,)"),
            ("'shape'", "'shap'"),
            ("<i4", "xi4"),
            ("<i4", "?u1"),
            ("(2,)", "(2)"),
            ("(2,)", "(0, 9223372036854775807)"),
        ] {
            let mut file = good[..10].to_vec();
            file.extend(text(from, to).bytes());
            let len = (file.len() - 10 - 8) as u16;
            file[8..10].copy_from_slice(&len.to_le_bytes());
            assert!(parse(&file).is_err(), "{to}");
        }
    }
}
