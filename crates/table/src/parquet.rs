//! Parquet files: rows are read as CSV text, and CSV text is written as rows.
//!
//! In errors, the names of the columns are line 1, and the first row is line 2.

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

use crate::releases::{Column, ColumnKind, quoted};

/// Reads the rows of a Parquet file as CSV text.
pub struct ParquetReader {
    rows: RowIter<'static>,
    /// The present line, of which `read` bytes were read.
    line: Vec<u8>,
    read: usize,
}

impl std::fmt::Debug for ParquetReader {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ParquetReader").finish_non_exhaustive()
    }
}

impl ParquetReader {
    /// Reads the metadata of a file; an error if it is not Parquet.
    pub fn open(file: File) -> Result<Self, ParquetError> {
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

impl Read for ParquetReader {
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

/// Rows of a row group; few in tests, so that they write several groups.
const GROUP: usize = if cfg!(test) { 100 } else { 1 << 16 };

/// Writes lines of CSV as rows of a Parquet file.
pub struct ParquetWriter {
    writer: SerializedFileWriter<File>,
    columns: Vec<Column>,
    /// The header line was skipped.
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
    /// Starts a file with these columns.
    pub fn new(file: File, columns: Vec<Column>) -> io::Result<Self> {
        let schema = || {
            let field = |column: &Column| {
                let (physical, converted) = match column.kind {
                    ColumnKind::Whole => (PhysicalType::INT64, ConvertedType::UINT_64),
                    ColumnKind::Number => (PhysicalType::DOUBLE, ConvertedType::NONE),
                    ColumnKind::Text => (PhysicalType::BYTE_ARRAY, ConvertedType::UTF8),
                    ColumnKind::Flag => (PhysicalType::BOOLEAN, ConvertedType::NONE),
                };
                // A number that is not stated, such as a variance, is null.
                let repetition =
                    if column.kind == ColumnKind::Number { Repetition::OPTIONAL } else { Repetition::REQUIRED };
                let builder = Type::primitive_type_builder(column.name, physical).with_repetition(repetition);
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

    /// Writes complete lines; the first one is the header.
    pub fn write(&mut self, lines: &str) -> io::Result<()> {
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
                    ColumnKind::Whole => {
                        // The column is unsigned.
                        let numbers: Vec<i64> =
                            cells.map(|cell| cell.parse::<u64>().unwrap_or_default().cast_signed()).collect();
                        writer.typed::<Int64Type>().write_batch(&numbers, None, None)?;
                    }
                    ColumnKind::Number => {
                        let numbers: Vec<Option<f64>> = cells.map(|cell| cell.parse().ok()).collect();
                        let levels: Vec<i16> = numbers.iter().map(|number| i16::from(number.is_some())).collect();
                        let numbers: Vec<f64> = numbers.into_iter().flatten().collect();
                        writer.typed::<DoubleType>().write_batch(&numbers, Some(&levels), None)?;
                    }
                    ColumnKind::Text => {
                        let texts: Vec<ByteArray> = cells.map(ByteArray::from).collect();
                        writer.typed::<ByteArrayType>().write_batch(&texts, None, None)?;
                    }
                    ColumnKind::Flag => {
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

    /// Writes the last rows and the footer; no lines can follow.
    pub fn finish(&mut self) -> io::Result<()> {
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
        Column { name: "t", kind: ColumnKind::Whole },
        Column { name: "user", kind: ColumnKind::Text },
        Column { name: "value", kind: ColumnKind::Text },
        Column { name: "weight", kind: ColumnKind::Number },
        Column { name: "seeded", kind: ColumnKind::Flag },
    ];

    #[test]
    fn written_rows_are_read_back() {
        let path = std::env::temp_dir().join(format!("tidegate-parquet-{}.parquet", std::process::id()));
        let mut writer = ParquetWriter::new(File::create(&path).unwrap(), COLUMNS).unwrap();
        let mut expected = "t,user,value,weight,seeded\n".to_owned();
        writer.write(&expected).unwrap();
        for row in 0..2 * GROUP + 10 {
            // Every fifth number is not stated.
            let weight = if row % 5 == 0 { String::new() } else { (row as f64 / 4.0).to_string() };
            let line = format!("{row},u{},\"a, \"\"b\"\"\",{weight},{}\n", row % 7, row % 3 == 0);
            writer.write(&line).unwrap();
            expected.push_str(&line);
        }
        let last = "18446744073709551615,ä,x,-0.125,true\n";
        writer.write(last).unwrap();
        expected.push_str(last);
        writer.finish().unwrap();
        drop(writer);
        let mut text = String::new();
        ParquetReader::open(File::open(&path).unwrap()).unwrap().read_to_string(&mut text).unwrap();
        assert!(text == expected, "{} and {} bytes", text.len(), expected.len());
        // A truncated file is rejected.
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        assert!(ParquetReader::open(File::open(&path).unwrap()).is_err());
        std::fs::remove_file(path).unwrap();
    }
}
