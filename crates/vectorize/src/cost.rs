//! All prices by which passes decide, and all bounds on what they search and copy. Those of the
//! gang width are in `codegen` (`gang.rs`, `weigh.rs`), where the target is known.

/// A bound on code size: no more than this is copied for one version.
pub(crate) struct Copied {
    pub insts: usize,
    pub blocks: usize,
}

// How far definitions are followed. Each step can branch, so a bound on depth bounds compile time;
// compilers rarely put more than a few operations between the values that matter.

/// To the thread numbers, parameters and constants that a value is computed from.
pub(crate) const DEPTH_TO_RECOMPUTE: u32 = 8;
/// From an address to its index: an extension, a shift and a sum, in some order.
pub(crate) const DEPTH_OF_ADDRESS: u32 = 5;
/// Conditions, through `and`, `or` and `not`.
pub(crate) const DEPTH_OF_CONDITION: u32 = 4;
/// To the comparisons of which a condition is made, and to the operands of these: tests of three
/// dimensions join six in sequence.
pub(crate) const DEPTH_OF_TESTS: u32 = 12;
/// From an index to what may wrap.
pub(crate) const DEPTH_OF_INDEX: u32 = 6;
/// To a value whose distance between lanes is known.
pub(crate) const DEPTH_OF_STRIDE: u32 = 12;
/// To values with known bounds.
pub(crate) const DEPTH_OF_RANGE: u32 = 8;
/// To the powers of two among the terms of sums of products.
pub(crate) const DEPTH_OF_MULTIPLE: u32 = 16;
/// From a value to the parameter of its loop. Unrolled code adds up step by step.
pub(crate) const DEPTH_OF_STEP: u32 = 24;
/// Steps with more terms take longer to compute than they save.
pub(crate) const MOST_TERMS_OF_STEP: usize = 16;

// Masked loads.

/// The test whether a lane loads, in operations; the load itself is as cheap as one.
pub(crate) const COST_OF_MASKED_LOAD: u32 = 3;
/// Operations that lanes may execute for nothing on the sides of a branch. Masks for a side of
/// which some lanes run, and blends behind it, cost as much as some twenty: conversions between
/// bits and vectors, a test, and the selection of each lane.
pub(crate) const MOST_BESIDE_MASKED_LOADS: u32 = 24;
/// Values that differ between the sides.
pub(crate) const MOST_SELECTS: usize = 4;

// Planning.

/// Functions with more instructions are planned once, without assumptions that may have to be
/// withdrawn.
pub(crate) const MOST_TWICE: usize = 4000;

// Rematerialization.

/// A value that takes more operations per lane than this is saved.
pub(crate) const MOST_OPS_TO_RECOMPUTE: u32 = 6;
/// The cost of saving and restoring a value, in operations.
pub(crate) const COST_OF_WAIT: u32 = 2;

// Divergence.

/// A bound on compile time: the search for the edges that meet at one block visits no more nodes.
/// The bodies of conditions and unrolled loops have fewer.
pub(crate) const MOST_VISITS_TO_MEET: usize = 500;

// Scalarization.

/// An instruction in a loop counts this much more than one outside: a typical trip count.
pub(crate) const PER_LOOP: usize = 8;
/// Loops nested deeper than this count no more: irreducible control flow can nest hundreds.
pub(crate) const MOST_LOOPS: u32 = 8;
/// A region may hold this many instructions outside of its loops, and one more for this much weight
/// of the loops.
pub(crate) const AROUND_LOOPS: usize = 24;
pub(crate) const PER_AROUND: usize = 4;
/// A gather outweighs this many arithmetic instructions; an access to the thread's own memory
/// outweighs fewer. Of other memory, the lanes of a gang wait together for cache misses.
pub(crate) const PER_ACCESS: usize = 5;
pub(crate) const PER_OWN_ACCESS: usize = 6;

// Speculation.

pub(crate) const COPIED_FOR_TRIP_COUNTS: Copied = Copied {
    insts: 300,
    blocks: 64,
};
/// A bound on compile time: in one function this many branches are considered.
pub(crate) const MOST_BRANCHES: usize = 32;
/// Less than for trip counts: a loop runs its copy often, an index is computed once.
pub(crate) const COPIED_FOR_NO_WRAP: Copied = Copied {
    insts: 200,
    blocks: 32,
};
/// Per function, this many blocks get versions, and this many indices are tested for each: a bound
/// on code size.
pub(crate) const MOST_STARTS: usize = 8;
pub(crate) const MOST_SITES: usize = 6;
/// Quotients that change within this many gangs step in the copy: of longer stretches, most gangs
/// have one quotient alone.
pub(crate) const GANGS_PER_STEP: u64 = 4;
/// A guard that tests more values than this costs more than the version gains.
pub(crate) const MOST_INPUTS: usize = 6;
/// A value with more definitions than these behind it counts as unstable, or as another one in each
/// CTA, which bounds the search.
pub(crate) const MOST_DEFINITIONS: usize = 64;

// Memory.

/// Bytes of a cache line.
pub(crate) const LINE: u32 = 64;
/// Distant places that a gang should access in one strip: enough to outweigh saving and restoring
/// its live values, few enough for their lines to stay in the second-level cache until the last
/// gang has run its strip.
pub(crate) const PLACES_PER_STRIP: u32 = 32;
/// Cache lines that it should fetch in one strip of a grid-stride loop. The step is nearly always a
/// multiple of 4 KB, so that the lines of all iterations compete for the 8 to 12 ways of one set,
/// while those of one iteration, side by side, have sets of their own. What is fetched ahead for
/// the next gang must still be there when that runs.
pub(crate) const LINES_PER_GRID_STRIP: u32 = 16;
/// Neighboring lanes at most this many bytes from each other share lines and pages.
pub(crate) const NEAR_LANES: u64 = 32;
/// A step of this many bytes or more leaves nothing of a line for the next iteration.
pub(crate) const FAR_STEP: u64 = 512;
/// More live vectors per lane than this cost more to save and restore than a strip gains.
pub(crate) const MOST_HELD: usize = 6;
/// The last of several stores to be merged may be this many instructions behind the first.
pub(crate) const MOST_BETWEEN: usize = 64;
/// A gang that accesses fewer bytes than this gets no hint: a hint costs as much as the access.
pub(crate) const LEAST_PREFETCHED: u32 = 32;
/// A scattered lane that loads fewer bytes than this gets no hint: it takes as many hints as lines.
pub(crate) const LEAST_PREFETCHED_OF_LANE: u32 = 16;

/// Hints of a kind in a function, about: what has more is no code that streams through memory.
pub(crate) const MOST_HINTS: usize = 1000;

/// Addresses are compared as sums of at most about so many terms, found through so many
/// instructions one behind the other: few have more.
pub(crate) const MOST_TERMS: usize = 8;
pub(crate) const DEPTH_OF_SUM: u32 = 16;

// Progress.

/// An iteration of a loop that only reads memory costs one; an iteration of any other loop costs
/// this much, since it disturbs other threads more.
pub(crate) const SPIN_COST: u32 = 16;

/// Rounds in which branches that lie in each other and reconverge in one place get a place of their
/// own, the outermost first; code in use needs three.
pub(crate) const MOST_NESTED_JOINS: usize = 8;

/// Pairs of a branch and a wait that are compared in such a round. Code in use has some ten
/// thousand.
pub(crate) const MOST_BRANCHES_AND_WAITS: usize = 1 << 20;
