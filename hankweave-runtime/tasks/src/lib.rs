//! Tasks that workers share: their registry, their locks and their files. What decides is in [`hankweave_task_model`], exported here as [`model`].

pub use hankweave_task_model as model;
