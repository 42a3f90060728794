//! [`Interview`]: answers from options, or from a person at a terminal.

use std::io::{BufRead, Write};

use crate::failure::Failure;

/// Collects answers. Without a terminal, it remembers which are missing.
pub(super) struct Interview<'a> {
    terminal: Option<(&'a mut dyn BufRead, &'a mut dyn Write)>,
    missing: Vec<String>,
}

impl<'a> Interview<'a> {
    /// Asks at a terminal, or nobody.
    pub(super) const fn new(terminal: Option<(&'a mut dyn BufRead, &'a mut dyn Write)>) -> Self {
        Self { terminal, missing: Vec::new() }
    }

    /// Returns what was given, or else asks until the answer can be parsed. `None` where nobody can be asked.
    pub(super) fn ask<T>(
        &mut self,
        given: Option<T>,
        option: &str,
        question: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Failure> {
        if given.is_some() {
            return Ok(given);
        }
        let Some((answers, screen)) = &mut self.terminal else {
            self.missing.push(format!("{option} ({question})"));
            return Ok(None);
        };
        loop {
            let mut answer = String::new();
            let shown = write!(screen, "{question} [{option}]\n> ").and_then(|()| screen.flush());
            let read = shown.and_then(|()| answers.read_line(&mut answer)).map_err(Failure::run)?;
            if read == 0 {
                return Err(Failure::input(format_args!("the answers end before {option}: nothing was written")));
            }
            match parse(answer.trim()) {
                Ok(answer) => return Ok(Some(answer)),
                Err(expected) => writeln!(screen, "  {expected}").map_err(Failure::run)?,
            }
        }
    }

    /// Rejects missing answers, all at once.
    pub(super) fn complete(&self) -> Result<(), Failure> {
        match &self.missing[..] {
            [] => Ok(()),
            missing => Err(Failure::input(format_args!(
                "answers are missing, and there is no terminal to ask at: {}",
                missing.join("; ")
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::Interview;

    fn whole(text: &str) -> Result<u32, String> {
        text.parse().map_err(|_| "expected a whole number".to_owned())
    }

    #[test]
    fn asks_again_until_the_answer_is_one() {
        let (mut answers, mut screen) = (&b"many\n 40 \n"[..], Vec::new());
        let mut interview = Interview::new(Some((&mut answers, &mut screen)));
        assert_eq!(interview.ask(None, "--window N", "How long?", whole).unwrap(), Some(40));
        assert_eq!(interview.ask(Some(7), "--window N", "How long?", whole).unwrap(), Some(7));
        let ended = interview.ask(None, "--population N", "How many?", whole).unwrap_err().to_string();
        assert_eq!(ended, "the answers end before --population N: nothing was written");
        let screen = String::from_utf8(screen).unwrap();
        assert!(screen.starts_with("How long? [--window N]\n>   expected a whole number\nHow long?"), "{screen}");
    }

    #[test]
    fn names_all_missing_answers_at_once() {
        let mut interview = Interview::new(None);
        for option in ["--window N", "--population N"] {
            assert_eq!(interview.ask(None, option, "How many?", whole).unwrap(), None);
        }
        let missing = interview.complete().unwrap_err().to_string();
        assert!(missing.ends_with("--window N (How many?); --population N (How many?)"), "{missing}");
    }
}
