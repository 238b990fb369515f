//! The inputs of transactions, and the source that makes them by clauses 2.4.1 to 2.8.1, with the weights of a mix.

use crate::keys::{self, District, LINES_MAX};
use crate::random::{Constants, NonUniform, between};
use crate::rng::{Rng, mix};
use crate::settings::{Home, Mix, Settings};
use std::ops::Range;
use std::time::SystemTime;

/// The input of one transaction.
#[derive(Clone, Copy, Debug)]
pub enum Input {
    /// An order of 5 to 15 lines.
    NewOrder(NewOrder),
    /// A customer pays.
    Payment(Payment),
    /// The oldest new orders of a warehouse are delivered.
    Delivery(Delivery),
    /// A customer's newest order is shown.
    OrderStatus(OrderStatus),
    /// The low stocks among the newest orders of a district are counted.
    StockLevel(StockLevel),
    /// The lowest stocks of a region's suppliers are filled up.
    Query2(Query2),
}

/// The kinds of inputs, in the order of `Input`. In this order the kinds of each mix follow each other.
pub static KINDS: [&str; 6] = ["new-order", "payment", "delivery", "order-status", "stock-level", "query2"];

impl Input {
    /// The input's index in [`KINDS`].
    #[inline(always)]
    pub fn kind(&self) -> usize {
        match self {
            Input::NewOrder(_) => 0,
            Input::Payment(_) => 1,
            Input::Delivery(_) => 2,
            Input::OrderStatus(_) => 3,
            Input::StockLevel(_) => 4,
            Input::Query2(_) => 5,
        }
    }

    /// Returns true for an order that asks for an item that does not exist and is to be rolled back.
    #[inline]
    pub fn rolls_back(&self) -> bool {
        matches!(self, Input::NewOrder(order) if order.rolls_back)
    }

    /// Returns true if the input's transaction writes nothing.
    #[inline(always)]
    pub fn only_reads(&self) -> bool {
        matches!(self, Input::OrderStatus(_) | Input::StockLevel(_))
    }
}

/// The input of a NewOrder.
#[derive(Clone, Copy, Debug)]
pub struct NewOrder {
    pub(crate) district: District,
    pub(crate) customer: u16,
    pub(crate) date: u64,
    /// The last line asks for an item that does not exist.
    pub(crate) rolls_back: bool,
    pub(crate) is_local: bool,
    /// Bit i: an earlier line takes from the stock that line i takes from.
    pub(crate) repeats: u16,
    pub(crate) count: u8,
    lines: [Line; LINES_MAX],
}

impl NewOrder {
    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines[..usize::from(self.count)]
    }
    /// Returns true if the line takes from a stock that an earlier line has changed.
    pub(crate) fn is_repeat(&self, line: usize) -> bool {
        self.repeats >> line & 1 == 1
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) item: u32,
    pub(crate) warehouse: u16,
    pub(crate) quantity: u8,
}

impl Line {
    /// The stock that the line takes from.
    fn stock(&self) -> (u16, u32) {
        (self.warehouse, self.item)
    }
}

/// A customer of a district, by number or by the number of a last name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Who {
    Number(u16),
    Name(u16),
}

/// The input of a Payment.
#[derive(Clone, Copy, Debug)]
pub struct Payment {
    pub(crate) district: District,
    pub(crate) customer_district: District,
    pub(crate) customer: Who,
    pub(crate) amount: i64,
    pub(crate) date: u64,
    /// The key of the new row of the history.
    pub(crate) history: u64,
}

/// The input of an OrderStatus.
#[derive(Clone, Copy, Debug)]
pub struct OrderStatus {
    pub(crate) district: District,
    pub(crate) customer: Who,
}

/// The input of a Delivery.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    pub(crate) warehouse: u16,
    pub(crate) carrier: u8,
    pub(crate) date: u64,
}

/// The input of a StockLevel.
#[derive(Clone, Copy, Debug)]
pub struct StockLevel {
    pub(crate) district: District,
    pub(crate) threshold: i32,
}

/// The input of a Q2*.
#[derive(Clone, Copy, Debug)]
pub struct Query2 {
    pub(crate) region: u32,
}

/// Makes the inputs of one worker, without allocating.
#[derive(Debug)]
pub struct Source {
    rng: Rng,
    settings: Settings,
    /// This source's number among all sources of its database. With the number of inputs made up to now, it makes the
    /// source's keys in the history unique.
    number: u64,
    made: u64,
    date_first: u64,
    /// The home warehouses: every `step`th from the first.
    home_first: u16,
    home_step: u16,
    home_count: u16,
    names: NonUniform,
    customers: NonUniform,
    items: NonUniform,
}

impl Source {
    pub(crate) fn new(
        settings: Settings,
        constants: &Constants,
        number: u64,
        place: (usize, usize),
        seed: u64,
    ) -> Self {
        let scale = settings.scale;
        let (first, step, count) = home(&settings, place);
        Source {
            rng: Rng::new(mix(seed).wrapping_add(mix(place.0 as u64 + 1))),
            settings,
            number,
            made: 0,
            date_first: now_us(),
            home_first: first,
            home_step: step,
            home_count: count,
            names: constants.names(scale.customers),
            customers: constants.customers(scale.customers),
            items: constants.items(scale.items),
        }
    }

    /// Makes the next input.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "there is always one")]
    pub fn next(&mut self) -> Input {
        self.made += 1;
        let draw = self.rng.below(100) as u32;
        match self.settings.mix.kind(draw) {
            0 => Input::NewOrder(self.new_order()),
            1 => Input::Payment(self.payment()),
            2 => {
                let carrier = between(&mut self.rng, 1, 10) as u8;
                Input::Delivery(Delivery { warehouse: self.warehouse(), carrier, date: self.date() })
            }
            3 => {
                let district = self.district();
                Input::OrderStatus(OrderStatus { district, customer: self.who() })
            }
            4 => {
                let threshold = between(&mut self.rng, 10, 20) as i32;
                Input::StockLevel(StockLevel { district: self.district(), threshold })
            }
            _ => Input::Query2(Query2 { region: self.rng.below(crate::regions::REGIONS) as u32 }),
        }
    }

    fn new_order(&mut self) -> NewOrder {
        let district = self.district();
        let customer = self.customers.draw(&mut self.rng) as u16;
        let count = between(&mut self.rng, 5, LINES_MAX as u64) as u8;
        let rolls_back = self.rng.below(100) == 0;
        let mut lines = [Line::default(); LINES_MAX];
        let mut is_local = true;
        let used = &mut lines[..usize::from(count)];
        for (i, line) in used.iter_mut().enumerate() {
            let item = self.items.draw(&mut self.rng) as u32;
            let is_remote = self.is_within(self.settings.remote_items);
            let warehouse = district.warehouse();
            let warehouse = if is_remote { self.other_than(warehouse) } else { warehouse };
            let is_last = i + 1 == usize::from(count);
            let item = if rolls_back && is_last { self.settings.scale.unused_item() } else { item };
            is_local &= warehouse == district.warehouse();
            *line = Line { item, warehouse, quantity: between(&mut self.rng, 1, 10) as u8 };
        }
        if self.settings.sorted {
            let found = used.len() - usize::from(rolls_back);
            used[..found].sort_unstable_by_key(Line::stock);
        }
        let is_repeat = |i: &usize| used[..*i].iter().any(|line| line.stock() == used[*i].stock());
        let repeats = (0..used.len()).filter(is_repeat).fold(0, |repeats, i| repeats | 1 << i);
        NewOrder { district, customer, date: self.date(), rolls_back, is_local, repeats, count, lines }
    }

    fn payment(&mut self) -> Payment {
        let district = self.district();
        let customer_district = if self.is_within(self.settings.remote_payments) {
            let warehouse = self.other_than(district.warehouse());
            self.district_of(warehouse)
        } else {
            district
        };
        Payment {
            district,
            customer_district,
            customer: self.who(),
            amount: between(&mut self.rng, 100, 500_000) as i64,
            date: self.date(),
            history: keys::history(self.number, self.made, district.warehouse()),
        }
    }

    /// Chooses a customer. 60 of 100 customers are asked for by name.
    fn who(&mut self) -> Who {
        if self.is_within(60) {
            Who::Name(self.names.draw(&mut self.rng) as u16)
        } else {
            Who::Number(self.customers.draw(&mut self.rng) as u16)
        }
    }

    fn is_within(&mut self, percent: u32) -> bool {
        self.rng.below(100) < u64::from(percent)
    }

    fn district(&mut self) -> District {
        let warehouse = self.warehouse();
        self.district_of(warehouse)
    }

    fn district_of(&mut self, warehouse: u16) -> District {
        District::new(warehouse, 1 + self.rng.below(u64::from(self.settings.scale.districts)) as u8)
    }

    /// Draws a home warehouse.
    fn warehouse(&mut self) -> u16 {
        let nth = if self.home_count == 1 { 0 } else { self.rng.below(u64::from(self.home_count)) as u16 };
        self.home_first + nth * self.home_step
    }

    /// Draws any warehouse but this one. Returns this one if there is no other.
    fn other_than(&mut self, warehouse: u16) -> u16 {
        if self.settings.scale.warehouses == 1 {
            return warehouse;
        }
        let other = 1 + self.rng.below(u64::from(self.settings.scale.warehouses) - 1) as u16;
        other + u16::from(other >= warehouse)
    }

    /// A date after the last input's. The clock is read once, and an input takes a microsecond.
    fn date(&self) -> u64 {
        self.date_first + self.made
    }
}

/// Returns the first home warehouse, the distance to the next, and the number of home warehouses.
fn home(settings: &Settings, (worker, workers): (usize, usize)) -> (u16, u16, u16) {
    let warehouses = settings.scale.warehouses as usize;
    match settings.home {
        Home::Uniform => (1, 1, warehouses as u16),
        Home::Worker => {
            let step = workers.min(warehouses);
            let first = worker % step;
            ((first + 1) as u16, step as u16, (warehouses - first).div_ceil(step) as u16)
        }
    }
}

/// Microseconds since 1970.
fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(1, |since| since.as_micros().max(1) as u64)
}

impl Input {
    /// The warehouses whose rows the transaction reads or writes, some perhaps more than once. If there are none, the
    /// transaction may use any warehouse.
    #[inline]
    pub(crate) fn warehouses(&self) -> impl Iterator<Item = u16> {
        let (home, other, lines) = match self {
            Input::NewOrder(input) => (Some(input.district.warehouse()), None, input.lines()),
            Input::Payment(input) => {
                (Some(input.district.warehouse()), Some(input.customer_district.warehouse()), &[][..])
            }
            Input::Delivery(input) => (Some(input.warehouse), None, &[][..]),
            Input::OrderStatus(input) => (Some(input.district.warehouse()), None, &[][..]),
            Input::StockLevel(input) => (Some(input.district.warehouse()), None, &[][..]),
            Input::Query2(_) => (None, None, &[][..]),
        };
        home.into_iter().chain(other).chain(lines.iter().map(|line| line.warehouse))
    }

    /// Returns the keys on which this transaction conflicts with others that are open at the same time, and how many
    /// there are. The caller keeps such transactions apart, or in order.
    ///
    /// Under every scheme, if two open transactions change the same row, one of them fails. This concerns Payment's
    /// warehouse and district, NewOrder's district, and the oldest new orders: Delivery takes one of each district of
    /// its warehouse. Delivery changes neither warehouse nor district, so it need not wait for Payment and NewOrder.
    /// Customers and stocks that two transactions happen to change are too many to be worth a hint.
    ///
    /// Rows that are only read add nothing under snapshot isolation, and too little under `Serializable`: if NewOrder
    /// reads the warehouse's tax while a Payment changes the row, NewOrder is ordered first, which nothing else
    /// forbids.
    #[inline]
    pub fn conflicts(&self) -> ([u64; 4], usize) {
        const WAREHOUSE: u64 = 1 << 60;
        const DISTRICT: u64 = 2 << 60;
        const DELIVERY: u64 = 3 << 60;
        match self {
            Input::NewOrder(input) => ([DISTRICT | input.district.key(), 0, 0, 0], 1),
            Input::Payment(input) => {
                let warehouse = WAREHOUSE | u64::from(input.district.warehouse());
                ([warehouse, DISTRICT | input.district.key(), 0, 0], 2)
            }
            Input::Delivery(input) => ([DELIVERY | u64::from(input.warehouse), 0, 0, 0], 1),
            Input::OrderStatus(_) | Input::StockLevel(_) | Input::Query2(_) => ([0; 4], 0),
        }
    }
}

impl Mix {
    /// The shares of the kinds, in percent.
    pub(crate) fn shares(self) -> [u32; KINDS.len()] {
        match self {
            Mix::Full => [45, 43, 4, 4, 4, 0],
            Mix::Narrow => [50, 50, 0, 0, 0, 0],
            Mix::Reads => [0, 0, 0, 50, 50, 0],
            Mix::Hybrid => [40, 38, 4, 4, 4, 10],
            Mix::NewOrder => [100, 0, 0, 0, 0, 0],
            Mix::Payment => [0, 100, 0, 0, 0, 0],
            Mix::OrderStatus => [0, 0, 0, 100, 0, 0],
            Mix::Delivery => [0, 0, 100, 0, 0, 0],
            Mix::StockLevel => [0, 0, 0, 0, 100, 0],
            Mix::Query2 => [0, 0, 0, 0, 0, 100],
        }
    }

    /// The kinds in the mix, by their indexes in [`KINDS`].
    #[inline(always)]
    pub fn kinds(self) -> Range<usize> {
        match self {
            Mix::Full => 0..5,
            Mix::Narrow => 0..2,
            Mix::Reads => 3..5,
            Mix::Hybrid => 0..6,
            Mix::NewOrder => 0..1,
            Mix::Payment => 1..2,
            Mix::Delivery => 2..3,
            Mix::OrderStatus => 3..4,
            Mix::StockLevel => 4..5,
            Mix::Query2 => 5..6,
        }
    }

    /// Returns the kind for a draw below 100.
    #[inline(always)]
    fn kind(self, draw: u32) -> usize {
        debug_assert!(draw < 100);
        let mut left = draw;
        for (kind, share) in self.shares().into_iter().enumerate() {
            if left < share {
                return kind;
            }
            left -= share;
        }
        KINDS.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::Scale;

    fn source(settings: Settings, place: (usize, usize)) -> Source {
        Source::new(settings, &Constants::new(1), 1, place, 1)
    }

    fn settings(mix: Mix) -> Settings {
        Settings { mix, ..Settings::new(Scale { warehouses: 4, ..Scale::small(1) }) }
    }

    #[test]
    fn mixes_have_their_shares() {
        // Proves that the shares of each mix add up to 100, that a mix has exactly the kinds with a share, and that
        // inputs come with these shares.
        for mix in Mix::ALL {
            assert_eq!(mix.shares().iter().sum::<u32>(), 100, "{mix:?}");
            for (kind, share) in mix.shares().into_iter().enumerate() {
                assert_eq!(mix.kinds().contains(&kind), share > 0, "{mix:?} {kind}");
            }
            let mut source = source(settings(mix), (0, 1));
            let mut counts = [0; KINDS.len()];
            for _ in 0..20_000 {
                counts[source.next().kind()] += 1;
            }
            for (count, share) in counts.into_iter().zip(mix.shares()) {
                assert!((count as f64 / 200.0 - f64::from(share)).abs() < 2.0, "{mix:?} {counts:?}");
            }
        }
    }

    #[test]
    fn shares_within_a_kind_are_those_of_the_specification() {
        // Proves the shares of rollbacks, names and remote warehouses, with the default settings and with 0 and 100
        // percent.
        for (percent_items, percent_payments) in [(1, 15), (0, 0), (100, 100)] {
            let mix = Mix::Narrow;
            let settings =
                Settings { remote_items: percent_items, remote_payments: percent_payments, ..settings(mix) };
            let mut source = source(settings, (0, 1));
            let (mut lines, mut remote_lines, mut rolled_back) = (0, 0, 0);
            let (mut payments, mut remote, mut names) = (0, 0, 0);
            for _ in 0..40_000 {
                match source.next() {
                    Input::NewOrder(order) => {
                        let home = order.district.warehouse();
                        let away = order.lines().iter().filter(|line| line.warehouse != home).count();
                        assert_eq!(order.is_local, away == 0);
                        lines += order.lines().len();
                        remote_lines += away;
                        rolled_back += usize::from(order.rolls_back);
                    }
                    Input::Payment(payment) => {
                        payments += 1;
                        let home = payment.district.warehouse();
                        remote += usize::from(payment.customer_district.warehouse() != home);
                        names += usize::from(matches!(payment.customer, Who::Name(_)));
                    }
                    other => panic!("{other:?} is not of the mix"),
                }
            }
            let percent = |part: usize, whole: usize| 100.0 * part as f64 / whole as f64;
            assert!((percent(lines, 200_000 + 200) - 100.0).abs() < 2.0);
            assert!((percent(remote_lines, lines) - f64::from(percent_items)).abs() < 0.2);
            assert!((percent(rolled_back, 20_000) - 1.0).abs() < 0.3);
            assert!((percent(remote, payments) - f64::from(percent_payments)).abs() < 1.0);
            assert!((percent(names, payments) - 60.0).abs() < 1.0);
        }
    }

    #[test]
    fn repeated_stocks_are_marked() {
        // Proves that a line is marked if and only if an earlier line takes from the same stock, which happens if
        // there are few items.
        let scale = Scale { items: 10, ..Scale::small(2) };
        let mut source =
            source(Settings { mix: Mix::NewOrder, remote_items: 30, ..Settings::new(scale) }, (0, 1));
        let mut marked = 0;
        for _ in 0..1000 {
            let Input::NewOrder(order) = source.next() else { panic!("another kind") };
            for (i, line) in order.lines().iter().enumerate() {
                let is_same = |other: &Line| other.stock() == line.stock();
                assert_eq!(order.is_repeat(i), order.lines()[..i].iter().any(is_same), "{order:?}");
                marked += u32::from(order.is_repeat(i));
            }
        }
        assert!(marked > 100);
    }

    #[test]
    fn lines_are_sorted_where_that_is_asked_for() {
        // Proves that sorted orders have the lines of unsorted orders, ordered by stock, with the item that does not
        // exist at the end, and with repeats marked.
        let of = |sorted: bool| {
            let scale = Scale { items: 40, ..Scale::small(3) };
            let settings = Settings { mix: Mix::NewOrder, remote_items: 30, sorted, ..Settings::new(scale) };
            source(settings, (0, 1))
        };
        let (mut drawn, mut sorted) = (of(false), of(true));
        for _ in 0..1000 {
            let (Input::NewOrder(drawn), Input::NewOrder(sorted)) = (drawn.next(), sorted.next()) else {
                panic!("another kind")
            };
            let mut lines = drawn.lines().to_vec();
            let found = lines.len() - usize::from(drawn.rolls_back);
            lines[..found].sort_by_key(Line::stock);
            let stocks = |lines: &[Line]| lines.iter().map(Line::stock).collect::<Vec<_>>();
            assert_eq!(stocks(sorted.lines()), stocks(&lines));
            assert_eq!((sorted.is_local, sorted.rolls_back), (drawn.is_local, drawn.rolls_back));
            for i in 1..found {
                let (before, line) = (sorted.lines()[i - 1], sorted.lines()[i]);
                assert_eq!(sorted.is_repeat(i), before.stock() == line.stock());
            }
        }
    }

    #[test]
    fn workers_have_homes() {
        // Proves that every warehouse is the home of some worker, and of only one worker unless there are too few
        // warehouses.
        for (warehouses, workers) in [(1, 1), (1, 3), (2, 2), (5, 2), (3, 7), (65_535, 2)] {
            let settings = Settings { home: Home::Worker, ..Settings::new(Scale::small(warehouses)) };
            let mut homes: Vec<u32> = (0..workers)
                .flat_map(|worker| {
                    let (first, step, count) = home(&settings, (worker, workers));
                    (0..count).map(move |nth| u32::from(first) + u32::from(nth) * u32::from(step))
                })
                .collect();
            homes.sort_unstable();
            if workers <= warehouses as usize {
                assert!(homes.into_iter().eq(1..=warehouses), "{warehouses} {workers}");
            } else {
                homes.dedup();
                assert!(homes.into_iter().eq(1..=warehouses), "{warehouses} {workers}");
            }
        }
    }

    #[test]
    fn conflicts_are_of_shared_rows() {
        // Proves that two payments of a warehouse conflict, that payments of different warehouses do not, and that a
        // delivery conflicts with no payment.
        let payment = |warehouse| {
            let district = District::new(warehouse, 1);
            let customer = Who::Number(1);
            let (customer_district, amount) = (district, 1);
            Input::Payment(Payment { district, customer_district, customer, amount, date: 1, history: 1 })
        };
        let shared = |a: &Input, b: &Input| {
            let ((a, a_len), (b, b_len)) = (a.conflicts(), b.conflicts());
            a[..a_len].iter().any(|key| b[..b_len].contains(key))
        };
        let delivery = Input::Delivery(Delivery { warehouse: 1, carrier: 1, date: 1 });
        assert!(shared(&payment(1), &payment(1)));
        assert!(!shared(&payment(1), &payment(2)));
        assert!(shared(&delivery, &delivery));
        assert!(!shared(&delivery, &payment(1)));
        assert_eq!(Input::Query2(Query2 { region: 1 }).conflicts().1, 0);
    }
}
