//! What was asked for on the command line.

use crate::trouble::{Outcome, Trouble};

#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) name: String,
    pub(crate) settings: Settings,
}

#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) seed: u64,
    pub(crate) quick: bool,
    /// Only this way to make a lock, where a proof has several.
    pub(crate) mode: Option<String>,
}

impl Settings {
    pub(crate) fn parse(args: &[String], names: &[&str], modes: &[&str]) -> Outcome<Order> {
        let usage = || {
            let (names, modes) = (names.join(" | "), modes.join(" | "));
            Trouble::Failed(format!(
                "usage: proof [all | {names}] [--seed N] [--quick] [--mode {modes}]"
            ))
        };
        let mut name = None;
        let mut settings = Self { seed: fastrand::u64(..1_000_000), quick: false, mode: None };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--quick" => settings.quick = true,
                "--seed" => {
                    let seed = args.next().and_then(|seed| seed.parse().ok());
                    settings.seed = seed.ok_or_else(usage)?;
                }
                "--mode" => {
                    let mode = args.next().filter(|mode| modes.contains(&mode.as_str()));
                    settings.mode = Some(mode.ok_or_else(usage)?.clone());
                }
                known if name.is_none() && (known == "all" || names.contains(&known)) => {
                    name = Some(known.to_owned());
                }
                _ => return Err(usage()),
            }
        }
        Ok(Order { name: name.unwrap_or_else(|| "all".into()), settings })
    }

    /// How many, in full or for a quick look.
    pub(crate) fn count<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// Random numbers, the same for the same seed and part.
    pub(crate) fn random(&self, part: u64) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.seed.wrapping_mul(1_000_003).wrapping_add(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Outcome<Order> {
        let args: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        Settings::parse(&args, &["fifo"], &["native"])
    }

    #[test]
    fn a_proof_is_named_with_or_without_a_seed() {
        let order = parse("--seed 7 fifo --quick").unwrap();
        assert_eq!(
            (order.name.as_str(), order.settings.seed, order.settings.quick),
            ("fifo", 7, true)
        );
        assert_eq!(order.settings.mode, None);
        assert_eq!(parse("--mode native").unwrap().settings.mode.as_deref(), Some("native"));
        for text in ["all", "", "--quick --seed 1"] {
            assert_eq!(parse(text).unwrap().name, "all", "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for text in [
            "nothing",
            "fifo fifo",
            "fifo --seed",
            "fifo --seed x",
            "fifo -q",
            "--mode",
            "--mode x",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
