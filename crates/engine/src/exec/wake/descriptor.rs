//! What operating systems have for waking a thread that waits for file descriptors. Only this part of `exec` knows the
//! difference: Linux has a counter, other Unixes a pipe. Windows has no descriptors, and refuses.

pub(crate) use system::Signals;

/// A counter (`eventfd`).
#[cfg(any(target_os = "linux", target_os = "android"))]
mod system {
    use std::io;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

    #[derive(Debug)]
    pub(crate) struct Signals(OwnedFd);

    impl Signals {
        /// Makes a counter without wake-ups. Fails if the process or the system has no descriptor left.
        pub(crate) fn new() -> io::Result<Signals> {
            use rustix::event::{EventfdFlags, eventfd};
            Ok(Signals(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
        }

        /// Adds a wake-up.
        pub(crate) fn add(&self) {
            // The write fails only if the counter is full. The descriptor is readable then anyway.
            let _ = rustix::io::retry_on_intr(|| rustix::io::write(&self.0, &1_u64.to_ne_bytes()));
        }

        /// Takes all wake-ups and returns their number. Never blocks.
        pub(crate) fn take(&self) -> u64 {
            let mut count = [0; 8];
            // The read fails if the counter is 0.
            match rustix::io::retry_on_intr(|| rustix::io::read(&self.0, &mut count)) {
                Ok(8) => u64::from_ne_bytes(count),
                _ => 0,
            }
        }
    }

    impl AsFd for Signals {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }
}

/// A pipe, with a byte for each wake-up.
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
mod system {
    use std::io::{self, PipeReader, PipeWriter};
    use std::os::fd::{AsFd, BorrowedFd};

    #[derive(Debug)]
    pub(crate) struct Signals {
        read: PipeReader,
        write: PipeWriter,
    }

    impl Signals {
        /// Makes a pipe without wake-ups. Fails if the process or the system has no descriptors left.
        pub(crate) fn new() -> io::Result<Signals> {
            let (read, write) = io::pipe()?; // (closed on exec)
            rustix::io::ioctl_fionbio(&read, true)?;
            rustix::io::ioctl_fionbio(&write, true)?;
            Ok(Signals { read, write })
        }

        /// Adds a wake-up.
        pub(crate) fn add(&self) {
            // The write fails only if the pipe is full. The descriptor is readable then anyway.
            let _ = rustix::io::retry_on_intr(|| rustix::io::write(&self.write, &[1]));
        }

        /// Takes all wake-ups and returns their number. Never blocks.
        pub(crate) fn take(&self) -> u64 {
            let mut taken = 0;
            let mut bytes = [0; 64];
            // The read fails if the pipe is empty.
            while let Ok(count @ 1..) = rustix::io::retry_on_intr(|| rustix::io::read(&self.read, &mut bytes))
            {
                taken += count as u64;
            }
            taken
        }
    }

    impl AsFd for Signals {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.read.as_fd()
        }
    }
}

/// No value of this type exists.
#[cfg(not(unix))]
mod system {
    use std::convert::Infallible;
    use std::io;

    #[derive(Debug)]
    pub(crate) struct Signals(Infallible);

    impl Signals {
        /// Always fails.
        pub(crate) fn new() -> io::Result<Signals> {
            Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no file descriptors to wait for"))
        }

        pub(crate) fn add(&self) {
            match self.0 {}
        }

        pub(crate) fn take(&self) -> u64 {
            match self.0 {}
        }
    }
}
