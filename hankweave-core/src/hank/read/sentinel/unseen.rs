//! Finds conditions on files whose changes no sentinel is shown, such as those in git folders (SENT-22).

use crate::hank::exclude::is_excluded;

/// End of the warning, for people.
pub(super) const WHY: &str = "no sentinel sees: git folders, `.hankweave`, `read_only_data_source`, `rigArchive`, `node_modules` unless \
    checkpointedFiles names files in it, and what lies outside of the workspace";

/// Whether a condition with this operator and value can only be true of files that no sentinel is shown, judged by the names in the value.
pub(super) fn is_of_unseen_files(operator: &str, value: &str) -> bool {
    match operator {
        "equals" | "in" => {
            is_outside(value)
                || names(value)
                    .enumerate()
                    .any(|(at, name)| is_unseen(name, at == 0))
        }
        // The first and the last name of the value may be parts of longer names, so only the names between slashes count.
        "contains" => inner_names(value).any(|name| is_unseen(name, false)),
        "matches" => has_unseen_name(value),
        _ => false,
    }
}

/// Whether the path leads out of the workspace.
fn is_outside(path: &str) -> bool {
    path.starts_with(['/', '~']) || names(path).any(|name| name == "..")
}

fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|name| !name.is_empty() && *name != ".")
}

/// Returns the names with a slash on both sides.
fn inner_names(path: &str) -> impl Iterator<Item = &str> {
    let parts: Vec<&str> = path.split('/').collect();
    let last = parts.len().saturating_sub(1);
    let whole = parts.into_iter().enumerate();
    whole
        .filter(move |(at, name)| *at > 0 && *at < last && !name.is_empty())
        .map(|(_, name)| name)
}

fn is_unseen(name: &str, at_root: bool) -> bool {
    name == "node_modules" || is_excluded(name.as_bytes(), at_root)
}

/// Whether a regular expression contains the whole name of an unseen folder, between slashes. Expressions with `|`, `(`, `[`, `?` or `*` are
/// not judged, apart from `(^|/)` and `(?:^|/)`.
fn has_unseen_name(expression: &str) -> bool {
    // The start of a path counts as a slash.
    let plain = expression.replace("(^|/)", "/").replace("(?:^|/)", "/");
    let plain = plain
        .strip_prefix('^')
        .map_or(plain.clone(), |rest| format!("/{rest}"));
    if plain.contains(['|', '(', '[', '?', '*']) {
        return false;
    }
    inner_names(&plain.replace('\\', "")).any(|name| is_unseen(name, false))
}
