//! Formatting. Expected texts are those that glibc's `printf` prints for the same arguments.

use crate::printf::{Source, format};

/// Arguments in a buffer as the compiler lays them out.
#[derive(Default)]
struct Buffer(Vec<u8>);

impl Buffer {
    fn int(mut self, value: i32) -> Buffer {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn long(mut self, bits: u64) -> Buffer {
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        self.0.extend(bits.to_le_bytes());
        self
    }

    fn double(self, value: f64) -> Buffer {
        self.long(value.to_bits())
    }
}

impl Source for Buffer {
    type Error = String;

    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), String> {
        let start = offset as usize;
        let source = self
            .0
            .get(start..start + bytes.len())
            .ok_or("past the arguments")?;
        bytes.copy_from_slice(source);
        Ok(())
    }

    fn string(&mut self, addr: u64) -> Result<Vec<u8>, String> {
        Ok(format!("text{addr}").into_bytes())
    }
}

fn check(text: &str, mut args: Buffer, want: &str) {
    let printed = format(text.as_bytes(), &mut args).unwrap();
    assert_eq!(String::from_utf8(printed.text).unwrap(), want, "{text}");
}

fn args() -> Buffer {
    Buffer::default()
}

#[test]
fn integers() {
    check("%d %i %u", args().int(-5).int(7).int(-1), "-5 7 4294967295");
    check(
        "[%5d|%-5d|%05d|%+d|% d]",
        args().int(42).int(42).int(42).int(42).int(42),
        "[   42|42   |00042|+42| 42]",
    );
    check(
        "[%.3d|%6.3d|%-6.3d|%06.3d]",
        args().int(-7).int(-7).int(-7).int(-7),
        "[-007|  -007|-007  |  -007]",
    );
    check(
        "%x %X %#x %#o %o",
        args().int(255).int(255).int(255).int(8).int(8),
        "ff FF 0xff 010 10",
    );
    check(
        "[%#010x] [%#x] [%.0d]",
        args().int(255).int(0).int(0),
        "[0x000000ff] [0] []",
    );
    check(
        "%hd %hhu %hhd",
        args().int(0x1_ffff).int(0x1ff).int(0x80),
        "-1 255 -128",
    );
    check(
        "%lld %lu %zx",
        args().long(u64::MAX).long(u64::MAX).long(16),
        "-1 18446744073709551615 10",
    );
    // An int leaves a gap before a long.
    check("%d %ld %d", args().int(1).long(2).int(3), "1 2 3");
}

#[test]
fn characters_strings_and_pointers() {
    check(
        "%c%c|%3c|%-3c|",
        args().int(72).int(105).int(33).int(33),
        "Hi|  !|!  |",
    );
    check(
        "%s|%8s|%-8s|%.2s",
        args().long(1).long(2).long(3).long(4),
        "text1|   text2|text3   |te",
    );
    check(
        "%s %p %p",
        args().long(0).long(0xdead_beef).long(0),
        "(null) 0xdeadbeef (nil)",
    );
    check("100%% %d%", args().int(1), "100% 1%");
    check("%y %", args(), "%y %");
}

#[test]
fn stars() {
    check(
        "[%*d][%-*d][%*d]",
        args().int(4).int(7).int(4).int(7).int(-4).int(7),
        "[   7][7   ][7   ]",
    );
    check(
        "[%.*f][%.*f]",
        args().int(2).double(1.0).int(-1).double(1.0),
        "[1.00][1.000000]",
    );
}

#[test]
fn fixed_and_scientific() {
    check(
        "%f %.0f %#.0f %.3f",
        args().double(1.5).double(2.5).double(2.5).double(-0.0005),
        "1.500000 2 2. -0.001",
    );
    check(
        "%e %.2E %.0e",
        args().double(12345.678).double(0.000123).double(5.0),
        "1.234568e+04 1.23E-04 5e+00",
    );
    check("%e", args().double(1e-300), "1.000000e-300");
    check(
        "[%10.2f][%-10.2f][%010.2f][%+.1f]",
        args().double(-2.75).double(2.75).double(-2.75).double(2.0),
        "[     -2.75][2.75      ][-000002.75][+2.0]",
    );
    check(
        "%f %F %e %5.1f|%05f",
        args()
            .double(f64::INFINITY)
            .double(f64::NEG_INFINITY)
            .double(f64::NAN)
            .double(f64::INFINITY)
            .double(f64::INFINITY),
        "inf -INF nan   inf|  inf",
    );
}

#[test]
fn general() {
    check(
        "%g %g %g %g",
        args()
            .double(100000.0)
            .double(1000000.0)
            .double(0.0001)
            .double(0.00001),
        "100000 1e+06 0.0001 1e-05",
    );
    check(
        "%g %.3g %#g %G",
        args().double(0.5).double(1234.5).double(1.0).double(1e-10),
        "0.5 1.23e+03 1.00000 1E-10",
    );
    check(
        "%g %g %.10g",
        args().double(0.0).double(-0.0).double(1.0 / 3.0),
        "0 -0 0.3333333333",
    );
    check(
        "%.0g %.3g",
        args().double(15.0).double(999.9),
        "2e+01 1e+03",
    );
}

#[test]
fn hexadecimal_floats() {
    check(
        "%a %a %A",
        args().double(1.0).double(-0.5).double(10.0),
        "0x1p+0 -0x1p-1 0X1.4P+3",
    );
    check(
        "%.1a %.0a %.3a",
        args().double(1.96875).double(1.5).double(1.0),
        "0x2.0p+0 0x2p+0 0x1.000p+0",
    );
    check(
        "%a %a",
        args().double(0.0).double(5e-324),
        "0x0p+0 0x0.0000000000001p-1022",
    );
}

#[test]
fn counts_arguments_and_passes_errors_on() {
    let printed = format(
        b"%d %s %5.*f %%",
        &mut args().int(1).long(2).int(1).double(3.0),
    )
    .unwrap();
    assert_eq!(printed.n_args, 4);
    assert!(format(b"%d", &mut args()).is_err());
    assert_eq!(format(b"", &mut args()).unwrap(), Default::default());
}
