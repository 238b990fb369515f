//! Finds documents by their words. The table has a row for each word of a document, ordered by word. A secondary index
//! has the same rows by document, so a document that is changed loses its old words.
//!
//! `cargo run --example full_text`

use braiddb::{Database, Index, Options, Result, Table, Txn};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy)]
struct Library {
    documents: Table<u64, String>,
    /// By word and document: the number of times that the word occurs in the document.
    words: Table<(String, u64), u32>,
    /// The rows of `words` by document.
    by_document: Index<u64, (String, u64), u32>,
}

impl Library {
    fn open(db: &Database) -> Result<Library> {
        let words = db.table("words")?;
        let by_document = db.index(words, "words by document", |(_, document), _| Some(*document))?;
        Ok(Library { documents: db.table("documents")?, words, by_document })
    }

    /// Writes a document, new or changed. Readers see all of it or nothing.
    async fn write(self, tx: &Txn, document: u64, text: &str) -> Result<()> {
        let mut before = Vec::new();
        let mut rows = tx.scan_by(self.by_document, document..=document);
        while let Some((_, word, _)) = rows.next().await? {
            before.push(word);
        }
        for (word, of) in &before {
            tx.delete(self.words, (word, of)).await?;
        }
        let mut counts = BTreeMap::<String, u32>::new();
        for word in words_of(text) {
            *counts.entry(word).or_default() += 1;
        }
        for (word, count) in &counts {
            tx.put(self.words, (word, &document), *count).await?;
        }
        tx.put(self.documents, document, text).await
    }

    /// Returns the documents that have all words.
    async fn find(self, tx: &Txn, text: &str) -> Result<BTreeSet<u64>> {
        let mut found: Option<BTreeSet<u64>> = None;
        for word in words_of(text) {
            let mut with_word = BTreeSet::new();
            let mut rows = tx.scan(self.words, (word.as_str(), 0)..=(word.as_str(), u64::MAX));
            rows.for_each(|(_, document), _| {
                with_word.insert(document);
            })
            .await?;
            found = Some(match found {
                None => with_word,
                Some(found) => &found & &with_word,
            });
        }
        Ok(found.unwrap_or_default())
    }
}

fn words_of(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// Runs the example.
pub fn main() -> Result<()> {
    let db = Database::in_memory(Options { workers: 1, ..Options::default() })?;
    let library = Library::open(&db)?;
    let texts = [
        (1, "A transaction is a coroutine: it runs until it has to wait."),
        (2, "While one transaction waits for memory, another one runs."),
        (3, "Memory is fast, and still a hundred times slower than a cache."),
    ];
    for (document, text) in texts {
        db.run(async move |tx| library.write(tx, document, text).await).wait()?;
    }
    let find = |text: &'static str| db.run(async move |tx| library.find(tx, text).await).wait();
    assert_eq!(find("transaction")?, BTreeSet::from([1, 2]));
    assert_eq!(find("Transaction MEMORY")?, BTreeSet::from([2]));

    db.run(async move |tx| library.write(tx, 2, "Another one runs meanwhile.").await).wait()?;
    assert_eq!(find("memory")?, BTreeSet::from([3]));
    assert_eq!(find("meanwhile")?, BTreeSet::from([2]));
    println!("documents that have `runs`: {:?}", find("runs")?);
    Ok(())
}
