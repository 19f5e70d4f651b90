//! Certificates for encrypted connections on this machine.

use std::{fs, io, path::PathBuf, process::Command};

use crate::{Folder, Program};

pub(crate) const PROGRAMS: &[Program] = &[("openssl", "openssl")];

/// An authority of our own, and what it has signed: one certificate for the server on this machine,
/// one for a client. All are files, the keys without passwords.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// The authority's certificate.
    pub authority: PathBuf,
    /// The server's certificate, for `localhost` and `127.0.0.1`.
    pub server: PathBuf,
    /// The server's key.
    pub server_key: PathBuf,
    /// The client's certificate.
    pub client: PathBuf,
    /// The client's key.
    pub client_key: PathBuf,
}

/// What a certificate is good for, by its name.
const SETTINGS: &str = "\
[req]
distinguished_name = nobody
[nobody]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = DNS:localhost, IP:127.0.0.1
[client]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = clientAuth
";

impl Certificates {
    /// Makes them in a folder.
    ///
    /// # Errors
    /// What the system says, or `openssl`.
    pub fn make(folder: &Folder) -> io::Result<Self> {
        fs::write(folder.join("openssl.cnf"), SETTINGS)?;
        let (authority, _) = sign(folder, "authority")?;
        let (server, server_key) = sign(folder, "server")?;
        let (client, client_key) = sign(folder, "client")?;
        Ok(Self { authority, server, server_key, client, client_key })
    }
}

/// A certificate of this name and its key, signed by the authority, or by itself if it is that.
fn sign(folder: &Folder, name: &str) -> io::Result<(PathBuf, PathBuf)> {
    let mut command = Command::new("openssl");
    command.current_dir(folder.path());
    command.args(["req", "-x509", "-config", "openssl.cnf", "-extensions", name, "-days", "2"]);
    command.args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
    command.args(["-subj", &format!("/CN={name}")]);
    command.args(["-out", &format!("{name}.crt"), "-keyout", &format!("{name}.key")]);
    if name != "authority" {
        command.args(["-CA", "authority.crt", "-CAkey", "authority.key"]);
    }
    let output = command.output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok((folder.join(&format!("{name}.crt")), folder.join(&format!("{name}.key"))))
}
