//! Boxes of tensor maps under sanitizers.

use ptxjit::sanitize::{Checks, Finding, FindingKind, Severity};
use ptxjit::{Device, ElementType, Engine, Module, Schedule, TensorMap};

const TEXT: &str = ".version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out, .param .s32 x)
{
    .reg .pred p;
    .reg .b64 m, o;
    .reg .b32 c, bar_at, room_at, w;
    .shared .align 8 .b64 bar;
    .shared .align 128 .b8 room[128];
    mov.b32 bar_at, bar;
    mov.b32 room_at, room;
    mbarrier.init.shared.b64 [bar], 1;
    fence.proxy.async;
    mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;
    mov.b64 m, map;
    cvta.param.u64 m, m;
    ld.param.s32 c, [x];
    cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [room_at], [m, {c}], [bar_at];
wait:
    mbarrier.try_wait.parity.shared.b64 p, [bar], 0;
    @!p bra wait;
    ld.shared.b32 w, [room];
    ld.param.u64 o, [out];
    st.global.b32 [o], w;
    ret;
}
";

/// The findings of a copy of 16 words from coordinate `x` on, and the first word.
fn copy(x: i32, schedule: Schedule) -> (Vec<Finding>, u32) {
    let device = Device::new().unwrap();
    let data = device.alloc_from(&(0..64).collect::<Vec<u32>>()).unwrap();
    let out = device.alloc_from(&[0u32]).unwrap();
    let map = TensorMap::tiled(data.address(), ElementType::U32, &[64], &[], &[16]);
    let map = map.encode().unwrap();
    let module = Module::from_source(&device, "boxes.ptx", TEXT).unwrap();
    let launch = module.only_kernel().unwrap().launch();
    let launch = launch.arg(&map).arg(&out).arg(x).uses(&data);
    let launch = launch.engine(Engine::Interp).schedule(schedule);
    let launch = launch.sanitize(Checks {
        mem: true,
        sync: true,
        ..Checks::default()
    });
    let report = launch.report();
    launch.run().unwrap();
    (report.findings(), out.read().unwrap()[0])
}

#[test]
fn a_box_at_a_multiple_of_16_bytes_is_as_it_should_be() {
    for schedule in [Schedule::Deterministic, Schedule::Random(3)] {
        assert_eq!(copy(8, schedule), (vec![], 8));
        assert_eq!(copy(-4, schedule), (vec![], 0));
    }
}

#[test]
fn a_box_elsewhere_is_copied_with_a_warning() {
    for schedule in [Schedule::Deterministic, Schedule::Random(3)] {
        let (findings, first) = copy(9, schedule);
        assert_eq!(first, 9);
        let [finding] = &findings[..] else {
            panic!("{findings:?}")
        };
        let seen = (finding.kind, finding.severity);
        assert_eq!(seen, (FindingKind::Misaligned, Severity::Warning));
        let text = "coordinate 9, 36 bytes from where rows of the tensor begin";
        assert!(finding.message.contains(text), "{}", finding.message);
    }
}
