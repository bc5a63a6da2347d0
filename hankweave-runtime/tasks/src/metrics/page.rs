//! Metrics in the text format of Prometheus (TASK-59).

use std::fmt::{Display, Write};

use super::{CLASSES, Timed};

/// Page to which metrics are added one after another.
#[derive(Debug, Default)]
pub(crate) struct MetricsPage(String);

impl MetricsPage {
    /// Writes a counter, which only rises.
    pub(crate) fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.counters(name, help, [(String::new(), value)]);
    }

    /// Writes counters with several values, each with its labels in braces.
    pub(crate) fn counters<V: Display>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (String, V)>,
    ) {
        self.metric(name, "counter", help, values);
    }

    /// Writes gauges with several values, each with its labels in braces.
    pub(crate) fn gauges<V: Display>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (String, V)>,
    ) {
        self.metric(name, "gauge", help, values);
    }

    /// Writes a gauge.
    pub(crate) fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.gauges(name, help, [(String::new(), value)]);
    }

    /// Writes a histogram of durations.
    pub(crate) fn timer(&mut self, name: &str, help: &str, timed: &Timed) {
        self.head(name, "histogram", help);
        // Buckets of Prometheus are cumulative.
        let mut cumulative = 0;
        for (class, end) in timed.classes.iter().zip(CLASSES) {
            cumulative += class;
            self.line(
                &format!("{name}_bucket"),
                &format!("{{le=\"{}\"}}", end as f64 / 1000.0),
                cumulative,
            );
        }
        self.line(&format!("{name}_bucket"), "{le=\"+Inf\"}", timed.count);
        self.line(&format!("{name}_sum"), "", timed.seconds);
        self.line(&format!("{name}_count"), "", timed.count);
    }

    /// Returns the text of the page.
    pub(crate) fn text(self) -> String {
        self.0
    }

    fn metric<V: Display>(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        values: impl IntoIterator<Item = (String, V)>,
    ) {
        self.head(name, kind, help);
        for (labels, value) in values {
            self.line(name, &labels, value);
        }
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }
}

/// Returns a label, with its value escaped, because the value may be chosen by others.
pub(crate) fn label(name: &str, value: &str) -> String {
    let value = value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    format!("{{{name}=\"{value}\"}}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::metrics::Timer;

    // covers: TASK-59
    #[test]
    fn classes_add_up_and_labels_are_escaped() {
        let (mut page, timer) = (MetricsPage::default(), Timer::default());
        for millis in [1, 3, 60_000] {
            timer.add(Duration::from_millis(millis));
        }
        page.timer("t", "Takes.", &timer.read());
        page.gauges("g", "Now.", [(label("owner", "a\"\\\nb"), 2)]);
        let text = page.text();
        for line in [
            "# TYPE t histogram",
            "t_bucket{le=\"0.001\"} 1",
            "t_bucket{le=\"0.005\"} 2",
            "t_bucket{le=\"30\"} 2",
            "t_bucket{le=\"+Inf\"} 3",
            "t_sum 60.004",
            "t_count 3",
            "g{owner=\"a\\\"\\\\\\nb\"} 2",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line}: {text}");
        }
    }
}
