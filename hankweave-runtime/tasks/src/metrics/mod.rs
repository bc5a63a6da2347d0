//! Counts and times of locks, steps and hooks, for display.

mod page;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;

pub(crate) use page::{MetricsPage, label};

/// Counter.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    /// Returns the count so far.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Upper bounds of the classes of a [`Timer`], in milliseconds. A last class without a bound follows.
pub const CLASSES: [u64; 10] = [1, 2, 5, 10, 25, 100, 500, 1000, 5000, 30_000];

/// Durations of repeated events.
#[derive(Debug, Default)]
pub struct Timer {
    classes: [AtomicU64; CLASSES.len() + 1],
    microseconds: AtomicU64,
}

impl Timer {
    pub(crate) fn add(&self, took: Duration) {
        let class = CLASSES.iter().position(|end| took <= Duration::from_millis(*end));
        self.classes[class.unwrap_or(CLASSES.len())].fetch_add(1, Ordering::Relaxed);
        let microseconds = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.microseconds.fetch_add(microseconds, Ordering::Relaxed);
    }

    /// Returns the times so far.
    #[must_use]
    pub fn read(&self) -> Timed {
        let classes = self.classes.each_ref().map(|class| class.load(Ordering::Relaxed));
        let microseconds = self.microseconds.load(Ordering::Relaxed);
        Timed {
            count: classes.iter().sum(),
            seconds: microseconds as f64 / 1e6,
            classes,
        }
    }
}

/// Times seen by a [`Timer`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Timed {
    /// Number of events.
    pub count: u64,
    /// Total duration, in seconds.
    pub seconds: f64,
    /// Number of events in each class of [`CLASSES`], and above the last one.
    pub classes: [u64; CLASSES.len() + 1],
}

impl Timed {
    /// Returns the average in milliseconds; 0 if there was no event.
    #[must_use]
    pub fn average(&self) -> f64 {
        match self.count {
            0 => 0.0,
            count => self.seconds * 1000.0 / count as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: TASK-34
    #[test]
    fn a_timer_sorts_into_classes_and_knows_the_average() {
        let timer = Timer::default();
        assert_eq!(timer.read().average(), 0.0);
        for millis in [1, 3, 60_000] {
            timer.add(Duration::from_millis(millis));
        }
        let read = timer.read();
        assert_eq!(
            (read.count, read.classes[0], read.classes[2], read.classes[10]),
            (3, 1, 1, 1)
        );
        assert!((read.average() - 20_001.333).abs() < 0.01);
    }
}
