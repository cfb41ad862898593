//! The word that was meant: suggestions for names that stand for nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::isa;

use super::Translator;

/// Work that all suggestions of a module may take, in steps of comparing two words: enough for some
/// thousand mistakes in a large module, and little beside the rest of a check. After that, mistakes
/// are told without suggestions.
const LIMIT: u64 = 100_000_000;

/// Finds suggestions, as long as there are not too many mistakes.
#[derive(Default)]
pub(crate) struct Near {
    work: AtomicU64,
}

impl Near {
    /// The word nearest to `word` among `words`, if one is near enough to be meant.
    pub(crate) fn nearest<'a>(
        &self,
        word: &str,
        words: impl Iterator<Item = &'a str>,
    ) -> Option<&'a str> {
        let before = self.work.load(Ordering::Relaxed);
        if before > LIMIT {
            return None;
        }
        let mut work = 0;
        let counted = words.take_while(|candidate| {
            work += isa::edit_cost(word, candidate);
            before + work <= LIMIT
        });
        let found = isa::nearest(word, counted);
        self.work.fetch_add(work, Ordering::Relaxed);
        // What was found among some of the words may not be the nearest.
        found.filter(|_| before + work <= LIMIT)
    }

    /// Whether there were too many mistakes for a suggestion to each. That does not depend on the
    /// order in which threads ask.
    pub(super) fn is_exhausted(&self) -> bool {
        self.work.load(Ordering::Relaxed) > LIMIT
    }
}

impl Translator<'_> {
    /// The word nearest to `word` among `words`, if one is near enough to be meant.
    pub(crate) fn nearest<'a>(
        &self,
        word: &str,
        words: impl Iterator<Item = &'a str>,
    ) -> Option<&'a str> {
        self.tables.near.nearest(word, words)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::{LIMIT, Near};

    /// However many mistakes there are among however many names, the work is bounded.
    #[test]
    fn bounded() {
        let names: Vec<String> = (0..2_000).map(|n| format!("{n:060}")).collect();
        let near = Near::default();
        let word = format!("{}x", &names[77][..59]);
        assert!(
            near.nearest(&word, names.iter().map(String::as_str))
                .is_some()
        );
        let one = near.work.load(Ordering::Relaxed);
        for _ in 0..LIMIT / one + 10 {
            near.nearest(&word, names.iter().map(String::as_str));
        }
        assert!(near.work.load(Ordering::Relaxed) <= LIMIT + 61 * 61);
        assert!(
            near.nearest(&word, names.iter().map(String::as_str))
                .is_none()
        );
    }
}
