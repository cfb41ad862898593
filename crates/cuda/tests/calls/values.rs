//! Arguments: what a call gets for each of its parameters.
//!
//! Mostly what the parameter is for, so that calls get past their checks; sometimes what was
//! destroyed, what belongs elsewhere, what lies at a limit, or garbage.

use std::collections::HashMap;
use std::ffi::c_void;

use parking_lot::Mutex;

use crate::images::{self, NAMES};
use crate::layouts::{self, Field};
use crate::memory::Scratch;
use crate::rng::Rng;

/// What all threads of a process share.
pub(crate) struct World {
    /// Handles and addresses that calls gave, by type; what was destroyed stays.
    pools: Mutex<HashMap<String, Vec<u64>>>,
    read_only: u64,
    /// Paths of files, as strings of C.
    paths: Vec<Vec<u8>>,
    /// Functions for calls that take one: one for streams and hosts, and one for block sizes.
    functions: [*const c_void; 2],
}

// SAFETY: the pointers are addresses of code.
unsafe impl Sync for World {}

// SAFETY: as above.
unsafe impl Send for World {}

/// How many handles of a type are remembered; the latest replace any.
const POOL: usize = 40;

impl World {
    /// A world without handles.
    pub(crate) fn new(read_only: u64, paths: Vec<Vec<u8>>, functions: [*const c_void; 2]) -> World {
        let pools = Mutex::default();
        World {
            pools,
            read_only,
            paths,
            functions,
        }
    }

    /// Remembers what a call gave.
    pub(crate) fn remember(&self, ty: &str, value: u64, rng: &mut Rng) {
        let mut pools = self.pools.lock();
        let pool = pools.entry(ty.to_owned()).or_default();
        match pool.len() < POOL {
            true => pool.push(value),
            false => pool[rng.below(POOL)] = value,
        }
    }

    /// The latest handle of a type.
    pub(crate) fn latest(&self, ty: &str) -> Option<u64> {
        self.pools.lock().get(ty)?.last().copied()
    }

    fn any(&self, ty: &str, rng: &mut Rng) -> Option<u64> {
        let pools = self.pools.lock();
        let pool = pools.get(ty).filter(|pool| !pool.is_empty())?;
        // The latest handles are those that still mean something.
        let back = rng.below(pool.len()).min(rng.below(pool.len()));
        Some(pool[pool.len() - 1 - back])
    }

    /// A handle of any type.
    fn foreign(&self, rng: &mut Rng) -> u64 {
        let pools = self.pools.lock();
        let mut types: Vec<&String> = pools.keys().collect();
        types.sort();
        if types.is_empty() {
            return 0;
        }
        let pool = &pools[rng.pick(&types)];
        rng.pick(pool)
    }
}

/// The arguments of a call, in the form of C's calls: numbers and floats go separate ways.
#[derive(Default, Debug)]
pub(crate) struct Arguments {
    /// Numbers and addresses.
    pub(crate) words: Vec<u64>,
    /// Floats.
    pub(crate) floats: Vec<f32>,
    /// Places for results, with what they are of.
    pub(crate) results: Vec<(u64, String)>,
}

/// What makes arguments for one thread.
pub(crate) struct Maker<'a> {
    /// What threads share.
    pub(crate) world: &'a World,
    /// This thread's pages.
    pub(crate) scratch: &'a Scratch,
    /// This thread's numbers.
    pub(crate) rng: Rng,
}

impl Maker<'_> {
    /// Arguments for a call.
    pub(crate) fn arguments(&mut self, function: &str, parameters: &[(&str, &str)]) -> Arguments {
        let mut all = Arguments::default();
        // An image comes with its size.
        let mut image_size = None;
        for &(name, ty) in parameters {
            if ty == "f32" {
                all.floats
                    .push(self.rng.pick(&[0.0, -1.5, 1e30, f32::NAN, f32::INFINITY]));
                continue;
            }
            let word = match (name, ty) {
                ("size" | "count", _) if image_size.is_some() => image_size.take().unwrap_or(0),
                ("path", _) => self.path(),
                ("image" | "code", "HostPtr") => self.image().0,
                ("data", "HostPtr") if function.starts_with("cuLinkAddData") => {
                    let (address, size) = self.image();
                    image_size = Some(size as u64);
                    address
                }
                ("function" | "destroy", "HostPtr")
                | (_, "CUstreamCallback" | "CUlogsCallback") => self.function(0),
                (_, "CUoccupancyB2DSize") => self.function(1),
                ("name", "HostPtr") => self.name(),
                _ => self.argument(function, (name, ty), &mut all),
            };
            all.words.push(word);
        }
        all
    }

    fn argument(&mut self, function: &str, (name, ty): (&str, &str), all: &mut Arguments) -> u64 {
        let kind = self.rng.below(14);
        if let Some(fields) = layouts::find(function, name, ty, kind) {
            return self.structure(&fields, kind);
        }
        if let Some(of) = ty
            .strip_prefix("Out<")
            .and_then(|rest| rest.strip_suffix('>'))
        {
            return self.place(of, all);
        }
        match ty {
            "HostPtr" => self.host(),
            "CUdeviceptr" => self.device(),
            "u64" if name == "address" || name == "to" || name == "from" => self.device(),
            "usize" | "u64" => self.size(),
            "u8" | "u16" | "u32" | "i32" | "CUresult" | "CUdevice" => self.small(),
            _ if ty.starts_with("In<") => self.list(),
            _ if self.is_handle(ty) => self.handle(ty),
            _ => self.small(),
        }
    }

    fn is_handle(&self, ty: &str) -> bool {
        const OTHERS: [&str; 8] = [
            "CUmodule",
            "CUfunction",
            "CUlibrary",
            "CUkernel",
            "CUcontext",
            "CUstream",
            "CUevent",
            "CUlinkState",
        ];
        const MORE: [&str; 11] = [
            "CUgraph",
            "CUgraphNode",
            "CUgraphExec",
            "CUmemoryPool",
            "CUarray",
            "CUuserObject",
            "CUmipmappedArray",
            "CUtexref",
            "CUtexObject",
            "CUsurfObject",
            "CUmemGenericAllocationHandle",
        ];
        OTHERS.contains(&ty) || MORE.contains(&ty)
    }

    /// A place for a result, with something in it.
    fn place(&mut self, of: &str, all: &mut Arguments) -> u64 {
        if self.rng.chance(8) {
            return self.wild();
        }
        let slot = self.scratch.slot();
        let words: Vec<u64> = (0..32).map(|_| self.rng.below(5) as u64).collect();
        self.scratch.put(slot, &words);
        all.results.push((slot, of.to_owned()));
        slot
    }

    fn structure(&mut self, fields: &[Field], kind: usize) -> u64 {
        // A list of addresses is itself what the parameter points to.
        match fields {
            [Field::Arguments] => return self.kernel_arguments(),
            [Field::Extra] => return self.extra(),
            _ => {}
        }
        let address = self.scratch.slot();
        let mut bytes = Vec::new();
        for &field in fields {
            self.field(field, &mut bytes);
        }
        let is_node = fields[..4.min(fields.len())] == [Field::Zero; 4];
        if is_node {
            bytes[0] = kind as u8;
        }
        // What stands for a function stays one.
        let is_safe = !is_node && !fields.contains(&Field::Function);
        if is_safe && self.rng.chance(20) {
            let at = self.rng.below(bytes.len() / 8 + 1) * 8;
            let word = self.wild().to_ne_bytes();
            bytes.truncate(at);
            bytes.extend(word);
        }
        self.scratch.put(address, &[0; 48]);
        self.scratch.put_bytes(address, &bytes);
        match self.rng.chance(5) {
            true => self.rng.pick(&[0, 8, u64::MAX, 0xdead_beef_dead_beef]),
            false => address,
        }
    }

    fn field(&mut self, field: Field, bytes: &mut Vec<u8>) {
        let word = match field {
            Field::Small => return bytes.extend((self.small() as u32).to_ne_bytes()),
            Field::Dimension => return bytes.extend((self.dimension() as u32).to_ne_bytes()),
            Field::Zero => return bytes.extend([0; 4]),
            Field::Size => self.size(),
            Field::Device => self.device(),
            Field::Host => self.host(),
            Field::List => self.list(),
            Field::Handle(ty) => self.handle(ty),
            Field::Function => self.function(0),
            Field::Arguments => self.kernel_arguments(),
            Field::Extra => self.extra(),
        };
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes.extend(word.to_ne_bytes());
    }

    /// The addresses of some arguments, or none.
    fn kernel_arguments(&mut self) -> u64 {
        if self.rng.chance(30) {
            return self.rng.pick(&[0, 0, 0, 16, u64::MAX]);
        }
        let list = self.scratch.slot();
        let values: Vec<u64> = (0..8).map(|_| self.word()).collect();
        let places: Vec<u64> = values
            .iter()
            .map(|&value| match self.rng.chance(95) {
                true => {
                    let place = self.scratch.slot();
                    self.scratch.put(place, &[value, 64]);
                    place
                }
                false => self.wild(),
            })
            .collect();
        self.scratch.put(list, &places);
        list
    }

    /// Where a buffer of arguments is and how large, or nothing.
    fn extra(&mut self) -> u64 {
        if self.rng.chance(60) {
            return 0;
        }
        let [list, buffer, size] = [(); 3].map(|()| self.scratch.slot());
        let words: Vec<u64> = (0..16).map(|_| self.word()).collect();
        self.scratch.put(buffer, &words);
        self.scratch
            .put(size, &[self.rng.pick(&[0, 4, 12, 16, 128, 1 << 36])]);
        let keys = [1, buffer, 2, size, 0];
        let count = self.rng.pick(&[5, 5, 5, 3, 1]);
        self.scratch.put(list, &keys[..count]);
        list
    }

    /// The address of words, which may mean anything.
    fn list(&mut self) -> u64 {
        if self.rng.chance(10) {
            return self.wild();
        }
        let words: Vec<u64> = (0..32).map(|_| self.word()).collect();
        let address = match self.rng.chance(90) {
            true => self.scratch.slot(),
            false => self.scratch.before_end(8 * self.rng.below(4)),
        };
        self.scratch.put(address, &words);
        address
    }

    fn word(&mut self) -> u64 {
        match self.rng.below(8) {
            0 => self.size(),
            1 => self.device(),
            2 => self.small() | self.small() << 32,
            3 => self.world.foreign(&mut self.rng),
            4 => self.scratch.slot(),
            5 => self.wild(),
            _ => self.rng.below(300) as u64,
        }
    }

    fn handle(&mut self, ty: &str) -> u64 {
        if self.rng.chance(15) {
            return match self.rng.below(3) {
                0 => self.world.foreign(&mut self.rng),
                1 => self.wild(),
                _ => self.rng.below(4) as u64,
            };
        }
        let any = self.world.any(ty, &mut self.rng);
        any.unwrap_or_else(|| self.rng.below(3) as u64)
    }

    fn device(&mut self) -> u64 {
        let offset = self.rng.pick(&[0, 0, 0, 1, 4, 255, 256, 1 << 20]);
        match self.rng.below(10) {
            0..7 => self
                .world
                .any("CUdeviceptr", &mut self.rng)
                .map_or(0, |address| address.wrapping_add(offset)),
            7 => self.scratch.slot(),
            8 => self.scratch.pages().0,
            _ => self.wild(),
        }
    }

    fn host(&mut self) -> u64 {
        match self.rng.below(10) {
            0 => self.device(),
            1 => self.wild(),
            2 => self.scratch.before_end(self.rng.below(16)),
            _ => self.list(),
        }
    }

    fn size(&mut self) -> u64 {
        match self.rng.below(12) {
            0 => self.rng.pick(&[
                0,
                1 << 31,
                1 << 32,
                1 << 36,
                u64::MAX,
                u64::MAX - 7,
                1 << 63,
            ]),
            1 => self
                .rng
                .pick(&[4095, 4096, 4097, 65535, 65536, 2 << 20, 32 << 20]),
            2 => self.rng.pick(&[511, 512, 1024, 1 << 20, (2 << 20) + 1]),
            _ => self.rng.below(65) as u64,
        }
    }

    fn small(&mut self) -> u64 {
        match self.rng.below(16) {
            0 => self
                .rng
                .pick(&[0xffff_ffff, 0x8000_0000, 0x7fff_ffff, 1 << 16, 1 << 10]),
            1 => self.rng.below(200) as u64,
            2..6 => self.rng.below(20) as u64,
            6..10 => self.rng.pick(&[0, 1, 2, 4, 8, 16, 32]),
            _ => self.rng.below(4) as u64,
        }
    }

    fn dimension(&mut self) -> u64 {
        match self.rng.chance(95) {
            true => 1 + self.rng.below(3) as u64,
            false => self.rng.pick(&[0, 64, 1024, 1025, 65536, 0x8000_0000]),
        }
    }

    /// An address where nothing can be written, or a number that is none.
    fn wild(&mut self) -> u64 {
        match self.rng.below(10) {
            0..3 => 0,
            3 => self.scratch.behind(&mut self.rng),
            4 => self.world.read_only + self.rng.below(4096) as u64,
            5 => u64::MAX - self.rng.below(16) as u64,
            6 => 0xdead_beef_dead_beef,
            7 => 0xffff_8000_0000_0000,
            8 => self.rng.below(4096) as u64,
            _ => self.world.foreign(&mut self.rng),
        }
    }

    fn function(&mut self, which: usize) -> u64 {
        match self.rng.chance(90) {
            true => self.world.functions[which] as u64,
            false => 0,
        }
    }

    fn name(&mut self) -> u64 {
        if self.rng.chance(10) {
            return self.wild();
        }
        let name = self.rng.pick(NAMES);
        let bytes = [name.as_bytes(), b"\0"].concat();
        let address = match self.rng.chance(80) {
            true => self.scratch.slot(),
            false => self.scratch.before_end(name.len() + self.rng.below(2)),
        };
        self.scratch.put_bytes(address, &bytes);
        address
    }

    fn path(&mut self) -> u64 {
        if self.rng.chance(10) {
            return self.rng.pick(&[0, 8, u64::MAX, 0xdead_beef_dead_beef]);
        }
        let at = self.rng.below(self.world.paths.len());
        let address = self.scratch.slot();
        self.scratch.put_bytes(address, &self.world.paths[at]);
        address
    }

    fn image(&mut self) -> (u64, usize) {
        if self.rng.chance(5) {
            return (self.wild(), self.size() as usize);
        }
        let (address, size) = images::put(self.scratch, &mut self.rng);
        match self.rng.chance(90) {
            true => (address, size),
            false => (address, self.size() as usize),
        }
    }
}
