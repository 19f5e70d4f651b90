//! The function under the attribute: what it takes, what it answers, and whether it can be locked.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::{
    Error, Expr, FnArg, Item, ItemFn, PatIdent, PatType, Path, Result, ReturnType, Signature, Stmt,
    Type, TypeParamBound, spanned::Spanned, visit_mut::VisitMut,
};

use crate::template::Template;

/// A function that can be locked.
pub(crate) struct Function {
    /// The function as its callers see it: the guard is no parameter any more.
    pub(crate) item: ItemFn,
    /// The parameter that receives the guard.
    pub(crate) guard: Option<PatType>,
    /// The names that the other parameters bind, `self` among them.
    names: Vec<Ident>,
    /// Those of them that are there for certain: an attribute may take a parameter away.
    pub(crate) certain: Vec<Ident>,
    /// What it returns, with `_` for every `impl Trait`, which cannot be written inside a body.
    pub(crate) answer: Type,
}

/// Why a function cannot be locked, with what is left of it so that its callers still compile.
pub(crate) struct Refusal {
    pub(crate) fault: Error,
    pub(crate) remains: TokenStream,
}

impl Function {
    /// Takes an item apart.
    pub(crate) fn read(tokens: TokenStream) -> std::result::Result<Self, Refusal> {
        let mut item: ItemFn = match syn::parse2(tokens.clone()) {
            Ok(item) => item,
            Err(fault) => return Err(Refusal { fault: explain(&tokens, fault), remains: tokens }),
        };
        let parts = take_guard(&mut item.sig)
            .and_then(|guard| answer_of(&item.sig).map(|answer| (guard, answer)));
        let (guard, answer) = match parts {
            Ok(parts) => parts,
            Err(fault) => return Err(Refusal { fault, remains: quietly(&tokens) }),
        };
        let names = names_in(&item.sig.inputs);
        let certain = names_in(item.sig.inputs.iter().filter(|argument| !has_attributes(argument)));
        Ok(Self { item, guard, names, certain, answer })
    }

    /// Refuses a key that speaks of what is no argument.
    pub(crate) fn check_key(&self, key: &Template) -> Result<()> {
        for name in key.placeholders().iter().filter_map(root) {
            if self.names.contains(name) {
                continue;
            }
            if self.guard.as_ref().is_some_and(|guard| names_of(guard).contains(name)) {
                return Err(key.fault(
                    "the key cannot use the guard: there is none before the lock is taken",
                ));
            }
            // A constant or a static is fixed, but may well be part of a key.
            if name.to_string().chars().any(char::is_lowercase) {
                return Err(key.fault(format!(
                    "the key uses `{name}`, which is no argument; {}",
                    self.arguments()
                )));
            }
        }
        Ok(())
    }

    /// The untouched function with the guard bound to nothing, to stand in beside an error.
    pub(crate) fn stand_in(&self) -> TokenStream {
        let mut item = self.item.clone();
        if let Some(PatType { pat, ty, .. }) = &self.guard {
            let binding = quote!(let #pat: #ty = ::core::unreachable!(););
            item.block.stmts.insert(0, Stmt::Expr(Expr::Verbatim(binding), None));
        }
        quietly(&item)
    }

    fn arguments(&self) -> String {
        if self.names.is_empty() {
            return "the function has none".to_owned();
        }
        let names: Vec<_> = self.names.iter().map(|name| format!("`{name}`")).collect();
        format!("the arguments are {}", names.join(", "))
    }
}

/// Without the warnings that only follow from the error.
fn quietly(item: &impl ToTokens) -> TokenStream {
    quote!(#[allow(unused_variables, unreachable_code, clippy::diverging_sub_expression)] #item)
}

/// Says what the attribute stands on, where that is the trouble.
fn explain(tokens: &TokenStream, fault: Error) -> Error {
    match syn::parse2::<Item>(tokens.clone()) {
        Ok(Item::Verbatim(_)) | Err(_)
            if syn::parse2::<syn::TraitItemFn>(tokens.clone()).is_ok() =>
        {
            Error::new_spanned(
                tokens,
                "`#[locked]` needs a body to run under the lock; this function has none",
            )
        }
        Ok(Item::Fn(_)) | Err(_) => fault,
        Ok(_) => Error::new_spanned(tokens, "`#[locked]` stands on a function; this is none"),
    }
}

/// Takes the guard's parameter out of the signature.
fn take_guard(signature: &mut Signature) -> Result<Option<PatType>> {
    let (guards, others): (Vec<_>, Vec<_>) =
        std::mem::take(&mut signature.inputs).into_iter().partition(is_guard);
    signature.inputs = others.into_iter().collect();
    let mut guards = guards.into_iter().filter_map(|argument| match argument {
        FnArg::Typed(guard) => Some(guard),
        FnArg::Receiver(_) => None,
    });
    let guard = guards.next();
    match guards.next() {
        Some(second) => Err(Error::new_spanned(
            second,
            "there is one guard; take one parameter of type `&Guard`",
        )),
        None => Ok(guard),
    }
}

fn is_guard(argument: &FnArg) -> bool {
    let FnArg::Typed(PatType { ty, .. }) = argument else { return false };
    let Type::Reference(reference) = &**ty else { return false };
    reference.mutability.is_none()
        && matches!(&*reference.elem, Type::Path(path) if ends_in(&path.path, "Guard"))
}

fn ends_in(path: &Path, name: &str) -> bool {
    path.segments.last().is_some_and(|segment| segment.ident == name)
}

/// The type that is returned, if the function is of a kind that can wait for a lock and say so.
fn answer_of(signature: &Signature) -> Result<Type> {
    if let Some(constant) = &signature.constness {
        return Err(Error::new_spanned(constant, "a `const fn` cannot wait for a lock"));
    }
    if let Some(abi) = &signature.abi {
        return Err(Error::new_spanned(
            abi,
            "an `extern` function cannot report that the lock was not had",
        ));
    }
    let ReturnType::Type(_, answer) = &signature.output else {
        return Err(needs_result(signature.ident.span()));
    };
    match &**answer {
        Type::Never(_) => return Err(needs_result(answer.span())),
        Type::Tuple(unit) if unit.elems.is_empty() => return Err(needs_result(answer.span())),
        future if signature.asyncness.is_none() && is_future(future) => {
            let message =
                "the lock would be given back before this future runs; write an `async fn`";
            return Err(Error::new_spanned(future, message));
        }
        _ => {}
    }
    let mut answer = Type::clone(answer);
    EraseImpl.visit_type_mut(&mut answer);
    Ok(answer)
}

fn needs_result(span: Span) -> Error {
    let message = "a locked function must return a `Result` whose error is `From<lockkeeper::Error>`: \
         the lock may not be had, or may be lost";
    Error::new(span, message)
}

fn is_future(answer: &Type) -> bool {
    match answer {
        Type::ImplTrait(opaque) => opaque.bounds.iter().any(
            |bound| matches!(bound, TypeParamBound::Trait(bound) if ends_in(&bound.path, "Future")),
        ),
        Type::Path(path) => {
            ["Pin", "BoxFuture", "LocalBoxFuture"].iter().any(|name| ends_in(&path.path, name))
        }
        _ => false,
    }
}

struct EraseImpl;

impl VisitMut for EraseImpl {
    fn visit_type_mut(&mut self, ty: &mut Type) {
        if let Type::ImplTrait(_) = ty {
            *ty = Type::Verbatim(quote!(_));
        } else {
            syn::visit_mut::visit_type_mut(self, ty);
        }
    }
}

fn has_attributes(argument: &FnArg) -> bool {
    match argument {
        FnArg::Receiver(receiver) => !receiver.attrs.is_empty(),
        FnArg::Typed(argument) => !argument.attrs.is_empty(),
    }
}

/// Every name that the parameters bind.
fn names_in<'a>(arguments: impl IntoIterator<Item = &'a FnArg>) -> Vec<Ident> {
    let names = arguments.into_iter().map(|argument| match argument {
        FnArg::Receiver(receiver) => vec![Ident::from(receiver.self_token)],
        FnArg::Typed(argument) => names_of(argument),
    });
    names.flatten().collect()
}

fn names_of(argument: &PatType) -> Vec<Ident> {
    struct Bound(Vec<Ident>);

    impl VisitMut for Bound {
        fn visit_pat_ident_mut(&mut self, pattern: &mut PatIdent) {
            self.0.push(pattern.ident.clone());
            syn::visit_mut::visit_pat_ident_mut(self, pattern);
        }
    }

    let mut bound = Bound(Vec::new());
    bound.visit_pat_mut(&mut argument.pat.clone());
    bound.0
}

/// The name that a value starts from: `order` in `&order.lines[0].id()`.
fn root(value: &Expr) -> Option<&Ident> {
    match value {
        Expr::Path(path) => path.path.get_ident(),
        Expr::Field(field) => root(&field.base),
        Expr::MethodCall(call) => root(&call.receiver),
        Expr::Index(index) => root(&index.expr),
        Expr::Reference(reference) => root(&reference.expr),
        Expr::Unary(unary) => root(&unary.expr),
        Expr::Paren(paren) => root(&paren.expr),
        Expr::Await(wait) => root(&wait.base),
        Expr::Try(attempt) => root(&attempt.expr),
        Expr::Cast(cast) => root(&cast.expr),
        _ => None,
    }
}
