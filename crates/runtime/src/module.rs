//! A module's variables in device memory.
//!
//! A variable gets its place when a kernel or the host first asks for it, and keeps it: all kernels
//! of the module see the same address, and a module with a thousand unused variables costs nothing.
//! Initial contents are written at once, addresses of other variables included (which places those
//! as well).

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ptxjit_abi::SymbolRef;
use ptxjit_ir::{FuncId, Reloc, RelocTarget, Space, Var, VarId, VarInit};

use crate::error::LaunchError;
use crate::memory::{Arena, Pattern, Window};

/// Constant memory of a module: more than CUDA's, which has banks of 64 KB.
const CONST_CAPACITY: u64 = 15 << 20;

/// Between constant variables where accesses are checked exactly, so that one beyond the end of a
/// variable is in none.
const CONST_GAP: u64 = 64;

/// Bytes of a function's descriptor.
const DESCRIPTOR_BYTES: u64 = 16;

/// Where a module's variables are described.
pub trait VarSource: Send + Sync {
    /// The variable's description, none if there is no such number.
    fn var(&self, id: VarId) -> Option<Var>;
    /// Its initial contents.
    fn init(&self, id: VarId) -> Result<VarInit, String>;
    /// Whether it is managed, so that all devices have one copy.
    fn is_managed(&self, id: VarId) -> bool;
}

/// See the module.
pub struct ModuleMemory {
    arena: Arc<Arena>,
    /// The part of the arena in which its variables lie.
    part: u32,
    source: Box<dyn VarSource>,
    /// Where the managed variables lie, if not here: in the memory of the same module on the first
    /// device that it was loaded for.
    managed: Option<Arc<ModuleMemory>>,
    placed: Mutex<Placed>,
}

#[derive(Default)]
struct Placed {
    /// Generic addresses.
    vars: BTreeMap<VarId, Place>,
    functions: BTreeMap<FuncId, u64>,
    consts: Option<Window>,
    const_end: u64,
}

#[derive(Copy, Clone, Debug)]
struct Place {
    space: Space,
    /// Generic address of a `.global` variable, window offset of a `.const` one.
    addr: u64,
    size: u64,
    /// The memory that `managed` names has the variable.
    is_elsewhere: bool,
}

impl ModuleMemory {
    /// Variables for a device whose part of the arena is `part`. None has a place yet.
    pub fn new(arena: Arc<Arena>, part: u32, source: Box<dyn VarSource>) -> ModuleMemory {
        ModuleMemory {
            arena,
            part,
            source,
            managed: None,
            placed: Mutex::default(),
        }
    }

    /// Variables of the same module once more; managed ones are those of `first`.
    pub fn with_managed_of(mut self, first: Arc<ModuleMemory>) -> ModuleMemory {
        self.managed = Some(first);
        self
    }

    /// The values of a kernel's symbols; places what has no place.
    pub fn symbols(&self, symbols: &[SymbolRef]) -> Result<Vec<u64>, LaunchError> {
        self.values(&mut self.lock(), symbols)
    }

    fn values(&self, placed: &mut Placed, symbols: &[SymbolRef]) -> Result<Vec<u64>, LaunchError> {
        let value = |symbol: &SymbolRef| match *symbol {
            SymbolRef::Var(var) => Ok(self.place(placed, var)?.addr),
            SymbolRef::Func(func) => self.descriptor(placed, func),
        };
        symbols.iter().map(value).collect()
    }

    /// The values of a kernel's symbols, and [`ModuleMemory::const_range`] with all of them placed.
    pub(crate) fn bind(
        &self,
        symbols: &[SymbolRef],
    ) -> Result<(Vec<u64>, Range<u64>), LaunchError> {
        let mut placed = self.lock();
        let values = self.values(&mut placed, symbols)?;
        Ok((values, self.consts(&placed)))
    }

    /// Generic addresses of constant memory that is in use.
    pub fn const_range(&self) -> Range<u64> {
        self.consts(&self.lock())
    }

    /// Generic addresses of the constant variables that have a place, in ascending order.
    pub fn const_vars(&self) -> Vec<Range<u64>> {
        let placed = self.lock();
        let base = self.consts(&placed).start;
        let places = placed.vars.values();
        let mut vars: Vec<Range<u64>> = places
            .filter(|place| place.space == Space::Const)
            .map(|place| base + place.addr..base + place.addr + place.size)
            .collect();
        vars.sort_by_key(|var| var.start);
        vars
    }

    fn consts(&self, placed: &Placed) -> Range<u64> {
        let base = placed
            .consts
            .as_ref()
            .map_or(self.arena.null_window(), Window::base);
        base..base + placed.const_end
    }

    /// Generic address and size of a variable, for the host.
    pub fn var_range(&self, var: VarId) -> Result<Range<u64>, LaunchError> {
        let mut placed = self.lock();
        let place = self.place(&mut placed, var)?;
        let base = match place.space {
            Space::Const => placed.consts.as_ref().map_or(0, Window::base),
            Space::Global
            | Space::Generic
            | Space::Shared
            | Space::SharedCluster
            | Space::Local
            | Space::Param => 0,
        };
        Ok(base + place.addr..base + place.addr + place.size)
    }

    /// Sets bytes of a variable.
    pub fn write(&self, var: VarId, offset: u64, bytes: &[u8]) -> Result<(), LaunchError> {
        let mut placed = self.lock();
        let place = self.place(&mut placed, var)?;
        check_inside(place, offset, bytes.len() as u64)?;
        self.write_at(&mut placed, place, offset, bytes)
    }

    /// Reads bytes of a variable.
    pub fn read(&self, var: VarId, offset: u64, bytes: &mut [u8]) -> Result<(), LaunchError> {
        let mut placed = self.lock();
        let place = self.place(&mut placed, var)?;
        check_inside(place, offset, bytes.len() as u64)?;
        match (place.space, &placed.consts) {
            (Space::Const, Some(window)) => Ok(window.read(place.addr + offset, bytes)?),
            _ => Ok(self.arena.read(place.addr + offset, bytes)?),
        }
    }

    /// Places a variable and everything that its initial contents point at.
    fn place(&self, placed: &mut Placed, var: VarId) -> Result<Place, LaunchError> {
        if let Some(&place) = placed.vars.get(&var) {
            return Ok(place);
        }
        let mut fresh = Vec::new();
        let result = self.place_all(placed, var, &mut fresh);
        if result.is_err() {
            // Half-made variables must not be taken for good ones later.
            for var in fresh {
                if let Some(Place {
                    space: Space::Global,
                    addr,
                    ..
                }) = placed.vars.remove(&var)
                {
                    // Allocated a moment ago.
                    let _ = self.arena.free(addr);
                }
            }
        }
        result?;
        Ok(placed.vars[&var])
    }

    /// Initialisers may point at each other in circles: first places, then contents.
    fn place_all(
        &self,
        placed: &mut Placed,
        var: VarId,
        fresh: &mut Vec<VarId>,
    ) -> Result<(), LaunchError> {
        let mut inits: Vec<(Place, VarInit)> = Vec::new();
        let mut todo = VecDeque::from([var]);
        while let Some(var) = todo.pop_front() {
            if placed.vars.contains_key(&var) {
                continue;
            }
            if let Some(first) = &self.managed
                && self.source.is_managed(var)
            {
                let range = first.var_range(var)?;
                let place = Place {
                    space: Space::Global,
                    addr: range.start,
                    size: range.end - range.start,
                    is_elsewhere: true,
                };
                placed.vars.insert(var, place);
                continue;
            }
            let init = self.source.init(var).map_err(LaunchError::Invalid)?;
            let place = self.find_place(placed, var)?;
            placed.vars.insert(var, place);
            fresh.push(var);
            todo.extend(init.relocs.iter().filter_map(|reloc| match reloc.target {
                RelocTarget::Var(target) => Some(target),
                RelocTarget::Func(_) => None,
            }));
            inits.push((place, init));
        }
        for (place, init) in inits {
            let bytes = self.contents(placed, place, &init)?;
            self.write_at(placed, place, 0, &bytes)?;
        }
        Ok(())
    }

    /// Room for a variable.
    fn find_place(&self, placed: &mut Placed, id: VarId) -> Result<Place, LaunchError> {
        let no_such = || LaunchError::Invalid(format!("there is no variable {id}"));
        let var = self.source.var(id).ok_or_else(no_such)?;
        if var.is_extern {
            return Err(LaunchError::UnresolvedSymbol(var.name));
        }
        let (size, align) = (var.size, u64::from(var.align.max(1)).next_power_of_two());
        match var.space {
            Space::Global => {
                // Zeros are part of the meaning of a variable without initialiser.
                let addr = self.arena.alloc_aligned(self.part, size, align.max(16))?;
                self.arena.fill(addr, Pattern::U8(0), size)?;
                Ok(Place {
                    space: var.space,
                    addr,
                    size,
                    is_elsewhere: false,
                })
            }
            Space::Const => {
                let start = match self.arena.checks_accesses() && placed.const_end > 0 {
                    true => (placed.const_end + CONST_GAP).next_multiple_of(CONST_GAP),
                    false => placed.const_end,
                };
                let addr = start.next_multiple_of(align.max(4));
                let end = addr.checked_add(size).filter(|&end| end <= CONST_CAPACITY);
                let too_large = || {
                    LaunchError::Invalid(format!(
                        "constant memory is too large with `{}`",
                        var.name
                    ))
                };
                let end = end.ok_or_else(too_large)?;
                let window = match &mut placed.consts {
                    Some(window) => window,
                    none => none.insert(Window::new(&self.arena, CONST_CAPACITY)?),
                };
                if window.len() < end {
                    window.set_len(end)?;
                }
                placed.const_end = end;
                Ok(Place {
                    space: var.space,
                    addr,
                    size,
                    is_elsewhere: false,
                })
            }
            Space::Shared | Space::SharedCluster | Space::Local | Space::Param | Space::Generic => {
                Err(LaunchError::Invalid(format!(
                    "`{}` is in no state space that a module keeps",
                    var.name
                )))
            }
        }
    }

    /// The initial bytes of a variable.
    fn contents(
        &self,
        placed: &mut Placed,
        place: Place,
        init: &VarInit,
    ) -> Result<Vec<u8>, LaunchError> {
        let mut bytes = init.bytes.clone();
        let end = init
            .relocs
            .iter()
            .map(|reloc| reloc.offset + u64::from(reloc.size))
            .max()
            .unwrap_or(0);
        if (bytes.len() as u64).max(end) > place.size {
            return Err(LaunchError::Invalid(
                "an initialiser is larger than its variable".into(),
            ));
        }
        bytes.resize(bytes.len().max(end as usize), 0);
        for reloc in &init.relocs {
            let value = self.address(placed, reloc)? >> reloc.shift.min(63);
            let start = reloc.offset as usize;
            let size = usize::from(reloc.size).min(8);
            bytes[start..start + size].copy_from_slice(&value.to_le_bytes()[..size]);
        }
        Ok(bytes)
    }

    fn address(&self, placed: &mut Placed, reloc: &Reloc) -> Result<u64, LaunchError> {
        let addr = match reloc.target {
            RelocTarget::Func(func) => self.descriptor(placed, func)?,
            RelocTarget::Var(var) => {
                let place = self.place(placed, var)?;
                let base = match (place.space, reloc.generic) {
                    (Space::Const, true) => placed.consts.as_ref().map_or(0, Window::base),
                    _ => 0,
                };
                base + place.addr
            }
        };
        Ok(addr.wrapping_add_signed(reloc.addend))
    }

    /// Generic address of a function's descriptor.
    fn descriptor(&self, placed: &mut Placed, func: FuncId) -> Result<u64, LaunchError> {
        if let Some(&addr) = placed.functions.get(&func) {
            return Ok(addr);
        }
        let addr = self.arena.alloc_aligned(self.part, DESCRIPTOR_BYTES, 16)?;
        let number = u64::from(func.as_u32()) + 1;
        self.arena.write(addr, &number.to_le_bytes())?;
        self.arena.write(addr + 8, &[0; 8])?;
        placed.functions.insert(func, addr);
        Ok(addr)
    }

    fn write_at(
        &self,
        placed: &mut Placed,
        place: Place,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), LaunchError> {
        match (place.space, &mut placed.consts) {
            (Space::Const, Some(window)) => Ok(window.write(place.addr + offset, bytes)?),
            _ => Ok(self.arena.write(place.addr + offset, bytes)?),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Placed> {
        // Places are recorded after they were made, so what is recorded is good.
        self.placed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn check_inside(place: Place, offset: u64, len: u64) -> Result<(), LaunchError> {
    if len <= place.size && offset <= place.size - len {
        return Ok(());
    }
    Err(LaunchError::Invalid(format!(
        "{len} bytes at offset {offset} are not inside a variable of {} bytes",
        place.size
    )))
}

impl Drop for ModuleMemory {
    fn drop(&mut self) {
        let placed = self
            .placed
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        let globals = placed
            .vars
            .values()
            .filter(|place| place.space == Space::Global && !place.is_elsewhere)
            .map(|place| place.addr);
        for addr in globals.chain(placed.functions.values().copied()) {
            // Allocated by this module; a kernel that freed it has only itself to blame.
            let _ = self.arena.free(addr);
        }
    }
}

impl std::fmt::Debug for ModuleMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModuleMemory").finish_non_exhaustive()
    }
}
