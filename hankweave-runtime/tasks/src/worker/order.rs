//! Description of a task's run: the hank and the arguments of `hankweave run`, as stored in the task's metadata.

use std::path::{Path, PathBuf};

use hankweave_core::cost::Usd;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Key of the run in the metadata.
const KEY: &str = "run";

/// Run for a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSpec {
    /// Hank, as an absolute path on the machine of the worker.
    pub hank: PathBuf,
    /// Data that its agents may read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<PathBuf>,
    /// Further arguments of `hankweave run`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
}

impl TaskSpec {
    /// Writes the run into metadata.
    ///
    /// # Errors
    ///
    /// Returns the error of serde for a path that is not UTF-8 text.
    pub fn put_into(&self, metadata: &mut Map<String, Value>) -> serde_json::Result<()> {
        metadata.insert(KEY.to_owned(), serde_json::to_value(self)?);
        Ok(())
    }

    /// Reads the run from metadata.
    ///
    /// # Errors
    ///
    /// Returns the problem, for people.
    pub fn read(metadata: &Map<String, Value>) -> Result<Self, String> {
        let value = metadata
            .get(KEY)
            .ok_or_else(|| format!("its metadata have no `{KEY}`, which names a hank"))?;
        let spec: Self = serde_json::from_value(value.clone())
            .map_err(|error| format!("`{KEY}` in its metadata: {error}"))?;
        match spec.hank.is_absolute() {
            true => Ok(spec),
            false => Err(format!("`{KEY}.hank` in its metadata is no absolute path")),
        }
    }

    /// Returns the value of an option in the arguments, written as `--name value` or `--name=value`. The last value counts. If both forms occur, it is the
    /// last `--name value`.
    #[must_use]
    pub fn option(&self, name: &str) -> Option<&str> {
        let (flag, joined) = (format!("--{name}"), format!("--{name}="));
        let pairs = self.arguments.iter().zip(self.arguments.iter().skip(1));
        let separate_values =
            pairs.filter_map(|(argument, value)| (*argument == flag).then_some(value.as_str()));
        let joined_values = self
            .arguments
            .iter()
            .filter_map(|argument| argument.strip_prefix(&joined));
        joined_values.chain(separate_values).last()
    }

    /// Returns the total budget of the run in its arguments, in US dollars.
    #[must_use]
    pub fn max_cost(&self) -> Option<Usd> {
        Usd::from_dollars(self.option("max-cost")?.parse().ok()?).ok()
    }

    /// Sets an option of the run in its arguments, in place of an earlier value.
    pub fn set_option(&mut self, name: &str, value: &str) {
        let (flag, joined) = (format!("--{name}"), format!("--{name}="));
        let mut kept = Vec::new();
        let mut arguments = std::mem::take(&mut self.arguments).into_iter();
        while let Some(argument) = arguments.next() {
            if argument == flag {
                arguments.next();
            } else if !argument.starts_with(&joined) {
                kept.push(argument);
            }
        }
        kept.extend([flag, value.to_owned()]);
        self.arguments = kept;
    }

    /// Returns the arguments for a run in the directory `execution`. `has_data`: an earlier attempt has already put the data there.
    #[must_use]
    pub fn command_line(&self, execution: &Path, has_data: bool) -> Vec<std::ffi::OsString> {
        let mut arguments = vec!["run".into(), self.hank.clone().into_os_string()];
        arguments.extend(["-e".into(), execution.as_os_str().to_owned()]);
        arguments.extend(["--headless".into(), "--json".into()]);
        // A later attempt continues with the data in the directory. If the data were named again, they would have to be unchanged since the first attempt.
        if let Some(data) = self.data.as_ref().filter(|_| !has_data) {
            arguments.extend(["--data".into(), data.clone().into_os_string()]);
        }
        arguments.extend(self.arguments.iter().map(Into::into));
        arguments
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_order_comes_back_from_the_metadata_or_says_what_is_wrong() {
        let order = TaskSpec {
            hank: "/h".into(),
            data: Some("/d".into()),
            arguments: vec!["--agent".into(), "scripted".into()],
        };
        let mut metadata = Map::new();
        assert!(TaskSpec::read(&metadata).unwrap_err().contains("no `run`"));
        order.put_into(&mut metadata).unwrap();
        assert_eq!(TaskSpec::read(&metadata).unwrap(), order);
        let line = order.command_line(Path::new("/w"), false);
        assert_eq!(
            line,
            [
                "run",
                "/h",
                "-e",
                "/w",
                "--headless",
                "--json",
                "--data",
                "/d",
                "--agent",
                "scripted"
            ]
        );
        let mut raised = order;
        raised.arguments = ["--max-cost=1", "-x", "--max-cost", "2", "--max-time", "5"]
            .map(str::to_owned)
            .into();
        assert_eq!(raised.option("max-cost"), Some("2"));
        raised.set_option("max-cost", "2.50");
        assert_eq!(
            (raised.option("max-cost"), raised.option("max-time")),
            (Some("2.50"), Some("5"))
        );
        assert_eq!(raised.arguments, ["-x", "--max-time", "5", "--max-cost", "2.50"]);
        for (wrong, why) in [
            (json!({}), "missing field `hank`"),
            (json!({"hank": "h"}), "no absolute path"),
        ] {
            metadata.insert(KEY.into(), wrong);
            assert!(TaskSpec::read(&metadata).unwrap_err().contains(why));
        }
    }
}
