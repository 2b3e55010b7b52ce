//! The header that C sees is what the sources say, and says what C's programmer must know.

#[path = "../../framewright-capi/tests/shared/header.rs"]
mod shared;

use shared::CHeader;

const HEADER: CHeader = CHeader {
    root: env!("CARGO_MANIFEST_DIR"),
    package: "framewright-capi-kernel",
    path: "include/framewright_kernel.h",
    sources: &[
        "../framewright-capi-core/src/codes",
        "../framewright-capi-core/src/arguments",
        "src/c/platform",
        "src/c/memory",
        "src/c/frames",
        "src/c/ranges",
        "src/c/objects",
        "src/c/percpu",
        "src/c/reserve",
        "src/c/guests",
    ],
    prefix: "fwk_",
    cannot_fail: &["fwk_version", "fwk_last_error", "fwk_strerror"],
    more_than: 35,
};

#[test]
fn the_header_in_the_repository_is_what_the_sources_say() {
    HEADER.is_as_made();
}

#[test]
fn every_exported_function_is_in_the_header_with_effect_cost_and_errors() {
    HEADER.has_each_function();
}
