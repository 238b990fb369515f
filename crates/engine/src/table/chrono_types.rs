//! Dates and times of the crate `chrono`.

use super::fixed::fixed;
use super::moment::{self, Instant};
use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, NaiveTime, Timelike, Utc};

fixed!(DateTime<Utc>, 12, "timestamp", |value| instant(value).to_bytes(), |bytes| {
    let Instant { seconds, nanos } = Instant::from_bytes(bytes);
    // chrono has leap seconds at the end of any minute, and accepts them from other crates' times at any second.
    DateTime::from_timestamp(seconds, 0)?.with_nanosecond(nanos)
});
fixed!(NaiveDate, 6, "date", |value| date(*value).to_bytes(), |bytes| naive_date(moment::Date::from_bytes(
    bytes
)));
fixed!(NaiveTime, 7, "time", |value| time(*value).to_bytes(), |bytes| naive_time(moment::Time::from_bytes(
    bytes
)));
fixed!(
    NaiveDateTime,
    13,
    "datetime",
    |value| moment::joined(date(value.date()).to_bytes(), time(value.time()).to_bytes()),
    |bytes| {
        let (date, time) = moment::split(bytes);
        Some(naive_date(date)?.and_time(naive_time(time)?))
    }
);

fn instant(value: &DateTime<Utc>) -> Instant {
    Instant { seconds: value.timestamp(), nanos: value.timestamp_subsec_nanos() }
}

fn date(value: NaiveDate) -> moment::Date {
    moment::Date { year: value.year(), month: value.month() as u8, day: value.day() as u8 }
}

fn naive_date(moment::Date { year, month, day }: moment::Date) -> Option<NaiveDate> {
    NaiveDate::from_ymd_opt(year, month.into(), day.into())
}

fn time(value: NaiveTime) -> moment::Time {
    moment::Time {
        hour: value.hour() as u8,
        minute: value.minute() as u8,
        second: value.second() as u8,
        nanos: value.nanosecond(),
    }
}

fn naive_time(moment::Time { hour, minute, second, nanos }: moment::Time) -> Option<NaiveTime> {
    NaiveTime::from_hms_opt(hour.into(), minute.into(), second.into())?.with_nanosecond(nanos)
}
