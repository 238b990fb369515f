//! The commit as a step machine: the parallel commit of the serial safety net.
//!
//! A transaction waits only for transactions that commit earlier or are just drawing their timestamp. The earliest
//! transaction waits for none. A wait suspends.

use super::steps::{Open, Order, Rules, Scope};
use crate::cc::Abort;
use crate::memory::OutOfMemory;
use crate::profile::Activity;
use crate::record::Timestamp;
use crate::suspend::Suspend;

/// A suspended validation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Validation {
    stage: Stage,
    order: Order,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Enter,
    Draw,
    Publish,
    Validate,
    Judge,
}

impl Validation {
    #[inline]
    pub(super) fn step<R: Rules, S: Suspend>(
        &mut self,
        env: Scope<'_, R>,
        txn: &mut Open<R>,
        s: &mut S,
    ) -> Option<Result<Timestamp, Abort>> {
        loop {
            if s.pause() {
                return None;
            }
            let next = match self.stage {
                Stage::Enter if txn.reads.is_full => return Some(Err(Abort::OutOfMemory)),
                Stage::Enter => {
                    R::enter(&mut self.order, env, txn);
                    Stage::Draw
                }
                Stage::Draw => {
                    s.enter(Activity::Timestamps);
                    R::draw(&mut self.order, env, txn);
                    s.enter(Activity::Control);
                    Stage::Publish
                }
                Stage::Publish => {
                    match R::publish(&self.order, env, txn) {
                        Ok(true) => {}
                        Ok(false) => return Some(Err(Abort::Unserializable)),
                        Err(OutOfMemory) => return Some(Err(Abort::OutOfMemory)),
                    }
                    Stage::Validate
                }
                Stage::Validate => {
                    if !R::validate(&mut self.order, env, txn) {
                        return None;
                    }
                    Stage::Judge
                }
                Stage::Judge => {
                    let has_order = R::judge(&self.order, env, txn)?;
                    return Some(R::conclude(&self.order, txn, has_order));
                }
            };
            self.stage = next;
        }
    }
}
