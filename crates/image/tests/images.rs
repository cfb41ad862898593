//! Images as NVIDIA's tools write them: `data/` was made with nvFatbin 12.9 (`lz4`, `zstd`,
//! `plain`, `mixed`, `cubin`,
//! `family`), ptxas 12.9 (`sm80.cubin`) and nvcc 13.3 (`nvcc13.fatbin`, `user.o`, `pair.a`).
//!
//! The first ones hold kernels `scale` that multiply by 5, 8, 9 and 10 for sm_52, sm_80, sm_90a and
//! sm_100f; the last ones a kernel `scale` and a function `helper` that it calls.

use ptxjit_image::{
    Capability, Container, EntryKind, Error, Kind, PtxModule, Purpose, Suffix, Wrapper, choose,
    elf_sm, encode, linked_len, linked_modules, modules, recognize,
};

macro_rules! data {
    ($name:literal) => {
        include_bytes!(concat!("data/", $name)).as_slice()
    };
}

fn chosen(image: &[u8], sm: u32) -> Result<String, Error> {
    let container = Container::parse(image)?;
    let text = choose(&container, Capability::from_sm(sm))?;
    Ok(String::from_utf8(text).expect("PTX is text"))
}

/// The number that the chosen kernel multiplies by.
fn factor(image: &[u8], sm: u32) -> u32 {
    let text = chosen(image, sm).unwrap_or_else(|err| panic!("sm_{sm}: {err}"));
    assert!(text.trim_start().starts_with(".version 8."), "{text}");
    assert!(
        !text.contains('\0') && text.trim_end().ends_with('}'),
        "{text}"
    );
    let (_, rest) = text
        .split_once("mul.lo.s32 %r7, %r6, ")
        .expect("the product");
    let (number, _) = rest.split_once(';').expect("its end");
    number.parse().expect("a number")
}

#[test]
fn magics() {
    let cases = [
        (data!("lz4.fatbin"), Some(Kind::Container)),
        (data!("sm80.cubin"), Some(Kind::Elf)),
        (data!("user.o"), Some(Kind::Elf)),
        (data!("pair.a"), Some(Kind::Archive)),
        (b"\xb1\x43\x62\x46\x01\0\0\0", Some(Kind::Wrapper)),
        (b"// PTX\n.version 8.0", Some(Kind::Ptx)),
        (b".version 8.0\0", Some(Kind::Ptx)),
        (b"BC\xc0\xde\x35\x14\0\0", Some(Kind::Bitcode)),
        (b"\xed\x43\x4e\x7f", Some(Kind::LtoIr)),
        (b"", None),
        (b"\0\0\0\0", None),
        (b"  \n", None),
        (b"\x01\x02\x03\x04", None),
        (b"\x7fELG", None),
    ];
    for (bytes, kind) in cases {
        assert_eq!(recognize(bytes), kind, "{:?}", &bytes[..bytes.len().min(8)]);
    }
}

#[test]
fn the_highest_target_that_runs_is_chosen() {
    for image in [data!("lz4.fatbin"), data!("zstd.fatbin")] {
        assert_eq!(factor(image, 52), 5);
        assert_eq!(factor(image, 75), 5);
        assert_eq!(factor(image, 80), 8);
        assert_eq!(factor(image, 89), 8);
        assert_eq!(factor(image, 90), 9);
        // sm_90a is for 9.0 alone.
        assert_eq!(factor(image, 100), 8);
        assert_eq!(factor(image, 120), 8);
        assert!(matches!(chosen(image, 50), Err(Error::NoPtx { .. })));
    }
    assert_eq!(factor(data!("plain.fatbin"), 80), 8);
    // Machine code is never chosen, even where it would be for the very device.
    assert_eq!(factor(data!("mixed.fatbin"), 80), 5);
    // A family is those with the same major number, from its first on.
    let family = data!("family.fatbin");
    assert_eq!((factor(family, 100), factor(family, 103)), (10, 10));
    assert!(chosen(family, 110).is_err() && chosen(family, 90).is_err());
}

#[test]
fn entries_are_described() {
    let container = Container::parse(data!("zstd.fatbin")).unwrap();
    let found = container.entries.iter();
    let found = found.map(|entry| (entry.kind, entry.sm, entry.suffix, entry.ptx_version));
    let expected = [
        (EntryKind::Ptx, 52, Suffix::None, (8, 0)),
        (EntryKind::Ptx, 80, Suffix::None, (8, 0)),
        (EntryKind::Ptx, 90, Suffix::Specific, (8, 0)),
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
    assert_eq!(container.entries[0].name, b"scale52");
    let container = Container::parse(data!("mixed.fatbin")).unwrap();
    assert_eq!(container.entries[0].kind, EntryKind::Cubin);
    let container = Container::parse(data!("nvcc13.fatbin")).unwrap();
    let found = container
        .entries
        .iter()
        .map(|entry| (entry.sm, entry.suffix));
    assert_eq!(
        found.collect::<Vec<_>>(),
        [(80, Suffix::None), (90, Suffix::Specific)]
    );
}

#[test]
fn refusals_say_what_there_is_and_what_to_do() {
    let err = chosen(data!("cubin.fatbin"), 80).unwrap_err();
    let text = err.to_string();
    assert!(err.is_no_binary());
    assert!(text.contains("machine code for sm_80"), "{text}");
    assert!(text.contains("compute capability 8.0"), "{text}");
    for remedy in [
        "-gencode arch=compute_80,code=compute_80",
        "TORCH_CUDA_ARCH_LIST=\"8.0+PTX\"",
        "--gpu-architecture=compute_80",
        "nvrtcGetPTX",
        "pip uninstall nvidia-nvjitlink-cu12",
    ] {
        assert!(text.contains(remedy), "{text}");
    }
    let text = chosen(data!("lz4.fatbin"), 50).unwrap_err().to_string();
    assert!(
        text.contains("PTX for sm_52, PTX for sm_80, PTX for sm_90a"),
        "{text}"
    );

    let get = |bytes| modules("x", bytes, Capability::from_sm(80), Purpose::Load).unwrap_err();
    assert_eq!(get(data!("sm80.cubin")), Error::Cubin { sm: 80 });
    assert!(get(data!("sm80.cubin")).to_string().contains("sm_80"));
    assert!(get(b"BC\xc0\xde").is_no_binary());
    assert!(get(b"\xed\x43\x4e\x7f").is_no_binary());
    assert_eq!(get(data!("user.o")), Error::NotAnImage);
    assert_eq!(get(b"\x01\x02"), Error::NotAnImage);
    assert!(!get(b"\x01\x02").is_no_binary());
}

#[test]
fn the_target_of_machine_code() {
    assert_eq!(elf_sm(data!("sm80.cubin")), Some(80));
    assert_eq!(elf_sm(data!("user.o")), None);
    // The first bytes of what ptxas 13.3 writes for sm_80, sm_90 and sm_121a.
    for (flags, sm) in [
        ([0x04, 0x50, 0x00, 0x06], 80),
        ([0x04, 0x5a, 0x00, 0x06], 90),
        ([0x02, 0x79, 0x00, 0x06], 121),
    ] {
        let mut header = data!("sm80.cubin")[..64].to_vec();
        header[7..9].copy_from_slice(&[0x41, 8]);
        header[48..52].copy_from_slice(&flags);
        assert_eq!(elf_sm(&header), Some(sm));
    }
    assert_eq!(elf_sm(&data!("sm80.cubin")[..40]), None);
}

#[test]
fn a_missing_version_line_comes_back() {
    let line = b".version 8.0";
    let image = data!("plain.fatbin");
    let at = image
        .windows(line.len())
        .position(|part| part == line)
        .unwrap();
    let mut stripped = image.to_vec();
    stripped[at..at + line.len()].fill(b' ');
    let (text, whole) = (chosen(&stripped, 52).unwrap(), chosen(image, 52).unwrap());
    assert!(text.starts_with(".version 8.0\n"), "{text}");
    // All lines keep their numbers.
    let target = |text: &str| text.lines().position(|line| line.starts_with(".target"));
    assert_eq!(target(&text), target(&whole));
}

#[test]
fn objects_and_libraries_are_linked() {
    let get = |bytes| modules("x", bytes, Capability::from_sm(80), Purpose::Link);
    let object = get(data!("user.o")).unwrap();
    let [module] = object.as_slice() else {
        panic!("{object:?}")
    };
    assert_eq!(module.name, "x");
    let text = String::from_utf8_lossy(&module.text);
    assert!(
        text.contains(".entry scale(") && text.contains(".extern .func"),
        "{text}"
    );
    let library = get(data!("pair.a")).unwrap();
    let texts = library
        .iter()
        .map(|module| String::from_utf8_lossy(&module.text));
    let texts: Vec<_> = texts.collect();
    assert_eq!(texts.len(), 2);
    assert_eq!(texts[0], text);
    assert!(texts[1].contains(".visible .func"), "{}", texts[1]);
    assert_ne!(library[0].name, library[1].name);
    // Two containers one behind the other, with padding, as `ld -r` leaves them.
    let both = [data!("lz4.fatbin"), &[0; 24], data!("zstd.fatbin"), &[0; 8]].concat();
    assert_eq!(get(&both).unwrap().len(), 2);
    assert!(matches!(
        modules("x", data!("user.o"), Capability::from_sm(75), Purpose::Link),
        Err(Error::NoPtx { .. })
    ));
    let empty = b"!<arch>\n";
    assert_eq!(get(empty), Err(Error::NoFatBinary));
}

#[test]
fn linked_images_round_trip() {
    let list = [
        PtxModule::new("a.ptx", b".version 8.0\n".to_vec()),
        PtxModule::new("", Vec::new()),
        PtxModule::new("b.ptx", vec![b'x'; 1000]),
    ];
    let image = encode(&list).unwrap();
    assert_eq!(recognize(&image), Some(Kind::Linked));
    assert_eq!(linked_modules(&image).unwrap(), list);
    assert_eq!(
        linked_len(image.first_chunk().unwrap()),
        Ok(image.len() as u64)
    );
    // What lies behind it is not looked at, as callers may only know where it starts.
    let longer = [image.as_slice(), b"more"].concat();
    assert_eq!(linked_modules(&longer).unwrap(), list);
    let get = |purpose| modules("x", &image, Capability::from_sm(80), purpose).unwrap();
    assert_eq!(
        (get(Purpose::Load), get(Purpose::Link)),
        (list.to_vec(), list.to_vec())
    );
    for len in 0..image.len() {
        assert!(linked_modules(&image[..len]).is_err(), "{len}");
    }
}

#[test]
fn wrappers() {
    let mut bytes = [0; 24];
    bytes[..8].copy_from_slice(b"\xb1\x43\x62\x46\x02\0\0\0");
    bytes[8..16].copy_from_slice(&0x1234u64.to_le_bytes());
    bytes[16..].copy_from_slice(&0x5678u64.to_le_bytes());
    let expected = Wrapper {
        version: 2,
        data: 0x1234,
        list: 0x5678,
    };
    assert_eq!(Wrapper::parse(&bytes), Some(expected));
    bytes[4] = 3;
    assert_eq!(Wrapper::parse(&bytes), None);
    let header = data!("lz4.fatbin").first_chunk().unwrap();
    let len = Container::len_from_header(header).unwrap();
    assert_eq!(len, data!("lz4.fatbin").len() as u64);
}
