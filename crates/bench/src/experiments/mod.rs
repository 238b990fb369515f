//! Measurements that are not workloads. Each has its own ways of running and its own table.

pub(crate) mod blocks;
pub(crate) mod classes;
pub(crate) mod commit;
pub(crate) mod main_job;
pub(crate) mod recovery;
pub(crate) mod robust;
pub(crate) mod settle;
pub(crate) mod stock_level;
