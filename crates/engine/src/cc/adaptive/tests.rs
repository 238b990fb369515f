//! That the scheme follows the phases of a workload, by its counters.
