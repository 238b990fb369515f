//! Completes the word before the cursor: names of commands, tables, flags and flag values.

use super::commands::Line;
use clap::{Arg, Command, CommandFactory};

/// The source of completions.
pub struct Words {
    shell: Command,
    tables: Vec<String>,
}

impl Words {
    /// Makes the completions for a database with these tables.
    pub fn new(tables: Vec<String>) -> Words {
        let mut shell = Line::command();
        shell.build();
        Words { shell, tables }
    }

    /// Returns the beginning of the text's last word, and the completions of that word.
    pub fn complete(&self, text: &str) -> (usize, Vec<String>) {
        let start = last_word(text);
        let word = &text[start..];
        let Some(before) = shlex::split(&text[..start]) else { return (start, Vec::new()) };
        let typed = word.trim_start_matches(['\'', '"']);
        let mut words = self.candidates(&before, word);
        words.retain(|candidate| candidate.starts_with(typed));
        words.sort_unstable();
        words.dedup();
        let quoted = |word: &String| shlex::try_quote(word).ok().map(|quoted| format!("{quoted} "));
        (start, words.iter().filter_map(quoted).collect())
    }

    /// The words that may follow the words in `before`. `word` is the beginning of the next one.
    fn candidates(&self, before: &[String], word: &str) -> Vec<String> {
        let names = || self.shell.get_subcommands().map(|command| command.get_name().to_owned()).collect();
        let Some((name, before)) = before.split_first() else { return names() };
        if name == "help" {
            return if before.is_empty() { names() } else { Vec::new() };
        }
        let Some(command) = self.shell.find_subcommand(name) else { return Vec::new() };
        let mut positions = command.get_positionals();
        let mut words = before.iter();
        while let Some(word) = words.next() {
            match flag(command, word) {
                Some(flag) if takes_value(flag) => match words.next() {
                    Some(_) => {}
                    None => return values(flag),
                },
                Some(_) => {}
                None => drop(positions.next()),
            }
        }
        if word.starts_with('-') {
            let long = command.get_arguments().filter_map(Arg::get_long);
            return long.map(|long| format!("--{long}")).collect();
        }
        match positions.next() {
            Some(position) if position.get_id() == "table" => self.tables.clone(),
            _ => Vec::new(),
        }
    }
}

/// The flag with this name.
fn flag<'c>(command: &'c Command, word: &str) -> Option<&'c Arg> {
    let long = word.strip_prefix("--")?;
    command.get_arguments().find(|argument| argument.get_long() == Some(long))
}

fn takes_value(flag: &Arg) -> bool {
    flag.get_action().takes_values()
}

fn values(flag: &Arg) -> Vec<String> {
    flag.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect()
}

/// The beginning of the last word, after the last space that is not in quotes.
fn last_word(text: &str) -> usize {
    let (mut start, mut quote, mut is_escaped) = (0, None, false);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if is_escaped => is_escaped = false,
            (None | Some('"'), '\\') => is_escaped = true,
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            (None, _) if c.is_whitespace() => start = at + c.len_utf8(),
            _ => {}
        }
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_completed() {
        // Proves which words are offered at each place, that names are quoted where necessary, and where the word
        // begins.
        let words = Words::new(["users", "user logins", "orders"].map(String::from).into());
        for (text, start, expected) in [
            ("", 0, "begin commit delete exit get help info insert put rollback scan stats tables"),
            ("t", 0, "tables"),
            ("x", 0, ""),
            ("help sc", 5, "scan"),
            ("help scan ", 10, ""),
            ("get us", 4, "'user logins' users"),
            ("get 'user l", 4, "'user logins'"),
            ("get \"user l", 4, "'user logins'"),
            ("get 'user logins' ", 18, ""),
            ("get users o", 10, ""),
            ("tables o", 7, ""),
            ("tables --", 7, "--help --json"),
            ("scan --rev", 5, "--reverse"),
            ("scan --limit 7 o", 15, "orders"),
            ("scan orders --format ", 21, "csv json"),
            ("fetch o", 6, ""),
            ("get user\\ l", 4, ""),
        ] {
            let (found_start, found) = words.complete(text);
            let found: Vec<_> = found.iter().map(|word| word.strip_suffix(' ').unwrap()).collect();
            assert_eq!((found_start, found.join(" ")), (start, expected.to_owned()), "{text:?}");
        }
    }
}
