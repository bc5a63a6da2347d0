//! How long checkpoints take: the first one of a workspace, and one after a few files changed.
//!
//! Each result is durable, so the figures include the syncs of the disk they run on.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures the real world")]

use std::fs;
use std::hint::black_box;
use std::path::Path;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use hankweave_core::event::CheckpointType;
use hankweave_core::id::{CodonId, RunId};
use hankweave_core::time::Timestamp;
use hankweave_runtime::checkpoint::{CheckpointRequest, CheckpointStore, GitCheckpoints, OpenRequest};
use tempfile::TempDir;

/// Numbers of files in the workspace.
const SIZES: [usize; 2] = [1_000, 20_000];

/// Files that change between two checkpoints.
const CHANGED: usize = 20;

fn checkpoints(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("checkpoint");
    group.sample_size(10);
    for files in SIZES {
        group.bench_with_input(BenchmarkId::new("first", files), &files, |bencher, &files| {
            bencher.iter_batched(
                || workspace(files),
                |(folder, store)| (take(&store), folder),
                BatchSize::PerIteration,
            );
        });
        let (folder, store) = workspace(files);
        take(&store);
        group.bench_with_input(BenchmarkId::new("unchanged", files), &files, |bencher, _| {
            bencher.iter(|| take(&store));
        });
        let mut round = 0;
        group.bench_with_input(
            BenchmarkId::new("few_changed", files),
            &files,
            |bencher, &files| {
                let edit = || {
                    round += 1;
                    (0..CHANGED).for_each(|number| write(folder.path(), number * files / CHANGED, round));
                };
                let mut edit = edit;
                bencher.iter_batched(&mut edit, |()| take(&store), BatchSize::PerIteration);
            },
        );
    }
    group.finish();
}

/// A workspace of `files` small files, 100 in a folder, with an empty repository.
fn workspace(files: usize) -> (TempDir, GitCheckpoints) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    (0..files).for_each(|number| write(folder.path(), number, 0));
    let request = OpenRequest {
        repository: folder.path().join(".hankweave"),
        workspace: folder.path().to_owned(),
        at: Timestamp::UNIX_EPOCH,
        nonce: "bench".to_owned(),
    };
    let (store, _) = GitCheckpoints::open(&request).expect("a repository can be made");
    (folder, store)
}

fn write(workspace: &Path, number: usize, round: usize) {
    let path = workspace.join(format!("folder-{}/file-{number}.txt", number / 100));
    fs::create_dir_all(path.parent().expect("the file is in a folder")).expect("a folder can be made");
    fs::write(path, format!("file {number} in round {round}\n").repeat(20)).expect("a file can be written");
}

fn take(store: &GitCheckpoints) {
    let request = CheckpointRequest {
        kind: CheckpointType::Completed,
        run_id: RunId::new("1736000000000-a").expect("the id is valid"),
        codon_id: CodonId::new("bench").expect("the id is valid"),
        codon_name: "Bench".to_owned(),
        patterns: Vec::new(),
        parent: None,
        at: Timestamp::UNIX_EPOCH,
        duration: None,
    };
    black_box(store.create(&request).expect("a checkpoint can be made"));
}

criterion_group!(benches, checkpoints);
criterion_main!(benches);
