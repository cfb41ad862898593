//! Modules: names, variables, diagnostics.

use ptxjit::{Device, Error, Module};

use crate::{ADD, ptx};

fn load(device: &Device, body: &str) -> Result<Module, Error> {
    Module::from_source(device, "test.ptx", ptx(body))
}

#[test]
fn kernels_by_name() {
    let device = Device::new().unwrap();
    let body = ".visible .entry _Z5scalePfi(.param .u64 a, .param .u32 b) { ret; }
                .visible .entry _Z5scalePdi(.param .u64 a, .param .u32 b) { ret; }
                .visible .entry _ZN2ns4stopIfEEvv() { ret; }";
    let module = load(&device, body).unwrap();
    assert_eq!(module.kernel_names().len(), 3);
    assert_eq!(
        module.kernel("scale(float*, int)").unwrap().name(),
        "_Z5scalePfi"
    );
    assert_eq!(module.kernel("_Z5scalePdi").unwrap().name(), "_Z5scalePdi");
    assert_eq!(
        module.kernel("ns::stop<float>").unwrap().name(),
        "_ZN2ns4stopIfEEvv"
    );
    let ambiguous = module.kernel("scale").unwrap_err().to_string();
    assert!(
        ambiguous.contains("_Z5scalePfi") && ambiguous.contains("_Z5scalePdi"),
        "{ambiguous}"
    );
    let missing = module.kernel("other").unwrap_err();
    assert!(
        matches!(&missing, Error::NotFound(text) if text.contains("`other`")),
        "{missing}"
    );
    assert!(matches!(module.only_kernel(), Err(Error::Usage { .. })));
    let params: Vec<(String, usize)> = module
        .kernel("_Z5scalePfi")
        .unwrap()
        .params()
        .map(|(name, size)| (name.to_owned(), size))
        .collect();
    assert_eq!(params, [("a".to_owned(), 8), ("b".to_owned(), 4)]);
}

#[test]
fn variables_are_shared_by_launches() {
    let device = Device::new().unwrap();
    let body = "
        .visible .global .u32 counter = 40;
        .visible .const .u32 step[2] = {1, 2};
        .visible .entry count()
        {
            .reg .b32 %r<3>;
            ld.global.u32 %r1, [counter];
            ld.const.u32 %r2, [step+4];
            add.u32 %r1, %r1, %r2;
            st.global.u32 [counter], %r1;
            ret;
        }";
    let module = load(&device, body).unwrap();
    let counter = module.global("counter").unwrap();
    assert_eq!(
        (counter.size(), counter.read::<u32>(1).unwrap()),
        (4, vec![40])
    );
    let kernel = module.kernel("count").unwrap();
    kernel.launch().run().unwrap();
    assert_eq!(counter.read::<u32>(1).unwrap(), [42]);
    module.global("step").unwrap().write(&[0u32, 58]).unwrap();
    kernel.launch().gang(1).run().unwrap();
    assert_eq!(counter.read::<u32>(1).unwrap(), [100]);
    assert!(counter.read::<u32>(2).is_err());
    assert!(counter.write(&[0u64]).is_err());
    assert!(module.global("nothing").is_none());
    assert_eq!(
        load(&device, body)
            .unwrap()
            .global("counter")
            .unwrap()
            .read::<u32>(1)
            .unwrap(),
        [40]
    );
}

#[test]
fn wrong_modules_say_where() {
    let device = Device::new().unwrap();
    let err = load(&device, ".visible .entry k() { add.s32 %r1 1, 2; }")
        .and_then(|module| module.kernel("k").map(drop));
    let Err(Error::Invalid(found)) = err else {
        panic!("{err:?}")
    };
    let first = found.iter().next().unwrap();
    assert_eq!(first.file(), "test.ptx");
    assert_eq!(first.position().unwrap().0, 4);
    assert!(first.render(false).contains("test.ptx:4:"), "{first}");
    assert!(
        Module::load(&device, "no/such/file.ptx")
            .is_err_and(|err| matches!(err, Error::Read { .. }))
    );
    for text in [
        "",
        "\0",
        "}",
        ".version",
        "\u{fffd}",
        ".version 7.0\n.target sm_80\n.address_size 64\n.func",
    ] {
        assert!(
            matches!(
                Module::from_source(&device, "x", text),
                Err(Error::Invalid(_))
            ),
            "{text:?}"
        );
    }
}

#[test]
fn a_bad_kernel_does_not_spoil_the_others() {
    let device = Device::new().unwrap();
    let module = load(
        &device,
        &format!("{ADD}\n.visible .entry bad() {{ nonsense; }}"),
    )
    .unwrap();
    assert!(module.kernel("add").is_ok());
    assert!(matches!(module.kernel("bad"), Err(Error::Invalid(_))));
    assert!(ptxjit::check_text("x", ptx(ADD)).iter().next().is_none());
}
