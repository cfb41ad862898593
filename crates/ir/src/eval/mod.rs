//! What each pure op computes, bit for bit, on plain integers: serves constant folding and the interpreter.
