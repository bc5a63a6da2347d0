//! Finds environment variables of a hank that redirect programs or traffic, so that a run and `validate` can report them.

use super::document::CodonConfig;

/// Returns the variables in `env` of a codon that redirect programs or traffic, which must not be set unnoticed (S8).
#[must_use]
pub fn redirecting_variables(codon: &CodonConfig) -> Vec<&str> {
    let names = codon.env.keys().map(String::as_str);
    names.filter(|name| redirects(name)).collect()
}

fn redirects(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    name == "PATH" || name.starts_with("LD_") || name.ends_with("_BASE_URL") || name.ends_with("_PROXY")
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: S8
    #[test]
    fn programs_libraries_services_and_proxies_can_be_redirected() {
        for name in [
            "PATH",
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "ANTHROPIC_BASE_URL",
            "https_proxy",
            "NO_PROXY",
        ] {
            assert!(redirects(name), "{name}");
        }
        for name in ["PATHS", "OLD_PATH", "BASE_URL_OF", "GREETING"] {
            assert!(!redirects(name), "{name}");
        }
    }
}
