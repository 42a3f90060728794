//! Charts as PNG: read back, pixel by pixel.

use tidegate_plot::plot::{Axis, Chart, Panel, PlotError, Point, Series};

/// The picture of a chart: its width, and the colour of each pixel.
fn picture(chart: &Chart) -> (usize, Vec<[u8; 3]>) {
    let png = chart.to_png().unwrap();
    let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut bytes).unwrap();
    assert_eq!((info.color_type, info.bit_depth), (png::ColorType::Rgb, png::BitDepth::Eight));
    (info.width as usize, bytes.chunks(3).map(|pixel| pixel.try_into().unwrap()).collect())
}

fn chart(title: &str, series: Vec<Series>) -> Chart {
    Chart::wide(title, vec![Panel::curves("", Axis::linear("t"), Axis::linear("users"), series)])
}

fn level(name: &str) -> Series {
    Series::new(name, vec![Point::with_error(0.0, 5.0, 2.0), Point::with_error(9.0, 5.0, 2.0)])
}

const BLUE: [u8; 3] = [0x00, 0x72, 0xb2];
const GREY: [u8; 3] = [0x6b, 0x72, 0x7a];

#[test]
fn a_picture_has_the_size_of_two_pixels_a_unit_on_white_ground() {
    let chart = chart("t", vec![level("a")]);
    let svg = chart.to_svg().unwrap();
    let (width, pixels) = picture(&chart);
    let height = pixels.len() / width;
    assert!(svg.starts_with(&format!("<svg width=\"{}\" height=\"{}\"", width / 2, height / 2)), "{}", &svg[..80]);
    assert!(pixels.iter().filter(|pixel| **pixel == [255; 3]).count() > pixels.len() / 2);
    // The band is 18 % of the colour.
    let band = pixels.iter().filter(|pixel| **pixel == [209, 230, 241]).count();
    assert!(band > 10_000, "{band}");
}

#[test]
fn a_line_is_solid_and_a_baseline_dashed() {
    // In the row of pixels with most of a colour, its share between the first and the last.
    let share = |series: Series, colour: [u8; 3]| {
        let (width, pixels) = picture(&chart("", vec![series]));
        let places = |row: &[[u8; 3]]| -> Vec<usize> {
            (60 * 2 + 10..width - 60).filter(|place| row[*place] == colour).collect()
        };
        let row = pixels.chunks(width).take(500).map(places).max_by_key(Vec::len).unwrap();
        row.len() as f64 / (row.last().unwrap() - row.first().unwrap() + 1) as f64
    };
    assert_eq!(share(level("a"), BLUE), 1.0);
    // One unit drawn, three left out: drawn ends are rounded to pixels.
    let dashed = share(Series::new("a", vec![Point::new(0.0, 4.9), Point::new(9.0, 4.9)]).baseline(), GREY);
    assert!((0.2..=0.45).contains(&dashed), "{dashed}");
}

#[test]
fn titles_are_written() {
    let ink = |title: &str| {
        let (width, pixels) = picture(&chart(title, vec![level("a")]));
        pixels[..width * 2 * 34].iter().filter(|pixel| pixel.iter().all(|part| *part < 0x60)).count()
    };
    assert_eq!(ink(""), 0);
    let one = ink("W");
    assert!(one > 40, "{one}");
    assert_eq!(ink("WW"), 2 * one);
    assert_ne!(ink("é"), ink("?"));
    // The font has Latin letters only.
    assert_eq!(ink("\u{6f6e}"), ink("?"));
}

#[test]
fn a_picture_that_is_too_large_is_refused() {
    let panel = || Panel::curves("p", Axis::linear("t"), Axis::linear("users"), vec![level("a")]);
    let large = Chart::wide("t", std::iter::repeat_with(panel).take(100).collect());
    assert!(matches!(large.to_png(), Err(PlotError::TooLarge { width: 1552, .. })));
    assert!(large.to_svg().is_ok());
    assert_eq!(Chart::new("t", Vec::new()).to_png(), Err(PlotError::NoPanels { chart: "t".to_owned() }));
}
