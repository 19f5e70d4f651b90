//! The embedded default: its URL, and what to do when its folder cannot be used.

use std::path::Path;

use lockkeeper::{Error, ErrorKind};

use crate::{
    exit::{Exit, Failure},
    message, passed_on,
};

/// The URL of the embedded default. A `lockkeeper` inside the command is told this URL: its XDG_STATE_HOME,
/// HOME or user may be another, and then its own default is another folder.
///
/// `None` for a folder that no URL can name, because its name is not UTF-8, and for a user without a
/// home; then the library finds the folder or says what is missing.
#[cfg(target_os = "linux")]
pub(crate) fn url() -> Option<String> {
    use std::path::PathBuf;

    use nix::unistd::{User, geteuid};

    // The library has the same rule; a test compares the two.
    let from = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = from("XDG_STATE_HOME").or_else(|| {
        let home = from("HOME").or_else(|| Some(User::from_uid(geteuid()).ok()??.dir))?;
        Some(home.join(".local/state"))
    });
    url_of(&state?.join("lockkeeper/locks"))
}

/// Elsewhere there is no embedded default.
#[cfg(not(target_os = "linux"))]
pub(crate) fn url() -> Option<String> {
    None
}

/// The URL that names this folder.
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "there is no embedded default"))]
fn url_of(folder: &Path) -> Option<String> {
    let mut url = String::from("file://");
    for c in folder.to_str()?.chars() {
        if matches!(c, '%' | '?' | '#' | ' ') || c.is_ascii_control() {
            url += &format!("%{:02X}", u32::from(c));
        } else {
            url.push(c);
        }
    }
    Some(url)
}

/// Why the engine cannot be opened; for a folder that nobody typed, also where its name comes from.
pub(crate) fn not_opened(url: Option<&str>, error: &Error) -> Failure {
    let failure = Failure::from(error);
    let is_folder = url.is_none_or(|url| url.starts_with("file:"));
    if error.kind() != ErrorKind::Refused || !is_folder {
        return failure;
    }
    let advice = if passed_on::is_from_outer_run(url) {
        "the folder is named by LOCKKEEPER_URL, which the lockkeeper run around this command sets; to use \
         the locks of this user instead, unset LOCKKEEPER_URL"
    } else if url.is_none() || url == self::url().as_deref() {
        "without a URL the folder is in $XDG_STATE_HOME or ~/.local/state; to name another, set \
         XDG_STATE_HOME, or give --url file:///PATH/OF/A/FOLDER"
    } else {
        return failure;
    };
    Failure::new(Exit::Refused, format!("{}; {advice}", message::chain(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_becomes_a_url_that_names_it() {
        for (folder, url) in [
            ("/var/lib/app/locks", "file:///var/lib/app/locks"),
            ("/a b/100%/c?d#e", "file:///a%20b/100%25/c%3Fd%23e"),
            ("/büro/x@y:z\n", "file:///büro/x@y:z%0A"),
        ] {
            assert_eq!(url_of(Path::new(folder)).as_deref(), Some(url));
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_no_url_can_name_has_none() {
        use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
        assert_eq!(url_of(Path::new(OsStr::from_bytes(b"/\xff"))), None);
    }
}
