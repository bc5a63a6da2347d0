//! The names in one directory.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use super::file::{Fate, fates};
use super::files::Id;
use crate::rng::Rng;

type Names = BTreeMap<OsString, Id>;

/// Names as a program sees them, names that survive everything, and the way from these to those.
#[derive(Debug, Default)]
pub(super) struct Directory {
    names: Names,
    durable: Names,
    pending: Vec<Change>,
}

#[derive(Debug)]
enum Change {
    Set(OsString, Id),
    Clear(OsString),
    /// Atomic, as POSIX and every file system in use have it.
    Move {
        from: OsString,
        to: OsString,
        id: Id,
    },
}

impl Directory {
    pub(super) fn get(&self, name: &OsStr) -> Option<Id> {
        self.names.get(name).copied()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = (&OsString, Id)> {
        self.names.iter().map(|(name, id)| (name, *id))
    }

    /// Everything that has a name here or may have one after a loss of power.
    pub(super) fn ids(&self) -> impl Iterator<Item = Id> {
        let pending = self.pending.iter().filter_map(|change| match change {
            Change::Set(_, id) | Change::Move { id, .. } => Some(*id),
            Change::Clear(_) => None,
        });
        let named = self.names.values().chain(self.durable.values());
        named.copied().chain(pending)
    }

    pub(super) fn set(&mut self, name: &OsStr, id: Id) {
        self.change(Change::Set(name.to_owned(), id));
    }

    pub(super) fn clear(&mut self, name: &OsStr) {
        self.change(Change::Clear(name.to_owned()));
    }

    pub(super) fn rename(&mut self, from: &OsStr, to: &OsStr, id: Id) {
        self.change(Change::Move {
            from: from.to_owned(),
            to: to.to_owned(),
            id,
        });
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.names);
        self.pending.push(change);
    }

    pub(super) fn sync(&mut self) {
        self.durable.clone_from(&self.names);
        self.pending.clear();
    }

    /// The directory without what was not synced.
    pub(super) fn durable(&self) -> Self {
        Self {
            names: self.durable.clone(),
            durable: self.durable.clone(),
            pending: Vec::new(),
        }
    }

    /// The power goes.
    pub(super) fn lose(&mut self, rng: &mut Rng) {
        let pending = std::mem::take(&mut self.pending);
        for (change, fate) in pending.iter().zip(fates(pending.len(), rng)) {
            // A name is there or not; half of one is not seen.
            if fate == Fate::Kept {
                change.apply(&mut self.durable);
            }
        }
        self.names.clone_from(&self.durable);
    }
}

impl Change {
    fn apply(&self, names: &mut Names) {
        match self {
            Self::Set(name, id) => drop(names.insert(name.clone(), *id)),
            Self::Clear(name) => drop(names.remove(name)),
            Self::Move { from, to, id } => {
                names.remove(from);
                names.insert(to.clone(), *id);
            }
        }
    }
}
