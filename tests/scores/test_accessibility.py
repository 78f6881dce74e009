import pytest

from lwm_agents.scores.accessibility import Node, compare_snapshots, read_snapshot

PAGE = """- banner [ref=e2]:
  - heading "Orders" [level=1] [ref=e3]
  - link "Home" [ref=e4] [cursor=pointer]:
    - /url: /home
- textbox "Search" [active] [ref=e5]: red shoes
- text: 3 items
"""


def nodes(text: str) -> tuple[Node, ...]:
    found = read_snapshot(text)
    assert found is not None, text
    return found


def test_nodes_have_depth_role_name_states_and_text_but_no_ref() -> None:
    assert nodes(PAGE) == (
        Node(0, "banner", ""),
        Node(1, "heading", '"Orders"', frozenset({"level=1"})),
        Node(1, "link", '"Home"'),
        Node(2, "/url", "/home"),
        Node(0, "textbox", '"Search" red shoes', frozenset({"active"})),
        Node(0, "text", "3 items"),
    )


def test_what_stands_around_the_snapshot_is_compared_as_lines() -> None:
    page = nodes('### Page state\n- button "Save" [ref=e1]\n- button \'x\'\n- button "Quit"')
    assert [node.role for node in page] == ["other", "button", "other", "button"]


@pytest.mark.parametrize(
    "text", ["", "a\nb", "- milk\n- bread", "- name: x\n- age: 3", "- [ ] todo"]
)
def test_other_text_is_no_snapshot(text: str) -> None:
    assert read_snapshot(text) is None


@pytest.mark.parametrize(
    ("line", "likeness"),
    [
        ('- button "Save" [ref=e9]', 1),
        ('  - button "Save"', 0.9),
        ('- button "Save" [disabled]', 0.8),
        ('- button "Send"', 0.3 + 0.4 * (0 + 2 / 6) / 2 + 0.3),
        ('- link "Save"', 0),
    ],
)
def test_what_a_node_is_worth(line: str, likeness: float) -> None:
    (one,), (other,) = nodes('- button "Save" [ref=e5]'), nodes(line)
    assert one.likeness(other) == pytest.approx(likeness)


def test_a_missing_node_costs_its_share() -> None:
    page = nodes(PAGE)
    assert compare_snapshots(page, page[:-1]) == pytest.approx(10 / 11)
