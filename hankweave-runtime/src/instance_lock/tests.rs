use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;
use crate::world::clock::Noon;
use crate::world::disk::{Fault, FaultyDisk, RealDisk};
use crate::world::identity::SystemIdentity;
use crate::world::ids::RandomIds;

fn world() -> LockWorld {
    LockWorld {
        disk: Arc::new(RealDisk),
        clock: Arc::new(Noon),
        ids: Arc::new(RandomIds::new()),
        identity: Arc::new(SystemIdentity),
    }
}

fn acquire(state_dir: &Path) -> Result<InstanceLock, LockError> {
    InstanceLock::acquire(world(), state_dir, Exclusion::Required)
}

struct Folder {
    _temporary: tempfile::TempDir,
    state_dir: PathBuf,
}

fn folder() -> Folder {
    let temporary = tempfile::tempdir().unwrap();
    let state_dir = temporary.path().join(".hankweave");
    Folder {
        _temporary: temporary,
        state_dir,
    }
}

/// A state directory that holds only `name` with `content`.
fn folder_with(name: &str, content: &str) -> Folder {
    let folder = folder();
    RealDisk.create_dir_private(&folder.state_dir).unwrap();
    fs::write(folder.state_dir.join(name), content).unwrap();
    folder
}

#[test]
fn the_first_start_makes_a_private_directory_and_tells_who_holds_it() {
    let folder = folder();
    let lock = acquire(&folder.state_dir).unwrap();
    let record = read_record(&RealDisk, &folder.state_dir).unwrap();
    assert_eq!(record, lock.record());
    assert_eq!((record.pid, record.port), (std::process::id(), None));
    assert_eq!(RealDisk.metadata(&folder.state_dir).unwrap().mode, 0o700);
    assert_eq!(
        RealDisk.metadata(&folder.state_dir.join(LOCK_FILE)).unwrap().mode,
        0o600
    );
}

// covers: L3
#[test]
fn the_second_start_is_refused_with_the_holder_and_changes_nothing() {
    let folder = folder();
    let lock = acquire(&folder.state_dir).unwrap();
    lock.heartbeat(Some(([127, 0, 0, 1], 4000).into()), None).unwrap();
    let before = fs::read(folder.state_dir.join(LOCK_FILE)).unwrap();
    let error = acquire(&folder.state_dir).unwrap_err();
    assert!(matches!(
        error,
        LockError::Held { pid: Some(pid), port: Some(4000), .. } if pid == std::process::id()
    ));
    assert!(
        error
            .to_string()
            .ends_with(&format!("(pid {}, port 4000)", std::process::id()))
    );
    assert_eq!(fs::read(folder.state_dir.join(LOCK_FILE)).unwrap(), before);
    assert_eq!(
        RealDisk.list_dir(&folder.state_dir).unwrap(),
        [GIT_IGNORE, LOCK_FILE]
    );
}

// covers: L1, F6
#[test]
fn deleting_the_information_file_admits_nobody() {
    let folder = folder();
    let lock = acquire(&folder.state_dir).unwrap();
    fs::remove_file(folder.state_dir.join(LOCK_FILE)).unwrap();
    assert!(matches!(
        acquire(&folder.state_dir),
        Err(LockError::Held { pid: None, .. })
    ));
    lock.heartbeat(Some(([127, 0, 0, 1], 1).into()), None).unwrap();
    assert_eq!(read_record(&RealDisk, &folder.state_dir).unwrap().port, Some(1));
}

// covers: L2, F6
#[test]
fn no_content_of_the_information_file_blocks_a_start() {
    for content in [
        "",
        "{",
        "-7",
        r#"{"pid":-1}"#,
        r#"{"pid":1,"lastHeartbeat":"2999-01-01T00:00:00.000Z","lockId":"x"}"#,
        "\0\0\0\0",
    ] {
        let folder = folder_with(LOCK_FILE, content);
        assert!(acquire(&folder.state_dir).is_ok(), "{content:?}");
    }
}

// covers: L6, F6
#[test]
fn without_kernel_locks_a_start_is_refused_until_the_user_vouches() {
    let folder = folder();
    let world = LockWorld {
        disk: Arc::new(FaultyDisk::new(Arc::new(RealDisk), Fault::NoLocks)),
        ..world()
    };
    let refused = InstanceLock::acquire(world.clone(), &folder.state_dir, Exclusion::Required);
    assert!(matches!(refused, Err(LockError::Unsupported { .. })));
    let lock = InstanceLock::acquire(world, &folder.state_dir, Exclusion::Waived).unwrap();
    assert!(lock.guard().is_none());
    assert!(read_record(&RealDisk, &folder.state_dir).is_some());
}

// covers: P9, L2
#[test]
fn a_start_that_fails_behind_its_lock_leaves_no_file_whatever_it_says_by_then() {
    for content in [None, Some(""), Some("{")] {
        let folder = folder();
        let lock = acquire(&folder.state_dir).unwrap();
        if let Some(content) = content {
            fs::write(folder.state_dir.join(LOCK_FILE), content).unwrap();
        }
        drop(lock);
        assert_eq!(RealDisk.list_dir(&folder.state_dir).unwrap(), [GIT_IGNORE]);
    }
}

#[test]
fn releasing_removes_the_file_and_admits_the_next() {
    let folder = folder();
    let lock = acquire(&folder.state_dir).unwrap();
    lock.release().unwrap();
    assert!(
        acquire(&folder.state_dir).is_err(),
        "the lock itself is still held"
    );
    drop(lock);
    assert_eq!(RealDisk.list_dir(&folder.state_dir).unwrap(), [GIT_IGNORE]);
    assert!(acquire(&folder.state_dir).is_ok());
}

#[test]
fn a_file_that_is_not_ours_is_neither_overwritten_nor_removed() {
    let folder = folder();
    let lock = acquire(&folder.state_dir).unwrap();
    let mut other = lock.record();
    other.lock_id = "another".into();
    fs::write(folder.state_dir.join(LOCK_FILE), other.to_bytes()).unwrap();
    assert!(matches!(
        lock.heartbeat(None, None),
        Err(LockError::TakenOver { .. })
    ));
    lock.release().unwrap();
    assert_eq!(
        read_record(&RealDisk, &folder.state_dir).unwrap().lock_id,
        "another"
    );
}

fn folder_of_mode(mode: u32) -> Folder {
    let folder = folder();
    RealDisk.create_dir_private(&folder.state_dir).unwrap();
    fs::set_permissions(&folder.state_dir, fs::Permissions::from_mode(mode)).unwrap();
    folder
}

// covers: X5
#[test]
fn a_directory_of_ours_that_others_can_enter_is_closed_to_them_and_that_is_said() {
    for mode in [0o755, 0o775, 0o701] {
        let folder = folder_of_mode(mode);
        let lock = acquire(&folder.state_dir).unwrap();
        assert_eq!(RealDisk.metadata(&folder.state_dir).unwrap().mode, 0o700);
        let notice = lock.permissions_notice().unwrap();
        assert!(notice.contains(&format!("(mode {mode:o})")), "{notice}");
        drop(lock);
        assert_eq!(acquire(&folder.state_dir).unwrap().permissions_notice(), None);
    }
}

#[test]
fn a_refused_start_changes_no_permissions() {
    let folder = folder_of_mode(0o700);
    let _holder = acquire(&folder.state_dir).unwrap();
    fs::set_permissions(&folder.state_dir, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(matches!(acquire(&folder.state_dir), Err(LockError::Held { .. })));
    assert_eq!(RealDisk.metadata(&folder.state_dir).unwrap().mode, 0o755);
}

// covers: X5
#[test]
fn a_directory_that_everybody_can_write_to_is_refused() {
    let folder = folder_of_mode(0o777);
    assert!(matches!(
        acquire(&folder.state_dir),
        Err(LockError::OpenToAll { .. })
    ));
    assert!(RealDisk.list_dir(&folder.state_dir).unwrap().is_empty());
}

// covers: X12
#[test]
fn git_is_kept_out_before_there_is_anything_else_and_what_the_user_wrote_stays() {
    for n in 0.. {
        let folder = folder();
        let faulty = FaultyDisk::new(Arc::new(RealDisk), Fault::CrashAt(n));
        let world = LockWorld {
            disk: Arc::new(faulty),
            ..world()
        };
        let acquired = InstanceLock::acquire(world, &folder.state_dir, Exclusion::Required);
        let names = RealDisk.list_dir(&folder.state_dir).unwrap_or_default();
        let ours = names.iter().any(|name| name == LOCK_FILE);
        assert!(
            !ours || names.iter().any(|name| name == GIT_IGNORE),
            "crash at {n}: {names:?}"
        );
        if acquired.is_ok() {
            break;
        }
    }
    let folder = folder_with(GIT_IGNORE, "!runs\n");
    drop(acquire(&folder.state_dir).unwrap());
    assert_eq!(
        fs::read_to_string(folder.state_dir.join(GIT_IGNORE)).unwrap(),
        "!runs\n"
    );
}

// covers: X5, F4
#[test]
fn what_stands_in_the_place_of_the_directory_or_of_its_file_is_set_aside() {
    let folder = folder();
    let elsewhere = tempfile::tempdir().unwrap();
    symlink(elsewhere.path(), &folder.state_dir).unwrap();
    let lock = acquire(&folder.state_dir).unwrap();
    let [aside] = lock.set_aside() else {
        panic!("{:?}", lock.set_aside())
    };
    assert_eq!((&aside.name, aside.kind), (&folder.state_dir, FileKind::Link));
    assert_eq!(fs::read_link(&aside.kept).unwrap(), elsewhere.path());
    assert!(RealDisk.list_dir(elsewhere.path()).unwrap().is_empty());
    drop(lock);
    for name in [LOCK_FILE, "server.lock.tmp"] {
        fs::create_dir(folder.state_dir.join(name)).unwrap();
    }
    let lock = acquire(&folder.state_dir).unwrap();
    assert_eq!(lock.set_aside().len(), 2);
    assert!(lock.set_aside().iter().all(|aside| aside.kept.is_dir()));
}

#[track_caller]
fn check_foreign(content: &str, admitted: bool) {
    let folder = folder_with("runtime.lock", content);
    let lock = acquire(&folder.state_dir);
    assert_eq!(lock.is_ok(), admitted, "{content}");
    let files = RealDisk.list_dir(&folder.state_dir).unwrap().len();
    assert_eq!(
        files,
        if admitted { 3 } else { 1 },
        "a refused start writes nothing"
    );
}

// covers: L7
#[test]
fn a_live_server_of_the_older_system_is_respected() {
    let (alive, gone) = (std::os::unix::process::parent_id(), 4_194_304);
    check_foreign(
        &format!(r#"{{"pid":{alive},"lastHeartbeat":"2025-01-04T11:59:30.000Z"}}"#),
        false,
    );
    check_foreign(&format!(r#"{{"pid":{alive},"lastHeartbeat":"soon"}}"#), false);
    check_foreign(&alive.to_string(), false);
    check_foreign(
        &format!(r#"{{"pid":{alive},"lastHeartbeat":"2025-01-04T11:00:00.000Z"}}"#),
        true,
    );
    check_foreign(
        &format!(r#"{{"pid":{gone},"lastHeartbeat":"2025-01-04T11:59:30.000Z"}}"#),
        true,
    );
    check_foreign("not json", true);
}
