//! The smallest programs that use Framewright; each is an `[[example]]` of this package, and `tests/` runs them all.
