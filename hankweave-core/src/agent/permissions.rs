//! Answers to an agent that asks for permission before it acts.

use serde::Serialize;

/// Permissions of a codon. Everything by default, as for agents that do not ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Permissions {
    /// Reading and searching files.
    pub read: Permission,
    /// Writing, moving and deleting files.
    pub edit: Permission,
    /// Running commands, fetching from the network, and all else.
    pub execute: Permission,
}

impl Default for Permissions {
    fn default() -> Self {
        Self::all(Permission::Allow)
    }
}

impl Permissions {
    /// Returns one permission for every kind of act.
    #[must_use]
    pub fn all(permission: Permission) -> Self {
        Self {
            read: permission,
            edit: permission,
            execute: permission,
        }
    }

    /// Whether a tool of this kind may work; kinds have the names of the Agent Client Protocol. An unknown kind counts as `execute`, the widest one.
    #[must_use]
    pub fn permit(self, kind: &str) -> bool {
        let permission = match kind {
            "read" | "search" | "think" => self.read,
            "edit" | "delete" | "move" => self.edit,
            _ => self.execute,
        };
        permission == Permission::Allow
    }
}

/// Answer to one kind of act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Permission {
    /// It may.
    Allow,
    /// It may not.
    Deny,
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: AGENT-26
    #[test]
    fn each_kind_of_tool_is_of_one_sort_and_an_unknown_one_of_the_widest() {
        let read_only = Permissions {
            read: Permission::Allow,
            ..Permissions::all(Permission::Deny)
        };
        for (kind, permitted) in [
            ("read", true),
            ("search", true),
            ("think", true),
            ("edit", false),
            ("delete", false),
            ("move", false),
            ("execute", false),
            ("fetch", false),
            ("other", false),
            ("", false),
            ("a kind of the future", false),
        ] {
            assert_eq!(read_only.permit(kind), permitted, "{kind}");
            assert!(Permissions::default().permit(kind));
            assert!(!Permissions::all(Permission::Deny).permit(kind));
        }
    }
}
