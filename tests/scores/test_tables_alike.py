import pytest

from lwm_agents.scores import masked
from lwm_agents.scores.tables import Table, compare_tables, read_table


def table(text: str) -> Table:
    found = read_table(text)
    assert found is not None, text
    return found


PSQL = " id | name\n----+------\n  1 | ann\n  2 | bob\n(2 rows)\n"
MYSQL = "+----+------+\n| id | name |\n+----+------+\n| 1  | ann  |\n| 2  | bob  |\n+----+------+\n"
MARKDOWN = "| id | name |\n|----|:----:|\n| 1 | ann |\n| 2 | bob |"


PLAIN = "id | name\n1 | ann\n2 | bob\n(2 rows)\n"
SQLITE = "id|name\n1|ann\n2|bob"


@pytest.mark.parametrize("text", [PSQL, MYSQL, MARKDOWN, PLAIN, SQLITE])
def test_rows_and_cells(text: str) -> None:
    assert [row for row in table(text).rows if row != ("(2 rows)",)] == [
        ("id", "name"),
        ("1", "ann"),
        ("2", "bob"),
    ]


def test_tabs_and_commas() -> None:
    assert table("a\tb\n1\t\n").rows == (("a", "b"), ("1", ""))
    assert table("a,b\n1,2\n").rows == (("a", "b"), ("1", "2"))


def test_listings_end_in_a_name() -> None:
    text = masked(
        "total 8\n-rw-r--r-- 1 ann staff 5 Jan  2 03:04 my file\n"
        "lrwxrwxrwx 1 ann staff 1 Jan  2 03:04 l -> a\n"
    )
    got = table(text)
    assert got.separator == "listing"
    assert [row[-1] for row in got.rows] == ["total 8", "my file", "l -> a"]


@pytest.mark.parametrize("text", ["", "one\ntwo", "a | b\nc", "a, b\nplain", "(0 rows)", "----"])
def test_other_text_is_no_table(text: str) -> None:
    assert read_table(text) is None


def test_a_row_that_agrees_by_half_counts_a_quarter() -> None:
    left, right = table("1|a\n2|b"), table("1|a\n2|c")
    assert compare_tables(left, right, "given") == pytest.approx((1 + 0.25) / 2)


def test_rows_in_another_order_lose_little_unless_it_was_asked_for() -> None:
    left, right = table("1|a\n2|b\n3|c"), table("3|c\n2|b\n1|a")
    assert compare_tables(left, right, "loose") == pytest.approx(0.9 + 0.1 / 3)
    assert compare_tables(left, right, "none") == 1
    assert compare_tables(left, right, "given") == pytest.approx(1 / 3)


def test_rows_of_a_listing_are_about_their_names() -> None:
    line = "-rw-r--r-- 1 r r 5 ⟦time⟧ {}"
    left, right = table(line.format("a")), table(line.format("b"))
    assert compare_tables(left, right, "loose") == 0
    bigger = table("-rw-r--r-- 1 r r 6 ⟦time⟧ a")
    assert compare_tables(left, bigger, "given") == pytest.approx(5 / 6)
