//! [`Raster`]: a backend of plotters that draws pixels, with text from a font of bitmaps.

use std::convert::Infallible;

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};
use plotters::style::RGBColor;
use plotters::style::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind, FontStyle, rasterizer,
};

use super::PlotError;
use super::draw::TEXT_FACTOR;

/// Pixels for each unit of the chart, so that it is sharp on dense screens and on paper.
const SCALE: u32 = 2;

/// Most pixels of a picture: 200 MB while it is drawn.
const MOST: u32 = 1 << 26;

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

/// A picture on white ground: red, green and blue of each pixel.
pub(super) struct Pixels {
    size: (u32, u32),
    bytes: Vec<u8>,
}

impl Pixels {
    /// A white picture of this size in units of the chart.
    pub(super) fn new((width, height): (u32, u32)) -> Result<Self, PlotError> {
        let (width, height) = (width.saturating_mul(SCALE), height.saturating_mul(SCALE));
        match width.checked_mul(height) {
            Some(pixels) if pixels <= MOST => {
                Ok(Self { size: (width, height), bytes: vec![0xff; 3 * pixels as usize] })
            }
            _ => Err(PlotError::TooLarge { width, height, most: MOST }),
        }
    }

    /// The picture as a PNG file.
    pub(super) fn to_png(&self) -> Result<Vec<u8>, PlotError> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, self.size.0, self.size.1);
        encoder.set_color(png::ColorType::Rgb);
        let written = encoder.write_header().and_then(|mut writer| {
            writer.write_image_data(&self.bytes)?;
            writer.finish()
        });
        written.map_err(|error| PlotError::Drawing(error.to_string()))?;
        Ok(file)
    }
}

impl DrawingBackend for Pixels {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, (x, y): BackendCoord, BackendColor { alpha, rgb }: BackendColor) -> Drawn {
        let (Ok(x), Ok(y)) = (u32::try_from(x), u32::try_from(y)) else { return Ok(()) };
        let (width, height) = self.size;
        if x < width && y < height {
            let first = 3 * (y as usize * width as usize + x as usize);
            for (byte, ink) in self.bytes[first..first + 3].iter_mut().zip([rgb.0, rgb.1, rgb.2]) {
                let mixed = f64::from(*byte).mul_add(1.0 - alpha, f64::from(ink) * alpha);
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to 255
                let mixed = mixed.round().clamp(0.0, 255.0) as u8;
                *byte = mixed;
            }
        }
        Ok(())
    }
}

/// The lines of one colour and width that are dashed.
pub(super) struct Dash {
    colour: (u8, u8, u8),
    width: u32,
    /// Lengths drawn and left out, in turns.
    lengths: Vec<f64>,
}

impl Dash {
    /// A dash as SVG writes it.
    pub(super) fn new(RGBColor(red, green, blue): RGBColor, width: u32, dash: &str) -> Self {
        let lengths = dash.split(' ').filter_map(|length| length.parse().ok());
        let lengths = lengths.map(|length: f64| length * f64::from(SCALE)).collect();
        Self { colour: (red, green, blue), width, lengths }
    }
}

/// Draws in units of the chart.
pub(super) struct Raster<'a> {
    pixels: &'a mut Pixels,
    dashes: Vec<Dash>,
}

/// A style in pixels.
struct Stroke {
    color: BackendColor,
    width: u32,
}

impl Stroke {
    fn of(style: &impl BackendStyle) -> Self {
        Self { color: style.color(), width: style.stroke_width() * SCALE }
    }
}

impl BackendStyle for Stroke {
    fn color(&self) -> BackendColor {
        self.color
    }

    fn stroke_width(&self) -> u32 {
        self.width
    }
}

/// The place in pixels.
fn scaled((x, y): BackendCoord) -> BackendCoord {
    let scale = SCALE.cast_signed();
    (x.saturating_mul(scale), y.saturating_mul(scale))
}

/// The font for a text of a style.
fn font(style: &impl BackendTextStyle) -> (FontWeight, RasterHeight) {
    let weight = if matches!(style.style(), FontStyle::Bold) { FontWeight::Bold } else { FontWeight::Regular };
    // Titles are larger than all else.
    let height = if style.size() / TEXT_FACTOR > 15.0 { RasterHeight::Size32 } else { RasterHeight::Size24 };
    (weight, height)
}

/// The size of a text in pixels.
fn measure(text: &str, (weight, height): (FontWeight, RasterHeight)) -> (i32, i32) {
    let signed = |pixels: usize| i32::try_from(pixels).unwrap_or(i32::MAX);
    (signed(text.chars().count().saturating_mul(get_raster_width(weight, height))), signed(height.val()))
}

impl<'a> Raster<'a> {
    pub(super) const fn new(pixels: &'a mut Pixels, dashes: Vec<Dash>) -> Self {
        Self { pixels, dashes }
    }

    fn stroke(&mut self, path: &[BackendCoord], stroke: &Stroke) -> Drawn {
        let polygon = rasterizer::polygonize(path, stroke.width);
        self.pixels.fill_polygon(polygon, &stroke.color)
    }
}

/// Cuts a line into its dashes.
fn cut(path: &[BackendCoord], lengths: &[f64]) -> Vec<Vec<BackendCoord>> {
    let (mut number, mut left) = (0, lengths[0]);
    let mut dashes = vec![path.first().copied().into_iter().collect::<Vec<_>>()];
    for (from, to) in path.iter().zip(path.iter().skip(1)) {
        let along = (f64::from(to.0 - from.0), f64::from(to.1 - from.1));
        let length = along.0.hypot(along.1);
        let mut done = 0.0;
        #[allow(clippy::cast_possible_truncation)] // pixels
        let place = |done: f64| {
            let share = done / length;
            (from.0 + (along.0 * share).round() as i32, from.1 + (along.1 * share).round() as i32)
        };
        while length - done > left {
            done += left;
            match (number % 2, dashes.last_mut()) {
                (0, Some(dash)) => dash.push(place(done)),
                _ => dashes.push(vec![place(done)]),
            }
            number += 1;
            left = lengths[number % lengths.len()];
        }
        left -= length - done;
        if let (0, Some(dash)) = (number % 2, dashes.last_mut()) {
            dash.push(*to);
        }
    }
    dashes
}

impl DrawingBackend for Raster<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        (self.pixels.size.0 / SCALE, self.pixels.size.1 / SCALE)
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, point: BackendCoord, color: BackendColor) -> Drawn {
        let (x, y) = scaled(point);
        self.pixels.draw_rect((x, y), (x + SCALE.cast_signed() - 1, y + SCALE.cast_signed() - 1), &color, true)
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Drawn {
        self.draw_path([from, to], style)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        upper_left: BackendCoord,
        bottom_right: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Drawn {
        self.pixels.draw_rect(scaled(upper_left), scaled(bottom_right), &Stroke::of(style), fill)
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, path: I, style: &S) -> Drawn {
        let stroke = Stroke::of(style);
        if stroke.color.alpha <= 0.0 {
            return Ok(());
        }
        let path: Vec<_> = path.into_iter().map(scaled).collect();
        let is_like = |dash: &&Dash| dash.colour == stroke.color.rgb && dash.width == style.stroke_width();
        match self.dashes.iter().find(is_like).map(|dash| cut(&path, &dash.lengths)) {
            None => self.stroke(&path, &stroke),
            Some(dashes) => dashes.iter().try_for_each(|dash| self.stroke(dash, &stroke)),
        }
    }

    fn draw_circle<S: BackendStyle>(&mut self, center: BackendCoord, radius: u32, style: &S, fill: bool) -> Drawn {
        self.pixels.draw_circle(scaled(center), radius * SCALE, &Stroke::of(style), fill)
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, corners: I, style: &S) -> Drawn {
        self.pixels.fill_polygon(corners.into_iter().map(scaled), &style.color())
    }

    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, place: BackendCoord) -> Drawn {
        let (font, anchor, ink) = (font(style), style.anchor(), style.color());
        let (width, height) = measure(text, font);
        let left = match anchor.h_pos {
            HPos::Left => 0,
            HPos::Center => -width / 2,
            HPos::Right => -width,
        };
        let top = match anchor.v_pos {
            VPos::Top => 0,
            VPos::Center => -height / 2,
            VPos::Bottom => -height,
        };
        let place = scaled(place);
        let question = get_raster('?', font.0, font.1);
        for (letter, left) in text.chars().zip((left..).step_by(get_raster_width(font.0, font.1))) {
            let Some(raster) = get_raster(letter, font.0, font.1).or(question) else { continue };
            for (row, y) in raster.rows().zip(top..) {
                for (shade, x) in row.iter().zip(left..).filter(|(shade, _)| **shade > 0) {
                    let (x, y) = style.transform().transform(x, y);
                    self.pixels.draw_pixel((place.0 + x, place.1 + y), ink.mix(f64::from(*shade) / 255.0))?;
                }
            }
        }
        Ok(())
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        style: &S,
    ) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        let (width, height) = measure(text, font(style));
        Ok((width.unsigned_abs() / SCALE, height.unsigned_abs() / SCALE))
    }
}
