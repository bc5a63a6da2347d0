//! Environment that agents see besides their prompts. Each memory file, skill, hook, MCP server and variable of the user and of the workspace is planted with a
//! mark of its own. Requests and started programs show which marks an agent got, and the page has to agree.

use std::collections::BTreeSet;
use std::path::Path;

use hankweave_testing::{ModelServer, Scenario, TestProject, agents};
use serde_json::{Value, json};

use crate::real_acp::{native, natives};
use crate::real_agents::RealAgent;
use crate::real_money::DEADLINE;
use crate::support::project;

const PAGE: &str = include_str!("../../../../docs/what-agents-see.md");

/// Marks that can be seen in requests.
const ASKED: [&str; 8] = [
    "memory-user",
    "memory-workspace-CLAUDE.md",
    "memory-workspace-AGENTS.md",
    "memory-workspace-GEMINI.md",
    "memory-above",
    "skill-user",
    "skill-workspace",
    "variable",
];

/// Marks that programs leave when they are started.
const STARTED: [&str; 4] = ["hook-user", "hook-workspace", "mcp-user", "mcp-workspace"];

/// Folders with the settings of an agent, in the home folder and in a workspace, and the name of its memory file.
fn folders(agent: &str) -> [&'static str; 3] {
    match agent {
        "claude" => [".claude", ".claude", "CLAUDE.md"],
        "codex" => [".codex", ".codex", "AGENTS.md"],
        "gemini" => [".gemini", ".gemini", "GEMINI.md"],
        "opencode" => [".config/opencode", ".opencode", "AGENTS.md"],
        _ => [".pi/agent", ".pi", "AGENTS.md"],
    }
}

fn write(file: &Path, text: &str) {
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
}

/// Adds settings to those of a file.
fn add(file: &Path, more: &Value) {
    let text = std::fs::read_to_string(file).unwrap_or_else(|_| "{}".to_owned());
    let mut all: Value = serde_json::from_str(&text).unwrap();
    for (key, value) in more.as_object().unwrap() {
        all[key] = value.clone();
    }
    write(file, &all.to_string());
}

/// A project in which everything is planted for an agent.
struct Planted<'p> {
    project: &'p TestProject,
    agent: &'static str,
}

impl Planted<'_> {
    fn plant(&self) {
        let (home, work) = (self.project.home(), self.project.directory());
        std::fs::create_dir_all(home.join("marks")).unwrap();
        let [of_user, of_workspace, memory] = folders(self.agent);
        write(&home.join(of_user).join(memory), "MARK-memory-user");
        for name in ["CLAUDE.md", "AGENTS.md", "GEMINI.md"] {
            write(&work.join(name), &format!("MARK-memory-workspace-{name}"));
            write(&work.parent().unwrap().join(name), "MARK-memory-above");
        }
        let servers = home.join(".claude.json");
        self.plant_for("user", &home.join(of_user), &servers);
        let servers = work.join(".mcp.json");
        self.plant_for("workspace", &work.join(of_workspace), &servers);
    }

    /// Returns a command that leaves a mark.
    fn touch(&self, mark: &str) -> String {
        format!(
            "touch '{}'",
            self.project.home().join("marks").join(mark).display()
        )
    }

    /// Plants a skill, a hook or what takes its place, and an MCP server; claude has its servers in a file apart.
    fn plant_for(&self, whose: &str, folder: &Path, servers_of_claude: &Path) {
        let skill = format!("---\nname: marked-{whose}\ndescription: MARK-skill-{whose}\n---\nNothing.\n");
        write(&folder.join(format!("skills/marked-{whose}/SKILL.md")), &skill);
        let [hook, server] = ["hook", "mcp"].map(|kind| self.touch(&format!("{kind}-{whose}")));
        let hooks = json!({"SessionStart": [{"hooks": [{"type": "command", "command": hook}]}]});
        let servers = json!({format!("marked-{whose}"): {"command": "sh", "args": ["-c", server]}});
        match self.agent {
            "claude" => {
                add(&folder.join("settings.json"), &json!({"hooks": hooks}));
                add(servers_of_claude, &json!({"mcpServers": servers}));
            }
            "codex" => {
                write(&folder.join("hooks.json"), &json!({"hooks": hooks}).to_string());
                let file = folder.join("config.toml");
                let before = std::fs::read_to_string(&file).unwrap_or_default();
                let more = format!(
                    "\n[mcp_servers.marked-{whose}]\ncommand = \"sh\"\nargs = [\"-c\", \"{server}\"]\n"
                );
                write(&file, &(before + &more));
            }
            "gemini" => add(
                &folder.join("settings.json"),
                &json!({"hooks": hooks, "mcpServers": servers}),
            ),
            "opencode" => {
                let server = json!({"type": "local", "command": ["sh", "-c", server], "enabled": true});
                add(
                    &folder.join("opencode.json"),
                    &json!({"mcp": {format!("marked-{whose}"): server}}),
                );
                let plugin = format!(
                    "import {{ execSync }} from 'node:child_process'\nexport const Marked = async () => {{ execSync(`{hook}`); return {{}} }}\n"
                );
                write(&folder.join("plugins/marked.js"), &plugin);
            }
            _ => {
                let extension = format!(
                    "import {{ execSync }} from 'node:child_process'\nexport default function (pi) {{ execSync(`{hook}`) }}\n"
                );
                write(&folder.join("extensions/marked.ts"), &extension);
            }
        }
    }

    /// Runs the codon and returns the marks that were seen.
    fn seen(&self, server: &ModelServer) -> BTreeSet<&'static str> {
        self.plant();
        let finished = self.project.start(["run", "--headless"]).finish_within(DEADLINE);
        finished.expect_code(0);
        assert_eq!(self.project.left_behind(), []);
        let requests = server.requests();
        let bodies: Vec<String> = requests
            .iter()
            .filter_map(|asked| Some(asked.body()?.to_string()))
            .collect();
        let is_in = |mark: &str| bodies.iter().any(|body| body.contains(&format!("MARK-{mark}")));
        let marks = self.project.home().join("marks");
        let asked = ASKED.into_iter().filter(|mark| is_in(mark));
        asked
            .chain(STARTED.into_iter().filter(|mark| marks.join(mark).exists()))
            .collect()
    }

    /// Compares what is seen with a column of the page.
    fn assert_as_written(&self, column: &str, server: &ModelServer) {
        assert_eq!(self.seen(server), written(column), "{column}");
    }
}

/// Marks that the page says an agent sees.
fn written(column: &str) -> BTreeSet<&'static str> {
    written_in("<!-- marks -->", column)
}

fn written_in(marker: &str, column: &str) -> BTreeSet<&'static str> {
    let table = PAGE.split(marker).nth(1).expect("the page has the table");
    let mut rows = table
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(|line| line.split('|').map(str::trim));
    let place = rows
        .next()
        .unwrap()
        .position(|cell| cell == column)
        .expect("the page has the agent");
    let rows: Vec<Vec<&str>> = rows.skip(1).map(Iterator::collect).collect();
    let marks: Vec<_> = ASKED.into_iter().chain(STARTED).collect();
    assert_eq!(rows.len(), marks.len());
    marks
        .into_iter()
        .zip(rows)
        .filter(|(_, row)| row[place] == "yes")
        .map(|(mark, _)| mark)
        .collect()
}

/// A scenario in which the agent prints a variable of the user.
fn scenario() -> Scenario {
    let call =
        json!({"op": "bash", "command": "echo \"[$PLANTED]\"; echo done > note.txt", "description": "Look"});
    Scenario::try_from(json!({"turns": [{"text": "I look.", "tools": [call]}, {"text": "Done."}]})).unwrap()
}

#[test]
fn codex_and_pi_see_what_the_page_says() {
    let found = [
        ("codex", "`codex`", RealAgent::codex(agents::codex())),
        ("pi", "`pi` 0.73.1", RealAgent::pi(agents::pi())),
        ("pi", "`pi` 1.6.0", RealAgent::pi(agents::newest_pi())),
    ];
    for (agent, column, found) in found {
        let real = match found {
            Ok(real) => real,
            Err(skip) => return println!("{skip}"),
        };
        let (mut project, server) = real.stage(json!({"turns": []}));
        server.play(scenario());
        project.set("PLANTED", "MARK-variable");
        project.write_hank(&json!({"hank": [real.codon("only", "fresh", "LOOK")]}));
        let project = &project;
        Planted { project, agent }.assert_as_written(column, &server);
    }
}

#[test]
fn gemini_and_opencode_see_what_the_page_says() {
    let server = ModelServer::start(scenario()).unwrap();
    for (agent, model, speaker) in natives(&server) {
        server.play(scenario());
        let mut project = native(agent, model, &speaker, &server);
        project.set("PLANTED", "MARK-variable");
        let hank = project.directory().join("hank.json");
        let mut hank: Value = serde_json::from_str(&std::fs::read_to_string(hank).unwrap()).unwrap();
        // The time of this test is limited as a whole.
        hank["hank"][0].as_object_mut().unwrap().remove("budget");
        project.write_hank(&hank);
        let project = &project;
        Planted { project, agent }.assert_as_written(&format!("`{agent}`"), &server);
    }
}

#[test]
fn claude_sees_what_the_page_says_and_with_a_folder_of_its_own_nothing_of_the_user() {
    let claude = match agents::claude() {
        Ok(claude) => claude,
        Err(skip) => return println!("{skip}"),
    };
    for has_folder in [false, true] {
        let server = ModelServer::start(scenario()).unwrap();
        let mut project = project();
        project.set("HANKWEAVE_CLAUDE_PATH", &claude);
        project.set("PLANTED", "MARK-variable");
        let mut env = json!({"ANTHROPIC_BASE_URL": server.url(), "ANTHROPIC_API_KEY": "sk-good"});
        if has_folder {
            env["CLAUDE_CONFIG_DIR"] = json!(project.home().join("elsewhere"));
        }
        let codon = json!({"id": "only", "name": "Only", "agent": "claude", "model": "claude-sonnet-4-5",
            "continuationMode": "fresh", "promptText": "LOOK", "env": env});
        project.write_hank(&json!({"hank": [codon]}));
        let (project, agent) = (&project, "claude");
        let planted = Planted { project, agent };
        let mut expected = written("`claude`");
        expected.retain(|mark| !has_folder || !mark.ends_with("-user"));
        assert_eq!(planted.seen(&server), expected);
    }
}

/// Lets the agents of a hank work without what is the user's own.
fn isolate(mut codon: Value) -> Value {
    codon["isolate"] = json!(true);
    codon
}

// covers: AGENT-61
#[test]
fn an_isolated_claude_sees_nothing_of_the_user() {
    let claude = match agents::claude() {
        Ok(claude) => claude,
        Err(skip) => return println!("{skip}"),
    };
    let server = ModelServer::start(scenario()).unwrap();
    let mut project = project();
    project.set("HANKWEAVE_CLAUDE_PATH", &claude);
    project.set("PLANTED", "MARK-variable");
    let env = json!({"ANTHROPIC_BASE_URL": server.url(), "ANTHROPIC_API_KEY": "sk-good"});
    let codon = json!({"id": "only", "name": "Only", "agent": "claude", "model": "claude-sonnet-4-5",
        "continuationMode": "fresh", "promptText": "LOOK", "env": env});
    project.write_hank(&json!({"hank": [isolate(codon)]}));
    let (project, agent) = (&project, "claude");
    let planted = Planted { project, agent };
    assert_eq!(planted.seen(&server), written_in(ISOLATED, "`claude`"));
}

const ISOLATED: &str = "<!-- isolated -->";

// covers: AGENT-62
#[test]
fn an_isolated_pi_sees_nothing_of_the_user() {
    for found in [RealAgent::pi(agents::pi()), RealAgent::pi(agents::newest_pi())] {
        let real = match found {
            Ok(real) => real,
            Err(skip) => return println!("{skip}"),
        };
        let (mut project, server) = real.stage(json!({"turns": []}));
        server.play(scenario());
        project.set("PLANTED", "MARK-variable");
        project.write_hank(&json!({"hank": [isolate(real.codon("only", "fresh", "LOOK"))]}));
        let (project, agent) = (&project, "pi");
        let planted = Planted { project, agent };
        assert_eq!(planted.seen(&server), written_in(ISOLATED, "`pi`"));
    }
}

// covers: AGENT-62
#[test]
fn an_isolated_opencode_sees_nothing_of_the_user() {
    let server = ModelServer::start(scenario()).unwrap();
    let Some((agent, model, speaker)) = natives(&server).find(|(agent, ..)| *agent == "opencode") else {
        return;
    };
    server.play(scenario());
    let mut project = native(agent, model, &speaker, &server);
    project.set("PLANTED", "MARK-variable");
    let hank = project.directory().join("hank.json");
    let mut hank: Value = serde_json::from_str(&std::fs::read_to_string(hank).unwrap()).unwrap();
    let codon = &mut hank["hank"][0];
    codon.as_object_mut().unwrap().remove("budget");
    // Its provider was in the settings of the user.
    let settings = project.home().join(".config/opencode/opencode.json");
    codon["env"]["OPENCODE_CONFIG_CONTENT"] = json!(std::fs::read_to_string(settings).unwrap());
    codon["isolate"] = json!(true);
    project.write_hank(&hank);
    let project = &project;
    let planted = Planted { project, agent };
    assert_eq!(planted.seen(&server), written_in(ISOLATED, "`opencode`"));
}
