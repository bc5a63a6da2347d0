//! The door of a cabinet, for a microcontroller: nothing here needs the standard library, and neither does the machine.
//!
//! `hankweave-machine` needs `core` and `alloc` alone, the stored form included: with the feature `stored` of this crate the door is written as postcard.

#![cfg_attr(not(test), no_std)]

extern crate alloc;

#[cfg(feature = "bare")]
mod bare;

use alloc::string::String;

use hankweave_machine::machine;

/// The door of the cabinet.
#[machine(Door, tests)]
pub enum DoorRecord {
    /// What every state knows.
    #[shared]
    Base {
        /// Which cabinet.
        cabinet: u16,
    },

    /// It can be opened without a code.
    #[initial]
    #[to(open => Opened, lock => Locked)]
    Closed {
        /// How often it has been opened.
        #[carry]
        openings: u32,
    },

    /// It is open.
    #[to(close => Closed, remove => Removed)]
    #[keeps(openings)]
    Opened,

    /// Only the right code opens it.
    #[to(unlock => Closed)]
    #[keeps(openings)]
    Locked {
        /// The code.
        code: u32,
        /// Who locked it.
        by: String,
    },

    /// It was taken off its hinges.
    #[terminal]
    #[keeps(openings)]
    Removed,
}

/// Locks the door of a cabinet and unlocks it again if `code` is right.
///
/// # Errors
///
/// Hands the locked door back when the code is wrong.
pub fn try_code(cabinet: u16, lock: door::Lock, code: u32) -> Result<Door<door::Closed>, Door<door::Locked>> {
    let locked = Door::new(cabinet).lock(lock);
    if locked.code == code {
        Ok(locked.unlock())
    } else {
        Err(locked)
    }
}

/// What a command that came over a wire makes of a door; the door itself when its state has no such step.
#[must_use]
pub fn command(door: DoorRecord, command: DoorTransition) -> DoorRecord {
    door.apply(command).unwrap_or_else(|refused| *refused.value)
}

/// The door in a format for small devices.
///
/// # Errors
///
/// Fails when there is no memory for it.
#[cfg(feature = "stored")]
pub fn to_bytes(door: &DoorRecord) -> postcard::Result<alloc::vec::Vec<u8>> {
    postcard::to_allocvec(door)
}

/// The door that was written by [`to_bytes`].
///
/// # Errors
///
/// Fails when the bytes are no door.
#[cfg(feature = "stored")]
pub fn from_bytes(bytes: &[u8]) -> postcard::Result<DoorRecord> {
    postcard::from_bytes(bytes)
}

/// How many edges the machine has, known while compiling.
pub const EDGES: usize = DOOR.edges.len();

#[cfg(test)]
mod tests {
    use super::*;

    fn lock() -> door::Lock {
        door::Lock {
            code: 4711,
            by: "ann".into(),
        }
    }

    #[test]
    #[cfg(feature = "stored")]
    fn a_door_and_a_command_survive_a_format_for_small_devices() {
        let door = Door::new(7).lock(lock()).into_record();
        let bytes = to_bytes(&door).expect("there is memory");
        assert_eq!(from_bytes(&bytes), Ok(door));
        let command = postcard::to_allocvec(&DoorTransition::Unlock).expect("there is memory");
        assert_eq!(postcard::from_bytes(&command), Ok(DoorTransition::Unlock));
    }

    #[test]
    fn the_wrong_code_leaves_the_door_locked() {
        assert!(try_code(7, lock(), 4711).is_ok());
        assert_eq!(try_code(7, lock(), 1).map_err(|locked| locked.cabinet), Err(7));
    }

    #[test]
    fn a_command_that_does_not_fit_changes_nothing() {
        let open = command(Door::new(7).into_record(), DoorTransition::Open);
        assert_eq!(command(open.clone(), DoorTransition::Lock(lock())), open);
        assert_eq!(EDGES, 5);
    }
}
