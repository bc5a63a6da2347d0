//! Hook that lets tasks start only in a container, in a workspace that no other user can write to (TASK-111).

use std::io;
use std::path::Path;

use hankweave_core::id::TaskId;
use hankweave_runtime::world::World;
use hankweave_runtime::world::disk::FileKind;
use hankweave_task_model::{HookPoint, HookPolicy};

use super::{Lifecycle, VALIDATION};
use crate::layers::{TaskLayers, WORKSPACE};

/// Files that Docker and Podman put into their containers.
const FILES: [&str; 2] = [".dockerenv", "run/.containerenv"];

/// Variable that systemd-nspawn, LXC and Podman set.
const VARIABLE: &str = "container";

/// Words in the control group of the first process, if that is visible.
const GROUPS: [&str; 5] = ["docker", "kubepods", "containerd", "libpod", "lxc"];

/// Read limit of the list of control groups, in bytes.
const MOST: u64 = 64 << 10;

impl Lifecycle {
    /// Registers a hook that refuses the start of a task outside a container, or in a folder that is a link, belongs to another user or is writable
    /// by others.
    pub fn register_contained(&self) {
        let check = self.on_task(|layers, row| async move {
            let blocking = layers.blocking();
            let troubles = blocking
                .run(move || troubles(&layers, row.id(), Path::new("/")))
                .await;
            match troubles.is_empty() {
                true => Ok(()),
                false => Err(troubles.join("; ")),
            }
        });
        self.register(HookPoint::BeforeStart, VALIDATION, HookPolicy::Veto, check);
    }
}

/// Returns every problem; `root` is the root of the file system.
fn troubles(layers: &TaskLayers, task: &TaskId, root: &Path) -> Vec<String> {
    let world = layers.world();
    let mut found = Vec::new();
    if !is_container(world, root) {
        found.push("this worker does not run in a container".to_owned());
    }
    let folder = layers.task(task.clone()).path();
    // Missing folders will be created for this user alone.
    let places = [folder.join(WORKSPACE), folder];
    found.extend(places.iter().filter_map(|path| exposure(world, path)));
    found
}

/// Whether this process runs in a container; no task starts elsewhere under [`Lifecycle::register_contained`]. Blocks.
#[must_use]
pub fn is_contained(world: &World) -> bool {
    is_container(world, Path::new("/"))
}

fn is_container(world: &World, root: &Path) -> bool {
    let is_there = |name: &str| world.disk.metadata(&root.join(name)).is_ok();
    let has_variable = world
        .environment
        .get(VARIABLE)
        .is_some_and(|value| !value.is_empty());
    let groups = world
        .disk
        .read(&root.join("proc/1/cgroup"), MOST)
        .unwrap_or_default();
    let groups = String::from_utf8_lossy(&groups);
    has_variable || FILES.into_iter().any(is_there) || GROUPS.iter().any(|group| groups.contains(group))
}

/// Returns how other users may access a folder, if they can.
fn exposure(world: &World, path: &Path) -> Option<String> {
    let (place, user) = (path.display(), world.identity.user_id());
    match world.disk.metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(format!("`{place}` cannot be looked at: {error}")),
        Ok(found) if found.kind != FileKind::Directory => {
            Some(format!("`{place}` is {} and no folder of its own", found.kind))
        }
        Ok(found) if found.owner != user => Some(format!(
            "`{place}` belongs to the user {}, not to {user}",
            found.owner
        )),
        Ok(found) if found.mode & 0o022 != 0 => Some(format!(
            "others may write to `{place}`; take that from them with `chmod go-w '{place}'`"
        )),
        Ok(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use hankweave_runtime::world::environment::Environment;

    use super::*;

    const NO_VARIABLES: [(&str, &str); 0] = [];

    fn layers(root: &Path, environment: Environment) -> TaskLayers {
        TaskLayers::new(World::with_environment(environment), root.join("tasks"))
    }

    // covers: TASK-111
    #[test]
    fn a_container_shows_by_its_files_its_variable_or_its_groups() {
        let folder = tempfile::tempdir().unwrap();
        let (root, id) = (folder.path(), TaskId::new("a").unwrap());
        let plain = layers(root, Environment::from_iter(NO_VARIABLES));
        let is_refused = || !troubles(&plain, &id, root).is_empty();
        assert!(is_refused());
        std::fs::create_dir_all(root.join("proc/1")).unwrap();
        std::fs::create_dir_all(root.join("run")).unwrap();
        let groups = root.join("proc/1/cgroup");
        std::fs::write(&groups, "0::/init.scope\n").unwrap();
        let told = troubles(&plain, &id, root);
        assert!(
            told[0].contains("does not run in a container") && told.len() == 1,
            "{told:?}"
        );
        for (name, text) in [
            (".dockerenv", ""),
            ("run/.containerenv", ""),
            ("proc/1/cgroup", "0::/kubepods/pod1\n"),
        ] {
            std::fs::write(root.join(name), text).unwrap();
            assert!(!is_refused(), "{name}");
            std::fs::remove_file(root.join(name)).unwrap();
        }
        let named = layers(root, Environment::from_iter([(VARIABLE, "podman")]));
        assert!(troubles(&named, &id, root).is_empty());
        let empty = layers(root, Environment::from_iter([(VARIABLE, "")]));
        assert!(!troubles(&empty, &id, root).is_empty());
    }

    // covers: TASK-111
    #[test]
    fn a_workspace_that_others_may_reach_is_refused_with_all_that_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let (root, id) = (folder.path(), TaskId::new("a").unwrap());
        let layers = layers(root, Environment::from_iter([(VARIABLE, "lxc")]));
        let workspace = root.join("tasks/a/workspace");
        std::fs::create_dir_all(&workspace).unwrap();
        let allow =
            |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        for (mode, troubles_there) in [(0o755, 0), (0o775, 1), (0o757, 1)] {
            allow(&workspace, mode);
            assert_eq!(troubles(&layers, &id, root).len(), troubles_there, "{mode:o}");
        }
        allow(&root.join("tasks/a"), 0o777);
        let told = troubles(&layers, &id, root);
        assert!(
            told.iter().all(|line| line.contains("chmod go-w")) && told.len() == 2,
            "{told:?}"
        );
        // The folder of another task.
        allow(&root.join("tasks/a"), 0o700);
        std::fs::create_dir_all(root.join("tasks/b")).unwrap();
        symlink(&workspace, root.join("tasks/b/workspace")).unwrap();
        let told = troubles(&layers, &TaskId::new("b").unwrap(), root);
        assert!(
            told[0].ends_with("is a link and no folder of its own"),
            "{told:?}"
        );
    }
}
