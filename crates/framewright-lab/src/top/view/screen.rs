//! The terminal: taken for the view, and given back however that ends.

use super::draw::{Shown, draw};
use crate::top::TopError;
use crate::top::state::TopState;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::io;
use std::time::Duration;

/// The terminal in raw mode, on its other page. Dropping it gives it back; a panic does so before its message.
pub(crate) struct Screen {
    terminal: DefaultTerminal,
}

/// What a key wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    Quit,
    Pause,
    Help,
    Order(usize),
    NextOrder,
    LastOrder,
    /// The terminal has another size.
    Redraw,
}

fn failed(error: &io::Error) -> TopError {
    TopError::new(format!("the terminal: {error}"))
}

impl Screen {
    pub(crate) fn open() -> Result<Self, TopError> {
        let terminal = ratatui::try_init().map_err(|e| {
            ratatui::restore();
            failed(&e)
        })?;
        Ok(Self { terminal })
    }

    pub(crate) fn draw(&mut self, state: &TopState, shown: Shown<'_>) -> Result<(), TopError> {
        let drawn = self
            .terminal
            .draw(|picture| draw(picture, state, shown))
            .map(drop);
        drawn.map_err(|e| failed(&e))
    }

    /// What the user wants, if a key comes within that time.
    pub(crate) fn wish(&self, wait: Duration) -> Result<Option<Wish>, TopError> {
        if !event::poll(wait).map_err(|e| failed(&e))? {
            return Ok(None);
        }
        Ok(match event::read().map_err(|e| failed(&e))? {
            Event::Key(key) => wish_of(key),
            Event::Resize(..) => Some(Wish::Redraw),
            _ => None,
        })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Where the terminal is gone, there is nothing to give back.
        let _ = ratatui::try_restore();
    }
}

/// What a key wants.
fn wish_of(key: KeyEvent) -> Option<Wish> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return matches!(key.code, KeyCode::Char('c' | 'd')).then_some(Wish::Quit);
    }
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => Some(Wish::Quit),
        KeyCode::Char('p' | ' ') => Some(Wish::Pause),
        KeyCode::Char('h' | '?') => Some(Wish::Help),
        KeyCode::Down => Some(Wish::NextOrder),
        KeyCode::Up => Some(Wish::LastOrder),
        KeyCode::Char(digit) => digit.to_digit(10).map(|order| Wish::Order(order as usize)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_want_what_the_help_says() {
        let key = |code, modifiers| wish_of(KeyEvent::new(code, modifiers));
        let plain = |code| key(code, KeyModifiers::NONE);
        for code in [KeyCode::Char('q'), KeyCode::Esc] {
            assert_eq!(plain(code), Some(Wish::Quit));
        }
        assert_eq!(
            key(KeyCode::Char('c'), KeyModifiers::CONTROL),
            Some(Wish::Quit)
        );
        assert_eq!(plain(KeyCode::Char('c')), None);
        assert_eq!(plain(KeyCode::Char('p')), Some(Wish::Pause));
        assert_eq!(plain(KeyCode::Char('h')), Some(Wish::Help));
        assert_eq!(plain(KeyCode::Char('4')), Some(Wish::Order(4)));
        assert_eq!(plain(KeyCode::Down), Some(Wish::NextOrder));
        assert_eq!(plain(KeyCode::Tab), None);
    }
}
