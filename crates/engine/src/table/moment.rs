//! Dates and times as bytes, the same for every crate: a table made with one crate's types can be opened with
//! another's.
//!
//! Years and seconds are big-endian with the sign bit flipped. All other parts are not negative. The greatest unit is
//! first.

use super::fixed::{seconds_and_nanos, split_seconds};

const SIGN: u64 = 1 << 63;

/// A day of the proleptic Gregorian calendar.
pub(crate) struct Date {
    pub(crate) year: i32,
    pub(crate) month: u8,
    pub(crate) day: u8,
}

/// A time of day. In a leap second nanoseconds may be a second or more, if the crate allows it.
pub(crate) struct Time {
    pub(crate) hour: u8,
    pub(crate) minute: u8,
    pub(crate) second: u8,
    pub(crate) nanos: u32,
}

/// A point in time: whole seconds since the Unix epoch, rounded down, and the rest.
pub(crate) struct Instant {
    pub(crate) seconds: i64,
    pub(crate) nanos: u32,
}

impl Date {
    pub(crate) fn to_bytes(&self) -> [u8; 6] {
        let [a, b, c, d] = (self.year as u32 ^ 1 << 31).to_be_bytes();
        [a, b, c, d, self.month, self.day]
    }

    pub(crate) fn from_bytes([a, b, c, d, month, day]: [u8; 6]) -> Date {
        Date { year: (u32::from_be_bytes([a, b, c, d]) ^ 1 << 31) as i32, month, day }
    }
}

impl Time {
    pub(crate) fn to_bytes(&self) -> [u8; 7] {
        let [a, b, c, d] = self.nanos.to_be_bytes();
        [self.hour, self.minute, self.second, a, b, c, d]
    }

    pub(crate) fn from_bytes([hour, minute, second, a, b, c, d]: [u8; 7]) -> Time {
        Time { hour, minute, second, nanos: u32::from_be_bytes([a, b, c, d]) }
    }
}

impl Instant {
    pub(crate) fn to_bytes(&self) -> [u8; 12] {
        seconds_and_nanos(self.seconds as u64 ^ SIGN, self.nanos)
    }

    pub(crate) fn from_bytes(bytes: [u8; 12]) -> Instant {
        let (seconds, nanos) = split_seconds(bytes);
        Instant { seconds: (seconds ^ SIGN) as i64, nanos }
    }
}

/// Joins a date and a time.
pub(crate) fn joined(date: [u8; 6], time: [u8; 7]) -> [u8; 13] {
    let mut bytes = [0; 13];
    bytes[..6].copy_from_slice(&date);
    bytes[6..].copy_from_slice(&time);
    bytes
}

pub(crate) fn split([a, b, c, d, month, day, time @ ..]: [u8; 13]) -> (Date, Time) {
    (Date::from_bytes([a, b, c, d, month, day]), Time::from_bytes(time))
}
