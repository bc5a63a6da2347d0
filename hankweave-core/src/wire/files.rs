//! The files of the workspace as clients see them (WIRE-18).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// Most files in one tree; later ones, by path, are left out.
pub const MAX_TREE_FILES: usize = 2_000;

/// A file or a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FileNode {
    /// The last part of its path.
    pub name: String,
    /// Relative to the workspace.
    pub path: String,
    /// Whether it is a folder.
    pub is_directory: bool,
    /// Contents of the folder, folders and files by name.
    pub children: Vec<FileNode>,
    /// When the file was changed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<Timestamp>,
}

/// Kind of change to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum FileAction {
    /// It is new.
    Created,
    /// Its content, or the way it is run, is another.
    Modified,
    /// It was deleted.
    Deleted,
}

/// Returns the tree of files, each given by its path with `/` between the parts, and the time of its last change. Of more than
/// [`MAX_TREE_FILES`] files it has the first ones.
#[must_use]
pub fn file_tree<'p>(files: impl IntoIterator<Item = (&'p str, Timestamp)>) -> Vec<FileNode> {
    let mut root = FolderNode::default();
    for (path, modified) in files.into_iter().take(MAX_TREE_FILES) {
        root.add(path, modified);
    }
    root.into_nodes("")
}

/// A folder while the tree is built, its entries by name.
#[derive(Default)]
struct FolderNode<'p> {
    entries: BTreeMap<&'p str, TreeNode<'p>>,
}

enum TreeNode<'p> {
    Folder(FolderNode<'p>),
    /// With the time of its last change.
    File(Timestamp),
}

impl<'p> FolderNode<'p> {
    fn add(&mut self, path: &'p str, modified: Timestamp) {
        let (mut folder, mut rest) = (self, path);
        while let Some((name, inner_path)) = rest.split_once('/') {
            let entry = folder
                .entries
                .entry(name)
                .or_insert_with(|| TreeNode::Folder(FolderNode::default()));
            match entry {
                TreeNode::Folder(inner) => folder = inner,
                // A file cannot have files inside; a listing that has both was made at two moments.
                TreeNode::File(_) => return,
            }
            rest = inner_path;
        }
        folder.entries.insert(rest, TreeNode::File(modified));
    }

    fn into_nodes(self, prefix: &str) -> Vec<FileNode> {
        let node = |(name, entry): (&str, TreeNode<'p>)| {
            let path = match prefix {
                "" => name.to_owned(),
                prefix => format!("{prefix}/{name}"),
            };
            let (children, last_modified) = match entry {
                TreeNode::File(modified) => (Vec::new(), Some(modified)),
                TreeNode::Folder(folder) => (folder.into_nodes(&path), None),
            };
            FileNode {
                name: name.to_owned(),
                is_directory: last_modified.is_none(),
                path,
                children,
                last_modified,
            }
        };
        self.entries.into_iter().map(node).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_become_a_tree() {
        let at = Timestamp::UNIX_EPOCH;
        let tree = file_tree([("b.txt", at), ("a/c/d.txt", at), ("a/b.txt", at)]);
        let file = |name: &str, path: &str| json!({"name": name, "path": path, "isDirectory": false, "children": [], "lastModified": "1970-01-01T00:00:00.000Z"});
        let folder = |name: &str, path: &str, children: serde_json::Value| json!({"name": name, "path": path, "isDirectory": true, "children": children});
        let inner = folder("c", "a/c", json!([file("d.txt", "a/c/d.txt")]));
        let expected = json!([
            folder("a", "a", json!([file("b.txt", "a/b.txt"), inner])),
            file("b.txt", "b.txt")
        ]);
        assert_eq!(serde_json::to_value(&tree).unwrap(), expected);
        assert_eq!(serde_json::from_value::<Vec<FileNode>>(expected).unwrap(), tree);
    }

    // covers: WIRE-18
    #[test]
    fn a_tree_has_a_limit() {
        let paths: Vec<String> = (0..3_000).map(|number| number.to_string()).collect();
        let tree = file_tree(paths.iter().map(|path| (path.as_str(), Timestamp::UNIX_EPOCH)));
        assert_eq!(tree.len(), MAX_TREE_FILES);
    }
}
