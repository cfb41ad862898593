//! Mangled and demangled names of kernels.

/// What people may call the kernel `mangled`, from the most to the least complete.
pub(crate) fn demangled(mangled: &str) -> Vec<String> {
    let mut names = Vec::new();
    if let Ok(rust) = rustc_demangle::try_demangle(mangled) {
        names.push(format!("{rust:#}"));
    }
    if let Ok(symbol) = cpp_demangle::Symbol::new(mangled) {
        let full = cpp_demangle::DemangleOptions::new().no_return_type();
        let plain = full.no_params();
        names.extend(symbol.demangle_with_options(&full).ok());
        names.extend(symbol.demangle_with_options(&plain).ok());
    }
    if let Some(bare) = names.last().map(|name| without_template(name)) {
        names.push(bare.to_owned());
    }
    names.dedup();
    names
}

/// `f` of `f<int, 4>`.
fn without_template(name: &str) -> &str {
    match name.find('<') {
        Some(start) if start > 0 && name.ends_with('>') => &name[..start],
        _ => name,
    }
}

/// Finds the name that `wanted` stands for; several if it is ambiguous.
pub(crate) fn find<'a>(
    wanted: &str,
    mangled: impl Iterator<Item = &'a str> + Clone,
) -> Vec<&'a str> {
    if let Some(exact) = mangled.clone().find(|&name| name == wanted) {
        return vec![exact];
    }
    let squeezed = squeeze(wanted);
    mangled
        .filter(|name| demangled(name).iter().any(|name| squeeze(name) == squeezed))
        .collect()
}

/// Demanglers disagree about spaces.
fn squeeze(name: &str) -> String {
    name.split_whitespace().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpp_names() {
        let kernels = [
            "_Z5saxpyifPKfPf",
            "_ZN2ns4axpyIfEEvT_PS1_",
            "_Z5scalePfi",
            "_Z5scalePdi",
            "plain",
        ];
        let find = |wanted| find(wanted, kernels.into_iter());
        assert_eq!(find("saxpy"), ["_Z5saxpyifPKfPf"]);
        assert_eq!(
            find("saxpy(int,float, float const*, float*)"),
            ["_Z5saxpyifPKfPf"]
        );
        assert_eq!(find("_Z5saxpyifPKfPf"), ["_Z5saxpyifPKfPf"]);
        assert_eq!(find("ns::axpy<float>"), ["_ZN2ns4axpyIfEEvT_PS1_"]);
        assert_eq!(find("ns::axpy"), ["_ZN2ns4axpyIfEEvT_PS1_"]);
        assert_eq!(find("scale"), ["_Z5scalePfi", "_Z5scalePdi"]);
        assert_eq!(find("plain"), ["plain"]);
        assert!(find("axpy").is_empty());
    }

    #[test]
    fn rust_names() {
        assert_eq!(
            find("k::saxpy", ["_ZN1k5saxpy17h0123456789abcdefE"].into_iter()).len(),
            1
        );
    }
}
