//! A server with encrypted connections and users with rights.

use std::{fs, io, path::Path};

use super::{
    Server,
    server::{Ports, usual_args},
};
use crate::{Certificates, Folder};

/// A server to which users come over encrypted connections, with the rights they have been given.
/// Its certificate and its list of users are in its folder.
#[derive(Debug)]
pub struct Secure {
    /// The server itself; the lab has a door of its own, without encryption, as the user `admin`.
    pub server: Server,
    certificates: Certificates,
    admin_password: String,
}

impl Secure {
    /// Starts one on which nobody but `admin` has rights yet. A client may show a certificate.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start() -> io::Result<Self> {
        Self::start_with(&[])
    }

    /// Starts one with more arguments, such as `["--tls-auth-clients", "yes"]` for one that lets
    /// nobody in without a certificate.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_with(args: &[&str]) -> io::Result<Self> {
        let folder = Folder::new()?;
        let certificates = Certificates::make(&folder)?;
        let admin_password: String = (0..20).map(|_| fastrand::alphanumeric()).collect();
        let users = format!("user default off\nuser admin on >{admin_password} ~* &* +@all\n");
        fs::write(folder.join(USERS), users)?;
        let server = Server::launch(folder, &["admin", &admin_password], |folder, ports| {
            let mut all = usual_args(folder, ports);
            all.extend(secure_args(folder, ports, &certificates));
            all.extend(args.iter().map(ToString::to_string));
            Ok(all)
        })?;
        Ok(Self { server, certificates, admin_password })
    }

    /// Where encrypted connections come in.
    pub fn port(&self) -> u16 {
        self.server.second_port()
    }

    /// Its URL for a user.
    pub fn url_for(&self, user: &str, password: &str) -> String {
        format!("rediss://{user}:{password}@127.0.0.1:{}", self.port())
    }

    /// The password of the user `admin`, who may do everything.
    pub fn admin_password(&self) -> &str {
        &self.admin_password
    }

    /// The certificate of the authority that signed the server's.
    pub fn ca_path(&self) -> &Path {
        &self.certificates.authority
    }

    /// A certificate for clients.
    pub fn client_cert(&self) -> &Path {
        &self.certificates.client
    }

    /// The key of the certificate for clients.
    pub fn client_key(&self) -> &Path {
        &self.certificates.client_key
    }

    /// Adds a user, or changes one; also for the time after a restart. The line is what comes after
    /// `ACL SETUSER`, such as `worker on >secret ~locks:* &* +@all`.
    ///
    /// # Errors
    /// What the system says, or the server's refusal.
    pub fn add_user(&self, line: &str) -> io::Result<()> {
        let mut words = vec!["ACL", "SETUSER"];
        words.extend(line.split_whitespace());
        self.server.command(&words)?.not_an_error()?;
        self.server.command(&["ACL", "SAVE"])?.not_an_error().map(drop)
    }
}

const USERS: &str = "users.acl";

fn secure_args(folder: &Folder, ports: Ports, certificates: &Certificates) -> Vec<String> {
    let path = |path: &Path| path.display().to_string();
    [
        ["--tls-port", &ports.second.to_string()],
        ["--tls-auth-clients", "optional"],
        ["--tls-ca-cert-file", &path(&certificates.authority)],
        ["--tls-cert-file", &path(&certificates.server)],
        ["--tls-key-file", &path(&certificates.server_key)],
        ["--aclfile", &path(&folder.join(USERS))],
    ]
    .concat()
    .into_iter()
    .map(str::to_owned)
    .collect()
}
