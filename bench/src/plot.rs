//! The ratios as a picture: one bar per kernel on a logarithmic scale, left of the middle where
//! ptxjit is faster than native C.

use std::fmt::Write;

/// Height of a row, and the places of the columns.
const ROW: usize = 22;
const LABELS: usize = 150;
const WIDTH: usize = 480;
const TOP: usize = 46;

/// Ratios beyond these are cut.
const LIMITS: (f64, f64) = (0.25, 16.0);

/// An SVG picture of (kernel, ratio), in this order.
pub(crate) fn svg(title: &str, ratios: &[(&str, f64)]) -> String {
    let height = TOP + ROW * ratios.len() + 12;
    let width = LABELS + WIDTH + 60;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LABELS}\" y=\"16\">{title}</text>\n"
    );
    for tick in [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0] {
        let x = place(tick);
        let (color, bottom) = (if tick == 1.0 { "#444" } else { "#ddd" }, height - 8);
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.1} {}V{bottom}\" stroke=\"{color}\"/><text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{tick}</text>",
            TOP - 6,
            TOP - 10
        );
    }
    for (row, (name, ratio)) in ratios.iter().enumerate() {
        let y = TOP + ROW * row;
        let (from, to) = (place(1.0), place(*ratio));
        let color = if *ratio <= 1.0 { "#2a7a3b" } else { "#c06020" };
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{name}</text>\
             <rect x=\"{:.1}\" y=\"{}\" width=\"{:.1}\" height=\"{}\" fill=\"{color}\"/>\
             <text x=\"{:.1}\" y=\"{}\">{ratio:.2}</text>",
            LABELS - 8,
            y + 13,
            from.min(to),
            y + 2,
            (from - to).abs().max(1.0),
            ROW - 8,
            from.max(to) + 5.0,
            y + 13
        );
    }
    svg + "</svg>\n"
}

/// Where a ratio lies.
fn place(ratio: f64) -> f64 {
    let (low, high) = LIMITS;
    let share = (ratio.clamp(low, high) / low).ln() / (high / low).ln();
    LABELS as f64 + share * WIDTH as f64
}
