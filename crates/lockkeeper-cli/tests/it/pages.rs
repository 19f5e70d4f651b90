//! Completions and the manual page know every command.

use crate::support::{Place, code};

const COMMANDS: [&str; 7] = ["run", "try", "who", "ls", "tidy", "completions", "man"];

fn printed(args: &[&str]) -> String {
    let output = Place::new().output(args);
    assert_eq!((code(&output), &output.stderr[..]), (0, &b""[..]), "{args:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_shell_completes_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = printed(&["completions", shell]);
        for command in COMMANDS {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
}

#[test]
fn the_manual_has_a_chapter_per_command_and_every_exit_code() {
    let manual = printed(&["man"]);
    for command in COMMANDS {
        assert!(manual.contains(&format!("\n.SH {command}\n")), "{command}");
        assert!(manual.contains(&format!("lockkeeper {command}")), "{command}");
    }
    let help = printed(&["run", "--help"]);
    for code in ["64", "69", "70", "75", "76", "77", "79", "126", "127", "128+n"] {
        assert!(manual.contains(&format!("\\fB{code}\\fR\n")), "{code}");
        assert!(help.contains(&format!("{code:>5}  ")), "{code}");
    }
    for option in ["within", "ttl", "on\\-loss", "grace", "label", "barging", "json", "idle", "url"]
    {
        assert!(manual.contains(&format!("\\-\\-{option}")), "{option}");
    }
}
