//! The engines: which are built in, and which URL scheme names which.

use crate::{
    engine::Engine,
    error::{Call, Error, Result},
    url::Url,
};

#[cfg(all(feature = "file", target_os = "linux"))]
pub mod file;
#[cfg(feature = "memory")]
pub mod memory;

/// Opens the engine that the URL names; without a URL, the embedded default.
pub(crate) async fn open(url: Option<&str>) -> Result<Box<dyn Engine>> {
    let Some(url) = url else { return open_file(None) };
    let url = Url::parse(url)?;
    match url.scheme.as_str() {
        "file" => open_file(Some(&url)),
        "memory" => open_memory(&url),
        other => Err(Error::bad_options(format!(
            "no engine is called {other:?}; this build knows file: and memory:"
        ))),
    }
}

#[cfg(all(feature = "file", target_os = "linux"))]
fn open_file(url: Option<&Url>) -> Result<Box<dyn Engine>> {
    let folder = url.map(folder_of).transpose()?;
    file::open(folder).map_err(|error| error.at("file", None, Call::Connect))
}

#[cfg(all(feature = "file", target_os = "linux"))]
fn folder_of(url: &Url) -> Result<&std::path::Path> {
    url.no_more_parameters()?;
    let here = matches!(url.authority.as_deref(), None | Some("" | "localhost"));
    if !here || !url.path.starts_with('/') {
        return Err(Error::bad_options(
            "a file: URL needs an absolute folder on this machine, as in file:///var/lib/app/locks",
        ));
    }
    Ok(std::path::Path::new(&url.path))
}

#[cfg(not(all(feature = "file", target_os = "linux")))]
fn open_file(_: Option<&Url>) -> Result<Box<dyn Engine>> {
    Err(Error::unsupported(
        "the file engine needs Linux (open file description locks) and the crate feature `file`",
    )
    .at("file", None, Call::Connect))
}

#[cfg(feature = "memory")]
fn open_memory(url: &Url) -> Result<Box<dyn Engine>> {
    url.no_more_parameters()?;
    if url.authority.is_some() {
        return Err(Error::bad_options("write memory: or memory:name, without slashes"));
    }
    Ok(Box::new(memory::Memory::named(&url.path)))
}

#[cfg(not(feature = "memory"))]
fn open_memory(_: &Url) -> Result<Box<dyn Engine>> {
    Err(Error::unsupported("memory: needs the crate feature `memory`").at(
        "memory",
        None,
        Call::Connect,
    ))
}
