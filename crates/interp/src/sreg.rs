//! Values of the special registers.

use ptxjit_ir::SpecialReg;

use crate::launch::Machine;
use crate::schedule::Env;
use crate::thread::Thread;

const WARP: u32 = 32;

impl Machine<'_, '_> {
    /// A special register as `thread` reads it.
    pub(crate) fn sreg(&mut self, env: &Env, thread: &Thread<'_>, sreg: SpecialReg) -> u64 {
        let launch = self.launch;
        let cluster = launch.cluster_shape();
        let lane = thread.linear % WARP;
        let value: u32 = match sreg {
            SpecialReg::TidX => thread.tid[0],
            SpecialReg::TidY => thread.tid[1],
            SpecialReg::TidZ => thread.tid[2],
            SpecialReg::NtidX => launch.block[0],
            SpecialReg::NtidY => launch.block[1],
            SpecialReg::NtidZ => launch.block[2],
            SpecialReg::CtaidX => env.ctaid[0],
            SpecialReg::CtaidY => env.ctaid[1],
            SpecialReg::CtaidZ => env.ctaid[2],
            SpecialReg::NctaidX => launch.grid[0],
            SpecialReg::NctaidY => launch.grid[1],
            SpecialReg::NctaidZ => launch.grid[2],
            SpecialReg::LaneId => lane,
            SpecialReg::WarpId => thread.linear / WARP,
            SpecialReg::NwarpId => env.n_threads.div_ceil(WARP),
            SpecialReg::SmId => 0,
            SpecialReg::NsmId => 1,
            SpecialReg::GridId => return launch.grid_id,
            SpecialReg::IsExplicitCluster => u32::from(launch.has_clusters()),
            SpecialReg::ClusterIdX => env.ctaid[0] / cluster[0],
            SpecialReg::ClusterIdY => env.ctaid[1] / cluster[1],
            SpecialReg::ClusterIdZ => env.ctaid[2] / cluster[2],
            SpecialReg::NclusterIdX => launch.grid[0].div_ceil(cluster[0]),
            SpecialReg::NclusterIdY => launch.grid[1].div_ceil(cluster[1]),
            SpecialReg::NclusterIdZ => launch.grid[2].div_ceil(cluster[2]),
            SpecialReg::ClusterCtaIdX => self.cluster_ctaid(env)[0],
            SpecialReg::ClusterCtaIdY => self.cluster_ctaid(env)[1],
            SpecialReg::ClusterCtaIdZ => self.cluster_ctaid(env)[2],
            SpecialReg::ClusterNctaIdX => cluster[0],
            SpecialReg::ClusterNctaIdY => cluster[1],
            SpecialReg::ClusterNctaIdZ => cluster[2],
            SpecialReg::ClusterCtaRank => env.rank,
            SpecialReg::ClusterNctaRank => cluster.iter().product(),
            SpecialReg::LanemaskEq => 1 << lane,
            SpecialReg::LanemaskLt => (1 << lane) - 1,
            SpecialReg::LanemaskLe => u32::MAX >> (31 - lane),
            SpecialReg::LanemaskGe => u32::MAX << lane,
            SpecialReg::LanemaskGt => (u32::MAX << lane) & !(1 << lane),
            SpecialReg::Clock => self.host.clock() as u32,
            SpecialReg::ClockHi => (self.host.clock() >> 32) as u32,
            SpecialReg::Clock64 => return self.host.clock(),
            SpecialReg::GlobalTimer => return self.host.global_timer(),
            SpecialReg::GlobalTimerLo => self.host.global_timer() as u32,
            SpecialReg::GlobalTimerHi => (self.host.global_timer() >> 32) as u32,
            SpecialReg::Envreg(idx) => launch.envreg.get(usize::from(idx)).copied().unwrap_or(0),
            SpecialReg::TotalSmemSize | SpecialReg::AggrSmemSize => {
                (self.layout.static_size + launch.dynamic_shared).next_multiple_of(128)
            }
            SpecialReg::DynamicSmemSize => launch.dynamic_shared,
            SpecialReg::Pm(_) | SpecialReg::CurrentGraphExec => 0,
        };
        value.into()
    }

    fn cluster_ctaid(&self, env: &Env) -> [u32; 3] {
        std::array::from_fn(|dim| env.ctaid[dim] % self.launch.cluster_shape()[dim])
    }
}
