//! Requests and responses over real sockets, with a server that does as each test says.

use std::{sync::Arc, time::Duration};

use futures_lite::future::poll_once;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::Handle,
};

use super::*;
use crate::{engines::net::dial::dial, tools::url::Host};

/// Responses are lines. `!` begins an error, behind which nothing can be trusted; `?` is no response.
#[derive(Debug)]
struct Lines;

impl Protocol for Lines {
    type Response = String;

    fn read(bytes: &[u8]) -> Result<Option<(String, usize)>> {
        if bytes.first() == Some(&b'?') {
            return Err(Error::new(ErrorKind::Unreachable, "not a line"));
        }
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
        Ok(Some((String::from_utf8_lossy(&bytes[..end]).into_owned(), end + 1)))
    }

    fn is_last(response: &String) -> bool {
        response.starts_with('!')
    }
}

const NOW: Moment = Moment::from_nanos(1);

/// A connection, and the server's end of it.
async fn pair() -> (Arc<Pipeline<Lines>>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let host = Host { name: address.ip().to_string(), port: address.port() };
    let pipeline = Pipeline::open(&Handle::current(), async move { dial(&host, None).await });
    let (server, _) = listener.accept().await.unwrap();
    (pipeline, server)
}

async fn hear(server: &mut TcpStream, text: &str) {
    let mut heard = vec![0; text.len()];
    server.read_exact(&mut heard).await.unwrap();
    assert_eq!(String::from_utf8(heard).unwrap(), text);
}

async fn say(server: &mut TcpStream, text: &str) {
    server.write_all(text.as_bytes()).await.unwrap();
}

#[tokio::test]
async fn a_dropped_call_shifts_no_answer() {
    let (pipeline, mut server) = pair().await;
    let first = pipeline.call(b"1\n", NOW);
    let mut second = pipeline.call(b"2\n", NOW);
    let third = pipeline.call(b"3\n", NOW);
    assert!(poll_once(&mut second).await.is_none());
    drop(second);
    hear(&mut server, "1\n2\n3\n").await;
    // In pieces: a response that is not whole is waited for.
    say(&mut server, "one\ntw").await;
    assert_eq!(first.await.unwrap(), "one");
    say(&mut server, "o\nthree\n").await;
    assert_eq!(third.await.unwrap(), "three");
}

#[tokio::test]
async fn what_nobody_knew_of_is_taken_back() {
    let (pipeline, mut server) = pair().await;
    let undo = || -> Option<Abandoned<String>> {
        Some(Box::new(|response| (response == "done").then(|| b"undo\n".to_vec())))
    };
    // Given up before the response comes; one of them has nothing to take back.
    drop(pipeline.call_or_undo(b"1\n", NOW, undo()));
    drop(pipeline.call_or_undo(b"2\n", NOW, undo()));
    let third = pipeline.call(b"3\n", NOW);
    hear(&mut server, "1\n2\n3\n").await;
    say(&mut server, "done\nnot done\nthree\n").await;
    assert_eq!(third.await.unwrap(), "three");
    hear(&mut server, "undo\n").await;
    // Given up when the response is here and unread; the answer to what was taken back is nobody's.
    let unread = pipeline.call_or_undo(b"4\n", NOW, undo());
    let fifth = pipeline.call(b"5\n", NOW);
    hear(&mut server, "4\n5\n").await;
    say(&mut server, "undone\ndone\nfive\n").await;
    assert_eq!(fifth.await.unwrap(), "five");
    drop(unread);
    hear(&mut server, "undo\n").await;
    // Read in time: nothing is taken back.
    let read = pipeline.call_or_undo(b"6\n", NOW, undo());
    hear(&mut server, "6\n").await;
    say(&mut server, "undone\ndone\n").await;
    assert_eq!(read.await.unwrap(), "done");
    let last = pipeline.call(b"7\n", NOW);
    hear(&mut server, "7\n").await;
    say(&mut server, "seven\n").await;
    assert_eq!(last.await.unwrap(), "seven");
}

#[tokio::test]
async fn the_end_is_told_to_all_who_wait() {
    let (pipeline, mut server) = pair().await;
    let calls = [pipeline.call(b"1\n", NOW), pipeline.call(b"2\n", NOW)];
    hear(&mut server, "1\n2\n").await;
    drop(server);
    for call in calls {
        assert_eq!(call.await.unwrap_err().kind(), ErrorKind::Unreachable);
    }
    assert!(pipeline.has_ended() && !pipeline.is_fit(NOW));
    assert!(pipeline.call(b"3\n", NOW).await.is_err());
}

#[tokio::test]
async fn out_of_step_is_the_end() {
    for wrong in ["!error\nerror\n", "one\nunasked for\n", "one\n?"] {
        let (pipeline, mut server) = pair().await;
        let first = pipeline.call(b"1\n", NOW);
        hear(&mut server, "1\n").await;
        say(&mut server, wrong).await;
        assert_eq!(first.await.unwrap(), wrong.lines().next().unwrap());
        let mut rest = Vec::new();
        server.read_to_end(&mut rest).await.unwrap();
        assert!(rest.is_empty() && pipeline.has_ended(), "{wrong}");
    }
}

#[tokio::test]
async fn a_second_line_is_not_the_answer_to_the_next_call() {
    let (pipeline, mut server) = pair().await;
    let calls = [pipeline.call(b"1\n", NOW), pipeline.call(b"2\n", NOW)];
    hear(&mut server, "1\n2\n").await;
    say(&mut server, "!error\nsecond line of it\n").await;
    let [first, second] = calls;
    assert_eq!(first.await.unwrap(), "!error");
    assert_eq!(second.await.unwrap_err().kind(), ErrorKind::Unreachable);
}

#[tokio::test]
async fn a_silent_connection_gets_no_new_calls_and_a_retired_one_ends_when_all_is_answered() {
    let (pipeline, mut server) = pair().await;
    let call = pipeline.call(b"1\n", NOW);
    assert!(pipeline.is_fit(NOW) && !pipeline.is_fit(NOW + STALLED_AFTER));
    pipeline.retire();
    assert!(!pipeline.is_fit(NOW) && !pipeline.has_ended());
    hear(&mut server, "1\n").await;
    say(&mut server, "one\n").await;
    assert_eq!(call.await.unwrap(), "one");
    assert_eq!(server.read(&mut [0]).await.unwrap(), 0, "closed");
    assert!(pipeline.has_ended());
}

/// Callers on other threads write while the driver does: nothing is lost, mixed up or forgotten.
#[test]
fn many_threads_share_one_connection() {
    const N_THREADS: usize = 8;
    const N_CALLS: usize = 500;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let driving = std::thread::spawn(move || {
        runtime.block_on(async move {
            let (pipeline, mut server) = pair().await;
            tell.send(pipeline).unwrap();
            // An echo, until the client closes.
            let mut bytes = [0; 512];
            while let Ok(n_bytes @ 1..) = server.read(&mut bytes).await {
                server.write_all(&bytes[..n_bytes]).await.unwrap();
            }
        });
    });
    let pipeline = told.recv().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..N_THREADS {
            let pipeline = &pipeline;
            scope.spawn(move || {
                for call in 0..N_CALLS {
                    let request = format!("{thread} {call}");
                    let answer = pipeline.call(format!("{request}\n").as_bytes(), NOW);
                    if call % 3 > 0 {
                        assert_eq!(crate::tools::block_on::block_on(answer).unwrap(), request);
                    }
                }
            });
        }
    });
    pipeline.retire();
    driving.join().unwrap();
}

#[tokio::test]
async fn a_large_request_and_a_large_response_come_through() {
    let (pipeline, server) = pair().await;
    let large = "x".repeat(3_000_000);
    let call = pipeline.call(format!("{large}\n").as_bytes(), NOW);
    let echo = async {
        let (mut read, mut write) = server.into_split();
        tokio::io::copy(&mut read, &mut write).await
    };
    let echo = tokio::spawn(echo);
    let answer = tokio::time::timeout(Duration::from_secs(60), call).await.unwrap();
    assert_eq!(answer.unwrap().len(), large.len());
    echo.abort();
}

/// A call that comes while the driver has just written all, and has not gone to sleep yet, finds nobody to
/// wake: the driver must see it before it sleeps.
#[test]
fn a_call_is_seen_by_a_driver_that_is_about_to_sleep() {
    let pipeline = Arc::new(Pipeline::<Lines>::new());
    assert_eq!(pipeline.work(Waker::noop()), Work::Nothing);
    locked(&pipeline.0).driver = None;
    let call = pipeline.call(b"1\n", NOW);
    assert_eq!(pipeline.work(Waker::noop()), Work::Write);
    locked(&pipeline.0).out.clear();
    assert_eq!(pipeline.work(Waker::noop()), Work::Nothing, "the answer is waited for");
    pipeline.retire();
    assert_eq!(pipeline.work(Waker::noop()), Work::Nothing, "also when it is retired");
    pipeline.take("one".into(), &mut Vec::new()).unwrap();
    assert_eq!(pipeline.work(Waker::noop()), Work::Done);
    drop(call);
}
