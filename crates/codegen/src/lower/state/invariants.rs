//! Values that are emitted ahead of all nodes, once per CTA or gang.

use crate::lower::{Available, Lower};

impl Lower<'_, '_> {
    pub(in crate::lower) fn emit_cta_invariants(&mut self) {
        for (value, inst) in self.decided.invariants.of_cta.clone() {
            self.emit_pinned(inst, value);
            let val = self.available.vals[&value].clone();
            self.emitted.pinned.insert(value, val);
        }
        self.available = Available::default();
    }

    pub(in crate::lower) fn emit_gang_invariants(&mut self) {
        for (value, inst) in self.decided.invariants.of_gang.clone() {
            self.emit_pinned(inst, value);
            let val = self.available.vals[&value].clone();
            self.define_variables(value, &val);
        }
    }
}
