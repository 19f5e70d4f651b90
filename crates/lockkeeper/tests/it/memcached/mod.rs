//! Memcached: the rules, faults, sharing with others, and what its URLs may say.

mod conformance;
mod faults;
mod forgetting;
mod looking;
mod replies;
mod runtimes;
mod sharing;
mod site;
mod storm;
mod urls;
