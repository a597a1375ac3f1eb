"""Drives example_glob_http against Python's HTTP server."""

import http.server
import threading
import unittest

import server

FILES = {"apple.txt": b"a" * 10, "avocado.md": b"b" * 20, "banana.txt": b"c" * 30, ".hidden.txt": b"d"}


class Directory(http.server.BaseHTTPRequestHandler):
    together = threading.Barrier(2)  # of the files that are asked for: one alone would wait for ever

    def do_GET(self):
        name = self.path.rsplit("/", 1)[-1]
        if name == "index":
            body = "\n".join([*FILES, "gone.c"]).encode()
        elif name in FILES:
            self.together.wait(30)
            body = FILES[name]
        else:
            return self.send_error(404)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class GlobHttp(unittest.TestCase):
    def setUp(self):
        self.url = server.serve_http(self, Directory) + "/fruit"

    def test_what_matches_is_fetched_concurrently(self):
        out, _ = server.run_example(self.url, "*.txt")
        self.assertEqual(out, b"10 apple.txt\n30 banana.txt\n")

    def test_nothing_matches(self):
        self.assertEqual(server.run_example(self.url, "*.pdf")[0], b"")

    def test_a_file_that_fails_is_named(self):
        out, err = server.run_example(self.url, "*.c", code=1)
        self.assertEqual((out, err.decode()), (b"", f"status 404 from {self.url}/gone.c\n"))


server.main()
