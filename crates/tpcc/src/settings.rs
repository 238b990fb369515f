//! The settings: which transactions run, where, and in which shares.

use crate::scale::Scale;

/// The transactions of the mix, and the share of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Mix {
    /// TPC-C: 45 % NewOrder, 43 % Payment, 4 % each of the others
    Full,
    /// NewOrder and Payment, half and half
    Narrow,
    /// TPC-CR: StockLevel and OrderStatus, half and half; nothing is written
    #[value(name = "cr")]
    Reads,
    /// TPC-CH: 10 % Q2*, 40 % NewOrder, 38 % Payment, 4 % each of the others
    #[value(name = "ch")]
    Hybrid,
    /// NewOrder alone
    NewOrder,
    /// Payment alone
    Payment,
    /// OrderStatus alone
    OrderStatus,
    /// Delivery alone
    Delivery,
    /// StockLevel alone
    StockLevel,
    /// Q2* alone
    #[value(name = "query2")]
    Query2,
}

impl Mix {
    /// All mixes.
    pub const ALL: [Mix; 10] = [
        Mix::Full,
        Mix::Narrow,
        Mix::Reads,
        Mix::Hybrid,
        Mix::NewOrder,
        Mix::Payment,
        Mix::OrderStatus,
        Mix::Delivery,
        Mix::StockLevel,
        Mix::Query2,
    ];

    /// Returns true if all transactions of the mix can be [interpreted](Settings::interpreted).
    pub fn is_interpretable(self) -> bool {
        matches!(self, Mix::Narrow | Mix::NewOrder | Mix::Payment)
    }

    /// The mix's name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Mix::Full => "full",
            Mix::Narrow => "narrow",
            Mix::Reads => "cr",
            Mix::Hybrid => "ch",
            Mix::NewOrder => "new-order",
            Mix::Payment => "payment",
            Mix::OrderStatus => "order-status",
            Mix::Delivery => "delivery",
            Mix::StockLevel => "stock-level",
            Mix::Query2 => "query2",
        }
    }
}

/// The warehouses that are at home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Home {
    /// Each worker has warehouses of its own
    Worker,
    /// Every transaction is at home in any warehouse
    #[default]
    Uniform,
}

/// The settings by which transactions are made.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The size of the database.
    pub scale: Scale,
    /// The shares of the kinds.
    pub mix: Mix,
    /// The percentage of an order's lines that another warehouse supplies.
    pub remote_items: u32,
    /// The percentage of payments by customers of another warehouse.
    pub remote_payments: u32,
    /// The home warehouses.
    pub home: Home,
    /// If true, a NewOrder takes from stocks in the order of their keys, not in the order in which they were drawn.
    /// Two such transactions that lock rows do not wait for each other in a circle.
    pub sorted: bool,
    /// If true, NewOrder and Payment use the names of tables and columns, which are looked up at each use.
    pub interpreted: bool,
}

impl Home {
    /// The setting's name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Home::Worker => "worker",
            Home::Uniform => "uniform",
        }
    }
}

impl Settings {
    /// The specification's settings.
    pub fn new(scale: Scale) -> Settings {
        let (mix, home) = (Mix::Full, Home::Uniform);
        Settings { scale, mix, remote_items: 1, remote_payments: 15, home, sorted: false, interpreted: false }
    }
}
