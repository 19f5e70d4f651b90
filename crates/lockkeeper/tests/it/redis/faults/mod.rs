//! What can go wrong between us and a Redis, one named test each, on every mode where it applies.

mod delivery;
mod encrypted;
mod further_rights;
mod input;
mod interruptions;
mod lines;
mod modes;
mod processes;
mod replies;
mod rights;
mod runtimes;
mod site;
mod stalls;
mod storm;
mod together;
