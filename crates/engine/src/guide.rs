//! The snippets of the guide (`docs/guide`), compiled and run with the documentation's tests: a page, an item.

#[doc = include_str!("../../../docs/guide/src/getting-started.md")]
struct GettingStarted;

#[doc = include_str!("../../../docs/guide/src/transactions.md")]
struct Transactions;

#[doc = include_str!("../../../docs/guide/src/isolation-and-durability.md")]
struct IsolationAndDurability;

#[doc = include_str!("../../../docs/guide/src/keys-values-indexes.md")]
struct KeysValuesIndexes;

#[doc = include_str!("../../../docs/guide/src/async-servers.md")]
struct AsyncServers;

#[doc = include_str!("../../../docs/guide/src/changes.md")]
struct Changes;

#[doc = include_str!("../../../docs/guide/src/tuning.md")]
struct Tuning;

#[doc = include_str!("../../../docs/guide/src/operating.md")]
struct Operating;

#[doc = include_str!("../../../docs/guide/src/faq.md")]
struct Faq;

#[doc = include_str!("../../../docs/guide/src/coming-from.md")]
struct ComingFrom;
