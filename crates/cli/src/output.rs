//! [`Output`]: standard output, or a file that is replaced atomically.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process;

#[cfg(feature = "parquet")]
use tidegate_table::releases::Column;

use tidegate_release::files::{place, sync_folder_of};
use tidegate_release::gate::Reader;

use crate::failure::Failure;

/// A destination of results.
///
/// Standard output, devices and pipes get each line at once. A file is written under a temporary name beside it, which
/// only its owner may read; [`Output::finish`] renames it. After a failure the old file is unchanged, and the temporary
/// one is removed.
#[derive(Debug)]
pub(crate) struct Output {
    /// The name in errors.
    name: String,
    target: Target,
}

#[derive(Debug)]
enum Target {
    /// A destination that cannot be replaced.
    Lines(Lines),
    File(Partial),
}

/// A destination that is written directly.
enum Lines {
    Stdout(io::Stdout),
    Device(File),
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Stdout(_) => "Stdout",
            Self::Device(_) => "Device",
        })
    }
}

/// An unfinished file, which is removed on drop.
#[derive(Debug)]
struct Partial {
    /// The temporary path; `None` once the file is renamed.
    path: Option<PathBuf>,
    final_path: PathBuf,
    sink: Sink,
    /// Permissions of the finished file.
    permissions: Permissions,
}

/// The encoding of a file.
#[derive(Debug)]
enum Sink {
    /// Text or a picture as it is.
    Text(BufWriter<File>),
    /// Lines of CSV as Parquet rows.
    #[cfg(feature = "parquet")]
    Parquet(Box<tidegate_table::parquet::ParquetWriter>, File),
}

impl Sink {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        match self {
            Self::Text(file) => file.write_all(lines),
            #[cfg(feature = "parquet")]
            Self::Parquet(writer, _) => writer.write(std::str::from_utf8(lines).map_err(io::Error::other)?),
        }
    }

    /// Flushes and syncs everything, and returns the file.
    fn complete(&mut self) -> io::Result<&File> {
        let file = match self {
            Self::Text(file) => {
                file.flush()?;
                file.get_ref()
            }
            #[cfg(feature = "parquet")]
            Self::Parquet(writer, file) => {
                writer.finish()?;
                file
            }
        };
        file.sync_all()?;
        Ok(file)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // Drop cannot report a failure.
            let _ = fs::remove_file(path);
        }
    }
}

impl Output {
    /// Opens standard output for `-`, or else starts a file.
    pub(crate) fn create(name: &str) -> Result<Self, Failure> {
        if name == "-" {
            return Ok(Self { name: "standard output".to_owned(), target: Target::Lines(Lines::Stdout(io::stdout())) });
        }
        let target = Self::open(Path::new(name)).map_err(|error| cannot_write(name, &error))?;
        Ok(Self { name: name.to_owned(), target })
    }

    fn open(path: &Path) -> io::Result<Target> {
        let final_path = match fs::metadata(path) {
            Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(found) if !found.is_file() => {
                return Ok(Target::Lines(Lines::Device(OpenOptions::new().write(true).open(path)?)));
            }
            // Replace the target of a link, not the link.
            Ok(_) => fs::canonicalize(path)?,
            Err(_) => path.to_owned(),
        };
        let name = final_path.file_name().ok_or(io::ErrorKind::InvalidFilename)?.to_string_lossy();
        let partial = final_path.with_file_name(format!(".{name}.{}.partial", process::id()));
        let file = OpenOptions::new().write(true).create_new(true).open(&partial)?;
        let permissions = file.metadata()?.permissions();
        #[cfg(unix)]
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        let sink = Sink::Text(BufWriter::new(file));
        Ok(Target::File(Partial { path: Some(partial), final_path, sink, permissions }))
    }

    /// Starts a Parquet file; lines of CSV become its rows.
    #[cfg(feature = "parquet")]
    pub(crate) fn create_parquet(name: &str, columns: &[Column]) -> Result<Self, Failure> {
        let mut output = Self::create(name)?;
        let Target::File(partial) = &mut output.target else {
            return Err(Failure::input(format_args!(
                "Parquet can be written to files only, and {} is none",
                output.name
            )));
        };
        let parquet = |sink: &Sink| {
            let file = match sink {
                Sink::Text(file) => file.get_ref(),
                Sink::Parquet(_, file) => file,
            };
            let writer = tidegate_table::parquet::ParquetWriter::new(file.try_clone()?, columns.to_vec())?;
            Ok(Sink::Parquet(Box::new(writer), file.try_clone()?))
        };
        partial.sink = parquet(&partial.sink).map_err(|error| cannot_write(name, &error))?;
        Ok(output)
    }

    /// Whether lines are visible at once.
    pub(crate) const fn is_live(&self) -> bool {
        matches!(self.target, Target::Lines(_))
    }

    /// Syncs all lines to disk, without renaming the file.
    pub(crate) fn prepare(&mut self) -> Result<(), Failure> {
        let Target::File(partial) = &mut self.target else { return Ok(()) };
        partial.sink.complete().map(|_| ()).map_err(|error| cannot_write(&self.name, &error))
    }

    /// Writes complete lines.
    pub(crate) fn write(&mut self, lines: &str) -> Result<Reader, Failure> {
        self.write_bytes(lines.as_bytes())
    }

    /// Writes complete lines, or a whole picture.
    pub(crate) fn write_bytes(&mut self, lines: &[u8]) -> Result<Reader, Failure> {
        let written = match &mut self.target {
            Target::Lines(Lines::Stdout(stdout)) => {
                let mut stdout = stdout.lock();
                stdout.write_all(lines).and_then(|()| stdout.flush())
            }
            Target::Lines(Lines::Device(device)) => device.write_all(lines),
            Target::File(partial) => partial.sink.write(lines),
        };
        match written {
            Ok(()) => Ok(Reader::Listens),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::WentAway),
            Err(error) => Err(cannot_write(&self.name, &error)),
        }
    }

    /// Syncs the file and renames it.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let Target::File(mut partial) = self.target else { return Ok(()) };
        let mut finish = || {
            partial.sink.complete()?.set_permissions(partial.permissions.clone())?;
            if let Some(path) = &partial.path {
                fs::rename(path, &partial.final_path)?;
            }
            partial.path = None;
            sync_folder_of(&partial.final_path)
        };
        finish().map_err(|error: io::Error| cannot_write(&self.name, &error))
    }
}

fn cannot_write(name: &str, error: &io::Error) -> Failure {
    Failure::run(format_args!("{name} cannot be written: {error}"))
}

/// Refuses a place for a file that cannot become one, before anything is done. A hyphen stands for standard output.
pub(crate) fn check_place(option: &str, name: &str) -> Result<(), Failure> {
    let path = Path::new(name);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if name == "-" {
        return Ok(());
    }
    if path.is_dir() || path.file_name().is_none() {
        return Err(Failure::input(format_args!("{option}: {name} is a folder: name a file in it")));
    }
    match folder.filter(|folder| !folder.is_dir()) {
        None => Ok(()),
        Some(folder) => Err(Failure::input(format_args!(
            "{option}: {name} cannot be written: there is no folder {}: create the folder, or name another file",
            folder.display()
        ))),
    }
}

/// Refuses to write a file that is read as well, or two outputs to one file. A hyphen stands for a standard stream.
pub(crate) fn keep_apart<'a>(
    outputs: impl IntoIterator<Item = &'a str>,
    inputs: impl IntoIterator<Item = &'a str>,
) -> Result<(), Failure> {
    let mut taken: Vec<PathBuf> = inputs.into_iter().filter(|path| *path != "-").map(place).collect();
    for output in outputs.into_iter().filter(|path| *path != "-") {
        let place = place(output);
        if taken.contains(&place) {
            return Err(Failure::input(format_args!(
                "{output} is read or written by this command already: name another file for the output"
            )));
        }
        taken.push(place);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Creates an empty directory.
    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("tidegate-output-{name}-{}", process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn replaces_a_file_only_when_finished() {
        let folder = directory("finished");
        let path = folder.join("result.csv");
        fs::write(&path, "old").unwrap();
        let mut output = Output::create(path.to_str().unwrap()).unwrap();
        assert_eq!(output.write("t,value\n").unwrap(), Reader::Listens);
        assert_eq!(output.write("0,1\n").unwrap(), Reader::Listens);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        output.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "t,value\n0,1\n");
        assert_eq!(names(&folder), ["result.csv"]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn an_unfinished_file_leaves_nothing_behind() {
        let folder = directory("dropped");
        let path = folder.join("result.csv");
        let mut output = Output::create(path.to_str().unwrap()).unwrap();
        output.write("half").unwrap();
        assert_eq!(names(&folder).len(), 1);
        drop(output);
        assert!(names(&folder).is_empty());
        // A folder in its place, which appears while it is written.
        let output = Output::create(path.to_str().unwrap()).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(output.finish().is_err());
        assert_eq!(names(&folder), ["result.csv"]);
        assert!(Output::create(path.to_str().unwrap()).is_err(), "a folder is no file");
        assert!(Output::create(folder.join("no/such/place").to_str().unwrap()).is_err());
        fs::remove_dir_all(folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn links_and_devices_stay_what_they_are() {
        let folder = directory("links");
        let (real, link) = (folder.join("real.csv"), folder.join("link.csv"));
        fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let mut output = Output::create(link.to_str().unwrap()).unwrap();
        output.write("new").unwrap();
        output.finish().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "new");
        let mut null = Output::create("/dev/null").unwrap();
        assert_eq!(null.write("x").unwrap(), Reader::Listens);
        null.finish().unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        fs::remove_dir_all(folder).unwrap();
    }
}
