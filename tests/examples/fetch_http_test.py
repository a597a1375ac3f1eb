"""Drives example_fetch_http against Python's HTTP server, and against one that never answers."""

import http.server
import socket
import unittest

import server


class Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        name = self.path[1:]
        if not name.isdigit():
            return self.send_error(404)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"x" * int(name))

    def log_message(self, *_):
        pass


class FetchHttp(unittest.TestCase):
    def setUp(self):
        self.url = server.serve_http(self, Pages)

    def test_all_in_order(self):
        urls = [f"{self.url}/{i * 10_000}" for i in reversed(range(30))]
        out, _ = server.run_example(*urls)
        self.assertEqual(out.decode(), "".join(f"200 {url.rsplit('/')[-1]} {url}\n" for url in urls))

    def test_the_first_failure_ends_all(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            never = f"http://127.0.0.1:{silent.getsockname()[1]}/"
            out, err = server.run_example(never, f"{self.url}/1", f"{self.url}/missing", code=1)
            self.assertEqual((out, err.decode()), (b"", f"status 404 from {self.url}/missing\n"))

    def test_errors_are_named(self):
        _, err = server.run_example("ftp://127.0.0.1/", code=1)
        self.assertIn(b"no URL of HTTP", err)


server.main()
