//! What stands in the function's place.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Expr, PatType, Stmt, Type, TypeReference, spanned::Spanned};

use crate::{
    duration,
    function::{Function, Refusal},
    options::{self, Busy, Options},
};

/// The function under its lock, or the errors with a stand-in for it.
pub(crate) fn expand(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let function = match Function::read(item) {
        Ok(function) => function,
        Err(Refusal { fault, remains }) => return beside(&fault, &remains),
    };
    let options = options::read(attribute)
        .and_then(|options| function.check_key(&options.key).map(|()| options));
    match options {
        Ok(options) => locked(function, &options),
        Err(fault) => beside(&fault, &function.stand_in()),
    }
}

fn beside(fault: &syn::Error, item: &TokenStream) -> TokenStream {
    let errors = fault.to_compile_error();
    quote!(#errors #item)
}

fn locked(mut function: Function, options: &Options) -> TokenStream {
    let names = Names::default();
    let key = options.key.tokens();
    let Names { key: key_name, terms, .. } = &names;
    let answer = &function.answer;
    let terms_of_answer = quote_spanned!(at(answer)=> ::lockkeeper::__private::terms::<#answer>());
    let lock = lock(&function, options, &names);
    let guard = guard(&function, options, &names);
    let work = work(&function, &names);
    let body = quote! {
        let #terms = #terms_of_answer;
        let #key_name: &::core::primitive::str = #key;
        #lock
        #guard
        #work
    };
    function.item.block.stmts = vec![Stmt::Expr(Expr::Verbatim(body), None)];
    function.item.into_token_stream()
}

/// The names that this macro makes; no name of the user's can mean them, nor the other way round.
struct Names {
    key: Ident,
    terms: Ident,
    lock: Ident,
    guard: Ident,
    held: Ident,
    fault: Ident,
    outcome: Ident,
}

impl Default for Names {
    fn default() -> Self {
        let name = |name| Ident::new(name, Span::mixed_site());
        Self {
            key: name("key"),
            terms: name("terms"),
            lock: name("lock"),
            guard: name("guard"),
            held: name("held"),
            fault: name("fault"),
            outcome: name("outcome"),
        }
    }
}

/// A place of the user's for what is still known as made by this macro.
fn at(place: &impl Spanned) -> Span {
    Span::mixed_site().located_at(place.span())
}

/// `let lock = …;`: the lock with its options.
fn lock(function: &Function, options: &Options, names: &Names) -> TokenStream {
    let Names { lock, key, .. } = names;
    let locks = &options.locks;
    let request = quote_spanned!(at(locks)=> (#locks).lock(#key));
    let request = match function.item.sig.asyncness {
        Some(_) => request,
        None => quote_spanned!(at(locks)=> ::core::convert::Into::into(#request)),
    };
    let kind = kind(function);
    let ttl = options.ttl.map(duration::tokens).map(|ttl| quote!(.ttl(#ttl)));
    let hold = options.maximum_hold.map(duration::tokens).map(|hold| quote!(.maximum_hold(#hold)));
    let label = options.label.as_ref().map(|label| quote!(.label(#label)));
    let barging = options.barging.then(|| quote!(.barging()));
    quote! {
        let #lock: ::lockkeeper::#kind Lock = #request;
        let #lock = #lock #ttl #hold #label #barging;
    }
}

/// `let guard = …;`: nothing behind it runs without a guard.
fn guard(function: &Function, options: &Options, names: &Names) -> TokenStream {
    let Names { lock, guard, key, terms, fault, .. } = names;
    let answer = &function.answer;
    let wait = wait(function);
    let ask = match options.busy {
        Busy::Wait(limit) => {
            let limit = duration::tokens(limit);
            quote!(acquire_within(#limit))
        }
        Busy::Forever => quote!(acquire()),
        Busy::Fail | Busy::Skip => quote!(try_acquire()),
    };
    let (granted, busy) = match options.busy {
        Busy::Wait(_) | Busy::Forever => (quote!(#guard), TokenStream::new()),
        Busy::Fail => (
            quote!(::core::option::Option::Some(#guard)),
            quote!(::core::result::Result::Ok(::core::option::Option::None) =>
                return #terms.failed(::lockkeeper::__private::busy(#key)),),
        ),
        Busy::Skip => {
            let skipped =
                quote_spanned!(at(answer)=> ::lockkeeper::__private::skipped::<#answer>());
            (
                quote!(::core::option::Option::Some(#guard)),
                quote!(::core::result::Result::Ok(::core::option::Option::None) =>
                    return #skipped,),
            )
        }
    };
    quote! {
        let #guard = match #lock.#ask #wait {
            ::core::result::Result::Ok(#granted) => #guard,
            #busy
            ::core::result::Result::Err(#fault) => return #terms.failed(#fault),
        };
    }
}

/// The body, run while the lock is held, and the end of the hold.
fn work(function: &Function, names: &Names) -> TokenStream {
    let Names { guard, held, outcome, terms, .. } = names;
    let (answer, arguments) = (&function.answer, &function.certain);
    let lend = lend(function.guard.as_ref(), held);
    let statements = &function.item.block.stmts;
    // Naming every argument moves it in, so that it is dropped before the lock is given back.
    let inside = quote! {
        let _ = (#(&#arguments,)*);
        #lend
        #(#statements)*
    };
    if function.item.sig.asyncness.is_some() {
        // The return that never happens tells the compiler what the block answers.
        quote! {
            let #held = &#guard;
            let #outcome = ::lockkeeper::Guard::protect(#held, async move {
                if false {
                    return ::lockkeeper::__private::never::<#answer>();
                }
                #inside
            }).await;
            ::lockkeeper::__private::finish(#guard, #outcome, &#terms).await
        }
    } else {
        quote! {
            let #held = &#guard;
            let #outcome = ::lockkeeper::__private::run(move || -> #answer { #inside });
            ::lockkeeper::__private::blocking_finish(#guard, #outcome, &#terms)
        }
    }
}

/// Binds the guard to the user's parameter; a lifetime of the signature would outlive it.
fn lend(guard: Option<&PatType>, held: &Ident) -> Option<TokenStream> {
    let PatType { attrs, pat, ty, .. } = guard?;
    let Type::Reference(TypeReference { elem, .. }) = &**ty else { return None };
    let held = Ident::new(&held.to_string(), at(elem));
    let lend = quote_spanned!(at(elem)=> ::lockkeeper::__private::lend(#held));
    Some(quote!(#(#attrs)* let #pat: &#elem = #lend;))
}

fn kind(function: &Function) -> Option<TokenStream> {
    function.item.sig.asyncness.is_none().then(|| quote!(blocking::))
}

fn wait(function: &Function) -> Option<TokenStream> {
    function.item.sig.asyncness.is_some().then(|| quote!(.await))
}
