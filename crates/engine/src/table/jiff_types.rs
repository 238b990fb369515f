//! Dates and times of the crate `jiff`.

use super::fixed::{NANOS_PER_SECOND, fixed};
use super::moment::{self, Instant};
use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time};

fixed!(Timestamp, 12, "timestamp", |value| instant(*value).to_bytes(), |bytes| timestamp(
    Instant::from_bytes(bytes)
));
fixed!(Date, 6, "date", |value| date(*value).to_bytes(), |bytes| jiff_date(moment::Date::from_bytes(bytes)));
fixed!(Time, 7, "time", |value| time(*value).to_bytes(), |bytes| jiff_time(moment::Time::from_bytes(bytes)));
fixed!(
    DateTime,
    13,
    "datetime",
    |value| moment::joined(date(value.date()).to_bytes(), time(value.time()).to_bytes()),
    |bytes| {
        let (date, time) = moment::split(bytes);
        Some(DateTime::from_parts(jiff_date(date)?, jiff_time(time)?))
    }
);

fn instant(value: Timestamp) -> Instant {
    const PER_SECOND: i128 = NANOS_PER_SECOND as i128;
    let nanos = value.as_nanosecond();
    Instant { seconds: nanos.div_euclid(PER_SECOND) as i64, nanos: nanos.rem_euclid(PER_SECOND) as u32 }
}

fn timestamp(Instant { seconds, nanos }: Instant) -> Option<Timestamp> {
    let is_within = nanos < NANOS_PER_SECOND;
    let nanos = i128::from(seconds) * i128::from(NANOS_PER_SECOND) + i128::from(nanos);
    Timestamp::from_nanosecond(nanos).ok().filter(|_| is_within)
}

fn date(value: Date) -> moment::Date {
    moment::Date {
        year: value.year().into(),
        month: value.month().unsigned_abs(),
        day: value.day().unsigned_abs(),
    }
}

fn jiff_date(moment::Date { year, month, day }: moment::Date) -> Option<Date> {
    Date::new(year.try_into().ok()?, month.try_into().ok()?, day.try_into().ok()?).ok()
}

fn time(value: Time) -> moment::Time {
    moment::Time {
        hour: value.hour().unsigned_abs(),
        minute: value.minute().unsigned_abs(),
        second: value.second().unsigned_abs(),
        nanos: value.subsec_nanosecond().unsigned_abs(),
    }
}

fn jiff_time(moment::Time { hour, minute, second, nanos }: moment::Time) -> Option<Time> {
    let part = |number: u8| i8::try_from(number).ok();
    // jiff would turn a second of 60 into another second.
    let second = part(second).filter(|second| *second < 60)?;
    Time::new(part(hour)?, part(minute)?, second, nanos.try_into().ok()?).ok()
}
