//! Redis in all its forms, on real servers.

mod conformance;
mod dialects;
mod labs;
