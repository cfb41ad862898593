//! Inputs in depth: images, what is linked, tensor maps. Random calls reach little of what stands
//! behind the first check of an input, so each of these batches loads, links or encodes many, and
//! uses what comes out.
//!
//! What was not damaged must work, or the batch tries nothing but refusals; of what was damaged
//! only a crash, a hang, a panic and `CUDA_ERROR_UNKNOWN` are findings.

mod damage;
mod links;
mod loads;
mod maps;

use std::cell::Cell;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use crate::Kind;
use crate::child::{self, FOUND};
use crate::memory::Scratch;
use crate::rng::Rng;

/// Inputs per batch: a process, whose start takes some milliseconds, is used for many; and a
/// batch of inputs that all run into the time limit ends well before the batch's own.
const ROUNDS: usize = 60;

/// Bytes of the buffer on the device that kernels may use.
const BUFFER: u64 = 1 << 20;

const UNKNOWN: u32 = 999;

/// Runs the batch that `seed` names in `folder`, and ends the process.
pub(crate) fn run(kind: Kind, seed: u64, folder: &Path) -> ! {
    std::env::set_current_dir(folder).expect("the folder exists");
    let mut session = Session::new(folder);
    let mut rng = Rng::new(seed);
    for _ in 0..ROUNDS {
        match kind {
            Kind::Images => loads::round(&mut session, &mut rng),
            Kind::Links => links::round(&mut session, &mut rng),
            Kind::Maps => maps::round(&mut session, &mut rng),
            Kind::Calls => unreachable!("calls have batches of their own"),
        }
    }
    std::process::exit(0);
}

/// A context and a buffer in it, and the log.
struct Session {
    scratch: Scratch,
    /// For the input, which no other argument may overwrite.
    pages: Scratch,
    log: File,
    context: u64,
    buffer: u64,
    /// Linking gives `CUDA_ERROR_UNKNOWN` for names that are missing.
    may_be_unknown: Cell<bool>,
}

impl Session {
    fn new(folder: &Path) -> Session {
        let log = File::create(folder.join("log")).expect("the folder can be written");
        let mut session = Session {
            scratch: Scratch::new(),
            pages: Scratch::new(),
            log,
            context: 0,
            buffer: 0,
            may_be_unknown: Cell::new(false),
        };
        session.expect("cuInit", &[0]);
        session.renew();
        session
    }

    /// Makes a context and a buffer, in place of those that there are.
    fn renew(&mut self) {
        if self.context != 0 {
            self.expect("cuCtxDestroy_v2", &[self.context]);
        }
        let out = self.scratch.slot();
        self.expect("cuCtxCreate_v2", &[out, 0, 0]);
        self.context = self.word(out);
        self.expect("cuMemAlloc_v2", &[out, BUFFER]);
        self.buffer = self.word(out);
    }

    /// Calls a function, and gives its code.
    fn call(&self, name: &str, words: &[u64]) -> u32 {
        let listed: Vec<String> = words.iter().map(|word| format!("{word:#x}")).collect();
        self.say(&format!("{name}({})\n", listed.join(", ")));
        let code = child::invoke(child::find(name), words, &[]);
        self.say(&format!("  = {code}\n"));
        if code > UNKNOWN || code == UNKNOWN && !self.may_be_unknown.get() {
            self.found(&format!("{name} gave {code}"));
        }
        code
    }

    /// Calls a function that must succeed.
    fn expect(&self, name: &str, words: &[u64]) {
        let code = self.call(name, words);
        if code != 0 {
            self.found(&format!("{name} gave {code}, and nothing was damaged"));
        }
    }

    /// Waits for the device. After a fault there is another context, and the result is false.
    fn synchronize(&mut self) -> bool {
        let code = self.call("cuCtxSynchronize", &[]);
        if code == 0 {
            return true;
        }
        if !(700..720).contains(&code) {
            self.found(&format!("cuCtxSynchronize gave {code}"));
        }
        self.renew();
        false
    }

    /// What lies on the device.
    fn read(&self, address: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let to = bytes.as_mut_ptr().expose_provenance() as u64;
        self.expect("cuMemcpyDtoH_v2", &[to, address, len as u64]);
        bytes
    }

    /// A string of C.
    fn string(&self, text: &str) -> u64 {
        let address = self.scratch.slot();
        self.scratch
            .put_bytes(address, &[text.as_bytes(), b"\0"].concat());
        address
    }

    fn word(&self, at: u64) -> u64 {
        self.scratch.word(at).expect("the place is in the pages")
    }

    fn say(&self, line: &str) {
        (&self.log)
            .write_all(line.as_bytes())
            .expect("the log can be written");
    }

    fn found(&self, what: &str) -> ! {
        self.say(&format!("FOUND: {what}\n"));
        std::process::exit(FOUND);
    }
}
