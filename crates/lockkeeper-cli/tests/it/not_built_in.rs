//! A URL of an engine that was left out of the build. `cargo xtask test` builds the command without engines for it.

use crate::support::{Place, code, fails_with};

#[test]
fn an_engine_that_is_not_built_in_says_how_to_get_it() {
    let place = Place::new();
    for (scheme, feature, is_built_in) in [
        ("redis", "redis", cfg!(feature = "redis")),
        ("redlocks", "redis", cfg!(feature = "redis")),
        ("memcached", "memcached", cfg!(feature = "memcached")),
    ] {
        let elsewhere = Place::with_locks_at(format!("{scheme}://me:secret@127.0.0.1:1"));
        let output = elsewhere.output(&["try", "k", "--", "touch", "ran"]);
        if is_built_in {
            assert_ne!(code(&output), 77, "{output:?}");
            continue;
        }
        let said = fails_with(77, &output);
        let how = format!("cargo install --path crates/lockkeeper-cli --features {feature} ");
        assert!(
            said.contains(&format!("built without {scheme}:")) && said.contains(&how),
            "{said}"
        );
        assert!(!said.contains("secret"), "{said}");
        assert!(!elsewhere.path("ran").exists());
    }
    assert_eq!(code(&place.output(&["try", "k", "--", "true"])), 0);
}
