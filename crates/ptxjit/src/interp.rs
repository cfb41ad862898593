//! Launches in the interpreter: global memory, heap, output and time as the interpreter asks for
//! them.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use ptxjit_abi::SymbolRef;
use ptxjit_codegen::Plan;
use ptxjit_device::texture::{Object, Registry};
use ptxjit_interp::{Host, Launch, Limits, MemFault, Memory, Turns, Watched};
use ptxjit_ir::{Program, RelocTarget, Space, VarId};
use ptxjit_runtime::{Arena, CancelToken, LaunchError, MemoryError, Pattern, PeerGuard, Runtime};

use crate::failure::Cause;
use crate::module::ModuleInner;
use crate::{Kernel, Options, Schedule, dry};

/// What is to be run, beside the kernel.
pub(crate) struct Request<'a> {
    pub(crate) params: &'a [u8],
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) cluster: Option<[u32; 3]>,
    pub(crate) shared: u32,
    pub(crate) cooperative: bool,
    pub(crate) peers: Option<&'a PeerGuard>,
    pub(crate) options: &'a Options,
    pub(crate) schedule: Schedule,
    pub(crate) replay: Option<&'a Turns>,
    /// The plan that gangs run by, of the program's one function.
    pub(crate) plan: Option<&'a Plan>,
}

/// Bytes of the workspace of grid-wide synchronisation, whose first word is its size.
const WORKSPACE_BYTES: u64 = 256;

/// Runs a launch: how it ended, and what else came of it.
pub(crate) fn run(
    kernel: &Kernel,
    program: &Program,
    request: &Request<'_>,
) -> (Result<(), Cause>, Watched) {
    match watched(kernel, program, request) {
        Ok(mut watched) => {
            let result = std::mem::replace(&mut watched.result, Ok(()));
            let result = result.map_err(|fault| Cause::Interp(Box::new(fault)));
            (result, watched)
        }
        Err(cause) => (Err(cause), Watched::default()),
    }
}

fn watched(kernel: &Kernel, program: &Program, request: &Request<'_>) -> Result<Watched, Cause> {
    let module = &kernel.module;
    let symbols = |target: RelocTarget| symbol(module, target).unwrap_or(0);
    if request.options.sanitize.mem {
        // Before any variable has its place.
        module.device.arena.prepare_checks()?;
    }
    // Asked once before the launch, so that what cannot be placed is an error and not a null
    // pointer.
    for (&id, var) in program
        .vars
        .iter()
        .filter(|(_, var)| matches!(var.space, Space::Global | Space::Const))
    {
        if !var.is_extern {
            symbol(module, RelocTarget::Var(id))?;
        }
    }
    let constants = constants(module, program)?;
    let const_vars = module.memory.const_vars();
    let arena = &module.device.arena;
    let workspace = if request.cooperative {
        Some(Block::new(
            arena,
            module.device.runtime.part(),
            WORKSPACE_BYTES,
        )?)
    } else {
        None
    };
    let mut envreg = [0; 32];
    if let Some(block) = &workspace {
        arena.fill(block.addr, Pattern::U8(0), WORKSPACE_BYTES)?;
        arena.write(block.addr, &(WORKSPACE_BYTES as u32).to_le_bytes())?;
        (envreg[1], envreg[2]) = ((block.addr >> 32) as u32, block.addr as u32);
    }
    let mut launch = Launch {
        cluster: request.cluster,
        dynamic_shared: request.shared,
        symbols: &symbols,
        const_base: constants.base,
        const_size: constants.bytes.len() as u64,
        const_vars: &const_vars,
        cooperative: request.cooperative,
        envreg,
        limits: Limits::default(),
        checks: request.options.sanitize,
        schedule: request.schedule.interpreted(0),
        records: request.options.record.is_some(),
        keeps_writes: request.options.keep_writes,
        replay: request.replay,
        plan: request.plan,
        ..Launch::new(program, request.grid, request.block, request.params)
    };
    let workspace_at = workspace.as_ref().map(|block| block.addr);
    let mut memory = Global {
        arena,
        part: module.device.part(),
        peers: request.peers,
        constants,
        workspace: workspace_at,
    };
    let mut host = LibraryHost {
        runtime: &module.device.runtime,
        textures: module.device.runtime.textures(),
        options: request.options,
        start: Instant::now(),
    };
    if let (Schedule::Pct { seed, depth: 2.. }, None) = (request.schedule, request.replay) {
        let points = dry::points(&launch, seed, &mut memory, &mut host);
        launch.schedule = request.schedule.interpreted(points);
    }
    Ok(ptxjit_interp::watched(&launch, &mut memory, &mut host))
}

/// What a name of the module stands for.
fn symbol(module: &ModuleInner, target: RelocTarget) -> Result<u64, LaunchError> {
    let symbol = match target {
        RelocTarget::Var(var) => SymbolRef::Var(var),
        RelocTarget::Func(func) => SymbolRef::Func(func),
    };
    Ok(module.memory.symbols(&[symbol])?[0])
}

/// Constant memory, which no kernel changes.
struct Constants {
    base: u64,
    bytes: Vec<u8>,
}

/// The module's constants, and those that are declared in functions of the program.
fn constants(module: &ModuleInner, program: &Program) -> Result<Constants, LaunchError> {
    let of_module = module.front.vars();
    let all = of_module.iter().map(|(id, var)| (id, var));
    let constants: BTreeSet<VarId> = all
        .chain(&program.vars)
        .filter(|(_, var)| var.space == Space::Const && !var.is_extern)
        .map(|(&id, _)| id)
        .collect();
    for &id in &constants {
        module.memory.var_range(id)?;
    }
    let range = module.memory.const_range();
    let mut bytes = vec![0; (range.end - range.start) as usize];
    for &id in &constants {
        let place = module.memory.var_range(id)?;
        let (start, end) = (
            (place.start - range.start) as usize,
            (place.end - range.start) as usize,
        );
        module.memory.read(id, 0, &mut bytes[start..end])?;
    }
    Ok(Constants {
        base: range.start,
        bytes,
    })
}

/// An allocation for the time of a launch.
struct Block<'a> {
    arena: &'a Arc<Arena>,
    addr: u64,
}

impl Block<'_> {
    fn new(arena: &Arc<Arena>, part: u32, size: u64) -> Result<Block<'_>, MemoryError> {
        Ok(Block {
            arena,
            addr: arena.alloc(part, size, 256)?,
        })
    }
}

impl Drop for Block<'_> {
    fn drop(&mut self) {
        // Allocated by `new`, freed only here.
        let _ = self.arena.free(self.addr);
    }
}

/// Global memory with exact bounds, and the constants.
struct Global<'a> {
    arena: &'a Arc<Arena>,
    /// The device's part of the arena, and what may be accessed in the others.
    part: u32,
    peers: Option<&'a PeerGuard>,
    constants: Constants,
    /// Written by the device itself.
    workspace: Option<u64>,
}

impl Global<'_> {
    /// Refuses bytes of another device that may not be accessed.
    fn check_peers(&self, addr: u64, len: usize) -> Result<(), MemFault> {
        let (Some(PeerGuard(allows)), Some(part)) = (self.peers, self.arena.part_of(addr)) else {
            return Ok(());
        };
        if part == self.part || allows(addr, len as u64) {
            return Ok(());
        }
        let (own, what) = (self.part, self.arena.describe(addr));
        let note = format!("memory of device {part}, which device {own} may not access: {what}");
        Err(MemFault::Forbidden(note))
    }
}

/// Memory that is no constant: of devices, or registered memory of the host.
impl Global<'_> {
    fn read(&self, addr: u64, bytes: &mut [u8]) -> Result<(), MemFault> {
        if !self.arena.contains(addr) && self.arena.read_registered(addr, bytes).is_some() {
            return Ok(());
        }
        self.check_peers(addr, bytes.len())?;
        self.arena.read(addr, bytes).map_err(refused)
    }

    fn write(&self, addr: u64, bytes: &[u8]) -> Result<(), MemFault> {
        if !self.arena.contains(addr) && self.arena.write_registered(addr, bytes).is_some() {
            return Ok(());
        }
        self.check_peers(addr, bytes.len())?;
        self.arena.write(addr, bytes).map_err(refused)
    }
}

fn refused(err: MemoryError) -> MemFault {
    match err {
        MemoryError::BadRange { note, .. } => MemFault::Forbidden(note),
        _ => MemFault::Unmapped,
    }
}

impl Memory for Global<'_> {
    fn load(&mut self, addr: u64, bytes: &mut [u8]) -> Result<(), MemFault> {
        let offset = addr.wrapping_sub(self.constants.base);
        if let Ok(offset) = usize::try_from(offset)
            && let Some(constant) = self
                .constants
                .bytes
                .get(offset..offset.saturating_add(bytes.len()))
        {
            bytes.copy_from_slice(constant);
            return Ok(());
        }
        self.read(addr, bytes)
    }

    fn store(&mut self, addr: u64, bytes: &[u8]) -> Result<(), MemFault> {
        self.write(addr, bytes)
    }

    fn update(
        &mut self,
        addr: u64,
        size: u32,
        update: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, MemFault> {
        let mut bytes = [0; 8];
        let element = &mut bytes[..size as usize];
        self.read(addr, element)?;
        let old = u64::from_le_bytes(bytes);
        let new = update(old).to_le_bytes();
        self.write(addr, &new[..size as usize])?;
        Ok(old)
    }

    fn allocation(&mut self, addr: u64) -> Option<(u64, u64)> {
        self.arena.range_of(addr)
    }

    fn states(&mut self, addr: u64, states: &mut [u8]) {
        match self.workspace {
            Some(start) if addr.wrapping_sub(start) < WORKSPACE_BYTES => states.fill(0),
            _ => self.arena.states(addr, states),
        }
    }

    fn set_states(&mut self, addr: u64, states: &[u8]) {
        self.arena.set_states(addr, states);
    }
}

struct LibraryHost<'a> {
    runtime: &'a Runtime,
    textures: &'a Registry,
    options: &'a Options,
    start: Instant,
}

impl Host for LibraryHost<'_> {
    fn print(&mut self, text: &[u8]) {
        match &self.options.output {
            Some(output) => output(text),
            // A reader that has gone away is no reason to stop the kernel.
            None => drop(std::io::stdout().write_all(text)),
        }
    }

    fn malloc(&mut self, size: u64) -> u64 {
        self.runtime.malloc(size)
    }

    fn free(&mut self, ptr: u64) -> Result<(), String> {
        self.runtime.free(ptr)
    }

    fn object(&mut self, handle: u64) -> Option<Arc<Object>> {
        self.textures.get(handle)
    }

    fn clock(&mut self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn cancelled(&mut self) -> bool {
        let cancel = self.options.cancel.as_ref();
        let timeout = self.options.timeout;
        cancel.is_some_and(CancelToken::is_cancelled)
            || timeout.is_some_and(|timeout| self.start.elapsed() >= timeout)
    }
}
