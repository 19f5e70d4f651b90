//! What must not be touched, and says so.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
};

use super::*;

fn refusal(engine: &FileEngine, name: &str) -> String {
    let error = block_on(claim(engine, name).attempt(now())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    error.to_string()
}

#[test]
fn foreign_files_are_refused_and_stay_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    for (name, text) in [("text", "do not touch".into()), ("long", "\0".repeat(10_000))] {
        let path = folder.path().join(format!("{name}.lock"));
        fs::write(&path, &text).unwrap();
        assert!(refusal(&engine, name).contains("not a lock file"));
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
    assert_eq!(block_on(engine.list(super::now())).unwrap(), []);
    assert_eq!(block_on(engine.tidy(Duration::ZERO, now())).unwrap(), 0);
}

#[test]
fn links_are_refused_and_their_targets_stay_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    let target = folder.path().join("target");
    fs::write(&target, "").unwrap();
    symlink(&target, folder.path().join("soft.lock")).unwrap();
    fs::hard_link(&target, folder.path().join("hard.lock")).unwrap();
    fs::create_dir(folder.path().join("folder.lock")).unwrap();
    assert!(refusal(&engine, "soft").contains("symbolic link"));
    assert!(refusal(&engine, "hard").contains("more than one name"));
    assert!(block_on(claim(&engine, "folder").attempt(now())).is_err());
    assert_eq!(fs::read_to_string(&target).unwrap(), "");
    assert_eq!(block_on(engine.list(super::now())).unwrap(), []);
}

#[test]
fn a_file_that_was_moved_to_another_name_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    pass(&engine(folder.path()), "one");
    fs::rename(folder.path().join("one.lock"), folder.path().join("two.lock")).unwrap();
    let engine = engine(folder.path());
    assert!(refusal(&engine, "two").contains(r#"the key "one""#));
    assert_eq!(block_on(engine.tidy(Duration::ZERO, now())).unwrap(), 0);
}

#[test]
fn unsafe_folders_are_refused() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("open");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let error = Folder::open(&folder).unwrap_err();
    assert!(error.to_string().contains("chmod go-w"), "{error}");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o1777)).unwrap();
    assert!(Folder::open(&folder).is_ok());

    let link = parent.path().join("link");
    symlink(&folder, &link).unwrap();
    for path in [link.clone(), link.join("."), format!("{}/", link.display()).into()] {
        let error = Folder::open(&path).unwrap_err();
        assert!(error.to_string().contains("symbolic link"), "{error}");
    }
    fs::write(parent.path().join("file"), "").unwrap();
    assert!(Folder::open(&parent.path().join("file")).is_err());
}

#[test]
fn a_folder_is_made_with_its_parents_for_its_owner_alone() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("a/b/c");
    pass(&engine(&folder), "k");
    for (path, mode) in [(folder.clone(), 0o700), (folder.join("k.lock"), 0o600)] {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, mode);
    }
}
