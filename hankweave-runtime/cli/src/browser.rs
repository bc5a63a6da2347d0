//! `hankweave run --open`: the page in a browser.
//!
//! The address of the page holds the token, and every user of the machine can read the arguments of a program. So the browser opens a file that only
//! its owner can read, and that file redirects it to the page (WIRE-27).

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use hankweave_runtime::world::World;
use hankweave_runtime::world::disk::{self, Disk};
use hankweave_runtime::world::environment::{find_program, umask_of_user};
use hankweave_runtime::world::process::{MARKER_VARIABLE, SPARED_MARKER, child_environment};
use tokio::process::{Child, Command};

/// Program that opens a file with the application that the user has chosen for it.
const OPENER: &str = "xdg-open";

/// Name of the file that redirects to the page, in the state directory.
const FILE: &str = "page.html";

/// Shell command that starts the browser with the user's umask. With the umask of hankweave, other users could not read what the browser downloads.
const WITH_UMASK: &str = r#"umask "$0" && exec "$@""#;

/// The page while a browser opens it. Dropping this removes the file that redirects to it.
#[derive(Debug)]
pub(crate) struct Browser {
    file: PathBuf,
    disk: Arc<dyn Disk>,
    opener: Child,
}

impl Browser {
    /// Opens the page at `address`. Must be called inside a tokio runtime.
    ///
    /// # Errors
    ///
    /// What the system says, also when there is no program that opens files.
    pub(crate) fn open(world: &World, state_dir: &Path, address: &str) -> io::Result<Self> {
        let path = world.environment.get("PATH").unwrap_or_default();
        let program = find_program(&*world.disk, OPENER, path).ok_or_else(|| {
            let message = format!("there is no {OPENER} on PATH");
            io::Error::new(io::ErrorKind::NotFound, message)
        })?;
        let file = state_dir.join(FILE);
        disk::replace(&*world.disk, &file, redirect_to(address).as_bytes())?;
        let opener = start_opener(world, &program, &file).inspect_err(|_| remove(&*world.disk, &file))?;
        let disk = Arc::clone(&world.disk);
        Ok(Self { file, disk, opener })
    }

    /// Waits until the program that opens files has ended; returns whether it reported success.
    pub(crate) async fn opened(&mut self) -> bool {
        // The search for processes that agents left running may have reaped this process: its exit status is unknown then.
        self.opener.wait().await.is_ok_and(|status| status.success())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        remove(&*self.disk, &self.file);
    }
}

/// Starts the program that opens the page. The browser belongs to the user, not to the run: it is in a group of its own, and its mark spares it when
/// processes that an agent has left running are killed.
fn start_opener(world: &World, program: &Path, file: &Path) -> io::Result<Child> {
    let mark = BTreeMap::from([(MARKER_VARIABLE.to_owned(), SPARED_MARKER.to_owned())]);
    Command::new("/bin/sh")
        .args([
            "-c",
            WITH_UMASK,
            &format!("{:04o}", umask_of_user().unwrap_or(0o077)),
        ])
        .args([program, file])
        .env_clear()
        .envs(child_environment(&world.environment, &mark))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}

fn redirect_to(address: &str) -> String {
    format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta http-equiv=\"refresh\" content=\"0; url={address}\">\n<title>hankweave</title>\n"
    )
}

fn remove(disk: &dyn Disk, file: &Path) {
    if let Err(error) = disk::remove_if_present(disk, file) {
        tracing::warn!(%error, file = %file.display(), "failed to remove a file that holds the token");
    }
}
