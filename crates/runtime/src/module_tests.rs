//! Module variables in memory: places, contents, addresses of each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ptxjit_abi::SymbolRef;
use ptxjit_ir::{FuncId, Reloc, RelocTarget, Space, Var, VarId, VarInit};

use crate::{Arena, LaunchError, ModuleMemory, VarSource};

/// A module of a thousand variables, of which the first few have contents.
struct Thousand {
    asked: Arc<AtomicUsize>,
}

fn id(n: u32) -> VarId {
    VarId::from_u32(n)
}

fn reloc(offset: u64, target: u32, addend: i64, generic: bool) -> Reloc {
    Reloc {
        offset,
        size: 8,
        shift: 0,
        target: RelocTarget::Var(id(target)),
        addend,
        generic,
    }
}

impl VarSource for Thousand {
    fn var(&self, var: VarId) -> Option<Var> {
        let n = var.as_u32();
        let space = if (3..6).contains(&n) {
            Space::Const
        } else {
            Space::Global
        };
        let name = format!("v{n}");
        let var = Var {
            name,
            space,
            size: 64,
            align: 64,
            dynamic_shared: false,
            is_extern: n == 7,
        };
        (n < 1000).then_some(var)
    }

    fn is_managed(&self, _var: VarId) -> bool {
        false
    }

    fn init(&self, var: VarId) -> Result<VarInit, String> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let init = |bytes: &[u8], relocs: Vec<Reloc>| VarInit {
            bytes: bytes.to_vec(),
            relocs,
        };
        match var.as_u32() {
            0 => Ok(init(&[1, 2, 3], vec![reloc(8, 1, 5, false)])),
            // Points back at 0: a circle.
            1 => Ok(init(
                &[],
                vec![
                    reloc(0, 0, 0, true),
                    reloc(16, 4, 2, false),
                    reloc(24, 4, 2, true),
                ],
            )),
            4 => Ok(init(&[9; 64], vec![])),
            6 => Ok(init(&[], vec![reloc(0, 7, 0, false)])),
            8 => Ok(init(&[0; 65], vec![])),
            9 => {
                let func = RelocTarget::Func(FuncId::from_u32(41));
                let byte = Reloc {
                    offset: 3,
                    size: 1,
                    shift: 8,
                    target: func,
                    addend: 0,
                    generic: false,
                };
                Ok(init(
                    &[],
                    vec![
                        byte.clone(),
                        Reloc {
                            offset: 8,
                            size: 8,
                            shift: 0,
                            ..byte
                        },
                    ],
                ))
            }
            10 => Err("cannot be parsed".into()),
            _ => Ok(VarInit::default()),
        }
    }
}

fn module() -> (Arc<Arena>, ModuleMemory, Arc<AtomicUsize>) {
    let (arena, asked) = (Arena::new().unwrap(), Arc::new(AtomicUsize::new(0)));
    let module = ModuleMemory::new(
        arena.clone(),
        0,
        Box::new(Thousand {
            asked: asked.clone(),
        }),
    );
    (arena, module, asked)
}

fn words(module: &ModuleMemory, var: u32) -> Vec<u64> {
    let mut bytes = [0; 64];
    module.read(id(var), 0, &mut bytes).unwrap();
    bytes
        .chunks(8)
        .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
        .collect()
}

#[test]
fn only_what_is_used_gets_a_place_and_keeps_it() {
    let (arena, module, asked) = module();
    let first = module
        .symbols(&[SymbolRef::Var(id(20)), SymbolRef::Var(id(21))])
        .unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    assert_eq!(arena.live_bytes(0), 128);
    assert!(first.iter().all(|addr| addr.is_multiple_of(64)));
    assert_eq!(words(&module, 20), [0; 8]);
    module.write(id(20), 60, &[7, 7, 7, 7]).unwrap();
    assert!(module.write(id(20), 61, &[7, 7, 7, 7]).is_err());
    assert_eq!(
        module.symbols(&[SymbolRef::Var(id(20))]).unwrap()[0],
        first[0]
    );
    assert_eq!(words(&module, 20)[7], 0x0707_0707_0000_0000);
    drop(module);
    assert_eq!(arena.live_bytes(0), 0);
}

#[test]
fn initialisers_may_point_at_each_other() {
    let (_arena, module, _) = module();
    let (zero, one, constant) = (
        module.var_range(id(0)).unwrap(),
        module.var_range(id(1)).unwrap(),
        module.var_range(id(4)).unwrap(),
    );
    assert_eq!(words(&module, 0)[..2], [0x03_0201, one.start + 5]);
    let window = module.const_range();
    assert!(window.contains(&constant.start));
    // The address in its own space is a window offset.
    assert_eq!(
        words(&module, 1)[..4],
        [
            zero.start,
            0,
            constant.start - window.start + 2,
            constant.start + 2
        ]
    );
    assert_eq!(words(&module, 4), [0x0909_0909_0909_0909; 8]);
    assert_eq!(
        module.symbols(&[SymbolRef::Var(id(4))]).unwrap(),
        [constant.start - window.start]
    );
}

#[test]
fn functions_have_descriptors() {
    let (arena, module, _) = module();
    let func = module
        .symbols(&[SymbolRef::Func(FuncId::from_u32(41))])
        .unwrap()[0];
    let mut descriptor = [0; 16];
    arena.read(func, &mut descriptor).unwrap();
    assert_eq!(descriptor[..8], 42u64.to_le_bytes());
    assert_eq!(words(&module, 9)[..2], [(func >> 8 & 0xff) << 24, func]);
}

#[test]
fn what_cannot_be_placed_is_refused_every_time() {
    let (_arena, module, _) = module();
    for _ in 0..2 {
        // Variable 6 points at 7, which is `.extern`.
        assert!(
            matches!(module.symbols(&[SymbolRef::Var(id(6))]), Err(LaunchError::UnresolvedSymbol(name)) if name == "v7")
        );
        assert!(matches!(
            module.var_range(id(8)),
            Err(LaunchError::Invalid(_))
        ));
        assert!(matches!(
            module.var_range(id(10)),
            Err(LaunchError::Invalid(_))
        ));
        assert!(matches!(
            module.var_range(id(1000)),
            Err(LaunchError::Invalid(_))
        ));
    }
}
