//! The engine that scripts are played on.

use super::history::History;
use super::oracle::{answers_hold, holds};
use super::program::Script;
use super::stage::Schedule;
use crate::isolation::Isolation;
use braid_history::Model;

/// An engine that plays scripts, and its promise.
pub trait Player {
    /// Returns the promise by which its transactions are judged.
    fn isolation(&self) -> Isolation;

    /// Plays a script once. An error says what the engine did that no transaction may.
    fn play(&self, script: &Script, schedule: &Schedule) -> Result<History, String>;

    /// Returns true if other transactions can move during a commit. Under schemes with one value per record a commit is
    /// decided and made in one step.
    fn has_phases(&self) -> bool {
        self.isolation() == Isolation::Serializable
    }

    /// Returns the promise that a script's history breaks, if it breaks one.
    fn broken(&self, script: &Script, history: &History) -> Option<Model> {
        let isolation = self.isolation();
        let is_broken = |model: &Model| match model {
            Model::StrictSerializable => !answers_hold(script, history),
            _ => !holds(*model, script, history),
        };
        isolation.models().iter().copied().find(is_broken)
    }
}
