//! The formatting of the device `vprintf`: C's rules for the conversions that CUDA knows.
//!
//! Arguments lie in a buffer like the fields of a C struct: `int` and smaller in 4 bytes,
//! everything else in 8, each at a multiple of its size from the 8-byte-aligned start. What is no
//! valid conversion is printed as it stands.

/// Where arguments come from.
pub trait Source {
    /// Why memory could not be read.
    type Error;

    /// Reads from the argument buffer.
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), Self::Error>;

    /// Reads the NUL-terminated string at a generic address.
    fn string(&mut self, addr: u64) -> Result<Vec<u8>, Self::Error>;
}

/// What a call prints.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Printed {
    /// The text.
    pub text: Vec<u8>,
    /// Arguments used: what the call returns.
    pub n_args: u32,
}

/// Formats `format` with arguments from `source`.
pub fn format<S: Source>(format: &[u8], source: &mut S) -> Result<Printed, S::Error> {
    let mut args = Args {
        source,
        offset: 0,
        n_args: 0,
    };
    let mut text = Vec::new();
    let mut rest = format;
    while let Some(start) = rest.iter().position(|&byte| byte == b'%') {
        text.extend_from_slice(&rest[..start]);
        rest = &rest[start..];
        match Spec::parse(rest) {
            Some((spec, len)) => {
                spec.print(&mut args, &mut text)?;
                rest = &rest[len..];
            }
            None => {
                text.push(b'%');
                rest = &rest[1..];
            }
        }
    }
    text.extend_from_slice(rest);
    Ok(Printed {
        text,
        n_args: args.n_args,
    })
}

/// The line that a failed device assertion prints.
pub fn assert_message(
    (file, line, function): (&str, u32, &str),
    ctaid: [u32; 3],
    tid: [u32; 3],
    message: &str,
) -> String {
    let [bx, by, bz] = ctaid;
    let [tx, ty, tz] = tid;
    format!(
        "{file}:{line}: {function}: block: [{bx},{by},{bz}], thread: [{tx},{ty},{tz}] Assertion `{message}` failed."
    )
}

struct Args<'s, S> {
    source: &'s mut S,
    offset: u64,
    n_args: u32,
}

impl<S: Source> Args<'_, S> {
    /// The next argument of `size` bytes (4 or 8).
    fn next(&mut self, size: u64) -> Result<u64, S::Error> {
        self.offset = self.offset.next_multiple_of(size);
        let mut bytes = [0; 8];
        self.source.read(self.offset, &mut bytes[..size as usize])?;
        self.offset += size;
        self.n_args += 1;
        Ok(u64::from_le_bytes(bytes))
    }
}

/// A number given in the format, or by an argument.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Count {
    Fixed(usize),
    Argument,
}

/// A conversion specification.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct Spec {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: Option<Count>,
    precision: Option<Count>,
    /// Bytes of an integer operand.
    size: u8,
    conversion: u8,
}

/// Longest padding and precision: far more than anything printed on purpose.
const LONGEST: usize = 4096;

impl Spec {
    /// Parses the specification at the start of `text`, which begins with a percent sign; also its
    /// length.
    fn parse(text: &[u8]) -> Option<(Spec, usize)> {
        let mut spec = Spec {
            left: false,
            plus: false,
            space: false,
            alternate: false,
            zero: false,
            width: None,
            precision: None,
            size: 4,
            conversion: b'%',
        };
        let mut at = 1;
        while let Some(flag) = text.get(at).and_then(|&byte| spec.flag(byte)) {
            *flag = true;
            at += 1;
        }
        spec.width = count(text, &mut at);
        if text.get(at) == Some(&b'.') {
            at += 1;
            spec.precision = Some(count(text, &mut at).unwrap_or(Count::Fixed(0)));
        }
        let (size, len) = match text.get(at..).unwrap_or(&[]) {
            [b'h', b'h', ..] => (1, 2),
            [b'h', ..] => (2, 1),
            [b'l', b'l', ..] => (8, 2),
            [b'l' | b'L' | b'j' | b'z' | b't' | b'q', ..] => (8, 1),
            _ => (4, 0),
        };
        spec.size = size;
        at += len;
        spec.conversion = *text.get(at)?;
        b"diouxXcspeEfFgGaA%"
            .contains(&spec.conversion)
            .then_some((spec, at + 1))
    }

    fn flag(&mut self, byte: u8) -> Option<&mut bool> {
        match byte {
            b'-' => Some(&mut self.left),
            b'+' => Some(&mut self.plus),
            b' ' => Some(&mut self.space),
            b'#' => Some(&mut self.alternate),
            b'0' => Some(&mut self.zero),
            _ => None,
        }
    }

    fn print<S: Source>(
        mut self,
        args: &mut Args<'_, S>,
        text: &mut Vec<u8>,
    ) -> Result<(), S::Error> {
        if self.conversion == b'%' {
            text.push(b'%');
            return Ok(());
        }
        let mut width = 0;
        match self.width {
            Some(Count::Fixed(n)) => width = n,
            Some(Count::Argument) => {
                let n = args.next(4)? as i32;
                // A negative width is a minus flag.
                self.left |= n < 0;
                width = n.unsigned_abs() as usize;
            }
            None => {}
        }
        let precision = match self.precision {
            Some(Count::Fixed(n)) => Some(n.min(LONGEST)),
            // A negative precision is none.
            Some(Count::Argument) => usize::try_from(args.next(4)? as i32)
                .ok()
                .map(|n| n.min(LONGEST)),
            None => None,
        };
        let field = self.field(args, precision)?;
        field.pad(&self, width.min(LONGEST), text);
        Ok(())
    }

    fn field<S: Source>(
        &self,
        args: &mut Args<'_, S>,
        precision: Option<usize>,
    ) -> Result<Field, S::Error> {
        Ok(match self.conversion {
            b'd' | b'i' | b'o' | b'u' | b'x' | b'X' => {
                let bits = args.next(if self.size == 8 { 8 } else { 4 })?;
                self.integer(bits, precision)
            }
            b'c' => Field::text(vec![args.next(4)? as u8]),
            b's' => {
                let addr = args.next(8)?;
                let mut text = if addr == 0 {
                    b"(null)".to_vec()
                } else {
                    args.source.string(addr)?
                };
                text.truncate(precision.unwrap_or(usize::MAX));
                Field::text(text)
            }
            b'p' => match args.next(8)? {
                0 => Field::text(b"(nil)".to_vec()),
                addr => Field::text(format!("{addr:#x}").into_bytes()),
            },
            _ => self.float(f64::from_bits(args.next(8)?), precision),
        })
    }

    fn integer(&self, bits: u64, precision: Option<usize>) -> Field {
        let unused = 64 - 8 * u32::from(self.size);
        let unsigned = bits << unused >> unused;
        let signed = (bits << unused) as i64 >> unused;
        let (sign, digits) = match self.conversion {
            b'd' | b'i' => (self.sign(signed < 0), signed.unsigned_abs().to_string()),
            b'o' => ("", format!("{unsigned:o}")),
            b'x' => (
                if self.alternate && unsigned != 0 {
                    "0x"
                } else {
                    ""
                },
                format!("{unsigned:x}"),
            ),
            b'X' => (
                if self.alternate && unsigned != 0 {
                    "0X"
                } else {
                    ""
                },
                format!("{unsigned:X}"),
            ),
            _ => ("", unsigned.to_string()),
        };
        // Zero with precision zero has no digits.
        let mut digits = if precision == Some(0) && unsigned == 0 {
            String::new()
        } else {
            digits
        };
        let missing = precision.unwrap_or(1).saturating_sub(digits.len());
        digits.insert_str(0, &"0".repeat(missing));
        if self.conversion == b'o' && self.alternate && !digits.starts_with('0') {
            digits.insert(0, '0');
        }
        Field {
            sign: sign.into(),
            body: digits.into_bytes(),
            zero_pads: precision.is_none(),
        }
    }

    fn sign(&self, negative: bool) -> &'static str {
        match (negative, self.plus, self.space) {
            (true, _, _) => "-",
            (false, true, _) => "+",
            (false, false, true) => " ",
            (false, false, false) => "",
        }
    }

    fn float(&self, x: f64, precision: Option<usize>) -> Field {
        let sign = self.sign(x.is_sign_negative());
        let upper = self.conversion.is_ascii_uppercase();
        let x = x.abs();
        let finite = x.is_finite();
        let (prefix, body) = match self.conversion.to_ascii_lowercase() {
            _ if x.is_nan() => ("", "nan".to_owned()),
            _ if !finite => ("", "inf".to_owned()),
            b'e' => ("", self.scientific(x, precision.unwrap_or(6))),
            b'f' => (
                "",
                self.with_point(format!("{x:.*}", precision.unwrap_or(6))),
            ),
            b'g' => ("", self.general(x, precision.unwrap_or(6))),
            _ => ("0x", self.hexadecimal(x, precision)),
        };
        let (mut sign, mut body) = (format!("{sign}{prefix}"), body);
        if upper {
            sign.make_ascii_uppercase();
            body.make_ascii_uppercase();
        }
        Field {
            sign,
            body: body.into_bytes(),
            zero_pads: finite,
        }
    }

    /// `#` keeps the point of a number without fraction.
    fn with_point(&self, mut digits: String) -> String {
        if self.alternate && !digits.contains('.') {
            digits.push('.');
        }
        digits
    }

    fn scientific(&self, x: f64, precision: usize) -> String {
        let text = format!("{x:.precision$e}");
        let (mantissa, exp) = text.split_once('e').unwrap_or((&text, "0"));
        let exp: i32 = exp.parse().unwrap_or(0);
        format!(
            "{}e{}{:02}",
            self.with_point(mantissa.to_owned()),
            if exp < 0 { '-' } else { '+' },
            exp.abs()
        )
    }

    /// `%g`: `%e` or `%f`, whichever suits, without trailing zeros.
    fn general(&self, x: f64, precision: usize) -> String {
        let precision = precision.max(1);
        let text = format!("{x:.*e}", precision - 1);
        let exp: i32 = text
            .split_once('e')
            .and_then(|(_, exp)| exp.parse().ok())
            .unwrap_or(0);
        let scientific = exp < -4 || exp >= precision as i32;
        let text = if scientific {
            self.scientific(x, precision - 1)
        } else {
            let digits = (precision as i32 - 1 - exp).max(0) as usize;
            self.with_point(format!("{x:.digits$}"))
        };
        if self.alternate {
            return text;
        }
        let (mantissa, exp) = text
            .find('e')
            .map_or((text.as_str(), ""), |at| text.split_at(at));
        let mantissa = if mantissa.contains('.') {
            mantissa.trim_end_matches('0').trim_end_matches('.')
        } else {
            mantissa
        };
        format!("{mantissa}{exp}")
    }

    /// `%a`, after the `0x`.
    fn hexadecimal(&self, x: f64, precision: Option<usize>) -> String {
        const MAN_BITS: usize = 52;
        let bits = x.to_bits();
        let (field, man) = (bits >> MAN_BITS, bits & ((1 << MAN_BITS) - 1));
        let (mut sig, exp) = match field {
            0 if man == 0 => (0, 0),
            0 => (man, -1022),
            _ => (man | 1 << MAN_BITS, field as i64 - 1023),
        };
        let digits = precision.unwrap_or(13);
        if digits < 13 {
            // Round to nearest even at the last digit that is shown.
            let drop = 4 * (13 - digits);
            let (half, rest) = (1u64 << (drop - 1), sig & ((1 << drop) - 1));
            sig >>= drop;
            sig += u64::from(rest > half || (rest == half && sig & 1 != 0));
            sig <<= drop;
        }
        let fraction = format!("{:013x}", sig & ((1 << MAN_BITS) - 1));
        let fraction = match precision {
            None => fraction.trim_end_matches('0').to_owned(),
            Some(n) => format!("{fraction:0<n$}")[..n].to_owned(),
        };
        let point = if fraction.is_empty() { "" } else { "." };
        format!(
            "{}p{exp:+}",
            self.with_point(format!("{}{point}{fraction}", sig >> MAN_BITS))
        )
    }
}

/// `*` or a decimal number.
fn count(text: &[u8], at: &mut usize) -> Option<Count> {
    if text.get(*at) == Some(&b'*') {
        *at += 1;
        return Some(Count::Argument);
    }
    let mut number = None;
    while let Some(digit) = text.get(*at).filter(|byte| byte.is_ascii_digit()) {
        let value: usize = number.unwrap_or(0);
        number = Some(
            value
                .saturating_mul(10)
                .saturating_add(usize::from(digit - b'0')),
        );
        *at += 1;
    }
    number.map(Count::Fixed)
}

/// A converted argument before padding.
struct Field {
    /// Sign or prefix, before padding zeros.
    sign: String,
    body: Vec<u8>,
    /// Whether the `0` flag applies.
    zero_pads: bool,
}

impl Field {
    fn text(body: Vec<u8>) -> Field {
        Field {
            sign: String::new(),
            body,
            zero_pads: false,
        }
    }

    fn pad(&self, spec: &Spec, width: usize, text: &mut Vec<u8>) {
        let missing = width.saturating_sub(self.sign.len() + self.body.len());
        let fill = |byte| std::iter::repeat_n(byte, missing);
        let zeros = spec.zero && self.zero_pads && !spec.left;
        if !spec.left && !zeros {
            text.extend(fill(b' '));
        }
        text.extend_from_slice(self.sign.as_bytes());
        if zeros {
            text.extend(fill(b'0'));
        }
        text.extend_from_slice(&self.body);
        if spec.left {
            text.extend(fill(b' '));
        }
    }
}
