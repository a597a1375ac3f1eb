"""What the tables of the comparison say about goals, and of growth about processors."""

import json
import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))

import growth  # noqa: E402
from comparison import net, programs, report, rounds  # noqa: E402


def entry(coir, go=None, processors=2, **goals):
    goal = {"title": "", "unit": "us", **{kind: {str(processors): value} for kind, value in goals.items()}}
    samples = {"coir": [coir], **({"Go": [go]} if go is not None else {})}
    return report.entry("row", goal, processors, samples, {}, {})


class Verdict(unittest.TestCase):
    def test_without_a_goal_there_is_none(self):
        self.assertEqual(report.verdict(entry(5, 10)), "")

    def test_a_figure_is_the_most_that_the_value_may_be(self):
        self.assertEqual(report.verdict(entry(5, 10, goal=5)), "met")
        self.assertEqual(report.verdict(entry(5.1, 10, goal=5)), "behind")

    def test_a_ratio_counts_more_than_the_figure(self):
        self.assertEqual(report.verdict(entry(5, 10, goal=1, go_ratio=2)), "met")
        self.assertEqual(report.verdict(entry(6, 10, goal=6, go_ratio=2)), "behind, figure met")
        self.assertEqual(report.verdict(entry(7, 10, goal=6, go_ratio=2)), "behind")

    def test_without_go_the_figure_counts(self):
        self.assertEqual(report.verdict(entry(6, goal=6, go_ratio=2)), "met")
        self.assertEqual(report.verdict(entry(6, go_ratio=2)), "")

    def test_a_value_may_be_at_most_so_many_times_that_of_go(self):
        self.assertEqual(report.verdict(entry(10.9, 10, at_most_go=1.1)), "met")
        self.assertEqual(report.verdict(entry(11.1, 10, at_most_go=1.1)), "behind")
        self.assertEqual(report.verdict(entry(11.1, at_most_go=1.1)), "")

    def test_the_goal_of_one_number_of_processors_is_not_that_of_another(self):
        e = report.entry("row", {"title": "", "unit": "us", "goal": {"1": 3}}, 2, {"coir": [5]}, {}, {})
        self.assertEqual(report.verdict(e), "")


class VerdictOfSeveralPeers(unittest.TestCase):
    def entry(self, coir, goal=None, **peers):
        ratios = {"raw epoll": 0.9, "Go": 1.25}
        goals = {"title": "", "unit": "us", "peer_ratios": ratios, **({"goal": {"1": goal}} if goal else {})}
        samples = {"coir": [coir], **{name.replace("_", " "): [value] for name, value in peers.items()}}
        return report.entry("row", goals, 1, samples, {}, {})

    def test_all_are_to_be_met(self):
        self.assertEqual(report.verdict(self.entry(10, raw_epoll=9, Go=13)), "met")
        self.assertEqual(report.verdict(self.entry(10, raw_epoll=8, Go=13)), "behind: raw epoll")
        self.assertEqual(report.verdict(self.entry(10, raw_epoll=8, Go=12)), "behind: raw epoll, Go")

    def test_and_the_figure_too(self):
        self.assertEqual(report.verdict(self.entry(10, goal=10, Go=13)), "met")
        self.assertEqual(report.verdict(self.entry(10, goal=9, Go=13)), "behind: the figure")

    def test_without_peers_there_is_none(self):
        self.assertEqual(report.verdict(self.entry(10)), "")


class NetRows(unittest.TestCase):
    def test_are_those_that_have_goals(self):
        with open(os.path.join(ROOT, "benchmarks", "net_goals.json"), encoding="utf-8") as f:
            of_values = {goal["row"] for goal in json.load(f).values()}
        self.assertEqual(of_values, {*net.DRIVEN, "net_http", *net.REDIS_PIPELINES})


class Growth(unittest.TestCase):
    def test_is_the_ratio_to_the_first(self):
        self.assertEqual(growth.growth([2, 2, 3, None]), [1, 1, 1.5, None])

    def test_has_no_ratio_to_nothing(self):
        self.assertEqual(growth.growth([0, 2]), [None, None])
        self.assertEqual(growth.growth([None, 2]), [None, None])

    def test_marks_what_is_above_the_limit(self):
        cells, above = growth.table([entry(10), entry(14, processors=8)], [2, 8], ["coir"], 1.3)
        self.assertEqual(above, ["row"])
        self.assertEqual(cells[1], ["row", "coir", "us", "10", "14", "1.4*", "above 1.3"])

    def test_does_not_mark_what_is_below(self):
        cells, above = growth.table([entry(10, 10), entry(13, 20, processors=8)], [2, 8], ["coir", "Go"], 1.3)
        self.assertEqual(above, [])
        self.assertEqual([row[-1] for row in cells[1:]], ["", "above 1.3"])


class Places(unittest.TestCase):
    class Known(programs.Program):
        def rows(self):
            return ["a", "b"]

    def test_are_only_where_a_row_says_something(self):
        goals = {"a": {"row": "a"}, "b_p50": {"row": "b", "least_processors": 2}}
        found = rounds.places(["a", "b"], [1, 2, 8], [self.Known("coir", "")], goals)
        self.assertEqual([(p.row, p.processors) for p in found], [("a", 1), ("a", 2), ("a", 8), ("b", 2), ("b", 8)])


if __name__ == "__main__":
    unittest.main()
