//! Redis in all its forms, on real servers.

mod cluster;
mod conformance;
mod dialects;
mod faults;
mod labs;
mod load;
mod one_way;
mod redlock;
mod replicas;
mod sentinel;
mod slots;
mod split;
