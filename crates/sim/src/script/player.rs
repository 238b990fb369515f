//! What scripts are played on.

use super::history::History;
use super::oracle::{answers_hold, holds};
use super::program::Script;
use super::stage::Schedule;
use crate::isolation::Isolation;
use braid_history::Model;

/// An engine that plays scripts, and what it promises of them.
pub trait Player {
    /// What its transactions are judged by.
    fn isolation(&self) -> Isolation;

    /// Plays a script once. An error says what the engine did that no transaction may.
    fn play(&self, script: &Script, schedule: &Schedule) -> Result<History, String>;

    /// Can others move within its commits? (Under schemes with one value per record a commit is decided and made in one
    /// step.)
    fn has_phases(&self) -> bool {
        self.isolation() == Isolation::Serializable
    }

    /// A promise that a script's history breaks.
    fn broken(&self, script: &Script, history: &History) -> Option<Model> {
        let isolation = self.isolation();
        let is_broken = |model: &Model| match model {
            Model::StrictSerializable => !answers_hold(script, history),
            _ => !holds(*model, script, history),
        };
        isolation.models().iter().copied().find(is_broken)
    }
}
