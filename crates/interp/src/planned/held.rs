//! How a gang holds the values of its lanes, compared with what each lane has.
//!
//! A uniform value is one scalar, an affine value the scalar of lane 0, a varying value a vector
//! whose elements matter only for the lanes that have defined them: an instruction that some lanes
//! execute leaves nothing of the others' elements, and a parameter keeps them only where the plan
//! blends. Lanes that use a value must find there what they have computed themselves.

use cranelift_entity::SecondaryMap;
use ptxjit_ir::{Block, Function, Type, Value};
use ptxjit_vectorize::{AffineInputs, MayWrap, Plan, Variability};
use smallvec::SmallVec;

/// Lanes, and what a value is for each; not empty.
pub(super) type Bits = SmallVec<[(u32, u64); 32]>;

/// What a gang has of a value.
#[derive(Copy, Clone, Default)]
enum Held {
    /// Nothing defined it since the gang entered its code.
    #[default]
    Nothing,
    /// The value of all lanes, or that of lane 0.
    Scalar(u64),
    /// A vector with the elements of these lanes.
    Elements(u32),
}

/// All values of a gang.
pub(super) struct HeldValues<'p> {
    plan: &'p Plan,
    func: &'p Function,
    held: SecondaryMap<Value, Held>,
    /// The version of the block that runs, where its guard holds.
    pub(super) version: Option<&'p AffineInputs>,
}

impl<'p> HeldValues<'p> {
    pub(super) fn new(plan: &'p Plan, func: &'p Function) -> HeldValues<'p> {
        HeldValues {
            plan,
            func,
            held: SecondaryMap::new(),
            version: None,
        }
    }

    /// The version of a block for affine inputs, if they are.
    pub(super) fn version_of(
        &self,
        block: Block,
        bits: &dyn Fn(Value) -> Bits,
    ) -> Option<&'p AffineInputs> {
        let version = self.plan.affine_inputs[block].as_ref();
        let holds = |(input, variability): &(Value, Variability)| {
            self.departs(*input, *variability, &bits(*input)).is_none()
        };
        version.filter(|version| version.inputs.iter().all(holds))
    }

    /// Whether lanes have what one scalar can hold.
    pub(super) fn agree(&self, value: Value, bits: &Bits) -> bool {
        self.departs(value, self.plan.variability[value], bits)
            .is_none()
    }

    /// An instruction defines a value for these lanes.
    pub(super) fn define(&mut self, value: Value, bits: &Bits) -> Result<(), String> {
        self.forget(value);
        let version = self
            .version
            .and_then(|version| version.variability.get(&value));
        if let Some(departing) = version.and_then(|&it| self.departs(value, it, bits)) {
            return Err(format!(
                "{departing}, though the inputs of the block are affine"
            ));
        }
        self.check_bounds(value, bits)?;
        self.define_param(value, bits)
    }

    /// An edge passes a parameter for these lanes.
    pub(super) fn define_param(&mut self, value: Value, bits: &Bits) -> Result<(), String> {
        let variability = self.plan.variability[value];
        if let Some(departing) = self.departs(value, variability, bits) {
            return Err(departing);
        }
        let (lane, first) = bits[0];
        let mask = bits.iter().fold(0, |mask, (lane, _)| mask | 1 << lane);
        self.held[value] = match (variability, self.held[value]) {
            (Variability::Varying, Held::Elements(others)) => Held::Elements(others | mask),
            (Variability::Varying, Held::Nothing | Held::Scalar(_)) => Held::Elements(mask),
            (Variability::Uniform, _) => Held::Scalar(first),
            (Variability::Affine { stride, .. }, _) => {
                let offset = (stride as u64).wrapping_mul(lane.into());
                Held::Scalar(first.wrapping_sub(offset) & self.func.ty(value).mask())
            }
        };
        Ok(())
    }

    /// Edges are about to pass parameters: other lanes' elements stay if the plan blends.
    pub(super) fn keep_others(&mut self, params: &[Value], blends: bool) {
        if !blends {
            params.iter().for_each(|&param| self.forget(param));
        }
    }

    /// Nothing is left of a value.
    pub(super) fn forget(&mut self, value: Value) {
        self.held[value] = Held::Nothing;
    }

    /// Lanes use a value: what the gang has must be what they have.
    pub(super) fn check_use(&self, value: Value, bits: &Bits) -> Result<(), String> {
        let mask = bits.iter().fold(0, |mask, (lane, _)| mask | 1u32 << lane);
        match self.held[value] {
            Held::Nothing => Err(format!("{value} is used and not held")),
            Held::Elements(lanes) if mask & !lanes != 0 => Err(format!(
                "{value} is used by lanes {mask:#x}, and has the elements of {lanes:#x}"
            )),
            Held::Elements(_) => Ok(()),
            Held::Scalar(scalar) => {
                let variability = self.plan.variability[value];
                let expected = |lane: u32| self.element(value, variability, scalar, lane);
                let differs = |&&(lane, bits): &&(u32, u64)| {
                    !is_at(variability, bits, expected(lane), self.func.ty(value))
                };
                bits.iter().find(differs).map_or(Ok(()), |&(lane, bits)| {
                    let held = expected(lane);
                    Err(format!(
                        "{value} is {bits:#x} for lane {lane}, and held as {held:#x}"
                    ))
                })
            }
        }
    }

    /// What the gang has for a lane, whether or not it runs; `own` is what the lane has, if it
    /// exists.
    pub(super) fn at_lane(&self, value: Value, lane: u32, own: &Bits) -> Option<u64> {
        match self.held[value] {
            Held::Nothing => None,
            Held::Scalar(scalar) => {
                Some(self.element(value, self.plan.variability[value], scalar, lane))
            }
            Held::Elements(lanes) if lanes >> lane & 1 != 0 => own.first().map(|&(_, bits)| bits),
            Held::Elements(_) => None,
        }
    }

    /// The element of a lane, from what a scalar holds.
    fn element(&self, value: Value, variability: Variability, scalar: u64, lane: u32) -> u64 {
        let offset = match variability {
            Variability::Affine { stride, .. } => (stride as u64).wrapping_mul(lane.into()),
            Variability::Uniform | Variability::Varying => 0,
        };
        scalar.wrapping_add(offset) & self.func.ty(value).mask()
    }

    /// How the lanes of a value depart from a variability, if they do.
    fn departs(&self, value: Value, variability: Variability, bits: &Bits) -> Option<String> {
        if variability == Variability::Varying {
            return None;
        }
        let ty = self.func.ty(value);
        let (first, start) = bits[0];
        let expected = |lane: u32| self.element(value, variability, start, lane - first);
        let differs = |&&(lane, bits): &&(u32, u64)| !is_at(variability, bits, expected(lane), ty);
        bits.iter().find(differs).map(|(lane, bits)| {
            format!(
                "{value} is planned as {variability:?}, but is {start:#x} for lane {first} and {bits:#x} \
                 for lane {lane}"
            )
        })
    }

    /// The plan's bounds hold for all threads.
    fn check_bounds(&self, value: Value, bits: &Bits) -> Result<(), String> {
        let Some((least, most)) = self.plan.bounds[value] else {
            return Ok(());
        };
        let n_unused = u64::BITS - self.func.ty(value).bits();
        for &(lane, bits) in bits {
            let number = (bits << n_unused) as i64 >> n_unused;
            if !(least..=most).contains(&number) {
                return Err(format!(
                    "{value} is {number} for lane {lane}, outside of {least} to {most}"
                ));
            }
        }
        Ok(())
    }
}

/// Whether a lane's bits are what they should be; an index that may have wrapped puts them one wrap
/// away.
fn is_at(variability: Variability, bits: u64, expected: u64, ty: Type) -> bool {
    let distance = bits.wrapping_sub(expected) & ty.mask();
    match variability.may_wrap() {
        None => distance == 0,
        Some(MayWrap { scale, .. }) => {
            let wrap = (scale as u64) << 32;
            distance == 0 || distance == wrap || distance == wrap.wrapping_neg()
        }
    }
}
