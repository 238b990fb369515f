//! A scan whose next row can be looked at without taking it. With it, a condition walks through two tables side by
//! side.

use braiddb::futures::Rows;
use braiddb::{ConcurrencyControl as Scheme, Result, Value};

pub(super) struct Cursor<'t, V: Value + ?Sized, C: Scheme> {
    rows: Rows<'t, u64, V, C>,
    head: Option<(u64, V::View<'t>)>,
}

impl<'t, V: Value + ?Sized, C: Scheme> Cursor<'t, V, C> {
    pub(super) async fn new(mut rows: Rows<'t, u64, V, C>) -> Result<Self> {
        let head = rows.next().await?;
        Ok(Cursor { rows, head })
    }

    /// Takes the next row if there is one and its key meets the condition.
    pub(super) async fn next_if(
        &mut self,
        is_wanted: impl FnOnce(u64) -> bool,
    ) -> Result<Option<(u64, V::View<'t>)>> {
        match &self.head {
            Some((key, _)) if is_wanted(*key) => {}
            _ => return Ok(None),
        }
        let next = self.rows.next().await?;
        Ok(std::mem::replace(&mut self.head, next))
    }
}
