//! The port of an execution directory, which stays unchanged from run to run (WIRE-42).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::paths::ExecutionDir;
use crate::world::World;
use crate::world::disk::{self, Disk, FileKind};
use crate::world::net::Listener;

/// First port of the range from which ports are chosen, and the length of the range. The range is below the ports that
/// systems give to outgoing connections, which would block the next run.
const FIRST: u16 = 20_000;
const CHOICES: u16 = 10_000;

/// Number of ports after the wanted one that are tried when that is taken.
const NEXT: u16 = 16;

/// Largest file with a noted port that is read, in bytes.
const MAX_FILE_BYTES: u64 = 16;

/// Lowest port that any user may have.
const LOWEST: u16 = 1_024;

/// A listener on the port of a directory, or on the next one.
#[derive(Debug)]
pub(super) struct OwnPort {
    pub(super) listener: Box<dyn Listener>,
    /// Port of the earlier runs, which is taken now.
    pub(super) taken: Option<u16>,
}

impl OwnPort {
    /// Listens on the port that is noted in the directory, or the next free one. A port is noted once, by the first run, so
    /// that a run which had to take the next port does not change it.
    pub(super) async fn listen(world: &World, dir: &ExecutionDir, address: IpAddr) -> io::Result<Self> {
        let (disk, file) = (world.disk.clone(), dir.port());
        let noted = world.blocking.run(move || read(&*disk, &file)).await;
        let wanted = noted.unwrap_or_else(|| port_of(dir.root()));
        let listener = listen_from(world, address, wanted).await?;
        let port = listener.address().port();
        if noted.is_none() {
            let (disk, file) = (world.disk.clone(), dir.port());
            let write = move || disk::replace(&*disk, &file, format!("{port}\n").as_bytes());
            if let Err(error) = world.blocking.run(write).await {
                tracing::warn!(%error, "the port cannot be noted, so the next run may have another one");
            }
        }
        let taken = noted.filter(|noted| *noted != port);
        Ok(Self { listener, taken })
    }

    /// Listens on the port for a list of the runs below `root`, or on the next free one. The port is not noted. It is that of a
    /// made-up path, so that it is seldom the port of a run in `root` itself.
    pub(super) async fn listen_for_list(world: &World, root: &Path, address: IpAddr) -> io::Result<Self> {
        let listener = listen_from(world, address, port_of(&root.join("*"))).await?;
        Ok(Self {
            listener,
            taken: None,
        })
    }
}

/// Listens on `wanted`, one of the next ports, or any free one.
async fn listen_from(world: &World, address: IpAddr, wanted: u16) -> io::Result<Box<dyn Listener>> {
    for port in wanted..=wanted.saturating_add(NEXT) {
        match world.net.listen(SocketAddr::new(address, port)).await {
            Ok(listener) => return Ok(listener),
            Err(error) => tracing::debug!(%error, port, "this port cannot be had"),
        }
    }
    world.net.listen(SocketAddr::new(address, 0)).await
}

/// Returns the port to try first for a directory. Two directories seldom share it.
fn port_of(root: &Path) -> u16 {
    let digest = Sha256::digest(root.as_os_str().as_encoded_bytes());
    FIRST + u16::from_be_bytes([digest[0], digest[1]]) % CHOICES
}

/// Returns the noted port. Any other content counts as absent, because the directory may come from elsewhere.
fn read(disk: &dyn Disk, path: &Path) -> Option<u16> {
    let metadata = disk.metadata(path).ok()?;
    if metadata.kind != FileKind::File || metadata.length > MAX_FILE_BYTES {
        return None;
    }
    let text = String::from_utf8(disk.read(path, MAX_FILE_BYTES).ok()?).ok()?;
    text.trim_end().parse().ok().filter(|port| *port >= LOWEST)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    const HOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn directory() -> (tempfile::TempDir, ExecutionDir) {
        let folder = tempfile::tempdir().unwrap();
        let dir = ExecutionDir::new(folder.path().to_owned());
        fs::create_dir(dir.state_dir()).unwrap();
        (folder, dir)
    }

    async fn listen(dir: &ExecutionDir) -> (u16, Option<u16>, OwnPort) {
        let own = OwnPort::listen(&World::real(), dir, HOST).await.unwrap();
        (own.listener.address().port(), own.taken, own)
    }

    // covers: WIRE-42
    #[tokio::test]
    async fn a_directory_keeps_its_port_and_has_it_again_after_it_was_taken() {
        let (_folder, dir) = directory();
        let (port, taken, own) = listen(&dir).await;
        assert_eq!(taken, None);
        assert_eq!(fs::read_to_string(dir.port()).unwrap(), format!("{port}\n"));
        drop(own);
        let stranger = TcpListener::bind((HOST, port)).unwrap();
        let (other, taken, own) = listen(&dir).await;
        assert_eq!((other != port, taken), (true, Some(port)));
        drop((stranger, own));
        let (again, taken, _own) = listen(&dir).await;
        assert_eq!((again, taken), (port, None));
    }

    // covers: WIRE-42
    #[tokio::test]
    async fn a_file_that_is_no_port_is_replaced() {
        let (_folder, dir) = directory();
        for damaged in ["", "0", "22", "70000", "-1", "a page", "20000 20000 20000 20000"] {
            fs::write(dir.port(), damaged).unwrap();
            let (port, taken, _own) = listen(&dir).await;
            assert_eq!(taken, None, "{damaged:?}");
            assert_eq!(
                fs::read_to_string(dir.port()).unwrap(),
                format!("{port}\n"),
                "{damaged:?}"
            );
        }
    }
}
