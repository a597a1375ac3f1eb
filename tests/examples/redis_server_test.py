"""Drives example_redis_server: with redis-cli and redis-benchmark, and with bytes that no client would send."""

import threading
import unittest

import server


def command(*arguments):
    """As a client sends it."""
    parts = [b"*%d\r\n" % len(arguments)]
    parts += [b"$%d\r\n%s\r\n" % (len(a), a) for a in arguments]
    return b"".join(parts)


def receive(client, size):
    data = b""
    while len(data) < size and (part := client.recv(size - len(data))):
        data += part
    return data


def has_ended(client):
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True  # it was closed before it had read everything


class WithRedisCli(unittest.TestCase):
    def setUp(self):
        self.cli = server.need("redis-cli")

    def ask(self, s, *arguments, input=b""):
        code, out, err = server.run([self.cli, "-p", str(s.port), *arguments], input)
        self.assertEqual((code, err), (0, b""))
        return out.decode()

    def check(self, s, line, answer):
        self.assertEqual(self.ask(s, "--no-raw", *line.split()), answer + "\n", line)

    def test_commands(self):
        with server.Server() as s:
            # Through one redis-cli, which reads commands from its standard input.
            wanted = [
                ("PING", "PONG"), ("ping hello", '"hello"'), ("ECHO hello", '"hello"'),
                ("GET a", "(nil)"), ("SET a 1", "OK"), ("GET a", '"1"'), ("get A", "(nil)"),
                ("INCR a", "(integer) 2"), ("INCR new", "(integer) 1"),
                ("SET text abc", "OK"), ("INCR text", "(error) ERR value is not an integer or out of range"),
                ("SET big 9223372036854775807", "OK"),
                ("INCR big", "(error) ERR value is not an integer or out of range"),
                ("SET a 5 NX", "(nil)"), ("SET a 5 XX", "OK"), ("SET b 5 XX", "(nil)"), ("SET b 5 NX", "OK"),
                ("SET a 1 NX XX", "(error) ERR syntax error"), ("SET a 1 EX", "(error) ERR syntax error"),
                ("SET a 1 EX x", "(error) ERR value is not an integer or out of range"),
                ("SET a 1 EX 0", "(error) ERR invalid expire time in 'set' command"),
                ("SET a 1 EX 9223372036854775807", "(error) ERR invalid expire time in 'set' command"),
                ("SET c 1 EX 1000", "OK"), ("TTL c", "(integer) 1000"), ("SET c 1 px 1000000", "OK"),
                ("TTL c", "(integer) 1000"), ("TTL a", "(integer) -1"), ("TTL none", "(integer) -2"),
                ("EXPIRE a 500", "(integer) 1"), ("TTL a", "(integer) 500"), ("EXPIRE none 500", "(integer) 0"),
                ("EXPIRE a -1", "(integer) 1"), ("EXISTS a", "(integer) 0"), ("EXISTS b c c a", "(integer) 3"),
                ("KEYS [bc]", '1) "b"\n2) "c"'), ("KEYS ??w", '1) "new"'), ("KEYS x*", "(empty array)"),
                ("DEL b c none", "(integer) 2"), ("EXISTS b c", "(integer) 0"),
                ("GET", "(error) ERR wrong number of arguments for 'GET'"),
                ("FLUSH b", "(error) ERR unknown command"), ("CONFIG GET save", '1) "save"\n2) ""'),
            ]
            got = self.ask(s, "--no-raw", input="".join(line + "\n" for line, _ in wanted).encode())
            # The keys come in no order.
            got = got.replace('1) "c"\n2) "b"', '1) "b"\n2) "c"')
            self.assertEqual(got, "".join(answer + "\n" for _, answer in wanted))

    def test_an_expired_key_is_gone(self):
        with server.Server() as s:
            self.check(s, "SET a 1 PX 1", "OK")
            while self.ask(s, "EXISTS", "a") != "0\n":
                pass
            self.check(s, "GET a", "(nil)")
            self.check(s, "TTL a", "(integer) -2")
            self.check(s, "SET a 2 NX", "OK")

    def test_values_are_any_bytes(self):
        value = bytes(range(256)) * 1000
        with server.Server() as s:
            self.assertEqual(self.ask(s, "-x", "SET", "k", input=value), "OK\n")
            code, out, _ = server.run([self.cli, "-p", str(s.port), "GET", "k"])
            self.assertEqual((code, out), (0, value + b"\n"))


class WithRedisBenchmark(unittest.TestCase):
    def check(self, *arguments):
        benchmark = server.need("redis-benchmark")
        with server.Server() as s:
            code, out, err = server.run([benchmark, "-p", str(s.port), "-q", *arguments], seconds=100)
            self.assertEqual((code, err), (0, b""))
            self.assertNotIn(b"WARNING", out)
            self.assertNotIn(b"ERR", out)
            self.assertIn(b"requests per second", out)

    def test_runs(self):
        self.check("-c", "50", "-n", "2000", "-r", "100", "-t", "ping,set,get,incr")

    def test_runs_with_pipelines(self):
        self.check("-c", "50", "-n", "10000", "-P", "16", "-r", "1000", "-t", "set,get")


class WithoutAClient(unittest.TestCase):
    def test_a_pipeline_in_any_pieces(self):
        commands = command(b"SET", b"k", b"\r\n$1\r\n\0") + command(b"GET", b"k") + b"PING\r\n\r\n*0\r\n" + command(b"PING")
        answers = b"+OK\r\n$7\r\n\r\n$1\r\n\0\r\n+PONG\r\n+PONG\r\n"
        with server.Server() as s:
            for size in (1, 2, 7, len(commands)):
                with s.connect() as client:
                    client.setsockopt(server.socket.IPPROTO_TCP, server.socket.TCP_NODELAY, 1)
                    for i in range(0, len(commands), size):
                        client.sendall(commands[i:i + size])
                    self.assertEqual(receive(client, len(answers)), answers)

    def test_a_pipeline_larger_than_all_buffers(self):
        n = 20_000
        with server.Server() as s, s.connect() as client:
            client.sendall(command(b"SET", b"k", bytes(100)))
            self.assertEqual(receive(client, 5), b"+OK\r\n")
            # The replies are not read before all has been sent.
            sender = threading.Thread(target=client.sendall, args=(command(b"GET", b"k") * n,))
            sender.start()
            reply = b"$100\r\n" + bytes(100) + b"\r\n"
            self.assertTrue(receive(client, len(reply) * n) == reply * n)
            sender.join()

    def test_a_protocol_error_ends_that_client_alone(self):
        bad = {
            b"*x\r\n": b"invalid multibulk length",
            b"*1\r\nx\r\n": b"invalid bulk length",
            b"*1\r\n$-1\r\n": b"invalid bulk length",
            b"*1\r\n$1\r\nxyz": b"a bulk string is longer than it says",
            b"*1025\r\n": b"too many arguments",
            b"*1\r\n$999999999\r\n": b"too big a bulk string",
            b"x" * 20_000: b"too big a line",
        }
        with server.Server() as s, s.connect() as good:
            for text, why in bad.items():
                with s.connect() as client:
                    client.sendall(command(b"PING") + text)
                    answer = b"+PONG\r\n-ERR Protocol error: " + why + b"\r\n"
                    self.assertEqual(receive(client, len(answer)), answer)
                    self.assertTrue(has_ended(client), text)
                good.sendall(command(b"PING"))
                self.assertEqual(receive(good, 7), b"+PONG\r\n")

    def test_many_clients_count_together(self):
        def count(s):
            with s.connect() as client:
                client.sendall(command(b"INCR", b"n") * 500)
                answers = 0
                while answers < 500:
                    answers += client.recv(65536).count(b"\n")

        with server.Server() as s:
            threads = [threading.Thread(target=count, args=(s,)) for _ in range(8)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            with s.connect() as client:
                client.sendall(command(b"GET", b"n"))
                self.assertEqual(receive(client, 10), b"$4\r\n4000\r\n")

    def test_stops_with_idle_clients(self):
        with server.Server() as s, s.connect() as client:
            client.sendall(b"*2\r\n$4\r\nECHO\r\n$5\r\nhal")
            s.stop()
            self.assertTrue(has_ended(client))


server.main()
