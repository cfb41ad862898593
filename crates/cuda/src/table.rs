//! The one table of the driver's functions, and what `cuGetProcAddress` finds in it.
//!
//! A function has a base name, by which clients ask, and a symbol for each version of CUDA at which
//! its signature changed. From the table come the lists of exports, which are checked against it,
//! and [`resolve`]. It knows names only; [`crate::symbols`] has the addresses.

mod rows;

#[cfg(test)]
mod document;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::LazyLock;

pub(crate) use rows::FUNCTIONS;

/// A version of CUDA (1000 × major + 10 × minor) and the symbol that a function means from then on.
pub(crate) type Since = (u32, &'static str);

/// A function of the driver API.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function {
    /// The name by which clients ask, without any suffix.
    pub(crate) name: &'static str,
    /// Symbols, oldest first.
    pub(crate) versions: &'static [Since],
    /// Symbols for which a null stream is the calling thread's default stream, oldest first; empty
    /// if the function has nothing to do with streams.
    pub(crate) twins: &'static [Since],
}

impl Function {
    const fn twins(self, twins: &'static [Since]) -> Self {
        Self { twins, ..self }
    }

    /// The function's symbols. Some functions share one.
    #[cfg(test)]
    pub(crate) fn symbols(&self) -> impl Iterator<Item = &'static str> {
        self.versions
            .iter()
            .chain(self.twins)
            .map(|(_, symbol)| *symbol)
    }
}

/// A row of the table.
const fn f(name: &'static str, versions: &'static [Since]) -> Function {
    Function {
        name,
        versions,
        twins: &[],
    }
}

/// What a base name stands for at a version of CUDA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resolved {
    /// The symbol.
    Symbol(&'static str),
    /// There is such a function, but the version is older.
    VersionNotSufficient,
    /// There is no such function.
    NotFound,
}

/// Finds the newest symbol that `version` knows for a base name.
///
/// With `per_thread` it is the twin for the calling thread's default stream, if there is one at
/// that version, and the plain symbol otherwise.
#[must_use]
pub(crate) fn resolve(name: &str, version: u32, per_thread: bool) -> Resolved {
    static BY_NAME: LazyLock<HashMap<&str, &Function>> =
        LazyLock::new(|| FUNCTIONS.iter().map(|row| (row.name, row)).collect());
    let Some(function) = BY_NAME.get(name) else {
        return Resolved::NotFound;
    };
    let newest = |symbols: &[Since]| {
        let known = symbols.iter().rev().find(|(since, _)| *since <= version);
        known.map(|(_, symbol)| Resolved::Symbol(symbol))
    };
    let twin = if per_thread {
        newest(function.twins)
    } else {
        None
    };
    twin.or_else(|| newest(function.versions))
        .unwrap_or(Resolved::VersionNotSufficient)
}
