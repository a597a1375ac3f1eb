"""Drives example_chat_server: what the members of a chat see of one another, and what becomes of those who do not fit in."""

import threading
import unittest

import server


class Client:
    """One who is in the chat, by name, unless it is None."""

    def __init__(self, s, name):
        self.socket = s.connect()
        self._lines = self.socket.makefile("rb")
        self.expect("* your name?")
        if name is not None:
            self.send(name)
            self.expect(f"* {name} has joined")
            self.here = self.line()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._lines.close()
        self.socket.close()

    def send(self, *lines):
        self.socket.sendall("".join(line + "\n" for line in lines).encode())

    def line(self):
        return self._lines.readline().decode().rstrip("\n")

    def expect(self, *lines):
        for line in lines:
            got = self.line()
            if got != line:
                raise AssertionError(f"{got!r} came instead of {line!r}")

    def expect_end(self):
        while self.line():
            pass


class ChatServer(unittest.TestCase):
    def test_all_see_the_same(self):
        with server.Server() as s, Client(s, "ann") as ann, Client(s, "bob") as bob:
            self.assertEqual(ann.here, "* here: ann")
            self.assertEqual(bob.here, "* here: ann bob")
            ann.expect("* bob has joined")
            ann.send("hello", "", "you there")
            for client in (ann, bob):
                client.expect("ann: hello", "ann: you there")
            bob.send("/nick rob", "/nick ann", "what\x1b[2J?", "/who")
            ann.expect("* bob is now rob", "rob: what?[2J?")
            bob.expect("* bob is now rob", "* that name is taken, or is not of 1 to 20 letters, digits, _ and -",
                       "rob: what?[2J?", "* here: ann rob")
            bob.send("/quit")
            bob.expect_end()
            ann.expect("* rob has left")

    def test_names_are_asked_for_until_they_are_good(self):
        with server.Server() as s, Client(s, "ann"), Client(s, None) as other:
            for name in ("ann", "two words", "x" * 21):
                other.send(name)
                other.expect("* that name is taken, or is not of 1 to 20 letters, digits, _ and -")
            other.send("bob\r")
            other.expect("* bob has joined", "* here: ann bob")
            with Client(s, None) as stubborn:
                stubborn.send(*[" "] * 5)
                stubborn.expect_end()

    def test_the_order_is_the_same_for_all(self):
        n = 60  # all lines fit into the queue of one who does not read for a while
        with server.Server() as s:
            clients = [Client(s, f"c{i}") for i in range(4)]
            for i, client in enumerate(clients):
                client.expect(*[f"* c{k} has joined" for k in range(i + 1, 4)])
            seen = [[] for _ in clients]

            def read(i):
                seen[i] = [clients[i].line() for _ in range(n * len(clients))]

            readers = [threading.Thread(target=read, args=(i,)) for i in range(len(clients))]
            for t in readers:
                t.start()
            for client in clients:
                client.send(*[f"line {i}" for i in range(n)])
            for t in readers:
                t.join()
            for i, client in enumerate(clients):
                self.assertEqual([line for line in seen[0] if line.startswith(f"c{i}:")],
                                 [f"c{i}: line {k}" for k in range(n)])
                self.assertEqual(seen[i], seen[0])
                client.__exit__()

    def test_who_does_not_read_is_dropped_and_holds_up_nobody(self):
        with server.Server() as s, Client(s, "talker") as talker:
            with server.socket.socket() as deaf:
                deaf.setsockopt(server.socket.SOL_SOCKET, server.socket.SO_RCVBUF, 4096)
                deaf.connect(("127.0.0.1", s.port))
                deaf.sendall(b"deaf\n")
                talker.expect("* deaf has joined")
                text = "x" * 900
                left = False
                while not left:
                    talker.send(*[text] * 50)
                    for _ in range(50):
                        if (line := talker.line()) == "* deaf has left":
                            left = True
                            line = talker.line()
                        self.assertEqual(line, "talker: " + text)

    def test_a_line_without_an_end_ends_its_client(self):
        with server.Server() as s, Client(s, "ann") as ann, Client(s, "bob") as bob:
            ann.expect("* bob has joined")
            bob.socket.sendall(b"x" * 1000)
            bob.expect_end()
            ann.expect("* bob has left")

    def test_a_client_that_breaks_off_has_left(self):
        with server.Server() as s, Client(s, "ann") as ann:
            with Client(s, "bob") as bob:
                ann.expect("* bob has joined")
                bob.socket.setsockopt(server.socket.SOL_SOCKET, server.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            ann.expect("* bob has left")

    def test_stops_with_clients(self):
        with server.Server() as s, Client(s, "ann") as ann, Client(s, None) as nobody:
            s.stop()
            ann.expect_end()
            nobody.expect_end()


server.main()
