//! Stories about the built program: real files, real git, real processes. One module a story.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a story is told in the real world"
)]
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers as well"
)]

mod acp;
mod agent_names;
mod agent_options;
mod agent_sees;
mod alone;
mod answers;
mod approval;
mod approval_screens;
mod background;
mod background_pairs;
mod bad_input;
mod book;
mod browser;
mod budget;
mod changed_hank;
mod chapters;
mod checkpoints;
mod checks;
mod cleanup;
mod cli_surface;
mod config;
mod damage;
mod detach;
mod devtools;
mod differences;
mod disk;
mod doctor;
mod effects;
mod embedded;
mod endings;
mod events;
mod extensions;
mod fallback;
mod first_hank;
mod forks;
mod formats;
mod guest;
mod hang_up;
mod hard_times;
mod harmless;
mod hints;
mod inherited;
mod inputs;
mod journal;
mod kept;
mod left_out;
mod limit_words;
mod logs;
mod loops;
mod machines;
mod machines_agents;
mod machines_cleanup;
mod machines_hostile;
mod machines_settings;
mod machines_workers;
mod mcp;
mod mended;
mod notify;
mod odd_terminals;
mod one_count;
mod one_fold;
mod operations;
mod otel;
mod page;
mod page_export;
mod page_list;
mod page_pictures;
mod page_told;
mod picture;
mod planted;
mod policy;
mod prices;
mod private;
mod public_hank;
mod puzzling;
mod real_acp;
mod real_agents;
mod real_claude;
mod real_clients;
mod real_money;
mod real_scenarios;
mod real_stories;
mod receipt;
mod record;
mod reference;
mod refusals;
mod rehearsal;
mod remote;
mod replay;
mod resizing;
#[cfg(feature = "restate")]
mod restate;
#[cfg(feature = "restate")]
mod restate_machines;
mod results;
mod resume;
mod rollback;
mod run_screen;
mod scarce_threads;
mod sentinel_convert;
mod sentinel_ends;
mod sentinel_files;
mod sentinel_models;
mod sentinel_money;
mod sentinels;
mod service;
mod soak;
mod socket;
mod state_commands;
mod status;
mod steering;
mod strangers;
mod stuck;
mod supervision;
mod support;
mod suspending;
mod task_project;
mod tasks;
mod tasks_account;
mod tasks_answers;
mod tasks_by_hand;
mod tasks_by_hand_shown;
mod tasks_folder;
mod tasks_hooks;
mod tasks_listed;
mod tasks_team;
mod tasks_told;
mod tasks_words;
mod tasks_workers;
mod templates;
mod terminal;
mod told;
mod version;
mod waits;
mod whole_screen;
mod whole_story;
