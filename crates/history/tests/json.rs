//! The file format: what is written can be read back, and errors of bad input are helpful.

use braid_history::generate::{Execution, Random, Shape, generate};
use braid_history::{Class, History, Model, Op, Order, Transaction, check};

const GOOD: &str = r#"{"id":1,"session":2,"begin":3,"end":4,"status":"committed","ops":[{"read":{"key":"a","value":null}}]}"#;

fn error(text: &str) -> String {
    History::read(text.as_bytes()).expect_err("the text is bad").to_string()
}

#[test]
fn what_is_written_is_read_back() {
    // Proves that no field is lost on the way, for numbers and texts as keys.
    for seed in 0..200 {
        let mut history = generate(seed, &Shape::default(), Execution::Snapshot);
        let mut text_keys = Transaction::new(1_000, 1);
        text_keys.push(Op::Write { key: "a \"key\"\n".into(), value: Some(i64::MIN) });
        history.push(text_keys);
        let mut text = Vec::new();
        history.write(&mut text).unwrap();
        assert_eq!(History::read(&text[..]).unwrap(), history);
    }
}

#[test]
fn the_example_of_the_format_is_what_it_says() {
    // Proves that the history on the format's page can be read, and that it has the anomaly that the page names.
    let page = include_str!("../../../docs/design/history-format.md");
    let example = page.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let history = History::read(example.as_bytes()).unwrap();
    assert!(check(&history, Model::Serializable, Order::Stamps).has(Class::WriteSkew));
    assert!(check(&history, Model::SnapshotIsolation, Order::Stamps).holds());
}

#[test]
fn errors_say_where_and_what_to_do() {
    // Proves that each kind of bad line is named with its number.
    assert!(History::read(format!("\n{GOOD}\n\n").as_bytes()).is_ok());
    for (bad, expected) in [
        ("{".to_string(), "line 2: not a transaction: EOF"),
        ("[]".to_string(), "line 2: not a transaction"),
        (GOOD.replace("\"read\"", "\"reed\""), "unknown variant `reed`"),
        (GOOD.replace(",\"value\":null", ""), "missing field `value`"),
        (GOOD.replace("\"end\"", "\"ending\""), "unknown field `ending`"),
        (GOOD.replace("\"end\":4", "\"end\":2").replace("\"id\":1", "\"id\":5"), "end is smaller than begin"),
        (GOOD.to_string(), "line 2: id 1 was used on an earlier line"),
    ] {
        let error = error(&format!("{GOOD}\n{bad}\n"));
        assert!(error.contains(expected), "{error}");
    }
    let not_utf8 = History::read(&b"\xff\n"[..]).unwrap_err().to_string();
    assert!(not_utf8.starts_with("line 1: cannot be read"), "{not_utf8}");
}

#[test]
fn damaged_input_never_panics() {
    // Proves that the reader refuses files with changed bytes, or every model judges them.
    for seed in 0..2_000 {
        let mut random = Random::new(seed);
        let shape = Shape { transactions: 6, ..Shape::default() };
        let mut text = Vec::new();
        generate(seed, &shape, Execution::Snapshot).write(&mut text).unwrap();
        for _ in 0..=random.below(3) {
            let at = random.below(text.len() as u64) as usize;
            text[at] = b"0123456789,:[]{}\"n"[random.below(18) as usize];
        }
        let Ok(history) = History::read(&text[..]) else { continue };
        for order in [Order::Stamps, Order::Values] {
            for model in [Model::Serializable, Model::StrictSerializable, Model::SnapshotIsolation] {
                let verdict = check(&history, model, order);
                assert_eq!(verdict.holds(), verdict.anomalies.is_empty());
            }
        }
    }
}
