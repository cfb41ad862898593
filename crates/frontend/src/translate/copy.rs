//! Objects that calls copy as a whole, and not value by value.

use ptxjit_ir::{CompareOp, InstData, IntBinaryOp, MemSem, Scope, Space, Type, Value};
use smallvec::SmallVec;

use super::Translator;
use super::layout::Block;

impl Translator<'_> {
    /// Copies an object of local memory between two addresses: a loop over its words, and the bytes
    /// after them.
    pub(super) fn copy_block(&mut self, block: Block, to: Value, from: Value) {
        let Some(word) = Type::from_bytes(block.word) else {
            unreachable!("words have 1, 2, 4 or 8 bytes");
        };
        self.copy_words(block, word, to, from);
        for piece in block.tail() {
            // Objects have less than 4 GiB, but the offset of an access is signed.
            let at = self.iconst(Type::B64, u64::from(piece.offset));
            self.copy_at(at, piece.ty, to, from);
        }
    }

    /// There is at least one word: what is smaller is passed by value.
    fn copy_words(&mut self, block: Block, word: Type, to: Value, from: Value) {
        let [at, to_var, from_var] = [0; 3].map(|_| self.builder.declare(Type::B64));
        let zero = self.iconst(Type::B64, 0);
        for (var, value) in [(at, zero), (to_var, to), (from_var, from)] {
            self.builder.def_var(var, value);
        }
        let (body, after) = (self.builder.new_block(), self.builder.new_block());
        self.builder.jump(body);
        self.builder.switch_to(body);
        let offset = self.builder.use_var(at);
        let (to, from) = (self.builder.use_var(to_var), self.builder.use_var(from_var));
        self.copy_at(offset, word, to, from);
        let step = self.iconst(Type::B64, u64::from(block.word));
        let next = self.binary(IntBinaryOp::Add, offset, step);
        self.builder.def_var(at, next);
        let end = self.iconst(Type::B64, block.words());
        let goes_on = self.compare(CompareOp::Ult, next, end);
        self.builder.brif(goes_on, body, after);
        self.builder.seal(body);
        self.builder.seal(after);
        self.builder.switch_to(after);
    }

    fn copy_at(&mut self, at: Value, ty: Type, to: Value, from: Value) {
        let (space, sem, scope) = (Space::Local, MemSem::Weak, Scope::Cta);
        let addr = self.binary(IntBinaryOp::Add, from, at);
        let load = InstData::Load {
            space,
            sem,
            scope,
            ty,
            n: 1,
            addr,
            offset: 0,
        };
        let value = self.ins(load, ty);
        let addr = self.binary(IntBinaryOp::Add, to, at);
        self.ins_void(InstData::Store {
            space,
            sem,
            scope,
            ty,
            addr,
            offset: 0,
            args: SmallVec::from_slice(&[value]),
        });
    }
}
