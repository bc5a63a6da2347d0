//! Unpacking of a record's files from the repository into a folder: one `git cat-file` prints all pieces, in the order in
//! which they are written.

use std::path::PathBuf;

use hankweave_runtime::world::World;
use hankweave_runtime::world::disk::{AppendFile, IoError, parent};
use hankweave_runtime::world::process::Stdin;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::time::timeout;

use crate::contents::{PIECE, piece_path};
use crate::error::RemoteError;
use crate::git::{Git, PATIENCE};
use crate::manifest::RecordManifest;
use crate::record::Pieces;

const ACTION: &str = "read the record";

/// Longest line with which git announces a piece, in bytes.
const LONGEST_HEAD: u64 = 200;

/// Writes each file to its new path, as `destination` returns it. Skips files without one.
pub(crate) async fn unpack(
    world: &World,
    git: &Git,
    manifest: &RecordManifest,
    pieces: &Pieces,
    destination: &(dyn Fn(&str) -> Option<PathBuf> + Sync),
) -> Result<(), RemoteError> {
    let wanted = manifest.pieces().filter(|(file, _)| destination(file).is_some());
    let names = wanted.filter_map(|(_, piece)| pieces.get(&piece));
    let wanted: String = names.map(|name| format!("{name}\n")).collect();
    let stdin = match wanted.is_empty() {
        true => Stdin::Closed,
        false => Stdin::Bytes(wanted.into_bytes()),
    };
    let mut process = git.start(ACTION, &["cat-file", "--batch"], stdin)?;
    let printed = std::mem::replace(&mut process.stdout, Box::pin(tokio::io::empty()));
    let mut printed = BufReader::with_capacity(64 << 10, printed);
    let read = async {
        for (file, length) in &manifest.files {
            let Some(place) = destination(file) else { continue };
            let mut out = create(world, place).await?;
            let mut written = 0;
            for number in 0..length.div_ceil(PIECE) {
                let piece = next(&mut printed, &piece_path(file, number)).await?;
                written += piece.len() as u64;
                out = append(world, out, piece).await?;
            }
            if written != *length {
                return Err(RemoteError::corrupt(format!("the length of `{file}`")));
            }
            close(world, out).await?;
        }
        Ok(())
    };
    let limit = PATIENCE;
    let read = timeout(limit, read).await;
    let read = read.unwrap_or(Err(RemoteError::TimedOut {
        action: ACTION,
        limit,
    }));
    // Closes the pipe, so that git does not wait for a reader of more output.
    drop(printed);
    if read.is_err() {
        // The error to report is that of reading.
        let _ = process
            .control
            .signal_group(hankweave_runtime::world::process::GroupSignal::Kill);
    }
    let answer = git.finish(ACTION, process).await?;
    read?;
    answer.or_refused(ACTION).map(drop)
}

type OutputFile = (PathBuf, Box<dyn AppendFile>);

async fn create(world: &World, path: PathBuf) -> Result<OutputFile, RemoteError> {
    let disk = world.disk.clone();
    let create = move || {
        let made = disk.make_private_dirs(parent(&path));
        let file = made.and_then(|()| disk.create_append(&path));
        let file = file.map_err(IoError::at("write", &path))?;
        Ok::<_, RemoteError>((path, file))
    };
    world.blocking.run(create).await
}

async fn append(
    world: &World,
    (path, mut file): OutputFile,
    piece: Vec<u8>,
) -> Result<OutputFile, RemoteError> {
    let append = move || {
        file.append(&piece).map_err(IoError::at("write", &path))?;
        Ok::<_, RemoteError>((path, file))
    };
    world.blocking.run(append).await
}

async fn close(world: &World, (path, mut file): OutputFile) -> Result<(), RemoteError> {
    let sync = move || file.sync_data().map_err(IoError::at("sync", &path));
    Ok(world.blocking.run(sync).await?)
}

/// Reads the next piece that git prints.
async fn next(printed: &mut BufReader<impl AsyncRead + Unpin>, path: &str) -> Result<Vec<u8>, RemoteError> {
    let failed = |source| RemoteError::Process {
        action: ACTION,
        source,
    };
    let damaged = || RemoteError::corrupt(format!("the piece `{path}`"));
    let mut head = String::new();
    let read = (&mut *printed).take(LONGEST_HEAD).read_line(&mut head).await;
    read.map_err(failed)?;
    let length = match head.trim_end().split(' ').collect::<Vec<_>>()[..] {
        [_, "blob", length] => length.parse::<u64>().ok(),
        _ => None,
    };
    let length = length.filter(|length| *length <= PIECE).ok_or_else(damaged)?;
    // A line break follows the content.
    let mut piece = vec![0; length as usize + 1];
    printed.read_exact(&mut piece).await.map_err(|_| damaged())?;
    piece.pop();
    Ok(piece)
}
