//! The attribute macro of the `lockkeeper` crate. Use it from there: `lockkeeper::locked`.

mod duration;
mod expand;
mod function;
mod options;
mod template;

use proc_macro::TokenStream;

/// Runs a function only while it holds a lock.
///
/// ```ignore
/// use lockkeeper::{Guard, Locks, locked};
///
/// struct Shop {
///     locks: Locks,
/// }
///
/// impl Shop {
///     #[locked(key = "order:{order.id}", locks = self.locks, busy = wait("5s"), ttl = "30s")]
///     async fn settle(&self, order: &Order, guard: &Guard) -> Result<Receipt, ShopError> {
///         self.bank.charge(order, guard.fence()).await?;
///         Ok(Receipt::of(order))
///     }
/// }
///
/// // The guard is no argument of the caller's.
/// let receipt = shop.settle(&order).await?;
/// ```
///
/// The function, async or plain, free or a method, returns a `Result` whose error is
/// `From<lockkeeper::Error>`. Its body cannot run without the lock:
///
/// 1. The key is made from the arguments, by reference.
/// 2. The lock is taken. If it is not had, the body does not run.
/// 3. The body runs. When the lock is lost, an async body is stopped at its next `await` and the
///    function answers an error of kind `Lost`. A plain body cannot be stopped: it runs to its end,
///    and what it answered as `Ok` becomes that error. An error of the body's own stays as it is.
/// 4. The arguments are dropped, the lock is released, and the release is waited for. Work that was
///    done under the lock stays `Ok` when only the release got no answer: the lock then frees
///    itself with its lease.
///
/// # Options
///
/// | option | meaning |
/// |---|---|
/// | `key = "order:{order.id}"` | The name of the lock. Needed. |
/// | `locks = self.locks` | Where the lock is: an expression for `Locks`, or for an `Owner` when the function may be entered again under its own lock. Plain functions also take the ones of `lockkeeper::blocking`. Needed. |
/// | `busy = wait("5s")` | Waits its turn that long, then answers an error of kind `TimedOut`. |
/// | `busy = forever` | Waits its turn. |
/// | `busy = fail` | Answers an error of kind `TimedOut` at once. |
/// | `busy = skip` | Answers `Ok(None)` at once; the function returns `Result<Option<_>, _>`. One of the four is needed. |
/// | `ttl = "30s"` | How long the lock outlives a holder that dies: 100 ms to 24 h. |
/// | `maximum_hold = "1m"` | After this long the lock is lost, however busy the work is. |
/// | `label = "settling"` | What is shown for this holder. |
/// | `barging` | Takes a free lock ahead of those who wait. |
///
/// Durations are read at compile time: `"250ms"`, `"5s"`, `"1m 30s"`.
///
/// # The key
///
/// Text with placeholders. `{…}` holds a value made from the arguments, such as `{order.id}`,
/// `{self.tenant()}` or `{ids[0]}`, that implements `Display`; a format with fixed width and
/// precision may follow, as in `{n:04}`. `{{` and `}}` are braces. A key that is empty, whose text is
/// longer than 512 bytes, or that names something which is no argument does not compile; one that
/// turns out empty or too long at run time is an error of kind `BadKey`.
///
/// Two functions with the same key exclude each other: begin it with a word of its own.
///
/// # The guard
///
/// A parameter whose type is `&Guard` (in plain functions also `&blocking::Guard`) is bound to the
/// guard, and is taken out of the signature that callers see.
///
/// # With other attributes
///
/// An attribute that turns an `async fn` into a plain one that returns a boxed future, such as
/// `#[async_trait]`, would leave nothing to wait for; `#[locked]` refuses such a function. Lock an
/// inherent `async fn` and call that.
#[proc_macro_attribute]
pub fn locked(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(attribute.into(), item.into()).into()
}
