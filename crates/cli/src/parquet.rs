//! Parquet files in place of text: what is read becomes CSV, and what is written was CSV.
//!
//! So everything that is said about lines and fields holds for rows and columns; the names of the columns are line 1,
//! and the first row is line 2.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, Repetition, Type as PhysicalType};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::FileReader as _;
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::file::writer::SerializedFileWriter;
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use parquet::schema::types::Type;

use tidegate::rows::{Column, Kind, quoted};

/// The rows of a file, as CSV.
pub(crate) struct ParquetText {
    rows: RowIter<'static>,
    /// A line that was not read whole yet.
    line: Vec<u8>,
    read: usize,
}

impl ParquetText {
    pub(crate) fn open(file: File) -> Result<Self, ParquetError> {
        let reader = SerializedFileReader::new(file)?;
        let columns = reader.metadata().file_metadata().schema().get_fields();
        let names: Vec<_> = columns.iter().map(|column| quoted(column.name())).collect();
        let line = format!("{}\n", names.join(",")).into_bytes();
        Ok(Self { rows: reader.into_iter(), line, read: 0 })
    }
}

fn text_of(row: &Row) -> io::Result<Vec<u8>> {
    let mut line = String::new();
    for (position, (name, field)) in row.get_column_iter().enumerate() {
        if position > 0 {
            line.push(',');
        }
        let text = match field {
            Field::Null => String::new(),
            Field::Byte(number) => number.to_string(),
            Field::Short(number) => number.to_string(),
            Field::Int(number) => number.to_string(),
            Field::Long(number) => number.to_string(),
            Field::UByte(number) => number.to_string(),
            Field::UShort(number) => number.to_string(),
            Field::UInt(number) => number.to_string(),
            Field::ULong(number) => number.to_string(),
            Field::Float(number) => number.to_string(),
            Field::Double(number) => number.to_string(),
            Field::Str(text) => text.clone(),
            Field::Bool(flag) => flag.to_string(),
            _ => {
                return Err(io::Error::other(format!(
                    "column {name:?} holds neither text, plain numbers nor truth values"
                )));
            }
        };
        line.push_str(&quoted(&text));
    }
    line.push('\n');
    Ok(line.into_bytes())
}

impl Read for ParquetText {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read == self.line.len() {
            let Some(row) = self.rows.next() else { return Ok(0) };
            (self.line, self.read) = (text_of(&row.map_err(io::Error::other)?)?, 0);
        }
        let mut left = &self.line[self.read..];
        let read = left.read(buffer)?;
        self.read += read;
        Ok(read)
    }
}

/// So many rows are written together; in tests, so few that there are several groups.
const GROUP: usize = if cfg!(test) { 100 } else { 1 << 16 };

/// Writes the lines of CSV as rows of a file.
pub(crate) struct ParquetWriter {
    writer: SerializedFileWriter<File>,
    columns: &'static [Column],
    /// Whether the names of the columns were seen.
    begun: bool,
    finished: bool,
    rows: Vec<csv::StringRecord>,
}

impl std::fmt::Debug for ParquetWriter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ParquetWriter").field("rows", &self.rows.len()).finish_non_exhaustive()
    }
}

impl ParquetWriter {
    pub(crate) fn new(file: File, columns: &'static [Column]) -> io::Result<Self> {
        let schema = || {
            let field = |column: &Column| {
                let (physical, converted) = match column.kind {
                    Kind::Whole => (PhysicalType::INT64, ConvertedType::UINT_64),
                    Kind::Number => (PhysicalType::DOUBLE, ConvertedType::NONE),
                    Kind::Text => (PhysicalType::BYTE_ARRAY, ConvertedType::UTF8),
                    Kind::Flag => (PhysicalType::BOOLEAN, ConvertedType::NONE),
                };
                let builder = Type::primitive_type_builder(column.name, physical).with_repetition(Repetition::REQUIRED);
                builder.with_converted_type(converted).build().map(Arc::new)
            };
            let fields = columns.iter().map(field).collect::<Result<Vec<_>, _>>()?;
            let schema = Type::group_type_builder("release").with_fields(fields).build()?;
            let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
            SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))
        };
        let writer = schema().map_err(io::Error::other)?;
        Ok(Self { writer, columns, begun: false, finished: false, rows: Vec::new() })
    }

    /// Takes whole lines; the first of all names the columns.
    pub(crate) fn write(&mut self, lines: &str) -> io::Result<()> {
        let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(lines.as_bytes());
        for record in reader.records() {
            let record = record?;
            if std::mem::replace(&mut self.begun, true) {
                self.rows.push(record);
            }
            if self.rows.len() == GROUP {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let rows = std::mem::take(&mut self.rows);
        let mut write = || {
            let mut group = self.writer.next_row_group()?;
            for (position, column) in self.columns.iter().enumerate() {
                let cells = rows.iter().map(|row| row.get(position).unwrap_or_default());
                let Some(mut writer) = group.next_column()? else { break };
                match column.kind {
                    Kind::Whole => {
                        // Without a sign, as the column says.
                        let numbers: Vec<i64> =
                            cells.map(|cell| cell.parse::<u64>().unwrap_or_default().cast_signed()).collect();
                        writer.typed::<Int64Type>().write_batch(&numbers, None, None)?;
                    }
                    Kind::Number => {
                        let numbers: Vec<f64> = cells.map(|cell| cell.parse().unwrap_or(f64::NAN)).collect();
                        writer.typed::<DoubleType>().write_batch(&numbers, None, None)?;
                    }
                    Kind::Text => {
                        let texts: Vec<ByteArray> = cells.map(ByteArray::from).collect();
                        writer.typed::<ByteArrayType>().write_batch(&texts, None, None)?;
                    }
                    Kind::Flag => {
                        let flags: Vec<bool> = cells.map(|cell| cell == "true").collect();
                        writer.typed::<BoolType>().write_batch(&flags, None, None)?;
                    }
                }
                writer.close()?;
            }
            group.close().map(|_| ())
        };
        write().map_err(|error: ParquetError| io::Error::other(error))
    }

    /// Writes what is left, and what makes a file of it; nothing can be added then.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.finished, true) {
            return Ok(());
        }
        if !self.rows.is_empty() {
            self.flush()?;
        }
        self.writer.finish().map(|_| ()).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const COLUMNS: &[Column] = &[
        Column { name: "t", kind: Kind::Whole },
        Column { name: "user", kind: Kind::Text },
        Column { name: "value", kind: Kind::Text },
        Column { name: "weight", kind: Kind::Number },
        Column { name: "seeded", kind: Kind::Flag },
    ];

    #[test]
    fn what_is_written_is_read_again() {
        let path = std::env::temp_dir().join(format!("tidegate-parquet-{}.parquet", std::process::id()));
        let mut writer = ParquetWriter::new(File::create(&path).unwrap(), COLUMNS).unwrap();
        let mut expected = "t,user,value,weight,seeded\n".to_owned();
        writer.write(&expected).unwrap();
        for row in 0..2 * GROUP + 10 {
            let line = format!("{row},u{},\"a, \"\"b\"\"\",{},{}\n", row % 7, row as f64 / 4.0, row % 3 == 0);
            writer.write(&line).unwrap();
            expected.push_str(&line);
        }
        let last = "18446744073709551615,ä,x,-0.125,true\n";
        writer.write(last).unwrap();
        expected.push_str(last);
        writer.finish().unwrap();
        drop(writer);
        let mut text = String::new();
        ParquetText::open(File::open(&path).unwrap()).unwrap().read_to_string(&mut text).unwrap();
        assert!(text == expected, "{} and {} bytes", text.len(), expected.len());
        // A file that breaks off is none.
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        assert!(ParquetText::open(File::open(&path).unwrap()).is_err());
        std::fs::remove_file(path).unwrap();
    }
}
