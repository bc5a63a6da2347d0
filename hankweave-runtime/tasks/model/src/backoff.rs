//! Number of attempts, and the delays between them (TASK-7).

use std::time::Duration;

use crate::error::TaskError;

/// Number of attempts, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tries(u32);

impl Default for Tries {
    fn default() -> Self {
        Self(3)
    }
}

impl Tries {
    /// Allows `number` attempts.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::InvalidArgument`] for 0.
    pub fn new(number: u32) -> Result<Self, TaskError> {
        match number {
            0 => Err(TaskError::InvalidArgument("there must be at least one try")),
            _ => Ok(Self(number)),
        }
    }

    /// Returns the delay after this number of failed attempts: 100 ms, then twice as long each time, at most a second. `None` if no attempt is left.
    #[must_use]
    pub fn wait_after(self, failed: u32) -> Option<Duration> {
        let doublings = failed.saturating_sub(1).min(4);
        (failed < self.0).then(|| Duration::from_millis((100 << doublings).min(1000)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: TASK-7
    #[test]
    fn waits_double_up_to_a_second_and_none_follows_the_last_try() {
        let tries = Tries::new(7).unwrap();
        let waits: Vec<_> = (1..=7).map(|made| tries.wait_after(made)).collect();
        let expected = [100, 200, 400, 800, 1000, 1000].map(|millis| Some(Duration::from_millis(millis)));
        assert_eq!((&waits[..6], waits[6]), (&expected[..], None));
        assert_eq!(Tries::default(), Tries::new(3).unwrap());
        assert_eq!(Tries::new(0).unwrap_err().code(), "INVALID_ARGUMENT");
    }
}
