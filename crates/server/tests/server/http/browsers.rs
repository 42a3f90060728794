//! Pages of other origins: only named ones, and only on the routes of devices.

use tidegate_server::http::auth::Role;

use super::{PATIENCE, Server, local_webhooks, visits};

const PAGE: &str = "https://shop.example";

/// Status and access-control headers of the answer to a page's request.
fn asked(server: &Server, method: &str, path: &str, origin: &str, more: &str) -> (u16, Vec<String>) {
    let request = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\norigin: {origin}\r\n{more}\r\n");
    let answer = server.raw(request.as_bytes(), PATIENCE);
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let head = answer.split("\r\n\r\n").next().unwrap();
    let is_about_pages = |line: &&str| line.starts_with("access-control-") || line.starts_with("vary:");
    let mut headers: Vec<String> = head.lines().filter(is_about_pages).map(str::to_owned).collect();
    headers.sort();
    (status, headers)
}

fn serving(origins: &[&str]) -> Server {
    let origins = origins.iter().map(|origin| origin.parse().unwrap()).collect();
    let server = Server::start_with(local_webhooks(), |settings| settings.browser_origins = origins);
    server.create(&visits());
    server
}

const PREFLIGHT: &str = "access-control-request-method: POST\r\naccess-control-request-headers: content-type\r\n";

fn paths() -> [String; 5] {
    ["policy", "values", "questions", "reports", "tokens"].map(|last| format!("/v1/streams/visits/{last}"))
}

#[test]
fn pages_are_shut_out_by_default() {
    let server = serving(&[]);
    for path in paths() {
        assert_eq!(asked(&server, "OPTIONS", &path, PAGE, PREFLIGHT), (405, Vec::new()), "{path}");
        assert!(asked(&server, "GET", &path, PAGE, "").1.is_empty(), "{path}");
    }
}

#[test]
fn named_pages_reach_the_routes_of_devices_only() {
    let server = serving(&[PAGE, "http://localhost:5173"]);
    let granted = [format!("access-control-allow-origin: {PAGE}")];
    let answer = |status, lines: &[&str]| {
        let mut headers: Vec<_> = granted.iter().cloned().chain(lines.iter().map(|&line| line.to_owned())).collect();
        headers.sort();
        (status, headers)
    };
    let read = ["access-control-expose-headers: retry-after", "vary: origin"];
    let permission = [
        "access-control-allow-headers: authorization, content-type",
        "access-control-allow-methods: GET, POST",
        "access-control-max-age: 600",
    ];
    for path in paths() {
        let lines: Vec<_> = permission.into_iter().chain(read).collect();
        assert_eq!(asked(&server, "OPTIONS", &path, PAGE, PREFLIGHT), answer(204, &lines), "{path}");
        // No question of a browser, and a page that nobody named.
        assert_eq!(asked(&server, "OPTIONS", &path, PAGE, "").0, 405);
        for stranger in ["https://shop.example.evil.example", "null", "http://shop.example", "https://shop.example:444"]
        {
            assert_eq!(asked(&server, "OPTIONS", &path, stranger, PREFLIGHT).0, 405, "{path} {stranger}");
            assert_eq!(asked(&server, "GET", &path, stranger, "").1, ["vary: origin"], "{path} {stranger}");
        }
    }
    assert_eq!(asked(&server, "GET", &paths()[0], PAGE, ""), answer(200, &read));
    // A page reads why it is refused, too.
    assert_eq!(asked(&server, "POST", &paths()[3], PAGE, "content-length: 0\r\n"), answer(401, &read));
    for closed in ["/v1/streams", "/v1/streams/visits", "/v1/streams/visits/releases", "/v1/streams/visits/events", "/"]
    {
        assert_eq!(asked(&server, "OPTIONS", closed, PAGE, PREFLIGHT).0, 405, "{closed}");
        assert_eq!(asked(&server, "GET", closed, PAGE, "").1, ["vary: origin"], "{closed}");
    }
    let operator = format!("authorization: Bearer {}\r\n", server.token(Role::Operator));
    assert_eq!(asked(&server, "GET", "/v1/streams", PAGE, &operator), (200, vec!["vary: origin".to_owned()]));
}

#[test]
fn all_pages_can_be_named_at_once() {
    let server = serving(&["*"]);
    let (status, headers) = asked(&server, "GET", &paths()[0], "https://any.example", "");
    assert_eq!(status, 200);
    assert!(headers.contains(&"access-control-allow-origin: *".to_owned()), "{headers:?}");
    assert!(!headers.iter().any(|line| line.contains("credentials")), "cookies are never allowed");
}
