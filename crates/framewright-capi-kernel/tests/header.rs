//! The header that C sees is what the sources say, and says what C's programmer must know.

use std::fs;
use std::path::Path;

/// The header, as cbindgen makes it from the sources.
fn made() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config =
        cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("the file is whole");
    // In this order, which is that of a reader.
    let files = [
        "../framewright-capi-core/src/codes",
        "../framewright-capi-core/src/arguments",
        "src/c/platform",
        "src/c/memory",
        "src/c/frames",
        "src/c/ranges",
        "src/c/objects",
        "src/c/reserve",
        "src/c/guests",
    ];
    let builder = files
        .iter()
        .fold(cbindgen::Builder::new(), |builder, file| {
            builder.with_src(root.join(format!("{file}.rs")))
        });
    let bindings = builder
        .with_config(config)
        .generate()
        .expect("the sources are whole");
    let mut header = Vec::new();
    bindings.write(&mut header);
    String::from_utf8(header).expect("the sources are text")
}

#[test]
fn the_header_in_the_repository_is_what_the_sources_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/framewright_kernel.h");
    let made = made();
    if std::env::var_os("FRAMEWRIGHT_BLESS").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == made,
        "include/framewright_kernel.h is not what cbindgen makes of the sources: \
         FRAMEWRIGHT_BLESS=1 cargo test -p framewright-capi-kernel --test header"
    );
}

/// The names of the functions that a text of Rust exports.
fn exported(source: &str) -> Vec<&str> {
    let items = source.split("#[unsafe(no_mangle)]").skip(1);
    items
        .map(|item| {
            let name = item
                .split("fn ")
                .nth(1)
                .expect("an exported item is a function");
            name.split('(').next().expect("it has parameters")
        })
        .collect()
}

#[test]
fn every_exported_function_is_in_the_header_with_effect_cost_and_errors() {
    let header = made();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/c");
    let mut count = 0;
    for file in fs::read_dir(folder).unwrap() {
        let source = fs::read_to_string(file.unwrap().path()).unwrap();
        for name in exported(&source) {
            count += 1;
            let lines: Vec<_> = header.lines().collect();
            let is_declared = |line: &&str| {
                line.contains(&format!("{name}("))
                    && !line.starts_with("//")
                    && !line.starts_with(" *")
            };
            let at = lines.iter().position(is_declared);
            let at = at.unwrap_or_else(|| panic!("{name} is not in the header"));
            // The comment just before the declaration.
            let comment = lines[..at]
                .iter()
                .rev()
                .take_while(|line| line.starts_with("//"));
            let comment: Vec<_> = comment.collect();
            assert!(!comment.is_empty(), "{name}: no comment");
            let says = |what| comment.iter().any(|line| line.contains(what));
            // A variant refers to its plain function. What only looks at a CPU cannot fail.
            let is_variant = says("// As `fwk_");
            let of_cpu = ["fwk_version", "fwk_last_error", "fwk_strerror"];
            if !of_cpu.contains(&name) {
                assert!(says("Errors: "), "{name}: no errors");
                assert!(says("Cost: ") || is_variant, "{name}: no cost");
            }
        }
    }
    assert!(count > 35, "{count} functions");
}

#[test]
fn exported_functions_are_found() {
    let source = "#[unsafe(no_mangle)]\npub extern \"C\" fn fwk_a(host: u8) {}\nfn b() {}\n\
                  #[unsafe(no_mangle)]\npub unsafe extern \"C\" fn fwk_c() {}";
    assert_eq!(exported(source), ["fwk_a", "fwk_c"]);
}
