//! One device and one module used by many threads.

use ptxjit::{Buffer, Device, Error, Kernel, Launch, Module, Options, Prepared};

use crate::{ADD, ptx};

fn shareable<T: Send + Sync>() {}

#[test]
fn types_can_be_shared() {
    shareable::<Device>();
    shareable::<Buffer<f32>>();
    shareable::<Module>();
    shareable::<Kernel>();
    shareable::<Launch>();
    shareable::<Prepared>();
    shareable::<Options>();
    shareable::<Error>();
}

#[test]
fn launches_overlap() {
    let device = Device::new().unwrap();
    let module = Module::from_source(&device, "test.ptx", ptx(ADD)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8u32 {
            let (device, module) = (&device, &module);
            scope.spawn(move || {
                let gang = [1, 4, 8, 16, 32][thread as usize % 5];
                let data = device.alloc_from(&vec![thread; 1000]).unwrap();
                let kernel = module.kernel("add").unwrap();
                for _ in 0..20 {
                    kernel
                        .launch()
                        .grid(4)
                        .block(256)
                        .gang(gang)
                        .arg(&data)
                        .arg(1u32)
                        .arg(1000u32)
                        .run()
                        .unwrap();
                }
                assert_eq!(data.read().unwrap(), vec![thread + 20; 1000]);
            });
        }
    });
}

#[test]
fn a_failure_elsewhere_does_not_matter() {
    let device = Device::new().unwrap();
    let module = Module::from_source(&device, "test.ptx", ptx(ADD)).unwrap();
    let kernel = module.kernel("add").unwrap();
    std::thread::scope(|scope| {
        let (device, kernel) = (&device, &kernel);
        scope.spawn(move || {
            for _ in 0..50 {
                let wild = kernel
                    .launch()
                    .block(32)
                    .arg(64u64)
                    .arg(1u32)
                    .arg(32u32)
                    .run();
                assert!(matches!(wild, Err(Error::Launch(_))), "{wild:?}");
            }
        });
        scope.spawn(move || {
            let data = device.alloc_from(&[0u32; 32]).unwrap();
            for _ in 0..50 {
                kernel
                    .launch()
                    .block(32)
                    .arg(&data)
                    .arg(1u32)
                    .arg(32u32)
                    .run()
                    .unwrap();
            }
            assert_eq!(data.read().unwrap(), [50; 32]);
        });
    });
}
