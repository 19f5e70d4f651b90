//! Names of the user's that the macro must not meet: its own, and the ones it writes.
#![deny(warnings)]
#![no_implicit_prelude]

use ::lockkeeper::locked;

/// In the way of everything that expanded code could mean by a short path.
#[allow(dead_code)]
mod std {}
#[allow(dead_code)]
mod core {}
#[allow(non_camel_case_types, dead_code)]
struct str;

type Answer<T> = ::std::result::Result<T, ::lockkeeper::Error>;

#[locked(key = "{key}{lock}{terms}", locks = locks, busy = fail)]
async fn same_names(
    locks: &::lockkeeper::Locks,
    key: u8,
    lock: u8,
    terms: u8,
    held: u8,
    outcome: u8,
    fault: u8,
    guard: &::lockkeeper::Guard,
) -> Answer<(::std::string::String, u8)> {
    let all = key + lock + terms + held + outcome + fault;
    Answer::Ok((::std::string::ToString::to_string(guard.key()), all))
}

#[locked(key = "{key}", locks = locks, busy = skip)]
fn same_names_plainly(
    locks: &::lockkeeper::Locks,
    key: u8,
    guard: &::lockkeeper::blocking::Guard,
) -> Answer<::std::option::Option<bool>> {
    Answer::Ok(::std::option::Option::Some(guard.key() == "7" && key == 7))
}

fn main() {
    let Answer::Ok(locks) =
        ::lockkeeper::blocking::block_on(::lockkeeper::Locks::connect("memory:"))
    else {
        ::std::panic!("no locks");
    };
    let answer = ::lockkeeper::blocking::block_on(same_names(&locks, 1, 2, 3, 4, 5, 6));
    let Answer::Ok((key, 21)) = answer else { ::std::panic!("a name meant another") };
    ::std::assert_eq!(key, "123");
    let Answer::Ok(::std::option::Option::Some(true)) = same_names_plainly(&locks, 7) else {
        ::std::panic!("a name meant another");
    };
}
