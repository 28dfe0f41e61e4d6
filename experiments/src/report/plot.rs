//! Plots in the forms of the papers, as SVG.

use crate::report::comparison::Comparison;
use crate::report::series::Series;
use plotters::prelude::*;

const WIDTH: u32 = 760;
const HEIGHT: u32 = 520;
const FONT: &str = "sans-serif";
/// Colours that can be told apart with any colour vision (Okabe and Ito).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(90, 90, 90),
    RGBColor(160, 140, 0),
];

/// A curve.
pub(crate) struct Line {
    /// Its name in the legend; a line without a name looks like the one before it.
    pub name: String,
    pub points: Vec<(f64, f64)>,
    /// Whether it was computed, not measured.
    pub dashed: bool,
}

/// Returns a promised level.
pub(crate) fn level(name: &str, from: f64, to: f64, height: f64) -> Line {
    Line { name: name.to_owned(), points: vec![(from, height), (to, height)], dashed: true }
}

/// A coordinate system.
pub(crate) struct Panel {
    pub title: String,
    pub x_label: String,
    pub y_label: String,
    pub lines: Vec<Line>,
    /// Moments of changes, with what changed.
    pub marks: Vec<(f64, String)>,
    /// Names of x = 0, 1, 2 and so on, where x is no quantity.
    pub x_names: Vec<String>,
}

/// Draws panels beside each other, as SVG.
pub(crate) fn draw(title: &str, panels: &[Panel]) -> String {
    let mut svg = String::new();
    {
        let size = (WIDTH * panels.len() as u32, HEIGHT);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        // Drawing into a string cannot fail.
        paint(&root, title, panels).expect("a string takes everything");
    }
    svg
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Chart<'a, 'b> = ChartContext<
    'b,
    SVGBackend<'a>,
    Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
>;
type Failure<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

fn paint<'a>(root: &Area<'a>, title: &str, panels: &[Panel]) -> Result<(), Failure<'a>> {
    root.fill(&WHITE)?;
    let root = root.titled(title, (FONT, 20))?;
    // One scale for all, or panels beside each other could not be compared.
    let points = panels.iter().flat_map(|panel| &panel.lines).flat_map(|line| &line.points);
    let room = if panels.iter().any(|panel| !panel.marks.is_empty()) { 1.12 } else { 1.05 };
    let (x_max, y_max) =
        points.fold((1e-9_f64, 1e-9_f64), |(x, y), point| (x.max(point.0), y.max(point.1)));
    let scale = (x_max, y_max * room);
    for (area, panel) in root.split_evenly((1, panels.len())).iter().zip(panels) {
        paint_panel(area, panel, scale)?;
    }
    root.present()
}

fn paint_panel<'a>(
    area: &Area<'a>,
    panel: &Panel,
    (x_max, y_max): (f64, f64),
) -> Result<(), Failure<'a>> {
    let (x_from, x_to) = match panel.x_names.len() {
        0 => (0.0, x_max),
        count => (-0.3, count as f64 - 0.7),
    };
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, (FONT, 15))
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(62)
        .build_cartesian_2d(x_from..x_to, 0.0..y_max)?;
    let x_name = |x: &f64| {
        if panel.x_names.is_empty() {
            return trimmed(*x);
        }
        let whole = (x - x.round()).abs() < 1e-6 && *x > -0.5;
        let name = if whole { panel.x_names.get(x.round() as usize) } else { None };
        name.cloned().unwrap_or_default()
    };
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(RGBColor(225, 225, 225))
        .x_desc(&panel.x_label)
        .y_desc(&panel.y_label)
        .x_labels(if panel.x_names.is_empty() { 11 } else { panel.x_names.len() })
        .x_label_formatter(&x_name)
        .y_label_formatter(&|y| trimmed(*y))
        .label_style((FONT, 13))
        .axis_desc_style((FONT, 14))
        .draw()?;
    paint_marks(&mut chart, panel, y_max)?;
    paint_lines(&mut chart, panel)?;
    chart
        .configure_series_labels()
        .position(match panel.x_names.is_empty() {
            // Below the names of what changed.
            true => SeriesLabelPosition::Coordinate(8, 34),
            false => SeriesLabelPosition::UpperRight,
        })
        .margin(18)
        .background_style(WHITE.mix(0.85))
        .border_style(RGBColor(180, 180, 180))
        .label_font((FONT, 13))
        .draw()?;
    Ok(())
}

/// Paints a vertical line for each change, with its name.
fn paint_marks<'a>(
    chart: &mut Chart<'a, '_>,
    panel: &Panel,
    y_max: f64,
) -> Result<(), Failure<'a>> {
    for (at, what) in &panel.marks {
        let grey = RGBColor(120, 120, 120);
        let line = vec![(*at, 0.0), (*at, y_max)];
        chart.draw_series(DashedLineSeries::new(line, 4, 4, grey.into()))?;
        let style = (FONT, 12).into_font().color(&grey);
        let place = (*at, y_max * 0.985);
        let mark = EmptyElement::at(place) + Text::new(format!(" {what}"), (0, 0), style);
        chart.draw_series(std::iter::once(mark))?;
    }
    Ok(())
}

fn paint_lines<'a>(chart: &mut Chart<'a, '_>, panel: &Panel) -> Result<(), Failure<'a>> {
    let mut colour = COLOURS[0];
    let mut named = 0;
    for line in &panel.lines {
        if !line.name.is_empty() {
            colour = COLOURS[named % COLOURS.len()];
            named += 1;
        }
        let style = colour.stroke_width(if line.dashed { 1 } else { 2 });
        let points = line.points.iter().copied();
        let drawn = match line.dashed {
            true => chart.draw_series(DashedLineSeries::new(points, 6, 4, style))?,
            false => chart.draw_series(LineSeries::new(points, style))?,
        };
        if !line.name.is_empty() {
            drawn.label(&line.name).legend(move |(x, y)| {
                PathElement::new([(x, y), (x + 22, y)], colour.stroke_width(2))
            });
        }
        // Points tell lines apart without colours, and where there are few, where they are.
        let step = (line.points.len() / 8).max(1);
        let some =
            line.points.iter().skip(step * (named % 6) / 6).step_by(step).filter(|_| !line.dashed);
        let filled = colour.filled();
        for &point in some {
            match named % 4 {
                0 => chart.draw_series([Circle::new(point, 4, filled)])?,
                1 => chart.draw_series([TriangleMarker::new(point, 5, filled)])?,
                2 => chart.draw_series([Cross::new(point, 4, colour.stroke_width(2))])?,
                _ => chart.draw_series([Circle::new(point, 4, colour.stroke_width(2))])?,
            };
        }
    }
    Ok(())
}

/// Writes a number without needless zeros.
fn trimmed(number: f64) -> String {
    let text = format!("{number:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Returns progress as the papers show it: a line for each client, thousands of iterations against
/// seconds. Clients of one name have lines of one look. Samples outside `keep` are left out with
/// the work done meanwhile, so that the slices of one rule join up.
pub(crate) fn progress(names: &[String], series: &Series, keep: &dyn Fn(f64) -> bool) -> Vec<Line> {
    let mut lines = Vec::new();
    for (client, name) in names.iter().enumerate() {
        let (mut time, mut done) = (0.0, 0.0);
        let mut points = vec![(0.0, 0.0)];
        for sample in 1..series.at.len() {
            let (from, to) = (series.at[sample - 1], series.at[sample]);
            if keep((from + to) / 2.0) {
                let work =
                    series.iterations[sample][client] - series.iterations[sample - 1][client];
                time += to - from;
                done += work as f64 / 1000.0;
                points.push((time, done));
            }
        }
        let known = names[..client].contains(name);
        let name = if known { String::new() } else { name.clone() };
        lines.push(Line { name, points: thinned(points), dashed: false });
    }
    lines
}

/// Returns about 400 of the points at most, the last one among them.
fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let step = points.len().div_ceil(400).max(1);
    let last = points.len() - 1;
    let keep =
        |(place, point): (usize, (f64, f64))| (place % step == 0 || place == last).then_some(point);
    points.into_iter().enumerate().filter_map(keep).collect()
}

/// Returns a panel with the axes of progress.
pub(crate) fn progress_panel(title: &str, lines: Vec<Line>, marks: Vec<(f64, String)>) -> Panel {
    Panel {
        title: title.to_owned(),
        x_label: "time (s)".to_owned(),
        y_label: "iterations (thousands)".to_owned(),
        lines,
        marks,
        x_names: Vec::new(),
    }
}

/// Returns a panel with these axes and lines, without marks.
pub(crate) fn plain_panel(title: &str, x_label: &str, y_label: &str, lines: Vec<Line>) -> Panel {
    Panel {
        title: title.to_owned(),
        x_label: x_label.to_owned(),
        y_label: y_label.to_owned(),
        lines,
        marks: Vec::new(),
        x_names: Vec::new(),
    }
}

/// Returns a panel of one quantity of several things, allot beside the kernel's default.
pub(crate) fn side_by_side(label: &str, comparisons: &[Comparison], quantity: &str) -> Panel {
    let of: Vec<&Comparison> =
        comparisons.iter().filter(|comparison| comparison.quantity == quantity).collect();
    type Column = fn(&Comparison) -> Option<f64>;
    let columns: [(&str, bool, Column); 4] = [
        ("allot", false, |comparison| comparison.allot),
        ("allot, no transfers", false, |comparison| comparison.allot_without_transfers),
        ("the kernel's default", false, |comparison| comparison.default),
        ("promised", true, |comparison| comparison.promised),
    ];
    let mut lines = Vec::new();
    for (name, dashed, column) in columns {
        let points: Vec<(f64, f64)> = of
            .iter()
            .enumerate()
            .filter_map(|(place, comparison)| Some((place as f64, column(comparison)?)))
            .collect();
        if !points.is_empty() {
            lines.push(Line { name: name.to_owned(), points, dashed });
        }
    }
    Panel {
        title: String::new(),
        x_label: String::new(),
        y_label: label.to_owned(),
        lines,
        marks: Vec::new(),
        x_names: of
            .iter()
            .map(|comparison| {
                // The part that differs between the points of one plot.
                let what = comparison.what.split_once(", ").filter(|(first, _)| {
                    of.iter().all(|other| other.what.starts_with(&format!("{first}, ")))
                });
                what.map_or(comparison.what.clone(), |(_, rest)| rest.to_owned())
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_says_what_it_shows() {
        let series = Series {
            at: vec![0.0, 1.0, 2.0, 3.0],
            iterations: vec![vec![0, 0], vec![1000, 2000], vec![2000, 4000], vec![2500, 9000]],
            used_ns: vec![vec![0, 0]; 4],
        };
        let lines =
            progress(&["A1".into(), "B1".into()], &series, &|at| !(1.0..=2.0).contains(&at));
        assert_eq!(lines[1].points, [(0.0, 0.0), (1.0, 2.0), (2.0, 7.0)], "slices join up");
        let panel = progress_panel("panel", lines, vec![(1.5, "B3 wakes".into())]);
        let svg = draw("Figure 8", &[panel]);
        for words in ["<svg", "Figure 8", "A1", "B1", "time (s)", "iterations", "B3 wakes"] {
            assert!(svg.contains(words), "{words}");
        }
    }
}
