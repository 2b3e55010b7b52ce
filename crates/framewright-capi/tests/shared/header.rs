//! What the headers of both C libraries must be.

use std::fs;
use std::path::Path;

/// A header, and the crate that exports what it declares.
pub(crate) struct CHeader {
    /// The folder of the crate.
    pub(crate) root: &'static str,
    /// The name of the crate.
    pub(crate) package: &'static str,
    /// The header, in the crate's folder.
    pub(crate) path: &'static str,
    /// The sources, in the order of a reader.
    pub(crate) sources: &'static [&'static str],
    /// What each exported name begins with.
    pub(crate) prefix: &'static str,
    /// The functions that cannot fail: they only look at their thread or CPU.
    pub(crate) cannot_fail: &'static [&'static str],
    /// More functions than this are exported.
    pub(crate) more_than: usize,
}

impl CHeader {
    /// The header, as cbindgen makes it from the sources.
    fn made(&self) -> String {
        let root = Path::new(self.root);
        let config =
            cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("the file is whole");
        let mut builder = cbindgen::Builder::new().with_config(config);
        for file in self.sources {
            builder = builder.with_src(root.join(format!("{file}.rs")));
        }
        let bindings = builder.generate().expect("the sources are whole");
        let mut header = Vec::new();
        bindings.write(&mut header);
        String::from_utf8(header).expect("the sources are text")
    }

    /// Panics unless the header in the repository is what the sources say.
    pub(crate) fn is_as_made(&self) {
        let path = Path::new(self.root).join(self.path);
        let made = self.made();
        if std::env::var_os("FRAMEWRIGHT_BLESS").is_some() {
            fs::write(&path, &made).unwrap();
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        let (header, package) = (self.path, self.package);
        assert!(
            found == made,
            "{header} is not what cbindgen makes of the sources: \
             FRAMEWRIGHT_BLESS=1 cargo test -p {package} --test header"
        );
    }

    /// Panics unless each exported function stands in the header with its cost and errors.
    pub(crate) fn has_each_function(&self) {
        let header = self.made();
        let lines: Vec<_> = header.lines().collect();
        let mut count = 0;
        for file in fs::read_dir(Path::new(self.root).join("src/c")).unwrap() {
            let source = fs::read_to_string(file.unwrap().path()).unwrap();
            for name in exported(&source) {
                count += 1;
                assert!(name.starts_with(self.prefix), "{name}");
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
                let says = |what: &str| comment.iter().any(|line| line.contains(what));
                // A variant refers to its plain function.
                let is_variant = says(&format!("// As `{}", self.prefix));
                if !self.cannot_fail.contains(&name) {
                    assert!(says("Errors: "), "{name}: no errors");
                    assert!(says("Cost: ") || is_variant, "{name}: no cost");
                }
            }
        }
        assert!(count > self.more_than, "{count} functions");
    }
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
fn exported_functions_are_found() {
    let source = "#[unsafe(no_mangle)]\npub extern \"C\" fn fw_a(host: u8) {}\nfn b() {}\n\
                  #[unsafe(no_mangle)]\npub unsafe extern \"C\" fn fw_c() {}";
    assert_eq!(exported(source), ["fw_a", "fw_c"]);
}
