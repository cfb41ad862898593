//! Tensor maps as arguments, and what is wrong with their fields.

use std::path::Path;

use super::{ptxjit, temp};

/// Copies the box {4, 2} at {1, 1} of a tensor of words to `out`.
const COPY: &str = "
.version 8.6
.target sm_90
.address_size 64
.visible .entry copy_box(.param .align 64 .b8 map[128], .param .u64 out)
{
    .reg .b64 m, o, a, b;
    .reg .b32 at, bar_at;
    .shared .align 8 .b64 bar;
    .shared .align 128 .b8 room[32];
    mov.u32 at, room;
    mov.u32 bar_at, bar;
    mov.b64 m, map;
    cvta.param.u64 m, m;
    ld.param.u64 o, [out];
    mbarrier.init.shared.b64 [bar], 1;
    mbarrier.arrive.expect_tx.shared.b64 _, [bar], 32;
    cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [at], [m, {1, 1}], [bar_at];
    ld.shared.v2.b64 {a, b}, [at];
    st.global.v2.b64 [o], {a, b};
    ld.shared.v2.b64 {a, b}, [at+16];
    st.global.v2.b64 [o+16], {a, b};
    ret;
}
";

const FIELDS: &str = r#""dtype": "u32", "dims": [8, 3], "strides_bytes": [32], "box": [4, 2]"#;

#[test]
fn maps_describe_buffers_of_their_own_or_of_others() {
    let file = temp("copy_box.ptx", COPY.as_bytes());
    let own = format!(r#"tensormap={{{FIELDS}, "data": "u32[24]=arange"}}"#);
    let json = temp(
        "map.json",
        format!(r#"{{{FIELDS}, "data": "u32[24]=arange"}}"#).as_bytes(),
    );
    let from_file = format!("tensormap=@{json}");
    for map in [own, from_file] {
        let done = ptxjit(&[
            "run",
            &file,
            "--arg",
            &map,
            "--arg",
            "u32[8]=zeros",
            "--print",
            "1",
            "--print",
            "0:3",
        ]);
        let printed = done.expect(0).stdout;
        assert!(printed.contains("9 10 11 12 17 18 19 20"), "{printed}");
        assert!(printed.contains("0 1 2"), "{printed}");
    }
    // The buffer that the map describes is the argument behind it: what is copied is what it had.
    let other = format!(r#"tensormap={{{FIELDS}, "arg": 1}}"#);
    let words = [
        "run",
        &file,
        "--arg",
        &other,
        "--arg",
        "u32[24]=arange",
        "--print",
        "1:9",
    ];
    let printed = ptxjit(&words).expect(0).stdout;
    assert!(printed.contains("9 10 11 12 17 18 19 20 8"), "{printed}");
}

#[test]
fn wrong_fields_are_named() {
    let file = temp("copy_box_wrong.ptx", COPY.as_bytes());
    let long = FIELDS.replace("[8, 3]", "[8, 3, 1, 1, 1, 1]");
    for (fields, text) in [
        (FIELDS.replace("u32", "u31"), "`dtype` has no value `u31`"),
        (FIELDS.replace("[4, 2]", "[4, 257]"), "`box[1]` is 257"),
        (FIELDS.replace("[4, 2]", "[4, -1]"), "`box` is -1"),
        (FIELDS.replace("[4, 2]", "[4]"), "`box` has 1 numbers"),
        (FIELDS.replace("[32]", "[36]"), "`strides_bytes[0]` is 36"),
        (
            FIELDS.replace("[32]", "[]"),
            "`strides_bytes` has 0 numbers",
        ),
        (FIELDS.replace("[8, 3]", "[]"), "`dims` has 0 dimensions"),
        (long, "`dims` has 6 dimensions"),
        (format!("{FIELDS}, \"byte_offset\": 8"), "`address` is"),
        (
            format!("{FIELDS}, \"swizzle\": \"48B\""),
            "`swizzle` has no value `48B`",
        ),
        (
            format!("{FIELDS}, \"swizzles\": \"32B\""),
            "unknown field `swizzles`",
        ),
        (
            format!("{FIELDS}, \"oob_fill\": \"nan\""),
            "`oob_fill` is nan",
        ),
        (
            format!("{FIELDS}, \"lower\": [0]"),
            "`lower` belongs to another mode",
        ),
        (
            format!("{FIELDS}, \"mode\": \"im2col\""),
            "`box` belongs to another mode",
        ),
        (
            format!("{FIELDS}, \"mode\": \"rows\""),
            "unknown variant `rows`",
        ),
    ] {
        let map = format!(r#"tensormap={{{fields}, "data": "u32[64]=arange"}}"#);
        let done = ptxjit(&["run", &file, "--arg", &map, "--arg", "u32[8]=zeros"]).expect(2);
        assert!(done.stderr.contains(text), "{fields}: {}", done.stderr);
    }
    for (memory, text) in [
        ("", "has `arg` or `data`"),
        (", \"buffer\": \"x\"", "has `arg` or `data`"),
        (
            ", \"arg\": 1, \"data\": \"u32[24]=zeros\"",
            "has `arg` or `data`",
        ),
        (", \"arg\": 0", "argument 0 is no buffer"),
        (", \"arg\": 7", "argument 7 is no buffer"),
        (", \"data\": \"u32=5\"", "is a buffer"),
    ] {
        let map = format!("tensormap={{{FIELDS}{memory}}}");
        let done = ptxjit(&["run", &file, "--arg", &map, "--arg", "u32[8]=zeros"]).expect(2);
        assert!(done.stderr.contains(text), "{memory}: {}", done.stderr);
    }
}

#[test]
fn maps_of_cases_are_checked_before_anything_runs() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tensor_map_case");
    std::fs::create_dir_all(&dir).expect("a folder can be made");
    std::fs::write(dir.join("copy.ptx"), COPY).expect("a file can be written");
    let path = dir.join("case.json");
    let run = |maps: &str, count: u32, args: &str| {
        let text = format!(
            r#"{{"name": "x", "ptx": [{{"file": "copy.ptx"}}], "cases": [{{"label": "small", "tensormaps": {{{maps}}},
                "buffers": {{"b": {{"dtype": "u32", "count": 64, "init": {{"kind": "arange", "start": 0, "step": 1}}}},
                             "m": {{"dtype": "u8", "count": {count}, "init": {{"kind": "tensormaps", "names": ["a"]}}}}}},
                "launches": [{{"kernel": "copy_box", "grid": [1], "block": [1],
                    "args": [{args}, {{"type": "buffer", "name": "b"}}]}}]}}]}}"#
        );
        std::fs::write(&path, text).expect("a file can be written");
        ptxjit(&["run", "--case", &path.to_string_lossy()])
    };
    let map = format!(r#""a": {{"buffer": "b", {FIELDS}}}"#);
    let named = r#"{"type": "tensormap", "name": "a"}"#;
    run(&map, 128, named).expect(0);
    let zeros = "00".repeat(128);
    let patched = |offset: u32, more: &str| {
        format!(
            r#"{{"type": "bytes", "align": 64, "hex": "{zeros}", "patch": [{{"offset": {offset}, {more}}}]}}"#
        )
    };
    run(&map, 128, &patched(0, r#""tensormap": "a""#)).expect(0);
    let none = r#"{"type": "tensormap", "name": "c"}"#;
    let both = r#"{"type": "tensormap", "name": "a", "dtype": "u32"}"#;
    let wrong = map.replace("[32]", "[40]");
    let nowhere = map.replace("\"b\"", "\"x\"");
    for (maps, count, args, text) in [
        (
            &wrong,
            128,
            named,
            "tensor map `a`: error: a tensor map's `strides_bytes[0]` is 40",
        ),
        (&nowhere, 128, named, "the case has no buffer `x`"),
        (&map, 120, named, "1 tensor maps take 128 bytes, not 120"),
        (&map, 128, none, "the case has no tensor map `c`"),
        (&map, 128, both, "has a `name` or fields, not both"),
        (
            &map,
            128,
            &patched(8, r#""tensormap": "a""#),
            "does not lie within 128 bytes",
        ),
        (
            &map,
            128,
            &patched(0, r#""tensormap": "c""#),
            "the case has no tensor map `c`",
        ),
        (
            &map,
            128,
            &patched(0, r#""byte_offset": 8"#),
            "a patch has one of `tensormap`, `buffer`",
        ),
        (
            &map,
            128,
            &patched(0, r#""bufer": "b""#),
            "unknown field `bufer`",
        ),
    ] {
        let done = run(maps, count, args).expect(2);
        assert!(done.stderr.contains(text), "{text}: {}", done.stderr);
    }
}
