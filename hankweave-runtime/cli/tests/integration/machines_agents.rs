//! Sessions of the real codex and the real pi move between machines.

use serde_json::json;

use crate::machines::{Between, clone, codons, push};
use crate::real_agents::RealAgent;

/// The agent's own file comes along: it answers from it on the other machine, and back on the first one.
// covers: RUN-30
#[test]
fn the_real_codex_and_pi_go_on_in_their_sessions_on_another_machine() {
    for agent in RealAgent::all() {
        let usage = json!({"input": 10, "output": 5});
        let lane = |word: &str, said: &str| json!({"name": word, "when": {"user": word}, "turns": [{"text": said, "usage": usage}]});
        let scenario = json!({"lanes": [
            lane("THIRD-TASK", "once more"), lane("SECOND-TASK", "again"), lane("FIRST-TASK", "the word is heron")]});
        let (laptop, model) = agent.stage(scenario);
        let server = agent.another_machine(&model);
        let between = Between::new();
        let codon = |id: &str, mode: &str, prompt: &str| {
            let mut codon = agent.codon(id, mode, prompt);
            codon["approval"] = json!(id != "first");
            codon
        };
        laptop.write_hank(&json!({"hank": [
            codon("first", "fresh", "FIRST-TASK: remember a word"),
            codon("second", "continue-previous", "SECOND-TASK: which word was it?"),
            codon("third", "continue-previous", "THIRD-TASK: and again?")]}));
        laptop.run(["run", "--headless"]).expect_code(3);
        let pushed = push(&laptop, &["--remote", &between.url()]);
        assert_eq!(pushed["leftBehind"], json!([]));

        clone(&server, &between.url());
        let unchanged = server.run(["push", "-e", "work", "--json"]);
        assert_eq!(unchanged.expect_code(0).json_document()["outcome"], "up-to-date");
        server.run(["approve", "second", "-e", "work"]).expect_code(0);
        server.run(["run", "work", "--headless"]).expect_code(3);
        push(&server, &["-e", "work"]);

        laptop.run(["pull"]).expect_code(0);
        laptop.run(["approve", "third"]).expect_code(0);
        laptop.run(["run", "--headless"]).expect_code(0);
        let state = laptop.state(&laptop.directory());
        let records = codons(&state);
        for id in ["second", "third"] {
            assert_eq!(records[id]["status"], "completed", "{state:#}");
            assert_eq!(
                records[id]["claudeSessionId"],
                records["first"]["claudeSessionId"]
            );
        }
        let asked = model.requests();
        for (task, earlier) in [("SECOND-TASK", "heron"), ("THIRD-TASK", "which word was it?")] {
            let last = asked
                .iter()
                .rev()
                .find(|asked| asked.lane() == Some(task))
                .unwrap();
            let text = format!("{last:?}");
            assert!(text.contains("heron") && text.contains(earlier), "{task}: {text}");
        }
    }
}
