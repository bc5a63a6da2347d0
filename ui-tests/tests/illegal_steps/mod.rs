//! The programs that call a method which the codon does not have in its state.

use std::collections::BTreeSet;

use hankweave_core::codon::CODON;
use hankweave_core::machine::{Edge, State};

/// File and text of each program, in order of the graph.
pub(crate) fn cases() -> Vec<(String, String)> {
    let pairs = CODON.states.iter().flat_map(|state| {
        let legal = |edge: &Edge| {
            CODON
                .edges_from(state.name)
                .any(|known| known.method == edge.method)
        };
        methods()
            .into_iter()
            .filter(move |edge| !legal(edge))
            .map(move |edge| (state, edge))
    });
    pairs
        .map(|(state, edge)| (file(state, edge), program(state, edge)))
        .collect()
}

/// The first edge of each method.
fn methods() -> Vec<&'static Edge> {
    let mut seen = BTreeSet::new();
    let edges = CODON.edges.iter();
    edges.filter(|edge| seen.insert(edge.method)).collect()
}

fn file(state: &State, edge: &Edge) -> String {
    let folder = if state.terminal {
        "terminal"
    } else {
        "illegal-transition"
    };
    let method = edge.method.replace('_', "-");
    format!("{folder}/{}-{method}.rs", state.stored_name)
}

fn program(state: &State, edge: &Edge) -> String {
    let metadata = metadata_name(edge.method);
    let mut names = BTreeSet::from(["Codon", state.name]);
    let (parameter, argument) = match edge.metadata {
        [] => (String::new(), ""),
        _ => {
            names.insert(&metadata);
            (format!(", metadata: {metadata}"), "metadata")
        }
    };
    let names: Vec<&str> = names.into_iter().collect();
    format!(
        "use hankweave_core::codon::{{{}}};\n\nfn main() {{}}\n\nfn step(codon: Codon<{}>{parameter}) {{\n    let _ = codon.{}({argument});\n}}\n",
        names.join(", "),
        state.name,
        edge.method
    )
}

/// `complete_sentinels` demands a `CompleteSentinels`.
fn metadata_name(method: &str) -> String {
    let words = method.split('_').map(|word| {
        let (first, rest) = word.split_at(1);
        first.to_uppercase() + rest
    });
    words.collect()
}
