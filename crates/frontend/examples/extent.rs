//! For developers: checks PTX files and prints what it took.

use ptxjit_frontend::source::Source;
use ptxjit_frontend::translate::Module;

#[expect(clippy::print_stdout, reason = "this is a command")]
fn main() {
    for file in std::env::args().skip(1) {
        let start = std::time::Instant::now();
        let bytes = std::fs::read(&file).expect("the file can be read");
        let source = Source::from_bytes(file.as_str(), bytes);
        let found = match Module::parse(source) {
            Ok(module) => module.check(),
            Err(found) => found,
        };
        let first = found.first().map_or("", |d| &d.message);
        println!(
            "{file}: {} findings in {:?}: {}",
            found.len(),
            start.elapsed(),
            &first[..first.len().min(100)]
        );
    }
}
