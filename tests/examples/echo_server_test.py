"""Drives example_echo_server: many clients at once, large and slow ones, and its end."""

import threading
import unittest

import server


def receive_all(client):
    parts = []
    while part := client.recv(65536):
        parts.append(part)
    return b"".join(parts)


class EchoServer(unittest.TestCase):
    def test_sends_back_what_comes(self):
        with server.Server() as s, s.connect() as client:
            for text in (b"a", b"hello\n", bytes(range(256))):
                client.sendall(text)
                self.assertEqual(client.recv(len(text), server.socket.MSG_WAITALL), text)
            client.shutdown(server.socket.SHUT_WR)
            self.assertEqual(client.recv(1), b"")

    def test_half_closed_clients_get_everything(self):
        data = bytes(i * 7 % 251 for i in range(3_000_000))
        with server.Server() as s, s.connect() as client:
            def send():
                client.sendall(data)
                client.shutdown(server.socket.SHUT_WR)

            sender = threading.Thread(target=send)
            sender.start()
            got = receive_all(client)
            sender.join()
            self.assertTrue(got == data)

    def test_clients_do_not_wait_for_one_another(self):
        with server.Server() as s:
            clients = [s.connect() for _ in range(100)]
            for i in reversed(range(100)):
                clients[i].sendall(b"%03d" % i)
                self.assertEqual(clients[i].recv(3, server.socket.MSG_WAITALL), b"%03d" % i)
            for client in clients:
                client.close()

    def test_stops_in_spite_of_clients(self):
        with server.Server() as s, s.connect() as silent, s.connect() as deaf:
            silent.sendall(b"a")
            self.assertEqual(silent.recv(1), b"a")  # accepted: those that wait for that are reset at the end
            deaf.setblocking(False)
            try:
                while True:
                    deaf.send(bytes(65536))
            except BlockingIOError:
                pass  # the server is blocked in its write, or will be
            s.stop()
            self.assertEqual(silent.recv(1), b"")

    def test_bad_arguments_and_taken_ports_are_errors(self):
        server.run_example("--port", "x", code=2)
        server.run_example("--port", "65536", code=2)
        server.run_example("--door", "1", code=2)
        with server.Server() as s:
            _, err = server.run_example("--port", str(s.port), code=1)
            self.assertIn(b"Address already in use", err)


server.main()
