//! The heuristics of the vectorizer: each can be switched off, and the plan counts how often each
//! acted.
//!
//! Results do not depend on them. `ptxjit dump --after vectorize` prints the counts, and snapshot
//! tests in `tests/passes/` have, for each heuristic, a kernel in which it must act and one in
//! which it must not.

use std::fmt;

/// A heuristic.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Heuristic {
    /// `prepare::masked_loads`: branches around loads become selects.
    MaskedLoads,
    /// `prepare::subword`: arithmetic with fewer bits.
    Subword,
    /// `speculate::no_wrap`: versions for gangs in which no index wraps.
    NoWrap,
    /// `speculate::trip_counts`: versions for gangs with one trip count.
    TripCounts,
    /// `speculate::groups`: loops over lanes that have one trip count.
    LaneGroups,
    /// `prepare::sign_tests`: signs of several values tested one by one.
    SignTests,
    /// `rematerialize::across_waits`: values computed again behind waits.
    AcrossWaits,
    /// `rematerialize::addresses`: addresses computed again where they are numbers.
    Addresses,
    /// `memory::merge_stores`: stores of neighboring words in one.
    MergeStores,
    /// `memory::strip_mine`: loops in which gangs are interleaved.
    StripMine,
    /// `memory::prefetch`: prefetches.
    Prefetch,
    /// `scalarize::single_lane`: regions that one lane runs.
    SingleLane,
    /// `scalarize::lane_loops`: regions that a lane loop runs.
    LaneLoops,
    /// `speculate::affine_inputs`: versions of blocks for affine inputs.
    AffineInputs,
    /// `speculate::strides`: addresses with a speculated stride.
    Strides,
    /// `decisions::cta_ranges` of the code generator: accesses whose addresses are tested once for
    /// all threads of a CTA.
    CtaRanges,
    /// `decisions::cta_branches` of the code generator: branches that are decided once for all
    /// threads of a CTA.
    CtaBranches,
}

impl Heuristic {
    /// All heuristics, in the order in which they act.
    pub const ALL: [Heuristic; 17] = [
        Heuristic::MaskedLoads,
        Heuristic::Subword,
        Heuristic::NoWrap,
        Heuristic::TripCounts,
        Heuristic::LaneGroups,
        Heuristic::SignTests,
        Heuristic::AcrossWaits,
        Heuristic::Addresses,
        Heuristic::MergeStores,
        Heuristic::StripMine,
        Heuristic::Prefetch,
        Heuristic::SingleLane,
        Heuristic::LaneLoops,
        Heuristic::AffineInputs,
        Heuristic::Strides,
        Heuristic::CtaRanges,
        Heuristic::CtaBranches,
    ];

    /// The name that `--passes` and the dump use.
    pub fn name(self) -> &'static str {
        match self {
            Heuristic::MaskedLoads => "masked-loads",
            Heuristic::Subword => "subword",
            Heuristic::NoWrap => "no-wrap",
            Heuristic::TripCounts => "trip-counts",
            Heuristic::LaneGroups => "lane-groups",
            Heuristic::SignTests => "sign-tests",
            Heuristic::AcrossWaits => "across-waits",
            Heuristic::Addresses => "addresses",
            Heuristic::MergeStores => "merge-stores",
            Heuristic::StripMine => "strip-mine",
            Heuristic::Prefetch => "prefetch",
            Heuristic::SingleLane => "single-lane",
            Heuristic::LaneLoops => "lane-loops",
            Heuristic::AffineInputs => "affine-inputs",
            Heuristic::Strides => "strides",
            Heuristic::CtaRanges => "cta-ranges",
            Heuristic::CtaBranches => "cta-branches",
        }
    }
}

/// Which heuristics may act; by default all of them.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Switches {
    /// A bit for each heuristic that is off, by its position in [`Heuristic::ALL`].
    off: u32,
}

impl Switches {
    /// Parses `-NAME,-NAME,…`, the heuristics to switch off. The error names what is unknown.
    pub fn parse(text: &str) -> Result<Switches, String> {
        let mut switches = Switches::default();
        for item in text.split(',').filter(|item| !item.is_empty()) {
            let known = Heuristic::ALL.map(|heuristic| format!("-{}", heuristic.name()));
            let Some(number) = known.iter().position(|known| known == item) else {
                return Err(format!(
                    "`{item}` is none of the passes that can be switched off: {}",
                    known.join(", ")
                ));
            };
            switches.off |= 1 << number;
        }
        Ok(switches)
    }

    /// The same without a heuristic.
    pub fn without(self, heuristic: Heuristic) -> Switches {
        Switches {
            off: self.off | 1 << heuristic as u32,
        }
    }

    /// Whether a heuristic may act.
    pub fn is_on(self, heuristic: Heuristic) -> bool {
        self.off & 1 << heuristic as u32 == 0
    }
}

/// How often each heuristic acted on a function.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Acted([usize; Heuristic::ALL.len()]);

impl Acted {
    /// How often a heuristic acted.
    pub fn count(&self, heuristic: Heuristic) -> usize {
        self.0[heuristic as usize]
    }

    /// Notes how often a heuristic acted.
    pub fn set(&mut self, heuristic: Heuristic, count: usize) {
        self.0[heuristic as usize] = count;
    }
}

/// `NAME COUNT, NAME COUNT, …` of the heuristics that acted, or `none`.
impl fmt::Display for Acted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let acted = Heuristic::ALL.into_iter().filter(|&it| self.count(it) > 0);
        let acted = acted.map(|it| format!("{} {}", it.name(), self.count(it)));
        let acted: Vec<String> = acted.collect();
        match acted.is_empty() {
            true => f.write_str("none"),
            false => f.write_str(&acted.join(", ")),
        }
    }
}
