use std::fmt::Write;

use super::model::{DrawnNode, Picture, remark};
use super::plane::{Area, Curve, EDGE_FONT, LINE, NODE_FONT, Plane, Point, folded, place, text_size};

const STYLE: &str = "<defs><marker id=\"arrow\" viewBox=\"0 0 10 8\" refX=\"10\" refY=\"4\" markerWidth=\"9\" \
markerHeight=\"8\" orient=\"auto-start-reverse\"><path class=\"arrow\" d=\"M0 0 L10 4 L0 8 z\" fill=\"#333\"/></marker></defs>\n";
const NODE: &str = "fill=\"#f2f0ff\" stroke=\"#7c6fd0\"";
const START_OR_END: &str = "fill=\"#bfb6fc\" stroke=\"#7c6fd0\"";
/// The background of an edge label.
const LABEL: &str = "fill=\"white\" fill-opacity=\"0.8\"";
const FRAME: &str = "fill=\"#faf9f0\" stroke=\"#aaaa33\"";
/// The space between the nodes of a frame and its border. Above the nodes, the name of the frame needs the additional
/// space `ABOVE`.
const AROUND: f64 = 14.;
const ABOVE: f64 = 20.;
const MARGIN: f64 = 20.;
/// Maximum number of letters in a line of a name.
const WIDTH: usize = 40;

pub(super) fn draw(picture: &Picture, name: &str) -> String {
    let labels: Vec<String> = picture.nodes.iter().map(|node| label(node, node.shown())).collect();
    let plane = place(picture, &labels);
    if let Some(frames) = frames(picture, &plane) {
        return write(picture, name, &labels, &plane, &frames);
    }
    // A border around the nodes of a frame would cross other nodes or frames. The labels of the nodes name their frames
    // instead.
    let labels: Vec<String> = picture.nodes.iter().map(|node| label(node, &whole_name(node))).collect();
    let plane = place(picture, &labels);
    write(picture, name, &labels, &plane, &[])
}

/// Returns the names of the surrounding frames and the name of the node.
fn whole_name(node: &DrawnNode) -> String {
    let frames = &node.path[..node.path.len() - 1];
    frames.iter().map(|frame| format!("{frame} / ")).chain([node.shown().to_owned()]).collect()
}

fn label(node: &DrawnNode, name: &str) -> String {
    let notes: Vec<String> = node.notes.iter().map(|note| format!("\n{}", folded(&remark(note), WIDTH))).collect();
    format!("{}{}", folded(name, WIDTH), notes.concat())
}

/// Returns the areas of the frames. Returns `None` if two frames overlap or a frame contains a foreign node.
fn frames(picture: &Picture, plane: &Plane) -> Option<Vec<Area>> {
    let mut areas: Vec<Option<Area>> = vec![None; picture.frames.len()];
    for (node, area) in picture.nodes.iter().zip(&plane.nodes) {
        if let Some(frame) = node.frame {
            areas[frame] = Some(areas[frame].map_or(*area, |other| union(other, *area)));
        }
    }
    for frame in (0..areas.len()).rev() {
        // Nested frames follow outer frames. The reverse order therefore completes a nested frame before its outer
        // frame.
        areas[frame] = areas[frame].map(padded);
        if let (Some(area), Some(parent)) = (areas[frame], picture.frames[frame].parent) {
            areas[parent] = Some(areas[parent].map_or(area, |other| union(other, area)));
        }
    }
    let areas: Vec<Area> = areas.into_iter().collect::<Option<_>>()?;
    for (index, area) in areas.iter().enumerate() {
        let inside = |frame: Option<usize>| picture.around(frame).any(|frame| frame == index);
        let foreign =
            picture.nodes.iter().zip(&plane.nodes).any(|(node, at)| !inside(node.frame) && overlap(*area, *at));
        let mut others = (0..areas.len())
            .filter(|other| !inside(Some(*other)) && !picture.around(Some(index)).any(|frame| frame == *other));
        if foreign || others.any(|other| overlap(*area, areas[other])) {
            return None;
        }
    }
    Some(areas)
}

fn union(a: Area, b: Area) -> Area {
    let from = Point { x: a.from.x.min(b.from.x), y: a.from.y.min(b.from.y) };
    Area { from, to: Point { x: a.to.x.max(b.to.x), y: a.to.y.max(b.to.y) } }
}

fn padded(area: Area) -> Area {
    let from = Point { x: area.from.x - AROUND, y: area.from.y - AROUND - ABOVE };
    Area { from, to: Point { x: area.to.x + AROUND, y: area.to.y + AROUND } }
}

fn overlap(a: Area, b: Area) -> bool {
    a.from.x < b.to.x && b.from.x < a.to.x && a.from.y < b.to.y && b.from.y < a.to.y
}

/// Returns the whole picture. Writing to a string cannot fail.
fn write(picture: &Picture, name: &str, labels: &[String], plane: &Plane, frames: &[Area]) -> String {
    let mut svg = head(name, bounds(plane, frames));
    for (frame, area) in picture.frames.iter().zip(frames) {
        open(&mut svg, "frame", &frame.path);
        rect(&mut svg, *area, FRAME, 6., title(&frame.name));
        let notes: Vec<String> = frame.notes.iter().map(|note| format!(", {}", remark(note))).collect();
        // The frame has room for one line above its nodes.
        let name = folded(&frame.name, WIDTH);
        let name = format!("{}{}", name.lines().next().unwrap_or_default(), notes.concat());
        let at = Point { x: area.from.x + text_size(&name, EDGE_FONT).x / 2. + 4., y: area.from.y + AROUND };
        text(&mut svg, at, &name, EDGE_FONT);
        svg.push_str("</g>\n");
    }
    for line in &plane.curves {
        curve(&mut svg, line);
    }
    for ((node, area), label) in picture.nodes.iter().zip(&plane.nodes).zip(labels) {
        let (look, round) = if node.is_terminal() { (START_OR_END, 16.) } else { (NODE, 5.) };
        let class = match (node.is_terminal(), node.closed) {
            (true, _) => "node terminal",
            (false, true) => "node closed",
            (false, false) => "node",
        };
        open(&mut svg, class, &node.path);
        if !node.flow.is_empty() {
            let lines = title(node.shown()).into_iter().chain(node.flow.iter().map(String::as_str));
            let lines: Vec<String> = lines.map(escape).collect();
            let _ = writeln!(svg, "<title>{}</title>", lines.join("\n"));
        }
        rect(&mut svg, *area, look, round, title(node.shown()).filter(|_| node.flow.is_empty()));
        text(&mut svg, area.middle(), label, NODE_FONT);
        svg.push_str("</g>\n");
    }
    for (at, label) in &plane.labels {
        svg.push_str("<g class=\"label\">\n");
        rect(&mut svg, Area::around(*at, text_size(label, EDGE_FONT)), LABEL, 3., None);
        text(&mut svg, *at, label, EDGE_FONT);
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

fn head(name: &str, Area { from, to }: Area) -> String {
    let (x, y) = (from.x - MARGIN, from.y - MARGIN);
    let (width, height) = (to.x - x + MARGIN, to.y - y + MARGIN);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"{x:.1} {y:.1} {width:.1} {height:.1}\" font-family=\"Helvetica, Arial, sans-serif\">\n\
         <title>{}</title>\n{STYLE}<rect class=\"ground\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        escape(name)
    )
}

fn bounds(plane: &Plane, frames: &[Area]) -> Area {
    let points = plane.curves.iter().flat_map(|curve| curve.parts.iter().flatten());
    let points = points.map(|at| Area { from: *at, to: *at });
    let labels = plane.labels.iter().map(|(at, label)| Area::around(*at, text_size(label, EDGE_FONT)));
    let all = plane.nodes.iter().chain(frames).copied().chain(points).chain(labels);
    all.reduce(union).unwrap_or_default()
}

/// Opens a group that scripts can find by its path.
fn open(svg: &mut String, class: &str, path: &[String]) {
    let path = serde_json::Value::from(path).to_string();
    let _ = writeln!(svg, "<g class=\"{class}\" data-path=\"{}\">", escape(&path));
}

/// Returns the name as a tooltip if the label has to break the name into parts.
fn title(name: &str) -> Option<&str> {
    Some(name).filter(|name| name.chars().count() > WIDTH)
}

fn rect(svg: &mut String, Area { from, to }: Area, look: &str, round: f64, title: Option<&str>) {
    let (width, height) = (to.x - from.x, to.y - from.y);
    let _ = write!(
        svg,
        "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"{round}\" {look}",
        from.x, from.y
    );
    let _ = match title {
        Some(title) => writeln!(svg, "><title>{}</title></rect>", escape(title)),
        None => writeln!(svg, "/>"),
    };
}

/// Draws lines of text, centered at this point.
#[allow(clippy::cast_precision_loss)] // of a number of lines
fn text(svg: &mut String, at: Point, text: &str, font: f64) {
    let step = font * LINE;
    let top = at.y - (text.lines().count().max(1) - 1) as f64 * step / 2. + font * 0.35;
    for (index, line) in text.lines().enumerate() {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"{font}\" text-anchor=\"middle\">{}</text>",
            at.x,
            top + index as f64 * step,
            escape(line)
        );
    }
}

fn curve(svg: &mut String, curve: &Curve) {
    let mut path = format!("M{:.1} {:.1}", curve.start.x, curve.start.y);
    for [a, b, to] in &curve.parts {
        let _ = write!(path, " C{:.1} {:.1}, {:.1} {:.1}, {:.1} {:.1}", a.x, a.y, b.x, b.y, to.x, to.y);
    }
    let dash = if curve.dashed { " stroke-dasharray=\"5,4\"" } else { "" };
    let end = if curve.backwards { "marker-start" } else { "marker-end" };
    let _ =
        writeln!(svg, "<path class=\"edge\" d=\"{path}\" fill=\"none\" stroke=\"#333\"{dash} {end}=\"url(#arrow)\"/>");
}

/// Escapes a text for XML and removes control characters, since XML does not allow most of them.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}
