"""Drives example_http_server: with sockets, curl, openssl s_client and wrk."""

import os
import re
import ssl
import tempfile
import threading
import time
import unittest

import server

HEAD_END = b"\r\n\r\n"


def receive_all(client):
    parts = []
    try:
        while part := client.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def receive_answer(client):
    """The head and the body of one answer, which tells its length."""
    data = b""
    while HEAD_END not in data:
        part = client.recv(65536)
        if not part:
            raise AssertionError(f"the connection ended after {data!r}")
        data += part
    head, body = data.split(HEAD_END, 1)
    length = int(re.search(rb"Content-Length: (\d+)", head).group(1))
    while len(body) < length:
        body += client.recv(length - len(body))
    return head, body


def get(path, *fields):
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: test", *fields, "", ""]).encode()


class Site:
    """A folder to serve, and beside it one that is not to be served."""

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory()
        self.root = os.path.join(self._folder.name, "root")
        os.makedirs(os.path.join(self.root, "docs", ".hidden"))
        self.big = os.urandom(3_000_000)
        for name, text in {"root/index.html": b"<p>index", "root/docs/index.html": b"<p>docs", "root/a b.txt": b"spaces",
                           "root/big.bin": self.big, "root/docs/.hidden/x": b"hidden", "secret": b"secret"}.items():
            with open(os.path.join(self._folder.name, name), "wb") as file:
                file.write(text)
        os.symlink("index.html", os.path.join(self.root, "inside.html"))
        os.symlink("../secret", os.path.join(self.root, "outside"))
        os.symlink("..", os.path.join(self.root, "up"))
        os.symlink(os.path.join(self._folder.name, "secret"), os.path.join(self.root, "absolute"))
        return self

    def __exit__(self, *_):
        self._folder.cleanup()


class Certificate:
    """A key and a certificate that is signed with it."""

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory()
        self.certificate = os.path.join(self._folder.name, "certificate.pem")
        self.key = os.path.join(self._folder.name, "key.pem")
        code, _, errors = server.run([server.need("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt",
                                      "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost", "-days", "2",
                                      "-keyout", self.key, "-out", self.certificate])
        if code != 0:
            raise AssertionError(errors.decode(errors="replace"))
        return self

    def __exit__(self, *_):
        self._folder.cleanup()


def curl(*arguments, input=b""):
    """What curl prints: the body, and then the status."""
    code, out, errors = server.run([server.need("curl"), "-sS", "--max-time", str(server.SECONDS), "-w", "|%{http_code}",
                                    *arguments], input)
    if code != 0:
        raise AssertionError(f"curl ended with {code}: {errors.decode(errors='replace')}")
    return out


class Requests(unittest.TestCase):
    def test_many_requests_on_one_connection(self):
        with server.Server() as s, s.connect() as client:
            for _ in range(3):
                client.sendall(get("/plaintext"))
                head, body = receive_answer(client)
                self.assertTrue(head.startswith(b"HTTP/1.1 200 OK"))
                self.assertEqual(body, b"Hello, World!")
            client.sendall(get("/plaintext", "Connection: close"))
            self.assertIn(b"Connection: close", receive_answer(client)[0])
            self.assertEqual(client.recv(1), b"")

    def test_pipelined_requests_are_answered_in_order(self):
        with server.Server() as s, s.connect() as client:
            client.sendall(get("/plaintext") + get("/nothing") + get("/plaintext", "Connection: close"))
            self.assertEqual(re.findall(rb"HTTP/1.1 (\d+)", receive_all(client)), [b"200", b"404", b"200"])

    def test_a_request_in_single_bytes(self):
        with server.Server() as s, s.connect() as client:
            for byte in get("/plaintext"):
                client.sendall(bytes([byte]))
            self.assertEqual(receive_answer(client)[1], b"Hello, World!")

    def test_http_1_0_closes(self):
        with server.Server() as s, s.connect() as client:
            client.sendall(b"GET /plaintext HTTP/1.0\r\n\r\n")
            self.assertTrue(receive_all(client).endswith(b"Hello, World!"))

    def test_nonsense_gets_its_error_and_ends_the_connection(self):
        for data, status in ((b"nonsense\r\n\r\n", b"400"), (b"GET / HTTP/9.9\r\n\r\n", b"400"),
                             (get("/", "X: " + "a" * 20_000), b"431"), (get("/", "Content-Length: 2000000"), b"413"),
                             (get("/", "Content-Length: -1"), b"400")):
            with self.subTest(data=data[:40]), server.Server() as s, s.connect() as client:
                client.sendall(data)
                answer = receive_all(client)
                self.assertTrue(answer.startswith(b"HTTP/1.1 " + status), answer[:100])

    def test_metrics_and_fibers(self):
        with server.Server() as s, s.connect() as client:
            client.sendall(get("/metrics"))
            self.assertIn(b"coir_processors", receive_answer(client)[1])
            client.sendall(get("/debug/fibers"))
            self.assertRegex(receive_answer(client)[1], rb"coir: \d+ fibers")


class Files(unittest.TestCase):
    def test_files_with_their_types(self):
        with Site() as site, server.Server("--root", site.root) as s, s.connect() as client:
            for path, kind, text in (("/", b"text/html", b"<p>index"), ("/docs/", b"text/html", b"<p>docs"),
                                     ("/a%20b.txt?x=1", b"text/plain", b"spaces"), ("/inside.html", b"text/html", b"<p>index"),
                                     ("//docs//index.html", b"text/html", b"<p>docs"),
                                     ("/big.bin", b"application/octet-stream", site.big)):
                client.sendall(get(path))
                head, body = receive_answer(client)
                self.assertIn(b"Content-Type: " + kind, head)
                self.assertTrue(body == text, path)

    def test_nothing_outside_of_the_root(self):
        with Site() as site, server.Server("--root", site.root) as s, s.connect() as client:
            for path in ("/../secret", "/%2e%2e/secret", "/..%2fsecret", "/docs/../../secret", "/docs/%2E%2E/%2e./secret",
                         "/outside", "/up/secret", "/absolute", "/docs/.hidden/x", "/docs", "/missing", "/%00", "/%zz", "/%2",
                         "/proc/self/environ"):
                client.sendall(get(path))
                head, body = receive_answer(client)
                self.assertRegex(head, rb"^HTTP/1.1 40[04]", path)
                self.assertNotIn(b"secret", body)

    def test_head_and_other_methods(self):
        with Site() as site, server.Server("--root", site.root) as s, s.connect() as client:
            client.sendall(b"HEAD /big.bin HTTP/1.1\r\nHost: test\r\n\r\n" + b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"
                           + get("/", "Connection: close"))
            heads = receive_all(client).split(HEAD_END)
            self.assertIn(b"Content-Length: 3000000", heads[0])
            self.assertTrue(heads[1].startswith(b"HTTP/1.1 405"))
            self.assertIn(b"Allow: GET, HEAD", heads[1])
            self.assertTrue(heads[2].endswith(b"HTTP/1.1 200 OK") or b"200 OK" in heads[2])
            self.assertEqual(heads[-1], b"<p>index")


class Clients(unittest.TestCase):
    def test_curl(self):
        with Site() as site, server.Server("--root", site.root) as s:
            url = f"http://127.0.0.1:{s.port}"
            self.assertEqual(curl(url + "/plaintext"), b"Hello, World!|200")
            self.assertTrue(curl(url + "/big.bin") == site.big + b"|200")
            self.assertEqual(curl("--path-as-is", url + "/../secret"), b"Bad Request|400")
            self.assertEqual(curl("--data-binary", "@-", url, input=bytes(100_000)), b"Method Not Allowed|405")
            self.assertEqual(curl("--data-binary", "@-", url, input=bytes(1_500_000)), b"Payload Too Large|413")

    def test_curl_over_tls(self):
        with Site() as site, Certificate() as c, server.Server("--root", site.root, "--tls", c.certificate, c.key) as s:
            arguments = ("--cacert", c.certificate, "--resolve", f"localhost:{s.port}:127.0.0.1")
            url = f"https://localhost:{s.port}"
            self.assertTrue(curl(*arguments, url + "/big.bin") == site.big + b"|200")
            self.assertEqual(curl(*arguments, url + "/plaintext", url + "/plaintext"), b"Hello, World!|200" * 2)

    def test_openssl_s_client(self):
        with Certificate() as c, server.Server("--tls", c.certificate, c.key) as s:
            code, out, _ = server.run([server.need("openssl"), "s_client", "-quiet", "-verify_quiet", "-CAfile", c.certificate,
                                       "-verify_return_error", "-connect", f"127.0.0.1:{s.port}"],
                                      get("/plaintext", "Connection: close"))
            self.assertEqual(code, 0)
            self.assertTrue(out.endswith(b"Hello, World!"), out)

    def test_a_client_without_tls_is_dropped(self):
        with Certificate() as c, server.Server("--tls", c.certificate, c.key) as s, s.connect() as client:
            client.sendall(get("/plaintext"))
            self.assertNotIn(b"Hello", receive_all(client))

    def test_wrk(self):
        with server.Server() as s:
            code, out, errors = server.run([server.need("wrk"), "-t", "1", "-c", "64", "-d", "1s",
                                            f"http://127.0.0.1:{s.port}/plaintext"])
            self.assertEqual(code, 0, errors)
            self.assertRegex(out, rb"[1-9]\d* requests in")
            self.assertNotIn(b"Socket errors", out)
            self.assertNotIn(b"Non-2xx", out)


class Deadlines(unittest.TestCase):
    def test_a_client_that_sends_too_slowly_is_dropped(self):
        with server.Server("--timeout", "0.3") as s, s.connect() as slow, s.connect() as silent:
            slow.settimeout(0.05)
            begin = time.monotonic()
            slow.sendall(b"GET /plaintext HTTP/1.1\r\n")
            dropped = False
            while not dropped and time.monotonic() < begin + server.SECONDS:
                try:
                    slow.sendall(b"X: y\r\n")  # always within the deadline of one read, never of the request
                    dropped = slow.recv(1) == b""
                except TimeoutError:
                    pass
                except (ConnectionResetError, BrokenPipeError):
                    dropped = True
            self.assertTrue(dropped)
            self.assertGreaterEqual(time.monotonic() - begin, 0.29)
            self.assertEqual(silent.recv(1), b"")

    def test_a_client_that_does_not_read_is_dropped(self):
        with Site() as site, server.Server("--root", site.root, "--timeout", "1") as s, s.connect() as deaf:
            for _ in range(100):
                deaf.sendall(get("/big.bin"))
            with s.connect() as other:
                other.sendall(get("/plaintext", "Connection: close"))
                self.assertTrue(receive_all(other).endswith(b"Hello, World!"))
            # Its fiber blocks, and then it is gone; what the client has not taken by then it will not get.
            for there in (True, False):
                limit = time.monotonic() + server.SECONDS
                while there != (b"send_file" in self.fibers(s)):
                    self.assertLess(time.monotonic(), limit)
            self.assertLess(len(receive_all(deaf)), 100 * len(site.big))

    def fibers(self, s):
        with s.connect() as client:
            client.sendall(get("/debug/fibers", "Connection: close"))
            return receive_all(client)


class Stop(unittest.TestCase):
    def test_idle_connections_are_closed_at_once(self):
        with server.Server() as s, s.connect() as new, s.connect() as used:
            used.sendall(get("/plaintext"))
            receive_answer(used)
            s.stop()
            self.assertEqual(new.recv(1), b"")
            self.assertEqual(used.recv(1), b"")

    def test_a_request_that_has_begun_is_answered(self):
        with server.Server() as s, s.connect() as client:
            begun = b"POST / HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"
            client.sendall(begun)
            self.assertEqual(client.recv(64), b"HTTP/1.1 100 Continue\r\n\r\n")  # so it has
            stopper = threading.Thread(target=s.stop)
            stopper.start()
            while True:  # until nobody listens any more
                try:
                    s.connect().close()
                except ConnectionRefusedError:
                    break
                except ConnectionResetError:  # it waited in the queue of the listener
                    pass
            client.sendall(b"body")
            head, _ = receive_answer(client)
            # Without "Connection: close" if the stop, which comes after the listener's end, has not reached this fiber yet.
            self.assertTrue(head.startswith(b"HTTP/1.1 405"))
            self.assertEqual(client.recv(1), b"")
            stopper.join()

    def test_idle_tls_connections_end_in_order(self):
        with Certificate() as c, server.Server("--tls", c.certificate, c.key) as s:
            context = ssl.create_default_context(cafile=c.certificate)
            with context.wrap_socket(s.connect(), server_hostname="localhost") as client:
                client.sendall(get("/plaintext"))
                receive_answer(client)
                stopper = threading.Thread(target=s.stop)
                stopper.start()
                self.assertEqual(client.recv(1), b"")  # a connection that is just cut is an error
                stopper.join()


class Arguments(unittest.TestCase):
    def test_bad_ones_are_told(self):
        server.run_example("--port", "x", code=2)
        server.run_example("--door", "1", code=2)
        server.run_example("--root", code=2)
        self.assertIn(b"/nowhere", server.run_example("--root", "/nowhere", code=1)[1])
        server.run_example("--tls", "/nowhere", "/nowhere", code=1)


server.main()
