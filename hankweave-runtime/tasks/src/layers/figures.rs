//! Counts and durations of reads and writes of the layers, the kinds of task files, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Part of a task's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// state.json
    State,
    /// logs.jsonl
    Logs,
    /// decisions.md
    Decisions,
    /// checkpoints
    Checkpoints,
}

/// Kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerOperation {
    /// Write.
    Save,
    /// Read.
    Load,
}

const LAYERS: [Layer; 4] = [Layer::State, Layer::Logs, Layer::Decisions, Layer::Checkpoints];
const OPERATIONS: [LayerOperation; 2] = [LayerOperation::Save, LayerOperation::Load];

impl Layer {
    /// Returns the name of the layer.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Logs => "logs",
            Self::Decisions => "decisions",
            Self::Checkpoints => "checkpoints",
        }
    }
}

impl LayerOperation {
    /// Returns the name of the operation.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Save => "save",
            Self::Load => "load",
        }
    }
}

#[derive(Debug, Default)]
struct LayerCounter {
    done: AtomicU64,
    failed: AtomicU64,
    micros: AtomicU64,
}

/// Counters over the life of the program, by layer and operation.
#[derive(Debug, Default)]
pub(super) struct LayerMetrics([[LayerCounter; 2]; 4]);

/// Metrics of one operation on one layer so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LayerMetric {
    /// Layer.
    pub layer: Layer,
    /// Operation.
    pub operation: LayerOperation,
    /// Number of operations, including failed ones.
    pub done: u64,
    /// Number of failed operations.
    pub failed: u64,
    /// Total duration of all operations.
    pub took: Duration,
}

impl LayerMetrics {
    pub(super) fn count(&self, layer: Layer, operation: LayerOperation, took: Duration, failed: bool) {
        let counter = &self.0[layer as usize][operation as usize];
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        counter.done.fetch_add(1, Ordering::Relaxed);
        counter.failed.fetch_add(failed.into(), Ordering::Relaxed);
        counter.micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub(super) fn all(&self) -> Vec<LayerMetric> {
        let pairs = LAYERS
            .iter()
            .flat_map(|layer| OPERATIONS.map(|operation| (*layer, operation)));
        pairs
            .map(|(layer, operation)| {
                let counter = &self.0[layer as usize][operation as usize];
                LayerMetric {
                    layer,
                    operation,
                    done: counter.done.load(Ordering::Relaxed),
                    failed: counter.failed.load(Ordering::Relaxed),
                    took: Duration::from_micros(counter.micros.load(Ordering::Relaxed)),
                }
            })
            .collect()
    }
}
