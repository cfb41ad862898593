//! Prefetches.
//!
//! Cranelift has no such instruction. An unused load of a byte stands for it, and is rewritten
//! after compilation: the two are equally long on x86-64, and a trap code marks the load.

use cranelift_codegen::CompiledCode;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, TrapCode, Value, types};
use cranelift_frontend::FunctionBuilder;

/// The mark of loads that become prefetches.
const MARK: TrapCode = TrapCode::unwrap_user(1);

/// Prefetches the cache line of a place.
pub(crate) fn emit(b: &mut FunctionBuilder<'_>, at: Value, offset: i32) {
    let flags = MemFlagsData::new().with_trap_code(Some(MARK));
    b.ins().uload8(types::I32, flags, at, offset);
}

/// Rewrites the loads that stand for prefetches.
pub(super) fn put_in(compiled: &CompiledCode, code: &mut [u8]) {
    for trap in compiled.buffer.traps() {
        if trap.code == MARK {
            rewrite(&mut code[trap.offset as usize..]);
        }
    }
}

/// Rewrites `movzx r32, byte ptr [m]` to `prefetcht0 [m]`.
fn rewrite(code: &mut [u8]) {
    let has_rex = code[0] & 0xf0 == 0x40;
    let (rex, op) = code.split_at_mut(usize::from(has_rex));
    assert_eq!(op[..2], [0x0f, 0xb6], "a load of a byte");
    // The register field selects the kind of prefetch.
    op[1] = 0x18;
    op[2] = op[2] & 0b1100_0111 | 1 << 3;
    if let [rex] = rex {
        *rex &= !0b0100;
    }
}

#[cfg(test)]
mod tests {
    use super::rewrite;

    #[test]
    fn loads_become_prefetches() {
        // movzx eax, byte ptr [rdi]; movzx r11d, byte ptr [r8 + rcx + 0x40]; as an assembler writes
        // them.
        let mut plain = [0x0f, 0xb6, 0x07];
        rewrite(&mut plain);
        assert_eq!(plain, [0x0f, 0x18, 0x0f]);
        let mut extended = [0x45, 0x0f, 0xb6, 0x5c, 0x08, 0x40];
        rewrite(&mut extended);
        assert_eq!(extended, [0x41, 0x0f, 0x18, 0x4c, 0x08, 0x40]);
    }
}
