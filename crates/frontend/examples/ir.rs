//! For developers: prints the IR of a kernel as the frontend makes it. `ir FILE KERNEL`

use ptxjit_frontend::diag;
use ptxjit_frontend::source::Source;
use ptxjit_frontend::translate::Module;

#[expect(clippy::print_stdout, reason = "this is a command")]
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [file, kernel] = &args[..] else {
        return println!("usage: ir FILE KERNEL");
    };
    let bytes = std::fs::read(file).unwrap_or_default();
    let source = Source::from_bytes(file.clone(), bytes.clone());
    let shown = Source::from_bytes(file.clone(), bytes);
    match Module::parse(source).and_then(|module| module.program(kernel)) {
        Ok(program) => println!("{}", ptxjit_ir::print::program(&program)),
        Err(found) => found
            .iter()
            .for_each(|d| println!("{}", diag::render(d, &shown, false))),
    }
}
