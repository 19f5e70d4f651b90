//! What to start, laid out as the kernel wants it.

use std::{
    ffi::{CString, NulError, OsStr, OsString},
    os::unix::ffi::OsStrExt,
    process::Command,
};

/// A command line and an environment, laid out as the kernel wants them.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) arguments: Vec<CString>,
    pub(super) environment: Vec<CString>,
}

impl Launch {
    pub(super) fn new(child: &Command) -> Result<Self, NulError> {
        let changed = |name: &OsStr| child.get_envs().any(|(changed, _)| changed == name);
        let kept = std::env::vars_os().filter(|(name, _)| !changed(name));
        let added = child.get_envs().filter_map(|(name, value)| Some((name.into(), value?.into())));
        let entry = |(name, value): (OsString, OsString)| {
            CString::new([name.as_bytes(), b"=", value.as_bytes()].concat())
        };
        let arguments = std::iter::once(child.get_program()).chain(child.get_args());
        Ok(Self {
            arguments: arguments
                .map(|word| CString::new(word.as_bytes()))
                .collect::<Result<_, _>>()?,
            environment: kept.chain(added).map(entry).collect::<Result<_, _>>()?,
        })
    }

    /// Adds a number to the environment.
    pub(super) fn add(&mut self, name: &str, number: u64) -> Result<(), NulError> {
        self.environment.push(CString::new(format!("{name}={number}"))?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_ours_with_the_changes() {
        let mut child = Command::new("a");
        child.args(["b", "c d"]).env("LOCKKEEPER_KEY", "k").env_remove("PATH");
        let mut launch = Launch::new(&child).unwrap();
        launch.add("LOCKKEEPER_FENCE", 7).unwrap();
        assert_eq!(launch.arguments, [c"a".into(), c"b".into(), CString::from(c"c d")]);
        assert!(launch.environment.contains(&c"LOCKKEEPER_KEY=k".into()));
        assert!(launch.environment.contains(&c"LOCKKEEPER_FENCE=7".into()));
        assert!(!launch.environment.iter().any(|entry| entry.as_bytes().starts_with(b"PATH=")));
        let n_ours = std::env::vars_os().count();
        assert_eq!(
            launch.environment.len(),
            n_ours + 2 - usize::from(std::env::var_os("PATH").is_some())
        );
    }
}
