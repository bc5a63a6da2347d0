//! Session files of codex, its rollouts: `YEAR/MONTH/DAY/rollout-TIME-ID.jsonl`.

use std::ffi::OsStr;
use std::io;

use hankweave_agents::Rollout;

use crate::driver::AgentFolder;
use crate::driver::process::{Candidates, FoundSession, SessionFormat};
use crate::world::disk::{Folder, OpenedEntry};

pub(in crate::driver) static ROLLOUTS: SessionFormat = SessionFormat {
    home: AgentFolder::CODEX,
    sessions: "sessions",
    lines: |session| Box::new(Rollout::new(session.since)),
    sub_agents: None,
    is_read_again: false,
    find: |sessions, candidates| find(sessions, candidates, 3).map(Vec::from_iter),
};

/// Finds the file whose name ends with the id of the session, in `levels` of nested folders (years, months and days), the newest first.
fn find(folder: &dyn Folder, candidates: &Candidates<'_>, levels: u32) -> io::Result<Option<FoundSession>> {
    let names = folder.names()?;
    let newest_first = names.iter().rev();
    if levels == 0 {
        let end = format!("-{}.jsonl", candidates.session.as_str());
        let has_id = |name: &OsStr| name.to_str().is_some_and(|name| name.ends_with(&end));
        let file = candidates.first_of(folder, newest_first.filter(|name| has_id(name)))?;
        return Ok(file.map(FoundSession::alone));
    }
    for name in newest_first {
        // A folder that cannot be read is passed over: another one may have the file.
        if let Ok(OpenedEntry::Folder(inner)) = folder.open(name)
            && let Ok(Some(found)) = find(&*inner, candidates, levels - 1)
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs::{self, OpenOptions};
    use std::io::Write;

    use hankweave_agents::RecordsScope;
    use hankweave_core::cost::pricing::Prices;
    use hankweave_core::id::SessionId;

    use super::*;
    use crate::driver::process::{ProcessHost, RecordSource, SessionFiles};
    use crate::world::World;

    fn response(id: &str, output: u64) -> String {
        format!(
            "{{\"timestamp\":\"2026-11-23T10:00:00.000Z\",\"type\":\"token_usage_record\",\"payload\":{{\"response_id\":\"{id}\",\
             \"usage\":{{\"output_tokens\":{output}}}}}}}\n"
        )
    }

    // covers: AGENT-17
    #[test]
    fn a_file_is_read_as_it_grows_and_no_link_is_followed() {
        let home = tempfile::tempdir().unwrap();
        let own = BTreeMap::from([("CODEX_HOME".to_owned(), home.path().display().to_string())]);
        let rollouts = SessionFiles::of(
            &ROLLOUTS,
            &ProcessHost::new(&World::real()),
            home.path(),
            &own,
            None,
            &Prices::listed(),
        )
        .unwrap();
        let session = SessionId::new("t-1").unwrap();
        let output = || {
            let recorded = rollouts.read(&session, &[], RecordsScope::SoFar)?;
            Some(
                recorded
                    .messages
                    .iter()
                    .map(|message| message.billed.tokens.output_tokens)
                    .sum::<u64>(),
            )
        };
        assert_eq!(output(), None, "nothing is written yet");
        let day = home.path().join("sessions/2026/11/23");
        fs::create_dir_all(&day).unwrap();
        fs::write(home.path().join("elsewhere"), response("r-0", 7)).unwrap();
        let link = day.join("rollout-2026-a-t-1.jsonl");
        std::os::unix::fs::symlink(home.path().join("elsewhere"), &link).unwrap();
        assert_eq!(output(), None, "a link");
        fs::remove_file(link).unwrap();
        let path = day.join("rollout-2026-b-t-1.jsonl");
        let second = response("r-2", 200);
        let (half, rest) = second.split_at(20);
        fs::write(&path, response("r-1", 10) + half).unwrap();
        assert_eq!(output(), Some(10));
        let mut file = OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(rest.as_bytes()).unwrap();
        assert_eq!((output(), output()), (Some(200), Some(0)));
    }

    // covers: AGENT-19
    #[test]
    fn what_sub_agents_used_stands_in_rollout_files_of_their_own() {
        let home = tempfile::tempdir().unwrap();
        let own = BTreeMap::from([("CODEX_HOME".to_owned(), home.path().display().to_string())]);
        let host = ProcessHost::new(&World::real());
        let rollouts =
            SessionFiles::of(&ROLLOUTS, &host, home.path(), &own, None, &Prices::listed()).unwrap();
        let sessions = ["t-1", "t-2", "t-3"].map(|id| SessionId::new(id).unwrap());
        let (yesterday, today) = (
            home.path().join("sessions/2026/11/22"),
            home.path().join("sessions/2026/11/23"),
        );
        fs::create_dir_all(&yesterday).unwrap();
        fs::create_dir_all(&today).unwrap();
        fs::write(yesterday.join("rollout-a-t-1.jsonl"), response("r-1", 1)).unwrap();
        fs::write(today.join("rollout-b-t-2.jsonl"), response("r-2", 20)).unwrap();
        fs::write(today.join("rollout-c-t-4.jsonl"), response("r-4", 7)).unwrap();
        let read = |records| {
            let recorded = rollouts.read(&sessions[0], &sessions[1..], records).unwrap();
            [recorded.messages, recorded.sub_agents].map(|messages| {
                let tokens = messages.iter().map(|message| message.billed.tokens.output_tokens);
                tokens.sum::<u64>()
            })
        };
        assert_eq!(read(RecordsScope::Meanwhile), [1, 20]);
        fs::write(today.join("rollout-d-t-3.jsonl"), response("r-3", 300)).unwrap();
        assert_eq!(read(RecordsScope::Whole), [0, 300]);
    }
}
