//! Buffers as pictures: PNG files for eyes, not for programs.
//!
//! `u8` buffers are grey, or RGB or RGBA with three or four elements per pixel, as they are.
//! Elements of other types, one per pixel, go through a colour map from dark violet (the least)
//! over green to yellow (the greatest): floats in proportion to their value, integers to its
//! logarithm. Counts, such as the iterations of a Mandelbrot set, have most of their detail among
//! small numbers.

use std::io::Write;
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use png::{BitDepth, ColorType, Encoder};

use crate::dtype::{DType, Number};

/// Width and height in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub width: u32,
    pub height: u32,
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let number = |text: &str| {
            let is_decimal = text.bytes().all(|c| c.is_ascii_digit());
            // PNG's own limit.
            let size = text.parse().ok().filter(|size| (1..1 << 31).contains(size));
            size.filter(|_| is_decimal)
        };
        let size = text.split_once('x').and_then(|(width, height)| {
            Some(Size {
                width: number(width)?,
                height: number(height)?,
            })
        });
        size.ok_or_else(|| format!("`{text}` is not a size WIDTHxHEIGHT of a picture"))
    }
}

/// How elements become pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// The bytes are the pixels.
    Plain(ColorType),
    /// Each element has a colour.
    Mapped,
}

fn form(dtype: DType, count: usize, size: Size) -> Result<Form> {
    let pixels = u128::from(size.width) * u128::from(size.height);
    let per_pixel = [1, 3, 4].into_iter().find(|n| pixels * n == count as u128);
    match (dtype, per_pixel) {
        (DType::U8, Some(1)) => Ok(Form::Plain(ColorType::Grayscale)),
        (DType::U8, Some(3)) => Ok(Form::Plain(ColorType::Rgb)),
        (DType::U8, Some(4)) => Ok(Form::Plain(ColorType::Rgba)),
        (_, Some(1)) => Ok(Form::Mapped),
        _ => bail!(
            "{count} elements of type {dtype} are no picture of {}x{}: it takes {pixels} of any type, or 3 or 4 times as many u8",
            size.width,
            size.height
        ),
    }
}

/// Checks that so many elements fill a picture of this size.
pub fn check(dtype: DType, count: usize, size: Size) -> Result<()> {
    form(dtype, count, size).map(|_| ())
}

/// Calls its argument with the bytes of a buffer in pieces of whole elements.
pub type Pieces<'a> = dyn Fn(&mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> + 'a;

/// Writes a buffer as a picture.
pub fn write(
    file: &mut dyn Write,
    dtype: DType,
    count: usize,
    size: Size,
    pieces: &Pieces<'_>,
) -> Result<()> {
    let form = form(dtype, count, size)?;
    let mut encoder = Encoder::new(file, size.width, size.height);
    encoder.set_depth(BitDepth::Eight);
    let range = match form {
        Form::Plain(color) => {
            encoder.set_color(color);
            None
        }
        Form::Mapped => {
            encoder.set_color(ColorType::Indexed);
            encoder.set_palette(palette());
            Some(Range::of(dtype, pieces)?)
        }
    };
    let mut writer = encoder.write_header().context("the picture")?;
    let mut stream = writer.stream_writer()?;
    pieces(&mut |bytes| {
        let Some(range) = range else {
            return Ok(stream.write_all(bytes)?);
        };
        let pixels: Vec<u8> = bytes
            .chunks_exact(dtype.size())
            .map(|element| range.index(dtype.decode(element)))
            .collect();
        Ok(stream.write_all(&pixels)?)
    })?;
    stream.finish()?;
    Ok(writer.finish()?)
}

/// Steps between the colours of the least and the greatest element.
const STEPS: u8 = 254;

/// The colour of what is not a number.
const NAN_INDEX: u8 = STEPS + 1;

/// Between these, colours are mixed: dark violet, blue, teal, green, yellow, which are the brighter
/// the greater, and can be told from each other without seeing red.
const ANCHORS: [[u8; 3]; 5] = [
    [0x44, 0x01, 0x54],
    [0x3b, 0x52, 0x8b],
    [0x21, 0x91, 0x8c],
    [0x5e, 0xc9, 0x62],
    [0xfd, 0xe7, 0x25],
];

/// The colours of all indices; black is what is not a number.
fn palette() -> Vec<u8> {
    let mut colors = Vec::new();
    for step in 0..=STEPS {
        let place = f64::from(step) / f64::from(STEPS) * (ANCHORS.len() - 1) as f64;
        let from = (place as usize).min(ANCHORS.len() - 2);
        let share = place - from as f64;
        for (&a, &b) in ANCHORS[from].iter().zip(&ANCHORS[from + 1]) {
            let mixed = f64::from(a) + (f64::from(b) - f64::from(a)) * share;
            colors.push(mixed.round() as u8);
        }
    }
    colors.extend([0; 3]);
    colors
}

/// Least and greatest finite element.
#[derive(Clone, Copy, Debug)]
struct Range {
    least: f64,
    greatest: f64,
}

impl Range {
    fn of(dtype: DType, pieces: &Pieces<'_>) -> Result<Range> {
        let mut range = Range {
            least: f64::INFINITY,
            greatest: f64::NEG_INFINITY,
        };
        pieces(&mut |bytes| {
            let values = bytes.chunks_exact(dtype.size());
            let values = values.map(|element| dtype.decode(element).as_f64());
            for value in values.filter(|value| value.is_finite()) {
                range.least = range.least.min(value);
                range.greatest = range.greatest.max(value);
            }
            Ok(())
        })?;
        Ok(range)
    }

    /// Infinities have the colours of the ends.
    fn index(self, element: Number) -> u8 {
        let value = element.as_f64();
        if value.is_nan() {
            return NAN_INDEX;
        }
        // Halves, because the difference of two numbers can be more than any number.
        let part = |value: f64| value / 2.0 - self.least / 2.0;
        let (above, all) = (
            part(value.clamp(self.least, self.greatest.max(self.least))),
            part(self.greatest),
        );
        let share = match element {
            // Nothing to tell apart, or only infinities.
            _ if all.is_nan() || all <= 0.0 => 0.0,
            Number::Int(_) => (2.0 * above).ln_1p() / (2.0 * all).ln_1p(),
            Number::Float(_) => above / all,
        };
        (share * f64::from(STEPS)).round() as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(dtype: DType, size: Size, bytes: &[u8]) -> Vec<u8> {
        let mut file = Vec::new();
        let count = bytes.len() / dtype.size();
        // In pieces that end within rows.
        let pieces = |take: &mut dyn FnMut(&[u8]) -> Result<()>| {
            bytes.chunks(dtype.size() * 2).try_for_each(take)
        };
        write(&mut file, dtype, count, size, &pieces).unwrap();
        file
    }

    /// Colour type and pixels as a reader shows them.
    fn decoded(file: &[u8]) -> (ColorType, Vec<u8>) {
        let mut decoder = png::Decoder::new(std::io::Cursor::new(file));
        decoder.set_transformations(png::Transformations::EXPAND);
        let mut reader = decoder.read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        pixels.truncate(info.buffer_size());
        (info.color_type, pixels)
    }

    const SIZE: Size = Size {
        width: 3,
        height: 2,
    };

    #[test]
    fn bytes_as_they_are() {
        for (per_pixel, color) in [
            (1, ColorType::Grayscale),
            (3, ColorType::Rgb),
            (4, ColorType::Rgba),
        ] {
            let bytes: Vec<u8> = (0..6 * per_pixel).map(|n| n * 10).collect();
            assert_eq!(decoded(&encoded(DType::U8, SIZE, &bytes)), (color, bytes));
        }
    }

    #[test]
    fn floats_in_proportion() {
        // A quarter of the range is the second of five colours; infinities are at the ends, and NaN
        // is black.
        let values = [
            -1.0f32,
            0.0,
            3.0,
            f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
        ];
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let (color, pixels) = decoded(&encoded(DType::F32, SIZE, &bytes));
        assert_eq!(color, ColorType::Rgb);
        let pixels: Vec<&[u8]> = pixels.chunks(3).collect();
        assert_eq!(pixels[0], [0x44, 0x01, 0x54]);
        // 63.5 of 254 steps is rounded to 64: 1.0079 anchors, so 1/127 of the way from the second
        // to the third.
        assert_eq!(pixels[1], [0x3b, 0x52, 0x8b]);
        assert_eq!(pixels[2], [0xfd, 0xe7, 0x25]);
        assert_eq!(
            pixels[3..],
            [&[0, 0, 0][..], &[0xfd, 0xe7, 0x25], &[0x44, 0x01, 0x54]]
        );
    }

    #[test]
    fn integers_by_their_logarithm() {
        // 2 is the least, 257 = 2 + 255 the greatest: 2 + 15 is half of the way, since (1 + 15)^2 =
        // 1 + 255.
        let bytes: Vec<u8> = [2u16, 17, 257, 2, 17, 257]
            .iter()
            .flat_map(|x| x.to_le_bytes())
            .collect();
        let (_, pixels) = decoded(&encoded(DType::U16, SIZE, &bytes));
        let row = [[0x44, 0x01, 0x54], [0x21, 0x91, 0x8c], [0xfd, 0xe7, 0x25]].concat();
        assert_eq!(pixels, [&row[..], &row].concat());
    }

    #[test]
    fn extremes_have_colours() {
        for value in [i64::MIN, 0, i64::MAX] {
            let bytes: Vec<u8> = [value; 6].iter().flat_map(|x| x.to_le_bytes()).collect();
            assert_eq!(
                decoded(&encoded(DType::I64, SIZE, &bytes)).1,
                [0x44, 0x01, 0x54].repeat(6)
            );
        }
        let values = [f64::MIN, f64::MAX, 0.0, f64::NAN, f64::MIN, f64::MAX];
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let pixels = decoded(&encoded(DType::F64, SIZE, &bytes)).1;
        assert_eq!(
            pixels[..9],
            [0x44, 0x01, 0x54, 0xfd, 0xe7, 0x25, 0x21, 0x91, 0x8c]
        );
        let bytes = [f64::NAN; 6].map(f64::to_le_bytes).concat();
        assert_eq!(decoded(&encoded(DType::F64, SIZE, &bytes)).1, [0; 18]);
        let bytes = [f64::INFINITY; 6].map(f64::to_le_bytes).concat();
        assert_eq!(decoded(&encoded(DType::F64, SIZE, &bytes)).1.len(), 18);
    }

    #[test]
    fn refusals() {
        for (dtype, count) in [
            (DType::U8, 5),
            (DType::U8, 12),
            (DType::F32, 18),
            (DType::F32, 0),
        ] {
            assert!(check(dtype, count, SIZE).is_err(), "{count} {dtype}");
        }
        for text in [
            "",
            "3",
            "3x",
            "x2",
            "0x2",
            "+3x2",
            "3x2x1",
            "3X2",
            "2147483648x1",
        ] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
        assert_eq!("3x2".parse(), Ok(SIZE));
    }
}
