//! Git's formats: writers for everything in a repository, and a reader that trusts nothing.
//!
//! libgit2 reads an object into memory as a whole and opens any entry that has the object's name. It searches the folder
//! of packs again for each new object, and it renames a branch before the branch's content is durable. So objects, packs
//! and branches are written here. The other modules use libgit2 to read packs, list branches and name objects. All that
//! is written follows these rules (G11), and every test ends with `git fsck --strict`:
//!
//! - A **loose object** (gitrepository-layout(5), `objects/[0-9a-f][0-9a-f]`) is one zlib stream of `<kind> <length>\0<content>`, the length in decimal. Its
//!   name is the SHA-1 of these bytes before they are compressed; the first two hexadecimal digits are its folder, the other 38 its file. It is read-only and
//!   gets its name when it is whole. Until then its name begins with `tmp_`, which `git prune` removes, too.
//! - A **pack** (gitformat-pack(5)) is `PACK`, version 2 and the number of objects, each as four bytes, highest first; the objects, each with its kind and
//!   length and its content as one zlib stream; and the SHA-1 of all that. An object may be a delta; ours never are.
//! - The **index** of a pack (gitformat-pack(5), version 2) has 256 running counts of ids by their first byte, the ids in
//!   order, the CRC-32 of each packed object, the offsets, and two SHA-1: the pack's and its own. Offsets from 2 GiB on
//!   are in a further table of eight bytes each. Git finds packs by their indexes, so an index gets its name after its
//!   pack.
//! - A **tree** lists entries `<mode> <name>\0<20 bytes of the id>`, without a number in front. The mode is octal without leading zeros: 100644, 100755,
//!   120000 or 40000. The order is that of the names' bytes, where a folder counts as if its name ended with `/`; no name comes twice, and none is empty,
//!   `.`, `..`, `.git` in any spelling, or holds a `/` (git-fsck(1): `treeNotSorted`, `duplicateEntries`, `hasDotgit`, `fullPathname`).
//! - A **commit** has the lines `tree <id>`, any number of `parent <id>`, `author` and `committer`, both `<name> <<email>> <seconds since 1970> <zone>`, an
//!   empty line and the message, without a NUL (git-commit-tree(1), git-fsck(1): `badTimezone`, `nulInCommit`).
//! - A **branch** (gitrepository-layout(5), `refs`) is a file with 40 hexadecimal digits and a newline. To move it, a
//!   process creates `<file>.lock`, which must not exist yet, and renames that. Names follow git-check-ref-format(1).
//! - **`packed-refs`** (git-pack-refs(1)) has lines `<id> <name>`. A line `^<id>` has the object of the tag in the line
//!   above. A line with `#` names the properties of the whole list, such as `sorted`. The file of a branch takes
//!   precedence over its line. Only `git pack-refs` writes such a list; we take bad lines out of it.

mod commit;
mod compress;
#[cfg(test)]
pub(super) mod counts;
mod garbage;
mod loose;
mod new_objects;
mod pack;
mod packed;
mod read;
mod refs;
mod trees;

pub(super) use commit::{Commit, NewCommit, write_first_commit};
pub(super) use garbage::{length_of_unneeded, pack_loose, remove_unneeded};
pub(super) use new_objects::NewObjects;
#[cfg(test)]
pub(super) use new_objects::PACKED_FROM;
pub(super) use read::ObjectReader;
pub(super) use refs::{Move, MoveError, good_lines, is_list, is_reference, target};
pub(super) use trees::TreeEntry;
