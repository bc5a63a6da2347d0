//! The graph of a machine as constant data.

/// One machine: its states and the edges between them, in order of declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "camelCase"))]
pub struct Machine {
    /// Name of the machine, for example `Codon`.
    pub name: &'static str,
    /// Name of the field that holds the state in a stored document, for example `status`.
    pub tag: &'static str,
    /// Every state.
    pub states: &'static [State],
    /// Every legal transition.
    pub edges: &'static [Edge],
    /// Whether stored values keep fields that the machine does not name.
    pub open: bool,
    /// Text on the arrow into the initial state, in diagrams; may be empty.
    pub start_label: &'static str,
}

/// One state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "camelCase"))]
pub struct State {
    /// Name of the Rust type, for example `CompletingSentinels`.
    pub name: &'static str,
    /// Name in stored documents, for example `completing-sentinels`.
    pub stored_name: &'static str,
    /// The documentation of the state, may be empty.
    pub docs: &'static str,
    /// Whether new values start here; true for exactly one state.
    pub initial: bool,
    /// Whether no edge leaves the state.
    pub terminal: bool,
    /// Fields of a stored value in this state, without the tag.
    pub fields: &'static [Field],
}

/// One legal transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "camelCase"))]
pub struct Edge {
    /// Name of the state that is left.
    pub from: &'static str,
    /// Name of the state that is entered.
    pub to: &'static str,
    /// The typed method that makes the step.
    pub method: &'static str,
    /// Text on the edge, in diagrams: the method, unless the declaration gives another one.
    pub label: &'static str,
    /// Fields that the caller of the method has to give.
    pub metadata: &'static [Field],
}

/// One field of a state or of the metadata of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "camelCase"))]
pub struct Field {
    /// Name in Rust.
    pub name: &'static str,
    /// Name in stored documents.
    pub stored_name: &'static str,
    /// Whether the field must be there.
    pub required: bool,
}

impl Machine {
    /// Finds a state by its Rust name.
    pub fn state(&self, name: &str) -> Option<&'static State> {
        self.states.iter().find(|state| state.name == name)
    }

    /// Returns the state in which new values start.
    ///
    /// # Panics
    ///
    /// If no state is initial. The macro makes no such machine.
    pub fn initial(&self) -> &'static State {
        self.states
            .iter()
            .find(|state| state.initial)
            .expect("the macro demands one initial state")
    }

    /// Returns the edges that leave the state of this Rust name.
    pub fn edges_from<'a>(&self, state: &'a str) -> impl Iterator<Item = &'static Edge> + use<'a> {
        self.edges.iter().filter(move |edge| edge.from == state)
    }

    /// Whether an edge leads from the first state to the second, both by their Rust names.
    pub fn has_edge(&self, from: &str, to: &str) -> bool {
        self.edges_from(from).any(|edge| edge.to == to)
    }

    /// Returns the graph as indented JSON.
    #[cfg(feature = "serde")]
    pub fn to_json(&self) -> alloc::string::String {
        serde_json::to_string_pretty(self).expect("names, texts and flags always serialise")
    }
}
