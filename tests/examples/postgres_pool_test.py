"""Drives example_postgres_pool against a PostgreSQL of its own."""

import os
import sys
import unittest

import server

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import databases  # noqa: E402


class PostgresPool(unittest.TestCase):
    def test_many_clients_share_few_connections(self):
        try:
            with databases.Postgres() as database:
                out, _ = server.run_example("300", "8", env={**os.environ, **database.environment})
        except databases.NotInstalled as reason:
            raise unittest.SkipTest(str(reason)) from None
        lines = out.decode().splitlines()
        self.assertEqual(lines[:2], ["the slow query was given up", f"sum {300 * 301 // 2}"])
        made = int(lines[2].split()[2].rstrip(","))
        self.assertTrue(1 <= made <= 9, lines[2])
        self.assertTrue(lines[2].endswith("lost 1"), lines[2])

    def test_a_server_that_is_not_there_is_an_error(self):
        _, err = server.run_example(code=1, env={**os.environ, "PGHOST": "/nonexistent"})
        self.assertIn(b"postgres_pool: ", err)


server.main()
