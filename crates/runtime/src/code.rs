//! The code of a launch.
//!
//! Mostly the lanes of each gang stay together from one wait to the next, and code that knows no
//! other case is shorter. Where they do not, another compiled form of the kernel goes on from the
//! same slots: it is made when it is first needed.

use std::sync::{Arc, OnceLock};

use ptxjit_abi::CompiledKernel;
use ptxjit_ir::SrcLoc;

use crate::error::LaunchError;
use crate::launch::{LaunchDesc, MakeCode};

/// What gangs of a launch are entered with.
pub(crate) struct Code {
    kernel: Arc<CompiledKernel>,
    /// The form for some lanes of a gang, once there is one.
    some_lanes: OnceLock<Result<Arc<CompiledKernel>, String>>,
    make: Option<Arc<MakeCode>>,
}

impl Code {
    pub(crate) fn new(launch: &LaunchDesc) -> Code {
        Code {
            kernel: launch.kernel.clone(),
            some_lanes: OnceLock::new(),
            make: launch.for_some_lanes.clone(),
        }
    }

    /// The form to enter gangs with of which some lanes go on by themselves.
    pub(crate) fn for_some_lanes(&self) -> Result<&CompiledKernel, LaunchError> {
        let made = self.some_lanes.get_or_init(|| self.make()).as_ref();
        made.map(|code| &**code)
            .map_err(|why| LaunchError::Code(why.clone()))
    }

    fn make(&self) -> Result<Arc<CompiledKernel>, String> {
        let make = self.make.as_ref();
        let code = make.ok_or("it is compiled for whole gangs only")?()?;
        if code.whole_gangs || !code.is_alike(&self.kernel) {
            return Err("its two forms differ".to_owned());
        }
        Ok(code)
    }

    /// Where in the PTX a pc is that lies in any form.
    pub(crate) fn loc_of(&self, pc: usize) -> Option<SrcLoc> {
        let other = self.some_lanes.get().and_then(|made| made.as_ref().ok());
        let forms = [Some(&self.kernel), other];
        forms.into_iter().flatten().find_map(|code| code.loc_of(pc))
    }
}
