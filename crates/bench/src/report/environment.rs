//! The machine and the build behind a result. Facts that cannot be determined are left out, and never fail a run.

use serde::Serialize;
use std::fs;
use std::process::Command;

/// The environment in which a result was made, for readers of the result. Unknown facts are absent.
#[derive(Clone, Debug, Serialize)]
pub struct Environment {
    /// The processor's name.
    pub cpu_model: Option<String>,
    /// Processors that this process may use.
    pub cpus: usize,
    /// Bytes of the second-level cache of one core.
    pub l2_bytes: Option<u64>,
    /// Bytes of the last-level cache.
    pub l3_bytes: Option<u64>,
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The setting of transparent huge pages.
    pub huge_pages: Option<String>,
    /// The compiler on the path, if there is one.
    pub rustc: Option<String>,
    /// The commit, if the working directory is a git repository; `+` marks local changes.
    pub commit: Option<String>,
    /// The version of this program.
    pub version: &'static str,
    /// The command line.
    pub command: String,
}

impl Environment {
    /// Collects the facts from the system.
    pub fn of_this_machine() -> Self {
        Environment {
            cpu_model: field("/proc/cpuinfo", "model name"),
            cpus: crate::args::processors(),
            l2_bytes: cache_bytes(2),
            l3_bytes: cache_bytes(3),
            memory_bytes: memory_bytes(),
            kernel: read("/proc/sys/kernel/osrelease"),
            huge_pages: read("/sys/kernel/mm/transparent_hugepage/enabled").map(|text| chosen(&text)),
            rustc: output("rustc", &["--version"]),
            commit: commit(),
            version: env!("CARGO_PKG_VERSION"),
            command: command_line(),
        }
    }

    /// Returns the notes below a chart that say where and how its figures were measured.
    pub(crate) fn notes(&self) -> Vec<String> {
        let program = self
            .commit
            .as_deref()
            .map_or(self.version.to_owned(), |commit| format!("{} ({commit})", self.version));
        vec![self.summary(), format!("{program}: {}", self.command)]
    }

    /// Returns a summary of one line.
    pub fn summary(&self) -> String {
        let mib =
            |bytes: Option<u64>| bytes.map_or("?".to_owned(), |b| format!("{:.1}", b as f64 / 1_048_576.0));
        format!(
            "{}, {} processors, L2 {} MiB, L3 {} MiB, memory {:.1} GiB, huge pages {}",
            self.cpu_model.as_deref().unwrap_or("unknown processor"),
            self.cpus,
            mib(self.l2_bytes),
            mib(self.l3_bytes),
            self.memory_bytes.unwrap_or(0) as f64 / (1u64 << 30) as f64,
            self.huge_pages.as_deref().unwrap_or("unknown"),
        )
    }
}

/// Returns the machine's memory in bytes, if known.
pub fn memory_bytes() -> Option<u64> {
    memory_kib("MemTotal").map(|kib| kib * 1024)
}

/// Returns the memory that is available now in bytes, if known.
pub fn memory_available_bytes() -> Option<u64> {
    let free = memory_kib("MemAvailable")? * 1024;
    // The limit of a container, if there is one, is tighter than the machine's.
    let number = |path: &str| read(path)?.parse::<u64>().ok();
    let limit = number("/sys/fs/cgroup/memory.max").zip(number("/sys/fs/cgroup/memory.current"));
    Some(limit.map_or(free, |(max, used)| free.min(max.saturating_sub(used))))
}

fn command_line() -> String {
    let mut words = std::env::args();
    let program = words.next().unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or_default().to_owned();
    std::iter::once(name).chain(words).collect::<Vec<_>>().join(" ")
}

fn commit() -> Option<String> {
    let commit = output("git", &["rev-parse", "--short=12", "HEAD"])?;
    let clean = output("git", &["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Some(if clean { commit } else { commit + "+" })
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// Returns the value after `name` and a colon in a file of such lines.
fn field(path: &str, name: &str) -> Option<String> {
    let text = read(path)?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn memory_kib(name: &str) -> Option<u64> {
    field("/proc/meminfo", name)?.split_whitespace().next()?.parse().ok()
}

/// Returns the size of a level's data cache, as the first processor sees it.
fn cache_bytes(level: u32) -> Option<u64> {
    let caches = fs::read_dir("/sys/devices/system/cpu/cpu0/cache").ok()?;
    caches.flatten().find_map(|entry| {
        let part = |name: &str| read(&entry.path().join(name).to_string_lossy());
        let holds_data = part("type")? != "Instruction";
        (part("level")? == level.to_string() && holds_data).then(|| size_bytes(&part("size")?))?
    })
}

/// Parses a size such as `2048K`, in bytes.
fn size_bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "K" => 1 << 10,
        "M" => 1 << 20,
        _ => 1,
    };
    Some(digits.parse::<u64>().ok()? * unit)
}

/// Returns the word in brackets, as in `always [madvise] never`.
fn chosen(text: &str) -> String {
    text.split(['[', ']']).nth(1).unwrap_or(text).to_owned()
}

fn output(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_the_system_is_understood() {
        // Proves that the two formats of sysfs are parsed.
        assert_eq!(size_bytes("2048K"), Some(2 << 20));
        assert_eq!(size_bytes("32M"), Some(32 << 20));
        assert_eq!(chosen("always [madvise] never"), "madvise");
    }

    #[test]
    fn any_machine_has_an_environment() {
        // Proves that collecting never fails, and that the number of processors is known.
        assert!(Environment::of_this_machine().cpus >= 1);
    }
}
