//! In which dimensions of the grid values differ between CTAs, and which depend on its size,
//! according to data flow.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Function, InstData, SpecialReg, Value};

use crate::analysis::order::Order;

/// A bit per dimension of the grid, and [`SIZE`].
type Dims = u8;

/// The bit of values that depend on the number of CTAs.
const SIZE: Dims = 1 << 3;

/// Which values depend on which component of `%ctaid`, and which on `%nctaid`.
pub(crate) struct Ctas {
    dims: SecondaryMap<Value, Dims>,
    /// The dimensions in which some access of global memory differs.
    all: Dims,
}

impl Ctas {
    pub(crate) fn new(func: &Function, order: &Order) -> Ctas {
        let mut dims = SecondaryMap::new();
        while pass(func, order, &mut dims) {}
        let all = func.insts.values().filter_map(|node| {
            let access = node.data.access().filter(|it| !it.space.is_window());
            access.map(|access| dims[access.addr])
        });
        let all = all.fold(0, |all, dims| all | dims) & !SIZE;
        Ctas { dims, all }
    }

    /// Whether CTAs that differ in any dimension access different places with this address, so that
    /// no CTA finds there what another has fetched.
    pub(crate) fn each_has_its_own(&self, addr: Value) -> bool {
        self.all != 0 && self.dims[addr] & !SIZE == self.all
    }

    /// Whether the number of CTAs determines the value, as it does the step of a grid-stride loop.
    pub(crate) fn depends_on_size(&self, value: Value) -> bool {
        self.dims[value] & SIZE != 0
    }
}

/// Returns whether a value gained a dimension.
fn pass(func: &Function, order: &Order, dims: &mut SecondaryMap<Value, Dims>) -> bool {
    let mut changed = false;
    for block in order.blocks() {
        let mut add = |dims: &mut SecondaryMap<Value, Dims>, value: Value, more: Dims| {
            changed |= dims[value] | more != dims[value];
            dims[value] |= more;
        };
        for node in func.insts_in(block) {
            let of_args = node.data.args().iter().fold(0, |all, &arg| all | dims[arg]);
            for &result in &node.results {
                add(dims, result, of_args | of_sreg(&node.data));
            }
        }
        for (param, arg) in func.passed_by(block) {
            add(dims, param, dims[arg]);
        }
    }
    changed
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "others are the same for all"
)]
fn of_sreg(inst: &InstData) -> Dims {
    match *inst {
        InstData::Sreg { sreg } => match sreg {
            SpecialReg::CtaidX => 1 << 0,
            SpecialReg::CtaidY => 1 << 1,
            SpecialReg::CtaidZ => 1 << 2,
            SpecialReg::NctaidX | SpecialReg::NctaidY | SpecialReg::NctaidZ => SIZE,
            _ => 0,
        },
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use ptxjit_ir::{CompareOp, InstData, Space, SpecialReg, Type, Value};

    use super::Ctas;
    use crate::analysis::order;
    use ptxjit_testing::{Build, function};

    const B32: Type = Type::B32;
    const B64: Type = Type::B64;

    fn sreg(b: &mut Build<'_>, sreg: SpecialReg) -> Value {
        let word = b.b.ins(InstData::Sreg { sreg }, B32);
        let (op, from, to, arg) = (ptxjit_ir::ResizeOp::Sext, B32, B64, word);
        b.b.ins(InstData::Resize { op, from, to, arg }, B64)
    }

    /// A loop that loads from `b`, at an address that moves with the loop, and from the addresses
    /// that `others` builds. Returns which of the loads are private to each CTA.
    fn own(others: impl FnOnce(&mut Build<'_>, Value) -> Vec<Value>) -> Vec<bool> {
        let mut loads = Vec::new();
        let func = function(&[B64], B64, |b, params| {
            let column = sreg(b, SpecialReg::CtaidX);
            let start = b.add(params[0], column);
            loads.extend(others(b, column));
            for &addr in &loads {
                b.load(Space::Global, B32, addr, 0);
            }
            let (head, at) = b.block_of(B64);
            let after = b.block();
            b.jump(head, &[start]);
            b.at(head);
            b.load(Space::Global, B32, at, 0);
            let next = b.add(at, params[0]);
            let more = b.compare(CompareOp::Ult, next, params[0]);
            b.brif(more, (head, &[next]), (after, &[]));
            b.at(after);
            b.ret(next);
            loads.insert(0, at);
        });
        let ctas = Ctas::new(&func, &order::run(&func, &[]));
        let is_own = |&addr: &Value| ctas.each_has_its_own(addr);
        loads.iter().map(is_own).collect()
    }

    #[test]
    fn what_moves_in_a_loop_starts_where_the_cta_says() {
        assert_eq!(own(|_, _| Vec::new()), [true]);
    }

    #[test]
    fn ctas_of_a_column_share_what_does_not_depend_on_the_row() {
        let shared = own(|b, column| {
            let row = sreg(b, SpecialReg::CtaidY);
            vec![row, b.add(row, column)]
        });
        assert_eq!(shared, [false, false, true]);
    }

    #[test]
    fn the_size_of_the_grid_is_no_dimension() {
        let of_size = own(|b, column| {
            let count = sreg(b, SpecialReg::NctaidX);
            vec![count, b.add(count, column)]
        });
        assert_eq!(of_size, [true, false, true]);
    }

    #[test]
    fn steps_of_grid_stride_loops_depend_on_the_size() {
        let mut values = Vec::new();
        let func = function(&[B64], B64, |b, params| {
            let (count, column) = (sreg(b, SpecialReg::NctaidY), sreg(b, SpecialReg::CtaidX));
            values.extend([params[0], column, count, b.add(params[0], count)]);
            let (next, at) = b.block_of(B64);
            b.jump(next, &[values[3]]);
            b.at(next);
            values.push(at);
            b.ret(at);
        });
        let ctas = Ctas::new(&func, &order::run(&func, &[]));
        let depends = values.iter().map(|&value| ctas.depends_on_size(value));
        let depends: Vec<bool> = depends.collect();
        assert_eq!(depends, [false, false, true, true, true]);
    }

    #[test]
    fn threads_do_not_matter() {
        let tid = own(|b, _| vec![sreg(b, SpecialReg::TidX)]);
        assert_eq!(tid, [true, false]);
    }
}
