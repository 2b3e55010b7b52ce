//! Which mutant is on: added to a copy of the engine by `framewright-checks`, and to nothing else.

extern crate std;

/// Set once, before `main`.
static mut SELECTED: u32 = u32::MAX;

extern "C" fn select() {
    if let Ok(number) = std::env::var("FRAMEWRIGHT_MUTANT") {
        let number = number.parse().expect("FRAMEWRIGHT_MUTANT is a number");
        // SAFETY: before `main`, so no other thread is there.
        unsafe { SELECTED = number };
    }
}

#[used]
// SAFETY: the C library calls each function of this section once, before `main`.
#[unsafe(link_section = ".init_array")]
static SELECT: extern "C" fn() = select;

/// Whether that mutant is on. `const`, so that it can stand in a `const fn`.
#[inline(always)]
pub const fn mutant(number: u32) -> bool {
    // SAFETY: written only before `main`.
    unsafe { *(&raw const SELECTED) == number }
}
