//! The contract of agent drivers, as a suite that any driver runs (AGENT-27).
//!
//! A driver is shown in scenes: it says how a launch is changed so that its agent succeeds, fails, or works until it is stopped. The suite plays each scene and
//! looks at what every run relies on. What a driver has no scene for is not looked at, and the report says so.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use hankweave_runtime::driver::AgentDriver;
//! # async fn show(driver: Arc<dyn AgentDriver>) {
//! use hankweave_driver_suite::{DriverSuite, Scene};
//!
//! let suite = DriverSuite::new(driver)
//!     .scene(Scene::Succeeds, |launch| launch.prompt = "Say hello.".to_owned())
//!     .scene(Scene::Works, |launch| launch.prompt = "Count to a million.".to_owned());
//! suite.run().await.assert_kept();
//! # }
//! ```
//!
//! The suite runs in a process of its own kind: one test program for a driver, one scene after the other.
//!
//! Comments cite the rules of [docs/rules](https://github.com/hankweave/hankweave/tree/main/docs/rules) by ids such as `STATE-12`.

mod play;
mod report;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hankweave_agents::Launch;
use hankweave_core::agent::Permissions;
use hankweave_core::cost::pricing::Prices;
use hankweave_runtime::driver::AgentDriver;
use tempfile::TempDir;

pub use report::{Line, Report};

/// How long an agent of a scene may take to begin or to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// What an agent does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scene {
    /// It does its work and ends.
    Succeeds,
    /// It ends without having done its work.
    Fails,
    /// It names its session, and continues until it is stopped. It may leave processes behind.
    Works,
}

impl fmt::Display for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Succeeds => "succeeds",
            Self::Fails => "fails",
            Self::Works => "works",
        })
    }
}

type SetUp = Box<dyn Fn(&mut Launch)>;

/// A driver and its scenes.
pub struct DriverSuite {
    driver: Arc<dyn AgentDriver>,
    scenes: BTreeMap<Scene, SetUp>,
}

impl fmt::Debug for DriverSuite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriverSuite")
            .field("driver", &self.driver.name())
            .field("scenes", &self.scenes.keys())
            .finish()
    }
}

impl DriverSuite {
    /// The suite for `driver`, without a scene.
    #[must_use]
    pub fn new(driver: Arc<dyn AgentDriver>) -> Self {
        let scenes = BTreeMap::new();
        Self { driver, scenes }
    }

    /// Says how a launch is changed so that its agent does this. The launch works in an empty folder of its own; everything else in it may be changed.
    #[must_use]
    pub fn scene(mut self, scene: Scene, set_up: impl Fn(&mut Launch) + 'static) -> Self {
        self.scenes.insert(scene, Box::new(set_up));
        self
    }

    /// Plays all scenes, one after the other, and tells what was kept.
    ///
    /// # Panics
    ///
    /// Panics when no temporary folder can be made.
    pub async fn run(&self) -> Report {
        let mut report = Report::new(self.driver.name());
        play::statements(&*self.driver, &mut report);
        for scene in [Scene::Succeeds, Scene::Fails, Scene::Works] {
            let Some(set_up) = self.scenes.get(&scene) else {
                report.not_shown(scene);
                continue;
            };
            match scene {
                Scene::Succeeds => play::success(&*self.driver, set_up, &mut report).await,
                Scene::Fails => play::failure(&*self.driver, set_up, &mut report).await,
                Scene::Works => play::stops(&*self.driver, set_up, &mut report).await,
            }
        }
        report
    }
}

/// An empty folder and a launch in it.
fn stage(set_up: &dyn Fn(&mut Launch)) -> (TempDir, Launch) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let mut launch = launch(folder.path());
    set_up(&mut launch);
    (folder, launch)
}

fn launch(folder: &Path) -> Launch {
    Launch {
        model: "a-model".to_owned(),
        prompt: "Do your work.".to_owned(),
        appended_system_prompt: None,
        resume: None,
        fork: false,
        env: BTreeMap::new(),
        iteration: None,
        max_dollars: None,
        carried: None,
        prices: Prices::listed(),
        work_dir: folder.to_owned(),
        log_path: folder.join("logs/agent.log"),
        log_goes_on: false,
        auto_compact: false,
        temp_dir: folder.join("tmp"),
        script: None,
        program: None,
        command: Vec::new(),
        permissions: Permissions::default(),
        options: hankweave_core::agent::AgentOptions::default(),
        result: None,
        auth: None,
        marker: folder.to_string_lossy().into_owned(),
        grace: Launch::DEFAULT_GRACE,
    }
}
